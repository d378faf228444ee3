"""Ops of StableHLO that move elements."""

import itertools
import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import Attributes, Cases, Op, each, random_dims
from tests.op_table.typed import TYPES, data, meaning, random_values
from tests.support.sketch import Dims, Sketch
from tests.support.tflite_builder import ModelBuilder


def gather(
    s: Sketch,
    op: str,
    x: Dims,
    at: Dims,
    sizes: Dims,
    axes: Dims,
    offsets: Dims,
    dropped: Dims = (),
    along: int | None = None,
    spread: int = 0,
    constant: bool = False,
    wide: bool = False,
    dtype: str = "float32",
) -> int:
    """``at``: the shape of the indices; ``offsets``: the output's dimensions inside slices.

    ``spread``: how far indices may lie outside; ``along``: the dimension of index vectors.
    """
    along = len(at) - 1 if along is None else along
    high = max(x) + spread
    kind = "int64" if wide else "int32"
    values = np.asarray(s.rng.integers(-spread, high, at), kind)
    indices = s.constant(values) if constant else s.feed(values=values, dtype=kind)
    rank = len(at) - (along < len(at)) + len(offsets)
    options = dict(
        offset_dims=offsets, collapsed_slice_dims=dropped, start_index_map=axes,
        index_vector_dim=along, slice_sizes=sizes,
    )  # fmt: skip
    # LiteRT takes its rank from the file.
    result = s.tensor((1,) * rank, dtype, quantization=meaning(dtype))
    return s.op(op, [data(s, x, dtype), indices], [result], **options)


def gather_cases() -> Iterator[Attributes]:
    rows = dict(x=(5, 7), sizes=(1, 7), axes=(0,), dropped=(0,))
    for constant in (False, True):
        yield dict(rows, at=(4, 1), offsets=(1,), constant=constant)
    yield dict(rows, at=(4, 1), offsets=(0,))
    yield dict(rows, at=(4,), offsets=(1,), along=1)
    yield dict(rows, at=(2, 3, 1), offsets=(2,), wide=True)
    yield dict(rows, at=(2, 3, 1), offsets=(1,))
    yield dict(x=(5, 8), sizes=(1, 8), axes=(0,), dropped=(0,), at=(4, 1), offsets=(1,), spread=3)
    yield dict(x=(5, 8), sizes=(2, 5), axes=(0,), at=(4, 1), offsets=(1, 2), spread=3)
    yield dict(x=(5, 8), sizes=(2, 3), axes=(1,), at=(4, 1), offsets=(0, 2), spread=3)
    yield dict(x=(5, 8), sizes=(2, 3), axes=(1, 0), at=(4, 2), offsets=(0, 1), spread=2)
    cube = dict(x=(4, 5, 6), sizes=(1, 2, 3), dropped=(0,))
    for axes in itertools.permutations(range(3)):
        yield dict(cube, at=(7, 3), axes=axes, offsets=(1, 2), spread=1)
    for offsets in ((0, 1), (0, 2), (1, 3), (2, 3)):
        yield dict(cube, at=(2, 3, 2), axes=(2, 0), offsets=offsets)
    yield dict(x=(4, 5), sizes=(1, 1), dropped=(0, 1), at=(6, 2), axes=(0, 1), offsets=())
    yield dict(x=(9,), sizes=(3,), at=(1,), axes=(0,), offsets=(0,))
    for dtype in TYPES[1:]:
        yield dict(rows, at=(4, 1), offsets=(1,), dtype=dtype)


def gather_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 4), 6)
    axes = tuple(rng.sample(range(len(x)), rng.randint(1, len(x))))
    dropped = tuple(axis for axis in range(len(x)) if rng.random() < 0.4)
    sizes = tuple(1 if a in dropped else rng.randint(1, n) for a, n in enumerate(x))
    batch = random_dims(rng, rng.randint(0, 2), 4)
    kept = len(x) - len(dropped)
    offsets = tuple(sorted(rng.sample(range(kept + len(batch)), kept)))
    return dict(
        x=x, at=(*batch, len(axes)), sizes=sizes, axes=axes, offsets=offsets, dropped=dropped,
        spread=rng.randint(0, 3),
    )  # fmt: skip


def pad(
    s: Sketch, op: str, x: Dims, low: Dims, high: Dims, inside: Dims, dtype: str = "float32"
) -> int:
    # A scale would need a pad value that is quantized alike.
    source = s.feed(values=random_values(s, x, dtype), dtype=dtype)
    fill = s.constant(np.asarray(random_values(s, (1,), dtype)[0], dtype))
    options = dict(edge_padding_low=low, edge_padding_high=high, interior_padding=inside)
    return s.op(op, [source, fill], [s.tensor(None, dtype)], **options)


