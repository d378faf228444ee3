"""Recognizes layer, RMS and L2 normalizations in what chains of dispatches compute.

Converters write them in many ways, with or without their own dimension for the sums: the chains
are compared as polynomials of tensors, constants, and `Mean` and `Scale` of a tensor's pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from gles_delegate.dispatch import Call, Const, Define, Dispatch, Operand, Value
from gles_delegate.limits import Limits
from gles_delegate.model.graph import Tensor
from gles_delegate.ops.lib.elementwise import (
    ADD,
    DIV,
    MAXIMUM,
    MUL,
    RSQRT,
    SQUARE,
    SQUARED_DIFFERENCE,
    SUB,
    Elementwise,
)
from gles_delegate.ops.lib.grid import pixel_grid, pixel_passes, with_reduction_lanes
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.ops.lib.reduction import SUM, Reduction
from gles_delegate.ops.lib.views import Copy
from gles_delegate.planning.fusion import Scope, eliminate_dead_code, fuse_elementwise


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
    """The larger one of a sum of squares / `divisor`, and `epsilon`."""

    squares: Squares
    divisor: float
    epsilon: float


@dataclass(frozen=True)
class Scale:
    """One over the root of a sum of squares / `divisor` + `epsilon`.

    Attributes:
        larger: Or of the larger one of both.
    """

    squares: Squares
    divisor: float
    epsilon: float
    larger: bool


Symbol: TypeAlias = Operand | Mean | Squares | Larger | Scale
Polynomial: TypeAlias = dict[tuple[Symbol, ...], float]
"""Coefficients by the factors of a product, in order."""

MOST_PRODUCTS = 8
"""The most products of a polynomial, and factors of a product; a larger one stays a tensor."""

SMALLEST, LARGEST = 1e-30, 1e30
"""The range of the shader's constants other than 0."""


def fuse_normalizations(dispatches: list[Dispatch], scope: Scope) -> list[Dispatch]:
    """Let one dispatch compute a normalization; the others of its chain may have other readers."""
    chains = _Chains(scope.tensors)
    normalized = [chains.follow(dispatch, scope.limits) for dispatch in dispatches]
    if normalized == dispatches:
        return dispatches
    return fuse_elementwise(eliminate_dead_code(normalized, scope), scope)


