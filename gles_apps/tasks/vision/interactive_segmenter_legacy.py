"""InteractiveSegmenterLegacy: the mask of the object at a point."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from gles_apps.tasks.components.containers import NormalizedKeypoint
from gles_apps.tasks.image import Image, ImageFormat
from gles_apps.tasks.network import COLORED
from gles_apps.tasks.options import BaseOptions, ImageProcessingOptions
from gles_apps.tasks.vision.image_segmenter import (
    ImageSegmenterOptions,
    ImageSegmenterResult,
    Segmenter,
)
from gles_delegate import ModelError
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array

SEEN = 512
"""Sides of the picture that MediaPipe's network sees."""

InteractiveSegmenterLegacyResult = ImageSegmenterResult


@dataclass
class RegionOfInterest:
    """A region to segment.

    Attributes:
        format: KEYPOINT.
        keypoint: A point of the object, in shares of the picture.
    """

    class Format(enum.Enum):
        """Kinds of regions."""

        UNSPECIFIED = 0
        KEYPOINT = 1

    format: Format
    keypoint: NormalizedKeypoint | None = None


@dataclass
class InteractiveSegmenterLegacyOptions:
    """Options of `InteractiveSegmenterLegacy`.

    Attributes:
        base_options: The model.
        output_confidence_masks: Whether to return a mask for each class.
        output_category_mask: Whether to return the best class of each pixel.
    """

    base_options: BaseOptions
    output_confidence_masks: bool = True
    output_category_mask: bool = False


class InteractiveSegmenterLegacy(Segmenter):
    """Makes the mask of the object at a point, by a network whose fourth channel shows the point.

    Attributes:
        labels: Names of the classes, in the order of the masks.

    Examples:
        >>> Segmenter = mp.tasks.vision.InteractiveSegmenterLegacy
        >>> region = mp.tasks.vision.InteractiveSegmenterLegacyRegionOfInterest
        >>> point = mp.tasks.components.containers.NormalizedKeypoint(0.5, 0.5)
        >>> with Segmenter.create_from_model_path("magic_touch.tflite") as segmenter:
        ...     result = segmenter.segment(picture, region(region.Format.KEYPOINT, point))
        >>> result.confidence_masks[0].numpy_view().shape
        (200, 320, 1)
    """

    _options_type = InteractiveSegmenterLegacyOptions

    sees_alpha = True

    def __init__(self, options: InteractiveSegmenterLegacyOptions) -> None:
        masks = ImageSegmenterOptions(
            options.base_options,
            output_confidence_masks=options.output_confidence_masks,
            output_category_mask=options.output_category_mask,
        )
        super().__init__(masks)
        network = self.network
        if network.transform.channels != "rgba":
            self.close()
            raise ModelError(
                "expected a network with an input [1, height, width, 4], of which the last channel "
                f"shows the point, found {network.inputs[network.picture]['shape'].tolist()}"
            )

    def segment(
        self,
        image: Image,
        roi: RegionOfInterest,
        image_processing_options: ImageProcessingOptions | None = None,
    ) -> ImageSegmenterResult:
        """The masks of the object at a point.

        Args:
            image: An array of colors.

        Raises:
            ValueError: The task is closed, the picture is a texture or has no colors, or the
                region has no point.
        """
        point = roi.keypoint
        if point is None or point.x is None or point.y is None:
            raise ValueError("Unrecognized format. Expected a RegionOfInterest with a keypoint")
        if roi.format != RegionOfInterest.Format.KEYPOINT:
            raise ValueError("RegionOfInterest format not specified.")
        self._check(image, image_processing_options)
        if image.uses_gpu() or image.image_format not in COLORED:
            raise ValueError("expected an array of colors, found a texture, planes or gray")
        marked = np.empty((*image.size, 4), np.uint8)
        marked[..., :3] = image.numpy_view()[..., :3]
        marked[..., 3] = 255 * disc((point.x, point.y), image.size)
        return self.process(Image(ImageFormat.SRGBA, marked), image_processing_options)


def disc(point: tuple[float, float], picture: Size) -> Array:
    """Which pixels of a picture show a point: a disc whose radius in the network's picture is 1
    (interactive_segmenter_graph.cc), by Bresenham's algorithm as in OpenCV.

    Args:
        point: x and y in shares of the picture.
        picture: Its height and width.
    """
    height, width = picture
    result = np.zeros(picture, np.bool_)
    if not (0 <= point[0] <= 1 and 0 <= point[1] <= 1):
        return result
    x = int(point[0] * width)
    y = int(point[1] * height)
    across = round(max(width / SEEN, height / SEEN, 1.0))
    along = 0
    error = 0
    step = 2 * across - 1
    while across >= along:
        for reach, offset in ((across, along), (along, across)):
            for row in {y - offset, y + offset}:
                if 0 <= row < height:
                    result[row, max(x - reach, 0) : max(x + reach + 1, 0)] = True
        error += 2 * along + 1
        along += 1
        if error > 0:
            error -= step
            across -= 1
            step -= 2
    return result
