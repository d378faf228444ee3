"""Recurrent layers: LSTMs over a sequence or over one step, and what they share with others.

One product for each gate has the contributions of the inputs of all steps. A step reads the states
from one row of a history, and writes them to the next. A dispatch makes one step, or all steps of a
small layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, frexp, isclose
from typing import cast

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.model.schema import ACTIVATIONS
from gles_delegate.ops.lib.elementwise import elementwise
from gles_delegate.ops.lib.grid import WORK_GROUP, make_grid, with_reduction_lanes
from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported
from gles_delegate.ops.lib.product import product
from gles_delegate.ops.lib.views import Target, View, assigned, viewed
from gles_delegate.shaders.dispatch import (
    Const,
    Define,
    Dispatch,
    Grid,
    Operand,
    Shape,
    Step,
    Value,
)

GATES = 4
"""Gates of an LSTM, in this order: input, forget, new value, output."""

VECTOR_ACTIVATIONS = ("RELU", "RELU_N1_TO_1", "RELU6", "TANH")

FEW_STATES = 32
"""Slices of all states up to which one work group is faster than one dispatch for each step."""

PARAMETERS = 11
"""Rows of parameters of the gates in the weights of glsl/lib/lstm.glsl."""


@dataclass(frozen=True)
class TimeSteps:
    """The time steps of a sequence: its layout, and the direction in which a layer reads it.

    Attributes:
        time_major: Its shape is [time, batch, channels], otherwise [batch, time, channels].
    """

    steps: int
    batch: int
    time_major: bool = False
    forward: bool = True

    @staticmethod
    def of(x: Operand, time_major: bool, forward: bool = True) -> TimeSteps:
        """Those of a sequence of shape [time, batch, depth] or [batch, time, depth]."""
        if len(x.shape) != 3:
            raise Unsupported(f"a sequence of shape {list(x.shape)}; expected rank 3")
        first, second = x.shape[:2]
        steps, batch = (first, second) if time_major else (second, first)
        return TimeSteps(steps, batch, time_major, forward)

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


@dataclass(frozen=True)
class StepKernel:
    """A kernel of a step, which one dispatch runs.

    Attributes:
        slices: The slices that it computes.
        summed: The slices that it sums up for each of these; 0: it has other loops.
    """

    shader: str
    slices: int
    summed: int
    defines: Mapping[str, Define]


@dataclass(frozen=True)
class StateSequence:
    """The states of a layer before its first step and after each; see glsl/lib/recurrence.glsl.

    Attributes:
        states: The inputs of the node that have the states, and their channels; the output state
            comes first.
        name: Distinguishes the layers of a node.
    """

    node: NodeView
    times: TimeSteps
    states: tuple[tuple[int, int], ...]
    value: Value
    name: str

    @staticmethod
    def of(
        node: NodeView, times: TimeSteps, states: Iterable[tuple[int, int]], slices: int, name: str
    ) -> StateSequence:
        """States in rows of that many slices."""
        pixels = (times.steps + 1) * times.batch
        value = node.scratch((pixels, 4 * slices), f"{name}history")
        return StateSequence(node, times, tuple(states), value, name)

    @property
    def channels(self) -> int:
        """Channels of the output state."""
        return self.states[0][1]

    def enter(self) -> list[Step]:
        """Copy the states into the first row."""
        node, batch = self.node, self.times.batch
        steps: list[Step] = []
        for i, count, channel in self._columns():
            target = Target(batch, count, batch, batch, out_channel=channel)
            state = View((batch, count), (count, 1))
            steps.append(viewed(node, node.input(i), self.value, state, target))
        return steps

    def steps(
        self, kernels: Sequence[StepKernel], reads: tuple[Operand, ...], at_once: int
    ) -> list[Step]:
        """The dispatches of all steps of the layer; each makes `at_once` steps."""
        return [
            self._dispatch(kernel, reads, range(first, first + at_once))
            for first in range(0, self.times.steps, at_once)
            for kernel in kernels
        ]

    def steps_at_once(self, slices: int, summed: int = 0) -> int:
        """The steps of a dispatch: all, if one work group has few enough slices of states.

        Args:
            summed: The slices that it sums up for each; 0: `slices`.
        """
        steps, limits = self.times.steps, self.node.limits
        few = 0 < self.times.batch * slices <= FEW_STATES
        fits = few and self.value.nbytes <= limits.block_bytes
        passes = steps * ((summed or slices) + 9)
        return steps if fits and steps > 1 and passes <= limits.loop_passes else 1

    def exit(self) -> list[Step]:
        """Assign the last row to the states."""
        node = self.node
        steps: list[Step] = []
        for i, _, channel in self._columns():
            before = node.input(i)
            after = node.scratch(before.shape, f"{self.name}state{i}")
            steps.append(self.final(after, channel))
            steps += assigned(node, before, after)
        return steps

    def final(self, output: Value, channel: int) -> Step:
        """The last row, from a channel on, as `output`."""
        node, times = self.node, self.times
        first = times.steps * times.batch * self.value.channels + channel
        sizes = (times.batch, output.elements // max(times.batch, 1))
        last = View(sizes, (self.value.channels, 1), first)
        return viewed(node, self.value, output, last)

    def output(self, shape: Shape = (), i: int = 0) -> Step:
        """The output state after each step, as output `i`; `shape`: if it is not a sequence."""
        node = self.node
        output = node.output(shape or self.times.shape(self.channels), i)
        return viewed(node, self.value, output, self.sequence())

    def sequence(self) -> View:
        """The output state after each step, as a sequence."""
        times, channels = self.times, self.value.channels
        row = times.batch * channels
        strides = (row if times.forward else -row, channels)
        first = row if times.forward else times.steps * row
        strides = strides if times.time_major else strides[::-1]
        return View(times.shape(self.channels), (*strides, 1), first)

    def _columns(self) -> Iterator[tuple[int, int, int]]:
        """The states: input of the node, number of channels, and first channel in a row."""
        channel = 0
        for i, count in self.states:
            yield i, count, channel
            channel += whole(count)

    def _dispatch(self, kernel: StepKernel, reads: tuple[Operand, ...], steps: range) -> Dispatch:
        node, batch = self.node, self.times.batch
        slices, count = kernel.slices, len(steps)
        if count > 1:
            lanes = 1
            if node.limits.profile.occupancy:
                while 2 * lanes * batch * slices <= WORK_GROUP and 2 * lanes <= slices // 4:
                    lanes *= 2
            grid = Grid(batch, slices, batch, slices, lanes == 1, lanes)
            passes = count * (ceil(kernel.summed / lanes) + 9)
        else:
            grid = make_grid(batch, slices, node.limits)
            passes = 2 * (slices + 1)
            if kernel.summed:
                grid = with_reduction_lanes(grid, kernel.summed, node.limits)
                passes = ceil(kernel.summed / grid.reduction_lanes) + 8
        defines: dict[str, Define] = {
            **kernel.defines,
            **self.times.defines(steps.start),
            "STEPS": count,
            "SHARED_TEXELS": 2 * batch * slices if count > 1 else 0,
        }
        dispatch = Dispatch(
            node.index, kernel.shader, reads, self.value, grid, defines, partial=True,
            passes=passes, pixels=((steps.start + 1) * batch, count * batch),
        )  # fmt: skip
        sizes = {"ROW", "INPUT_PIXEL"}
        if not node.limits.profile.short_loops:
            sizes |= {"STATE_SLICES", "UNIT_SLICES", "STEPS"}
        return dispatch.sized(*(name for name in defines if name in sizes))


def bidirectional(both: Sequence[StateSequence], merged: bool) -> list[Step]:
    """The outputs of two layers, or one output with the channels of both."""
    if not merged:
        return [states.output(i=i) for i, states in enumerate(both)]
    node, times = both[0].node, both[0].times
    output = node.output(times.shape(sum(states.channels for states in both)))
    steps: list[Step] = []
    pixels, channel = output.pixels, 0
    for states in both:
        target = Target(pixels, states.channels, pixels, pixels, out_channel=channel)
        sequence = states.sequence()
        steps.append(viewed(node, states.value, output, sequence, target))
        channel += states.channels
    return steps


@dataclass(frozen=True)
class LstmInputs:
    """The numbers of a node's inputs that an LSTM reads; an optional one may be absent.

    Attributes:
        weights: From the input to each gate.
        recurrent: From the output state to each gate.
        peephole: From the cell state to the input, forget and output gates.
        projection: The weights and the biases.
        state: The output state and the cell state, which are variables.
        norms: The coefficients of each gate's normalization.
        aux: A second input.
        aux_weights: From the second input to each gate.
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
"""An input number that no node has."""


