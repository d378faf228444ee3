"""Models of which some nodes stay on the CPU, in our interpreter."""

import logging
import random
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.litert import native
from gles_delegate.runtime.litert_host import LiteRtHost
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.standalone import StandAlone
from tests.gl.test_another_delegate import survive
from tests.gl.test_faults import LOSSES
from tests.support.hosts import run_resized
from tests.support.oracle import (
    assert_close,
    complete,
    delegated_interpreter,
    in_litert,
    in_ours,
    litert_interpreter,
    run,
    run_litert,
)
from tests.support.random_graphs import random_graph
from tests.support.sketch import Sketch
from tests.support.small import INPUT, expected, small_model, with_a_detour

ALL = 99  # more segments than any graph here has


@contextmanager
def mixed(content: bytes, **options: Any) -> Iterator[tuple[gd.GpuDelegate, gd.Interpreter]]:
    """A delegate that is open, and its interpreter."""
    with gd.GpuDelegate(gd.GpuDelegateOptions(**options)) as delegate:
        yield delegate, in_ours(delegate, content)


def on_gpu(delegate: gd.GpuDelegate) -> list[int]:
    return [node.index for node in delegate.report.nodes if node.delegated]


def test_the_largest_segment_runs_on_the_gpu(caplog: pytest.LogCaptureFixture) -> None:
    s, content = with_a_detour()
    with mixed(content) as (delegate, interpreter):
        assert (on_gpu(delegate), delegate.report.segments) == ([0, 1], 1)
        assert_close(run(interpreter, s.feeds), run_litert(content, s.feeds))
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("gles_delegate", logging.WARNING)
    assert record.message.startswith("2 of 6 nodes run on the GPU in 1 segment; these run on the")
    assert "slower than the CPU alone" in record.message
    assert "  node 2 CAST: " in record.message
    assert (
        "  node 5 TANH: max_delegated_partitions is 1, and there are 2 segments" in record.message
    )


def test_only_a_new_shape_of_an_input_needs_allocation() -> None:
    s, content = with_a_detour()
    with mixed(content) as (_, interpreter):
        run(interpreter, s.feeds)
        (x,) = interpreter.get_input_details()
        interpreter.resize_tensor_input(x["index"], x["shape"])
        interpreter.invoke()  # as before
        interpreter.resize_tensor_input(interpreter.get_output_details()[0]["index"], (1, 2))
        interpreter.allocate_tensors()
        assert_close(run(interpreter, s.feeds), run_litert(content, s.feeds))


def test_all_segments(caplog: pytest.LogCaptureFixture) -> None:
    s, content = with_a_detour()
    with mixed(content, max_delegated_partitions=ALL) as (delegate, interpreter):
        assert (on_gpu(delegate), delegate.report.segments) == ([0, 1, 4, 5], 2)
        for feeds in (s.feeds, [s.feeds[0] / 2]):
            assert_close(run(interpreter, feeds), run_litert(content, feeds))
    assert "in 2 segments" in caplog.text


@pytest.mark.parametrize(("first", "last"), [(0, 0), (1, 1), (4, None), (5, 9), (2, 3)])
def test_a_range_of_nodes(first: int, last: int | None) -> None:
    s, content = with_a_detour()
    with mixed(content, first_delegate_node_index=first, last_delegate_node_index=last) as (
        delegate,
        interpreter,
    ):
        wanted = [i for i in (0, 1, 4, 5) if first <= i <= (5 if last is None else last)]
        assert on_gpu(delegate) == wanted
        assert_close(run(interpreter, s.feeds), run_litert(content, s.feeds))


def test_a_range_that_splits_a_whole_model() -> None:
    s, outputs = random_graph(random.Random(5))
    content = complete(s, outputs)
    with mixed(
        content, first_delegate_node_index=3, last_delegate_node_index=9, max_delegated_partitions=9
    ) as (delegate, interpreter):
        assert set(on_gpu(delegate)) == set(range(3, 10))
        assert_close(run(interpreter, s.feeds), run_litert(content, s.feeds))


def test_resizing_a_mixed_model() -> None:
    _, content = with_a_detour()
    theirs = litert_interpreter(content)
    with mixed(content, max_delegated_partitions=ALL) as (_, interpreter):
        for shape in ((1, 5, 3), (4, 2, 7), (2, 5, 3)):
            x = np.linspace(-2, 2, int(np.prod(shape))).reshape(shape).astype(np.float32)
            assert_close(run_resized(interpreter, [x]), run_resized(theirs, [x]))


def test_any_thread_may_call_an_interpreter_with_its_own_delegate() -> None:
    s, content = with_a_detour()
    draws = [[draw * feed for feed in s.feeds] for draw in range(4)]
    right = [run_litert(content, draw) for draw in draws]
    with gd.Interpreter(model_content=content) as interpreter:
        interpreter.allocate_tensors()

        def work(number: int) -> None:
            with interpreter.exclusive():
                assert_close(run(interpreter, draws[number % 4]), right[number % 4])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(100)))


