"""ImageSegmenter: masks of classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from gles_apps.tasks.classes import softmax
from gles_apps.tasks.components.containers import Drawn, Row
from gles_apps.tasks.image import Image, ImageFormat, ResultImage
from gles_apps.tasks.options import VisionTaskOptions
from gles_apps.tasks.runner import LeasedTexture
from gles_apps.tasks.task import VisionTask
from gles_apps.tasks.vision.methods import Segments
from gles_apps.vision.classes import class_name, require_labels
from gles_apps.vision.detection import sigmoid
from gles_apps.vision.drawing import Drawing, palette
from gles_apps.vision.regions import Region
from gles_delegate import ImageOutput, ModelError
from gles_delegate.image.transform import Size, resized
from gles_delegate.model.flatbuffer import FlatTable
from gles_delegate.model.graph import Array
from gles_delegate.support.closing import on_error

ACTIVATIONS = ("none", "sigmoid", "softmax")
"""By their number in image_segmenter_metadata_schema.fbs."""
UNLABELED = 255
"""The category of pixels that a mask of one class does not cover."""
NUMBERS = 64
"""Colors in a texture of class numbers."""
SPECK = 0.002
"""Minimum share of a class in a legend."""


@dataclass
class ImageSegmenterResult(Drawn):
    """Masks of a picture, of its size.

    Attributes:
        confidence_masks: Float32 [height, width, 1] for each class, if they are wanted; none if the
            network has class numbers.
        category_mask: Uint8 [height, width, 1], the number of the best class; for a single class,
            0 where its score is above 0.5, otherwise 255. If it is wanted.
        texture: The masks in a texture, of the network's size; see
            `ImageSegmenterOptions.output_texture`. It changes with the next picture, and is freed
            when the task is closed.
        shares: The share of the pixels of each class that has any, by its number in the category
            mask, in a texture of classes. Not MediaPipe's.
        labels: `ImageSegmenter.labels`. Not MediaPipe's.
    """

    confidence_masks: list[Image] | None = None
    category_mask: Image | None = None
    texture: LeasedTexture | None = field(default=None, repr=False)
    shares: dict[int, float] | None = None
    labels: Sequence[str] = field(default=(), repr=False)

    def draw(self, drawing: Drawing) -> None:
        """Draw the category mask, if there is one, and a legend of its classes.

        Class 0 is the background, unless it is the only class; it stays clear.

        Raises:
            ValueError: There is no category mask, and no texture of classes.
        """
        listed, background = self._legend()
        colors = class_colors(UNLABELED + 1, background)
        if self.category_mask is not None:
            numbers = self.category_mask.numpy_view()[..., 0]
            drawing.overlay(np.array(colors, np.uint8)[numbers])
        drawing.legend([class_name(self.labels, i) for i in listed], [colors[i] for i in listed])

    @property
    def listed(self) -> list[int]:
        """The classes in the legend: all but the background and specks."""
        return self._legend()[0]

    def _legend(self) -> tuple[list[int], int]:
        """The classes in the legend, and the background's number."""
        shares = self._all_shares()
        background = UNLABELED if len(self.labels) == 1 or UNLABELED in shares else 0
        return [i for i, share in shares.items() if share > SPECK and i != background], background

    def _all_shares(self) -> dict[int, float]:
        if self.category_mask is not None:
            numbers = self.category_mask.numpy_view()
            counts = np.bincount(numbers.ravel())
            return {i: float(counts[i] / numbers.size) for i in np.flatnonzero(counts).tolist()}
        if self.shares is None:
            raise ValueError("expected a category mask: set output_category_mask")
        return self.shares

    def rows(self, size: Size) -> list[Row]:
        """A row for each class, the largest first: class, label and share of the pixels.

        Pixels outside the only class of a network have no row.

        Raises:
            ValueError: As `draw`.
        """
        return [
            {"class": i, "label": class_name(self.labels, i), "share": share}
            for i, share in sorted(self._all_shares().items(), key=lambda item: -item[1])
            if i != UNLABELED
        ]