def pad_cases() -> Iterator[Attributes]:
    for low, high, inside in itertools.product((-3, -1, 0, 2), (-2, 0, 3), (0, 1, 2)):
        yield dict(x=(6,), low=(low,), high=(high,), inside=(inside,))
    for rank in range(1, 5):
        shape = (3, 2, 5, 8)[:rank]
        for inside in (0, 1):
            yield dict(x=shape, low=(1,) * rank, high=(2,) * rank, inside=(inside,) * rank)
            yield dict(x=shape, low=(0,) * rank, high=(0,) * rank, inside=(inside,) * rank)
    yield dict(x=(4, 3, 5), low=(-2, 1, 0), high=(3, -1, -4), inside=(1, 0, 2))
    yield from each(dict(x=(4, 3), low=(1, -1), high=(0, 2), inside=(0, 1)), dtype=TYPES[1:])


def pad_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 4), 6)
    low, high = (tuple(rng.randint(-1, 3) for _ in x) for _ in range(2))
    return dict(x=x, low=low, high=high, inside=tuple(rng.randint(0, 2) for _ in x))


def scatter(
    s: Sketch,
    op: str,
    x: Dims,
    at: Dims,
    sizes: Dims,
    axes: Dims,
    dropped: Dims = (),
    along: int | None = None,
    by: str = "",
    spread: int = 0,
    first: bool = False,
    special: bool = False,
    constant: bool = False,
    wide: bool = False,
    dtype: str = "float32",
) -> int:
    """``sizes``: of windows, in all dimensions of ``x``; ``by``: the op that combines.

    ``first``: windows lie in the first dimensions of the updates.
    """

    def region(inner: ModelBuilder) -> list[int]:
        both = [inner.input((), dtype), inner.input((), dtype)]
        return [inner.op(f"STABLEHLO_{by}", both, [()])] if by else both[1:]

    along = len(at) - 1 if along is None else along
    kind = "int64" if wide else "int32"
    values = np.asarray(s.rng.integers(-spread, max(x) + spread, at), kind)
    batch = tuple(n for dim, n in enumerate(at) if dim != along)
    window = tuple(n for axis, n in enumerate(sizes) if axis not in dropped)
    update_shape = (*window, *batch) if first else (*batch, *window)
    place = 0 if first else len(batch)
    arrays = [random_values(s, shape, dtype) for shape in (x, update_shape)]
    if special:
        for array in arrays:
            array.ravel()[::3], array.ravel()[1::4] = np.nan, np.inf
    source = s.feed(values=arrays[0], dtype=dtype)
    indices = s.constant(values) if constant else s.feed(values=values, dtype=kind)
    return s.op(
        op, [source, indices, s.feed(values=arrays[1], dtype=dtype)], [s.tensor(None, dtype)],
        update_window_dims=tuple(range(place, place + len(window))), inserted_window_dims=dropped,
        scatter_dims_to_operand_dims=axes, index_vector_dim=along,
        update_computation_subgraph_index=s.subgraph(region),
    )  # fmt: skip


def scatter_cases() -> Iterator[Attributes]:
    rows = dict(x=(5, 7), sizes=(1, 7), axes=(0,), dropped=(0,))
    for by in ("", "ADD", "MULTIPLY", "MAXIMUM", "MINIMUM"):
        yield dict(rows, at=(4, 1), by=by)
        yield dict(rows, at=(9, 1), by=by, dtype="int32", spread=2)
        yield dict(x=(5, 8), sizes=(2, 3), axes=(1, 0), at=(6, 2), by=by, spread=3)
        yield dict(rows, at=(20, 1), by=by, dtype="int8")
    for by in ("MAXIMUM", "MINIMUM"):
        yield dict(rows, at=(9, 1), by=by, special=True)
    for constant in (False, True):
        yield dict(rows, at=(2, 3, 1), constant=constant, wide=True)
    cube = dict(x=(4, 5, 6), sizes=(1, 2, 3), dropped=(0,), by="ADD")
    for axes in itertools.permutations(range(3)):
        yield dict(cube, at=(7, 3), axes=axes, spread=1)
    yield dict(cube, at=(2, 3, 2), axes=(2, 0))
    yield dict(x=(4, 5), sizes=(1, 1), dropped=(0, 1), at=(6, 2), axes=(0, 1), by="ADD")
    yield dict(x=(1, 9, 2, 8), sizes=(1, 1, 2, 8), at=(1,), axes=(1,), dropped=(1,))
    yield dict(x=(9,), sizes=(3,), at=(1,), axes=(0,))
    yield dict(rows, at=(4, 1), first=True)
    yield dict(cube, at=(2, 3, 2), axes=(2, 0), first=True)
    for dtype in ("uint8", "int16", "bool"):
        yield dict(rows, at=(4, 1), dtype=dtype)


