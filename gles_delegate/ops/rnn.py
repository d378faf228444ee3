"""Recurrent layers without gates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.ops.elementwise import FusedActivation
from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported
from gles_delegate.ops.lib.options import Bool, Int8, Options
from gles_delegate.ops.lib.recurrence import (
    ABSENT,
    StateSequence,
    StepKernel,
    TimeSteps,
    bidirectional,
    check_types,
    input_sum,
    vector_activation,
    whole,
)
from gles_delegate.ops.lib.registry import op
from gles_delegate.shaders.dispatch import Const, Define, Step


@dataclass(frozen=True)
class RnnInputs:
    """The numbers of a node's inputs that a layer reads; see `LstmInputs`."""

    weights: int
    recurrent: int
    bias: int
    state: int
    aux: int = ABSENT
    aux_weights: int = ABSENT
    x: int = 0


INPUTS = RnnInputs(1, 2, 3, 4)
FORWARD = RnnInputs(1, 2, 3, 4, aux=9, aux_weights=10)
BACKWARD = RnnInputs(5, 6, 7, 8, aux=9, aux_weights=11)


class SequenceRnnOptions(Options):
    time_major: Bool = False
    fused_activation: Int8 = 0


class BidirectionalRnnOptions(SequenceRnnOptions):
    merge_outputs: Bool = False


@op("RNN", max_version=3, options=FusedActivation)
def rnn(node: NodeView, options: FusedActivation) -> list[Step]:
    x = node.input(0)
    if len(x.shape) != 2:
        raise Unsupported(f"an input of shape {list(x.shape)}; expected rank 2")
    times = TimeSteps(1, x.pixels, True)
    steps, states = _layer(node, INPUTS, times, options.fused_activation)
    return [*steps, states.output((x.pixels, states.channels))]


@op("UNIDIRECTIONAL_SEQUENCE_RNN", max_version=3, options=SequenceRnnOptions)
def unidirectional_sequence_rnn(node: NodeView, options: SequenceRnnOptions) -> list[Step]:
    times = TimeSteps.of(node.input(0), options.time_major)
    steps, states = _layer(node, INPUTS, times, options.fused_activation)
    return [*steps, states.output()]


@op("BIDIRECTIONAL_SEQUENCE_RNN", max_version=3, options=BidirectionalRnnOptions)
def bidirectional_sequence_rnn(node: NodeView, options: BidirectionalRnnOptions) -> list[Step]:
    """A second input without weights is the input of the backward layer.

    LiteRT's kernel reads it only if the time comes first.
    """
    x = node.input(0)
    if node.has_input(9) and options.time_major and node.shape(9) != x.shape:
        raise Unsupported(
            f"inputs of shapes {list(x.shape)} and {list(node.shape(9))} with the time first, of "
            "which LiteRT takes the second for as long as the first"
        )
    steps: list[Step] = []
    both: list[StateSequence] = []
    for inputs, forward in ((FORWARD, True), (BACKWARD, False)):
        times = TimeSteps.of(x, options.time_major, forward)
        if node.has_input(9) and not node.has_input(10):
            x_of_layer = 0 if forward or not options.time_major else 9
            inputs = replace(inputs, x=x_of_layer, aux=ABSENT)
        name = "forward" if forward else "backward"
        layer, states = _layer(node, inputs, times, options.fused_activation, name)
        steps += layer
        both.append(states)
    return [*steps, *bidirectional(both, options.merge_outputs)]


def _layer(
    node: NodeView, inputs: RnnInputs, times: TimeSteps, activation: int, name: str = ""
) -> tuple[list[Step], StateSequence]:
    x, state = node.input(inputs.x), node.input(inputs.state)
    weights, recurrent = inputs.weights, inputs.recurrent
    if node.dtype(0) != "float32":
        raise Unsupported(f"input 0 is {node.dtype(0)}; expected float32")
    check_types(node, (weights, recurrent), (weights, recurrent, inputs.bias))
    units, depth = node.shape(weights)
    function = vector_activation(activation, in_place=True)
    if node.shape(recurrent) != (units, units) or x.channels != depth:
        raise UnfitSizes(
            f"weights of shapes {list(node.shape(weights))} and {list(node.shape(recurrent))} on "
            f"an input of {list(x.shape)}"
        )
    pixels, slices = times.steps * times.batch, ceil(units / 4)
    if x.pixels != pixels or state.elements != times.batch * units:
        raise UnfitSizes(f"an input of shape {list(x.shape)} and a state of {list(state.shape)}")
    sums = node.scratch((pixels, units), f"{name}sums")
    matrix = node.constant(recurrent)
    columns = Const(square_columns, (matrix,), (4 * slices * slices, 4), (units,))
    defines: dict[str, Define] = {"STATE_SLICES": slices, "ACTIVATION": function}
    steps = input_sum(
        node, sums, inputs.x, weights, inputs.bias, aux=inputs.aux, aux_weights=inputs.aux_weights
    )
    states = StateSequence.of(node, times, [(inputs.state, units)], slices, name)
    kernel = StepKernel("rnn_step", slices, slices, defines)
    at_once = states.steps_at_once(slices)
    steps += states.enter() + states.steps([kernel], (sums, columns), at_once) + states.exit()
    return steps, states


def square_columns(matrix: Array, units: int) -> Array:
    """[units, units] -> its columns, in whole slices."""
    padded = np.zeros((whole(units), whole(units)), np.float32)
    padded[:units, :units] = np.transpose(matrix)
    return padded
