"""Pictures to tensors: crop, sample, convert and normalize.

`ImageTransform.apply` does in numpy what `glsl/image_in.glsl` does on the GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np

from gles_delegate.errors import ModelError
from gles_delegate.image.colors import BYTES, CHANNELS, LUMA, SITING, yuv_to_rgb
from gles_delegate.model.dtypes import BYTE_LIMITS
from gles_delegate.model.graph import Array
from gles_delegate.model.metadata import Metadata, TensorMetadata

Fit: TypeAlias = Literal["stretch", "letterbox", "crop"]
Channels: TypeAlias = Literal["rgb", "bgr", "gray", "rgba", "rgb0"]
Yuv: TypeAlias = Literal["bt601", "bt709", "bt2020"]
Packed: TypeAlias = Literal["yuyv", "uyvy"]
Siting: TypeAlias = Literal["center", "left"]
Border: TypeAlias = Literal["padding", "replicate"]
Align: TypeAlias = Literal["center", "corner", "pixels"]
Size: TypeAlias = tuple[int, int]  # height and width
EDGE = 1e-3  # rounding tolerance in pixels of positions at the picture's edge

REACH: dict[str, float] = {"padding": EDGE, "replicate": 1e9}
"""Distance in pixels from the picture up to which positions get its colors, by border."""

MAX_SAMPLES = 16  # limit of the samples along a tensor pixel's side, for its mean

SUBPIXELS = 32
"""Positions in a pixel to which OpenCV's warpPerspective rounds (INTER_TAB_SIZE)."""
TIE = 1 / 2048
"""Half of the smallest step of OpenCV's interpolated colors, 1 / 32^2: rounding errors are less."""
BRIGHTEST = 1.5  # limit of floats from 0 to 1 in pictures: sharpening filters slightly exceed 1


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
            "corner", which is then the tensor's. "pixels": the center, but the region covers whole
            pixels of the tensor, as in Ultralytics' LetterBox. It is stretched for that, by half a
            tensor pixel at most; as in Ultralytics' scale_boxes, `affine` does not say so.
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
        rows, columns = picture
        if self.matrix is not None:
            matrix = np.array(self.matrix, np.float64)
        else:
            turn = self._turn
            left, top, *extent = self._region(picture)
            scale = self._scale(picture, tensor)
            linear = np.array([[turn.real, -turn.imag], [turn.imag, turn.real]]) * scale
            center = np.array([left, top]) + np.array(extent) / 2
            middle = np.array(tensor[::-1]) / 2
            if self.align == "corner":
                middle = extent / scale / 2
            elif self._is_whole:
                start, _ = self._whole_pixels(picture, tensor)
                middle = start + extent / scale / 2
            offset = center - linear @ middle
            matrix = np.column_stack([linear, offset])
        for axis, flip, size in ((0, self.flip_x, columns), (1, self.flip_y, rows)):
            if flip:
                matrix[axis] = -matrix[axis]
                matrix[axis, 2] += size
        return matrix

    def sampled(self, picture: Size, tensor: Size) -> Array:
        """The map to the sampled positions: `affine`, with OpenCV's shift of half a pixel from
        indices to centers, and stretched to whole pixels; see `align`.
        """
        matrix = self.affine(picture, tensor)
        if self._is_whole:
            start, shown = self._whole_pixels(picture, tensor)
            stretch = self._region(picture)[2:] / self._scale(picture, tensor) / shown
            matrix[:, 2] += matrix[:, :2] @ (start * (1 - stretch))
            matrix[:, :2] *= stretch
        if self.opencv:
            matrix[:, 2] += [-0.5 if flip else 0.5 for flip in (self.flip_x, self.flip_y)]
        return matrix

    @property
    def _turn(self) -> complex:
        """Cosine and sine of the rotation; rounding makes quarter turns exact."""
        return complex(np.round(np.exp(1j * np.radians(self.rotation)), 15))

    def _region(self, picture: Size) -> tuple[float, float, float, float]:
        """Left, top, width and height of the region, before its rotation."""
        if self.roi is not None:
            return self.roi
        rows, columns = picture
        cos, sin = abs(self._turn.real), abs(self._turn.imag)
        width, height = columns * cos + rows * sin, columns * sin + rows * cos
        return (columns - width) / 2, (rows - height) / 2, width, height

    def _scale(self, picture: Size, tensor: Size) -> Array:
        """Pixels of the picture per tensor pixel, along the region's width and height."""
        scale: Array = np.array(self._region(picture)[2:]) / tensor[::-1]
        if self.fit != "stretch":
            scale[:] = scale.max() if self.fit == "letterbox" else scale.min()
        return scale

    @property
    def _is_whole(self) -> bool:
        return self.align == "pixels" and self.fit != "stretch"

    def _whole_pixels(self, picture: Size, tensor: Size) -> tuple[Array, Array]:
        """The first tensor pixel (x, y) that shows the region, and how many do.

        Around an odd number of pixels, the left and the top get fewer (LetterBox).
        """
        extent = np.array(self._region(picture)[2:]) / self._scale(picture, tensor)
        shown = np.maximum(np.round(extent), 1)
        return np.round((tensor[::-1] - shown) / 2 - 0.1), shown

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


