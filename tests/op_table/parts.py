"""Parts of a tensor."""

import itertools
import random
from collections.abc import Iterator

from tests.op_table.base import Attributes, Cases, Op, each, random_dims
from tests.op_table.typed import TYPES, X, data, ints, moved, random_type, scalar, with_types
from tests.support.sketch import Dims, Sketch


def slice_(
    s: Sketch,
    op: str,
    x: Dims,
    begin: Dims,
    size: Dims,
    wide: bool = False,
    runtime: bool = False,
    dtype: str = "float32",
) -> list[int]:
    """``runtime``: where it begins is an input."""
    start = s.feed(values=begin, dtype="int32") if runtime else ints(s, *begin, wide=wide)
    inputs = [data(s, x, dtype), start, ints(s, *size, wide=wide)]
    (y,) = moved(s, op, inputs, dtype)
    if runtime and -1 not in size:  # LiteRT infers no shape then
        s.set_shape(y, size)
    return [y]


def slice_cases() -> Iterator[Attributes]:
    yield dict(x=(3, 4, 7), begin=(1, 0, 2), size=(2, -1, 3))
    yield dict(x=(2, 3), begin=(1, 0), size=(1, -1), runtime=True)
    for rank in range(1, 6):
        yield dict(x=X[:rank], begin=(0,) * rank, size=(-1,) * rank)
        yield dict(x=X[:rank], begin=(1,) * rank, size=(1,) * rank)
        for axis in range(rank):
            begin = tuple(int(i == axis) for i in range(rank))
            yield dict(x=X[:rank], begin=begin, size=(-1,) * rank)
    for begin, size in ((4, 8), (0, 4), (8, -1), (3, 9), (0, 6)):
        yield dict(x=(2, 3, 16), begin=(0, 1, begin), size=(2, 2, size))
    yield dict(x=(2, 3, 5), begin=(1, 2, 0), size=(1, 1, 5), wide=True)
    yield dict(x=(2, 3), begin=(0, 3), size=(2, 0))
    yield dict(x=(2, 3), begin=(2, 0), size=(-1, -1))
    yield dict(x=(0, 3), begin=(0, 1), size=(0, 2))
    yield dict(x=(2,) * 6, begin=(1, 0) * 3, size=(1, 2) * 3)
    for rank in range(1, 6):
        at, size = tuple(n - 2 for n in X[:rank]), (1, 2, 2, 1, 2)[:rank]
        yield dict(x=X[:rank], begin=at, size=size, runtime=True)
        yield dict(x=X[:rank], begin=(0,) * rank, size=X[:rank], runtime=True)
    yield dict(x=(2, 3, 16), begin=(1, 2, 4), size=(1, 1, 8), runtime=True)
    yield dict(x=(2, 3), begin=(2, 1), size=(0, 2), runtime=True)
    yield from each(dict(x=(3, 4, 7), begin=(1, 2, 3), size=(2, 1, 3), runtime=True), dtype=TYPES)


def dynamic_update_slice(
    s: Sketch,
    op: str,
    x: Dims,
    update: Dims,
    at: Dims,
    constant: tuple[int, ...] = (),
    wide: bool = False,
    dtype: str = "float32",
) -> list[int]:
    """``constant``: which inputs are constants."""
    parts = [data(s, shape, dtype, i in constant) for i, shape in enumerate((x, update))]
    starts = ints(s, *at, wide=wide) if 2 in constant else s.feed(values=at, dtype="int32")
    return moved(s, op, [*parts, starts], dtype)


def dynamic_update_slice_cases() -> Iterator[Attributes]:
    yield dict(x=(3, 4, 7), update=(2, 1, 3), at=(1, 2, 3))
    for rank in range(1, 6):
        update = (1, 2, 3, 1, 2)[:rank]
        for at in ((0,) * rank, (1,) * rank, (-9,) * rank, (99,) * rank, (2, -2, 9, 2, 1)[:rank]):
            yield dict(x=X[:rank], update=update, at=at)
        yield dict(x=X[:rank], update=X[:rank], at=(1,) * rank)
    for constant in ((0,), (1,), (2,), (0, 1), (1, 2)):
        yield dict(x=(3, 4, 8), update=(2, 3, 4), at=(1, 1, 4), constant=constant)
    for at in ((1, 2), (-(2**31), 2**31 - 1)):
        yield dict(x=(5, 6), update=(2, 3), at=at)
        yield dict(x=(5, 6), update=(2, 3), at=at, constant=(2,), wide=True)
    yield dict(x=(5, 6), update=(0, 3), at=(1, 1))
    yield dict(x=(3, 7, 18), update=(2, 3, 7), at=(1, 2, 9))
    yield dict(x=(5, 6), update=(2, 0), at=(1, 1))
    yield dict(x=(1, 32, 2, 16), update=(1, 1, 2, 16), at=(0, 7, 0, 0))