def test_a_constant_that_the_cpu_reads_as_well() -> None:
    """Half-precision weights: unpacked for the GPU while planning, and by LiteRT for its node."""
    s = Sketch(np.random.default_rng(0))
    shape = (1, 1, 1, 6)
    real, other = (
        s.op("DEQUANTIZE", [s.constant(s.normal(shape).astype(np.float16))], [s.tensor(shape)])
        for _ in range(2)
    )
    x = s.feed((3, 1, 1, 6))
    y = s.op("MUL", [s.op("ADD", [x, real]), other])
    content = complete(s, [y, s.op("SEGMENT_SUM", [real, s.feed(values=[0], dtype="int32")])])
    with mixed(content) as (delegate, interpreter):
        assert on_gpu(delegate) == [1, 2, 3]
        assert "a node on the CPU reads" in delegate.report.nodes[0].reason
        assert_close(run(interpreter, s.feeds), run_litert(content, s.feeds))


def test_a_constant_result() -> None:
    s = Sketch(np.random.default_rng(0))
    real = s.op("DEQUANTIZE", [s.constant(s.normal((2, 3)).astype(np.float16))], [s.tensor((2, 3))])
    y = s.op("ADD", [s.feed((2, 3)), real])
    content = complete(s, [y, real])
    reference = run_litert(content, s.feeds)
    with delegated_interpreter(content) as interpreter:
        assert_close(run(interpreter, s.feeds), reference)
    with gd.Interpreter(model_content=content) as ours:
        ours.allocate_tensors()
        assert_close(run(ours, s.feeds), reference)


def test_a_published_model(real_model: Callable[[str], bytes]) -> None:
    content = real_model("keras_lstm_mnist_ptq")
    x = np.random.default_rng(0).integers(0, 256, (1, 28, 28)).astype(np.uint8)
    reference = run_litert(content, [x])
    for first in (0, 2):
        with mixed(content, first_delegate_node_index=first) as (delegate, interpreter):
            (report,) = [n for n in delegate.report.nodes if n.op == "UNIDIRECTIONAL_SEQUENCE_LSTM"]
            assert report.delegated == (first == 0)
            assert delegate.report.segments == 1
            assert_close(run(interpreter, [x]), reference)


def test_errors_are_those_of_the_delegate() -> None:
    s, content = with_a_detour()
    with mixed(content) as (delegate, interpreter):
        delegate.close()
    with pytest.raises(gd.DelegateError, match="the delegate is closed") as caught:
        run(interpreter, s.feeds)
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(ValueError, match="Cannot set tensor"):
        interpreter.set_tensor(0, np.zeros((1, 1), np.float32))


def test_without_litert(monkeypatch: pytest.MonkeyPatch) -> None:
    _, content = with_a_detour()
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    with pytest.raises(gd.UnsupportedModelError, match="pip install ai-edge-litert") as caught:
        gd.Interpreter(model_content=content)
    assert [node[:2] for node in caught.value.nodes] == [(2, "CAST"), (3, "CAST")]


def test_full_delegation_can_be_required() -> None:
    _, content = with_a_detour()
    with (
        pytest.raises(gd.UnsupportedModelError, match="require_full_delegation is set"),
        mixed(content, require_full_delegation=True),
    ):
        pass


def test_threads_that_share_an_interpreter_get_their_own_results() -> None:
    s, content = with_a_detour()
    scales = (1, 2, 3, 4)

    def result(scale: int) -> Any:
        (array,) = interpreter.run({interpreter._graph.inputs[0]: s.feeds[0] / scale}).values()
        return array

    with mixed(content, own_thread=True) as (_, interpreter), ThreadPoolExecutor(4) as pool:
        results = {scale: result(scale) for scale in scales}
        for scale, array in zip(scales * 50, pool.map(result, scales * 50), strict=True):
            np.testing.assert_array_equal(array, results[scale])


class Interrupting(dict[Any, Any]):
    """Ctrl-C is pressed at each look-up."""

    def __getitem__(self, key: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return super().__getitem__(key)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's handler, which a program that a shell started in the background lacks."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("own_thread", [False, True])
def test_ctrl_c_is_not_lost_as_a_callback_begins(
    own_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    s, content = with_a_detour()
    with mixed(content, own_thread=own_thread) as (_, interpreter):
        with monkeypatch.context() as patch:
            patch.setattr(native, "_kernels", Interrupting(native._kernels))
            with pytest.raises(KeyboardInterrupt):
                interpreter.invoke()
        assert_close(run(interpreter, s.feeds), run_litert(content, s.feeds))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_ends_a_program_leaves_litert_s_host(monkeypatch: pytest.MonkeyPatch) -> None:
    _, content = with_a_detour()
    with mixed(content) as (_, interpreter), monkeypatch.context() as patch:
        patch.setattr(Session, "run", lambda *arguments: sys.exit(3))
        with pytest.raises(SystemExit, match="3"):
            interpreter.invoke()


def test_a_failure_on_the_cpu_is_a_litert_error() -> None:
    s = Sketch(np.random.default_rng(0))
    x, at = s.op("RELU", [s.feed((2, 6))], [(2, 6)]), s.feed(values=[1, 0], dtype="int64")
    content = s.build([s.op("GATHER", [x, at], [s.tensor((2, 6))], axis=0)])
    with mixed(content, last_delegate_node_index=0) as (_, interpreter):
        for _ in range(2):
            with pytest.raises(gd.LiteRtError, match="gather index out of bounds") as caught:
                run(interpreter, [s.feeds[0], s.feeds[1] + 7])
            assert str(caught.value).count("gather index") == 1
            assert str(caught.value).endswith("; Node number 1 (GATHER) failed to invoke.")
        assert_close(run(interpreter, s.feeds), run_litert(content, s.feeds))
        interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], (5, 6))
        with pytest.raises(RuntimeError, match="not ready") as misuse:
            interpreter.invoke()
        assert type(misuse.value) is RuntimeError