def planes_of(picture: Any, packed: str | None = None) -> list[Array]:
    """The planes [height, width, channels] of a picture, as for `ImageTransform.apply`.

    Raises ValueError as that does.
    """
    planes = [_plane(p) for p in (picture if isinstance(picture, list | tuple) else [picture])]
    if packed is not None:
        planes = _unpacked(planes, packed)
    if [plane.shape[2] for plane in planes[1:]] not in ([], [2], [1, 1]):
        raise ValueError(
            "expected one picture, planes Y and UV, or planes Y, U and V; found "
            f"{[list(plane.shape) for plane in planes]}"
        )
    return planes


def sampled_colors(
    planes: Sequence[Array],
    size: Size,
    matrix: Array,
    samples: tuple[int, int],
    look: ImageTransform,
) -> Array:
    """Mean colors [pixels, channels] from 0 to 255 of the pixels of a tensor.

    Args:
        planes: The picture.
        size: Height and width of the tensor.
        matrix: The 2x3 map from positions (x, y) in the tensor to the picture.
        samples: The number of colors to average along a pixel's width and height.
        look: How positions become colors.
    """
    along, across = samples
    if len(planes) == 1 and along * across > 1 and not matrix[[0, 1], [1, 0]].any():
        return _mean_of_area(planes[0], size, matrix, samples, look)
    mean = np.zeros((size[0] * size[1], CHANNELS[look.channels]))
    for j, i in np.ndindex(across, along):
        point = np.array([(i + 0.5) / along, (j + 0.5) / across])
        mean += colors_at(point, planes, size, matrix, look) / (along * across)
    return mean


def resized(picture: Array, size: Size, *, corners: bool = False) -> Array:
    """A picture [height, width, channels], bilinear in float32.

    Args:
        picture: The picture.
        size: Height and width of the result.
        corners: Corner pixels stay in the corners; otherwise the pictures' edges coincide, as in
            OpenCV's resize with INTER_LINEAR.
    """
    result = np.asarray(picture, np.float32)
    for axis, (old, new) in enumerate(zip(picture.shape[:2], size, strict=True)):
        if corners:
            at = np.arange(new) * ((old - 1) / max(new - 1, 1))
        else:
            at = ((np.arange(new) + 0.5) * (old / new) - 0.5).clip(0, old - 1)
        low = np.minimum(np.floor(at).astype(int), old - 1)
        share = (at - low).astype(np.float32).reshape((-1, 1, 1) if axis == 0 else (-1, 1))
        high = np.minimum(low + 1, old - 1)
        result = result.take(low, axis) * (1 - share) + result.take(high, axis) * share
    return result


def colors_at(
    point: Array, planes: Sequence[Array], size: Size, matrix: Array, look: ImageTransform
) -> Array:
    """Colors [pixels, channels] from 0 to 255 at one point (x, y) in each tensor pixel."""
    picture, (height, width) = planes[0].shape[:2], size
    left, top = (0, 0) if look.opencv else point
    x, y = np.arange(width) + left, np.arange(height)[:, np.newaxis] + top
    # A position depends on the column or the row alone, unless the picture is rotated.
    at = [sum(a * b for a, b in ((row[0], x), (row[1], y)) if a) + row[2] for row in matrix]
    share: Array = np.ones(size)
    for i, limit in enumerate(reversed(picture)):
        if look.opencv:
            at[i] = np.rint(at[i] * SUBPIXELS) / SUBPIXELS
        inside = (at[i] >= -look.reach) & (at[i] <= limit + look.reach)
        at[i] = np.where(inside, at[i], 0)
        share = share * inside
        if look.opencv and look.border == "padding":
            share = share * np.minimum(at[i] + 0.5, limit + 0.5 - at[i]).clip(0, 1)
    samples = [_bilinear(each, at, picture, SITING[look.siting]) for each in planes]
    whole = [np.broadcast_to(each, (*size, each.shape[-1])) for each in samples]
    colors = _channels([each.reshape(-1, each.shape[2]) for each in whole], look)
    mixed: Array = look.padding + (colors - look.padding) * share.reshape(-1, 1)
    return np.floor(mixed + 0.5 + TIE) if look.opencv else mixed


def _mean_of_area(
    plane: Array, size: Size, matrix: Array, samples: tuple[int, int], look: ImageTransform
) -> Array:
    """The mean of `colors_at` at all points, for a transform without rotation."""
    (across, down), (x_scale, y_scale) = samples, matrix.diagonal()
    weights = [
        _weights(at, length, look.reach)
        for at, length in (
            (x_scale * _points(size[1], across) + matrix[0, 2], plane.shape[1]),
            (y_scale * _points(size[0], down) + matrix[1, 2], plane.shape[0]),
        )
    ]
    rows = np.tensordot(weights[1], _real(plane), (1, 0))
    sums = np.einsum("xc,rcn->rxn", weights[0], rows, optimize=True)
    share = np.multiply.outer(weights[1].sum(1), weights[0].sum(1)).reshape(-1, 1)
    # Samples outside count as padding.
    inside = np.where(share > 0, sums.reshape(-1, plane.shape[2]), 0)
    colors = _channels([inside / np.where(share > 0, share, 1)], look)
    mean: Array = colors * share + look.padding * (1 - share)
    return mean