class _Layer:
    """The sizes of an LSTM, and which optional inputs it has; the inputs are checked.

    Attributes:
        units, channels: Channels of the cell state and of the output state.
        cifg: The input gate is computed from the forget gate.
        norm: The sums of the gates are normalized.
    """

    def __init__(
        self, node: NodeView, inputs: LstmInputs, times: TimeSteps, clips: tuple[float, float]
    ) -> None:
        self.node = node
        self.inputs = inputs
        self.times = times
        self.clips = clips
        self.cifg = not node.has_input(inputs.weights[0])
        self.norm = any(map(node.has_input, inputs.norms[self.cifg :]))
        self.peephole = any(map(node.has_input, inputs.peephole[self.cifg :]))
        self.projected = node.has_input(inputs.projection[0])
        self.integer = node.dtype(0) == "int8"
        shape = node.shape(inputs.weights[3])
        if len(shape) != 2:
            raise Unsupported(f"weights of shape {list(shape)}; expected rank 2")
        self.units, depth = shape
        self.channels = node.shape(inputs.recurrent[3])[-1]
        self.slices = ceil(self.units / 4)
        self.state_slices = ceil(self.channels / 4)
        self._check(depth)

    def _check(self, depth: int) -> None:
        """Raise `Unsupported` unless the optional inputs of all gates are there, or of none.

        Also if weights are quantized in a way that LiteRT's kernels ignore, or if the input or the
        states do not fit them.
        """
        node, inputs, times, cifg = self.node, self.inputs, self.times, self.cifg
        matrices = [*inputs.weights[cifg:], *inputs.recurrent[cifg:]]
        needed = [*matrices, *inputs.biases[cifg:]]
        if self.norm:
            needed += inputs.norms[cifg:]
        if self.peephole:
            needed += inputs.peephole[cifg:]
        if node.has_input(inputs.aux) and node.has_input(inputs.aux_weights[1]):
            needed += inputs.aux_weights[cifg:]
        missing = [i for i in needed if not node.has_input(i)]
        if missing:
            gates = GATES - cifg
            raise Unsupported(f"input {missing[0]} is missing; {gates} gates have such an input")
        check_types(node, matrices, (*needed, *inputs.projection))
        if not self.projected and self.channels != self.units:
            raise Unsupported(
                f"{self.channels} output channels of {self.units} units without a projection"
            )
        x = node.input(self.inputs.x)
        if x.channels != depth or x.pixels != times.steps * times.batch:
            raise UnfitSizes(f"weights for {depth} channels on an input of shape {list(x.shape)}")
        for i, size in zip(self.inputs.state, (self.channels, self.units), strict=True):
            if node.input(i).elements != times.batch * size:
                shape = list(node.shape(i))
                raise UnfitSizes(f"a state of shape {shape} for {times.batch} x {size}")


