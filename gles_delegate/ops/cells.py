"""Recurrent layers whose steps planning recognizes in loops; see planning/recurrence.py.

Inputs: a sequence [time, batch, channels], its weights and biases with each gate padded to whole
slices, the recurrent weights [gates * units, units], the states; of GRUs, also the biases of the
product that the reset gate scales. A sequence may have the products already: its weights then are
integers, the first channel of each gate. Outputs: the output state after each step, or only after
the last; the final states.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.ops.lib.elementwise import elementwise
from gles_delegate.ops.lib.node import NodeView
from gles_delegate.ops.lib.options import Options
from gles_delegate.ops.lib.product import product
from gles_delegate.ops.lib.recurrence import (
    GATES,
    PARAMETERS,
    StateSequence,
    StepKernel,
    TimeSteps,
    gates_at_once,
    lstm_weights,
    whole,
)
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import Target, View, reshaped_as, viewed
from gles_delegate.shaders.dispatch import Const, Define, Operand, Step, Value

LSTM_CELLS, GRU_CELLS, RESET_FIRST_CELLS = "(lstm)", "(gru)", "(gru, reset first)"
X, WEIGHTS, BIASES, RECURRENT, STATE, CELL = range(6)
GRU_GATES, GRU_BIASES = 3, 5

PLAIN: dict[str, Define] = {
    "PROJECTED": 0, "PEEPHOLE": 0, "INTEGER": 0, "CIFG": 0, "ACTIVATION": "TANH", "CELL_CLIP": 0.0,
}  # fmt: skip
"""Defines of glsl/lstm_step.glsl for an LSTM without options."""


@op(LSTM_CELLS)
def lstm_cells(node: NodeView, options: Options) -> list[Step]:
    units = node.shape(STATE)[-1]
    slices = ceil(units / 4)
    states = _states(node, (STATE, CELL), 2 * slices)
    texels = (16 * slices + PARAMETERS) * slices
    weights = Const(cell_weights, (node.constant(RECURRENT),), (texels, 4), (units,))
    sizes: dict[str, Define] = {"STATE_SLICES": slices, "UNIT_SLICES": slices}
    defines = {**sizes, **PLAIN, "GATES": gates_at_once(node)}
    kernel = StepKernel("lstm_step", slices, slices, defines)
    return _layer(states, [kernel], states.steps_at_once(slices), weights)


@op(GRU_CELLS, RESET_FIRST_CELLS)
def gru_cells(node: NodeView, options: Options) -> list[Step]:
    units, first = node.shape(STATE)[-1], node.op == RESET_FIRST_CELLS
    slices = ceil(units / 4)
    summed = slices * (1 + first)
    states = _states(node, (STATE,), 3 * slices if first else slices)
    at_once = states.steps_at_once(slices, summed)
    texels = (4 * GRU_GATES * slices + 1) * slices
    tensors = node.constant(RECURRENT), node.constant(GRU_BIASES)
    weights = Const(gru_weights, tensors, (texels, 4), (units,))
    parts = (1, 2) if first and at_once == 1 else (0,)
    sizes: dict[str, Define] = {
        "STATE_SLICES": slices,
        "RESET_FIRST": int(first),
        "GATES": 3 - first,
    }
    kernels = [StepKernel("gru_step", slices, summed, {**sizes, "PART": part}) for part in parts]
    return _layer(states, kernels, at_once, weights)


def _states(node: NodeView, inputs: tuple[int, ...], slices: int) -> StateSequence:
    times, units = TimeSteps.of(node.input(X), time_major=True), node.shape(STATE)[-1]
    return StateSequence.of(node, times, [(i, units) for i in inputs], slices, "")


def _layer(
    states: StateSequence, kernels: list[StepKernel], at_once: int, weights: Const
) -> list[Step]:
    """The product of all inputs and weights, the steps, and the outputs."""
    node, times = states.node, states.times
    sums = node.scratch((times.steps * times.batch, node.shape(BIASES)[0]), "sums")
    if node.dtype(WEIGHTS) == "int32":
        steps = _biased(node, node.input(X), sums, states.channels)
    else:
        steps = [product(node, node.input(X), sums, inputs=(WEIGHTS, BIASES))]
    steps += states.enter() + states.steps(kernels, (sums, weights), at_once)
    shape, *finals = (node.graph.tensors[i].shape for i in node.outputs)
    steps.append(
        states.output() if shape[0] == times.steps else states.final(node.output(shape), 0)
    )
    for i, final in enumerate(finals):
        steps.append(states.final(node.output(final, i + 1), i * whole(states.channels)))
    return steps


def _biased(node: NodeView, x: Operand, sums: Value, units: int) -> list[Step]:
    """The products that a sequence has, with each gate padded to whole slices, and the biases."""
    padded, pixels = replace(sums, name="products"), sums.pixels
    rows = node.array(WEIGHTS).tolist()
    steps: list[Step] = []
    if x.channels == sums.channels and rows == [*range(0, x.channels, units)]:
        steps.append(reshaped_as(node, x, padded))
    else:
        for gate, row in enumerate(rows):
            target = Target(pixels, units, pixels, pixels, out_channel=gate * whole(units))
            layout = View((pixels, units), (x.channels, 1), row)
            steps.append(viewed(node, x, padded, layout, target))
    return [*steps, elementwise(node, (padded, node.input(BIASES)), sums, "ADD")]


def cell_weights(recurrent: Array, units: int) -> Array:
    """The weights of glsl/lib/lstm.glsl, from recurrent weights [gates * units, units]."""
    others = (None,) * (PARAMETERS + 2)
    gates = np.split(recurrent, GATES)
    return lstm_weights(*gates, *others, units, units, *(1.0,) * PARAMETERS)


def gru_weights(recurrent: Array, biases: Array, units: int) -> Array:
    """The weights of glsl/gru_step.glsl."""
    padded = np.zeros((GRU_GATES, whole(units), whole(units)), np.float32)
    padded[:, :units, :units] = recurrent.reshape(GRU_GATES, units, units)
    blocks = padded.reshape(GRU_GATES, whole(units), -1, 4).transpose(2, 0, 3, 1)
    return np.concatenate([blocks.ravel(), biases])