class _Chains:
    """The values of a plan as polynomials, and the dispatches that compute each."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors
        self._known: dict[Operand, Polynomial] = {}
        self._made_by: dict[Operand, dict[Value, Dispatch]] = {}

    def follow(self, dispatch: Dispatch, limits: Limits) -> Dispatch:
        """Note what a dispatch computes; return what to run in its place."""
        result, calls = dispatch, dispatch.epilogue
        made_by: dict[Value, Dispatch] = {}
        for read in dispatch.operands:
            made_by |= self._made_by.get(read, {})
        found = self._start(dispatch)
        for i in range(len(calls) + 1):
            found = self._after(found, calls[i - 1], dispatch.output) if i and found else found
            if found is None or max(len(found), *map(len, found), 0) > MOST_PRODUCTS:
                self._known.pop(dispatch.output, None)
                return result
            self._known[dispatch.output] = found
            how = _normalization(found, dispatch.output)
            if how and (one := _dispatch(dispatch, how, calls[i:], limits)):
                result = one.joined(*made_by.values())
        self._made_by[dispatch.output] = made_by | {dispatch.output: dispatch}
        return result

    def _start(self, dispatch: Dispatch) -> Polynomial | None:
        """The result of a dispatch before its epilogue; None if it is not a polynomial."""
        output, source = dispatch.output, dispatch.reads[0]
        if dispatch.partial or any(x.kind != "float" for x in (*dispatch.operands, output)):
            return None
        if isinstance(dispatch, Elementwise):
            operands = [self._operand(read, output) for read in dispatch.reads]
            first, *others = operands
            if not dispatch.function and not others:
                return first
            return _result(dispatch.function, first, others[0]) if len(others) == 1 else None
        values = self._known.get(source, {(source,): 1.0})
        if isinstance(dispatch, Copy):
            copy = replace(dispatch, epilogue=())
            whole = copy.span == (0, output.elements) == (0, source.elements)
            return values if whole and _is_by_pixel(values) else None
        return self._sum(dispatch, values) if isinstance(dispatch, Reduction) else None

    def _sum(self, reduction: Reduction, values: Polynomial) -> Polynomial | None:
        """The mean or the sum of squares of channels that have these values."""
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
        if call.args or call.rows:
            return None
        if call.operand is None:
            return _result(call.function, v, v)
        other = self._operand(call.operand, output)
        return _result(call.function, *((other, v) if call.operand_first else (v, other)))

    def _operand(self, operand: Operand, output: Value) -> Polynomial | None:
        """Its value, if it is a number, has one for each channel or pixel, or has all elements."""
        if isinstance(operand, Const):
            if operand.pack is phwc4 and operand.elements == len(operand.tensors) == 1:
                return {(): float(self._tensors[operand.tensors[0]].array().ravel()[0])}
            is_row = operand.pixels == 1 and operand.channels == output.channels
            return {(operand,): 1.0} if is_row else None
        values = self._known.get(operand, {(operand,): 1.0})
        if operand.elements == output.elements and (
            operand.channels == output.channels or _is_by_pixel(values)
        ):
            return values
        by_pixel = operand.channels == 1 and operand.pixels == output.pixels
        return values if by_pixel and _is_by_pixel(values) else None


def _is_by_pixel(values: Polynomial) -> bool:
    """Whether it is one number for each pixel of a tensor."""
    return all(isinstance(f, (Mean, Squares, Larger, Scale)) for factors in values for f in factors)


def _result(function: str, a: Polynomial | None, b: Polynomial | None) -> Polynomial | None:
    """A function of two operands; or of `a` alone."""
    if a is None or b is None:
        return None
    if function in (ADD, SUB):
        return _sum(a, b, 1 if function == ADD else -1)
    if function in (MUL, SQUARE):
        return _product(a, b)
    if function == SQUARED_DIFFERENCE:
        difference = _sum(a, b, -1)
        return _product(difference, difference)
    if function == DIV and len(b) == 1 and b.get(()):
        return _product(a, {(): 1 / b[()]})
    return _of_squares(function, a, b)


def _of_squares(function: str, a: Polynomial, b: Polynomial) -> Polynomial | None:
    """A function of one sum of squares, times a number and plus another."""
    offset = a.get((), 0.0)
    rest = [(factors, coefficient) for factors, coefficient in a.items() if factors]
    if len(rest) != 1 or len(rest[0][0]) != 1:
        return None
    (symbol,), coefficient = rest[0]
    if function == MAXIMUM and isinstance(symbol, Squares) and {*b} == {()} and not offset:
        return {(Larger(symbol, 1 / coefficient, b[()]),): 1.0}
    if function == RSQRT and isinstance(symbol, Squares):
        return {(Scale(symbol, 1 / coefficient, offset, False),): 1.0}
    if function == RSQRT and isinstance(symbol, Larger) and (coefficient, offset) == (1, 0):
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
    """A tensor less its mean, times a scale and `factor`, and perhaps a constant, plus another."""

    scale: Scale
    factor: float
    gain: Operand | None
    offset: Operand | None


def _normalization(values: Polynomial, output: Value) -> Normalization | None:
    """The normalization that it is."""
    scales = {f for factors in values for f in factors if isinstance(f, Scale)}
    if len(scales) != 1:
        return None
    (scale,) = scales
    x = scale.squares.x
    scaled = {_without(scale, f): value for f, value in values.items() if scale in f}
    rest = [item for item in values.items() if scale not in item[0]]
    offset = _constant(rest)
    if (rest and offset is None) or (x.pixels, x.channels) != (output.pixels, output.channels):
        return None
    scaling = _scaling(scaled, scale.squares)
    return Normalization(scale, *scaling, offset) if scaling else None


def _scaling(scaled: Polynomial, squares: Squares) -> tuple[float, Const | None] | None:
    """The factor and the constant that the tensor of `squares`, perhaps centered, is times."""
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


def _constant(terms: Sequence[tuple[tuple[Symbol, ...], float]]) -> Const | None:
    """The constant that the sum of terms is; None if it is anything else."""
    if len(terms) != 1:
        return None
    factors, coefficient = terms[0]
    is_constant = len(factors) == 1 and coefficient == 1 and isinstance(factors[0], Const)
    return cast(Const, factors[0]) if is_constant else None


def _dispatch(
    last: Dispatch, how: Normalization, epilogue: tuple[Call, ...], limits: Limits
) -> Dispatch | None:
    """The dispatch that computes it with the epilogue, instead of the last one of its chain."""
    scale, x, output = how.scale, how.scale.squares.x, last.output
    constants = ((MUL, how.gain), (ADD, how.offset))
    calls = tuple(Call(name, operand=operand) for name, operand in constants if operand)
    grid = pixel_grid(output, limits)
    if grid.reduction_lanes == 1:
        grid = with_reduction_lanes(grid, x.slices, limits)
    defines: dict[str, Define] = {
        "CENTERED": int(scale.squares.centered),
        "DIVISOR": scale.divisor,
        "EPSILON": scale.epsilon,
        "LARGER": int(scale.larger),
        "FACTOR": how.factor,
    }
    passes = pixel_passes(x.slices, grid.reduction_lanes)
    dispatch = Dispatch(
        last.node, "normalize", (x,), output, grid, defines, (*calls, *epilogue),
        fused=last.fused, passes=passes,
    )  # fmt: skip
    fits = len(dispatch.operands) <= limits.reads_for(output.nbytes)
    in_range = all(
        number == 0 or SMALLEST < abs(number) < LARGEST
        for number in (scale.divisor, scale.epsilon, how.factor)
    )
    return dispatch if fits and in_range and passes <= limits.loop_passes else None
