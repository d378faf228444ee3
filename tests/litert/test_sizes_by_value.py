"""Inputs whose values give sizes of tensors: each run has its own sizes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.bench.comparison import compare_nodes, compare_outputs, random_feeds
from gles_delegate.model.reader import ModelFile
from tests.support.hosts import Host, both_hosts
from tests.support.oracle import assert_close, in_ours, litert_interpreter, run
from tests.support.sketch import Sketch

Arrays = Sequence[NDArray[Any]]
OPS = ("BROADCAST_TO", "FILL", "RANGE", "RESHAPE", "STRIDED_SLICE", "TILE", "TOPK_V2", "TRANSPOSE")


def ints(*values: int) -> NDArray[np.int32]:
    return np.array(values, np.int32)


def sketch() -> Sketch:
    return Sketch(np.random.default_rng(0))


def picked(s: Sketch, op: str) -> tuple[int, list[list[NDArray[Any]]]]:
    """A node whose last input gives the size of its result, and what to feed one after another."""
    x = s.normal((4, 6))
    if op == "TOPK_V2":
        inputs = [s.input((4, 6)), s.input((), np.int32)]
        y = s.op(op, inputs, [s.tensor(None), s.tensor(None, "int32")])
        given = [np.int32(k) for k in (2, 5, 1, 6, 6)]
    elif op == "FILL":
        inputs = [s.input((2,), np.int32), s.input(())]
        y = s.op(op, inputs, [s.tensor(None)])
        return y, [[ints(*dims), np.float32(2.5)] for dims in ((2, 3), (1, 1), (5, 2))]
    elif op == "RANGE":
        y = s.op(op, [s.input((), np.int32) for _ in range(3)], [s.tensor(None, "int32")])
        return y, [[np.int32(n) for n in (1, end, 2)] for end in (4, 9, 4, 2)]
    else:
        inputs = [s.input((4, 6)), s.input((3 if op == "BROADCAST_TO" else 2,), np.int32)]
        wanted = {
            "BROADCAST_TO": [(2, 4, 6), (1, 4, 6), (3, 4, 6)],
            "TRANSPOSE": [(1, 0), (0, 1)],
            "RESHAPE": [(4, 6), (24, 1), (3, 8), (2, -1)],
            "TILE": [(1, 2), (3, 1), (1, 1), (2, 2)],
            "STRIDED_SLICE": [(3, 5), (2, 2), (4, 6)],
        }
        begin, one = s.constant(ints(1, 0)), s.constant(ints(1, 1))
        if op == "STRIDED_SLICE":
            inputs = [inputs[0], begin, inputs[1], one]
        version = 2 if op == "BROADCAST_TO" else 1
        y = s.op(op, inputs, [s.tensor((4, 6) if op == "RESHAPE" else None)], version=version)
        given = [ints(*values) for values in wanted[op]]
    return y, [[x, value] for value in given]


@both_hosts
@pytest.mark.parametrize("op", OPS)
def test_a_run_has_the_sizes_of_its_values(op: str, host: Host) -> None:
    s = sketch()
    y, runs = picked(s, op)
    z = s.op("ABS", [y], [None])
    content = s.build([z])
    reference = litert_interpreter(content)
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = host(delegate, content)
        assert delegate.report.fully_delegated
        for inputs in runs:
            (actual,), (expected,) = run(interpreter, inputs), run(reference, inputs)
            assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=0)


@both_hosts
def test_a_transposed_convolution_of_a_size_that_is_passed_in(host: Host) -> None:
    s = sketch()
    size, weights = s.input((4,), np.int32), s.constant(s.normal((5, 2, 2, 3)))
    y = s.op(
        *("TRANSPOSE_CONV", [size, weights, s.input((1, 3, 4, 3))], [s.tensor((1, 6, 8, 5))]),
        **dict(padding="SAME", stride_w=2, stride_h=2),
    )
    content = s.build([y])
    reference = litert_interpreter(content)
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = host(delegate, content)
        assert delegate.report.fully_delegated
        for sides in ((6, 8), (5, 7), (6, 7)):
            inputs = [ints(1, *sides, 5), s.normal((1, 3, 4, 3))]
            assert_close(run(interpreter, inputs), run(reference, inputs))


def halves() -> bytes:
    """The first n / 2 rows of a feed of two columns, times two; n is what is given as float."""
    s = sketch()
    x, n = s.input((8, 2)), s.input((1, 1))
    whole = s.op("CAST", [n], [s.tensor((1, 1), "int32")])
    half = s.op("FLOOR_DIV", [whole, s.constant(ints(2))], [s.tensor((1, 1), "int32")])
    end = s.op("RESHAPE", [half, s.constant(ints(1))], [s.tensor((1,), "int32")])
    one = s.constant(ints(1))
    rows = s.op("STRIDED_SLICE", [x, s.constant(ints(0)), end, one], [s.tensor(None)])
    return s.build([s.op("ADD", [rows, rows], [s.tensor(None)])])


@both_hosts
def test_a_size_that_is_computed_from_an_input(host: Host) -> None:
    content, s = halves(), sketch()
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = host(delegate, content)
        assert delegate.report.fully_delegated
        for n, rows in ((6.5, 3), (2.0, 1), (16.0, 8), (6.0, 3)):
            x = s.normal((8, 2))
            (actual,) = run(interpreter, [x, np.float32([[n]])])
            np.testing.assert_array_equal(actual, 2 * x[:rows])
        for rows in (5, 9):
            interpreter.resize_tensor_input(0, (rows, 2))
            interpreter.allocate_tensors()
            x = s.normal((rows, 2))
            (actual,) = run(interpreter, [x, np.float32([[8]])])
            np.testing.assert_array_equal(actual, 2 * x[:4])


@both_hosts
def test_no_rows_at_all(host: Host) -> None:
    content, s = halves(), sketch()
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = host(delegate, content)
        index = interpreter.get_output_details()[0]["index"]
        for n, rows in ((0, 0), (4, 2), (0, 0)):
            x = s.normal((8, 2))
            interpreter.set_tensor(0, x)
            interpreter.set_tensor(1, np.float32([[n]]))
            interpreter.invoke()
            assert interpreter.get_output_details()[0]["shape"].tolist() == [rows, 2]
            if rows:
                np.testing.assert_array_equal(interpreter.get_tensor(index), 2 * x[:rows])


def test_runs_that_do_not_wait() -> None:
    content, s = halves(), sketch()
    with gd.GpuDelegate() as delegate:
        interpreter = in_ours(delegate, content)
        (output,) = interpreter.get_output_details()
        for n in (2, 8, 8):
            x = s.normal((8, 2))
            interpreter.set_tensor(0, x)
            interpreter.set_tensor(1, np.float32([[n]]))
            actual = interpreter.invoke_async().get_tensor(output["index"])
            np.testing.assert_array_equal(actual, 2 * x[: n // 2])


@both_hosts
def test_a_value_that_cannot_be(host: Host) -> None:
    content, s = halves(), sketch()
    x = s.normal((8, 2))
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = host(delegate, content)
        wrong = [x, np.float32([[np.nan]])]
        failure = gd.UnsupportedModelError if host is in_ours else RuntimeError
        with pytest.raises(failure, match=r"values of inputs \[1\]"):
            run(interpreter, wrong)
        (actual,) = run(interpreter, [x, np.float32([[4]])])
        np.testing.assert_array_equal(actual, 2 * x[:2])


def test_an_input_that_gives_sizes_cannot_be_bound() -> None:
    with gd.GpuDelegate() as delegate:
        in_ours(delegate, halves())
        with pytest.raises(ValueError, match="its value determines sizes"):
            delegate.bind_buffer_to_tensor(1, 1)


@pytest.mark.parametrize("read", ["sizes", "result"])
def test_segments_on_both_sides_of_the_cpu(read: str) -> None:
    """Nodes on the CPU between two segments, of which the second has the size from the first."""
    s = sketch()
    x, n = s.input((6, 2)), s.input((2,), np.int32)
    double = s.op("ADD", [n, s.constant(ints(1, 0))], [s.tensor((2,), "int32")])
    zero = s.constant(ints(0, 0))
    part = s.op("SLICE", [x, zero, double], [s.tensor(None)])
    seen = part if read == "result" else x
    wide = s.op("CAST", [seen], [s.tensor(None if read == "result" else (6, 2), "float64")])
    narrow = s.op("CAST", [wide], [s.tensor(None if read == "result" else (6, 2))])
    y = s.op("SLICE", [s.op("ABS", [narrow], [s.tensor(None)]), zero, n], [s.tensor(None)])
    content = s.build([part, y])
    options = gd.GpuDelegateOptions(max_delegated_partitions=9)
    with gd.GpuDelegate(options) as delegate:
        interpreter = in_ours(delegate, content)
        for rows in (3, 1, 5, 5):
            values = s.normal((6, 2))
            first, second = run(interpreter, [values, ints(rows, 2)])
            np.testing.assert_array_equal(first, values[: rows + 1])
            np.testing.assert_array_equal(second, np.abs(values[:rows]))


def test_comparisons_use_examples_of_values() -> None:
    file = ModelFile(halves())
    feeds = random_feeds(file) | {1: np.float32([[6]])}
    for actual in (compare_outputs(file, feeds), [*compare_nodes(file, feeds)]):
        assert actual[-1].shape == (3, 2)
        assert all(difference.passed for difference in actual)


def test_states_outlive_a_new_size() -> None:
    """When a run makes a new plan, a variable tensor keeps its value of the run before."""
    s = sketch()
    x, n = s.input((1, 3)), s.input((2,), np.int32)
    weights = [s.constant(s.normal(shape)) for shape in ((4, 3), (4, 5))]
    state = s.variable((1, 20))
    y = s.op("SVDF", [x, *weights, -1, state], [(1, 4)], rank=1)
    content = s.build([s.op("TILE", [y, n], [s.tensor(None)])])
    reference = litert_interpreter(content)
    with gd.GpuDelegate() as delegate:
        interpreter = in_ours(delegate, content)
        assert delegate.report.fully_delegated
        for times in ((1, 1), (2, 1), (2, 1), (1, 3)):
            inputs = [s.normal((1, 3)), ints(*times)]
            (actual,), (expected,) = run(interpreter, inputs), run(reference, inputs)
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("preference", gd.InferencePreference)
def test_the_store_tells_values_apart(tmp_path: Path, preference: gd.InferencePreference) -> None:
    """Constants that are made of shapes and values have the same tensor and shape each time."""
    s = sketch()
    x, n = s.input((3, 2)), s.input((2,), np.int32)
    times = s.op("CAST", [n], [s.tensor((2,))])
    shape = s.op("SHAPE", [x], [s.tensor((2,), "int32")], out_type=2)
    sides = s.op("CAST", [shape], [s.tensor((2,))])
    y = s.op("MUL", [s.op("MUL", [x, sides], [(3, 2)]), times], [(3, 2)])
    content = s.build([s.op("TILE", [y, n], [s.tensor(None)])])
    options = gd.GpuDelegateOptions(
        serialization_dir=tmp_path, model_token="m", inference_preference=preference
    )
    for rows in (3, 4):
        for given in ((1, 2), (3, 1)):
            with gd.GpuDelegate(options) as delegate:
                interpreter = in_ours(delegate, content)
                interpreter.resize_tensor_input(0, (rows, 2))
                interpreter.allocate_tensors()
                values = s.normal((rows, 2))
                (actual,) = run(interpreter, [values, ints(*given)])
            expected = np.tile(values * np.float32([rows, 2]) * np.float32(given), given)
            np.testing.assert_allclose(actual, expected, rtol=1e-6)


@both_hosts
def test_a_slice_to_the_end(host: Host) -> None:
    """Its size -1 needs the values of both inputs."""
    s = sketch()
    inputs = [s.input((2, 9, 4)), s.input((3,), np.int32), s.input((3,), np.int32)]
    content = s.build([s.op("TANH", [s.op("SLICE", inputs, [s.tensor(None)])], [None])])
    reference = litert_interpreter(content)
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = host(delegate, content)
        assert delegate.report.fully_delegated
        for begin, size in (
            ((0, 3, 1), (1, 5, 2)),
            ((1, 2, 1), (1, -1, -1)),
            ((0, 0, 3), (-1, 9, 1)),
        ):
            feeds = [s.normal((2, 9, 4)), ints(*begin), ints(*size)]
            assert_close(run(interpreter, feeds), run(reference, feeds))


@both_hosts
@pytest.mark.parametrize("values", [(0, -3, 1), (0, 3, -1), (2, 5, 0)])
def test_a_range_away_from_its_end(values: Sequence[int], host: Host) -> None:
    """LiteRT refuses it."""
    s = sketch()
    numbers = [s.input((), np.int32) for _ in range(3)]
    content = s.build([s.op("ABS", [s.op("RANGE", numbers, [s.tensor(None, "int32")])], [None])])
    with pytest.raises(RuntimeError):
        run(litert_interpreter(content), [np.int32(n) for n in values])
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = host(delegate, content)
        run(interpreter, [np.int32(n) for n in (1, 4, 1)])
        with pytest.raises((RuntimeError, gd.UnsupportedModelError), match="steps towards the end"):
            run(interpreter, [np.int32(n) for n in values])


def spectrum(s: Sketch) -> int:
    """A shape that no example suits, and nodes behind it that the file's sizes do not suit."""
    x, n = s.input((1, 256)), s.input((3,), np.int32)
    shape = s.op("CONCATENATION", [n, s.constant(ints(1))], [s.tensor((4,), "int32")], axis=0)
    y = s.op("RESHAPE", [x, shape], [(1, 1, 1, 1)])
    window = dict(stride_h=4, stride_w=4, filter_height=4, filter_width=4, padding="VALID")
    y = s.op("MAX_POOL_2D", [y], [(1, 0, 0, 1)], **window)
    return s.op("MEAN", [y, s.constant(ints(1, 2))], [(1, 1)])


@both_hosts
def test_sizes_that_are_not_known_are_not_taken_from_the_file(host: Host) -> None:
    s = sketch()
    content = s.build([spectrum(s)])
    feeds = [s.normal((1, 256)), ints(1, 16, 16)]
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = host(delegate, content)
        reasons = {n.op: n.reason for n in delegate.report.nodes if not n.delegated}
        assert "known only at run time" in reasons["MAX_POOL_2D"]
        assert "known only at run time" in reasons["MEAN"]
        (actual,), (expected,) = run(interpreter, feeds), run(litert_interpreter(content), feeds)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)
