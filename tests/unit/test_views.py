"""Views: where a dispatch copies four lanes of a texel at once."""

from typing import Any

import numpy as np
import pytest

from gles_delegate.ops.lib.views import Copy
from tests.support.sketch import Sketch
from tests.unit.test_plan import plan_of


def copies(s: Sketch, output: int) -> list[Any]:
    """For each copy of a node, whether it copies whole texels."""
    dispatches = plan_of(s.build([output])).dispatches
    return [d.defines["WHOLE_TEXELS"] for d in dispatches if isinstance(d, Copy) and d.node >= 0]


def whole_texels(op: str, channels: int, *constants: Any, **options: Any) -> list[int]:
    """`copies` of an op whose input has 2 x 5 pixels."""
    s = Sketch(np.random.default_rng(0))
    inputs = [s.feed((2, 5, channels)), *(s.constant(np.int32(value)) for value in constants)]
    return copies(s, s.op(op, inputs, **options))


@pytest.mark.parametrize(
    ("channels", "begin", "size", "whole"),
    [
        (12, (0, 1, 4), (2, 3, 8), 1),
        (12, (0, 1, 2), (2, 3, 8), 0),
        (12, (0, 1, 4), (2, 3, 6), 0),
        (10, (0, 1, 4), (2, 3, 4), 0),
        (3, (0, 1, 0), (2, 3, 3), 1),
        (3, (0, 1, 1), (2, 3, 2), 0),
    ],
)
def test_parts(channels: int, begin: Any, size: Any, whole: int) -> None:
    assert whole_texels("SLICE", channels, begin, size) == [whole]


@pytest.mark.parametrize(
    ("channels", "pads", "whole"),
    [
        (3, ((0, 0), (1, 2), (0, 0)), 1),
        (8, ((0, 0), (0, 0), (4, 4)), 1),
        (8, ((0, 0), (0, 0), (4, 3)), 0),
        (8, ((0, 0), (0, 0), (2, 2)), 0),
        (6, ((0, 0), (1, 0), (4, 2)), 0),
    ],
)
def test_borders(channels: int, pads: Any, whole: int) -> None:
    assert whole_texels("PAD", channels, pads) == [whole]


@pytest.mark.parametrize(
    ("pads", "whole"), [(((1, 0), (1, 2), (0, 0)), 1), (((0, 0), (0, 0), (4, 4)), 0)]
)
def test_mirrored_borders(pads: Any, whole: int) -> None:
    assert whole_texels("MIRROR_PAD", 8, pads, mode="REFLECT") == [whole]


@pytest.mark.parametrize(("order", "whole"), [((1, 0, 2), 1), ((2, 0, 1), 0), ((0, 2, 1), 0)])
def test_other_orders(order: Any, whole: int) -> None:
    assert whole_texels("TRANSPOSE", 4, order) == [whole]


@pytest.mark.parametrize(("channels", "whole"), [(8, [1, 1]), (6, [1, 0])])
def test_joined_channels(channels: int, whole: list[int]) -> None:
    s = Sketch(np.random.default_rng(0))
    x = s.feed((2, 5, channels))
    actual = copies(s, s.op("CONCATENATION", [x, x], axis=2))
    assert sorted(actual, reverse=True) == whole
