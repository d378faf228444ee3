"""Recurrent layers: LSTMs over a sequence, or over one step of it.

What the inputs of all steps give is one product for each gate. A step reads the state from one row
of a history, and writes it to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from gles_delegate.dispatch import Alias, Const, Define, Dispatch, Operand, Shape, Step, Value
from gles_delegate.model.graph import Array
from gles_delegate.model.schema import ACTIVATIONS
from gles_delegate.ops.conv import product
from gles_delegate.ops.elementwise import elementwise
from gles_delegate.ops.lib.grid import make_grid, with_reduction_lanes
from gles_delegate.ops.lib.registry import NodeView, Unsupported
from gles_delegate.ops.lib.views import Region, View, view

GATES = 4
"""Of an LSTM, in this order: for the input, forgetting, the new value and the output."""

VECTOR_ACTIVATIONS = ("RELU", "RELU_N1_TO_1", "RELU6", "TANH")

PARAMETERS = 11
"""Rows of parameters of the gates in the weights of glsl/lstm_step.glsl."""


@dataclass(frozen=True)
class Course:
    """The course of a sequence: how its elements are counted, and in which order they are seen.

    Attributes:
        time_major: They are counted as [time, batch], otherwise as [batch, time].
    """

    steps: int
    batch: int
    time_major: bool = False
    forward: bool = True

    @staticmethod
    def of(x: Operand, time_major: bool, forward: bool = True) -> Course:
        """The course of a sequence of shape [time, batch, depth] or [batch, time, depth].

        Raises:
            Unsupported: It has another rank.
        """
        if len(x.shape) != 3:
            raise Unsupported(f"a sequence of shape {list(x.shape)}; expected rank 3")
        first, second = x.shape[:2]
        steps, batch = (first, second) if time_major else (second, first)
        return Course(steps, batch, time_major, forward)

    def defines(self, step: int) -> dict[str, Define]:
        """Defines of glsl/lib/recurrence.glsl."""
        time = step if self.forward else self.steps - 1 - step
        return {
            "BATCH": self.batch,
            "ROW": step,
            "INPUT_PIXEL": time * (self.batch if self.time_major else 1),
            "INPUT_STRIDE": 1 if self.time_major else self.steps,
            "INPUT_PIXELS": self.steps * self.batch,
        }

    def shape(self, channels: int) -> Shape:
        """The shape of a sequence of so many channels."""
        first = (self.steps, self.batch) if self.time_major else (self.batch, self.steps)
        return (*first, channels)

    def seen(self, history: Value, channels: int) -> View:
        """The first channels of the history after each step, as a sequence."""
        row = self.batch * history.channels
        strides = (row if self.forward else -row, history.channels)
        first = row if self.forward else self.steps * row
        strides = strides if self.time_major else strides[::-1]
        return View(self.shape(channels), (*strides, 1), first)


@dataclass(frozen=True)
class LstmInputs:
    """Which inputs of a node an LSTM has; those past the node's inputs are absent.

    Attributes:
        weights: For the input to each gate.
        recurrent: For the output state to each gate.
        peephole: For the cell state to the gates for the input, forgetting and the output.
        projection: The weights and the biases.
        state: The output state and the cell state, which are variables.
        norms: The coefficients of each gate's normalization.
        aux: A second input.
        aux_weights: For that to each gate.
    """

    weights: tuple[int, ...]
    recurrent: tuple[int, ...]
    peephole: tuple[int, ...]
    biases: tuple[int, ...]
    projection: tuple[int, int]
    state: tuple[int, int]
    norms: tuple[int, ...]
    aux: int
    aux_weights: tuple[int, ...]


ABSENT = 1 << 20
"""The number of an input that no node has."""


def lstm_layer(
    node: NodeView,
    inputs: LstmInputs,
    course: Course,
    activation: int,
    clips: tuple[float, float],
    name: str = "",
) -> tuple[list[Step], Value, int]:
    """The steps of an LSTM on input 0, its history, and the number of its output channels.

    Args:
        activation: That of the new value and of the result, by its number in the schema.
        clips: The largest cell state and the largest projection; 0: any.
        name: Tells apart the layers of a node.
    """
    cifg = not node.has_input(inputs.weights[0])
    norm = node.has_input(inputs.norms[1])
    peephole = node.has_input(inputs.peephole[1])
    projected = node.has_input(inputs.projection[0])
    units, depth = _matrix(node, inputs.weights[3])
    channels = (node.shape(inputs.recurrent[3])[-1],)[0]
    _check_presence(node, inputs, cifg, norm, peephole)
    x = node.input(0)
    if x.channels != depth:
        raise Unsupported(f"weights for {depth} channels on an input of {x.channels}")
    if not projected and channels != units:
        raise Unsupported(f"{channels} output channels of {units} units without a projection")
    for i, size in zip(inputs.state, (channels, units), strict=True):
        if node.input(i).elements != course.batch * size:
            raise Unsupported(f"a state of shape {list(node.shape(i))} for {course.batch} x {size}")
    function = vector_activation(activation)
    slices, state_slices = ceil(units / 4), ceil(channels / 4)
    steps, sums = _input_sums(node, inputs, course, cifg, norm, units, name)
    weights = _weights(node, inputs, norm, units, channels)
    columns = state_slices + (1 + projected + GATES * norm) * slices
    history = node.scratch(((course.steps + 1) * course.batch, 4 * columns), f"{name}history")
    steps += _enter(node, inputs.state, history, course.batch, (channels, units))
    defines: dict[str, Define] = {
        "STATE_SLICES": state_slices,
        "UNIT_SLICES": slices,
        "UNITS": units,
        "CIFG": int(cifg),
        "PEEPHOLE": int(peephole),
        "NORM": int(norm),
        "PROJECTED": int(projected),
        "ACTIVATION": function,
        "CELL_CLIP": clips[0],
        "PROJECTION_CLIP": clips[1],
    }
    stages = [0, 1, 2] if norm else [1]
    if projected:
        stages.append(3)
    for step in range(course.steps):
        for stage in stages:
            steps.append(
                _step(node, "lstm_step", (sums, weights), history, course, step,
                      {**defines, "STAGE": stage}, state_slices if stage == 3 else slices,
                      slices if stage == 3 else 0 if norm and stage else state_slices)
            )  # fmt: skip
    steps += _leave(node, inputs.state, history, course, (channels, units), name)
    return steps, history, channels


def vector_activation(number: int) -> str:
    """The function of an activation of vectors, by its number in the schema.

    Raises:
        Unsupported: LiteRT's kernels ignore it, leaving numbers of another use of the memory.
    """
    name = ACTIVATIONS[number] if 0 <= number < len(ACTIVATIONS) else f"activation {number}"
    if name not in VECTOR_ACTIVATIONS:
        raise Unsupported(f"the activation {name}; expected {', '.join(VECTOR_ACTIVATIONS)}")
    return name


def _step(
    node: NodeView,
    shader: str,
    reads: tuple[Operand, ...],
    history: Value,
    course: Course,
    step: int,
    defines: dict[str, Define],
    slices: int,
    shared: int,
) -> Dispatch:
    """A dispatch of one step.

    Args:
        slices: Slices that it computes.
        shared: Slices that are summed up for each; 0: what it computes has other loops.
    """
    grid = make_grid(course.batch, slices, node.limits)
    passes = 2 * (slices + 1)
    if shared:
        grid = with_reduction_lanes(grid, shared, node.limits)
        passes = ceil(shared / grid.reduction_lanes) + 8
    positions = course.defines(step)
    dispatch = Dispatch(
        node.index, shader, reads, history, grid, {**defines, **positions}, partial=True,
        passes=passes,
    )  # fmt: skip
    return dispatch.sized("ROW", "INPUT_PIXEL")


def _enter(
    node: NodeView, states: tuple[int, ...], history: Value, batch: int, channels: tuple[int, ...]
) -> list[Step]:
    """Copy the states, of so many channels, into the first row of the history."""
    steps: list[Step] = []
    channel = 0
    for i, count in zip(states, channels, strict=True):
        whole = View((batch, count), (count, 1))
        region = Region(batch, count, batch, batch, out_channel=channel)
        steps.append(view(node.input(i), history, whole, node.limits, node.index, region))
        channel += ceil(count / 4) * 4
    return steps


def _leave(
    node: NodeView,
    states: tuple[int, ...],
    history: Value,
    course: Course,
    channels: tuple[int, ...],
    name: str,
) -> list[Step]:
    """Assign the last row of the history to the states."""
    steps: list[Step] = []
    channel = 0
    for i, count in zip(states, channels, strict=True):
        before = node.input(i)
        after = node.scratch(before.shape, f"{name}state{i}")
        first = course.steps * course.batch * history.channels + channel
        last = View((course.batch, count), (history.channels, 1), first)
        steps.append(view(history, after, last, node.limits, node.index))
        if isinstance(before, Value):
            steps.append(Alias(node.index, before, after))
        channel += ceil(count / 4) * 4
    return steps


def _input_sums(
    node: NodeView,
    inputs: LstmInputs,
    course: Course,
    cifg: bool,
    norm: bool,
    units: int,
    name: str,
) -> tuple[list[Step], Value]:
    """What the inputs of all steps, and unless normalized the biases, add to each gate."""
    padded = ceil(units / 4) * 4
    pixels = course.steps * course.batch
    sums = node.scratch((pixels, GATES * padded), f"{name}sums")
    steps: list[Step] = []
    aux = node.has_input(inputs.aux) and node.has_input(inputs.aux_weights[1])
    for gate in range(int(cifg), GATES):
        of_gate = node.scratch((pixels, units), f"{name}gate{gate}")
        bias = ABSENT if norm else inputs.biases[gate]
        steps += product(node, node.input(0), of_gate, inputs=(inputs.weights[gate], bias))
        if aux:
            of_aux = node.scratch((pixels, units), f"{name}aux{gate}")
            both = node.scratch((pixels, units), f"{name}both{gate}")
            weights = (inputs.aux_weights[gate], ABSENT)
            steps += product(node, node.input(inputs.aux), of_aux, inputs=weights)
            steps.append(elementwise(node, (of_gate, of_aux), both, "ADD"))
            of_gate = both
        region = Region(pixels, units, pixels, pixels, out_channel=gate * padded)
        whole = View((pixels, units), (units, 1))
        steps.append(view(of_gate, sums, whole, node.limits, node.index, region))
    return steps, sums


def _matrix(node: NodeView, i: int) -> tuple[int, int]:
    """The shape of weights."""
    shape = node.shape(i)
    if len(shape) != 2:
        raise Unsupported(f"weights of shape {list(shape)}; expected rank 2")
    return shape[0], shape[1]


def _check_presence(
    node: NodeView, inputs: LstmInputs, cifg: bool, norm: bool, peephole: bool
) -> None:
    """Raise `Unsupported` unless the optional inputs of all gates are there, or of none.

    Also if weights are quantized in a way that LiteRT's kernels ignore.
    """
    gates = range(int(cifg), GATES)
    needed = [*inputs.weights[cifg:], *inputs.recurrent[cifg:], *inputs.biases[cifg:]]
    needed += inputs.norms[cifg:] * norm + inputs.peephole[cifg:] * peephole
    if node.has_input(inputs.aux) and node.has_input(inputs.aux_weights[1]):
        needed += inputs.aux_weights[cifg:]
    missing = [i for i in needed if not node.has_input(i)]
    if missing:
        raise Unsupported(f"input {missing[0]} is missing; {len(gates)} gates have such an input")
    for i in needed:
        quantization = node.graph.tensors[node.inputs[i]].quantization
        if any(quantization.zero_points) or len(quantization.scales) > 1:
            raise Unsupported(f"input {i} has a zero point, or several scales; expected one scale")


def _weights(node: NodeView, inputs: LstmInputs, norm: bool, units: int, channels: int) -> Const:
    """The weights of glsl/lstm_step.glsl."""
    none = (ABSENT,) * GATES
    which = (
        *inputs.recurrent,
        *inputs.peephole,
        *(inputs.norms + inputs.biases if norm else none + none),
        *inputs.projection,
    )
    slices, state_slices = ceil(units / 4), ceil(channels / 4)
    texels = (16 * state_slices + PARAMETERS) * slices
    if node.has_input(inputs.projection[0]):
        texels += (4 * slices + 1) * state_slices
    tensors = tuple(map(node.constant, which))
    return Const(lstm_weights, tensors, (texels, 4), (units, channels))


def lstm_weights(*arrays: Array | int | None) -> Array:
    """The recurrent weights of each gate [units, channels], or their diagonal; the rows of
    parameters [units]; the weights and biases of the projection; the numbers of units and channels
    -> what glsl/lstm_step.glsl reads.
    """
    *tensors, units, channels = arrays
    assert isinstance(units, int)
    assert isinstance(channels, int)
    recurrent = np.zeros((GATES, _whole(units), _whole(channels)), np.float32)
    for gate, matrix in enumerate(tensors[:GATES]):
        if isinstance(matrix, np.ndarray):
            dense = np.diag(matrix) if matrix.ndim == 1 else matrix
            recurrent[gate, :units, :channels] = dense
    rows = np.zeros((PARAMETERS, _whole(units)), np.float32)
    for row, values in enumerate(tensors[GATES : GATES + PARAMETERS]):
        if values is not None:
            rows[row, :units] = values
    blocks = recurrent.reshape(GATES, _whole(units), -1, 4).transpose(2, 0, 3, 1)
    parts = [blocks.ravel(), rows.ravel()]
    weights, biases = tensors[GATES + PARAMETERS :]
    if weights is not None:
        projection = np.zeros((_whole(units), _whole(channels)), np.float32)
        projection[:units, :channels] = np.transpose(weights)
        last = np.zeros(_whole(channels), np.float32)
        last[:channels] = 0 if biases is None else biases
        parts += [projection.ravel(), last]
    return np.concatenate(parts)


def _whole(size: int) -> int:
    """The lanes of so many channels in whole slices."""
    return ceil(size / 4) * 4
