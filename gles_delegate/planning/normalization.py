"""Recognition of layer, group, RMS and L2 normalizations, and softmax, in chains of dispatches.

Converters write them in many ways, with or without a dimension for the sums. So chains are compared
as polynomials of tensors, constants, and facts of a tensor's blocks such as their `Mean`. A block
has so many elements in row-major order, such as the channels of a pixel. Each stands for its
elements in that order, whatever the shape; a number of a block for the elements of its share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import isnan, prod
from typing import TypeAlias, TypeVar

import numpy as np

from gles_delegate.device.limits import Limits
from gles_delegate.ops.axis import LARGEST, SUM, Reduction, softmax_dispatch
from gles_delegate.ops.lib import elementwise as ops
from gles_delegate.ops.lib.elementwise import Elementwise
from gles_delegate.ops.lib.grid import WORK_GROUP, pixel_grid, pixel_passes, with_reduction_lanes
from gles_delegate.ops.lib.index import merged
from gles_delegate.ops.lib.views import Copy
from gles_delegate.planning.fusion import fuse_elementwise, is_repeated, only_element
from gles_delegate.planning.rewriting import Edit, Is, Listing, Rule, has_texels_of
from gles_delegate.shaders.dispatch import (
    Call,
    Const,
    Define,
    Dispatch,
    Grid,
    Operand,
    Operation,
    Value,
    integers,
)


@dataclass(frozen=True)
class Mean:
    """The mean of each `block` of `x`."""

    x: Value
    block: int


@dataclass(frozen=True)
class Squares:
    """The sum of the squares of each `block`, less the mean of their block of `center` elements.

    `center` is 0 if nothing is subtracted.
    """

    x: Value
    center: int
    block: int


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


@dataclass(frozen=True)
class Peak:
    """The maximum of each `block` of `x`."""

    x: Value
    block: int


@dataclass(frozen=True)
class Power:
    """exp(x - the maximum of its block)."""

    peak: Peak

    @property
    def sum(self) -> Powers:
        """The sum of the powers of its block."""
        return Powers(self.peak, self.peak.block)


@dataclass(frozen=True)
class Powers:
    """The sum of each `block` of such powers."""

    peak: Peak
    block: int

    @property
    def x(self) -> Value:
        return self.peak.x


@dataclass(frozen=True)
class Logarithm:
    """The logarithm of a sum."""

    powers: Powers


@dataclass(frozen=True)
class Softmax:
    """power / the sum of the powers of its block."""

    peak: Peak


ByBlock: TypeAlias = Mean | Squares | Larger | Scale | Peak | Powers | Logarithm
"""One number per block."""
Symbol: TypeAlias = Operand | ByBlock | Power | Softmax
SymbolT = TypeVar("SymbolT", bound=Symbol)


class Polynomial(dict[tuple[Symbol, ...], float]):
    """Coefficients by the sorted factors of each product."""

    @classmethod
    def of(cls, symbol: Symbol, factor: float = 1.0) -> Polynomial:
        return cls({(symbol,): factor})

    def symbols(self, kind: type[SymbolT]) -> set[SymbolT]:
        """The factors of a kind."""
        return {factor for factors in self for factor in factors if isinstance(factor, kind)}

    def only(self, kind: type[SymbolT]) -> SymbolT | None:
        """The symbol that is all of it, if that is of a kind."""
        return next((each for each in self.symbols(kind) if self == Polynomial.of(each)), None)

    def __add__(self, other: Polynomial) -> Polynomial:
        return _collected((*self.items(), *other.items()))

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other * Polynomial({(): -1.0})

    def __mul__(self, other: Polynomial) -> Polynomial:
        return _collected(
            (tuple(sorted((*p, *q), key=repr)), m * n)
            for p, m in self.items()
            for q, n in other.items()
        )


def _collected(products: Iterable[tuple[tuple[Symbol, ...], float]]) -> Polynomial:
    result = Polynomial()
    for factors, coefficient in products:
        result[factors] = result.get(factors, 0.0) + coefficient
    return Polynomial({factors: number for factors, number in result.items() if number})


MAX_PRODUCTS = 8
"""Maximum products of a polynomial, and factors of a product; larger ones are not followed."""
LEAST, MOST = 1e-30, 1e30
"""The range of the shader's constants other than 0."""
LOWEST = float(np.finfo(np.float32).min)