def dynamic_update_slice_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    update = tuple(rng.randint(1, n) for n in x)
    at = tuple(rng.randint(-2, n + 1) for n in x)
    constant = tuple(i for i in range(3) if rng.random() < 0.2)
    if len(constant) == 3:
        constant = ()
    return dict(x=x, update=update, at=at, constant=constant, dtype=random_type(rng))


def slice_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 9)
    begin = tuple(rng.randrange(size) for size in x)
    size = tuple(rng.choice((-1, rng.randint(1, n - at))) for n, at in zip(x, begin, strict=True))
    return dict(x=x, begin=begin, size=size, wide=rng.random() < 0.2, dtype=random_type(rng))


def strided_slice(
    s: Sketch,
    op: str,
    x: Dims,
    begin: Dims,
    end: Dims,
    step: Dims | None = None,
    offset: bool = False,
    runtime: str = "",
    dtype: str = "float32",
    **masks: int,
) -> list[int]:
    """``masks``: begin, end, ellipsis, new_axis and shrink_axis, each with ``_mask``.

    ``runtime``: which of begin and end are inputs, by their first letters.
    """
    inputs = [data(s, x, dtype)]
    for name, values in zip("bes", (begin, end, step or (1,) * len(begin)), strict=True):
        is_input = name in runtime
        inputs.append(s.feed(values=values, dtype="int32") if is_input else ints(s, *values))
    version = 8 if offset else 6
    return moved(s, op, inputs, dtype, offset=offset, version=version, **masks)


