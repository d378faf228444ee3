"""ImageSegmenter: masks of classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gles_delegate.errors import ModelError
from gles_delegate.gl.upload import PixelTexture
from gles_delegate.image.output import ImageOutput
from gles_delegate.image.sampling import resized
from gles_delegate.image.transform import ImageTransform
from gles_delegate.model.flatbuffer import FlatTable
from gles_delegate.model.graph import Array
from gles_delegate.tasks.image import Image, ImageFormat
from gles_delegate.tasks.options import BaseOptions, VisionTaskRunningMode
from gles_delegate.tasks.vision.finding import require_normalization
from gles_delegate.tasks.vision.methods import Segments
from gles_delegate.vision.classes import class_name
from gles_delegate.vision.detection import sigmoid
from gles_delegate.vision.drawing import Drawing, palette
from gles_delegate.vision.regions import Region

ACTIVATIONS = ("none", "sigmoid", "softmax")
"""By their number in image_segmenter_metadata_schema.fbs."""
UNLABELED = 255
"""The category of pixels that a mask of one class does not cover."""


@dataclass
class ImageSegmenterResult:
    """Masks of a picture, of its size.

    Attributes:
        confidence_masks: Float32 [height, width, 1] for each class, if they are wanted.
        category_mask: Uint8 [height, width, 1], the number of the best class; for a single class,
            0 where its score is above 0.5, otherwise 255. If it is wanted.
        texture: The masks in a texture, of the network's size; see
            `ImageSegmenterOptions.output_texture`. It changes with the next picture, and is freed
            when the task is closed.
    """

    confidence_masks: list[Image] | None = None
    category_mask: Image | None = None
    texture: Any = field(default=None, repr=False)

    def draw(self, drawing: Drawing, labels: Sequence[str] = ()) -> None:
        """Draw a legend of the classes in the category mask, but not the mask.

        Class 0 is the background, unless it is the only class.

        Args:
            drawing: Gets the legend.
            labels: `ImageSegmenter.labels`; without them, the legend has numbers.

        Raises:
            ValueError: There is no category mask.
        """
        if self.category_mask is None:
            raise ValueError("expected a category mask: set output_category_mask")
        present = set(np.unique(self.category_mask.numpy_view()).tolist())
        shown = sorted(present - ({UNLABELED} if UNLABELED in present else {0}))
        colors = palette(UNLABELED)
        drawing.legend([class_name(labels, i) for i in shown], [colors[i] for i in shown])


@dataclass
class ImageSegmenterOptions:
    """Options of `ImageSegmenter`.

    Attributes:
        base_options: The model.
        running_mode: Single pictures, a video or a live stream.
        output_confidence_masks: Whether to return a mask for each class.
        output_category_mask: Whether to return the best class of each pixel.
        result_callback: Called in a live stream with the result, the picture and its time in ms.
        output_texture: Leave the scores on the GPU: in a texture that this makes of them. The
            network's other masks are then read back only if they are wanted. Not MediaPipe's.
    """

    base_options: BaseOptions
    running_mode: VisionTaskRunningMode = VisionTaskRunningMode.IMAGE
    output_confidence_masks: bool = True
    output_category_mask: bool = False
    result_callback: Callable[[ImageSegmenterResult, Image, int], None] | None = None
    output_texture: ImageOutput | None = None


class ImageSegmenter(Segments[ImageSegmenterResult]):
    """Makes masks of classes by a network with scores [1, height, width, classes].

    Attributes:
        labels: Names of the classes, in the order of the masks.

    Examples:
        >>> path = "ball_segmenter.tflite"
        >>> with mp.tasks.vision.ImageSegmenter.create_from_model_path(path) as segmenter:
        ...     (ball,) = segmenter.segment(picture).confidence_masks
        >>> ball.numpy_view().shape
        (200, 320, 1)
    """

    @classmethod
    def _default_options(cls, base: BaseOptions) -> ImageSegmenterOptions:
        return ImageSegmenterOptions(base)

    _texture: PixelTexture | None = None

    def _load(self) -> None:
        options: ImageSegmenterOptions = self.options
        wants_texture = options.output_texture is not None
        self._wants_masks = options.output_confidence_masks or options.output_category_mask
        if not (self._wants_masks or wants_texture):
            raise ValueError(
                "At least one of `output_confidence_masks` and `output_category_mask` must be set."
            )
        if wants_texture and not self._place.is_on_gpu:
            raise ValueError("expected the GPU for output_texture, found LiteRT's CPU")
        network = self._segmenter = self._network()
        shape = network.shapes[-1]
        if len(shape) != 4 or shape[0] != 1:
            raise ModelError(
                f"expected scores [1, height, width, classes], found outputs {network.shapes}"
            )
        require_normalization(network)
        self.labels = list(network.metadata.outputs[-1].labels)
        custom = network.metadata.custom.get("SEGMENTER_METADATA")
        number = FlatTable.root(custom).scalar(0, "int8") if custom else 0
        self._activation = ACTIVATIONS[number] if 0 <= number < len(ACTIVATIONS) else "none"
        if options.output_texture is not None:
            require_colors(shape[-1], options.output_texture)
            self._texture = self._place.new_texture((*shape[1:3], 4))
            self._lease.own(self._texture.release)
            network.write_to(len(network.outputs) - 1, self._texture, options.output_texture)
        self._like, self._opencv = network.transform, True
        if network.transform.channels == "rgba":
            self._like, self._opencv = without_alpha(network.transform), False

    def _process(
        self, image: Image, region: Region, timestamp_ms: int | None
    ) -> ImageSegmenterResult:
        transform = self._sampling(region, self._like, "stretch")
        if not self._opencv:
            transform = replace(transform, opencv=False, antialias=True)
        *_, scores = self._segmenter(image, transform, self._wants_masks)
        confidence = category = None
        if self.options.output_confidence_masks:
            active = activated(scores[0], self._activation)
            planes = np.moveaxis(resized(active, image.size), 2, 0)
            confidence = [Image(ImageFormat.VEC32F1, plane) for plane in planes]
        if self.options.output_category_mask:
            classes = categories(resized(scores[0], image.size, corners=True), self._activation)
            category = Image(ImageFormat.GRAY8, classes)
        result = ImageSegmenterResult(confidence, category, self._texture)
        if self._texture is not None:
            vars(result)["_lease"] = self._lease  # which frees the texture
        return result


def require_colors(classes: int, output: ImageOutput) -> None:
    """Raise ValueError if a texture cannot show all classes."""
    colors = len(output.palette or ())
    if classes > (colors or 4):
        raise ValueError(
            f"expected an ImageOutput with a palette of {classes} or more colors, one for each "
            f"class, found {colors} colors; without a palette, a texture has up to 4 classes"
        )


def without_alpha(transform: ImageTransform) -> ImageTransform:
    """The same for colors, and 0 for alpha: networks of hair take the previous mask there, and
    MediaPipe's image_segmenter_graph.cc passes none.
    """
    mean = np.broadcast_to(0.0 if transform.mean is None else transform.mean, 4).tolist()
    std = np.broadcast_to(255.0 if transform.std is None else transform.std, 4).tolist()
    return replace(transform, mean=(*mean[:3], 255.0), std=tuple(std))


def activated(scores: Array, activation: str) -> Array:
    """Scores [..., classes] after "none", "sigmoid" or "softmax"."""
    if activation == "sigmoid":
        return np.asarray(sigmoid(scores), np.float32)
    if activation == "softmax":
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        result: Array = powers / powers.sum(-1, keepdims=True)
        return result
    return scores


def categories(scores: Array, activation: str) -> Array:
    """The best class of each pixel, uint8 [height, width]; see `ImageSegmenterResult`
    (ProcessForCategoryMaskCpu in MediaPipe's tensors_to_segmentation_calculator.cc).
    """
    if scores.shape[2] == 1:
        share = activated(scores, "sigmoid") if activation == "sigmoid" else scores
        return np.where(share[..., 0] > 0.5, 0, UNLABELED).astype(np.uint8)
    best: Array = scores.argmax(2).astype(np.uint8)
    return best
