"""Pictures to tensors: crop, sample, convert and normalize."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np

from gles_delegate.errors import ModelError
from gles_delegate.image.colors import CHANNELS
from gles_delegate.image.sampling import planes_of, sampled_colors
from gles_delegate.model.dtypes import BYTE_LIMITS
from gles_delegate.model.graph import Array
from gles_delegate.model.metadata import Metadata, TensorMetadata

Fit: TypeAlias = Literal["stretch", "letterbox", "crop"]
Channels: TypeAlias = Literal["rgb", "bgr", "gray", "rgba", "rgb0"]
Yuv: TypeAlias = Literal["bt601", "bt709", "bt2020"]
Packed: TypeAlias = Literal["yuyv", "uyvy"]
Siting: TypeAlias = Literal["center", "left"]
Border: TypeAlias = Literal["padding", "replicate"]
Align: TypeAlias = Literal["center", "corner"]
Size: TypeAlias = tuple[int, int]  # height and width
EDGE = 1e-3  # rounding tolerance in pixels of positions at the picture's edge

REACH: dict[str, float] = {"padding": EDGE, "replicate": 1e9}
"""Distance in pixels from the picture up to which positions get its colors, by border."""

MAX_SAMPLES = 16  # limit of the samples along a tensor pixel's side, for its mean


@dataclass(frozen=True)
class ImageTransform:
    """How a picture becomes the tensor [1, height, width, channels] of a network.

    Positions are in pixels from the top left corner: the pixel (column 0, row 0) covers [0, 1)
    in both directions, and its center is (0.5, 0.5). The center of each tensor pixel maps to a
    position in the picture. The color there is interpolated between the four nearest pixel
    centers (bilinear, clamped to the picture's edge); `border` sets the color outside. Where the
    picture shrinks, each tensor pixel gets the mean over its area.

    A picture is one texture or array of colors, or the planes of video: two (Y, then interleaved
    UV: NV12) or three (Y, U, V: I420). Chroma planes may have the sizes of 4:2:0, 4:2:2 or 4:4:4.

    Attributes:
        roi: The region to show: left, top, width and height in pixels. None: the whole picture.
        rotation: Clockwise rotation of the region about its center, in degrees: a face rotated
            clockwise by that angle becomes upright. Without `roi`, the region grows to contain the
            whole picture.
        fit: "stretch": ignore the region's aspect ratio. "letterbox": keep it, and show more
            around the region. "crop": keep it, and show less of the region.
        align: What a letterbox or a crop keeps in place: the region's "center", or its top left
            "corner", which is then the tensor's.
        matrix: Instead of these four: the rows (a, b, c), (d, e, f) of the map from a position
            (x, y) in the tensor to the position (a x + b y + c, d x + e y + f) in the picture.
        flip_x: Mirror the picture first; `roi` refers to the mirrored picture.
        flip_y: The picture's first row is the bottom one, as in textures drawn by OpenGL.
        channels: Channels of the tensor: "rgb", "bgr", "rgba", "rgb0" (with the color 0 for
            alpha), or "gray" (BT.601 luma).
        mean: The tensor gets (color - mean) / std, for colors from 0 to 255. A number, or one per
            channel. Without mean and std: 0 to 1 in float and quantized 16-bit tensors; in other
            integer tensors the color itself, and in int8 the color minus 128.
        std: See `mean`.
        padding: The color outside the picture, 0 to 255; with "replicate", only more than 1e9
            pixels away from it.
        yuv: The standard of the conversion from planes to RGB.
        full_range: Y, U and V range from 0 to 255 (JPEG), not from 16 to 235 and 240 (video).
        siting: Where a chroma sample lies. "center": in the middle of its pixels (JPEG). "left":
            in the middle of its left column of pixels (H.264, most video).
        packed: The picture has the bytes of 4:2:2, "yuyv" (YUY2) or "uyvy", as webcams send them:
            a texture of half the width with four channels, or an array [height, width, 2].
        antialias: Where the picture shrinks, average over the area of each tensor pixel: up to
            16 x 16 interpolated colors, at most a pixel apart. False: one color at its center, as
            GPU samplers do, which skips pixels and is faster.
        border: The color outside the picture: "padding", or "replicate" for the nearest edge
            pixel, as in the training of MediaPipe's landmark networks.
        opencv: Sample as OpenCV's warpPerspective with INTER_LINEAR, as MediaPipe does on the CPU:
            the upper left corners of tensor pixels map to corners in the picture, not centers to
            centers; positions are rounded to 1/32 pixel and colors to integers; the picture's edge
            fades into the padding. It needs ``antialias=False``.

    Raises:
        ValueError: Options are unknown, contradict each other, or are not finite.

    Examples:
        >>> picture = np.full((480, 640, 3), 255, np.uint8)
        >>> transform = gd.ImageTransform(fit="letterbox", mean=127.5, std=127.5)
        >>> tensor = transform.apply(picture, (192, 192))
        >>> tensor.shape, tensor[0, 96, 96].tolist(), tensor[0, 0, 0].tolist()
        ((1, 192, 192, 3), [1.0, 1.0, 1.0], [-1.0, -1.0, -1.0])
    """

    roi: tuple[float, float, float, float] | None = None
    rotation: float = 0.0
    fit: Fit = "stretch"
    matrix: tuple[tuple[float, float, float], tuple[float, float, float]] | None = None
    flip_x: bool = False
    flip_y: bool = False
    channels: Channels = "rgb"
    mean: float | Sequence[float] | None = None
    std: float | Sequence[float] | None = None
    padding: float = 0.0
    yuv: Yuv = "bt601"
    full_range: bool = False
    antialias: bool = True
    border: Border = "padding"
    opencv: bool = False
    align: Align = "center"
    siting: Siting = "center"
    packed: Packed | None = None

    def __post_init__(self) -> None:
        choices_of = {
            "fit": get_args(Fit),
            "channels": get_args(Channels),
            "yuv": get_args(Yuv),
            "border": get_args(Border),
            "align": get_args(Align),
            "siting": get_args(Siting),
            "packed": (None, *get_args(Packed)),
        }
        for name, choices in choices_of.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {choices}, not {getattr(self, name)!r}")
        if self.opencv and self.antialias:
            raise ValueError("opencv takes one color for each tensor pixel: set antialias=False")
        if (self.mean is None) != (self.std is None):
            raise ValueError("mean and std come together: give both or neither")
        for name in ("mean", "std"):
            value = getattr(self, name)
            if value is not None and np.shape(value) not in ((), (self.depth,)):
                raise ValueError(
                    f"{name} must be a number or {self.depth} numbers (channels="
                    f"{self.channels!r}), not {value!r}"
                )
        if self.std is not None and not np.all(self.std):
            raise ValueError(f"std is a divisor and must not be 0, found {self.std!r}")
        if self.roi is not None and (np.shape(self.roi) != (4,) or min(self.roi[2:]) <= 0):
            raise ValueError(
                f"roi must be (left, top, width, height) of a positive size, not {self.roi!r}"
            )
        if self.matrix is not None:
            if np.shape(self.matrix) != (2, 3):
                raise ValueError(f"matrix must be two rows of three, not {self.matrix!r}")
            placed = (self.roi, self.rotation, self.fit, self.align)
            if placed != (None, 0, "stretch", "center"):
                raise ValueError(
                    "matrix takes the place of roi, rotation, fit and align: leave them out"
                )
        for name in ("roi", "rotation", "matrix", "mean", "std", "padding"):
            value = getattr(self, name)
            if value is not None and not np.all(np.isfinite(value)):
                raise ValueError(f"{name} must be finite, not {value!r}")

    @classmethod
    def for_input(cls, interpreter: Described, index: int) -> ImageTransform:
        """The transform of whole pictures for an input, from the model's metadata.

        Channels are the input's. Without metadata, and for uint8 tensors, `mean` and `std` are
        None. Change other fields with `dataclasses.replace`.

        Args:
            interpreter: A `gles_delegate.Interpreter`.
            index: The input's index, as in `get_input_details`.

        Raises:
            ValueError: There is no such input, or its shape is not [1, height, width, 1, 3 or 4],
                or [1, 3 or 4, height, width].
            ModelError: The metadata is damaged, or does not fit the input.
        """
        inputs = interpreter.get_input_details()
        indices = [details["index"] for details in inputs]
        if index not in indices:
            raise ValueError(f"expected an input, one of {indices}, found {index}")
        position = indices.index(index)
        details, metadata = inputs[position], interpreter.metadata.inputs[position]
        shape, dtype = tuple(details["shape"].tolist()), np.dtype(details["dtype"])
        return picture_transform(shape, dtype.name, metadata)

    @property
    def has_region(self) -> bool:
        """Whether it differs from the whole picture, stretched."""
        region = self.roi, self.rotation, self.fit, self.matrix, self.flip_x, self.flip_y
        return region != (None, 0, "stretch", None, False, False)

    @property
    def reach(self) -> float:
        """Distance in pixels from the picture up to which its colors count."""
        return 1.0 if self.opencv and self.border == "padding" else REACH[self.border]

    @property
    def depth(self) -> int:
        """The number of channels of the tensor."""
        return CHANNELS[self.channels]

    def is_planar(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of this shape has its channels in front of height and width."""
        return shape[-1] != self.depth and len(shape) > 2 and shape[-3] == self.depth

    def size_in(self, shape: Sequence[int]) -> Size:
        """Height and width of a tensor of this shape."""
        height, width = shape[-2:] if self.is_planar(shape) else shape[-3:-1]
        return height, width

    def affine(self, picture: Size, tensor: Size) -> Array:
        """The map from positions in the tensor to positions in the stored picture.

        Use it to map detections back to the picture. Sizes are (height, width).

        Returns:
            The 2x3 matrix, float64: ``matrix @ (x, y, 1)``.
        """
        (rows, columns), (out_rows, out_columns) = picture, tensor
        if self.matrix is not None:
            matrix = np.array(self.matrix, np.float64)
        else:
            # Rounding makes quarter turns exact.
            turn = np.round(np.exp(1j * np.radians(self.rotation)), 15)
            cos, sin = float(turn.real), float(turn.imag)
            left, top, width, height = self.roi or (
                (columns - columns * abs(cos) - rows * abs(sin)) / 2,
                (rows - columns * abs(sin) - rows * abs(cos)) / 2,
                columns * abs(cos) + rows * abs(sin),
                columns * abs(sin) + rows * abs(cos),
            )
            scale = np.array([width / out_columns, height / out_rows])
            if self.fit != "stretch":
                scale[:] = scale.max() if self.fit == "letterbox" else scale.min()
            linear = np.array([[cos, -sin], [sin, cos]]) * scale
            center = np.array([left + width / 2, top + height / 2])
            middle = np.array([out_columns, out_rows]) / 2
            if self.align == "corner":
                middle = np.array([width, height]) / scale / 2
            offset = center - linear @ middle
            matrix = np.column_stack([linear, offset])
        for axis, flip, size in ((0, self.flip_x, columns), (1, self.flip_y, rows)):
            if flip:
                matrix[axis] = -matrix[axis]
                matrix[axis, 2] += size
        return matrix

    def sampled(self, picture: Size, tensor: Size) -> Array:
        """The map to the sampled positions: `affine`, with OpenCV's shift of half a pixel from
        indices to centers.
        """
        matrix = self.affine(picture, tensor)
        if self.opencv:
            matrix[:, 2] += [-0.5 if flip else 0.5 for flip in (self.flip_x, self.flip_y)]
        return matrix

    def samples(self, picture: Size, tensor: Size) -> tuple[int, int]:
        """Number of colors to average along a tensor pixel's width and height.

        Sizes are (height, width).
        """
        if not self.antialias:
            return 1, 1
        widths = np.hypot(*self.affine(picture, tensor)[:, :2])
        along, across = np.ceil(widths - EDGE).clip(1, MAX_SAMPLES).astype(int).tolist()
        return along, across

    def apply(
        self,
        picture: Any,
        size: Size,
        *,
        dtype: str = "float32",
        quantization: tuple[float, int] = (0.0, 0),
    ) -> Array:
        """Apply the transform on the CPU, in numpy. The GPU agrees to half a color step.

        At the border of a rotated picture, rounding may also make a sample count as outside.

        Args:
            picture: Colors [height, width], [height, width, 1, 3 or 4], a sequence of planes, or
                `packed` bytes; uint8, or floats from 0 to 1, as in textures.
            size: Height and width of the tensor.
            dtype: Type of the tensor, as in `get_input_details`.
            quantization: Scale and zero point of the tensor, as in `get_input_details`.

        Returns:
            [1, height, width, channels] of `dtype`, for `set_tensor`.

        Raises:
            ValueError: The picture has other dimensions, another type, or colors above 1.
        """
        planes = planes_of(picture, self.packed)
        stored = planes[0].shape[:2]
        matrix, samples = self.sampled(stored, size), self.samples(stored, size)
        colors = sampled_colors(planes, size, matrix, samples, self)
        gain, bias = self.scaling(dtype, quantization)
        values = (colors * gain + bias).reshape(1, *size, self.depth)
        if np.dtype(dtype).kind in "iu":
            bounds = np.iinfo(dtype)
            values = np.floor(values + 0.5).clip(bounds.min, bounds.max)
        return values.astype(dtype)

    def scaling(self, dtype: str, quantization: tuple[float, int]) -> tuple[Array, Array]:
        """Gain and bias [channels] from colors of 0 to 255 to a tensor's numbers."""
        one, (scale, zero_point) = np.ones(self.depth), quantization
        seen = np.array([1, 1, 1, 0]) if self.channels == "rgb0" else one
        is_integer = np.dtype(dtype).kind in "iu"
        if self.mean is not None and self.std is not None:
            gain, bias = seen / self.std, -one * self.mean / self.std
        elif dtype in BYTE_LIMITS or (is_integer and not scale):
            return seen, one * BYTE_LIMITS.get(dtype, (0, 255))[0]
        else:
            gain, bias = seen / 255, one * 0
        if is_integer and scale:
            return gain / scale, bias / scale + zero_point
        return gain, bias


class Described(Protocol):
    """An interpreter with its model's metadata."""

    @property
    def metadata(self) -> Metadata: ...
    def get_input_details(self) -> list[dict[str, Any]]: ...


def picture_transform(
    shape: Sequence[int],
    dtype: str,
    metadata: TensorMetadata,
    mean: float | None = None,
    std: float | None = None,
) -> ImageTransform:
    """See `ImageTransform.for_input`.

    `mean` and `std` take precedence over the metadata; their defaults are 0 and 255.
    """
    names: dict[int, Channels] = {1: "gray", 3: "rgb", 4: "rgba"}
    depth = shape[3] if len(shape) == 4 else 1
    if depth not in names and shape[1] in (3, 4):
        depth = shape[1]
    if len(shape) not in (3, 4) or shape[0] != 1 or depth not in names:
        raise ValueError(
            "a picture suits an input [1, height, width], [1, height, width, 1, 3 or 4] or [1, 3 "
            f"or 4, height, width], not {list(shape)}"
        )
    channels = names[depth]
    if dtype == "uint8" or not (metadata.mean or mean is not None or std is not None):
        return ImageTransform(channels=channels)
    own = ((metadata.mean or (0.0,)), (metadata.std or (255.0,)))
    means, stds = (
        of_model if number is None else (number,)
        for number, of_model in zip((mean, std), own, strict=True)
    )
    if not {len(means), len(stds)} <= {1, depth} or min(stds) <= 0:
        raise ModelError(
            f"expected one mean and one positive standard deviation, or {depth} of each, for the "
            f"channels of the input {metadata.name!r}, found {list(means)} and {list(stds)} in the "
            "arguments or the model's metadata: pass other ones"
        )
    return ImageTransform(channels=channels, mean=_single(means), std=_single(stds))


def _single(values: Sequence[float]) -> float | Sequence[float]:
    return values[0] if len(values) == 1 else values
