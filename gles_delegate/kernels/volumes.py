"""Convolutions of volumes, and their gradients, by glsl/conv_3d.glsl."""

from __future__ import annotations

from math import ceil, prod

import numpy as np

from gles_delegate.kernels.setting import Setting
from gles_delegate.kernels.weights import packed_by_run
from gles_delegate.model.graph import Array
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.product import Convolution3D
from gles_delegate.ops.lib.views import View
from gles_delegate.shaders.dispatch import Const, Define, Dispatch, Operand

RUN = 4
"""Maximum number of pixels of a row that an invocation computes."""


def volumes(product: Convolution3D, setting: Setting) -> list[Dispatch]:
    """A convolution of volumes by runs of pixels."""
    x, output, sizes = product.x, product.output, product.out_sizes
    kernel, constants = product.weights.shape[:3], product.weights.constants
    ins, outs, slices, taps = x.channels, output.channels, output.slices, prod(kernel)
    texels = slices * (1 + 4 * taps * x.slices)
    weights: Operand
    steps: list[Dispatch] = []
    if constants is not None:
        weights = Const(weights_3d, constants, (texels, 4), (int(product.transposed),))
    else:
        strides = (ins * outs, 1, ins) if product.transposed else (ins * outs, outs, 1)
        lanes = (taps, 4 * x.slices, 4 * slices)
        layout = View(lanes, strides, 0, (0, 0, 0), (taps, ins, outs))
        weights, steps = packed_by_run(product, slices, texels, layout, setting)
    run = min(RUN, setting.option(setting.profile.depthwise))
    runs = ceil(sizes[2] / run)
    defines: dict[str, Define] = {
        "TRANSPOSED": int(product.transposed),
        "PIXELS": run,
        "RUNS": runs,
        "IN_SLICES": x.slices,
        "BATCH": product.batch,
        "IN_SIZES": product.in_sizes,
        "OUT_SIZES": sizes,
        "KERNEL": kernel,
        "STRIDES": product.strides,
        "PADDING": product.padding,
        "DILATION": product.dilations,
    }
    grid = make_grid(product.batch * prod(sizes[:2]) * runs, slices, setting.limits)
    passes = taps * (x.slices + 1) + 1
    dispatch = product.dispatch("conv_3d", (x, weights), grid, defines, passes=passes, unrolled=run)
    return [*steps, dispatch]


def weights_3d(weights: Array, bias: Array | None, transposed: int) -> Array:
    """[D, H, W, I, O], or [D, H, W, O, I] if `transposed`, and [O] -> biases [slices, 4], then
    [D * H * W, I, slices, 4], with the inputs in whole slices.
    """
    taps = weights.reshape(-1, *weights.shape[3:])
    if transposed:
        taps = taps.transpose(0, 2, 1)
    outputs = taps.shape[2]
    padded = np.pad(taps, ((0, 0), (0, -taps.shape[1] % 4), (0, -outputs % 4)))
    first = np.zeros(outputs, np.float32) if bias is None else bias.ravel()
    return np.concatenate([np.pad(first, (0, -outputs % 4)), padded.ravel()])