def strided_slice_cases() -> Iterator[Attributes]:
    yield dict(x=(5, 6, 7), begin=(1, 5, 0), end=(4, 0, 7), step=(1, -2, 3))
    yield from each(dict(x=(5, 3), begin=(1,), end=(3,)), runtime=("be", "b", "e"))
    yield dict(x=(5, 3), begin=(1,), end=(3,), begin_mask=1, runtime="be")
    for rank in range(1, 6):
        yield dict(x=X[:rank], begin=(0,) * rank, end=X[:rank])
        yield dict(x=X[:rank], begin=(-1,) * rank, end=(-9,) * rank, step=(-1,) * rank)
        yield dict(x=X[:rank], begin=(0,) * rank, end=X[:rank], step=(2,) * rank)
        yield dict(x=X[:rank], begin=(1,), end=(2,))
        for axis in range(rank):
            bit = 1 << axis
            yield dict(x=X[:rank], begin=(1,) * rank, end=(2,) * rank, begin_mask=bit)
            yield dict(x=X[:rank], begin=(1,) * rank, end=(2,) * rank, end_mask=bit)
            yield dict(x=X[:rank], begin=(1,) * rank, end=(2,) * rank, shrink_axis_mask=bit)
            yield dict(x=X[:rank], begin=(1,) * rank, end=(2,) * rank, ellipsis_mask=bit)
            if rank < 5:
                spec = dict(begin=(0,) * (rank + 1), end=(2,) * (rank + 1))
                yield dict(x=X[:rank], **spec, new_axis_mask=bit)
    for begin, end, step in (
        (-3, -1, 1), (-1, -4, -1), (-20, 20, 1), (20, -20, -1), (2, 2, 1), (3, 1, 1), (1, 3, -1),
        (0, 7, 4), (6, 0, -4), (-7, 7, 3), (5, 5, -1), (7, 0, -1), (0, 0, 1),
    ):  # fmt: skip
        for begin_mask, end_mask in itertools.product((0, 1), repeat=2):
            masks = dict(begin_mask=begin_mask, end_mask=end_mask)
            yield dict(x=(7, 3), begin=(begin,), end=(end,), step=(step,), **masks)
    for begin in (0, 6, -1, -7):
        yield dict(x=(7, 3), begin=(begin,), end=(0,), shrink_axis_mask=1)
        yield dict(x=(3, 7), begin=(0, begin), end=(3, 0), shrink_axis_mask=2)
    yield dict(x=(7, 3), begin=(4,), end=(5,), shrink_axis_mask=1, begin_mask=1)
    yield dict(x=(2, 3), begin=(1, 2), end=(2, 3), shrink_axis_mask=3)
    yield dict(x=(4, 3, 5), begin=(0, 1, 2), end=(0, 2, 3), ellipsis_mask=1, shrink_axis_mask=4)
    yield dict(x=X, begin=(1, 0, 1), end=(2, 0, 3), ellipsis_mask=2)
    yield dict(x=X, begin=(1, 0, 1), end=(2, 0, 3), ellipsis_mask=2, shrink_axis_mask=5)
    yield dict(x=X[:3], begin=(0, 0, 1), end=(0, 0, 3), ellipsis_mask=2, new_axis_mask=1)
    yield dict(x=X[:3], begin=(1, 0, 0), end=(2, 0, 0), ellipsis_mask=2, new_axis_mask=4)
    yield dict(x=X[:3], begin=(0, 0, 1), end=(0, 0, 3), ellipsis_mask=2, new_axis_mask=3)
    yield dict(x=X[:2], begin=(0, 1, 0), end=(0, 2, 0), new_axis_mask=5, shrink_axis_mask=2)
    for begin, end, step in ((1, 2, 1), (-3, 2, 1), (0, 7, 2), (5, -3, -1), (2, -2, -1)):
        yield dict(x=(7, 3), begin=(begin, 1), end=(end, 2), step=(step, 1), offset=True)
        yield dict(x=(7,), begin=(begin,), end=(end,), step=(step,), offset=True)
    yield dict(x=(7, 3), begin=(3, 1), end=(2, 1), begin_mask=1, shrink_axis_mask=2, offset=True)
    for begin, end, step in ((4, 12, 1), (0, 8, 1), (2, 10, 1), (0, 16, 4), (15, -17, -1)):
        yield dict(x=(2, 3, 16), begin=(0, 0, begin), end=(2, 3, end), step=(1, 1, step))
    yield dict(x=(1, 9, 10, 8), begin=(0, 0, 1, 0), end=(1, 9, 10, 8), step=(1, 2, 2, 1))
    yield dict(x=(0, 3), begin=(0, 1), end=(9, 3))
    yield dict(x=(3, 4), begin=(0, 0), end=(3, 0))
    yield dict(x=(2,) * 6, begin=(1, 0) * 3, end=(2,) * 6)
    yield from strided_slice_from_cases()


