"""Recurrent layers as Keras' models have them: a WHILE over a list of results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.sketch import Sketch
from tests.support.tflite_builder import ModelBuilder, quantization

STRIDED = ("columns", "a column", "a row")
"""Damages of the second gate that a strided slice cuts."""


@dataclass
class KerasLayer:
    """A layer; its weights are random.

    Attributes:
        cell: "lstm", "basic lstm", "gru" or "gru, reset first".
        dtype: Of the weights; "rounded": float32, with the numbers that int8 stands for.
        all_results: The list has the output state of each step, otherwise only the last.
        strided: Strided slices cut the gates.
        lists: TensorFlow's list of tensors has the results, and another one the input.
        damage: The part of the body that is different, or "".
    """

    cell: str = "lstm"
    steps: int = 5
    batch: int = 1
    depth: int = 7
    units: int = 8
    dtype: str = "float32"
    all_results: bool = True
    strided: bool = False
    lists: bool = False
    damage: str = ""
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    _constants: dict[tuple[int, int], int] = field(default_factory=dict)
    _made: int = 0

    @property
    def states(self) -> int:
        return 2 if "lstm" in self.cell else 1

    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the loop variables after the two counters."""
        length = self.steps if self.all_results else 1
        state = (self.batch, self.units)
        sequence = (self.steps, self.batch, self.depth)
        return [(length, *state), *(state,) * self.states, (), sequence]

    def feeds(self, s: Sketch) -> tuple[int, list[int]]:
        """Inputs of a model: the sequence, and the first states."""
        x = s.feed((self.steps, self.batch, self.depth))
        return x, [s.feed((self.batch, self.units)) for _ in range(self.states)]

    def add(self, s: Sketch, x: int, states: Sequence[int]) -> list[int]:
        """Add it to a model: a sequence with the time first -> the results of the WHILE."""
        shapes = self.shapes()
        zero, count = (s.constant(np.array(n, np.int32)) for n in (0, self.steps))
        results = s.constant(np.zeros(shapes[0], np.float32))
        if self.lists:
            sizes = [s.constant(np.array(n, np.int32)) for n in ((-1, self.units), shapes[0][0])]
            results = self._list(s, "Reserve", *sizes)
            x = self._list(s, "FromTensor", x, sizes[0])
        values = [zero, zero, results, *states, count, x]
        outputs = [s.tensor((), np.int32) for _ in range(2)]
        outputs += [s.tensor(shape) for shape in shapes]
        for output, value in zip(outputs, values, strict=True):
            s.tensors[output]["type"] = s.tensors[value]["type"]
        options = {
            "cond_subgraph_index": s.subgraph(self._condition),
            "body_subgraph_index": s.subgraph(self._body),
        }
        s.op("WHILE", values, outputs, **options)
        if self.lists:
            stacked = s.op("FlexTensorListStack", [outputs[2], sizes[0]], [s.tensor(shapes[0])])
            outputs[2] = stacked
        return outputs

    @staticmethod
    def _list(b: ModelBuilder, name: str, *inputs: int) -> int:
        """An op that returns a list."""
        return b.op(f"FlexTensorList{name}", list(inputs), [b.tensor((), "variant")])

    def _inputs(self, b: ModelBuilder) -> list[int]:
        counters = [b.input((), np.int32), b.input((), np.int32)]
        results, *values, count, x = self.shapes()
        dtype = "variant" if self.lists else "float32"
        inputs = [b.input(results, dtype), *map(b.input, values)]
        return [*counters, *inputs, b.input(count, np.int32), b.input(x, dtype)]

    def _condition(self, b: ModelBuilder) -> list[int]:
        values = self._inputs(b)
        count = b.constant(np.array(9, np.int32)) if self.damage == "turns" else values[-2]
        return [b.op("LESS", [values[1], count], [b.tensor((), np.bool_)])]

    def _body(self, b: ModelBuilder) -> list[int]:
        turn, time, results, *states, count, sequence = self._inputs(b)
        one = b.constant(np.array(1, np.int32))
        later = b.op("ADD", [time, one], [()])
        axis = 1 if self.damage == "input axis" and self.steps == self.batch else 0
        at = later if self.damage == "next input" else time
        if self.lists:
            x = b.op(
                "FlexTensorListGetItem", [sequence, at, one], [b.tensor((self.batch, self.depth))]
            )
        else:
            x = b.op("GATHER", [sequence, at], [(self.batch, self.depth)], axis=axis)
        new = (self._lstm if "lstm" in self.cell else self._gru)(b, x, *states)
        written = new[1] if self.damage == "list of cells" else new[0]
        index = (time, later)
        if not self.all_results:
            index = b.constant(np.array(0, np.int32)), one
        if self.damage == "list position":
            index = (later, time)
        if self.lists:
            results = self._list(b, "SetItem", results, index[0], written)
        else:
            results = self._set_item(b, results, written, *index)
            b.tensors[results]["shape_signature"] = [-1, -1, -1]
        return [b.op("ADD", [turn, one], [()]), later, results, *new, count, sequence]

    def _set_item(self, b: ModelBuilder, results: int, item: int, at: int, after: int) -> int:
        vector = {n: b.constant(np.array(n, np.int32)) for n in [(1,), (-1, -1), (0, 0)]}
        zeros, rest = b.constant(np.zeros(3, np.int32)), b.constant(np.full(3, -1, np.int32))

        def joined(index: int, others: tuple[int, int]) -> int:
            one = b.op("RESHAPE", [index, vector[(1,)]], [(1,)], new_shape=[1])
            return b.op("CONCATENATION", [one, vector[others]], [(3,)])

        shape = self.shapes()[0]
        left = b.op("SLICE", [results, zeros, joined(at, (-1, -1))], [shape])
        right = b.op("SLICE", [results, joined(after, (0, 0)), rest], [shape])
        for cut in (left, right):
            b.tensors[cut]["shape_signature"] = [-1, -1, -1]
        first = b.constant(np.array(0, np.int32))
        element = b.op("EXPAND_DIMS", [item, first], [(1, self.batch, self.units)])
        return b.op("CONCATENATION", [left, element, right], [shape])

    def unroll(self, s: Sketch, x: int, states: Sequence[int]) -> list[int]:
        """Add its cells one after the other: the joined results, and the final states."""
        parts = [s.tensor((self.batch, self.depth)) for _ in range(self.steps)]
        s.op("UNPACK", [x], parts, num=self.steps, axis=0)
        results, now = [], list(states)
        for part in parts:
            self._made = 0
            cell = self._lstm if "lstm" in self.cell else self._gru
            fed = s.op("NEG", now[:1], [(self.batch, self.units)]) if self.damage == "fed" else part
            now = cell(s, fed, *now)
            results.append(now[0])
        joined = s.op("PACK", results, [(self.steps, self.batch, self.units)], axis=0,
                      values_count=self.steps)  # fmt: skip
        return [joined, *now]

    def _constant(self, b: ModelBuilder, array: NDArray[Any], **attributes: Any) -> int:
        """A constant, which the cells of a layer share."""
        key = id(b), self._made
        self._made += 1
        if key not in self._constants:
            self._constants[key] = b.constant(array, **attributes)
        return self._constants[key]

    def _product(self, b: ModelBuilder, x: int, depth: int, gates: int, bias: bool = False) -> int:
        rows = gates * self.units
        weights = (self.rng.standard_normal((rows, depth)) / np.sqrt(depth)).astype(np.float32)
        version, stored = 1, None
        if self.dtype in ("int8", "rounded"):
            scale = np.float32(np.abs(weights).max() / 127)
            weights = np.round(weights / scale).astype(np.int8)
            if self.dtype == "rounded":
                weights = weights.astype(np.float32) * scale
            else:
                version, stored = 9, quantization(scale, 3 if self.damage == "zero points" else 0)
        if self.dtype == "float16":
            weights = weights.astype(np.float16)
        constant = self._constant(b, weights, quantization=stored)
        if self.dtype == "float16":
            constant = b.op("DEQUANTIZE", [constant], [b.tensor(weights.shape)])
        if self.damage == "weights":
            assert isinstance(b, Sketch)
            constant = b.op("ABS", [b.feed(weights.shape)])
        biases = [self._constant(b, self._normal(rows))] if bias else [-1]
        activation = "RELU" if self.damage == "activation" else "NONE"
        inputs = [x, constant, *biases]
        options = {"fused_activation_function": activation}
        return b.op("FULLY_CONNECTED", inputs, [(self.batch, rows)], version=version, **options)

    def _normal(self, *shape: int) -> NDArray[Any]:
        return self.rng.standard_normal(shape).astype(np.float32)

    def _split(self, b: ModelBuilder, x: int, count: int) -> list[int]:
        if self.strided:
            return [self._columns(b, x, gate, gate == count - 1) for gate in range(count)]
        axis, state = b.constant(np.array(1, np.int32)), (self.batch, self.units)
        outputs = [b.tensor(state) for _ in range(count)]
        b.op("SPLIT", [axis, x], outputs, num_splits=count)
        return outputs

    def _columns(self, b: ModelBuilder, x: int, gate: int, last: bool) -> int:
        """The columns of a gate, with the masks that Keras' GRU has."""
        shifted = gate == 1 and self.damage == "columns"
        begin, last = gate * self.units - shifted, last and self.damage not in STRIDED
        end = 0 if last else begin + self.units
        corners = [b.constant(np.array(n, np.int32)) for n in ((0, begin), (0, end), (1, 1))]
        masks = {"begin_mask": 1 + 2 * (not gate), "end_mask": 1 + 2 * last}
        shape = (self.batch, self.units)
        if gate == 1 and self.damage == "a column":
            corners[1], shape = b.constant(np.array((0, begin + 1), np.int32)), (self.batch, 1)
        if gate == 1 and self.damage == "a row":
            corners[0] = b.constant(np.array((1, begin), np.int32))
            masks["begin_mask"], shape = 0, (self.batch - 1, self.units)
        return b.op("STRIDED_SLICE", [x, *corners], [shape], **masks)

    def _functions(self, b: ModelBuilder) -> tuple[Callable[..., int], ...]:
        state = (self.batch, self.units)
        ops = ("ADD", "MUL", "SUB", "LOGISTIC", "TANH")
        return tuple(lambda *x, op=op: b.op(op, list(x), [state]) for op in ops)

    def _lstm(self, b: ModelBuilder, x: int, h: int, c: int) -> list[int]:
        add, mul, _, sigmoid, tanh = self._functions(b)
        rows = (self.batch, 4 * self.units)
        if self.cell == "basic lstm":
            return self._basic(b, x, h, c)
        of_x = self._product(b, x, self.depth, 4)
        of_h = self._product(b, c if self.damage == "states" else h, self.units, 4)
        both = b.op("ADD", [of_x, of_h], [rows])
        if self.damage == "input twice":
            both = b.op("ADD", [both, self._product(b, x, self.depth, 4)], [rows])
        biases = self._constant(b, self._normal(4 * self.units))
        total = b.op("ADD", [both, biases], [rows])
        i, f, new, o = self._split(b, total, 4)
        if self.damage == "order":
            i, f, new, o = o, new, f, i
        cell = add(mul(sigmoid(f), c), mul(sigmoid(i), tanh(new)))
        result = mul(sigmoid(o), tanh(c if self.damage == "old cell" else cell))
        return [result, cell]

    def _basic(self, b: ModelBuilder, x: int, h: int, c: int) -> list[int]:
        """One product of the input and the state, and a constant that keeps more of the cell."""
        add, mul, _, sigmoid, tanh = self._functions(b)
        both = b.op("CONCATENATION", [x, h], [(self.batch, self.depth + self.units)], axis=1)
        total = self._product(b, both, self.depth + self.units, 4, bias=True)
        i, new, f, o = self._split(b, total, 4)
        kept = sigmoid(add(f, self._constant(b, np.array(1, np.float32))))
        cell = add(mul(c, kept), mul(sigmoid(i), tanh(new)))
        return [mul(tanh(cell), sigmoid(o)), cell]

    def _gru(self, b: ModelBuilder, x: int, h: int) -> list[int]:
        add, mul, sub, sigmoid, tanh = self._functions(b)
        of_x = self._split(b, self._product(b, x, self.depth, 3, bias=True), 3)
        if self.cell == "gru":
            of_h = self._split(b, self._product(b, h, self.units, 3, bias=True), 3)
        else:
            of_h = self._split(b, self._product(b, h, self.units, 2), 2)
        update, reset = (sigmoid(add(of_x[i], of_h[i])) for i in range(2))
        if self.cell == "gru":
            scaled = mul(reset, of_h[2])
        else:
            scaled = self._product(b, mul(reset, h), self.units, 1)
        new = tanh(add(of_x[2], scaled))
        number = 2.0 if self.damage == "one" else np.ones((7, 1) if self.damage == "ones" else ())
        rest = sub(b.constant(np.array(number, np.float32)), update)
        return [add(mul(update, h), mul(rest, new))]


