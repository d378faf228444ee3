"""Recognition of layer, RMS and L2 normalizations in chains of dispatches.

Converters write them in many ways, with or without a dimension for the sums. So chains are compared
as polynomials of tensors, constants, and the `Mean` and `Scale` of a tensor's pixels.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from gles_delegate.device.limits import Limits
from gles_delegate.model.graph import Tensor
from gles_delegate.ops.axis import SUM, Reduction
from gles_delegate.ops.lib import elementwise as ops
from gles_delegate.ops.lib.elementwise import Elementwise
from gles_delegate.ops.lib.grid import pixel_grid, pixel_passes, with_reduction_lanes
from gles_delegate.ops.lib.views import Copy
from gles_delegate.planning.fusion import Scope, eliminate_dead_code, fuse_elementwise, number_of
from gles_delegate.shaders.dispatch import Call, Const, Define, Dispatch, Operand, Value


@dataclass(frozen=True)
class Mean:
    """The mean of the channels of each pixel of `x`."""

    x: Value


@dataclass(frozen=True)
class Squares:
    """The sum of the squares of the channels of each pixel; less their mean if `centered`."""

    x: Value
    centered: bool


@dataclass(frozen=True)
class Larger:
    """The maximum of a sum of squares / `divisor` and `epsilon`."""

    squares: Squares
    divisor: float
    epsilon: float


@dataclass(frozen=True)
class Scale:
    """1 / sqrt(sum of squares / `divisor` + `epsilon`); the maximum of both if `larger`."""

    squares: Squares
    divisor: float
    epsilon: float
    larger: bool


Symbol: TypeAlias = Operand | Mean | Squares | Larger | Scale
Polynomial: TypeAlias = dict[tuple[Symbol, ...], float]
"""Coefficients by the sorted factors of each product."""
MOST_PRODUCTS = 8
"""Maximum products of a polynomial, and factors of a product; larger ones are not followed."""
SMALLEST, LARGEST = 1e-30, 1e30
"""The range of the shader's constants other than 0."""


def fuse_normalizations(dispatches: list[Dispatch], scope: Scope) -> list[Dispatch]:
    """Compute each normalization in one dispatch; others of its chain stay if they have readers."""
    chains = _Chains(scope.tensors)
    normalized = [chains.follow(dispatch, scope.limits) for dispatch in dispatches]
    if normalized == dispatches:
        return dispatches
    return fuse_elementwise(eliminate_dead_code(normalized, scope), scope)