def lstm_layer(
    node: NodeView,
    inputs: LstmInputs,
    times: TimeSteps,
    activation: int,
    clips: tuple[float, float],
    name: str = "",
) -> tuple[list[Step], StateSequence]:
    """The steps of an LSTM, and its states.

    Args:
        activation: The function of the new value and of the result, by its number in the schema.
        clips: The largest cell state and the largest projection; 0: any.
        name: Distinguishes the layers of a node.
    """
    if min(clips) < 0:
        raise Unsupported(f"clipping to {list(clips)}; expected positive numbers, or 0 for none")
    layer = _Layer(node, inputs, times, clips)
    function = "TANH" if layer.integer else vector_activation(activation)
    steps, sums = _input_sums(layer, name)
    weights = _weights(layer)
    slices = layer.state_slices + (1 + layer.projected + GATES * layer.norm) * layer.slices
    own = zip(inputs.state, (layer.channels, layer.units), strict=True)
    states = StateSequence.of(node, times, own, slices, name)
    kernels = _kernels(layer, function)
    at_once = 1 if len(kernels) > 1 else states.steps_at_once(layer.slices)
    steps += states.enter() + states.steps(kernels, (sums, weights), at_once) + states.exit()
    return steps, states


def gates_at_once(node: NodeView) -> int:
    """Gates of an LSTM that an invocation sums up at once, as its registers allow."""
    return GATES if node.limits.profile.large_tiles else GATES // 2


