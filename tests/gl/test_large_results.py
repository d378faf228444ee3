"""Results of a megabyte and more, which are copied once, into memory that is used again."""

import gc
import random
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.support.arrays import MANY_BYTES, Memory
from tests.support.app import App
from tests.support.force import force_driver
from tests.support.tflite_builder import ModelBuilder

WIDTH = 512
HALF = MANY_BYTES // 4 // WIDTH // 2
"""The height of half a megabyte, which is copied as small results are."""


def model() -> bytes:
    """-x and max(x, 0)."""
    builder, shape = ModelBuilder(), (1, 2 * HALF, WIDTH, 1)
    x = builder.input(shape)
    return builder.build([builder.op("NEG", [x], [shape]), builder.op("RELU", [x], [shape])])


def values(number: int, height: int = 2 * HALF) -> Any:
    ramp = np.arange(height * WIDTH, dtype=np.float32).reshape(1, height, WIDTH, 1)
    return ramp % 100 - 50 + number


@pytest.fixture(params=["on the GPU", "also on the CPU", "through mapped memory"])
def app(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "through mapped memory":
        is_like = partial(replace, reads_copies=True, writes_mapped=True)
        force_driver(monkeypatch, is_like)
    only_first = gd.GpuDelegateOptions(last_delegate_node_index=0)
    if request.param == "also on the CPU":
        pytest.importorskip("ai_edge_litert")
        app = App(only_first)
    else:
        app = App()
    yield app
    app.close()


@pytest.mark.parametrize("seed", range(16))
def test_any_calls(seed: int, app: App) -> None:
    choose, held = random.Random(seed), list[tuple[Any, Any]]()
    interpreter = app.interpreter(model())
    (x,), (y, z) = (
        [each["index"] for each in details]
        for details in (interpreter.get_input_details(), interpreter.get_output_details())
    )
    buffer = app.buffer(2 * MANY_BYTES)
    number, height, known = 0, 2 * HALF, dict[int, Any]()

    def run(start: bool) -> None:
        nonlocal number
        number += 1
        interpreter.set_tensor(x, values(number, height))
        if start:
            interpreter.invoke_async()
        else:
            interpreter.invoke()
        known[y], known[z] = -values(number, height), np.maximum(values(number, height), 0)

    kinds = ("run", "start", "get", "view", "set", "bind", "unbind", "resize", "call", "drop")
    for kind in choose.choices(kinds, (4, 2, 8, 2, 1, 1, 1, 1, 1, 2), k=60):
        index = choose.choice((y, z))
        if kind in ("run", "start"):
            run(kind == "start")
        elif kind == "get" and index in known:
            result = interpreter.get_tensor(index)
            np.testing.assert_array_equal(result, known[index])
            held.append((result, result.copy()))
            if choose.random() < 0.5:  # it is the caller's
                result[...] = held[-1][1][...] = choose.random()
        elif kind == "view" and index in known:
            np.testing.assert_array_equal(interpreter.tensor(index)(), known[index])
        elif kind == "set" and index in known and y not in app.delegate.bound.first.bindings:
            known[index] = np.full_like(known[index], number)
            interpreter.set_tensor(index, known[index])
        elif kind == "bind" and height == 2 * HALF:
            interpreter.get_tensor(z)  # results of a run that was started would be lost
            app.delegate.bind_buffer_to_tensor(y, buffer)
            known.pop(y, None)
        elif kind == "unbind" and y in app.delegate.bound.first.bindings:
            interpreter.get_tensor(z)
            app.delegate.unbind(y)
            known.pop(y, None)
        elif kind == "resize" and y not in app.delegate.bound.first.bindings:
            height = choose.choice((HALF - 1, 2 * HALF, 3 * HALF))
            interpreter.resize_tensor_input(x, (1, height, WIDTH, 1))
            interpreter.allocate_tensors()
            known.clear()
        elif kind == "call":
            number += 1
            results = interpreter.run({x: values(number, height)})
            known[y] = -values(number, height)
            known[z] = np.maximum(values(number, height), 0)
            for result, index in zip(reversed([*results.values()]), (z, y), strict=False):
                np.testing.assert_array_equal(result, known[index])
        elif kind == "drop":
            held = held[choose.randrange(len(held) + 1) :]
        for result, copy in held:
            np.testing.assert_array_equal(result, copy)


def test_a_loop_needs_no_new_memory() -> None:
    with gd.Interpreter(model_content=model()) as interpreter:
        addresses, result = set(), None
        for number in range(20):
            result = interpreter.run({0: values(number)})
            addresses |= {each.ctypes.data for each in result.values()}
        assert len(addresses) <= 6  # two outputs: held, being filled, free


def test_a_result_outlives_what_it_came_from() -> None:
    interpreter = gd.Interpreter(model_content=model())
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, values(1))
    interpreter.invoke()
    y, z = (each["index"] for each in interpreter.get_output_details())
    before = interpreter.get_tensor(y)[:, 1:]
    interpreter.close()
    after = [interpreter.get_tensor(z) for _ in range(2)]
    with pytest.raises(gd.DelegateError, match="closed"):
        interpreter.get_tensor(y)
    del interpreter
    gc.collect()
    np.testing.assert_array_equal(before, -values(1)[:, 1:])
    for each in after:
        np.testing.assert_array_equal(each, np.maximum(values(1), 0))


def test_threads_drop_results_while_others_are_made() -> None:
    with gd.Interpreter(model_content=model()) as interpreter:

        def work(number: int) -> None:
            for i in range(20):
                y, z = interpreter.run({0: values(number * 100 + i)}).values()
                np.testing.assert_array_equal(y, -values(number * 100 + i))
                np.testing.assert_array_equal(z, np.maximum(values(number * 100 + i), 0))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))


def test_memory_of_another_size_is_freed() -> None:
    """Once the inputs have another shape, no result has the old one's size."""
    with gd.Interpreter(model_content=model()) as interpreter:
        for number in range(2):
            result, other = interpreter.run({0: values(number)}).values()
        memory = result.base.base
        assert isinstance(memory, Memory)
        block = weakref.ref(memory._array.base)
        del result, other, memory
        assert block() is not None  # the next result would have it
        interpreter.resize_tensor_input(0, (1, 3 * HALF, WIDTH, 1))
        interpreter.allocate_tensors()
        gc.collect()
        assert block() is None