class _Chains:
    """The values of a plan as polynomials, and the dispatches that compute each."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors
        self._values: dict[Operand, Polynomial] = {}
        self._computed_by: dict[Operand, Dispatch] = {}

    def follow(self, dispatch: Dispatch, limits: Limits) -> Dispatch:
        """Record the results of a dispatch; return the dispatch to run instead."""
        result, calls = dispatch, dispatch.epilogue
        values = self._start(dispatch)
        for i in range(len(calls) + 1):
            values = self._after(values, calls[i - 1], dispatch.output) if i and values else values
            if values is None or max(len(values), *map(len, values), 0) > MOST_PRODUCTS:
                self._values.pop(dispatch.output, None)
                return result
            self._values[dispatch.output] = values
            normalization = _normalization(values, dispatch.output)
            if normalization and (one := _dispatch(dispatch, normalization, calls[i:], limits)):
                result = one.joined(*self._before(dispatch))
        self._computed_by[dispatch.output] = dispatch
        return result

    def _before(self, dispatch: Dispatch) -> Collection[Dispatch]:
        """The dispatches of its chain that compute its operands."""
        found: dict[Operand, Dispatch] = {}
        pending = list(dispatch.operands)
        while pending:
            operand = pending.pop()
            if operand in self._computed_by and operand not in found:
                found[operand] = self._computed_by[operand]
                pending += found[operand].operands
        return found.values()

    def _start(self, dispatch: Dispatch) -> Polynomial | None:
        """The result of a dispatch before its epilogue; None unless it is a polynomial."""
        output, source = dispatch.output, dispatch.reads[0]
        if dispatch.partial or any(x.kind != "float" for x in (*dispatch.operands, output)):
            return None
        if isinstance(dispatch, Elementwise):
            operands = [self._operand(read, output) for read in dispatch.reads]
            first, *others = operands
            if not dispatch.function and not others:
                return first
            return _result(dispatch.function, first, others[0]) if len(others) == 1 else None
        values = self._values.get(source, {(source,): 1.0})
        if isinstance(dispatch, Copy):
            copy = replace(dispatch, epilogue=())
            whole = copy.span == (0, output.elements) == (0, source.elements)
            return values if whole and _is_by_pixel(values) else None
        return self._sum(dispatch, values) if isinstance(dispatch, Reduction) else None

    def _sum(self, reduction: Reduction, values: Polynomial) -> Polynomial | None:
        """The mean, or the sum of squares, of channels with these values."""
        source, divisor = reduction.reads[0], float(reduction.divisor)
        is_sum = reduction.combination is SUM and reduction.over_channels
        if not is_sum or source.channels < 2:
            return None
        if values == {(source,): 1.0} and isinstance(source, Value):
            return {(Mean(source),): source.channels / divisor}
        for x in {f for factors in values for f in factors if isinstance(f, Value)}:
            for centered in (False, True):
                plain = _less_mean(x, centered)
                if values == _product(plain, plain):
                    return {(Squares(x, centered),): 1 / divisor}
        return None

    def _after(self, v: Polynomial, call: Call, output: Value) -> Polynomial | None:
        if call.args or call.rows or call.branches:
            return None
        if call.number is not None:
            other: Polynomial | None = {(): call.number}
        elif call.operand is None:
            return _result(call.function, v, v)
        else:
            other = self._operand(call.operand, output)
        return _result(call.function, *((other, v) if call.operand_first else (v, other)))

    def _operand(self, operand: Operand, output: Value) -> Polynomial | None:
        """The operand's value: a number, one per channel or pixel, or all elements; else None."""
        if isinstance(operand, Const):
            number = number_of(operand, self._tensors)
            if number is not None:
                return {(): number}
            is_row = operand.pixels == 1 and operand.channels == output.channels
            return {(operand,): 1.0} if is_row else None
        values = self._values.get(operand, {(operand,): 1.0})
        if operand.elements == output.elements and (
            operand.channels == output.channels or _is_by_pixel(values)
        ):
            return values
        by_pixel = operand.channels == 1 and operand.pixels == output.pixels
        return values if by_pixel and _is_by_pixel(values) else None


def _is_by_pixel(values: Polynomial) -> bool:
    """Whether it is one number per pixel of a tensor."""
    return all(isinstance(f, (Mean, Squares, Larger, Scale)) for factors in values for f in factors)


def _result(function: str, a: Polynomial | None, b: Polynomial | None) -> Polynomial | None:
    """A function of two operands; or of `a` alone."""
    if a is None or b is None:
        return None
    if function in (ops.ADD, ops.SUB):
        return _sum(a, b, 1 if function == ops.ADD else -1)
    if function in (ops.MUL, ops.SQUARE):
        return _product(a, b)
    if function == ops.SQUARED_DIFFERENCE:
        difference = _sum(a, b, -1)
        return _product(difference, difference)
    if function == ops.DIV and len(b) == 1 and b.get(()):
        return _product(a, {(): 1 / b[()]})
    return _of_squares(function, a, b)


def _of_squares(function: str, a: Polynomial, b: Polynomial) -> Polynomial | None:
    """A function of one sum of squares, multiplied by a number, plus a number."""
    offset = a.get((), 0.0)
    rest = [(factors, coefficient) for factors, coefficient in a.items() if factors]
    if len(rest) != 1 or len(rest[0][0]) != 1:
        return None
    (symbol,), coefficient = rest[0]
    if function == ops.MAXIMUM and isinstance(symbol, Squares) and {*b} == {()} and not offset:
        return {(Larger(symbol, 1 / coefficient, b[()]),): 1.0}
    if function == ops.RSQRT and isinstance(symbol, Squares):
        return {(Scale(symbol, 1 / coefficient, offset, False),): 1.0}
    if function == ops.RSQRT and isinstance(symbol, Larger) and (coefficient, offset) == (1, 0):
        return {(Scale(symbol.squares, symbol.divisor, symbol.epsilon, True),): 1.0}
    return None


