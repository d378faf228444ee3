"""STABLEHLO_SCATTER whose region is a builtin op, which LiteRT refuses; numpy is the oracle."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from tests.support.hosts import HOSTS, Host
from tests.support.oracle import in_litert, run
from tests.support.pairwise import pairwise
from tests.support.sketch import Sketch
from tests.support.tflite_builder import ModelBuilder

COMBINE = {"ADD": np.add, "MUL": np.multiply, "MAXIMUM": np.maximum, "MINIMUM": np.minimum}
Region = Callable[[ModelBuilder], list[int]]


def region(op: str, dtype: str = "float32", twice: bool = False, **options: Any) -> Region:
    def build(b: ModelBuilder) -> list[int]:
        both = [b.input((), dtype), b.input((), dtype)]
        return [b.op(op, both[:1] * 2 if twice else both, [()], **options)]

    return build


def scatter(s: Sketch, build: Region, dtype: str, first: bool = False) -> bytes:
    """Rows of six, or columns, added at 9 indices, of which one is outside and some are equal."""
    x = s.feed(values=s.rng.integers(-9, 9, (6, 4) if first else (5, 6)), dtype=dtype)
    indices = s.feed(values=[[n] for n in (0, 3, 3, 1, 3, 7, -1, 2, 3)], dtype="int32")
    shape = (6, 9) if first else (9, 6)
    updates = s.feed(values=s.rng.integers(-3, 4, shape), dtype=dtype)
    axis = int(first)
    y = s.op(
        "STABLEHLO_SCATTER", [x, indices, updates], [s.tensor(None, dtype)],
        update_window_dims=(1 - axis,), inserted_window_dims=(axis,), index_vector_dim=1,
        scatter_dims_to_operand_dims=(axis,), update_computation_subgraph_index=s.subgraph(build),
    )  # fmt: skip
    return s.build([y])


@pairwise(op=COMBINE, first=[False, True], dtype=["float32", "int32"], host=HOSTS)
def test_a_builtin_combines_as_numpy_does(host: Host, dtype: str, first: bool, op: str) -> None:
    s = Sketch(np.random.default_rng(0))
    content = scatter(s, region(op, dtype), dtype, first)
    with gd.GpuDelegate(model=content if host is in_litert else None) as delegate:
        (actual,) = run(host(delegate, content), s.feeds)
        assert delegate.report.fully_delegated
    x, indices, updates = (np.array(feed) for feed in s.feeds)
    x, updates = (x.T, updates.T) if first else (x, updates)
    inside = (indices[:, 0] >= 0) & (indices[:, 0] < len(x))
    COMBINE[op].at(x, indices[inside, 0], updates[inside])
    np.testing.assert_array_equal(actual, x.T if first else x)


@pytest.mark.parametrize(
    "build",
    [
        region("SUB"),
        region("ADD", twice=True),
        region("ADD", fused_activation_function="RELU"),
        lambda b: [b.input((), "float32"), b.input((), "float32")][:1],
        lambda b: [b.op("ADD", [b.input(()), b.op("ABS", [b.input(())], [()])], [()])],
    ],
    ids=["of another op", "of one input twice", "with RELU", "of nothing", "of two ops"],
)
def test_other_regions_are_refused(build: Region) -> None:
    content = scatter(Sketch(np.random.default_rng(0)), build, "float32")
    assert "float32 combined by" in lower_graph(read_model(content), Limits()).reasons[0]
