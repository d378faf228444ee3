"""An interpreter whose delegate was closed, or lost its context, takes another one."""

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from tests.gl.test_faults import LOSSES
from tests.support.small import INPUT, allocated, check, expected, run, small_model

OWN_THREAD = gd.GpuDelegateOptions(own_thread=True)
LARGE = np.concatenate([INPUT, -INPUT])


def survive(
    content: bytes,
    x: Any,
    lose: Callable[..., None],
    options: gd.GpuDelegateOptions,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    """Run a model resized to `x`, lose the context, run it again; return the result of both."""
    delegate, another = gd.GpuDelegate(options), gd.GpuDelegate(options)
    interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
    source = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(source, x.shape)
    interpreter.allocate_tensors()
    before = run(interpreter, x)
    result = interpreter.tensor(interpreter.get_output_details()[0]["index"])
    with monkeypatch.context() as patch:
        lose(delegate, patch)
        with pytest.raises(gd.ContextLostError, match="modify_graph_with_delegate"):
            interpreter.invoke()
        with pytest.raises(ValueError, match="close it first"):
            interpreter.modify_graph_with_delegate(another)
        view = result()
        with suppress(gd.ContextLostError):
            delegate.close()
        interpreter.modify_graph_with_delegate(another)
        with pytest.raises(ValueError, match="close it first"):
            interpreter.modify_graph_with_delegate(gd.GpuDelegate())
        assert tuple(interpreter.get_input_details()[0]["shape"]) == x.shape
        with pytest.raises(RuntimeError, match=r"not ready|allocate_tensors"):
            interpreter.invoke()
        interpreter.allocate_tensors()
        np.testing.assert_array_equal(run(interpreter, x), before)
    gc.collect()
    np.testing.assert_array_equal(view, before)
    np.testing.assert_array_equal(result(), before)
    run(interpreter, np.zeros_like(x))
    assert (result() != before).any()
    np.testing.assert_array_equal(view, before)
    del view
    another.close()
    return before


@pytest.mark.parametrize("options", [gd.GpuDelegateOptions(), OWN_THREAD], ids=["here", "own"])
@pytest.mark.parametrize("lose", LOSSES)
def test_after_a_lost_context(
    lose: Callable[..., None], options: gd.GpuDelegateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = survive(small_model(), LARGE, lose, options, monkeypatch)
    np.testing.assert_allclose(result, expected(LARGE), rtol=1e-5, atol=1e-5)


def test_inputs_start_anew() -> None:
    with gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        check(interpreter)
    with gd.GpuDelegate() as delegate:
        interpreter.modify_graph_with_delegate(delegate)
        interpreter.allocate_tensors()
        np.testing.assert_array_equal(interpreter.get_tensor(0), np.zeros_like(INPUT))
        check(interpreter)


def test_what_is_bound_belongs_to_the_delegate(egl: gd.EglContext) -> None:
    with gd.GpuDelegate(context=egl) as delegate:
        delegate.bind_buffer_to_tensor(0, 1)
        interpreter = gd.Interpreter(model_content=small_model(), experimental_delegates=[delegate])
    with gd.GpuDelegate(context=egl) as delegate:
        interpreter.modify_graph_with_delegate(delegate)
        (result,) = interpreter.run({"x": INPUT}).values()
        np.testing.assert_allclose(result, expected(), rtol=1e-5, atol=1e-5)
    with gd.GpuDelegate(context=egl) as delegate:
        delegate.bind_buffer_to_tensor(0, 1)
        interpreter.modify_graph_with_delegate(delegate)
        with pytest.raises(ValueError, match="expected a buffer"):
            interpreter.run({})


def test_signature_runners_go_on() -> None:
    with gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        runner = interpreter.get_signature_runner("serve")
        wanted = runner(x=LARGE)["y"]
    with pytest.raises(gd.DelegateError, match=r"closed: .*Interpreter\.modify_graph"):
        runner(x=LARGE)
    with gd.GpuDelegate() as delegate:
        interpreter.modify_graph_with_delegate(delegate)
        assert tuple(runner.get_input_details()["x"]["shape"]) == LARGE.shape
        np.testing.assert_array_equal(runner(x=LARGE)["y"], wanted)


def test_a_delegate_that_was_passed_later_stays_open() -> None:
    with gd.Interpreter(model_content=small_model()) as interpreter:
        interpreter.allocate_tensors()
        check(interpreter)
        another = gd.GpuDelegate()
        with pytest.raises(ValueError, match="close it first"):
            interpreter.modify_graph_with_delegate(another)
        interpreter.close()
        interpreter.modify_graph_with_delegate(another)
        interpreter.allocate_tensors()
    check(interpreter)
    another.close()


def test_a_delegate_that_does_not_take_the_model_can_be_followed_by_another() -> None:
    with gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        interpreter.resize_tensor_input(0, LARGE.shape)
    failing = gd.GpuDelegate(gd.GpuDelegateOptions(device_index=99))
    for wrong, error in ((failing, gd.ContextError), (delegate, gd.DelegateError)):
        with pytest.raises(error, match=r"no device 99|is closed"):
            interpreter.modify_graph_with_delegate(wrong)
        with pytest.raises(gd.DelegateError, match="is closed"):
            interpreter.allocate_tensors()
    with gd.GpuDelegate() as delegate:
        interpreter.modify_graph_with_delegate(delegate)
        interpreter.allocate_tensors()
        check(interpreter, LARGE)


def test_another_delegate_waits_for_the_lock() -> None:
    """Threads that share an interpreter have one lock, whatever its delegate is."""
    delegate, another, last = [gd.GpuDelegate(OWN_THREAD) for _ in range(3)]
    interpreter = allocated(delegate)
    with ThreadPoolExecutor(1) as pool:
        with interpreter.exclusive():
            check(interpreter)
            delegate.close()
            changed = pool.submit(interpreter.modify_graph_with_delegate, another)
            with pytest.raises(NotYet):
                changed.result(0.1)
        changed.result(10)
        with interpreter.exclusive():
            another.close()
            interpreter.modify_graph_with_delegate(last)
            interpreter.allocate_tensors()
            checked = pool.submit(check, interpreter)
            with pytest.raises(NotYet):
                checked.result(0.1)
        checked.result(10)
    last.close()


def test_code_on_the_thread_of_another_delegate_passes_the_lock() -> None:
    asked: list[Any] = []

    def progress(done: int, total: int) -> None:
        with interpreter.exclusive():
            asked.append(interpreter.get_input_details())

    with gd.GpuDelegate(OWN_THREAD) as delegate:
        interpreter = allocated(delegate)
    with gd.GpuDelegate(OWN_THREAD, progress=progress) as another:
        interpreter.modify_graph_with_delegate(another)
        interpreter.allocate_tensors()
    assert asked
