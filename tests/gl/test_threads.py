"""Threads that share an interpreter, and calls that belong together."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from functools import partial
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.gl import thread
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.egl import current_context
from tests.gl.test_delegate import desktop_app
from tests.support.app import App
from tests.support.example import EXAMPLES
from tests.support.process import run_python
from tests.support.resources import require_flat
from tests.support.small import INPUT, allocated, check, expected, run, small_model
from tests.support.state import State, objects_in
from tests.support.tflite_builder import ModelBuilder
from tests.support.waiting import wait_until

THREADS, RUNS = 8, 4000
OWN_THREAD = gd.GpuDelegateOptions(own_thread=True)


@pytest.fixture(params=["own thread", "own delegate"])
def shared(request: pytest.FixtureRequest) -> Iterator[gd.Interpreter]:
    """An interpreter that any thread may call."""
    if request.param == "own thread":
        with gd.GpuDelegate(OWN_THREAD) as delegate:
            yield allocated(delegate)
    else:
        with own() as interpreter:
            yield interpreter


def own() -> gd.Interpreter:
    """An interpreter with its own delegate."""
    interpreter = gd.Interpreter(model_content=small_model())
    interpreter.allocate_tensors()
    return interpreter


def by_name(interpreter: gd.Interpreter, x: Any) -> Any:
    (result,) = interpreter.run({"x": x}).values()
    return result


def by_signature(interpreter: gd.Interpreter, x: Any) -> Any:
    return interpreter.get_signature_runner()(x=x)["y"]


def under_the_lock(interpreter: gd.Interpreter, x: Any) -> Any:
    with interpreter.exclusive(), interpreter.exclusive():
        interpreter.resize_tensor_input(0, x.shape)
        interpreter.allocate_tensors()
        return run(interpreter, x)


@pytest.mark.parametrize("call", [by_name, by_signature, under_the_lock])
def test_results_are_those_of_the_call(
    shared: gd.Interpreter, call: Callable[[gd.Interpreter, Any], Any]
) -> None:
    inputs = [INPUT * scale for scale in range(1, THREADS + 1)]
    results = [call(shared, x) for x in inputs]
    np.testing.assert_allclose(results[-1], expected(inputs[-1]), rtol=1e-4)

    def is_right(number: int) -> bool:
        which = number % len(inputs)
        return np.array_equal(call(shared, inputs[which]), results[which])

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(is_right, range(RUNS)))


def test_shapes_are_those_of_the_call(shared: gd.Interpreter) -> None:
    def work(rows: int) -> None:
        x = np.full((rows, 5), rows, np.float32)
        for _ in range(5):
            np.testing.assert_allclose(by_name(shared, x), expected(x), rtol=1e-4)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, (1, 2, 3)))


def test_other_calls_wait_for_the_lock(shared: gd.Interpreter) -> None:
    with ThreadPoolExecutor(1) as pool:
        with shared.exclusive():
            shared.set_tensor(0, INPUT)
            other = pool.submit(shared.set_tensor, 0, -INPUT)
            with pytest.raises(NotYet):
                other.result(0.1)
            shared.invoke()
        other.result(10)


def test_an_own_delegate_lives_on_without_the_thread_that_made_it() -> None:
    with ThreadPoolExecutor(1) as pool:
        interpreter = pool.submit(own).result()
    check(interpreter)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(check, interpreter).result()
        pool.submit(interpreter.close).result()
    interpreter.close()
    with pytest.raises(gd.DelegateError, match="the delegate is closed"):
        interpreter.invoke()


def test_an_own_delegate_leaves_each_thread_its_context() -> None:
    """Threads that draw, each in its own context."""

    def work(number: int) -> None:
        with gd.EglContext() as app:
            for _ in range(50):
                np.testing.assert_array_equal(by_name(interpreter, INPUT * number), right[number])
                assert app.is_current
        assert not current_context()
        app.release()

    with own() as interpreter:
        right = [by_name(interpreter, INPUT * number) for number in range(4)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))


def test_interpreters_do_not_wait_for_each_other() -> None:
    with gd.GpuDelegate(OWN_THREAD) as one, gd.GpuDelegate(OWN_THREAD) as other:
        first, second = allocated(one), allocated(other)
        with first.exclusive(), ThreadPoolExecutor(1) as pool:
            pool.submit(run, second).result(10)


def with_names(*names: str) -> gd.Interpreter:
    """The difference of two inputs, and its negation; all four have names."""
    builder = ModelBuilder()
    a, b = builder.input((2,), name=names[0]), builder.input((2,), name=names[1])
    y = builder.op("SUB", [a, b], [(2,)])
    z = builder.op("NEG", [y], [(2,)])
    for tensor, name in zip((a, b, y, z), names, strict=True):
        builder.tensors[tensor]["name"] = name
    return gd.Interpreter(model_content=builder.build([y, z]))


A, B = np.array([5, 7], np.float32), np.array([1, 2], np.float32)


@pytest.mark.parametrize(
    ("names", "inputs", "keys"),
    [
        (("a", "b", "y", "z"), {"a": A, "b": B}, ["y", "z"]),
        (("a", "b", "y", "z"), {0: A, "b": B}, ["y", "z"]),
        (("a", "a", "y", "y"), {0: A, 1: B}, [2, 3]),
        (("", "b", "", "z"), {0: A, "b": B}, [2, "z"]),
        (("a", "b", "y", "z"), {np.int32(0): A, np.int64(1): B}, ["y", "z"]),
    ],
)
def test_tensors_without_a_name_of_their_own_go_by_index(
    names: tuple[str, ...], inputs: dict[str | int, Any], keys: list[str | int]
) -> None:
    with with_names(*names) as interpreter:
        results = interpreter.run(inputs)
        assert list(results) == keys
        np.testing.assert_array_equal(results[keys[0]], A - B)
        np.testing.assert_array_equal(results[keys[1]], B - A)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({"a": A}, ValueError, r"'a' \(index 0\), 'b' \(index 1\), found none for 'b' \(index 1"),
        ({"a": A, "b": B, "c": B}, ValueError, "one for 'c': no input has that name or index"),
        ({"a": A, "b": B, 2: B}, ValueError, "one for 2: no input has that name or index"),
        ({"a": A, "b": B, 0: B}, ValueError, "expected one array for input 0 'a', found two"),
        ({"a": A, "b": B.astype(int)}, ValueError, "expected the dtype float32, found int64"),
        (A, TypeError, "expected a dict of arrays by the names of the inputs, found ndarray"),
    ],
)
def test_wrong_inputs_are_refused(inputs: Any, error: type[Exception], message: str) -> None:
    with with_names("a", "b", "y", "z") as interpreter, pytest.raises(error, match=message):
        interpreter.run(inputs)


@pytest.mark.parametrize(
    ("shape", "advice"),
    [
        ((64, 64, 3), ", without the batch axis: pass array[numpy.newaxis]"),
        ((1, 3, 64, 64), ", with channels first: pass array.transpose(0, 2, 3, 1)"),
        ((2, 64, 64, 3), ""),
        ((1, 30, 30, 3), ""),
    ],
)
def test_errors_name_the_shapes_of_inputs(shape: tuple[int, ...], advice: str) -> None:
    network = EXAMPLES / "models" / "digit_classifier.tflite"
    expected = f"expected 'image' (index 0), float32 [1, 64, 64, 3], found {list(shape)}{advice}; "
    with gd.Interpreter(network) as interpreter:
        with pytest.raises(gd.UnsupportedModelError) as caught:
            interpreter.run({"image": np.zeros(shape, np.float32)})
        assert str(caught.value).startswith(f"{expected}with that shape, 1 of 9 nodes cannot run")
        assert len(caught.value.nodes) == 1
        right = interpreter.run({"image": np.zeros((1, 64, 64, 3), np.float32)})
    assert right["digit"].shape == (1, 10)
    with pytest.raises(KeyError, match="expected one of the outputs 'digit', found 'scores'"):
        right["scores"]


def test_a_closed_delegate_is_not_the_fault_of_shapes() -> None:
    with gd.GpuDelegate() as delegate:
        options = {"experimental_delegates": [delegate]}
        interpreter = gd.Interpreter(model_content=small_model(), **options)  # type: ignore[arg-type]
    with pytest.raises(gd.DelegateError, match=r"^the delegate is closed"):
        interpreter.run({0: np.zeros((7, *INPUT.shape[1:]), np.float32)})


def test_a_name_of_two_inputs_is_refused() -> None:
    with (
        with_names("a", "a", "y", "z") as interpreter,
        pytest.raises(ValueError, match=r"several inputs have that name.* indices \[0, 1\]"),
    ):
        interpreter.run({"a": A})


def test_bound_tensors_are_left_out(app: App) -> None:
    interpreter = app.interpreter(small_model())
    app.delegate.bind_buffer_to_tensor(0, app.buffer(INPUT))
    (result,) = interpreter.run({}).values()
    np.testing.assert_allclose(result, expected(), rtol=1e-5)
    target = app.buffer(result.nbytes)
    app.delegate.bind_buffer_to_tensor(interpreter.get_output_details()[0]["index"], target)
    assert interpreter.run({}) == {}
    np.testing.assert_array_equal(app.read(target, "f4"), result.ravel())


@pytest.mark.parametrize("own_thread", [False, True])
@pytest.mark.parametrize("call", ["allocate_tensors", "invoke", "run", "close", "bind"])
def test_a_progress_callback_must_not_call_the_delegate(call: str, own_thread: bool) -> None:
    errors: list[BaseException] = []

    def progress(done: int, total: int) -> None:
        calls: dict[str, Callable[[], object]] = {
            "run": lambda: interpreter.run({"x": INPUT}),
            "close": delegate.close,
            "bind": lambda: delegate.bind_buffer_to_tensor(0, 1),
        }
        try:
            (calls.get(call) or getattr(interpreter, call))()
        except (gd.DelegateError, RuntimeError) as error:
            errors.append(error)

    options = gd.GpuDelegateOptions(own_thread=own_thread)
    delegate = gd.GpuDelegate(options, progress=progress)
    interpreter = gd.Interpreter(model_content=small_model(), experimental_delegates=[delegate])
    done = ThreadPoolExecutor(1).submit(interpreter.allocate_tensors) if own_thread else None
    if done is None:
        interpreter.allocate_tensors()
    else:
        done.result(30)
    assert errors
    if call != "invoke":
        assert all("progress callback" in str(error) for error in errors)
    np.testing.assert_allclose(run(interpreter), expected(), rtol=1e-4)
    delegate.close()


def test_a_progress_callback_may_use_the_context_of_its_thread() -> None:
    seen = []

    def progress(done: int, total: int) -> None:
        seen.append(current_context())
        if seen[-1]:
            app._usable().make_current()

    with gd.EglContext() as app:
        with gd.GpuDelegate(progress=progress) as delegate:
            check(allocated(delegate))
        assert set(seen) == {app.handle}
        seen.clear()
        with gd.GpuDelegate(OWN_THREAD, progress=progress) as delegate:
            check(allocated(delegate))
        assert set(seen) == {0}
    app.release()


def test_a_progress_callback_may_ask_what_needs_no_gpu() -> None:
    asked: list[Any] = []

    def progress(done: int, total: int) -> None:
        with interpreter.exclusive():
            asked.append((interpreter.get_input_details(), str(delegate.report)))

    with gd.GpuDelegate(OWN_THREAD, progress=progress) as delegate:
        interpreter = gd.Interpreter(model_content=small_model(), experimental_delegates=[delegate])
        interpreter.allocate_tensors()
    assert asked


AT_EXIT = """
import atexit
import gles_delegate as gd
from tests.support.small import allocated, check

