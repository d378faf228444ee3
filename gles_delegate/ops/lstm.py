"""LSTM, with the full and the basic kernel, and LSTMs over sequences."""

from __future__ import annotations

from dataclasses import replace

from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported
from gles_delegate.ops.lib.options import Bool, Float32, Int8, Options
from gles_delegate.ops.lib.product import product
from gles_delegate.ops.lib.recurrence import (
    ABSENT,
    GATES,
    LstmInputs,
    StateSequence,
    TimeSteps,
    bidirectional,
    lstm_layer,
)
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import Target, View, assigned, viewed
from gles_delegate.shaders.dispatch import Define, Step

FULL, BASIC = 0, 1
NONE = (ABSENT,) * GATES
INPUTS = LstmInputs(
    (1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11), (12, 13, 14, 15), (16, 17), (18, 19),
    (20, 21, 22, 23), ABSENT, NONE,
)  # fmt: skip
FORWARD = LstmInputs(
    (1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11), (12, 13, 14, 15), (16, 17), (35, 36), NONE, 39,
    (40, 41, 42, 43),
)  # fmt: skip
BACKWARD = LstmInputs(
    (18, 19, 20, 21), (22, 23, 24, 25), (26, 27, 28), (29, 30, 31, 32), (33, 34), (37, 38), NONE,
    39, (44, 45, 46, 47),
)  # fmt: skip


class CellOptions(Options):
    """The first options of all LSTMs."""

    fused_activation: Int8 = 0
    cell_clip: Float32 = 0.0
    proj_clip: Float32 = 0.0

    @property
    def clips(self) -> tuple[float, float]:
        return self.cell_clip, self.proj_clip


class LstmOptions(CellOptions):
    kernel_type: Int8 = 0
    asymmetric_quantize_inputs: Bool = False


class SequenceLstmOptions(CellOptions):
    time_major: Bool = False


@op("UNIDIRECTIONAL_SEQUENCE_LSTM", max_version=4, options=SequenceLstmOptions, checks_types=True)
def unidirectional_sequence_lstm(node: NodeView, options: SequenceLstmOptions) -> list[Step]:
    times = TimeSteps.of(node.input(0), options.time_major)
    steps, states = lstm_layer(node, INPUTS, times, options.fused_activation, options.clips)
    return [*steps, states.output()]


class BidirectionalLstmOptions(CellOptions):
    merge_outputs: Bool = False
    time_major: Bool = True


@op("BIDIRECTIONAL_SEQUENCE_LSTM", max_version=3, options=BidirectionalLstmOptions)
def bidirectional_sequence_lstm(node: NodeView, options: BidirectionalLstmOptions) -> list[Step]:
    """A second input without weights is the input of the backward layer."""
    x = node.input(0)
    if node.dtype(0) != "float32":
        raise Unsupported(f"input 0 is {node.dtype(0)}; expected float32")
    activation, clips = options.fused_activation, options.clips
    steps: list[Step] = []
    both: list[StateSequence] = []
    for inputs, forward in ((FORWARD, True), (BACKWARD, False)):
        times = TimeSteps.of(x, options.time_major, forward)
        if node.has_input(inputs.aux) and not node.has_input(inputs.aux_weights[1]):
            inputs = replace(inputs, x=0 if forward else inputs.aux, aux=ABSENT)
        name = "forward" if forward else "backward"
        layer, states = lstm_layer(node, inputs, times, activation, clips, name)
        steps += layer
        both.append(states)
    return [*steps, *bidirectional(both, options.merge_outputs)]


@op("LSTM", max_version=4, options=LstmOptions, checks_types=True)
def lstm(node: NodeView, options: LstmOptions) -> list[Step]:
    if options.kernel_type == BASIC:
        return _basic(node)
    if options.kernel_type != FULL:
        raise Unsupported(f"the kernel {options.kernel_type}; expected 0 (full) or {BASIC} (basic)")
    x = node.input(0)
    if len(x.shape) != 2:
        raise Unsupported(f"an input of shape {list(x.shape)}; expected rank 2")
    times = TimeSteps(1, x.pixels)
    steps, states = lstm_layer(node, INPUTS, times, options.fused_activation, options.clips)
    return [*steps, states.output((x.pixels, states.channels))]


def _basic(node: NodeView) -> list[Step]:
    """The basic kernel, with five inputs, among them its states, and four outputs.

    Like LiteRT, it ignores the fused activation (always TANH) and clipping.
    """
    x, before, old = node.input(0), node.input(1), node.input(4)
    if len(x.shape) != 2 or len(old.shape) != 2 or before.shape != old.shape:
        raise Unsupported(
            f"the shapes {[list(v.shape) for v in (x, before, old)]}; expected rank 2"
        )
    (batch, depth), units = x.shape, old.channels
    if (batch, 4 * units, depth + units) != (old.pixels, *node.shape(2)):
        raise UnfitSizes(f"weights of shape {list(node.shape(2))} for {depth} + {units} channels")
    joined = node.output((batch, depth + units), 2)
    gates = node.output((batch, 4 * units), 3)
    state = node.output(old.shape, 1)
    result = node.output(old.shape, 0)
    steps: list[Step] = []
    for source, channel in ((x, 0), (before, depth)):
        matrix = View((batch, source.channels), (source.channels, 1))
        target = Target(batch, source.channels, batch, batch, out_channel=channel)
        steps.append(viewed(node, source, joined, matrix, target))
    steps.append(product(node, joined, gates, inputs=(2, 3)))
    for source, output, activation in ((old, state, 0), (state, result, 1)):
        defines: dict[str, Define] = {"CHANNELS": units, "ACTIVATION": activation}
        steps.append(by_texel(node, "lstm", (gates, source), output, defines))
    return [*steps, *assigned(node, before, result), *assigned(node, old, state)]
