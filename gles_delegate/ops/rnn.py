"""Recurrent layers without gates."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TypeAlias

import numpy as np

from gles_delegate.dispatch import Const, Define, Step
from gles_delegate.model.graph import Array
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Bool, Int8, Options
from gles_delegate.ops.lib.recurrence import (
    ABSENT,
    Course,
    Seen,
    Stage,
    bidirectional,
    check_types,
    enter,
    input_sum,
    layer_steps,
    leave,
    steps_at_once,
    unidirectional,
    vector_activation,
    whole,
)
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import view


@dataclass(frozen=True)
class RnnOptions(Options):
    fused_activation: Int8 = 0


@dataclass(frozen=True)
class SequenceRnnOptions(Options):
    time_major: Bool = False
    fused_activation: Int8 = 0


@dataclass(frozen=True)
class BidirectionalRnnOptions(Options):
    time_major: Bool = False
    fused_activation: Int8 = 0
    merge_outputs: Bool = False


@op("RNN", max_version=3, options=RnnOptions)
def rnn(node: NodeView, options: RnnOptions) -> list[Step]:
    x = node.input(0)
    if len(x.shape) != 2:
        raise Unsupported(f"an input of shape {list(x.shape)}; expected rank 2")
    course = Course(1, x.pixels, True)
    steps, (history, _, units) = _layer(node, INPUTS, course, options.fused_activation)
    output = node.output((x.pixels, units))
    seen = course.seen(history, units)
    return [*steps, view(history, output, seen, node.limits, node.index)]


@op("UNIDIRECTIONAL_SEQUENCE_RNN", max_version=3, options=SequenceRnnOptions)
def unidirectional_sequence_rnn(node: NodeView, options: SequenceRnnOptions) -> list[Step]:
    course = Course.of(node.input(0), options.time_major)
    steps, seen = _layer(node, INPUTS, course, options.fused_activation)
    return [*steps, unidirectional(node, *seen)]


@op("BIDIRECTIONAL_SEQUENCE_RNN", max_version=3, options=BidirectionalRnnOptions)
def bidirectional_sequence_rnn(node: NodeView, options: BidirectionalRnnOptions) -> list[Step]:
    """Without weights for it, the second input is that of the backward layer.

    LiteRT's kernel does so only if the time comes first, and otherwise ignores it.
    """
    x = node.input(0)
    if node.has_input(9) and options.time_major and node.shape(9) != x.shape:
        raise Unsupported(
            f"inputs of shapes {list(x.shape)} and {list(node.shape(9))} with the time first, of "
            "which LiteRT takes the second for as long as the first"
        )
    steps: list[Step] = []
    seen: list[Seen] = []
    for inputs, forward in ((FORWARD, True), (BACKWARD, False)):
        course = Course.of(x, options.time_major, forward)
        if node.has_input(9) and not node.has_input(10):
            inputs = (0 if forward or not options.time_major else 9, *inputs[1:5], ABSENT, ABSENT)
        name = "forward" if forward else "backward"
        layer, found = _layer(node, inputs, course, options.fused_activation, name)
        steps += layer
        seen.append(found)
    return [*steps, *bidirectional(node, seen, options.merge_outputs)]


Inputs: TypeAlias = tuple[int, int, int, int, int, int, int]
"""Which inputs of a node are the input, its weights, the recurrent weights, the biases, the state,
a second input, and the weights for that."""

INPUTS = (0, 1, 2, 3, 4, ABSENT, ABSENT)
FORWARD = (0, 1, 2, 3, 4, 9, 10)
BACKWARD = (0, 5, 6, 7, 8, 9, 11)


def _layer(
    node: NodeView, inputs: Inputs, course: Course, activation: int, name: str = ""
) -> tuple[list[Step], Seen]:
    """The steps of a layer, and its history."""
    x, weights, recurrent, bias, state, aux, aux_weights = inputs
    if node.dtype(0) != "float32":
        raise Unsupported(f"input 0 is {node.dtype(0)}; expected float32")
    check_types(node, (weights, recurrent), (weights, recurrent, bias))
    units, depth = node.shape(weights)
    function = vector_activation(activation, in_place=True)
    if node.shape(recurrent) != (units, units) or node.input(x).channels != depth:
        raise Unsupported(
            f"weights of shapes {list(node.shape(weights))} and {list(node.shape(recurrent))} on "
            f"an input of {list(node.shape(x))}"
        )
    pixels, slices = course.steps * course.batch, ceil(units / 4)
    if node.input(x).pixels != pixels or node.input(state).elements != course.batch * units:
        raise Unsupported(
            f"an input of shape {list(node.shape(x))} and a state of {list(node.shape(state))}"
        )
    sums = node.scratch((pixels, units), f"{name}sums")
    history = node.scratch(((course.steps + 1) * course.batch, whole(units)), f"{name}history")
    matrix = node.constant(recurrent)
    columns = Const(square_columns, (matrix,), (4 * slices * slices, 4), (units,))
    defines: dict[str, Define] = {"STATE_SLICES": slices, "ACTIVATION": function}
    steps = input_sum(node, (x, weights, bias, aux, aux_weights), sums)
    steps += enter(node, (state,), history, course.batch, (units,))
    stage = Stage("rnn_step", slices, slices, defines)
    at_once = steps_at_once(node, history, course, slices)
    steps += layer_steps(node, [stage], (sums, columns), history, course, at_once)
    steps += leave(node, (state,), history, course, (units,), name)
    return steps, (history, course, units)


def square_columns(matrix: Array, units: int) -> Array:
    """[units, units] -> its columns, in whole slices."""
    padded = np.zeros((whole(units), whole(units)), np.float32)
    padded[:units, :units] = np.transpose(matrix)
    return padded
