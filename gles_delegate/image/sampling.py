"""Pictures sampled in numpy, as `glsl/image_in.glsl` does on the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gles_delegate.image.colors import BYTES, CHANNELS, LUMA, SITING, yuv_to_rgb
from gles_delegate.model.graph import Array

SUBPIXELS = 32
"""Positions in a pixel to which OpenCV's warpPerspective rounds (INTER_TAB_SIZE)."""
TIE = 1 / 2048
"""Half of the smallest step of OpenCV's interpolated colors, 1 / 32^2: rounding errors are less."""
BRIGHTEST = 1.5  # limit of floats from 0 to 1 in pictures: sharpening filters slightly exceed 1


class Look(Protocol):
    """The options of an `ImageTransform` that change the sampled colors."""

    @property
    def channels(self) -> str: ...
    @property
    def padding(self) -> float: ...
    @property
    def border(self) -> str: ...
    @property
    def reach(self) -> float: ...
    @property
    def opencv(self) -> bool: ...
    @property
    def yuv(self) -> str: ...
    @property
    def full_range(self) -> bool: ...
    @property
    def siting(self) -> str: ...


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
    size: tuple[int, int],
    matrix: Array,
    samples: tuple[int, int],
    look: Look,
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


def resized(picture: Array, size: tuple[int, int], *, corners: bool = False) -> Array:
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
    point: Array, planes: Sequence[Array], size: tuple[int, int], matrix: Array, look: Look
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
    plane: Array, size: tuple[int, int], matrix: Array, samples: tuple[int, int], look: Look
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


def _channels(planes: list[Array], look: Look) -> Array:
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
