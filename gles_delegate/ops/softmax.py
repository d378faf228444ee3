"""Ops that normalize the channels of each pixel: softmax, and by norms of all or of some."""

from __future__ import annotations

from dataclasses import dataclass

from gles_delegate.dispatch import Define, Dispatch, Step
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.grid import by_texel, pixel_grid, pixel_passes
from gles_delegate.ops.lib.index import rank_4
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Float32, Int32, Options
from gles_delegate.ops.lib.registry import op

LARGEST_STEP = 5.0
"""A step of int16 times beta, less than which 16 bits of them fit LiteRT's 32-bit integers."""


@dataclass(frozen=True)
class SoftmaxOptions(Options):
    beta: Float32 = 0.0


@op(
    "SOFTMAX", max_version=4, options=SoftmaxOptions, rows=rows.last_axis, results="shares",
    ends_networks=True,
)  # fmt: skip
def softmax(node: NodeView, options: SoftmaxOptions) -> list[Step]:
    _refuse_scalars(node)
    x = node.graph.tensors[node.inputs[0]]
    if x.dtype == "int16" and not abs(options.beta) * max(x.quantization.scales) < LARGEST_STEP:
        raise Unsupported(f"the beta {options.beta} of int16, for which LiteRT's integers overflow")
    output = node.graph.tensors[node.outputs[0]]
    if output.dtype == "uint8" and any(output.quantization.zero_points):
        raise Unsupported(
            f"a uint8 result with the zero point {output.quantization.zero_points[0]}, which "
            "LiteRT ignores; expected 0"
        )
    return [_over_channels(node, "softmax", {"BETA": options.beta, "LOGARITHM": 0})]


@op("LOG_SOFTMAX", max_version=2, rows=rows.last_axis)
def log_softmax(node: NodeView, options: Options) -> list[Step]:
    _refuse_scalars(node)
    return [_over_channels(node, "softmax", {"BETA": 1.0, "LOGARITHM": 1})]


@op("L2_NORMALIZATION", max_version=2, rows=rows.last_axis)
def l2_normalization(node: NodeView, options: Options) -> list[Step]:
    return [_over_channels(node, "l2_normalization", {})]


def _refuse_scalars(node: NodeView) -> None:
    if not node.shape(0):
        raise Unsupported("a scalar; expected at least rank 1")


def _over_channels(node: NodeView, shader: str, defines: dict[str, Define]) -> Dispatch:
    """Dispatch a shader whose work groups see all channels of their pixels."""
    x = node.input(0)
    output = node.output(x.shape)
    grid = pixel_grid(output, node.limits)
    passes = pixel_passes(output.slices, grid.reduction_lanes)
    return node.dispatch(shader, (x,), output, grid, defines, passes=passes)


@dataclass(frozen=True)
class LocalResponseNormalizationOptions(Options):
    radius: Int32 = 0
    bias: Float32 = 0.0
    alpha: Float32 = 0.0
    beta: Float32 = 0.0


@op("LOCAL_RESPONSE_NORMALIZATION", options=LocalResponseNormalizationOptions, rows=rows.images)
def local_response_normalization(
    node: NodeView, options: LocalResponseNormalizationOptions
) -> list[Step]:
    x = node.input(0)
    rank_4(x.shape, "input 0")
    if options.radius < 0:
        raise Unsupported(f"the radius {options.radius}; expected 0 or more channels")
    output = node.output(x.shape)
    radius = min(options.radius, x.channels)
    defines: dict[str, Define] = {
        "RADIUS": radius,
        "BIAS": options.bias,
        "ALPHA": options.alpha,
        "BETA": options.beta,
    }
    passes = 4 * (min(2 * radius + 1, x.channels) + 2)
    shader = "local_response_normalization"
    return [by_texel(node, shader, (x,), output, defines, passes=passes)]
