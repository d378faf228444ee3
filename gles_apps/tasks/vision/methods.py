"""The methods of tasks on pictures, by what they are called in MediaPipe."""

from __future__ import annotations

from typing import Generic, TypeVar

from gles_apps.tasks.image import Image
from gles_apps.tasks.options import ImageProcessingOptions
from gles_apps.tasks.task import VisionTask

R = TypeVar("R")
Processing = ImageProcessingOptions | None


class Detects(VisionTask[R], Generic[R]):
    """Tasks that find objects."""

    def detect(self, image: Image, image_processing_options: Processing = None) -> R:
        """The objects in a picture, in its image mode.

        Raises:
            ValueError: The task has another mode or is closed, or an argument is wrong.
        """
        return self._image(image, image_processing_options)

    def detect_for_video(
        self, image: Image, timestamp_ms: int, image_processing_options: Processing = None
    ) -> R:
        """The objects in a frame, in the video mode.

        Raises:
            ValueError: As `detect`; or the time is not later than the last frame's.
        """
        return self._frame(image, timestamp_ms, image_processing_options)

    def detect_async(
        self, image: Image, timestamp_ms: int, image_processing_options: Processing = None
    ) -> None:
        """Look at a frame in the live stream mode; `result_callback` gets the result.

        Raises:
            ValueError: As `detect_for_video`.
        """
        self._send(image, timestamp_ms, image_processing_options)


class Recognizes(VisionTask[R], Generic[R]):
    """Tasks that recognize gestures; see `Detects` for modes and errors."""

    def recognize(self, image: Image, image_processing_options: Processing = None) -> R:
        """The gestures in a picture."""
        return self._image(image, image_processing_options)

    def recognize_for_video(
        self, image: Image, timestamp_ms: int, image_processing_options: Processing = None
    ) -> R:
        """The gestures in a frame."""
        return self._frame(image, timestamp_ms, image_processing_options)

    def recognize_async(
        self, image: Image, timestamp_ms: int, image_processing_options: Processing = None
    ) -> None:
        """Look for gestures in a frame of a live stream."""
        self._send(image, timestamp_ms, image_processing_options)


class Classifies(VisionTask[R], Generic[R]):
    """Tasks that classify pictures; see `Detects` for modes and errors."""

    allows_region = True

    def classify(self, image: Image, image_processing_options: Processing = None) -> R:
        """The classes of a picture."""
        return self._image(image, image_processing_options)

    def classify_for_video(
        self, image: Image, timestamp_ms: int, image_processing_options: Processing = None
    ) -> R:
        """The classes of a frame."""
        return self._frame(image, timestamp_ms, image_processing_options)

    def classify_async(
        self, image: Image, timestamp_ms: int, image_processing_options: Processing = None
    ) -> None:
        """Classify a frame of a live stream."""
        self._send(image, timestamp_ms, image_processing_options)


class Segments(VisionTask[R], Generic[R]):
    """Tasks that make masks; see `Detects` for modes and errors."""

    allows_region = True

    def segment(self, image: Image, image_processing_options: Processing = None) -> R:
        """The masks of a picture."""
        return self._image(image, image_processing_options)

    def segment_for_video(
        self, image: Image, timestamp_ms: int, image_processing_options: Processing = None
    ) -> R:
        """The masks of a frame."""
        return self._frame(image, timestamp_ms, image_processing_options)

    def segment_async(
        self, image: Image, timestamp_ms: int, image_processing_options: Processing = None
    ) -> None:
        """Segment a frame of a live stream."""
        self._send(image, timestamp_ms, image_processing_options)


class Embeds(VisionTask[R], Generic[R]):
    """Tasks that make feature vectors; see `Detects` for modes and errors."""

    allows_region = True

    def embed(self, image: Image, image_processing_options: Processing = None) -> R:
        """The feature vectors of a picture."""
        return self._image(image, image_processing_options)

    def embed_for_video(
        self, image: Image, timestamp_ms: int, image_processing_options: Processing = None
    ) -> R:
        """The feature vectors of a frame."""
        return self._frame(image, timestamp_ms, image_processing_options)

    def embed_async(
        self, image: Image, timestamp_ms: int, image_processing_options: Processing = None
    ) -> None:
        """Make the feature vectors of a frame of a live stream."""
        self._send(image, timestamp_ms, image_processing_options)
