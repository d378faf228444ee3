"""Recurrent layers: LSTMs over a sequence, or over one step of it.

What the inputs of all steps give is one product for each gate. A step reads the state from one row
of a history, and writes it to the next. A dispatch makes one step, or all of a small layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, frexp
from typing import TypeAlias, cast

import numpy as np

from gles_delegate.dispatch import (
    Alias,
    Const,
    Define,
    Dispatch,
    Grid,
    Operand,
    Shape,
    Step,
    Value,
)
from gles_delegate.model.graph import Array
from gles_delegate.model.schema import ACTIVATIONS
from gles_delegate.ops.lib.elementwise import elementwise
from gles_delegate.ops.lib.grid import WORK_GROUP, make_grid, with_reduction_lanes
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.product import product
from gles_delegate.ops.lib.views import Region, View, view

GATES = 4
"""Gates of an LSTM, in this order: input, forget, new value, output."""

VECTOR_ACTIVATIONS = ("RELU", "RELU_N1_TO_1", "RELU6", "TANH")

FEW_STATES = 32
"""Slices of all states of a batch, with which one work group is quicker than many dispatches."""

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
            "INPUT_STEP": (self.batch if self.time_major else 1) * (1 if self.forward else -1),
            "INPUT_STRIDE": 1 if self.time_major else self.steps,
            "INPUT_PIXELS": self.steps * self.batch,
        }

    def shape(self, channels: int) -> Shape:
        """The shape of a sequence with that number of channels."""
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
        x: The input.
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
    x: int = 0


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
    """The steps of an LSTM, its history, and the number of its output channels.

    Args:
        activation: That of the new value and of the result, by its number in the schema.
        clips: The largest cell state and the largest projection; 0: any.
        name: Distinguishes the layers of a node.
    """
    cifg = not node.has_input(inputs.weights[0])
    norm, peephole = (
        any(map(node.has_input, optional[cifg:])) for optional in (inputs.norms, inputs.peephole)
    )
    projected = node.has_input(inputs.projection[0])
    units, depth = _matrix(node, inputs.weights[3])
    channels = node.shape(inputs.recurrent[3])[-1]
    _check_presence(node, inputs, cifg, norm, peephole)
    if not projected and channels != units:
        raise Unsupported(f"{channels} output channels of {units} units without a projection")
    _check_shapes(node, inputs, course, depth, (channels, units))
    integer = node.dtype(0) == "int8"
    function = "TANH" if integer else vector_activation(activation)
    slices, state_slices = ceil(units / 4), ceil(channels / 4)
    steps, sums = _input_sums(node, inputs, course, cifg, norm, units, name)
    weights = _weights(node, inputs, norm, units, channels, integer)
    columns = state_slices + (1 + projected + GATES * norm) * slices
    history = node.scratch(((course.steps + 1) * course.batch, 4 * columns), f"{name}history")
    steps += enter(node, inputs.state, history, course.batch, (channels, units))
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
        "INTEGER": int(integer),
        "GATES": GATES if node.limits.profile.large_tiles else GATES // 2,
    }
    if integer:
        if peephole and channels != units:
            raise Unsupported("peepholes and a projection, of which LiteRT reads too few cells")
        defines |= _integer_defines(node, inputs, clips, norm, projected)
    stages = [Stage(1, slices, state_slices)]
    if norm:
        stages = [Stage(0, slices, state_slices), Stage(1, slices, 0), Stage(2, slices, 0)]
    if projected:
        stages.append(Stage(3, state_slices, slices))
    made = 1 if norm or projected else steps_at_once(node, history, course, slices)
    for step in range(0, course.steps, made):
        for stage in stages:
            steps.append(
                layer_step(
                    node, "lstm_step", (sums, weights), history, course, (step, made),
                    {**defines, "STAGE": stage.number}, stage.slices, stage.summed,
                )
            )  # fmt: skip
    steps += leave(node, inputs.state, history, course, (channels, units), name)
    return steps, history, channels


@dataclass(frozen=True)
class Stage:
    """A part of a step, which a dispatch computes; see glsl/lstm_step.glsl.

    Attributes:
        slices: The slices that it computes.
        summed: The slices that each of these sums up; 0: it has other loops.
    """

    number: int
    slices: int
    summed: int


def _check_shapes(
    node: NodeView, inputs: LstmInputs, course: Course, depth: int, states: tuple[int, int]
) -> None:
    """Raise `Unsupported` unless the input and the states have these channels."""
    x = node.input(inputs.x)
    if x.channels != depth or x.pixels != course.steps * course.batch:
        raise Unsupported(f"weights for {depth} channels on an input of shape {list(x.shape)}")
    for i, size in zip(inputs.state, states, strict=True):
        if node.input(i).elements != course.batch * size:
            raise Unsupported(f"a state of shape {list(node.shape(i))} for {course.batch} x {size}")


def vector_activation(number: int, in_place: bool = False) -> str:
    """The function of an activation of vectors, by its number in the schema.

    Args:
        in_place: LiteRT's kernel applies it in place, so that none leaves the vector as it is.

    Raises:
        Unsupported: LiteRT's kernels ignore it, leaving numbers of another use of the memory.
    """
    name = ACTIVATIONS[number] if 0 <= number < len(ACTIVATIONS) else f"activation {number}"
    if in_place and name == "NONE":
        return ""
    if name not in VECTOR_ACTIVATIONS:
        raise Unsupported(f"the activation {name}; expected {', '.join(VECTOR_ACTIVATIONS)}")
    return name


def steps_at_once(node: NodeView, history: Value, course: Course, slices: int) -> int:
    """How many steps a dispatch makes: all, if one work group has few enough slices of states."""
    few = 0 < course.batch * slices <= FEW_STATES
    fits = few and history.nbytes <= node.limits.block_bytes
    passes = course.steps * (slices + 9)
    return course.steps if fits and course.steps > 1 and passes <= node.limits.loop_passes else 1


def layer_step(
    node: NodeView,
    shader: str,
    reads: tuple[Operand, ...],
    history: Value,
    course: Course,
    made: tuple[int, int],
    defines: dict[str, Define],
    slices: int,
    shared: int,
) -> Dispatch:
    """A dispatch of one step, or of several.

    Args:
        made: The number of the first step, and how many there are.
        slices: Slices that it computes.
        shared: Slices that are summed up for each; 0: what it computes has other loops.
    """
    first, count = made
    if count > 1:
        lanes = 1
        if node.limits.profile.occupancy:
            while 2 * lanes * course.batch * slices <= WORK_GROUP and 2 * lanes <= slices // 4:
                lanes *= 2
        grid = Grid(course.batch, slices, course.batch, slices, lanes == 1, lanes)
        passes = count * (ceil(slices / lanes) + 9)
    else:
        grid = make_grid(course.batch, slices, node.limits)
        passes = 2 * (slices + 1)
        if shared:
            grid = with_reduction_lanes(grid, shared, node.limits)
            passes = ceil(shared / grid.reduction_lanes) + 8
    shared_texels = 2 * course.batch * slices if count > 1 else 0
    all_defines = {
        **defines, **course.defines(first), "STEPS": count, "SHARED_TEXELS": shared_texels,
    }  # fmt: skip
    dispatch = Dispatch(
        node.index, shader, reads, history, grid, all_defines, partial=True, passes=passes
    )
    sizes = {"ROW", "INPUT_PIXEL"}
    if not node.limits.profile.short_loops:
        sizes |= {"STATE_SLICES", "UNIT_SLICES", "STEPS"}
    return dispatch.sized(*(name for name in all_defines if name in sizes))


def enter(
    node: NodeView, states: tuple[int, ...], history: Value, batch: int, channels: tuple[int, ...]
) -> list[Step]:
    """Copy the states, with these numbers of channels, into the first row of the history."""
    steps: list[Step] = []
    channel = 0
    for i, count in zip(states, channels, strict=True):
        whole = View((batch, count), (count, 1))
        region = Region(batch, count, batch, batch, out_channel=channel)
        steps.append(view(node.input(i), history, whole, node.limits, node.index, region))
        channel += ceil(count / 4) * 4
    return steps


def leave(
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
    """The contribution of the inputs of all steps to each gate, with biases unless normalized."""
    padded = ceil(units / 4) * 4
    pixels = course.steps * course.batch
    sums = node.scratch((pixels, GATES * padded), f"{name}sums")
    steps: list[Step] = []
    for gate in range(int(cifg), GATES):
        bias = ABSENT if norm else inputs.biases[gate]
        of_gate = node.scratch((pixels, units), f"{name}gate{gate}")
        which = (inputs.x, inputs.weights[gate], bias, inputs.aux, inputs.aux_weights[gate])
        steps += input_sum(node, which, of_gate)
        region = Region(pixels, units, pixels, pixels, out_channel=gate * padded)
        whole = View((pixels, units), (units, 1))
        steps.append(view(of_gate, sums, whole, node.limits, node.index, region))
    return steps, sums


Seen: TypeAlias = tuple[Value, Course, int]
"""The history of a layer, its course, and the number of its output channels."""


def unidirectional(node: NodeView, history: Value, course: Course, channels: int) -> Step:
    """Output 0 from the history of a layer."""
    output = node.output(course.shape(channels))
    return view(history, output, course.seen(history, channels), node.limits, node.index)


def bidirectional(node: NodeView, seen: Sequence[Seen], merged: bool) -> list[Step]:
    """The outputs of two layers, or one output with the channels of both."""
    if not merged:
        outputs = [node.output(course.shape(n), i) for i, (_, course, n) in enumerate(seen)]
        return [
            view(history, output, course.seen(history, n), node.limits, node.index)
            for output, (history, course, n) in zip(outputs, seen, strict=True)
        ]
    output = node.output(seen[0][1].shape(sum(n for _, _, n in seen)))
    steps: list[Step] = []
    channel = 0
    for history, course, n in seen:
        region = Region(output.pixels, n, output.pixels, output.pixels, out_channel=channel)
        how = course.seen(history, n)
        steps.append(view(history, output, how, node.limits, node.index, region))
        channel += n
    return steps


def input_sum(node: NodeView, which: tuple[int, int, int, int, int], output: Value) -> list[Step]:
    """The product of an input and weights, biases, and perhaps the product of a second input.

    Args:
        which: The inputs of the node that are the input, its weights, the biases, the second
            input and its weights; the last two or three may be absent.
    """
    x, weights, bias, aux, aux_weights = which
    if not (node.has_input(aux) and node.has_input(aux_weights)):
        return product(node, node.input(x), output, inputs=(weights, bias))
    second = node.input(aux)
    if second.pixels != output.pixels or second.channels != node.shape(aux_weights)[-1]:
        raise Unsupported(
            f"a second input of shape {list(second.shape)} for {output.pixels} pixels, and weights "
            f"of {list(node.shape(aux_weights))}"
        )
    first = replace(output, part=f"{output.part}0")
    other = replace(output, part=f"{output.part}1")
    return [
        *product(node, node.input(x), first, inputs=(weights, bias)),
        *product(node, second, other, inputs=(aux_weights, ABSENT)),
        elementwise(node, (first, other), output, "ADD"),
    ]


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
    check_types(node, [*inputs.weights[cifg:], *inputs.recurrent[cifg:]], needed)


def check_types(node: NodeView, matrices: Sequence[int], needed: Sequence[int]) -> None:
    """Raise `Unsupported` if weights are not of one type, or quantized otherwise than LiteRT reads.

    Or if output 0 is not of the input's type, which LiteRT writes nevertheless.

    Args:
        needed: Inputs that must have one scale.
    """
    types = sorted({node.dtype(i) for i in matrices})
    expected = ("int8",) if node.dtype(0) == "int8" else ("float32", "int8")
    if node.dtype(0) not in ("float32", "int8") or len(types) > 1 or types[0] not in expected:
        raise Unsupported(
            f"an input of {node.dtype(0)} and weights of {' and '.join(types)}; expected float32 "
            "and float32 or int8, or int8 and int8"
        )
    result = node.graph.tensors[node.outputs[0]].dtype if node.outputs else node.dtype(0)
    if result != node.dtype(0):
        raise Unsupported(f"output 0 is {result}; expected {node.dtype(0)}, as the input is")
    for i in needed:
        quantization = node.graph.tensors[node.inputs[i]].quantization
        if any(quantization.zero_points) or len(quantization.scales) > 1:
            raise Unsupported(f"input {i} has a zero point, or several scales; expected one scale")


def _integer_defines(
    node: NodeView, inputs: LstmInputs, clips: tuple[float, float], norm: bool, projected: bool
) -> dict[str, Define]:
    """Defines of glsl/lstm_step.glsl for 8-bit activations and a 16-bit cell state.

    Raises:
        Unsupported: The tensors are quantized otherwise.
    """
    tensors = node.graph.tensors
    _check_integers(node, inputs)
    output_state, cell_state = (tensors[node.inputs[i]] for i in inputs.state)
    middle = [tensors[i].quantization for i in node.node.intermediates]
    scales = [q.pair[0] if norm else 2**-12 for q in middle[:GATES]]
    hidden_scale, hidden_zero = middle[GATES].pair
    scale, zero = output_state.quantization.pair
    cell_scale = cell_state.quantization.pair[0]
    exponent = frexp(cell_scale)[1] - 1
    if cell_scale != 2.0**exponent or not -15 <= exponent <= -9:
        raise Unsupported(f"a cell state of the scale {cell_scale}; expected 2^-15 to 2^-9")
    norm_scales = [_scale(node, i) for i in inputs.norms]

    def parts(inputs: Sequence[int], scale: float) -> str:
        ratios = (scale * _scale(node, i) / s for i, s in zip(inputs, scales, strict=True))
        return _vector([_parts(ratio) for ratio in ratios])

    result_zero = -hidden_zero if projected else hidden_zero
    return {
        "GATE_STEPS": _vector([1 / s for s in scales]),
        "INPUT_PARTS": parts(inputs.weights, _scale(node, 0)),
        "RECURRENT_PARTS": parts(inputs.recurrent, scale),
        "PEEPHOLE_PARTS": parts((*inputs.peephole[:2], ABSENT, inputs.peephole[2]), cell_scale),
        "NORM_PARTS": _vector([_parts(4096 * s) for s in norm_scales]),
        "OUTPUT_PARTS": _parts(_scale(node, inputs.projection[0]) * hidden_scale / scale),
        "NORM_SCALES": _vector(norm_scales),
        "NORM_GUARDS": _vector([max(1, int(10000 * s)) for s in norm_scales]),
        "CELL_SCALE": cell_scale,
        "CELL_EXPONENT": f"({exponent})",
        "CELL_LIMIT": min(int(clips[0] / cell_scale), 32767),
        "RESULT_STEPS": 2**-30 / hidden_scale,
        "RESULT_OFFSET": float(result_zero),
        "RESULT_ZERO": float(result_zero if projected else zero),
        "RESULT_SCALE": hidden_scale if projected else scale,
        "OUTPUT_SCALE": scale,
        "OUTPUT_ZERO": float(zero),
        "OUTPUT_LIMIT": float(min(int(clips[1] / scale), 127)),
    }


def _check_integers(node: NodeView, inputs: LstmInputs) -> None:
    """Raise `Unsupported` unless the states are of int8 and int16, and five tensors give scales."""
    output_state, cell_state = (node.dtype(i) for i in inputs.state)
    if (output_state, cell_state) != ("int8", "int16"):
        raise Unsupported(
            f"an output state of {output_state} and a cell state of {cell_state}; "
            "expected int8 and int16"
        )
    if len(node.node.intermediates) != 5 or min(node.node.intermediates) < 0:
        raise Unsupported(f"{len(node.node.intermediates)} intermediate tensors; expected 5")


def _scale(node: NodeView, i: int) -> float:
    """The scale of an input, 1 if it is absent or has none."""
    if not node.has_input(i):
        return 1.0
    return (*node.graph.tensors[node.inputs[i]].quantization.scales, 1.0)[0]


def _parts(factor: float) -> float:
    """To parts of how many an integer is rounded that a fixed-point factor multiplies.

    That of its 31 bits before they are shifted, of which LiteRT rounds the result again.
    """
    return 2.0 ** max(-frexp(factor)[1], 0)


def _vector(numbers: Sequence[float]) -> str:
    return f"vec4({', '.join(repr(float(number)) for number in numbers)})"


def _weights(
    node: NodeView, inputs: LstmInputs, norm: bool, units: int, channels: int, integer: bool
) -> Const:
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
    scales = [1.0] * PARAMETERS
    if integer and norm:
        # LiteRT takes the biases for multiples of 2^-10 times the scale of the coefficients.
        pairs = zip(inputs.biases, inputs.norms, strict=True)
        scales[-GATES:] = [1024 * _scale(node, b) / _scale(node, n) for b, n in pairs]
    return Const(lstm_weights, tensors, (texels, 4), (units, channels, *scales))


def lstm_weights(*arrays: Array | float | None) -> Array:
    """The recurrent weights of each gate [units, channels], or their diagonal; the rows of
    parameters [units]; the weights and biases of the projection; the numbers of units and channels;
    what to divide each row of parameters by -> what glsl/lstm_step.glsl reads.
    """
    tensors, numbers = arrays[: GATES + PARAMETERS + 2], arrays[GATES + PARAMETERS + 2 :]
    units, channels, *scales = cast(list[int], numbers)
    recurrent = np.zeros((GATES, whole(units), whole(channels)), np.float32)
    for gate, matrix in enumerate(tensors[:GATES]):
        if isinstance(matrix, np.ndarray):
            dense = np.diag(matrix) if matrix.ndim == 1 else matrix
            recurrent[gate, :units, :channels] = dense
    rows = np.zeros((PARAMETERS, whole(units)), np.float32)
    for row, values in enumerate(tensors[GATES : GATES + PARAMETERS]):
        if values is not None:
            rows[row, :units] = values / np.float32(scales[row])
    blocks = recurrent.reshape(GATES, whole(units), -1, 4).transpose(2, 0, 3, 1)
    parts = [blocks.ravel(), rows.ravel()]
    weights, biases = tensors[GATES + PARAMETERS :]
    if weights is not None:
        projection = np.zeros((whole(units), whole(channels)), np.float32)
        projection[:units, :channels] = np.transpose(weights)
        last = np.zeros(whole(channels), np.float32)
        last[:channels] = 0 if biases is None else biases
        parts += [projection.ravel(), last]
    return np.concatenate(parts)


def whole(size: int) -> int:
    """The lanes of the channels in whole slices."""
    return ceil(size / 4) * 4
