"""Ops that normalize the channels of each pixel: softmax, log-softmax and L2 normalization."""

from __future__ import annotations

from dataclasses import dataclass

from gles_delegate.dispatch import Define, Dispatch, Step
from gles_delegate.ops.lib.grid import pixel_grid
from gles_delegate.ops.lib.registry import Float32, NodeView, Options, Unsupported, op


@dataclass(frozen=True)
class SoftmaxOptions(Options):
    beta: Float32 = 0.0


@op("SOFTMAX", max_version=4, options=SoftmaxOptions)
def softmax(node: NodeView, options: SoftmaxOptions) -> list[Step]:
    if not node.shape(0):
        raise Unsupported("a scalar; expected at least rank 1")
    return [_over_channels(node, "softmax", {"BETA": options.beta, "LOGARITHM": 0})]


@op("LOG_SOFTMAX", max_version=2)
def log_softmax(node: NodeView, options: Options) -> list[Step]:
    return [_over_channels(node, "softmax", {"BETA": 1.0, "LOGARITHM": 1})]


@op("L2_NORMALIZATION", max_version=2)
def l2_normalization(node: NodeView, options: Options) -> list[Step]:
    return [_over_channels(node, "l2_normalization", {})]


def _over_channels(node: NodeView, shader: str, defines: dict[str, Define]) -> Dispatch:
    """Dispatch a shader whose work groups see all channels of their pixels."""
    x = node.input(0)
    output = node.output(x.shape)
    grid = pixel_grid(output, node.limits)
    return node.dispatch(shader, (x,), output, grid, defines)
