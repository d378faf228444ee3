"""Layers over a frame in numpy, by the formulas of ``glsl/live/layer.frag``."""

import numpy as np
from PIL import Image

from gles_apps.live import Layer
from gles_delegate.image.colors import LUMA
from gles_delegate.model.graph import Array


def over(layer: Layer, frame: Array) -> Array:
    """The frame, uint8 [height, width, 3], under a layer of numbers of 0 to 1."""
    height, width = frame.shape[:2]
    mapping = layer.to_layer((height, width), layer.picture.shape[:2]).ravel().tolist()
    kind = Image.Resampling.BICUBIC if layer.smooth else Image.Resampling.BILINEAR
    picture = layer.picture if layer.fill is None else layer.picture[..., :1]
    picture = _softened(picture) if layer.is_softened else picture
    picture = _spline(picture) if layer.smooth else picture
    planes = [
        np.asarray(
            Image.fromarray(np.ascontiguousarray(plane, np.float32)).transform(
                (width, height), Image.Transform.AFFINE, mapping, kind
            )
        )
        for plane in np.moveaxis(picture, 2, 0)
    ]
    above = np.stack(planes, -1).clip(0, 1)
    below = frame / np.float32(255)
    coverage = above[..., -1]  # alpha, or the mask
    share = coverage
    if layer.edges is not None:
        low, high = layer.edges
        step = ((coverage - low) / (high - low)).clip(0, 1)
        share = step * step * (3 - 2 * step)
    if layer.fill is None:
        over = above[..., :3] / np.maximum(coverage, 1e-3)[..., None]
    elif isinstance(layer.fill, tuple):
        over = np.broadcast_to(np.array(layer.fill, np.float32) / 255, below.shape)
    else:
        over = np.asarray(Image.fromarray(layer.fill).resize((width, height))) / np.float32(255)
    if layer.tint:
        luma = LUMA["bt601"]
        ratio = below @ luma / np.maximum(over @ luma, 0.05)
        over = (over * ratio[..., None]).clip(0, 1)
    share = layer.opacity * (1 - share if layer.inverse else share)
    if layer.contour:
        # The distance to the line, in pixels, by the slope.
        away = np.abs(coverage - 0.5) / np.maximum(_slope(coverage), 1e-4)
        share = np.maximum(share, (layer.contour / 2 + 0.5 - away).clip(0, 1))
    mixed: Array = below + (over - below) * share[..., None]
    return (mixed.clip(0, 1) * 255 + 0.5).astype(np.uint8)


def _softened(picture: Array) -> Array:
    """The picture filtered by the weights 1, 4, 6, 4, 1 along both axes."""
    for axis in (0, 1):
        ends = [(2, 2) if i == axis else (0, 0) for i in range(3)]
        padded, size = np.pad(picture, ends, "edge"), picture.shape[axis]
        parts = (np.take(padded, range(i, i + size), axis) for i in range(5))
        picture = sum(
            weight / np.float32(16) * part
            for weight, part in zip((1, 4, 6, 4, 1), parts, strict=True)
        )
    return picture


def _slope(plane: Array) -> Array:
    """The length of the gradient, for blocks of 2 x 2 pixels as GLSL's dFdx and dFdy."""
    height, width = plane.shape
    even = np.pad(plane, ((0, height % 2), (0, width % 2)), "edge")
    down = np.repeat(even[1::2] - even[::2], 2, 0)
    across = np.repeat(even[:, 1::2] - even[:, ::2], 2, 1)
    slope: Array = np.hypot(down, across)[:height, :width]
    return slope


def _spline(picture: Array) -> Array:
    """The uniform cubic B-spline with these control points, at the pixels' centers."""
    padded = np.pad(picture, ((1, 1), (1, 1), (0, 0)), "edge")
    rows = (padded[:-2] + 4 * padded[1:-1] + padded[2:]) / 6
    spline: Array = (rows[:, :-2] + 4 * rows[:, 1:-1] + rows[:, 2:]) / 6
    return spline
