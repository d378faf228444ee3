"""Random graphs: ops that fuse, alias, write in parts and share buffers, in any order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from tests.support.random_branches import random_branches
from tests.support.random_copies import random_copies
from tests.support.random_types import random_types
from tests.support.random_views import random_views
from tests.support.schema import Values
from tests.support.sketch import Dims, Sketch
from tests.support.tflite_builder import quantization

Kind: TypeAlias = Literal[
    "float32", "int8", "uint8", "int16", "dynamic range", "types", "copies", "views", "branches"
]
KINDS: tuple[Kind, ...] = ("float32", "int8", "uint8", "int16", "dynamic range", "types", "views")
"""All but copies and branches, which `tests.attack` draws: networks of these types, and graphs of
random_types.py and random_views.py."""

_UNARY = ("RELU", "RELU6", "TANH", "LOGISTIC")
_BINARY = ("ADD", "SUB", "MUL", "MAXIMUM")
_CLAMPS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")
_OPS = (
    *("unary", "binary", "binary", "vector", "reshape", "conv", "equal parts", "channels"),
    *("depthwise", "pool", "pad", "slice", "transpose", "mean", "softmax", "powers"),
)
_FIXED = {  # scale, and zero points of the 8-bit kinds; of int16, the scale is 2^-15
    "TANH": (1 / 128, {"int8": 0, "uint8": 128}),
    "LOGISTIC": (1 / 256, {"int8": -128, "uint8": 0}),
    "SOFTMAX": (1 / 256, {"int8": -128, "uint8": 0}),
}
_FINER = {"int16": 1 / 256}
"""The factor by which steps are smaller than with 8 bits."""

_MOST_SCALE = 0.02  # where a step of the input is at most three of TANH, LOGISTIC and SOFTMAX
_MOST_CHANNELS = 48
_MOST_ROWS = 40


@dataclass(frozen=True)
class Drawn:
    """A tensor and its shape; 8-bit ones have a scale and a zero point."""

    index: int
    shape: Dims
    quantized: tuple[float, int] | None = None

    def fits(self, other: Drawn) -> bool:
        """The same numbers mean the same."""
        return self.quantized == other.quantized


def random_graph(
    choose: random.Random,
    ops: int = 14,
    kind: Kind = "float32",
    sizes: Sequence[Dims] = ((5, 3),),
    channels: Sequence[int] = (1, 3, 4, 6),
    batches: Sequence[int] = (1, 2),
    twin: bool = False,
) -> tuple[Sketch, list[int]]:
    """A sketch and its outputs: the last tensor, and some that other ops read as well.

    Args:
        choose: The first of each choice is the simplest.
        kind: Type of the tensors; with "dynamic range", only weights are int8. "types", "copies",
            "views" and "branches" are the graphs of random_types.py, random_copies.py,
            random_views.py and random_branches.py, which have their own sizes.
        sizes: Heights and widths of the inputs.
        twin: Of a "dynamic range" graph the same with weights in float32.
    """
    if kind == "types":
        return random_types(choose, ops)
    if kind == "copies":
        return random_copies(choose, ops)
    if kind == "views":
        return random_views(choose, ops)
    if kind == "branches":
        return random_branches(choose, ops)
    depth, batch = choose.choice(channels), choose.choice(batches)
    graph = _Graph(Sketch(np.random.default_rng(choose.getrandbits(16))), choose, kind, twin)
    shape = (batch, *choose.choice(sizes), depth)
    for size in (shape, shape):
        graph.images.append(graph.feed(size))
    for size in ((1,), (1, 1, 1, depth)):
        graph.vectors.append(graph.feed(size))
    for _ in range(ops):
        graph.images.append(graph.draw())
    made = [drawn.index for drawn in graph.images[2:]]
    return graph.s, [made[-1], *choose.sample(made[:-1], choose.randrange(min(3, ops)))]


def described(sketch: Sketch, outputs: Sequence[int]) -> str:
    """A graph as people read it."""
    shapes = [tensor.get("shape") for tensor in sketch.tensors]
    return f"{sketch}\noutputs {outputs}, shapes {shapes}"


@dataclass
class _Graph:
    s: Sketch
    choose: random.Random
    kind: Kind
    twin: bool
    images: list[Drawn] = field(default_factory=list)
    vectors: list[Drawn] = field(default_factory=list)

    def draw(self) -> Drawn:
        """One op more."""
        choose = self.choose
        x = choose.choice(self.images[-5:])
        shape = x.shape
        name = choose.choice(_OPS)
        is_steep = x.quantized is not None and x.quantized[0] > _MOST_SCALE * self.finer
        if name == "unary":
            op = choose.choice(_UNARY[:2] if is_steep else _UNARY)
            return self.op(op, [x], shape, None if op in _FIXED else x.quantized)
        if name == "binary":
            others = [*self.images, *self.vectors]
            others = [t for t in others if t.shape in (shape, (1,), (1, 1, 1, shape[-1]))]
            return self.binary(choose.choice(_BINARY), x, choose.choice(others))
        if name == "vector":
            op, repeated = choose.choice(("MUL", "ADD")), choose.random() < 0.5
            sizes = tuple(choose.choice((1, n)) for n in shape) if repeated else shape[-1:]
            return self.binary(op, x, self.vector(sizes))
        if name in ("conv", "depthwise") and min(shape[1:]) > 0:
            return self.conv(x, depthwise=name == "depthwise")
        if name == "equal parts" and shape[-1] * shape[1] <= _MOST_ROWS:
            axis = choose.choice((1, 3))
            equal = [t for t in self.images if t.shape == shape and t.fits(x)]
            parts = [choose.choice(equal) for _ in range(choose.choice((1, 2, 3)))]
            sizes = list(shape)
            sizes[axis] *= len(parts)
            return self.op("CONCATENATION", parts, tuple(sizes), x.quantized, axis=axis)
        if name == "channels" and shape[-1] <= _MOST_CHANNELS:
            beside = [t for t in self.images if t.shape[:-1] == shape[:-1] and t.fits(x)]
            other = choose.choice([t for t in beside if t.shape[-1] <= _MOST_CHANNELS])
            sizes = [*shape[:-1], shape[-1] + other.shape[-1]]
            return self.op("CONCATENATION", [x, other], tuple(sizes), x.quantized, axis=3)
        if name == "pool" and min(shape[1:3]) > 1:
            pooled = (shape[0], shape[1] // 2, shape[2] // 2, shape[3])
            window = dict(stride_h=2, stride_w=2, filter_height=2, filter_width=2, padding="VALID")
            op = choose.choice(("MAX_POOL_2D", "AVERAGE_POOL_2D"))
            return self.op(op, [x], pooled, x.quantized, **window)
        if name == "pad" and shape[1] < _MOST_ROWS:
            pads = np.array([(0, 0), *((choose.randrange(3), choose.randrange(2)),) * 2, (0, 0)])
            padded = tuple(int(n) for n in shape + pads.sum(axis=1))
            return self.op("PAD", [x, self.integers(pads)], padded, x.quantized)
        if name == "slice" and min(shape) > 0:
            begin = [choose.randrange(n) for n in shape]
            size = [choose.randint(1, n - b) for n, b in zip(shape, begin, strict=True)]
            operands = [x, self.integers(begin), self.integers(size)]
            return self.op("SLICE", operands, tuple(size), x.quantized)
        if name == "mean" and min(shape) > 0:
            operands = [x, self.integers([1, 2])]
            mean = (shape[0], 1, 1, shape[3])
            return self.op("MEAN", operands, mean, x.quantized, keep_dims=True)
        if name == "softmax" and min(shape) > 0 and not is_steep:
            return self.op("SOFTMAX", [x], shape, beta=1.0)
        if name == "powers" and min(shape) > 0 and x.quantized is None:
            return self.powers(x)
        turned = (shape[0], shape[2], shape[1], shape[3])
        if name == "transpose":
            return self.op("TRANSPOSE", [x, self.integers([0, 2, 1, 3])], turned, x.quantized)
        return self.op("RESHAPE", [x, self.integers(turned)], turned, x.quantized)

    def powers(self, x: Drawn) -> Drawn:
        """A softmax in its parts, or nearly so."""
        equal = [x, x, *(t for t in self.images if t.shape == x.shape and t.quantized is None)]
        peak = self.reduced("REDUCE_MAX", self.choose.choice(equal))
        power = self.op("EXP", [self.op("SUB", [x, peak], x.shape)], x.shape)
        return self.op("DIV", [power, self.reduced("SUM", power)], x.shape)

    def reduced(self, op: str, x: Drawn) -> Drawn:
        axis = self.choose.choice((2, 3, 3, 3))
        sizes = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
        return self.op(op, [x, self.integers([axis])], sizes, keep_dims=True)

    def binary(self, op: str, x: Drawn, other: Drawn) -> Drawn:
        if op == "MAXIMUM" and not other.fits(x):
            other = x
        operands = [x, other]
        self.choose.shuffle(operands)
        result = x.quantized
        if result and other.quantized and op != "MAXIMUM":
            a, b = x.quantized[0], other.quantized[0]  # type: ignore[index]
            result = (a * b * 128 / self.finer if op == "MUL" else a + b, self.zero_point())
        shape = max(x.shape, other.shape, key=len)
        return self.op(op, operands, x.shape if len(shape) == len(x.shape) else shape, result)

    def conv(self, x: Drawn, *, depthwise: bool) -> Drawn:
        choose, s, inputs = self.choose, self.s, x.shape[-1]
        depth, size = choose.choice((1, 4, 5, 12)), choose.choice((1, 3))
        depth = inputs if depthwise else depth
        shape = (1, size, size, depth) if depthwise else (depth, size, size, inputs)
        axis, terms = (3, size * size) if depthwise else (0, size * size * inputs)
        options: dict[str, Any] = {"stride_h": 1, "stride_w": 1}
        options["fused_activation_function"] = choose.choice(_CLAMPS)
        if depthwise:
            options["depth_multiplier"] = 1
        weights, biases = s.normal(shape, 1 / np.sqrt(max(terms, 1))), s.normal((depth,))
        result = None
        if self.kind == "float32":
            constants = [s.constant(weights), s.constant(biases)]
        else:
            count = 1 if self.kind == "uint8" else depth
            scales = s.rng.uniform(0.8, 1.2, count).astype(np.float32) / 40 / np.sqrt(max(terms, 1))
            spread = np.full(depth, 1, np.float32) * scales
            steps_of = spread if depthwise else spread[:, None, None, None]
            steps = np.clip(np.rint(weights / steps_of), -127, 127)
            if self.kind == "dynamic range":
                options["version"] = 6 if depthwise else 5
                if self.twin:
                    stored = s.constant((steps * steps_of).astype(np.float32))
                else:
                    scale = quantization(scales, 0, axis)
                    stored = s.constant(steps.astype(np.int8), quantization=scale)
                constants = [stored, s.constant(biases)]
            else:
                assert x.quantized
                zero = 128 if self.kind == "uint8" else 0
                steps = np.clip(steps + zero, 0, 255) if zero else steps
                filled = steps.astype("int8" if self.kind == "int16" else self.kind)
                wide = np.int64 if self.kind == "int16" else np.int32
                sums = np.rint(biases / (spread * x.quantized[0])).astype(wide)
                constants = [
                    s.constant(filled, quantization=quantization(scales, zero, axis)),
                    s.constant(sums, quantization=quantization(scales * x.quantized[0])),
                ]
                result = (x.quantized[0] * 1.5, self.zero_point())
        op = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        operands = [x, *(Drawn(index, ()) for index in constants)]
        return self.op(op, operands, (*x.shape[:-1], depth), result, **options)

    def op(
        self,
        name: str,
        inputs: Sequence[Drawn],
        shape: Dims,
        quantized: tuple[float, int] | None = None,
        **options: Any,
    ) -> Drawn:
        if self.is_quantized and quantized is None:
            scale, zero_points = _FIXED[name]
            quantized = (2.0**-15, 0) if self.kind == "int16" else (scale, zero_points[self.kind])
        result = self.s.tensor(**self.type(quantized))
        self.s.op(name, [x.index for x in inputs], [result], **options)
        return Drawn(result, shape, quantized)

    def feed(self, shape: Dims) -> Drawn:
        """An input."""
        if not self.is_quantized:
            return Drawn(self.s.feed(shape), shape)
        quantized = (self.choose.choice((0.05, 0.02)) * self.finer, self.zero_point())
        self.s.feeds.append(self.bytes(shape))
        return Drawn(self.s.input(shape, **self.type(quantized)), shape, quantized)

    def vector(self, shape: Dims) -> Drawn:
        """A constant."""
        if not self.is_quantized:
            return Drawn(self.s.constant(self.s.normal(shape)), shape)
        quantized = (0.03 * self.finer, self.zero_point())
        stored: Values = self.type(quantized)
        del stored["dtype"]
        return Drawn(self.s.constant(self.bytes(shape), **stored), shape, quantized)

    def integers(self, values: Any) -> Drawn:
        array = np.array(values, np.int32)
        return Drawn(self.s.constant(array), array.shape)

    def bytes(self, shape: Dims) -> Any:
        limits = np.iinfo(self.kind)
        return self.s.rng.integers(limits.min, limits.max, shape, self.kind, endpoint=True)

    def type(self, quantized: tuple[float, int] | None) -> dict[str, Any]:
        if quantized is None:
            return {"dtype": "float32"}
        return {"dtype": self.kind, "quantization": quantization(*quantized)}

    def zero_point(self) -> int:
        drawn = self.choose.choice((0, 3, -5))
        return 0 if self.kind == "int16" else drawn + (128 if self.kind == "uint8" else 0)

    @property
    def is_quantized(self) -> bool:
        return self.kind in ("int8", "uint8", "int16")

    @property
    def finer(self) -> float:
        return _FINER.get(self.kind, 1.0)