def _kernels(layer: _Layer, activation: str) -> list[StepKernel]:
    slices, state_slices = layer.slices, layer.state_slices
    cell: dict[str, Define] = {
        "STATE_SLICES": state_slices,
        "UNIT_SLICES": slices,
        "PROJECTED": int(layer.projected),
        "PEEPHOLE": int(layer.peephole),
        "ACTIVATION": activation,
        "CELL_CLIP": layer.clips[0],
        "INTEGER": int(layer.integer),
    }
    sums: dict[str, Define] = {"GATES": gates_at_once(layer.node)}
    norm: dict[str, Define] = {"UNITS": layer.units}
    projection: dict[str, Define] = {"PROJECTION_CLIP": layer.clips[1]}
    if layer.integer:
        all_defines = (cell, sums, norm, projection)
        for defines, integer in zip(all_defines, _integer_defines(layer), strict=True):
            defines.update(integer)
    gates = cell | {"CIFG": int(layer.cifg)}
    if layer.norm:
        kernels = [
            StepKernel("lstm_sums", slices, state_slices, gates | sums),
            StepKernel("lstm_cell", slices, 0, gates | norm),
            StepKernel("lstm_result", slices, 0, cell | norm),
        ]
    else:
        kernels = [StepKernel("lstm_step", slices, state_slices, gates | sums)]
    if layer.projected:
        kernels.append(StepKernel("lstm_projection", state_slices, slices, cell | projection))
    return kernels


def vector_activation(number: int, in_place: bool = False) -> str:
    """The function of an activation of vectors, by its number in the schema.

    LiteRT's kernels ignore the others, and return what the memory held before.

    Args:
        in_place: LiteRT's kernel applies it in place, so NONE leaves the vector unchanged.
    """
    name = ACTIVATIONS[number] if 0 <= number < len(ACTIVATIONS) else f"activation {number}"
    if in_place and name == "NONE":
        return ""
    if name not in VECTOR_ACTIVATIONS:
        raise Unsupported(f"the activation {name}; expected {', '.join(VECTOR_ACTIVATIONS)}")
    return name


def _input_sums(layer: _Layer, name: str) -> tuple[list[Step], Value]:
    """The contribution of the inputs of all steps to each gate, with biases unless normalized."""
    node, inputs, units = layer.node, layer.inputs, layer.units
    padded = whole(units)
    pixels = layer.times.steps * layer.times.batch
    sums = node.scratch((pixels, GATES * padded), f"{name}sums")
    steps: list[Step] = []
    for gate in range(int(layer.cifg), GATES):
        bias = ABSENT if layer.norm else inputs.biases[gate]
        of_gate = node.scratch((pixels, units), f"{name}gate{gate}")
        aux, aux_weights = inputs.aux, inputs.aux_weights[gate]
        steps += input_sum(
            node, of_gate, inputs.x, inputs.weights[gate], bias, aux=aux, aux_weights=aux_weights
        )
        target = Target(pixels, units, pixels, pixels, out_channel=gate * padded)
        all_units = View((pixels, units), (units, 1))
        steps.append(viewed(node, of_gate, sums, all_units, target))
    return steps, sums


