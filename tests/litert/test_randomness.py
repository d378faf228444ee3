"""Random numbers from run to run."""

from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from tests.op_table import OPS
from tests.op_table.case import make_case
from tests.support.hosts import Host, both_hosts
from tests.support.oracle import WHOLE, assert_close, in_ours, litert_interpreter, run, run_gles
from tests.support.sketch import Sketch

SEEDED = {
    "RANDOM_UNIFORM": {"shape": (3, 7), "seed": 5},
    "RANDOM_STANDARD_NORMAL": {"shape": (1000,), "seed": 5},
    "MULTINOMIAL": {"x": (3, 8), "count": 50, "seed": 5},
}
SHAPE = (100, 400)


def unseeded() -> bytes:
    """Two ops, and numbers by classes of the probabilities 1/2, 1/3 and 1/6."""
    s = Sketch(np.random.default_rng(0))
    sizes, count = s.constant(np.int32(SHAPE)), s.constant(np.int32(40000))
    outputs = [s.tensor(), s.tensor(), s.tensor(None, "int64")]
    logits = s.constant(np.log(np.float32([[3, 2, 1]])))
    s.op("RANDOM_UNIFORM", [sizes], outputs[:1])
    s.op("RANDOM_STANDARD_NORMAL", [sizes], outputs[1:2])
    s.op("MULTINOMIAL", [logits, count], outputs[2:])
    return s.build(outputs)


@both_hosts
@pytest.mark.parametrize("op", SEEDED)
def test_streams_go_on_as_in_litert(op: str, host: Host) -> None:
    content, inputs = make_case(op, OPS[op], SEEDED[op]).build()
    reference = litert_interpreter(content)
    with gd.GpuDelegate(WHOLE, model=content) as delegate:
        interpreter, seen = host(delegate, content), []
        for _ in range(4):
            (numbers,) = run(interpreter, inputs)
            assert_close([numbers], run(reference, inputs))
            assert not any(np.array_equal(numbers, other) for other in seen)
            seen.append(numbers.copy())


@both_hosts
def test_numbers_without_a_seed(host: Host) -> None:
    content = unseeded()
    with gd.GpuDelegate(WHOLE, model=content) as delegate:
        interpreter = host(delegate, content)
        first, second = ([a.copy() for a in run(interpreter, [])] for _ in range(2))
    for a, b, other in zip(first, second, run_gles(content, []), strict=True):
        assert not np.array_equal(a, b)
        assert not np.array_equal(a, other)
    uniform, normal, classes = first
    assert 0 <= uniform.min() < 1e-3 < 0.999 < uniform.max() < 1
    np.testing.assert_allclose([uniform.mean(), uniform.std()], [1 / 2, 12**-0.5], atol=0.01)
    np.testing.assert_allclose([normal.mean(), normal.std()], [0, 1], atol=0.03)
    np.testing.assert_allclose(np.mean(np.abs(normal) < 1), 0.6827, atol=0.015)
    for numbers in (uniform, normal):
        steps = [numbers[:, 1:] * numbers[:, :-1], numbers[1:] * numbers[:-1]]
        np.testing.assert_allclose([s.mean() for s in steps], numbers.mean() ** 2, atol=0.03)
    np.testing.assert_allclose(np.bincount(classes[0]) / 40000, [1 / 2, 1 / 3, 1 / 6], atol=0.02)


def test_asynchronous_runs_have_numbers_of_their_own() -> None:
    op = "RANDOM_UNIFORM"
    content, _ = make_case(op, OPS[op], SEEDED[op]).build()
    reference = litert_interpreter(content)
    with gd.GpuDelegate(WHOLE) as delegate:
        interpreter = in_ours(delegate, content)
        (detail,) = interpreter.get_output_details()
        for _ in range(3):
            numbers = interpreter.invoke_async().get_tensor(detail["index"])
            assert_close([numbers], run(reference, []))


def test_subgraphs_are_left_to_litert() -> None:
    """A node that runs twice continues its stream."""
    s = Sketch(np.random.default_rng(0))

    def body(inner: Any) -> list[int]:
        x = inner.input((2, 3))
        sizes, numbers = inner.constant(np.int32([2, 3])), inner.tensor((2, 3))
        noise = inner.op("RANDOM_UNIFORM", [sizes], [numbers], seed=1)
        return [inner.op("ADD", [x, noise])]

    body_index, x = s.subgraph(body), s.feed((2, 3))
    for _ in range(2):
        x = s.composite(body_index, [x], [(2, 3)])
    with pytest.raises(gd.UnsupportedModelError, match="random numbers in a subgraph"):
        run_gles(s.build([x]), s.feeds)