def strided_slice_from_cases() -> Iterator[Attributes]:
    """A run decides where it begins."""
    whole = dict(begin_mask=7, end_mask=7, runtime="be")
    for at in (0, 3, -1, -4):
        yield dict(x=(4,), begin=(at,), end=(9,), shrink_axis_mask=1, runtime="be")
    for x in ((4, 5, 6), (4, 5, 8)):
        for axis in range(3):
            bit = 1 << axis
            masks = dict(whole, begin_mask=7 ^ bit, end_mask=7 ^ bit, shrink_axis_mask=bit)
            yield dict(x=x, begin=(2, -1, 3), end=(3, 0, 4), **masks)
            yield dict(x=x, begin=(2, -1, 3), end=(3, 0, 4), **dict(masks, runtime="b"))
            yield dict(x=x, begin=(2, -1, 3), end=(3, 0, 4), **dict(masks, runtime="e"))
    yield dict(x=(4, 5, 6), begin=(2, 1, 3), end=(0, 0, 0), shrink_axis_mask=7, runtime="be")
    for step in ((1, -1, 1), (1, 2, 3), (1, 3, -2)):
        masks = dict(whole, begin_mask=6, end_mask=6, shrink_axis_mask=1)
        yield dict(x=(4, 5, 6), begin=(1, 0, 0), end=(0, 0, 0), step=step, **masks)
    for ellipsis, shrunk in ((1, 2), (2, 1), (2, 5)):
        masks = dict(ellipsis_mask=ellipsis, shrink_axis_mask=shrunk, begin_mask=7 ^ shrunk)
        begin = (1, 2, 2)[: ellipsis.bit_length() + 1]
        yield dict(x=X, begin=begin, end=begin, **masks, end_mask=7 ^ shrunk, runtime="be")
    for new, shrunk in ((1, 2), (2, 1), (2, 4), (4, 1)):
        masks = dict(new_axis_mask=new, shrink_axis_mask=shrunk, begin_mask=7, end_mask=7)
        masks["begin_mask"] ^= shrunk
        yield dict(x=(4, 5), begin=(1, 2, 3), end=(0, 0, 0), **masks, runtime="be")
        yield dict(x=(4, 5, 8), begin=(1, 2, 3), end=(0, 0, 0), **masks, runtime="be")
    for begin, size, step in ((1, 2, 1), (-3, 2, 1), (0, 7, 2), (7, 0, 1)):
        spec = dict(end=(size, 2), step=(step, 1), offset=True, runtime="b")
        yield dict(x=(7, 3), begin=(begin, 1), **spec)
        yield dict(x=(7, 8), begin=(begin, 0), **spec)
    for dtype in TYPES[1:]:
        masks = dict(whole, begin_mask=5, end_mask=5, shrink_axis_mask=2)
        yield dict(x=(4, 5, 6), begin=(0, 3, 0), end=(0, 0, 0), dtype=dtype, **masks)


def strided_slice_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 4), 8)
    new_axis = rng.random() < 0.3
    count = rng.randint(1, len(x)) + new_axis
    special = 1 << rng.randrange(count)  # the entry that adds an axis or removes one
    masks = {"new_axis_mask": special} if new_axis else {}
    if rng.random() < 0.4:
        masks["ellipsis_mask"] = 1 << rng.randrange(count) & ~special
    begin = [rng.randint(-9, 9) for _ in range(count)]
    step = [rng.choice((1, 1, 2, -1, -2, 3)) for _ in range(count)]
    if not new_axis and rng.random() < 0.4:
        masks["shrink_axis_mask"] = special
        begin[special.bit_length() - 1], step[special.bit_length() - 1] = 0, 1
    return dict(
        x=x,
        begin=tuple(begin),
        end=tuple(rng.randint(-9, 9) for _ in range(count)),
        step=tuple(step),
        begin_mask=rng.randrange(1 << count),
        end_mask=rng.randrange(1 << count),
        dtype=random_type(rng),
        **masks,
    )


def split(s: Sketch, op: str, x: Dims, axis: int, count: int, dtype: str = "float32") -> list[int]:
    inputs = [scalar(s, axis), data(s, x, dtype)]
    return moved(s, op, inputs, dtype, count, num_splits=count)


def split_cases() -> Iterator[Attributes]:
    yield dict(x=(2, 3, 12), axis=2, count=4)
    for rank in range(1, 6):
        for axis in range(-rank, rank):
            yield from each(dict(x=X[:rank], axis=axis), count=(X[axis % rank], 1))
    yield from each(dict(x=(1, 5, 24), axis=-1), count=(2, 3, 8))
    for dtype in ("int32", "int8", "uint8"):  # LiteRT splits no bool
        yield dict(x=(2, 6, 3), axis=1, count=3, dtype=dtype)
        yield dict(x=(2, 6), axis=1, count=2, dtype=dtype)
    yield dict(x=(0, 4), axis=1, count=2)
    yield dict(x=(3, 0), axis=1, count=2)


def split_random(rng: random.Random) -> Attributes:
    x = list(random_dims(rng, rng.randint(1, 5), 5))
    axis, count = rng.randrange(len(x)), rng.randint(1, 4)
    x[axis] *= count
    axis -= rng.choice((0, len(x)))
    return dict(x=tuple(x), axis=axis, count=count, dtype=random_type(rng))


def split_v(
    s: Sketch, op: str, x: Dims, axis: int, sizes: Dims, dtype: str = "float32"
) -> list[int]:
    inputs = [data(s, x, dtype), ints(s, *sizes), scalar(s, axis)]
    return moved(s, op, inputs, dtype, len(sizes), num_splits=len(sizes))


