"""Runs that are started and not waited for, fences, and reading one run while the next runs."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import moderngl
import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.gl import thread as thread_module
from gles_delegate.gl.context import GpuContext
from gles_delegate.runtime.session import Session
from tests.gl.test_binding import ends, negated
from tests.support.app import App
from tests.support.small import INPUT, allocated, check, expected
from tests.support.state import State, objects_in
from tests.support.tflite_builder import ModelBuilder
from tests.support.trace import traced

WAITING = {"Buffer.read", "Buffer.read_into", "glClientWaitSync", "glFinish", "Context.finish"}


@pytest.fixture
def interpreter() -> Iterator[gd.Interpreter]:
    with gd.GpuDelegate() as delegate:
        yield allocated(delegate)


def feed(interpreter: gd.Interpreter, scale: float) -> None:
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], INPUT * np.float32(scale))


def close_to(actual: Any, scale: float) -> None:
    np.testing.assert_allclose(actual, expected(INPUT * np.float32(scale)), rtol=1e-4, atol=1e-4)


def test_a_run_is_waited_for_when_it_is_read(interpreter: gd.Interpreter) -> None:
    y = ends(interpreter)[1]
    feed(interpreter, 2)
    invocation = interpreter.invoke_async()
    close_to(interpreter.get_tensor(y), 2)
    close_to(invocation.get_tensor(y), 2)
    assert invocation.done()
    feed(interpreter, 3)
    interpreter.invoke_async()
    assert interpreter.invoke_async().wait(60)
    close_to(interpreter.tensor(y)(), 3)
    feed(interpreter, 4)
    interpreter.invoke()
    close_to(interpreter.get_tensor(y), 4)


def test_one_run_is_read_while_the_next_runs(interpreter: gd.Interpreter) -> None:
    y = ends(interpreter)[1]
    feed(interpreter, 0)
    before = interpreter.invoke_async()
    for scale in range(1, 6):
        feed(interpreter, scale)
        after = interpreter.invoke_async()
        close_to(before.get_tensor(y), scale - 1)
        before = after
    close_to(before.get_tensor(y), 5)


def test_the_last_two_runs_can_be_read(interpreter: gd.Interpreter) -> None:
    y = ends(interpreter)[1]
    first, second, third = (interpreter.invoke_async() for _ in range(3))
    with pytest.raises(ValueError, match="of the last two runs"):
        first.get_tensor(y)
    for invocation in (second, third):
        close_to(invocation.get_tensor(y), 0)
    with pytest.raises(ValueError, match="cannot read tensor 0 of this run"):
        third.get_tensor(0)
    interpreter.resize_tensor_input(0, (1, 5))
    interpreter.allocate_tensors()
    assert third.done()
    close_to(third.get_tensor(y), 0)


def test_results_are_of_the_shapes_of_their_run() -> None:
    """Also one that is a constant for each shape, and one that no node computes."""
    builder = ModelBuilder()
    x = builder.input((2, 3))
    y = builder.op("TANH", [x], [(2, 3)])
    shape = builder.op("SHAPE", [y], [builder.tensor((2,), np.int32)], out_type=2)
    alone = builder.tensor((4,))
    with gd.Interpreter(model_content=builder.build([y, shape, alone])) as interpreter:
        interpreter.allocate_tensors()
        invocation = interpreter.invoke_async()
        for rows in (5, 1):
            interpreter.resize_tensor_input(x, (rows, 3))
            interpreter.allocate_tensors()
            assert [invocation.get_tensor(i).shape for i in (y, shape, alone)] == [
                (2, 3),
                (2,),
                (4,),
            ]
            assert invocation.get_tensor(shape).tolist() == [2, 3]
        last = interpreter.invoke_async()
        assert (last.get_tensor(y).shape, last.get_tensor(shape).tolist()) == ((1, 3), [1, 3])
        assert invocation.get_tensor(y).shape == (2, 3)


def test_results_that_nobody_has_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with traced(monkeypatch) as calls, gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        interpreter.invoke_async().wait()
        held = interpreter.invoke_async()
        held.wait()
        interpreter.invoke_async().wait()
        interpreter.invoke_async().wait()  # none of the last two is held
        calls.clear()
        interpreter.resize_tensor_input(0, (1, 5))
        interpreter.allocate_tensors()
        assert not WAITING.intersection(calls)


def test_starting_a_run_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    with traced(monkeypatch) as calls, gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        calls.clear()
        interpreter.invoke_async()
        assert not WAITING.intersection(calls)
        assert (calls.count("glFenceSync"), calls.count("glFlush")) == (1, 1)
        interpreter.get_tensor(ends(interpreter)[1])
        assert WAITING.intersection(calls)


def test_fences_of_runs_that_nobody_waits_for_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    with traced(monkeypatch) as calls, gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        for _ in range(20):
            interpreter.invoke_async()
        interpreter.get_tensor(ends(interpreter)[1])
        interpreter.invoke_async()  # the others are done by now, and freed
        assert calls.count("glFenceSync") == 21
        assert calls.count("glDeleteSync") >= 18
    assert calls.count("glDeleteSync") == 21


def test_a_fence_is_reached_and_frees_itself(gpu: GpuContext) -> None:
    with gpu.guard():
        run = lambda function: function()  # noqa: E731
        fence, other = gd.Fence(gpu.gl, run), gd.Fence(gpu.gl, run)
        fence.wait_on_gpu()
        assert fence.wait()
        assert fence.done()
        fence.wait_on_gpu()
        with other:
            pass
        assert other.wait(0)


def test_a_fence_that_is_not_reached_in_time(
    gpu: GpuContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gpu.guard():
        with monkeypatch.context() as patch:
            waited: list[Any] = []

            def expire(sync: int, flags: int, nanoseconds: int) -> int:
                waited.append(nanoseconds)
                return 0x911B

            patch.setattr(gpu.gl, "glClientWaitSync", expire, raising=False)
            fence = gd.Fence(gpu.gl, lambda function: function())
            assert not fence.wait(0.25)
            assert not fence.done()
            assert waited == [250_000_000, 0]
        assert fence.wait()


def test_another_thread_may_not_wait(interpreter: gd.Interpreter) -> None:
    invocation = interpreter.invoke_async()
    with ThreadPoolExecutor(1) as pool, pytest.raises(gd.WrongThreadError):
        pool.submit(invocation.wait).result()
    assert invocation.wait()


def test_a_run_waits_for_what_another_context_fills(app: App) -> None:
    """The app fills the input in a context that shares with the delegate's."""
    other = gd.EglContext(share=app.egl)
    with gd.GpuDelegate(context=other) as delegate:
        interpreter = allocated(delegate, negated((1, 2, 2, 4)))
        source, target = app.buffer(64), app.buffer(64)
        delegate.bind_buffer_to_tensor(0, source)
        delegate.bind_buffer_to_tensor(1, target)
        with app.egl:
            gpu = GpuContext(app.egl)
            source.write(np.full(16, 4, np.float32))
            fence = gd.Fence(gpu.gl, lambda function: function())
            invocation = interpreter.invoke_async(wait_for=fence)
            sync = gpu.gl.glFenceSync(0x9117, 0)
            interpreter.invoke_async(wait_for=sync)
            gpu.gl.glDeleteSync(sync)
            fence.close()
            invocation.wait_on_gpu()
        assert (app.read(target, "f4") == -4).all()
        with pytest.raises(ValueError, match="expected a Fence or a GLsync"):
            interpreter.invoke_async(wait_for=12345)
        with pytest.raises(TypeError, match="expected a Fence or a GLsync"):
            interpreter.invoke_async(wait_for="fence")  # type: ignore[arg-type]
    other.release()


