"""The base of tasks: running modes, live streams, and closing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, Generic, TypeVar

from gles_apps.tasks.components.containers import RectF
from gles_apps.tasks.image import Image
from gles_apps.tasks.network import PictureNetwork
from gles_apps.tasks.options import (
    BaseOptions,
    ImageProcessingOptions,
    VisionTaskRunningMode,
    validate_running_mode,
)
from gles_apps.tasks.runner import lease_runner
from gles_apps.tasks.stream import NOT_RUNNING, Stream
from gles_apps.vision.regions import Region
from gles_delegate import DelegateError, DelegationReport, ImageTransform
from gles_delegate.image.transform import Fit, Size
from gles_delegate.support.closing import Closing, on_error

R = TypeVar("R")
Self = TypeVar("Self", bound="Task[Any]")

MAX_TIMESTAMP_MS = 2**63 / 1000
"""The limit of timestamps: MediaPipe counts microseconds in 64 bits."""


class ImageTypeError(TypeError, AttributeError):
    """An argument is not a task's Image."""


@dataclass(frozen=True, repr=False)
class TaskReport:
    """Where a task runs.

    Attributes:
        device: The GPU's name, or LiteRT's CPU.
        networks: The report of each network, by its file's name; None on the CPU.

    Examples:
        >>> path = "face_detection_short_range.tflite"
        >>> with mp.tasks.vision.FaceDetector.create_from_model_path(path) as detector:
        ...     report = detector.report
        >>> [network.fully_delegated for network in report.networks.values()]
        [True]
    """

    device: str
    networks: Mapping[str, DelegationReport | None]

    def __str__(self) -> str:
        lines = [f"on {self.device}"]
        lines += [f"{name}: {report.summary}" for name, report in self.networks.items() if report]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<TaskReport {'; '.join(str(self).splitlines())}>"


class Task(Closing, Generic[R]):
    """Base of tasks: they own networks and a lease of a runner, and answer pictures or sounds.

    A task's `__init__` calls this one, and then makes its networks by `_network`; if that fails, it
    closes the task.

    Calls of closed tasks raise ValueError. Copies of a task share its networks. A task that is
    dropped is closed.

    Attributes:
        options: As given.
    """

    _options_type: type[Any]

    def __init__(self, options: Any) -> None:
        base = options.base_options
        if not isinstance(base, BaseOptions):
            raise TypeError(f"expected BaseOptions, found {type(base).__name__}")
        self.options = options
        self.assets = base.read_assets()
        self._networks: list[PictureNetwork] = []
        self._stream: Stream | None = None
        self._last_timestamp: int | None = None
        self._lease = lease_runner(base)
        self._runner = self._lease.runner

    @classmethod
    def create_from_model_path(cls: type[Self], model_path: Any) -> Self:
        """A task for single pictures or sounds, with default options; see `BaseOptions`."""
        return cls(cls._options_type(BaseOptions(model_asset_path=model_path)))

    @classmethod
    def create_from_options(cls: type[Self], options: Any) -> Self:
        """A task.

        Raises:
            FileNotFoundError: A file is missing.
            ModelError: A model is damaged, or not of the kind that the task needs (also a
                ValueError).
            ValueError: Options contradict each other.
            ContextError: There is no usable OpenGL ES context.
        """
        return cls(options)

    @property
    def report(self) -> TaskReport:
        """Where the networks run."""
        reports = {network.name: network.report for network in self._networks}
        return TaskReport(self._runner.name, reports)

    @property
    def network(self) -> PictureNetwork:
        """The only network, or a bundle's first."""
        return self._networks[0]

    def _network(self, name: str | None = None) -> PictureNetwork:
        model = self.assets.model() if name is None else self.assets.member(name)
        base = self.options.base_options
        network = self._runner.run(
            lambda: PictureNetwork(model, name or "model", self._runner, base)
        )
        self._networks.append(network)
        self._lease.own(network.close)
        return network

    @property
    def _is_closed(self) -> bool:
        return self._lease.is_closed

    def _require(self, mode: Enum) -> None:
        """Raise ValueError if the task is closed, or has another running mode."""
        if self._is_closed:
            raise ValueError(NOT_RUNNING)
        found = self.options.running_mode
        if found != mode:
            wanted, other = (each.value.replace("_", " ").lower() for each in (mode, found))
            raise ValueError(
                f"Task is not initialized with the {wanted} mode. Current running mode:{other} mode"
            )

    def _run(self, function: Callable[[], R]) -> R:
        if self._is_closed:
            raise ValueError(NOT_RUNNING)

        def run() -> R:
            if self._is_closed:  # since it was queued
                raise ValueError(NOT_RUNNING)
            return function()

        try:
            return self._runner.run(run)
        except DelegateError:
            if self._is_closed:  # with its runner, before `run`
                raise ValueError(NOT_RUNNING) from None
            raise

    def _start_stream(self, *, newest_only: bool) -> None:
        with on_error(self.close):
            if self._runner.is_apps:
                raise ValueError(
                    "expected BaseOptions.context None or an EglContext for a stream, found the "
                    "app's context: its thread must make the calls"
                )
            self._stream = Stream(newest_only=newest_only)
            self._lease.own(self._stream.end)

    def _advance(self, timestamp_ms: int) -> None:
        if not abs(timestamp_ms) < MAX_TIMESTAMP_MS:
            raise ValueError(f"expected a time in ms, a finite number, found {timestamp_ms}")
        if self._last_timestamp is not None and timestamp_ms <= self._last_timestamp:
            raise ValueError(
                "Input timestamp must be monotonically increasing. Found "
                f"{timestamp_ms} ms after {self._last_timestamp} ms."
            )
        self._last_timestamp = timestamp_ms

    def close(self) -> None:
        """Free the networks, after the items of a stream that wait and their callbacks. A stream
        refuses items from then on. In a callback, those that wait are dropped. A second call does
        nothing, on any thread.

        Raises:
            WrongThreadError, WrongContextError: See `GpuDelegate`; it stays open.
        """
        if self._stream is not None:
            self._stream.close()
        self._lease.close()


