"""Delegates of one context share programs and constants, and free them with the last user."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.gl.pool import ObjectPool
from tests.support.oracle import in_ours, run
from tests.support.tflite_builder import ModelBuilder

X = np.arange(64, dtype=np.float32).reshape(1, 4, 4, 4) / 64


def model(weight: float) -> bytes:
    b = ModelBuilder()
    x, bias = b.input(X.shape), b.constant([0.5] * 4)
    weights = b.constant(np.full((4, 3, 3, 4), weight, np.float32))
    y = b.op("CONV_2D", (x, weights, bias), [X.shape], stride_w=1, stride_h=1)
    return b.build([b.op("LOGISTIC", [y], [X.shape])])


def expected(weight: float) -> np.ndarray:
    with gd.GpuDelegate() as delegate:
        return run(in_ours(delegate, model(weight)), [X])[0]


def entries(egl: gd.EglContext) -> int:
    return len(ObjectPool.of(egl)._entries)


def test_one_model_twice_has_one_set_of_objects(egl: gd.EglContext) -> None:
    with gd.GpuDelegate(context=egl) as one:
        first = in_ours(one, model(0.1))
        count, memory = entries(egl), one.memory()
        assert count
        with gd.GpuDelegate(context=egl) as other:
            second = in_ours(other, model(0.1))  # other bytes of the same content
            assert entries(egl) == count
            assert other.memory() == memory
            np.testing.assert_array_equal(run(second, [X])[0], run(first, [X])[0])
        assert entries(egl) == count
        np.testing.assert_array_equal(run(first, [X])[0], expected(0.1))
    assert entries(egl) == 0


def test_models_whose_first_tensors_are_other_constants(egl: gd.EglContext) -> None:
    """Tensor 0 counts as any other does."""

    def scaled(factors: list[float]) -> bytes:
        b = ModelBuilder()
        constant = b.constant(np.float32(factors))
        return b.build([b.op("MUL", [b.input(X.shape), constant], [X.shape])])

    every = [[1, 2, 3, 4], [5, 6, 7, 8]]
    with ExitStack() as stack:
        for factors in every:
            delegate = stack.enter_context(gd.GpuDelegate(context=egl))
            (actual,) = run(in_ours(delegate, scaled(factors)), [X])
            np.testing.assert_array_equal(actual, X * np.float32(factors))


def test_the_first_is_closed_while_the_other_runs(egl: gd.EglContext) -> None:
    one, other = gd.GpuDelegate(context=egl), gd.GpuDelegate(context=egl)
    in_ours(one, model(0.1))
    second = in_ours(other, model(0.1))
    run(second, [X])
    one.close()
    np.testing.assert_array_equal(run(second, [X])[0], expected(0.1))
    second.resize_tensor_input(0, (2, 4, 4, 4))
    second.allocate_tensors()
    twice = run(second, [np.concatenate([X, X])])[0]
    np.testing.assert_allclose(twice, np.concatenate([expected(0.1)] * 2), atol=1e-6)
    other.close()
    assert entries(egl) == 0


def test_other_weights_are_other_constants(egl: gd.EglContext) -> None:
    weights = (0.1, -0.2, 0.3)
    with ExitStack() as stack:
        interpreters = [
            in_ours(stack.enter_context(gd.GpuDelegate(context=egl)), model(weight))
            for weight in weights
        ]
        for weight, interpreter in [*zip(weights, interpreters, strict=True)] * 2:
            np.testing.assert_array_equal(run(interpreter, [X])[0], expected(weight))
    assert entries(egl) == 0


def test_other_options(egl: gd.EglContext) -> None:
    fast = gd.GpuDelegateOptions(
        inference_preference=gd.InferencePreference.SUSTAINED_SPEED, precision_loss_allowed=True
    )
    with gd.GpuDelegate(context=egl) as one, gd.GpuDelegate(fast, context=egl) as other:
        first, second = in_ours(one, model(0.1)), in_ours(other, model(0.1))
        np.testing.assert_allclose(run(second, [X])[0], expected(0.1), atol=1e-2)
        other.close()
        np.testing.assert_array_equal(run(first, [X])[0], expected(0.1))
    assert entries(egl) == 0


def test_threads_by_turns(egl: gd.EglContext) -> None:
    """Threads of two delegates, which a lock lets use the context one after the other."""
    lock = threading.Lock()
    wanted = expected(0.1)

    def work() -> None:
        for _ in range(4):
            with lock, gd.GpuDelegate(context=egl) as delegate:
                interpreter = in_ours(delegate, model(0.1))
                np.testing.assert_array_equal(run(interpreter, [X])[0], wanted)

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(work) for _ in range(2)]:
            done.result()
    assert entries(egl) == 0


def test_own_threads_share(egl: gd.EglContext) -> None:
    own = gd.GpuDelegateOptions(own_thread=True)
    with gd.GpuDelegate(own, context=egl) as one, gd.GpuDelegate(own, context=egl) as other:
        first, second = in_ours(one, model(0.1)), in_ours(other, model(0.1))
        for interpreter in (first, second, first):
            np.testing.assert_array_equal(run(interpreter, [X])[0], expected(0.1))
        one.close()
        np.testing.assert_array_equal(run(second, [X])[0], expected(0.1))
    assert entries(egl) == 0


def forget(egl: gd.EglContext) -> None:
    in_ours(gd.GpuDelegate(context=egl), model(0.1))
    gc.collect()


def test_one_that_is_never_closed_leaves_the_other_its_objects(egl: gd.EglContext) -> None:
    with gd.GpuDelegate(context=egl) as other:
        second = in_ours(other, model(0.1))
        count = entries(egl)
        with pytest.warns(ResourceWarning):
            forget(egl)
        np.testing.assert_array_equal(run(second, [X])[0], expected(0.1))
        assert entries(egl) == count
    assert entries(egl) == 0


def test_contexts_of_delegates_share_nothing() -> None:
    with gd.GpuDelegate() as one, gd.GpuDelegate() as other:
        for delegate in (one, other):
            in_ours(delegate, model(0.1))
        assert one.gpu.pool is not other.gpu.pool
