"""Recurrent layers as PyTorch's models have them: unrolled, with one product of all inputs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.sketch import Sketch

ODD_STEP = 2
"""The step that is different if a layer has a damage."""


@dataclass
class TorchLayer:
    """A layer; its weights are random.

    Attributes:
        cell: "lstm" or "gru".
        given: The first states are inputs; otherwise zeros, and the converter folds their products.
        backward: It reads the sequence from its end.
        shown: Numbers of steps whose states are outputs of the model.
        damage: The part that is different, or "".
    """

    cell: str = "lstm"
    steps: int = 5
    batch: int = 1
    depth: int = 7
    units: int = 8
    given: bool = False
    backward: bool = False
    shown: tuple[int, ...] = ()
    damage: str = ""

    def model(self) -> tuple[Sketch, bytes]:
        s = Sketch(np.random.default_rng(3))
        return s, s.build(self.add(s))

    def add(self, s: Sketch) -> list[int]:
        """Add it to a model: all results, the last states, and those that are shown."""
        self._sketch = s
        x = s.feed((self.steps, self.batch, self.depth))
        rows = self.units * (4 if self.cell == "lstm" else 3)
        self._bias, self._step = s.normal((rows,)), 0
        self._recurrent = [s.constant(s.normal((rows, self.units))) for _ in range(2)]
        self._biases = s.constant(self._bias)
        weights, biases = s.constant(s.normal((rows, self.depth))), s.constant(s.normal((rows,)))
        products = self._product(x, weights, biases, (self.steps, self.batch, rows))
        if self.backward:
            products = s.op("REVERSE_V2", [products, self._integers(0)], [None])
            s.set_shape(products, [self.steps, self.batch, rows])
        cell, states = (self._lstm, 2) if self.cell == "lstm" else (self._gru, 1)
        now = [s.feed(self._state) for _ in range(states)] if self.given else []
        results, shown = [], []
        for step in range(self.steps):
            self._step = step
            now = cell(self._element(products, rows), now)
            results.append(now[0])
            shown += now if step in self.shown else []
        order = results[::-1] if self.backward else results
        if self.damage == "results":
            order = [order[1], order[0], *order[2:]]
        joined = s.op("CONCATENATION", order, [(self.steps, self.batch, self.units)], axis=0)
        last = s.op("ABS", [joined], [(self.steps, self.batch, self.units)])
        return [last, *now, *shown]

    @property
    def _state(self) -> tuple[int, ...]:
        return 1, self.batch, self.units

    def _is(self, damage: str) -> bool:
        return self.damage == damage and self._step == ODD_STEP

    def _integers(self, *numbers: int) -> int:
        return self._sketch.constant(np.array(numbers, np.int32))

    def _op(self, name: str, *inputs: int) -> int:
        return self._sketch.op(name, list(inputs), [self._state])

    def _product(self, *inputs: Any, keep: bool = True) -> int:
        *tensors, shape = inputs
        op, options = "FULLY_CONNECTED", {"keep_num_dims": keep}
        return self._sketch.op(op, tensors, [shape], version=5, **options)

    def _element(self, products: int, rows: int) -> int:
        """A step's element of the products of the input."""
        s, number = self._sketch, self._step
        if self.damage == "elements":
            number = [1, 0, 2, 2, 4][number]
        batch = 1 if self._is("broadcast") else self.batch
        begin, size = self._integers(number, 0, 0), self._integers(1, batch, rows)
        element = s.op("SLICE", [products, begin, size], [(1, batch, rows)])
        if self.cell == "lstm":
            return element
        return s.op("RESHAPE", [element, self._integers(batch, rows)], [(batch, rows)])

    def _gate(self, source: int, gate: int, shape: tuple[int, ...]) -> int:
        begin = [*[0] * (len(shape) - 1), gate * self.units]
        if self._is("a row") and gate == 1:
            begin[-2], shape = 1, (*shape[:-2], 1, self.units)
        corners = self._integers(*begin), self._integers(*shape)
        return self._sketch.op("SLICE", [source, *corners], [shape])

    def _has_other_order(self, states: list[int]) -> bool:
        return self._is("gates") or (self.damage == "first gates" and not states)

    def _of_state(self, states: list[int], keep: bool) -> int:
        """The product of the output state."""
        shape = (1, self.batch, len(self._bias)) if keep else (self.batch, len(self._bias))
        weights = self._recurrent[self._is("weights")]
        return self._product(states[0], weights, self._biases, shape, keep=keep)

    def _folded(self) -> NDArray[np.float32]:
        """The same for a state of zeros: the biases of each row."""
        biases = np.broadcast_to(self._bias, (1, self.batch, len(self._bias))).copy()
        if self.damage == "first biases":
            biases[0, -1, 0] += 1
        return biases

    def _lstm(self, of_input: int, states: list[int]) -> list[int]:
        s, rows = self._sketch, len(self._bias)
        of_state = self._of_state(states, False) if states else s.constant(self._folded()[0])
        total = s.op("ADD", [of_state, of_input], [(1, self.batch, rows)])
        if self._is("input twice"):
            total = s.op("ADD", [total, of_input], [(1, self.batch, rows)])
        order = (1, 0, 2, 3) if self._has_other_order(states) else (0, 1, 2, 3)
        gates = [self._gate(total, gate, self._state) for gate in order]
        if self.damage == "no weights":
            gates = [
                self._op("ADD", self._gate(of_input, i, self._state), states[0]) for i in order
            ]
        i, f, new, o = gates
        opened = self._op("TANH" if self._is("activation") else "LOGISTIC", i)
        cell = self._op("MUL", opened, self._op("TANH", new))
        if states:
            kept = self._op("MUL", self._op("LOGISTIC", f), states[1])
            cell = self._op("ADD", kept, cell)
        return [self._op("MUL", self._op("LOGISTIC", o), self._op("TANH", cell)), cell]

    def _gru(self, of_input: int, states: list[int]) -> list[int]:
        s, op = self._sketch, self._op
        order = (1, 0, 2) if self._has_other_order(states) else (0, 1, 2)
        mine = [self._gate(of_input, gate, self._state[1:]) for gate in order]
        if states:
            of_state = self._of_state(states, True)
            theirs = [self._gate(of_state, gate, self._state) for gate in range(3)]
        else:
            theirs = [s.constant(part.copy()) for part in np.split(self._folded(), 3, axis=-1)]
        reset, update = (op("LOGISTIC", op("ADD", theirs[i], mine[i])) for i in range(2))
        changed = "LOGISTIC" if self._is("activation") else "TANH"
        new = op(changed, op("ADD", mine[2], op("MUL", theirs[2], reset)))
        zero = np.array(0.5 if self.damage == "zero" else 0, np.float32)
        pair = states[0] if states else s.constant(zero), new
        difference = op("SUB", *(pair[::-1] if self._is("difference") else pair))
        return [op("ADD", op("MUL", difference, update), new)]