def _channels(planes: list[Array], look: ImageTransform) -> Array:
    """Sampled planes [n, channels] of 0 to 1 -> the tensor's channels, of 0 to 255."""
    samples = np.concatenate(planes, 1)
    if len(planes) > 1:
        rows = yuv_to_rgb(look.yuv, look.full_range)
        samples = (samples @ rows[:, :3].T + rows[:, 3]).clip(0, 1)
    elif samples.shape[1] == 1:
        samples = samples.repeat(3, 1)
    rgba = np.tile([0.0, 0.0, 0.0, 1.0], (len(samples), 1))
    rgba[:, : samples.shape[1]] = samples
    colors = rgba * 255
    if look.channels == "gray":
        gray: Array = colors[:, :3] @ np.transpose([LUMA["bt601"]])
        return gray
    # Other letters select alpha, the last channel.
    return colors[:, ["rgb".find(channel) for channel in look.channels]]


def _plane(array: Any) -> Array:
    """An array [height, width, channels] of uint8, or of floats from 0 to 1."""
    plane = np.asarray(array)
    plane = plane[..., np.newaxis] if plane.ndim == 2 else plane
    if plane.ndim != 3 or not plane.size or plane.shape[2] > 4:
        raise ValueError(
            f"expected a picture [height, width, 1 to 4 channels], found {list(plane.shape)}"
        )
    if plane.dtype == np.uint8:
        return plane
    if plane.dtype.kind not in "fb":
        raise ValueError(
            f"expected a picture of uint8, or of floats from 0 to 1, found {plane.dtype}; "
            "convert it, with .astype('uint8') if its colors range from 0 to 255"
        )
    brightest = float(np.max(plane, where=~np.isnan(plane), initial=0))
    if brightest > BRIGHTEST:
        raise ValueError(
            f"expected a picture of floats from 0 to 1, found up to {brightest:g}; divide by 255, "
            "or convert it to uint8, if its colors range from 0 to 255"
        )
    return plane.astype(np.float64)


def _unpacked(planes: list[Array], packed: str) -> list[Array]:
    """The planes Y and UV of packed bytes [height, width, 2] or [height, width / 2, 4]."""
    rows, columns, depth = planes[0].shape
    if len(planes) > 1 or depth not in (2, 4) or columns * depth % 4:
        raise ValueError(
            f"expected {packed} bytes [height, an even width, 2] or [height, width / 2, 4], found "
            f"{[list(plane.shape) for plane in planes]}"
        )
    pairs = planes[0].reshape(rows, -1, 4)[..., BYTES[packed]]
    return [pairs[..., :2].reshape(rows, -1, 1), pairs[..., 2:]]


def _points(size: int, samples: int) -> Array:
    """Positions [size, samples] of equidistant samples in each of `size` pixels."""
    points: Array = (np.arange(size * samples).reshape(size, samples) + 0.5) / samples
    return points


def _weights(at: Array, length: int, reach: float) -> Array:
    """Weights [size, length] of pixels in the means of interpolations at positions [size, n]."""
    weights = np.zeros((len(at), length))
    share = ((at >= -reach) & (at <= length + reach)) / at.shape[1]
    low = np.floor(at - 0.5)
    far = at - 0.5 - low
    for pixel, weight in ((low, 1 - far), (low + 1, far)):
        index = pixel.clip(0, length - 1).astype(np.intp)
        np.add.at(weights, (np.arange(len(at))[:, np.newaxis], index), weight * share)
    return weights


def _bilinear(plane: Array, at: Sequence[Array], picture: tuple[int, ...], siting: float) -> Array:
    """Samples [height, width, channels] of a plane at columns and rows of the picture.

    `siting` is one of `SITING`, for planes of less width than the picture.
    """
    rows, columns = plane.shape[:2]
    across, down = -(-picture[1] // columns), -(-picture[0] // rows)
    x, y = at[0] / across + siting * (across > 1) - 0.5, at[1] / down - 0.5
    left, upper = np.floor(x).astype(np.intp), np.floor(y).astype(np.intp)
    wx, wy = (x - left)[..., np.newaxis], (y - upper)[..., np.newaxis]
    left, right = left.clip(0, columns - 1), (left + 1).clip(0, columns - 1)
    upper, lower = upper.clip(0, rows - 1), (upper + 1).clip(0, rows - 1)
    top = _real(plane[upper, left]) * (1 - wx) + _real(plane[upper, right]) * wx
    bottom = _real(plane[lower, left]) * (1 - wx) + _real(plane[lower, right]) * wx
    samples: Array = top * (1 - wy) + bottom * wy
    return samples


def _real(colors: Array) -> Array:
    """Colors of 0 to 1."""
    return colors / 255.0 if colors.dtype == np.uint8 else colors