class VisionTask(Task[R]):
    """Base of tasks on pictures.

    In the live stream's mode, a thread of the task calls ``result_callback(result, image,
    timestamp_ms)`` in the order of the frames. A frame that waits while a newer one arrives is
    dropped. Errors of the callback are logged.
    """

    allows_region = False
    """Whether `ImageProcessingOptions.region_of_interest` is supported."""

    def __init__(self, options: Any) -> None:
        validate_running_mode(options.running_mode, options.result_callback)
        super().__init__(options)
        if options.running_mode == VisionTaskRunningMode.LIVE_STREAM:
            self._start_stream(newest_only=True)

    @property
    def is_stream(self) -> bool:
        """Whether pictures follow each other."""
        return bool(self.options.running_mode != VisionTaskRunningMode.IMAGE)

    def _sampling(self, region: Region, like: ImageTransform, fit: Fit) -> ImageTransform:
        """The transform from a region to a network, as MediaPipe's ImageToTensorCalculator on the
        CPU (image_to_tensor_converter_opencv.cc) unless `BaseOptions.antialias` is set.

        Args:
            region: In pixels of the picture.
            like: Gives channels, mean and std.
            fit: "letterbox" if the graph sets keep_aspect_ratio, and then BORDER_ZERO, too.
                Otherwise the picture's edge is replicated.
        """
        placed = region.transform
        antialias = self.options.base_options.antialias
        return replace(
            like,
            roi=placed.roi,
            rotation=placed.rotation,
            fit=fit,
            matrix=None,
            antialias=antialias,
            opencv=not antialias,
            border="padding" if fit == "letterbox" else "replicate",
        )

    def _process(self, image: Image, region: Region, time_ms: int | None) -> R:
        """The result for a picture, inside `TaskRunner.run`.

        Args:
            region: The part to see, in pixels, without letterbox.
            time_ms: None for single pictures.
        """
        raise NotImplementedError

    def process(
        self, image: Image, image_processing_options: ImageProcessingOptions | None = None
    ) -> R:
        """The result for a picture, in the image mode; `detect`, `classify`, `segment` and others
        are MediaPipe's names of it.

        Raises:
            ValueError: The task has another mode or is closed, or an argument is wrong.
        """
        self._require(VisionTaskRunningMode.IMAGE)
        return self._answer(image, None, image_processing_options)

    def process_frame(
        self,
        image: Image,
        timestamp_ms: int,
        image_processing_options: ImageProcessingOptions | None = None,
    ) -> R:
        """The result for a frame, in the video mode; see `process`.

        Raises:
            ValueError: As `process`; or the time is not later than the last frame's.
        """
        self._require(VisionTaskRunningMode.VIDEO)
        self._check(image, image_processing_options)
        self._advance(timestamp_ms)
        return self._answer(image, timestamp_ms, image_processing_options)

    def process_async(
        self,
        image: Image,
        timestamp_ms: int,
        image_processing_options: ImageProcessingOptions | None = None,
    ) -> None:
        """Look at a frame in the live stream mode; `result_callback` gets the result.

        Raises:
            ValueError: As `process_frame`.
        """
        self._require(VisionTaskRunningMode.LIVE_STREAM)
        self._check(image, image_processing_options)
        self._advance(timestamp_ms)
        assert self._stream is not None
        self._stream.send(partial(self._deliver, image, timestamp_ms, image_processing_options))

    def check(self) -> None:
        """Raise ContextLostError if the context is lost, ValueError if the task is closed."""
        self._runner.run(self.network.check)

    def _deliver(
        self, image: Image, timestamp_ms: int, options: ImageProcessingOptions | None
    ) -> Callable[[], object]:
        """Answer a frame; return the call of the callback."""
        result = self._answer(image, timestamp_ms, options)
        return lambda: self.options.result_callback(result, image, timestamp_ms)

    def _check(self, image: Image, options: ImageProcessingOptions | None) -> None:
        if not isinstance(image, Image):
            is_path = isinstance(image, (str, os.PathLike))
            call = "Image.create_from_file(path)" if is_path else "Image(ImageFormat.SRGB, array)"
            raise ImageTypeError(
                f"expected an Image, found {type(image).__name__}: make one with {call}"
            )
        if image.uses_gpu() and not self._runner.is_on_gpu:
            raise ValueError("expected an array, found a texture: Delegate.CPU does not read them")
        if options is None:
            return
        if options.rotation_degrees % 90:
            raise ValueError("Expected rotation to be a multiple of 90°.")
        region = options.region_of_interest
        if region is None:
            return
        if not self.allows_region:
            raise ValueError("This task doesn't support region-of-interest.")
        if region.left >= region.right or region.top >= region.bottom:
            raise ValueError("Expected RectF with left < right and top < bottom.")
        if min(region.left, region.top) < 0 or max(region.right, region.bottom) > 1:
            raise ValueError("Expected RectF values to be in [0,1].")

    def _answer(
        self, image: Image, timestamp_ms: int | None, options: ImageProcessingOptions | None
    ) -> R:
        self._check(image, options)

        def process() -> R:
            if self._runner.is_on_gpu and self._runner.fits(image):
                self._runner.textures(image)
            return self._process(image, seen_region(image.size, options), timestamp_ms)

        return self._run(process)


def seen_region(picture: Size, options: ImageProcessingOptions | None) -> Region:
    """The region of interest and its rotation (ConvertToNormalizedRect in MediaPipe's
    base_vision_task_api.h). A quarter turn swaps its sides, so that the turned region is upright.
    """
    height, width = picture
    options = options or ImageProcessingOptions()
    seen = options.region_of_interest or RectF(0.0, 0.0, 1.0, 1.0)
    sides = ((seen.right - seen.left) * width, (seen.bottom - seen.top) * height)
    center = ((seen.left + seen.right) / 2 * width, (seen.top + seen.bottom) / 2 * height)
    if options.rotation_degrees % 180:
        sides = sides[::-1]
    return Region(center, *sides, -float(options.rotation_degrees))