def _less_mean(x: Value, centered: bool, factor: float = 1.0) -> Polynomial:
    return {(x,): factor, (Mean(x),): -factor} if centered else {(x,): factor}


def _sum(a: Polynomial, b: Polynomial, sign: int) -> Polynomial:
    result = dict(a)
    for factors, coefficient in b.items():
        result[factors] = result.get(factors, 0.0) + sign * coefficient
    return {factors: coefficient for factors, coefficient in result.items() if coefficient}


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for p, m in a.items():
        for q, n in b.items():
            factors = tuple(sorted((*p, *q), key=repr))
            result[factors] = result.get(factors, 0.0) + m * n
    return {factors: coefficient for factors, coefficient in result.items() if coefficient}


@dataclass(frozen=True)
class Normalization:
    """(x - mean) * `scale` * `factor` * `gain` + `offset`, where x is the tensor of `scale`."""

    scale: Scale
    factor: float
    gain: Operand | None
    offset: Operand | None = None


def _normalization(values: Polynomial, output: Value) -> Normalization | None:
    scales = {f for factors in values for f in factors if isinstance(f, Scale)}
    if len(scales) != 1:
        return None
    (scale,) = scales
    x = scale.squares.x
    scaled = {_without(scale, f): value for f, value in values.items() if scale in f}
    rest = [item for item in values.items() if scale not in item[0]]
    offsets = [f[0] for f, n in rest if len(f) == n == 1 and isinstance(f[0], Const)]
    is_sum = len(offsets) == len(rest) <= 1
    if not is_sum or (x.pixels, x.channels) != (output.pixels, output.channels):
        return None
    scaling = _scaling(scaled, scale.squares)
    return Normalization(scale, *scaling, *offsets) if scaling else None


def _scaling(scaled: Polynomial, squares: Squares) -> tuple[float, Const | None] | None:
    """The factor and the gain of the tensor of `squares`; None if `scaled` is anything else."""
    with_x = [factors for factors in scaled if squares.x in factors]
    if len(with_x) != 1:
        return None
    gains = [f for f in with_x[0] if f != squares.x]
    factor = scaled[with_x[0]]
    expected = _product(_less_mean(squares.x, squares.centered, factor), {tuple(gains): 1.0})
    if scaled != expected or len(gains) > 1:
        return None
    if not gains:
        return factor, None
    return (factor, gains[0]) if isinstance(gains[0], Const) else None


def _without(symbol: Symbol, factors: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    at = factors.index(symbol)
    return factors[:at] + factors[at + 1 :]


def _dispatch(
    last: Dispatch, normalization: Normalization, epilogue: tuple[Call, ...], limits: Limits
) -> Dispatch | None:
    """The dispatch that computes it with the epilogue, instead of the last one of its chain."""
    scale, factor = normalization.scale, normalization.factor
    x, output = scale.squares.x, last.output
    constants = ((ops.MUL, normalization.gain), (ops.ADD, normalization.offset))
    calls = tuple(Call(name, operand=operand) for name, operand in constants if operand)
    grid = pixel_grid(output, limits)
    if grid.reduction_lanes == 1:
        grid = with_reduction_lanes(grid, x.slices, limits)
    defines: dict[str, Define] = {
        "CENTERED": int(scale.squares.centered),
        "DIVISOR": scale.divisor,
        "EPSILON": scale.epsilon,
        "LARGER": int(scale.larger),
        "FACTOR": factor,
    }
    passes = pixel_passes(x.slices, grid.reduction_lanes)
    dispatch = Dispatch(
        last.node, "normalize", (x,), output, grid, defines, (*calls, *epilogue),
        fused=last.fused, passes=passes,
    )  # fmt: skip
    fits = len(dispatch.operands) <= limits.reads_for(output.nbytes)
    in_range = all(
        number == 0 or SMALLEST < abs(number) < LARGEST
        for number in (scale.divisor, scale.epsilon, factor)
    )
    return dispatch if fits and in_range and passes <= limits.loop_passes else None
