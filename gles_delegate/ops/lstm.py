"""LSTM with the basic kernel: five inputs, four outputs, its state in variable tensors."""

from __future__ import annotations

from dataclasses import dataclass

from gles_delegate.dispatch import Alias, Define, Step, Value
from gles_delegate.ops.conv import product
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.registry import Bool, Float32, Int8, NodeView, Options, Unsupported, op
from gles_delegate.ops.lib.views import Region, View, view

BASIC = 1


@dataclass(frozen=True)
class LstmOptions(Options):
    fused_activation: Int8 = 0
    cell_clip: Float32 = 0.0
    proj_clip: Float32 = 0.0
    kernel_type: Int8 = 0
    asymmetric_quantize_inputs: Bool = False


@op("LSTM", max_version=4, options=LstmOptions)
def lstm(node: NodeView, options: LstmOptions) -> list[Step]:
    """Like LiteRT, ignore the fused activation (always TANH) and clipping."""
    if options.kernel_type != BASIC:
        raise Unsupported("the full kernel; expected the basic one")
    x, before, old = node.input(0), node.input(1), node.input(4)
    if len(x.shape) != 2 or len(old.shape) != 2 or before.shape != old.shape:
        raise Unsupported(
            f"the shapes {[list(v.shape) for v in (x, before, old)]}; expected rank 2"
        )
    (batch, depth), units = x.shape, old.channels
    if (batch, 4 * units, depth + units) != (old.pixels, *node.shape(2)):
        raise Unsupported(f"weights of shape {list(node.shape(2))} for {depth} + {units} channels")
    index, limits = node.index, node.limits
    joined = node.output((batch, depth + units), 2)
    gates = node.output((batch, 4 * units), 3)
    state = node.output(old.shape, 1)
    result = node.output(old.shape, 0)
    steps: list[Step] = []
    for part, channel in ((x, 0), (before, depth)):
        whole = View((batch, part.channels), (part.channels, 1))
        region = Region(batch, part.channels, batch, batch, out_channel=channel)
        steps.append(view(part, joined, whole, limits, index, region))
    steps += product(node, joined, gates, inputs=(2, 3))
    for source, output, activation in ((old, state, 0), (state, result, 1)):
        defines: dict[str, Define] = {"CHANNELS": units, "ACTIVATION": activation}
        grid = make_grid(output.pixels, output.slices, limits)
        steps.append(node.dispatch("lstm", (gates, source), output, grid, defines))
    kept = ((before, result), (old, state))
    steps += [Alias(index, v, now) for v, now in kept if isinstance(v, Value)]
    return steps