delegate = gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True))
check(allocated(delegate))
atexit.register(lambda: print(delegate._closed))
if {close}:
    atexit.register(delegate.close)
"""


@pytest.mark.parametrize("close", [True, False])
def test_the_end_of_a_process(close: bool) -> None:
    ended = run_python(AT_EXIT.format(close=close))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{close}\n", "")


@pytest.mark.parametrize("own_delegate", [False, True])
def test_closing_while_others_call(own_delegate: bool) -> None:
    for _ in range(10):
        delegate = gd.GpuDelegate(OWN_THREAD)
        interpreter = own() if own_delegate else allocated(delegate)

        def call(interpreter: gd.Interpreter = interpreter) -> None:
            for _ in range(1000):
                by_name(interpreter, INPUT)

        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(call) for _ in range(4)]
            close = interpreter.close if own_delegate else delegate.close
            closings = [pool.submit(close) for _ in range(2)]
            close()
            for closing in closings:
                closing.result(30)
            for future in calls:
                error = future.exception(30)
                assert error is None or "the delegate is closed" in str(error)


def forget(own_thread: bool, context: Any = None) -> None:
    """Leave a delegate that is in use unclosed."""
    options = gd.GpuDelegateOptions(own_thread=own_thread)
    holders = [allocated(gd.GpuDelegate(options, context=context))]
    run(holders[0])
    with pytest.warns(ResourceWarning, match=r"expected delegate\.close\(\)"):
        collect(holders)


def collect(holders: list[gd.Interpreter]) -> None:
    holders.clear()
    gc.collect()


def use_another() -> None:
    with gd.GpuDelegate() as delegate:
        run(allocated(delegate))


def test_what_is_not_closed_is_freed_by_the_next_call(egl: gd.EglContext) -> None:
    state = State(egl.load)
    before = objects_in(egl, state)
    forget(False, egl)
    assert objects_in(egl, state)["Program"] > before["Program"]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(use_another).result()
    assert objects_in(egl, state)["Program"] > before["Program"]
    use_another()
    assert objects_in(egl, state) == before


def test_what_is_not_closed_is_freed_by_its_own_thread(egl: gd.EglContext) -> None:
    state = State(egl.load)
    before, threads = objects_in(egl, state), threading.active_count()
    forget(True, egl)
    wait_until(lambda: threading.active_count() == threads)
    assert objects_in(egl, state) == before


def test_an_interrupt_as_the_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, start = {*threading.enumerate()}, threading.Thread.start

    def interrupted(self: threading.Thread) -> None:
        start(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            allocated(gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True)))
    wait_until(lambda: {*threading.enumerate()} <= threads)


def test_an_interrupt_as_the_context_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread makes it nevertheless, destroys it and ends."""
    threads, made = {*threading.enumerate()}, list[GpuContext]()

    def make() -> GpuContext:
        time.sleep(0.1)
        made.append(GpuContext())
        return made[-1]

    def interrupted(self: Any, function: Callable[[], Any]) -> None:
        self.start(function)
        raise KeyboardInterrupt

    monkeypatch.setattr(thread._Worker, "call", interrupted)
    with pytest.raises(KeyboardInterrupt):
        thread.GlThread(make, own=True)
    wait_until(lambda: {*threading.enumerate()} <= threads)
    (gpu,) = made
    assert gpu.egl is not None
    assert gpu.egl._native is None