def test_a_bound_output_is_not_read_from_an_invocation(app: App) -> None:
    interpreter = app.interpreter(negated((1, 2, 2, 4)))
    app.delegate.bind_buffer_to_tensor(1, app.buffer(64))
    interpreter.set_tensor(0, np.ones((1, 2, 2, 4), np.float32))
    invocation = interpreter.invoke_async()
    with pytest.raises(ValueError, match="not bound"):
        invocation.get_tensor(1)
    assert (interpreter.get_tensor(1) == -1).all()


def test_invocations_leave_no_objects(egl: gd.EglContext) -> None:
    state = State(egl.load)
    before = objects_in(egl, state)
    with gd.GpuDelegate(context=egl) as delegate:
        interpreter = allocated(delegate)
        for _ in range(3):
            interpreter.invoke_async()
    assert objects_in(egl, state) == before


def test_many_threads_wait_for_the_same_runs() -> None:
    """One of them frees the fence while the others are on their way to it."""
    with gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True)) as delegate:
        interpreter = allocated(delegate)
        y = ends(interpreter)[1]
        feed(interpreter, 2)
        with ThreadPoolExecutor(4) as pool:
            for _ in range(30):
                invocation = interpreter.invoke_async()
                waits = [pool.submit(invocation.wait) for _ in range(4)]
                reads = [pool.submit(invocation.get_tensor, y) for _ in range(4)]
                assert all(wait.result() for wait in waits)
                for read in reads:
                    close_to(read.result(), 2)