def split_v_cases() -> Iterator[Attributes]:
    yield dict(x=(2, 3, 12), axis=2, sizes=(5, 3, 4))
    for rank in range(1, 6):
        for axis in range(-rank, rank):
            yield dict(x=X[:rank], axis=axis, sizes=(1, -1))
    for sizes in ((4, 8, 12), (-1, 8), (23, -1), (24,), (-1,), (0, 24), (24, -1)):
        yield dict(x=(1, 5, 24), axis=-1, sizes=sizes)
    yield from each(dict(x=(2, 6), axis=1, sizes=(5, 1)), dtype=("int32", "int8", "uint8"))


def split_v_random(rng: random.Random) -> Attributes:
    x = list(random_dims(rng, rng.randint(1, 5), 5))
    axis = rng.randrange(len(x))
    sizes = [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
    x[axis] = sum(sizes)
    if rng.random() < 0.3:
        sizes[rng.randrange(len(sizes))] = -1
    axis -= rng.choice((0, len(x)))
    return dict(x=tuple(x), axis=axis, sizes=tuple(sizes), dtype=random_type(rng))


def unpack(s: Sketch, op: str, x: Dims, axis: int, dtype: str = "float32") -> list[int]:
    count = x[axis]
    return moved(s, op, [data(s, x, dtype)], dtype, count, num=count, axis=axis)


def unpack_cases() -> Iterator[Attributes]:
    yield dict(x=(2, 3, 5), axis=1)
    for rank in range(1, 6):
        yield from each(dict(x=X[:rank]), axis=range(-rank, rank))
    yield dict(x=(4, 3, 8), axis=1)


def unpack_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    return dict(x=x, axis=rng.randrange(-len(x), len(x)), dtype=random_type(rng))


OPS: dict[str, Op] = {
    "SLICE": Op(slice_, with_types(slice_cases), slice_random),
    "DYNAMIC_UPDATE_SLICE": Op(
        dynamic_update_slice, with_types(dynamic_update_slice_cases), dynamic_update_slice_random
    ),
    "STRIDED_SLICE": Op(strided_slice, with_types(strided_slice_cases), strided_slice_random),
    "SPLIT": Op(split, split_cases, split_random),
    "SPLIT_V": Op(split_v, split_v_cases, split_v_random),
    "UNPACK": Op(unpack, with_types(unpack_cases, TYPES[:-1]), unpack_random),
}

# What is known only at run time, slices from outside the tensor, and an ellipsis that stands for
# no axis, where LiteRT takes it for one.
LEFT_TO_LITERT: Cases = (
    (
        "DYNAMIC_UPDATE_SLICE",
        dict(x=(2, 3), update=(1, 1), at=(1 << 31, 0), constant=(2,), wide=True),
    ),
    ("STRIDED_SLICE", dict(x=(2, 3), begin=(5,), end=(6,), shrink_axis_mask=1)),
    ("STRIDED_SLICE", dict(x=(3, 3), begin=(1, 0), end=(3, 3), offset=True)),
    ("STRIDED_SLICE", dict(x=(3, 8), begin=(0, 1, 2), end=(0, 2, 3), ellipsis_mask=1)),
)

LITERT_REFUSES: Cases = (
    ("SLICE", dict(x=(2, 3), begin=(0, 1), size=(1, 5))),
    ("DYNAMIC_UPDATE_SLICE", dict(x=(2, 3), update=(3, 3), at=(0, 0))),
    ("DYNAMIC_UPDATE_SLICE", dict(x=(2, 3), update=(1, 3), at=(0,))),
    ("SLICE", dict(x=(2, 3), begin=(0, -1), size=(1, 1))),
    ("STRIDED_SLICE", dict(x=(2, 3), begin=(0,), end=(2,), step=(0,))),
    ("SPLIT", dict(x=(2, 3), axis=1, count=2)),
    ("SPLIT_V", dict(x=(2, 3), axis=1, sizes=(1, 1))),
    ("SPLIT_V", dict(x=(2, 3), axis=1, sizes=(1, 2), dtype="bool")),
)