def fuse_normalizations(listing: Listing) -> None:
    """Compute each normalization in one dispatch; others of its chain stay if they have readers."""
    listing.rewrite(Rule(Is(Operation), _Chains(listing).normalized))
    fuse_elementwise(listing)


class _Chains:
    """The values of a listing as polynomials, by the places that compute them."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._values: dict[int, Polynomial] = {}
        self._shapes: defaultdict[Value, list[Value]] = defaultdict(list)
        """Copies of tensors with the same elements in another shape."""

    def normalized(self, listing: Listing, dispatch: Operation) -> Iterator[Edit]:
        """The dispatches that compute the result of one; the longest normalization first."""
        calls, known = dispatch.epilogue, self._known(dispatch)
        if len(known) > len(calls):
            self._values[listing.place(dispatch)] = known[-1]
        limits = listing.scope.limits
        for i, values in reversed([*enumerate(known)]):
            one: Dispatch | None = None
            if normalization := self._normalization(values, dispatch.output):
                one = _dispatch(dispatch, normalization, calls[i:], limits)
            elif x := self._softmax(values, dispatch.output):
                is_logarithm = len(values) > 1
                one = softmax_dispatch(
                    dispatch.node, x, dispatch.output, limits, 1.0, is_logarithm, calls[i:]
                )
            if one:
                before = self._before(dispatch)
                yield Edit(one.joined(*before), dispatch, *before)

    def _normalization(self, values: Polynomial, output: Value) -> Normalization | None:
        scales = values.symbols(Scale)
        if len(scales) != 1:
            return None
        (scale,) = scales
        squares = scale.squares
        x = squares.x
        scaled = Polynomial()
        for factors, number in values.items():
            if scale in factors:
                at = factors.index(scale)
                scaled[factors[:at] + factors[at + 1 :]] = number
        rest = [item for item in values.items() if scale not in item[0]]
        offsets = [f[0] for f, n in rest if len(f) == n == 1 and isinstance(f[0], Const)]
        is_sum = len(offsets) == len(rest) <= 1
        with_x = [factors for factors in scaled if x in factors]
        if not is_sum or len(with_x) != 1 or squares.center not in (0, squares.block):
            return None
        factor = scaled[with_x[0]]
        gains = [f for f in with_x[0] if f != x]
        constants = [f for f in gains if isinstance(f, Const)]
        plain = _less_mean(x, squares.center, factor)
        if (
            scaled != plain * Polynomial({tuple(gains): 1.0})
            or not len(constants) == len(gains) <= 1
        ):
            return None
        shaped = self._shaped(x, output)
        if shaped is None or not output.channels or squares.block % output.channels:
            return None
        return Normalization(shaped, scale, factor, constants[0] if constants else None, *offsets)

    def _softmax(self, values: Polynomial, output: Value) -> Value | None:
        """The tensor with the shape of `output` whose softmax, or its logarithm, this is."""
        softmax = values.only(Softmax)
        peak = softmax.peak if softmax else _peak_of(values)
        if peak is None or peak.block != output.channels:
            return None
        logarithm = Polynomial.of(Logarithm(Power(peak).sum))
        if values not in (Polynomial.of(Softmax(peak)), _less_peak(peak) - logarithm):
            return None
        return self._shaped(peak.x, output)

    def _shaped(self, x: Value, output: Value) -> Value | None:
        """A tensor with the elements of `x` and the texels of `output`."""
        return next((t for t in (x, *self._shapes[x]) if has_texels_of(t, output)), None)

    def _known(self, dispatch: Operation) -> list[Polynomial]:
        """The results before the epilogue and after each of its calls, as far as they are known."""
        found: list[Polynomial] = []
        values = self._start(dispatch)
        for call in (None, *dispatch.epilogue):
            values = self._after(values, call, dispatch) if call and values else values
            if values is None or max(len(values), *map(len, values), 0) > MAX_PRODUCTS:
                break
            if len(values.symbols(Value)) > 1:
                break  # a normalization is of one tensor, which may be such a sum
            found.append(values)
        return found

    def _before(self, dispatch: Operation) -> list[Operation]:
        found: dict[int, Operation] = {}
        pending = [dispatch]
        for reader in pending:
            for operand in reader.operands:
                maker = self._listing.maker(operand, reader)
                place = self._listing.place(maker) if maker else -1
                if maker and place in self._values and place not in found:
                    found[place] = maker
                    pending.append(maker)
        return [*found.values()]

    def _of(self, operand: Operand, reader: Operation) -> Polynomial:
        """The value of a tensor; the tensor itself if its producer is not understood."""
        maker = self._listing.maker(operand, reader)
        known = self._values.get(self._listing.place(maker)) if maker else None
        return Polynomial.of(operand) if known is None else known

    def _start(self, dispatch: Operation) -> Polynomial | None:
        """The result of a dispatch before its epilogue; None unless it is a polynomial."""
        output, source = dispatch.output, dispatch.reads[0]
        if dispatch.partial or any(x.kind != "float" for x in (*dispatch.operands, output)):
            return None
        match dispatch:
            case Elementwise():
                first, *others = (
                    self._operand(read, dispatch, is_repeated(dispatch, name))
                    for name, read in zip("ABC", dispatch.reads, strict=False)
                )
                if not others:
                    return None if dispatch.function else first
                return _result(dispatch.function, first, *others) if len(others) == 1 else None
            case Copy():
                return self._copied(replace(dispatch, epilogue=()), self._of(source, dispatch))
            case Reduction():
                return self._reduced(dispatch)
        return None

    def _copied(self, copy: Copy, values: Polynomial) -> Polynomial | None:
        """The elements in another shape, or numbers of blocks, each several times."""
        source, output, layout = copy.reads[0], copy.output, copy.layout
        if _is_by_block(values) and output.elements % max(source.elements, 1) == 0:
            times = output.elements // source.elements
            repeated = merged((source.elements, times), (1, 0))
            is_repeated = merged(layout.sizes, layout.strides) == repeated and not layout.offset
            return values if is_repeated and not (layout.has_bounds or copy.counts_lanes) else None
        if copy.span != (0, source.elements) or not isinstance(source, Value):
            return None
        root = values.only(Value)
        if root is None:
            return None
        self._shapes[root].append(output)
        return values

    def _reduced(self, reduction: Reduction) -> Polynomial | None:
        """The mean, the sum of squares or of powers, or the maximum of blocks of these values."""
        source, divisor = reduction.reads[0], float(reduction.divisor)
        is_sum = reduction.combination is SUM
        block, values = _block(reduction), self._of(source, reduction)
        if not block or not isinstance(source, Value):
            return None
        if _is_by_block(values) and (
            whole := _of_larger_blocks(values, source, block, divisor, is_sum)
        ):
            return whole
        if block == 1:
            return None
        if is_sum and (power := values.only(Power)):
            return Polynomial.of(Powers(power.peak, block), 1 / divisor)
        for x in values.symbols(Value):
            if values == Polynomial.of(x):
                return _mean_or_peak(x, block, divisor, is_sum)
            for center in (0, *{mean.block for mean in values.symbols(Mean) if mean.x == x}):
                plain = _less_mean(x, center)
                if is_sum and values == plain * plain:
                    return Polynomial.of(Squares(x, center, block), 1 / divisor)
        # From here on it is a tensor of its own, such as a normalized one that is added up.
        if maker := self._listing.maker(source, reduction):
            self._values.pop(self._listing.place(maker), None)
        return _mean_or_peak(source, block, divisor, is_sum)

    def _after(self, v: Polynomial, call: Call, dispatch: Operation) -> Polynomial | None:
        if call.args or call.rows or call.branches:
            return None
        if call.number is not None:
            other: Polynomial | None = Polynomial({(): call.number})
        elif call.operand is None:
            return _result(call.function, v, v)
        else:
            other = self._operand(call.operand, dispatch, call.spread[1:] in ((), (1, 1)))
        return _result(call.function, *((other, v) if call.operand_first else (v, other)))

    def _operand(
        self, operand: Operand, dispatch: Operation, is_repeated: bool
    ) -> Polynomial | None:
        """The operand's value: a number, one per channel or block, or all elements; else None.

        Args:
            is_repeated: Each of its pixels belongs to as many pixels in a row of the output.
        """
        output = dispatch.output
        if isinstance(operand, Const):
            number = only_element(operand, self._listing.scope.tensors)
            if number is not None and not isnan(number):
                return Polynomial({(): number})
            is_row = operand.pixels == 1 and operand.channels == output.channels
            return Polynomial.of(operand) if is_row else None
        values = self._of(operand, dispatch)
        if operand.elements == output.elements and (
            operand.channels == output.channels or _is_by_block(values)
        ):
            return values
        return values if operand.channels == 1 and is_repeated and _is_by_block(values) else None


def _is_by_block(values: Polynomial) -> bool:
    """Whether it is one number per block of a tensor."""
    return all(isinstance(f, ByBlock) for factors in values for f in factors)


def _block(reduction: Reduction) -> int:
    """The elements of each sum or maximum, if they follow each other; else 0."""
    source, n = reduction.reads[0], reduction.numbers
    if reduction.combination not in (SUM, LARGEST) or len(reduction.reads) > 1:
        return 0
    (counts, along), (results, between) = (
        merged(integers(n[f"{name}SIZES"]), integers(n[f"{name}STRIDES"]))
        for name in ("REDUCED_", "")
    )
    count, channels = prod(counts), source.channels
    in_row = merged((prod(results), count), (count, 1))
    is_in_row = merged(results + counts, between + along) == in_row
    return count * channels if is_in_row and (n["REDUCE_CHANNELS"] or channels == 1) else 0


def _of_larger_blocks(
    values: Polynomial, source: Value, count: int, divisor: float, is_sum: bool
) -> Polynomial | None:
    """The sums, or maxima, of `count` elements of `source`, which are those of smaller blocks."""
    if len(values) != 1:
        return None
    ((factors, coefficient),) = values.items()
    part = factors[0] if len(factors) == 1 else None
    if not isinstance(part, (Mean, Squares, Powers, Peak)) or isinstance(part, Peak) is is_sum:
        return None
    if source.elements * part.block != part.x.elements or not (is_sum or coefficient == 1):
        return None
    whole = replace(part, block=part.block * count)
    times = count if isinstance(part, Mean) else 1
    return Polynomial.of(whole, coefficient * times / divisor)


def _result(function: str, a: Polynomial | None, b: Polynomial | None) -> Polynomial | None:
    """A function of two operands; or of `a` alone."""
    if a is None or b is None:
        return None
    if function == ops.MAXIMUM and {*a} == {()}:
        a, b = b, a
    match function:
        case ops.ADD:
            return a + b
        case ops.SUB:
            return a - b
        case ops.MUL | ops.SQUARE:
            return a * b
        case ops.NEG:
            return a * Polynomial({(): -1.0})
        case ops.SQUARED_DIFFERENCE:
            return (a - b) * (a - b)
        case ops.DIV if {*b} == {()}:
            return a * Polynomial({(): 1 / b[()]}) if b[()] else None
        case ops.DIV if (power := a.only(Power)) and b.only(Powers) == power.sum:
            return Polynomial.of(Softmax(power.peak))
        case ops.EXP if (peak := _peak_of(a)) and a == _less_peak(peak):
            return Polynomial.of(Power(peak))
        case ops.LOG if powers := a.only(Powers):
            return Polynomial.of(Logarithm(powers))
    return _of_squares(function, a, b)


def _peak_of(values: Polynomial) -> Peak | None:
    """The first maximum that is added by itself, or multiplied by a number."""
    symbols = (factors[0] for factors in values if len(factors) == 1)
    return next((symbol for symbol in symbols if isinstance(symbol, Peak)), None)


def _less_peak(peak: Peak) -> Polynomial:
    return Polynomial.of(peak.x) - Polynomial.of(peak)


def _mean_or_peak(x: Value, block: int, divisor: float, is_sum: bool) -> Polynomial:
    """The sums of blocks / `divisor`, or their maxima."""
    if is_sum:
        return Polynomial.of(Mean(x, block), block / divisor)
    return Polynomial.of(Peak(x, block))


def _of_squares(function: str, a: Polynomial, b: Polynomial) -> Polynomial | None:
    """A function of one sum of squares, multiplied by a number, plus a number."""
    offset = a.get((), 0.0)
    rest = [(factors, coefficient) for factors, coefficient in a.items() if factors]
    if len(rest) != 1 or len(rest[0][0]) != 1:
        return None
    (symbol,), coefficient = rest[0]
    is_plain = (coefficient, offset) == (1, 0)
    is_of_number = {*b} == {()}
    match function, symbol:
        case ops.MAXIMUM, Peak() if is_of_number:
            # No maximum is smaller, but that of -inf alone.
            return a if is_plain and b[()] <= LOWEST else None
        case ops.MAXIMUM, Squares() as squares if is_of_number and not offset:
            return Polynomial.of(Larger(squares, 1 / coefficient, b[()]))
        case ops.RSQRT, Squares() as squares:
            return Polynomial.of(Scale(squares, 1 / coefficient, offset, False))
        case ops.RSQRT, Larger(squares, divisor, epsilon) if is_plain:
            return Polynomial.of(Scale(squares, divisor, epsilon, True))
    return None


def _less_mean(x: Value, block: int, factor: float = 1.0) -> Polynomial:
    """`x`, less the mean of each block, if these are not 0."""
    one = Polynomial.of(x, factor)
    return one - Polynomial.of(Mean(x, block), factor) if block else one


@dataclass(frozen=True)
class Normalization:
    """(x - mean) * `scale` * `factor` * `gain` + `offset`; `x` has its tensor's elements."""

    x: Value
    scale: Scale
    factor: float
    gain: Operand | None
    offset: Operand | None = None