@dataclass
class ImageSegmenterOptions(VisionTaskOptions):
    """Options of `ImageSegmenter`.

    Attributes:
        base_options: The model.
        running_mode: Single pictures, a video or a live stream.
        display_names_locale: See `components.processors.ClassifierOptions`.
        output_confidence_masks: Whether to return a mask for each class.
        output_category_mask: Whether to return the best class of each pixel.
        result_callback: Called in a live stream with the result, the picture and its time in ms.
        output_texture: Leave the scores on the GPU: in a texture that this makes of them, or
            "classes": one with the drawing's colors of the best classes, for a network of scores.
            The network's other masks are then read back only if they are wanted. Not MediaPipe's.
        labels: Class names; None: those in the metadata. Not MediaPipe's.
    """

    display_names_locale: str = "en"
    output_confidence_masks: bool = True
    output_category_mask: bool = False
    result_callback: Callable[[ImageSegmenterResult, Image, int], None] | None = None
    output_texture: ImageOutput | Literal["classes"] | None = None
    labels: Sequence[str] | None = None


class Segmenter(VisionTask[ImageSegmenterResult]):
    """Base of tasks that make masks."""

    sees_alpha = False
    """Whether a network of four channels sees the picture's alpha; otherwise it sees 0."""

    def __init__(self, options: ImageSegmenterOptions) -> None:
        super().__init__(options)
        self._texture: LeasedTexture | None = None
        with on_error(self.close):
            self._wants_masks = options.output_confidence_masks or options.output_category_mask
            if not self._wants_masks and options.output_texture is None:
                raise ValueError(
                    "At least one of `output_confidence_masks` and `output_category_mask` must be "
                    "set."
                )
            network = self._network()
            network.sees_alpha = self.sees_alpha
            shape = network.shapes[-1]
            scores = network.outputs[-1]
            is_real = np.dtype(scores["dtype"]).kind == "f" or scores["quantization"][0]
            self._are_numbers = not is_real
            if not (len(shape) == 4 or (len(shape) == 3 and self._are_numbers)) or shape[0] != 1:
                raise ModelError(
                    f"expected scores [1, height, width, classes], found an output {list(shape)}"
                )
            classes = shape[3] if len(shape) == 4 else 1
            self._is_single = classes == 1 and not self._are_numbers
            network.require_normalization()
            self.labels = list(network.metadata.outputs[-1].labels)
            if options.labels is not None:
                require_labels(options.labels if classes > 1 else (), classes)
                self.labels = list(options.labels)
            custom = network.metadata.custom.get("SEGMENTER_METADATA")
            number = FlatTable.root(custom).scalar(0, "int8") if custom else 0
            self._activation = ACTIVATIONS[number] if 0 <= number < len(ACTIVATIONS) else "none"
            self._classes: list[tuple[int, int, int, int]] = []
            output = options.output_texture
            if output is not None:
                self._runner.run(lambda: self._write_to_texture(shape, output))
            self._like = network.transform
            self._opencv = network.transform.depth != 4

    def _write_to_texture(
        self, shape: Sequence[int], output: ImageOutput | Literal["classes"]
    ) -> None:
        if not self._runner.is_on_gpu:
            raise ValueError("expected the GPU for output_texture, found LiteRT's CPU")
        if output == "classes":
            self._classes = class_colors(NUMBERS if self._are_numbers else max(shape[-1], 2), 0)
            threshold = 0.0 if self._activation == "sigmoid" else 0.5
            output = ImageOutput(palette=self._classes, threshold=threshold)
        require_colors(shape[-1], output)
        self._texture = LeasedTexture(self._lease, (*shape[1:3], 4))
        self.network.write_to(len(self.network.outputs) - 1, self._texture.glo, output)

    def _process(self, image: Image, region: Region, time_ms: int | None) -> ImageSegmenterResult:
        if not self._opencv:  # MediaPipe's graph of four channels does not turn pictures
            width, height = (region.width, region.height)[:: -1 if region.rotation % 180 else 1]
            region = Region(region.center, width, height)
        transform = self._sampling(region, self._like, "stretch")
        if not self._opencv:
            transform = replace(transform, opencv=False, antialias=True)
        *_, scores = self.network(image, transform, self._wants_masks)
        confidence: list[Image] | None = None
        category = None
        if self.options.output_confidence_masks and not self._are_numbers:
            active = activated(scores[0], self._activation)
            planes = np.moveaxis(resized(active, image.size), 2, 0)
            confidence = [ResultImage(ImageFormat.VEC32F1, plane) for plane in planes]
        if self.options.output_category_mask:
            if self._are_numbers:
                numbers = scores.reshape(scores.shape[1:3]).clip(0, UNLABELED).astype(np.uint8)
                pairs = zip(numbers.shape, image.size, strict=True)
                rows, columns = (((np.arange(n) + 0.5) * old // n).astype(int) for old, n in pairs)
                best = numbers[np.ix_(rows, columns)]
            else:
                best = categories(resized(scores[0], image.size, corners=True), self._activation)
            category = ResultImage(ImageFormat.GRAY8, best)
        shares = self._shares_of_texture() if self._classes else None
        return ImageSegmenterResult(confidence, category, self._texture, shares, self.labels)

    def _shares_of_texture(self) -> dict[int, float]:
        assert self._texture is not None
        read = self._runner.read(self._texture).view(np.uint32)
        pixels, counts = np.unique(read, return_counts=True)
        by_color = dict(zip(pixels.tolist(), (counts / counts.sum()).tolist(), strict=True))
        keys = np.array(self._classes, np.uint8).view(np.uint32).ravel().tolist()
        shares = {i: by_color[key] for i, key in enumerate(keys) if key in by_color}
        if self._is_single:
            return {number: shares[i] for i, number in ((1, 0), (0, UNLABELED)) if i in shares}
        return shares


class ImageSegmenter(Segmenter, Segments[ImageSegmenterResult]):
    """Makes masks of classes by a network with scores [1, height, width, classes], or with class
    numbers, integers [1, height, width] or [1, height, width, 1].

    Attributes:
        labels: Names of the classes, in the order of the masks.

    Examples:
        >>> path = "ball_segmenter.tflite"
        >>> with mp.tasks.vision.ImageSegmenter.create_from_model_path(path) as segmenter:
        ...     (ball,) = segmenter.segment(picture).confidence_masks
        >>> ball.numpy_view().shape
        (200, 320, 1)
    """

    _options_type = ImageSegmenterOptions


def class_colors(count: int, background: int) -> list[tuple[int, int, int, int]]:
    """The colors of classes in drawings, RGBA; clear for the background. The only class has the
    color of a first one beside a background.
    """
    colors = [(*color, 255) for color in palette(count)]
    if background == UNLABELED:
        colors[0] = colors[1]
    colors[background] = (0, 0, 0, 0)
    return colors


def require_colors(classes: int, output: ImageOutput) -> None:
    """Raise ValueError if a texture cannot show all classes."""
    colors = len(output.palette or ())
    if classes > (colors or 4):
        raise ValueError(
            f"expected an ImageOutput with a palette of {classes} or more colors, one for each "
            f"class, found {colors} colors; without a palette, a texture has up to 4 classes"
        )


def activated(scores: Array, activation: str) -> Array:
    """Scores [..., classes] after "none", "sigmoid" or "softmax"."""
    if activation == "sigmoid":
        return np.asarray(sigmoid(scores), np.float32)
    return softmax(scores) if activation == "softmax" else scores


def categories(scores: Array, activation: str) -> Array:
    """The best class of each pixel, uint8 [height, width]; see `ImageSegmenterResult`
    (ProcessForCategoryMaskCpu in MediaPipe's tensors_to_segmentation_calculator.cc).
    """
    if scores.shape[2] == 1:
        share = activated(scores, "sigmoid") if activation == "sigmoid" else scores
        return np.where(share[..., 0] > 0.5, 0, UNLABELED).astype(np.uint8)
    return np.asarray(scores.argmax(2), np.uint8)