def unrolled_model(layer: KerasLayer) -> tuple[Sketch, bytes]:
    """A model of an unrolled layer: the results, one of them alone, and the final states."""
    s = Sketch(np.random.default_rng(3))
    joined, *now = layer.unroll(s, *layer.feeds(s))
    absolute = s.op("ABS", [joined], [(layer.steps, layer.batch, layer.units)])
    return s, s.build([absolute, *now])


def keras_model(layer: KerasLayer) -> tuple[Sketch, bytes]:
    """A model of a layer with given states, and its results: all, with counters."""
    s = Sketch(np.random.default_rng(3))
    outputs = layer.add(s, *layer.feeds(s))
    results = [s.op("ABS", [outputs[2]], [layer.shapes()[0]])]
    return s, s.build([*results, *outputs[:2], *outputs[3 : 3 + layer.states]])


def stacked_model(cell: str, batch: int, both_directions: bool) -> tuple[Sketch, bytes]:
    """A model of two layers whose sequences and results have the batch first, as in Keras.

    With `both_directions`, each layer also reads the reversed sequence, and its results are joined.
    """
    s = Sketch(np.random.default_rng(3))
    steps, units, depth = 6, 8, 4
    swap, time = s.constant(np.array([1, 0, 2], np.int32)), s.constant(np.array([0], np.int32))
    x = s.op("TRANSPOSE", [s.feed((batch, steps, depth)), swap], [(steps, batch, depth)])

    def results(x: int, depth: int, seed: int) -> int:
        rng = np.random.default_rng(seed)
        layer = KerasLayer(cell, steps, batch, depth, units, rng=rng)
        zeros = s.constant(np.zeros((batch, units), np.float32))
        return layer.add(s, x, [zeros] * layer.states)[2]

    for number in range(2):
        ahead, shape = results(x, depth, number), (steps, batch, units)
        if both_directions:
            reverse = s.op("REVERSE_V2", [x, time], [(steps, batch, depth)])
            back = s.op("REVERSE_V2", [results(reverse, depth, number + 2), time], [shape])
            ahead = s.op("CONCATENATION", [ahead, back], [(steps, batch, 2 * units)], axis=2)
        x, depth = ahead, units * (1 + both_directions)
    return s, s.build([s.op("TRANSPOSE", [x, swap], [(batch, steps, depth)])])
