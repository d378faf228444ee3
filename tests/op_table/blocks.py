"""Blocks of pixels to channels, to batches and back, and images of another size."""

import itertools
import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import Attributes, Cases, Op, each, random_dims, random_image
from tests.op_table.typed import TYPES, data, ints, moved, random_type, with_types
from tests.support.sketch import Dims, Sketch


def depth_to_space(s: Sketch, op: str, x: Dims, block: int) -> int:
    return s.op(op, [s.feed(x)], block_size=block)


def depth_to_space_cases() -> Iterator[Attributes]:
    for block, depth in itertools.product((1, 2, 3, 4), (1, 3, 4, 5)):
        yield dict(x=(1, 3, 4, depth * block * block), block=block)
    yield dict(x=(3, 5, 2, 12), block=2)
    yield dict(x=(1, 1, 1, 16), block=4)
    yield dict(x=(0, 2, 2, 8), block=2)


def depth_to_space_random(rng: random.Random) -> Attributes:
    block = rng.randint(2, 4)
    batch, height, width, depth = random_image(rng, channels=9)
    return dict(x=(batch, height, width, depth * block * block), block=block)


def block_op(s: Sketch, op: str, x: Dims, block: int, dtype: str = "float32") -> list[int]:
    return moved(s, op, [data(s, x, dtype)], dtype, block_size=block)


def typed_depth_to_space_cases() -> Iterator[Attributes]:
    for dtype in ("int32", "int8", "uint8"):
        yield dict(x=(2, 3, 4, 12), block=2, dtype=dtype)
        yield dict(x=(1, 3, 2, 16), block=2, dtype=dtype)


def typed_depth_to_space_random(rng: random.Random) -> Attributes:
    block, (batch, height, width, depth) = rng.randint(2, 4), random_image(rng, 9, 9)
    x = (batch, height, width, depth * block * block)
    return dict(x=x, block=block, dtype=rng.choice(("int32", "int8", "uint8")))


def space_to_depth_cases() -> Iterator[Attributes]:
    for block, depth in itertools.product((1, 2, 3, 4), (1, 2, 3, 4, 5)):
        yield dict(x=(1, 3 * block, 2 * block, depth), block=block)
    yield dict(x=(3, 4, 6, 7), block=2)
    yield dict(x=(0, 2, 2, 3), block=2)
    yield from each(dict(x=(2, 4, 6, 3), block=2), dtype=("int32", "int8", "uint8"))


def space_to_depth_random(rng: random.Random) -> Attributes:
    block, (batch, height, width, depth) = rng.randint(2, 4), random_image(rng, 5, 9)
    x = (batch, height * block, width * block, depth)
    return dict(x=x, block=block, dtype=random_type(rng))


def batch_op(
    s: Sketch, op: str, x: Dims, block: Dims, borders: tuple[Dims, ...] = (), dtype: str = "float32"
) -> list[int]:
    """``borders``: the paddings or crops."""
    around = np.array(borders or ((0, 0),) * len(block), np.int32)
    return moved(s, op, [data(s, x, dtype), ints(s, *block), s.constant(around)], dtype)


def space_to_batch_cases() -> Iterator[Attributes]:
    yield dict(x=(2, 5, 6, 3), block=(2, 3), borders=((1, 0), (1, 2)))
    for block in itertools.product((1, 2, 3), repeat=2):
        yield dict(x=(1, 6, 6, 4), block=block)
        yield dict(x=(3, 6, 12, 5), block=block)
    for borders in (((1, 1), (0, 0)), ((0, 0), (2, 0)), ((0, 2), (3, 1)), ((4, 0), (0, 4))):
        yield dict(x=(1, 4, 4, 3), block=(2, 2), borders=borders)
        yield dict(x=(2, 4, 4, 8), block=(2, 2), borders=borders)
    for block, border in ((1, (0, 0)), (2, (0, 0)), (2, (1, 1)), (3, (2, 1)), (3, (0, 0))):
        yield dict(x=(2, 6, 5), block=(block,), borders=(border,))
    yield dict(x=(0, 4, 4, 3), block=(2, 2))


def space_to_batch_random(rng: random.Random) -> Attributes:
    space = rng.randint(1, 2)
    block = random_dims(rng, space, 3)
    before = [rng.randint(0, 3) for _ in block]
    size = random_dims(rng, space, 9)
    borders = tuple((a, -(a + n) % b) for a, n, b in zip(before, size, block, strict=True))
    x = (rng.randint(1, 3), *size, rng.randint(1, 9))
    return dict(x=x, block=block, borders=borders, dtype=random_type(rng))


def batch_to_space_cases() -> Iterator[Attributes]:
    yield dict(x=(12, 3, 4, 3), block=(2, 3), borders=((1, 0), (2, 3)))
    for block in itertools.product((1, 2, 3), repeat=2):
        yield dict(x=(block[0] * block[1], 3, 2, 4), block=block)
        yield dict(x=(3 * block[0] * block[1], 2, 3, 5), block=block)
    for borders in (((1, 1), (0, 0)), ((0, 0), (2, 0)), ((0, 2), (3, 1)), ((4, 4), (0, 0))):
        yield dict(x=(4, 4, 4, 3), block=(2, 2), borders=borders)
        yield dict(x=(8, 4, 4, 8), block=(2, 2), borders=borders)
    for block, border in ((1, (0, 0)), (2, (0, 0)), (2, (1, 1)), (3, (2, 1)), (6, (0, 3))):
        yield dict(x=(6, 4, 5), block=(block,), borders=(border,))
    yield dict(x=(0, 4, 4, 3), block=(2, 2))


