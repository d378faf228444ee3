"""Packing of constants in the order that shaders read them."""

from __future__ import annotations

from math import ceil, prod
from typing import TypeAlias

import numpy as np

from gles_delegate.model.graph import Array

Groups: TypeAlias = tuple[int, int]
"""The groups of a convolution, and how many of them read the same slices of the input."""
Scales: TypeAlias = tuple[float, ...]
"""One scale, or one per output channel; none is 0."""


def phwc4(array: Array) -> Array:
    """Any tensor -> [slices, pixels, 4], with zeros in the lanes past the last channel."""
    pixels, channels = prod(array.shape[:-1]), array.shape[-1] if array.ndim else 1
    padded = _pad(array.reshape(pixels, channels), 1, 4)
    packed: Array = padded.reshape(pixels, ceil(channels / 4), 4).transpose(1, 0, 2)
    return packed


def bias_texels(slices: int) -> int:
    """Texels for the biases of `slices`, padded so that four columns lie in one texture row."""
    return ceil(slices / 4) * 4


def conv_weights(
    weights: Array, bias: Array | None, groups: Groups, slices: int, block: int
) -> Array:
    """[O, ..., I / groups], [O] -> biases [bias_texels(slices), 4], then
    [slices / block, taps, I / 4, block, 4, 4].

    The last two axes are input and output channel: one column per input channel. Groups that read
    the same slices become dense weights with zeros. `slices` is the padded number of output slices.
    """
    outputs, inputs = weights.shape[0], weights.shape[-1]
    taps = weights.reshape(outputs, prod(weights.shape[1:-1]), inputs)
    count, merged = groups
    if merged > 1:
        dense = np.zeros((outputs, taps.shape[1], inputs * merged), np.float32)
        share = outputs // count
        for g in range(count):
            rows, first = slice(g * share, (g + 1) * share), g % merged * inputs
            dense[rows, :, first : first + inputs] = taps[rows]
        taps = dense
    padded = _pad(_pad(taps, 2, 4), 0, 4 * slices)
    blocks = padded.reshape(slices // block, block, 4, taps.shape[1], padded.shape[2] // 4, 4)
    biases = np.zeros(outputs, np.float32) if bias is None else bias.ravel()
    columns_last = blocks.transpose(0, 3, 4, 1, 5, 2)
    return np.concatenate([_pad(biases, 0, 4 * bias_texels(slices)), columns_last.ravel()])


def conv_weight_pairs(
    weights: Array, bias: Array | None, groups: Groups, slices: int, block: int
) -> Array:
    """`conv_weights` with float16 columns, two in a texel, as int32."""
    packed = conv_weights(weights, bias, groups, slices, block).astype(np.float32)
    biases, columns = np.split(packed, [4 * bias_texels(slices)])
    halves = columns.astype(np.float16)
    return np.concatenate([biases.view(np.int32), halves.view(np.int32)])


def conv_weight_bytes(
    weights: Array,
    bias: Array | None,
    groups: Groups,
    slices: int,
    block: int,
    scales: Scales,
    zero: int = 0,
) -> Array:
    """`conv_weights` with int8 columns less `zero`, four in a texel, as int32.

    The biases are divided by the scales, which follow them.
    """
    each = np.broadcast_to(np.array(scales, np.float32), len(weights))
    along = each.reshape(-1, *(1,) * (weights.ndim - 1))
    steps = np.rint(weights / along)
    divided = None if bias is None else bias.ravel() / each
    packed = conv_weights(steps, divided, groups, slices, block).astype(np.float32)
    count = 4 * bias_texels(slices)
    biases, columns = np.split(packed, [count])
    header = np.concatenate([biases, _pad(each, 0, count)])
    stored = (columns - np.float32(zero)).astype(np.int8)
    return np.concatenate([header.view(np.int32), stored.view(np.int32)])


def conv_weight_nibbles(
    weights: Array, bias: Array | None, groups: Groups, slices: int, block: int, scales: Scales
) -> Array:
    """`conv_weight_bytes` with int4 columns, eight in a texel."""
    packed = conv_weight_bytes(weights, bias, groups, slices, block, scales)
    header, columns = np.split(packed, [8 * bias_texels(slices)])
    steps = _pad(columns.view(np.uint8) & 15, 0, 32)
    pairs = steps[::2] | steps[1::2] << 4
    return np.concatenate([header, pairs.view(np.int32)])


def depthwise_weights(weights: Array, bias: Array | None) -> Array:
    """[1, H, W, O], [O] -> biases [slices, 4], then [slices, H * W, 4]."""
    outputs = weights.shape[3]
    biases = np.zeros(outputs, np.float32) if bias is None else bias.ravel()
    taps = phwc4(weights)
    return np.concatenate([_pad(biases, 0, 4).ravel(), taps.ravel()])


def _pad(array: Array, axis: int, multiple: int) -> Array:
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % multiple)
    return np.pad(array, widths)


def integers(*numbers: int) -> Array:
    return phwc4(np.array(numbers, np.int32))


def vector(*numbers: float) -> Array:
    return phwc4(np.array(numbers, np.float32))
