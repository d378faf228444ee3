"""SVDF: a layer on the last inputs of a stream, as features and their weights in time."""

from __future__ import annotations

from gles_delegate.model.schema import ACTIVATIONS
from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported
from gles_delegate.ops.lib.options import Int8, Int32, Options
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.ops.lib.product import product
from gles_delegate.ops.lib.recurrence import ABSENT, check_biases, check_types, vector_activation
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import Target, View, assigned, reshaped_as, viewed
from gles_delegate.shaders.dispatch import Call, Const, Define, Step


class SvdfOptions(Options):
    rank: Int32 = 0
    fused_activation: Int8 = 0


@op("SVDF", max_version=4, options=SvdfOptions, checks_types=True)
def svdf(node: NodeView, options: SvdfOptions) -> list[Step]:
    """The state is the features of the last inputs.

    LiteRT's integer kernel demands RELU, and does not apply it.
    """
    x, weights, state = node.input(0), node.input(2), node.input(4)
    features = node.shape(1)
    integer = node.dtype(0) == "int8"
    check_types(node, (1,), (1, 2, 3))
    if len(x.shape) != 2 or len(features) != 2 or len(weights.shape) != 2 or options.rank < 1:
        raise Unsupported(
            f"an input of shape {list(x.shape)}, weights of {list(features)} and "
            f"{list(weights.shape)}, and the rank {options.rank}; expected matrices and 1 or more"
        )
    batch, (filters, memory) = x.pixels, weights.shape
    units = filters // options.rank
    if (
        (filters, x.channels) != features
        or filters % options.rank
        or state.shape != (batch, filters * memory)
    ):
        raise UnfitSizes(
            f"weights of shapes {list(features)} and {list(weights.shape)} and a state of "
            f"{list(state.shape)} for an input of {list(x.shape)}"
        )
    newest = node.scratch((batch, filters), "newest")
    rows = node.scratch((batch * filters, memory), "rows")
    kept = node.scratch(state.shape, "state")
    rounding = (_rounding(node, options),) if integer else ()
    steps: list[Step] = [product(node, x, newest, epilogue=rounding, inputs=(1, ABSENT))]
    last = Target(rows.pixels, 1, rows.pixels, rows.pixels, out_channel=memory - 1)
    others = Target(rows.pixels, memory - 1, rows.pixels, rows.pixels)
    if memory > 1:
        older = View((rows.pixels, memory - 1), (memory, 1), 1)
        steps.append(viewed(node, state, rows, older, others))
    steps.append(viewed(node, newest, rows, View((rows.pixels, 1), (1, 1)), last))
    output = node.output((batch, units))
    epilogue: tuple[Call, ...] = ()
    if node.has_input(3):
        if node.shape(3) != (units,):
            raise Unsupported(f"biases of shape {list(node.shape(3))}; expected {[units]}")
        biases = Const(phwc4, (node.constant(3),), node.shape(3))
        epilogue = (Call("ADD", operand=biases),)
    function = "" if integer else vector_activation(options.fused_activation, in_place=True)
    if function:
        epilogue += (Call(function),)
    defines: dict[str, Define] = {
        "RANK": options.rank,
        "FILTERS": filters,
        "ROWS": rows.pixels,
        "MEMORY_SLICES": rows.slices,
    }
    passes = 4 * options.rank * (rows.slices + 1) + 5
    reads = (rows, weights)
    steps.append(by_texel(node, "svdf", reads, output, defines, epilogue, passes=passes))
    steps.append(reshaped_as(node, rows, kept))
    return [*steps, *assigned(node, state, kept)]


def _rounding(node: NodeView, options: SvdfOptions) -> Call:
    """The rounding of LiteRT's integer kernel to steps of its state."""
    if (node.dtype(4), node.dtype(2)) != ("int16", "int16"):
        raise Unsupported(
            f"a state of {node.dtype(4)} and weights of {node.dtype(2)}; expected int16"
        )
    if options.fused_activation != ACTIVATIONS.index("RELU"):
        raise Unsupported(f"activation {options.fused_activation}; expected 1 (RELU)")
    scale, zero = node.graph.tensors[node.inputs[4]].quantization.pair
    if zero:
        raise Unsupported(f"a state with the zero point {zero}; expected 0")
    check_biases(node, scale, 2, 3)
    return Call("QUANTIZED", (scale, -32768.0, 32767.0))