def test_no_thread_is_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(gd.ContextError, match=r"allows no more \(can't start new thread\)"):
        allocated(gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True)))
    with gd.GpuDelegate() as delegate:
        allocated(delegate).invoke()


@pytest.mark.mesa
def test_an_adopted_context_is_waited_for() -> None:
    glcontext, ctx = desktop_app()
    before = {*thread._left}
    with glcontext:
        forget(False, ctx)
        (left,) = {*thread._left} - before
    use_another()
    assert left in thread._left
    with glcontext:
        use_another()
    assert left not in thread._left
    ctx.release()


@pytest.mark.slow
@pytest.mark.mesa
@pytest.mark.parametrize("own_thread", [False, True])
def test_delegates_that_are_not_closed_leave_nothing(own_thread: bool) -> None:
    require_flat(partial(forget, own_thread), 30, most=20 << 20)


def test_a_collection_on_another_thread_calls_no_gl() -> None:
    holders = [allocated(gd.GpuDelegate())]
    gpu = holders[0]._host.delegation.thread.gpu
    with ThreadPoolExecutor(1) as pool, pytest.warns(ResourceWarning):
        pool.submit(collect, holders).result()
    assert gpu.egl._native is not None  # type: ignore[union-attr]
    use_another()
    assert gpu.egl._native is None  # type: ignore[union-attr]


def test_litert_s_interpreter_may_own_its_delegate() -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    options = {"experimental_delegates": [gd.GpuDelegate(model=small_model())]}
    interpreter = litert.Interpreter(model_content=small_model(), **options)
    interpreter.allocate_tensors()
    before = {*thread._left}
    del interpreter, options
    gc.collect()
    (left,) = {*thread._left} - before
    use_another()
    assert left not in thread._left