def test_shapes_that_a_node_on_the_cpu_refuses() -> None:
    s = Sketch(np.random.default_rng(0))
    whole = s.op("CAST", [s.op("RELU", [s.feed((2, 6))], [(2, 6)])], [s.tensor((2, 6), np.float64)])
    shape = s.constant(np.array([3, 4], np.int32))
    content = s.build([s.op("RESHAPE", [whole, shape], [s.tensor((3, 4), np.float64)])])
    with mixed(content) as (_, interpreter):
        interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], (2, 7))
        with pytest.raises(gd.LiteRtError, match=r"\(14 != 12\); Node number 2 \(RESHAPE\)"):
            interpreter.allocate_tensors()


@pytest.mark.parametrize("error", [RuntimeError, IndexError])
def test_a_failure_without_a_reason(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(subgraph: int) -> None:
        raise error

    _, content = with_a_detour()
    with mixed(content) as (_, interpreter):
        monkeypatch.setattr(LiteRtHost, "_wrapper", SimpleNamespace(Invoke=fail))
        with pytest.raises(gd.LiteRtError, match="failed: it gives no reason; try the model in"):
            interpreter.invoke()


OWN_THREAD = gd.GpuDelegateOptions(own_thread=True)


@pytest.mark.parametrize("options", [gd.GpuDelegateOptions(), OWN_THREAD], ids=["here", "own"])
@pytest.mark.parametrize("lose", LOSSES)
def test_after_a_lost_context(
    lose: Callable[..., None], options: gd.GpuDelegateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    s, content = with_a_detour()
    halves = [s.feeds[0], s.feeds[0] / 2]
    wanted = np.concatenate([run_litert(content, [half])[0] for half in halves])
    result = survive(content, np.concatenate(halves), lose, options, monkeypatch)
    assert_close([result], [wanted])


def test_another_delegate_may_leave_other_nodes_to_the_cpu() -> None:
    x = np.concatenate([INPUT, -INPUT])
    interpreter = gd.Interpreter(model_content=small_model())
    interpreter.resize_tensor_input(0, x.shape)
    interpreter.close()
    for last in (0, 1, 0):
        options = gd.GpuDelegateOptions(last_delegate_node_index=last)
        with gd.GpuDelegate(options) as delegate:
            interpreter.modify_graph_with_delegate(delegate)
            interpreter.allocate_tensors()
            assert delegate.report.fully_delegated == bool(last)
            assert isinstance(interpreter._host, StandAlone if last else LiteRtHost)
            assert_close(run(interpreter, [x]), [expected(x)])


def test_a_model_that_another_delegate_refuses() -> None:
    s, content = with_a_detour()
    with mixed(content) as (delegate, interpreter):
        delegate.close()
    options = gd.GpuDelegateOptions(require_full_delegation=True)
    with (
        gd.GpuDelegate(options) as delegate,
        pytest.raises(gd.UnsupportedModelError, match="require_full_delegation"),
    ):
        interpreter.modify_graph_with_delegate(delegate)
    with gd.GpuDelegate() as delegate:
        interpreter.modify_graph_with_delegate(delegate)
        interpreter.allocate_tensors()
        assert_close(run(interpreter, s.feeds), run_litert(content, s.feeds))


@pytest.mark.parametrize("on_cpu", ["", "CAST"])
def test_nodes_may_be_in_any_order(on_cpu: str) -> None:
    s = Sketch(np.random.default_rng(0))
    x, last, z = s.feed((2, 3)), s.tensor((2, 3)), s.tensor((2, 3))
    y = s.tensor((2, 3))
    s.op("NEG", [z], [last])
    if on_cpu:
        whole = s.tensor((2, 3), np.int64)
        s.op("CAST", [whole], [z])
        s.op("CAST", [y], [whole])
    else:
        s.op("ABS", [y], [z])
    s.op("EXP", [x], [y])
    content = s.build([last])
    results = np.exp(s.feeds[0])
    expected = -(results.astype(np.int64).astype(np.float32) if on_cpu else results)
    for host in (in_ours, in_litert):
        with gd.GpuDelegate(model=content if host is in_litert else None) as delegate:
            # LiteRT's own kernels run in the order of the file, XNNPACK's as the data flow.
            assert_close(run(host(delegate, content), s.feeds), [expected])
