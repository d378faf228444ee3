"""Products of two tensors that read matrices where these lie in others, such as heads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from gles_delegate.ops.lib.elementwise import DIV, MUL
from gles_delegate.ops.lib.product import MatrixProduct
from gles_delegate.ops.lib.views import Copy, View
from gles_delegate.planning.rewriting import Edit, Is, Listing, rule
from gles_delegate.shaders.dispatch import Call, Define, Shape, Value, integers

Dims = list[tuple[int, int]]
"""Sizes and strides."""


def _grouped(layout: View, counts: tuple[int, ...]) -> list[Dims] | None:
    """The dimensions of each group of `counts` elements of a tensor; None if a dimension that spans
    two groups does not divide evenly.
    """
    dims = [*zip(layout.sizes, layout.strides, strict=True)]
    groups: list[Dims] = []
    for count in reversed(counts):
        group: Dims = []
        while count > 1:
            if not dims:
                return None
            size, stride = dims.pop()
            part = min(size, count)
            if size % part or count % part:
                return None
            if part > 1:
                group.insert(0, (part, stride))
            if part < size:
                dims.append((size // part, stride * part))
            count //= part
        groups.insert(0, group)
    return groups


@dataclass(frozen=True)
class _Matrices:
    """Matrices of whole texels of `x`, by the texels of their dimensions.

    A row has the texels `first` + sum of coordinate * step, of its matrix; and from there on
    number // `length` and number % `length` times the two `jumps`. If `in_line`, the first of these
    is always 0.
    """

    x: Value
    sizes: Shape
    steps: Shape
    first: int
    length: int
    jumps: Shape
    in_line: bool

    @classmethod
    def of(cls, copy: Copy, matrices: Dims, rows: Dims, columns: Dims) -> _Matrices | None:
        """None unless rows have at most two dimensions, and columns lie in whole texels."""
        x, offset = copy.reads[0], copy.layout.offset
        width = prod(size for size, _ in columns)
        if not isinstance(x, Value) or len(rows) > 2 or columns not in ([], [(width, 1)]):
            return None
        dims = [*matrices, *rows]
        last = offset % x.channels + sum((n - 1) * (s % x.channels) for n, s in dims)
        starts = [offset, *(stride for _, stride in dims)]
        is_whole = not any(start % x.channels % 4 for start in starts)
        is_all = width % 4 == 0 or width == x.channels
        if not (is_whole and is_all and last + width <= x.channels):
            return None
        first, *steps = (n % x.channels // 4 * x.pixels + n // x.channels for n in starts)
        count = len(matrices)
        jumps = [*(0, 0)[len(rows) :], *steps[count:]]
        length = rows[-1][0] if rows else 1
        sizes = tuple(size for size, _ in matrices)
        return cls(x, sizes, tuple(steps[:count]), first, length, tuple(jumps), len(rows) < 2)

    def defines(self, name: str) -> dict[str, Define]:
        """Defines of glsl/batch_matmul.glsl for an operand."""
        return {
            f"{name}_MATRICES": self.sizes,
            f"{name}_STEPS": self.steps,
            f"{name}_FIRST": self.first,
            f"{name}_LENGTH": self.length,
            f"{name}_JUMPS": self.jumps,
            f"{name}_IN_LINE": int(self.in_line),
            f"{name}_PIXELS": self.x.pixels,
        }


_BY_MATRIX = {"SIZES", *(f"{n}_{what}" for n in "AB" for what in ("STRIDES", "MATRICES", "STEPS"))}
"""Defines with a number for each dimension of the matrices."""


def _scales(call: Call) -> bool:
    is_linear = call.function == MUL or (call.function == DIV and not call.operand_first)
    return is_linear and call.number is not None


@rule(Is(MatrixProduct))
def _where_they_lie(listing: Listing, product: MatrixProduct) -> Iterator[Edit]:
    n = {name: value for name, value in product.defines.items() if isinstance(value, int)}
    for name, operand in zip("AB", product.reads, strict=True):
        copy = listing.maker(operand, product)
        is_found = f"{name}_MATRICES" in product.defines
        if is_found or not isinstance(copy, Copy) or not listing.is_read_once(operand):
            continue
        if not (copy.is_view and operand.elements and all(map(_scales, copy.epilogue))):
            continue
        rows = n["ROWS" if name == "A" else "B_ROWS"]
        groups = _grouped(copy.layout, (operand.pixels // rows, rows, operand.channels))
        found = groups and _Matrices.of(copy, *groups)
        defines = dict(product.defines)
        if groups and not found and name == "B":
            matrices, columns, shared = groups
            found = _Matrices.of(copy, matrices, shared, columns)
            defines |= {"B_ADJOINT": 1 - n["B_ADJOINT"], "B_ROWS": operand.channels}
        if not found:
            continue
        dims = max(len(found.sizes), n["DIMS"])
        defines |= {"DIMS": dims, **found.defines(name)}
        for key in _BY_MATRIX & defines.keys():
            numbers = integers(defines[key])
            defines[key] = (1,) * (dims - len(numbers)) + numbers  # that coordinate is 0
        reads = tuple(found.x if read == operand else read for read in product.reads)
        epilogue = copy.epilogue + product.epilogue
        yield Edit(replace(product, reads=reads, defines=defines, epilogue=epilogue), product, copy)


def read_in_place(listing: Listing) -> None:
    """Read the matrices of a product where copies would take them from."""
    listing.rewrite(_where_they_lie, _where_they_lie)