def test_a_fence_is_freed_between_the_question_and_the_wait(gpu: GpuContext) -> None:
    """As two threads wait for it: the calls of both come one after the other."""
    with gpu.guard():
        calls: list[Any] = []
        fence = gd.Fence(gpu.gl, lambda function: calls.append(function))
        fence.wait()
        fence.wait(0)
        assert [call() for call in calls] == [True, True]


OWN_THREAD = gd.GpuDelegateOptions(own_thread=True)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Runs begin once this is set, as on a driver that computes in the call that starts one."""
    event, run = threading.Event(), Session.run

    def wait_and_run(session: Session, inputs: Any) -> None:
        assert event.wait(60)
        run(session, inputs)

    monkeypatch.setattr(Session, "run", wait_and_run)
    yield event
    event.set()


def test_a_run_on_an_own_thread_returns_at_once(held: threading.Event) -> None:
    with gd.GpuDelegate(OWN_THREAD) as delegate:
        interpreter = allocated(delegate)
        y = ends(interpreter)[1]
        feed(interpreter, 2)
        first = interpreter.invoke_async()
        feed(interpreter, 3)  # does not change what is on its way
        second = interpreter.invoke_async()
        assert not first.done()
        assert not second.wait(0.01)
        held.set()
        close_to(first.get_tensor(y), 2)
        close_to(second.get_tensor(y), 3)
        assert second.done()
        close_to(interpreter.get_tensor(y), 3)


def test_what_is_left_of_a_timeout_is_for_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts: list[float | None] = []
    monkeypatch.setattr(gd.Fence, "wait", lambda _, timeout=None: timeouts.append(timeout) or True)
    with gd.GpuDelegate(OWN_THREAD) as delegate:
        interpreter = allocated(delegate)
        feed(interpreter, 2)
        assert interpreter.invoke_async().wait(60)
    assert timeouts[0] is not None
    assert 0 < timeouts[0] <= 60


@pytest.mark.parametrize("own_thread", [False, True])
def test_a_run_can_be_awaited(own_thread: bool) -> None:
    async def run(interpreter: gd.Interpreter) -> list[Any]:
        actual = []
        for scale in (2, 3):
            feed(interpreter, scale)
            invocation = await interpreter.invoke_async()
            assert invocation.done()
            actual.append(invocation.get_tensor(ends(interpreter)[1]))
        return actual

    with gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=own_thread)) as delegate:
        for actual, scale in zip(asyncio.run(run(allocated(delegate))), (2, 3), strict=True):
            close_to(actual, scale)


def test_a_coroutine_runs_others_while_it_waits(held: threading.Event) -> None:
    async def release() -> None:
        held.set()

    async def both(interpreter: gd.Interpreter) -> None:
        await asyncio.gather(interpreter.invoke_async(), release())

    with gd.GpuDelegate(OWN_THREAD) as delegate:
        asyncio.run(both(allocated(delegate)))


def test_a_function_is_called_when_a_run_is_done() -> None:
    with gd.GpuDelegate(OWN_THREAD) as delegate:
        interpreter = allocated(delegate)
        y = ends(interpreter)[1]
        feed(interpreter, 2)
        actual: list[Any] = []
        called = threading.Event()

        def note(invocation: gd.Invocation) -> None:
            actual.append((invocation.done(), invocation.get_tensor(y)))
            called.set()

        interpreter.invoke_async().add_done_callback(note)
        assert called.wait(60)
        ((done, result),) = actual
        assert done
        close_to(result, 2)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError()], ids=repr)
def test_what_a_called_function_raises_is_logged(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: gd.Invocation) -> None:
        raise error

    with gd.GpuDelegate(OWN_THREAD) as delegate:
        interpreter = allocated(delegate)
        interpreter.invoke_async().add_done_callback(fail)
        check(interpreter)
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is error


def test_a_function_is_called_on_the_own_thread_even_if_the_run_is_done_long_since() -> None:
    with gd.GpuDelegate(OWN_THREAD) as delegate:
        interpreter = allocated(delegate)
        threads: list[threading.Thread] = []
        for _ in range(20):
            invocation = interpreter.invoke_async()
            invocation.wait()
            invocation.add_done_callback(lambda _: threads.append(threading.current_thread()))
            interpreter.invoke()
        assert len(threads) == 20
        assert {thread.name for thread in threads} == {"gles_delegate"}


def test_waiting_for_a_run_is_cancelled_before_it_begins(held: threading.Event) -> None:
    async def wait(interpreter: gd.Interpreter) -> None:
        first = interpreter.invoke_async()
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(first, 0.01)
        tasks = [asyncio.ensure_future(as_coroutine(first)) for _ in range(3)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        held.set()
        assert await first is first

    with gd.GpuDelegate(OWN_THREAD) as delegate:
        interpreter = allocated(delegate)
        asyncio.run(wait(interpreter))
        check(interpreter)


async def as_coroutine(invocation: gd.Invocation) -> gd.Invocation:
    return await invocation


def test_waiting_for_a_run_is_cancelled_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, reached = threading.Event(), threading.Event()
    wait = gd.Fence._wait

    def wait_long(fence: gd.Fence, timeout: float | None) -> bool:
        waits.set()
        assert reached.wait(60)
        return wait(fence, timeout)

    async def cancel(interpreter: gd.Interpreter) -> None:
        task = asyncio.ensure_future(as_coroutine(interpreter.invoke_async()))
        await asyncio.to_thread(waits.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with gd.GpuDelegate(OWN_THREAD) as delegate:
        interpreter = allocated(delegate)
        with monkeypatch.context() as patch:
            patch.setattr(gd.Fence, "_wait", wait_long)
            asyncio.run(cancel(interpreter))
            reached.set()
        check(interpreter)


def test_a_run_that_is_done_is_cancelled_in_vain() -> None:
    async def cancel(interpreter: gd.Interpreter) -> None:
        invocation = interpreter.invoke_async()
        task = asyncio.ensure_future(as_coroutine(invocation))
        assert await task is invocation
        assert not task.cancel()

    with gd.GpuDelegate(OWN_THREAD) as delegate:
        interpreter = allocated(delegate)
        asyncio.run(cancel(interpreter))
        check(interpreter)


def test_the_end_of_a_loop_cancels_who_waits(held: threading.Event) -> None:
    async def begin(interpreter: gd.Interpreter) -> None:
        tasks.append(asyncio.ensure_future(as_coroutine(interpreter.invoke_async())))
        await asyncio.sleep(0.01)

    tasks: list[Any] = []
    with gd.GpuDelegate(OWN_THREAD) as delegate:
        interpreter = allocated(delegate)
        asyncio.run(begin(interpreter))
        assert tasks[0].cancelled()
        held.set()
        check(interpreter)


def test_loops_of_two_threads_wait_and_cancel(held: threading.Event) -> None:
    async def some(interpreter: gd.Interpreter) -> None:
        for i in range(20):
            invocation = interpreter.invoke_async()
            tasks = [asyncio.ensure_future(as_coroutine(invocation)) for _ in range(3)]
            await asyncio.sleep(0.001 * (i % 3))
            tasks[i % 3].cancel()
            held.set()
            assert await tasks[(i + 1) % 3] is invocation

    with gd.GpuDelegate(OWN_THREAD) as delegate:
        interpreter = allocated(delegate)
        with ThreadPoolExecutor(2) as pool:
            for loop in [pool.submit(asyncio.run, some(interpreter)) for _ in range(2)]:
                loop.result(60)
        check(interpreter)


def test_a_delegate_is_closed_while_coroutines_wait(held: threading.Event) -> None:
    async def close(delegate: gd.GpuDelegate, interpreter: gd.Interpreter) -> list[Any]:
        waiting = [as_coroutine(interpreter.invoke_async()) for _ in range(3)]
        task = asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.sleep(0.01)
        closing = asyncio.to_thread(delegate.close)
        held.set()
        await closing
        return await task

    with gd.GpuDelegate(OWN_THREAD) as delegate:
        results = asyncio.run(close(delegate, allocated(delegate)))
    for result in results:
        assert isinstance(result, gd.Invocation | gd.DelegateError)


def test_a_thread_that_ends_fails_what_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, held: threading.Event
) -> None:
    """Whatever ends the thread, nobody may wait forever."""
    do, ends_at = thread_module._do, 1

    def end(*job: Any) -> None:
        nonlocal ends_at
        ends_at -= 1
        do(*job)
        if not ends_at:
            raise SystemExit  # which ends a thread without a word

    others = {*threading.enumerate()}
    delegate = gd.GpuDelegate(OWN_THREAD)
    interpreter = allocated(delegate)
    with monkeypatch.context() as patch:
        patch.setattr(thread_module, "_do", end)
        patch.setattr(threading, "excepthook", lambda _: None)
        first, second = interpreter.invoke_async(), interpreter.invoke_async()
        assert not first.wait(0.01)
        held.set()
        with pytest.raises(gd.DelegateError, match="closed"):
            second.wait(60)
        for thread in {*threading.enumerate()} - others:
            thread.join(60)
    with pytest.raises(gd.DelegateError, match="closed"):
        interpreter.invoke()
    delegate.close()
    delegate.close()


def test_a_function_needs_an_own_thread(interpreter: gd.Interpreter) -> None:
    with pytest.raises(gd.DelegateError, match="own_thread=True"):
        interpreter.invoke_async().add_done_callback(print)


def test_what_keeps_a_run_from_starting_is_raised_by_who_waits() -> None:
    with gd.GpuDelegate(OWN_THREAD) as delegate:
        interpreter = allocated(delegate)
        invocation = interpreter.invoke_async(wait_for=12345)
        for wait in (invocation.wait, lambda: invocation.get_tensor(0), invocation.wait_on_gpu):
            with pytest.raises(ValueError, match="expected a Fence or a GLsync"):
                wait()
        interpreter.invoke()


@pytest.mark.mesa  # moderngl's clear needs glClearDepth, which ANGLE lacks
def test_a_window_draws_on_while_a_network_runs(held: threading.Event) -> None:
    """Frames of the app's context are counted while a run in a context beside it is on its way."""
    app = gd.EglContext()
    with app:
        ctx = moderngl.create_context(context=app, require=310)
        picture, mask = (ctx.buffer(reserve=64) for _ in range(2))
        screen = ctx.simple_framebuffer((64, 64))
        beside = gd.EglContext(share="current")
        with gd.GpuDelegate(OWN_THREAD, context=beside) as delegate:
            interpreter = allocated(delegate, negated((1, 2, 2, 4)))
            delegate.bind_buffer_to_tensor(0, picture)
            delegate.bind_buffer_to_tensor(1, mask)
            picture.write(np.full(16, 3, np.float32))
            fence = gd.Fence.of_current_context()
            run, frames = interpreter.invoke_async(wait_for=fence), 0
            while not run.done():
                screen.clear(frames % 2)
                ctx.finish()
                frames += 1
                if frames == 50:
                    held.set()
            run.wait_on_gpu()
            assert frames >= 50
            np.testing.assert_array_equal(np.frombuffer(mask.read(), np.float32), -3)
            assert ctx.error  # which clears that of moderngl on OpenGL ES
            fence.close()
    beside.release()
    app.release()


def test_no_context_to_fence() -> None:
    with pytest.raises(gd.ContextError, match="found none"):
        gd.Fence.of_current_context()