def input_sum(
    node: NodeView, output: Value, x: int, weights: int, bias: int, *, aux: int, aux_weights: int
) -> list[Step]:
    """The product of input `x` and weights, biases, and the product of a second input `aux`.

    The biases, and the second input or its weights, may be absent.
    """
    if not (node.has_input(aux) and node.has_input(aux_weights)):
        return [product(node, node.input(x), output, inputs=(weights, bias))]
    second = node.input(aux)
    if second.pixels != output.pixels or second.channels != node.shape(aux_weights)[-1]:
        raise UnfitSizes(
            f"a second input of shape {list(second.shape)} for {output.pixels} pixels, and weights "
            f"of {list(node.shape(aux_weights))}"
        )
    first = replace(output, name=f"{output.name}0")
    other = replace(output, name=f"{output.name}1")
    return [
        product(node, node.input(x), first, inputs=(weights, bias)),
        product(node, second, other, inputs=(aux_weights, ABSENT)),
        elementwise(node, (first, other), output, "ADD"),
    ]


def check_types(node: NodeView, matrices: Sequence[int], needed: Sequence[int]) -> None:
    """Raise `Unsupported` if weights are not of one type, or quantized otherwise than LiteRT reads.

    Or if output 0 is not of the input's type, which LiteRT writes nevertheless.

    Args:
        needed: Inputs that must have one scale, if they are there.
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
    for i in filter(node.has_input, needed):
        quantization = node.graph.tensors[node.inputs[i]].quantization
        if any(quantization.zero_points) or len(quantization.scales) > 1:
            raise Unsupported(f"input {i} has a zero point, or several scales; expected one scale")


def _integer_defines(layer: _Layer) -> tuple[dict[str, Define], ...]:
    """Defines for int8 activations: of the cell, the sums, the normalization, the projection."""
    node, inputs, tensors = layer.node, layer.inputs, layer.node.graph.tensors
    _check_integers(layer)
    output_state, cell_state = (tensors[node.inputs[i]] for i in inputs.state)
    middle = [tensors[i].quantization for i in node.node.intermediates]
    scales = [q.pair[0] if layer.norm else 2**-12 for q in middle[:GATES]]
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

    result_zero = -hidden_zero if layer.projected else hidden_zero
    cell: dict[str, Define] = {
        "GATE_STEPS": _vector([1 / s for s in scales]),
        "PEEPHOLE_PARTS": parts((*inputs.peephole[:2], ABSENT, inputs.peephole[2]), cell_scale),
        "CELL_SCALE": cell_scale,
        "CELL_EXPONENT": f"({exponent})",
        "CELL_LIMIT": min(int(layer.clips[0] / cell_scale), 32767),
        "RESULT_STEPS": 2**-30 / hidden_scale,
        "RESULT_OFFSET": float(result_zero),
        "RESULT_ZERO": float(result_zero if layer.projected else zero),
        "RESULT_SCALE": hidden_scale if layer.projected else scale,
    }
    sums: dict[str, Define] = {
        "INPUT_PARTS": parts(inputs.weights, _scale(node, 0)),
        "RECURRENT_PARTS": parts(inputs.recurrent, scale),
    }
    norm: dict[str, Define] = {
        "NORM_PARTS": _vector([_parts(4096 * s) for s in norm_scales]),
        "NORM_SCALES": _vector(norm_scales),
        "NORM_GUARDS": _vector([max(1, int(10000 * s)) for s in norm_scales]),
    }
    projection: dict[str, Define] = {
        "OUTPUT_PARTS": _parts(_scale(node, inputs.projection[0]) * hidden_scale / scale),
        "OUTPUT_SCALE": scale,
        "OUTPUT_ZERO": float(zero),
        "OUTPUT_LIMIT": float(min(int(layer.clips[1] / scale), 127)),
    }
    return cell, sums, norm, projection


def _check_integers(layer: _Layer) -> None:
    """Raise `Unsupported` unless the states are of int8 and int16, and five tensors give scales.

    Also unless scales that LiteRT does not read are those that it assumes. The output has the
    quantization of the output state.
    """
    node, inputs, tensors = layer.node, layer.inputs, layer.node.graph.tensors
    types = tuple(node.dtype(i) for i in inputs.state)
    if types != ("int8", "int16"):
        raise Unsupported(
            f"an output state of {types[0]} and a cell state of {types[1]}; expected int8 and int16"
        )
    intermediates = layer.node.node.intermediates
    if len(intermediates) != 5 or min(intermediates) < 0:
        raise Unsupported(f"{len(intermediates)} intermediate tensors; expected 5")
    if layer.peephole and layer.channels != layer.units:
        raise Unsupported(
            "peepholes and a projection, for which LiteRT reads too few of the cells; "
            "expected one of the two"
        )
    hidden = tensors[intermediates[4]].quantization.pair[0]
    check_biases(node, hidden, *inputs.projection)
    if not layer.norm:
        for weights, biases in zip(inputs.weights, inputs.biases, strict=True):
            check_biases(node, _scale(node, inputs.x), weights, biases)
    state, cell = (tensors[node.inputs[i]].quantization for i in inputs.state)
    output = tensors[node.outputs[0]].quantization
    if output.pair != state.pair or cell.pair[1]:
        raise Unsupported(
            f"an output of the scale and zero point {output.pair}, and a cell state of "
            f"{cell.pair}; expected {state.pair} as the output state, and the zero point 0"
        )


def check_biases(node: NodeView, source: float, weights: int, biases: int) -> None:
    """Raise `Unsupported` unless biases have the scale of their products, as LiteRT assumes.

    Args:
        source: The scale of what is multiplied by the weights.
    """
    scale, expected = _scale(node, biases), source * _scale(node, weights)
    if node.has_input(biases) and not isclose(scale, expected, rel_tol=1e-5):
        raise Unsupported(f"biases of the scale {scale}; expected {expected} as the products")


def _scale(node: NodeView, i: int) -> float:
    """The scale of an input, 1 if it is absent or has none."""
    if not node.has_input(i):
        return 1.0
    return (*node.graph.tensors[node.inputs[i]].quantization.scales, 1.0)[0]


def _parts(factor: float) -> float:
    """The fractions of an integer to which LiteRT rounds its product with a fixed-point factor.

    LiteRT rounds the product with the factor's 31 bits, shifts it, and rounds again.
    """
    return 2.0 ** max(-frexp(factor)[1], 0)


def _vector(numbers: Sequence[float]) -> str:
    return f"vec4({', '.join(repr(float(number)) for number in numbers)})"


def _weights(layer: _Layer) -> Const:
    node, inputs, slices = layer.node, layer.inputs, layer.slices
    none = (ABSENT,) * GATES
    indices = (
        *inputs.recurrent,
        *inputs.peephole,
        *(inputs.norms + inputs.biases if layer.norm else none + none),
        *inputs.projection,
    )
    texels = (16 * layer.state_slices + PARAMETERS) * slices
    if layer.projected:
        texels += (4 * slices + 1) * layer.state_slices
    tensors = tuple(map(node.constant, indices))
    scales = [1.0] * PARAMETERS
    if layer.integer and layer.norm:
        # LiteRT takes the biases for multiples of 2^-10 times the scale of the coefficients.
        pairs = zip(inputs.biases, inputs.norms, strict=True)
        scales[-GATES:] = [1024 * _scale(node, b) / _scale(node, n) for b, n in pairs]
    return Const(lstm_weights, tensors, (texels, 4), (layer.units, layer.channels, *scales))


def lstm_weights(*arrays: Array | float | None) -> Array:
    """Pack the weights as glsl/lib/lstm.glsl reads them.

    Args:
        arrays: The recurrent weights of each gate [units, channels], or their diagonal; the rows of
            parameters [units]; the weights and biases of the projection; the numbers of units and
            channels; the divisor of each row of parameters.
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
    packed = [blocks.ravel(), rows.ravel()]
    weights, biases = tensors[GATES + PARAMETERS :]
    if weights is not None:
        projection = np.zeros((whole(units), whole(channels)), np.float32)
        projection[:units, :channels] = np.transpose(weights)
        last = np.zeros(whole(channels), np.float32)
        last[:channels] = 0 if biases is None else biases
        packed += [projection.ravel(), last]
    return np.concatenate(packed)


def whole(size: int) -> int:
    """The channels of that many channels padded to whole slices."""
    return ceil(size / 4) * 4