def batch_to_space_random(rng: random.Random) -> Attributes:
    block = random_dims(rng, rng.randint(1, 2), 3)
    size = random_dims(rng, len(block), 5)
    borders = tuple(
        (rng.randrange(n * b), 0) if rng.random() < 0.5 else (0, rng.randrange(n * b))
        for n, b in zip(size, block, strict=True)
    )
    x = (rng.randint(1, 3) * int(np.prod(block)), *size, rng.randint(1, 9))
    return dict(x=x, block=block, borders=borders, dtype=random_type(rng))


def resize_bilinear(
    s: Sketch,
    op: str,
    x: Dims,
    size: Dims,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> int:
    inputs = [s.feed(x), s.constant(np.array(size, np.int32))]
    return s.op(op, inputs, align_corners=align_corners, half_pixel_centers=half_pixel_centers)


RESIZE_MODES: tuple[Attributes, ...] = ({}, {"align_corners": True}, {"half_pixel_centers": True})


def resize_bilinear_cases() -> Iterator[Attributes]:
    for x, size in (
        ((1, 4, 5, 3), (8, 10)), ((1, 4, 5, 4), (12, 15)), ((1, 4, 5, 3), (7, 9)),
        ((1, 9, 11, 5), (4, 5)), ((1, 8, 8, 4), (4, 4)), ((1, 9, 11, 5), (3, 17)),
        ((1, 4, 5, 3), (4, 5)), ((1, 6, 7, 2), (1, 1)), ((1, 3, 4, 18), (3, 7)),
        ((1, 1, 1, 5), (4, 3)), ((1, 1, 6, 8), (5, 6)), ((3, 5, 4, 7), (11, 6)),
        ((1, 33, 33, 21), (65, 65)), ((1, 17, 13, 1), (10, 29)), ((0, 4, 5, 1), (3, 3)),
    ):  # fmt: skip
        for mode in RESIZE_MODES:
            yield dict(x=x, size=size, **mode)


def resize_bilinear_random(rng: random.Random) -> Attributes:
    return dict(x=random_image(rng), size=random_dims(rng, 2, 24), **rng.choice(RESIZE_MODES))


def resize_nearest(
    s: Sketch,
    op: str,
    x: Dims,
    size: Dims,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
    dtype: str = "float32",
) -> list[int]:
    modes = dict(align_corners=align_corners, half_pixel_centers=half_pixel_centers)
    return moved(s, op, [data(s, x, dtype), ints(s, *size)], dtype, **modes)


NEAREST_MODES: tuple[Attributes, ...] = (
    {},
    {"align_corners": True},
    {"half_pixel_centers": True},
    {"align_corners": True, "half_pixel_centers": True},
)


def resize_nearest_cases() -> Iterator[Attributes]:
    for x, size in (
        ((1, 4, 5, 3), (8, 10)), ((1, 4, 5, 4), (7, 9)), ((1, 9, 11, 5), (4, 5)),
        ((1, 8, 8, 4), (4, 4)), ((1, 9, 11, 5), (3, 17)), ((1, 4, 5, 3), (4, 5)),
        ((1, 6, 7, 2), (1, 1)), ((1, 1, 1, 5), (4, 3)), ((3, 5, 4, 7), (11, 6)),
        ((1, 17, 13, 1), (10, 29)), ((0, 4, 5, 1), (3, 3)), ((1, 2, 3, 1), (1000, 1000)),
        ((1, 3, 4, 18), (3, 7)),
    ):  # fmt: skip
        for mode in NEAREST_MODES:
            yield dict(x=x, size=size, **mode)
    for dtype, mode in itertools.product(TYPES[1:-1], NEAREST_MODES):
        yield dict(x=(1, 2, 3, 1), size=(1000, 1000), dtype=dtype, **mode)
        yield dict(x=(2, 7, 9, 5), size=(5, 16), dtype=dtype, **mode)


def resize_nearest_random(rng: random.Random) -> Attributes:
    size, dtype = random_dims(rng, 2, 40), random_type(rng)
    return dict(x=random_image(rng), size=size, dtype=dtype, **rng.choice(NEAREST_MODES))


OPS: dict[str, Op] = {
    "RESIZE_BILINEAR": Op(resize_bilinear, resize_bilinear_cases, resize_bilinear_random),
    "DEPTH_TO_SPACE": Op(depth_to_space, depth_to_space_cases, depth_to_space_random),
    "DEPTH_TO_SPACE (other types)": Op(
        block_op, typed_depth_to_space_cases, typed_depth_to_space_random
    ),
    "SPACE_TO_DEPTH": Op(block_op, space_to_depth_cases, space_to_depth_random),
    "SPACE_TO_BATCH_ND": Op(batch_op, with_types(space_to_batch_cases), space_to_batch_random),
    "BATCH_TO_SPACE_ND": Op(batch_op, with_types(batch_to_space_cases), batch_to_space_random),
    "RESIZE_NEAREST_NEIGHBOR": Op(resize_nearest, resize_nearest_cases, resize_nearest_random),
}

LITERT_REFUSES: Cases = (
    ("RESIZE_BILINEAR", dict(x=(1, 4, 5, 3), size=(0, 3))),
    (
        "RESIZE_BILINEAR",
        dict(x=(1, 4, 5, 3), size=(8, 9), align_corners=True, half_pixel_centers=True),
    ),
    ("DEPTH_TO_SPACE", dict(x=(1, 2, 2, 6), block=2)),
    ("SPACE_TO_DEPTH", dict(x=(1, 3, 2, 1), block=2)),
    ("SPACE_TO_BATCH_ND", dict(x=(1, 3, 2, 1), block=(2, 2))),
    ("SPACE_TO_BATCH_ND", dict(x=(1, 2, 2, 2, 1), block=(2, 2, 2))),
)