def _dispatch(
    last: Operation, normalization: Normalization, epilogue: tuple[Call, ...], limits: Limits
) -> Dispatch | None:
    x, scale, factor = normalization.x, normalization.scale, normalization.factor
    squares, output = scale.squares, last.output
    numbers = (scale.divisor, scale.epsilon, factor)
    if not all(number == 0 or LEAST < abs(number) < MOST for number in numbers):
        return None
    constants = ((ops.MUL, normalization.gain), (ops.ADD, normalization.offset))
    calls = tuple(Call(name, operand=operand) for name, operand in constants if operand)
    group = squares.block // output.channels
    texels = x.slices * group
    grid = pixel_grid(output, limits)
    if group > 1:
        grid = Grid(output.pixels // group, 1, 1, 1, reduction_lanes=WORK_GROUP)
    elif grid.reduction_lanes == 1:
        grid = with_reduction_lanes(grid, texels, limits)
    defines: dict[str, Define] = {
        "GROUPED": int(group > 1),
        "GROUP": group,
        "CENTERED": int(squares.center > 0),
        "DIVISOR": scale.divisor,
        "EPSILON": scale.epsilon,
        "LARGER": int(scale.larger),
        "FACTOR": factor,
    }
    passes = pixel_passes(texels, grid.reduction_lanes)
    dispatch = Dispatch(
        last.node, "normalize", (x,), output, grid, defines, (*calls, *epilogue),
        fused=last.fused, passes=passes,
    )  # fmt: skip
    return dispatch.sized("GROUP") if limits.profile.row_loops else dispatch