def scatter_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 4), 6)
    axes = tuple(rng.sample(range(len(x)), rng.randint(1, len(x))))
    dropped = tuple(axis for axis in range(len(x)) if rng.random() < 0.4)
    sizes = tuple(1 if a in dropped else rng.randint(1, n) for a, n in enumerate(x))
    at = (*random_dims(rng, rng.randint(0, 2), 4), len(axes))
    by = rng.choice(("", "ADD", "MAXIMUM"))
    return dict(
        x=x, at=at, sizes=sizes, axes=axes, dropped=dropped, by=by, spread=rng.randint(0, 3),
        first=rng.random() < 0.3,
    )  # fmt: skip


def reduce_window(
    s: Sketch,
    op: str,
    x: Dims,
    window: Dims,
    strides: Dims = (),
    base: Dims = (),
    dilations: Dims = (),
    padding: Dims = (),
    by: str = "ADD",
    first: float | None = None,
    special: bool = False,
    dtype: str = "float32",
) -> int:
    """``padding``: before and after each dimension; ``first``: what a window begins with."""

    def region(inner: ModelBuilder) -> list[int]:
        both = [inner.input((), dtype), inner.input((), dtype)]
        return [inner.op(by, both, [()])]

    ones = (1,) * len(x)
    values = random_values(s, x, dtype)
    if special:
        values.ravel()[::3], values.ravel()[1::4] = np.nan, np.inf
    neutral = {"ADD": 0, "MUL": 1, "LOGICAL_AND": 1, "LOGICAL_OR": 0}
    start = np.asarray(neutral.get(by, 3) if first is None else first).astype(dtype)
    return s.op(
        op, [s.feed(values=values, dtype=dtype), s.constant(start)], [s.tensor(None, dtype)],
        window_dimensions=window, window_strides=strides or ones, base_dilations=base or ones,
        window_dilations=dilations or ones, padding=padding or (0,) * 2 * len(x),
        body_subgraph_index=s.subgraph(region),
    )  # fmt: skip


def reduce_window_cases() -> Iterator[Attributes]:
    image = dict(x=(2, 9, 8, 6), window=(1, 3, 2, 1))
    for by in ("ADD", "MUL", "MAXIMUM", "MINIMUM"):
        yield dict(image, by=by)
        yield dict(image, by=by, strides=(1, 2, 3, 1), padding=(0, 0, 1, 2, 0, 3, 0, 0), first=2)
        yield dict(image, by=by, base=(1, 2, 3, 1), dilations=(1, 3, 2, 1), padding=(1,) * 8)
        yield dict(x=(3, 7), window=(2, 3), by=by, strides=(1, 2), padding=(1, 1, 2, -1))
        yield dict(x=(4, 5), window=(2, 2), by=by, dtype="int32", first=-7)
    for by in ("MAXIMUM", "MINIMUM"):
        yield dict(image, by=by, special=True, first=0)
    yield dict(x=(1, 5, 6, 4, 3), window=(1, 2, 2, 2, 1), strides=(1, 2, 2, 2, 1))
    yield dict(x=(1, 8, 9, 3), window=(1, 8, 1, 1), padding=(0, 0, 7, 0, 0, 0, 0, 0), by="MUL")
    yield dict(x=(1, 3, 4, 2, 3, 5), window=(1, 1, 2, 2, 3, 1), padding=(0,) * 10 + (0, 1))
    yield dict(x=(17,), window=(4,), strides=(3,), padding=(-1, 2))
    yield dict(x=(3, 2), window=(4, 1))
    yield dict(x=(5, 6), window=(3, 2), padding=(-2, 0, 0, -3))
    yield from each(dict(x=(4, 3), window=(2, 1)), dtype=("int8", "uint8", "int16"))
    for by in ("LOGICAL_AND", "LOGICAL_OR"):
        yield dict(x=(5, 6), window=(3, 2), by=by, dtype="bool")


def reduce_window_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    window, strides, base, dilations = (
        tuple(rng.randint(1, most) for _ in x) for most in (3, 3, 2, 2)
    )
    return dict(
        x=x, window=window, strides=strides, base=base, dilations=dilations,
        padding=tuple(rng.randint(-1, 3) for _ in (*x, *x)), by=rng.choice(("ADD", "MAXIMUM")),
        first=rng.randint(-2, 2),
    )  # fmt: skip


OPS: dict[str, Op] = {
    "STABLEHLO_SCATTER": Op(scatter, scatter_cases, scatter_random),
    "STABLEHLO_GATHER": Op(gather, gather_cases, gather_random),
    "STABLEHLO_PAD": Op(pad, pad_cases, pad_random),
    "STABLEHLO_REDUCE_WINDOW": Op(reduce_window, reduce_window_cases, reduce_window_random),
}

LEFT_TO_LITERT: Cases = (
    (
        "STABLEHLO_GATHER",
        dict(x=(5, 7), at=(1, 4), sizes=(1, 7), axes=(0,), dropped=(0,), offsets=(1,), along=0),
    ),
    (
        "STABLEHLO_SCATTER",
        dict(x=(5, 7), at=(1, 4), sizes=(1, 7), axes=(0,), dropped=(0,), along=0),
    ),
)
"""Index vectors that do not lie along the last dimension."""
