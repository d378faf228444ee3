"""`GpuDelegate.memory`: what it counts, and when."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.gl.buffers import Buffer
from gles_delegate.gl.watches import buffer_size
from tests.gl.test_binding import ends
from tests.support.app import App
from tests.support.command import call_json, saved
from tests.support.force import force_driver
from tests.support.oracle import in_litert, in_ours
from tests.support.small import allocated, expected, run, small_model, with_a_detour

TEXEL = 16


@pytest.fixture
def app() -> Iterator[App]:
    app = App(model=small_model())
    yield app
    app.close()


SPARE: dict[int, int] = {}
"""Bytes behind the texels of a buffer, which a report leaves out, by its GL name."""


@pytest.fixture(autouse=True)
def spare_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    make, release = Buffer.__init__, Buffer.release

    def gone(self: Buffer) -> None:
        SPARE.pop(self.name, None)
        release(self)

    def noted(self: Buffer, gl: Any, data: Any, spare: int = 0) -> None:
        make(self, gl, data, spare)
        SPARE[self.name] = spare

    SPARE.clear()
    monkeypatch.setattr(Buffer, "__init__", noted)
    monkeypatch.setattr(Buffer, "release", gone)


def buffer_bytes(app: App) -> int:
    """Bytes of all buffers of the app's context, without `SPARE` ones."""
    gpu = app.delegate.gpu
    with gpu.guard():
        buffers = [name for name in range(1, 200) if gpu.gl.glIsBuffer(name)]
        return sum(buffer_size(gpu, name)[1] - SPARE.get(name, 0) for name in buffers)


def test_every_buffer_is_counted_once(app: App) -> None:
    assert app.delegate.memory() == gd.MemoryReport()
    interpreter = app.interpreter(small_model())
    before = app.delegate.memory()
    assert before.readback == 0
    assert before.total - before.programs == buffer_bytes(app)
    assert min(before.arena, before.inputs, before.constants, before.programs) > 0
    interpreter.invoke_async().wait()
    after = app.delegate.memory()
    assert after.readback == 2 * 6 * TEXEL  # 21 elements of each of the last two runs
    assert after.total - after.programs == buffer_bytes(app)


def test_what_is_mapped_may_be_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    force_driver(monkeypatch, lambda driver: replace(driver, reads_copies=True))
    app = App(model=small_model())
    try:
        interpreter = app.interpreter(small_model())
        np.testing.assert_allclose(run(interpreter), expected(), rtol=1e-4, atol=1e-4)
        after = app.delegate.memory()
        assert after.readback == 6 * TEXEL
        assert after.total - after.programs == buffer_bytes(app)
        assert np.array_equal(
            interpreter.invoke_async().get_tensor(ends(interpreter)[1]), run(interpreter)
        )
        assert app.delegate.memory().readback == 3 * 6 * TEXEL
    finally:
        app.close()


def test_memory_grows_with_the_shapes(app: App) -> None:
    interpreter = app.interpreter(small_model())
    small = app.delegate.memory()
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, (300, 5))
    assert app.delegate.memory() == small
    interpreter.allocate_tensors()
    large = app.delegate.memory()
    assert large.constants == small.constants
    assert large.inputs == 300 * 5 * 4
    assert large.arena > small.arena
    assert large.total - large.programs == buffer_bytes(app)


def test_what_the_app_binds_is_listed_and_not_counted(app: App) -> None:
    own = app.interpreter(small_model())
    index = own.get_input_details()[0]["index"]
    buffer = app.buffer(np.zeros(300, np.float32))
    app.delegate.bind_buffer_to_tensor(index, buffer, offset=256)
    bound = app.delegate.memory()
    assert bound.bound == {index: f"{256 + 15 * 4} bytes of the buffer {buffer.glo}"}
    assert bound.total - bound.programs == buffer_bytes(app) - buffer.size
    assert f"tensor {index} is bound to 316 bytes of the buffer {buffer.glo}" in str(bound)
    app.delegate.unbind(index)
    assert not app.delegate.memory().bound


def test_nothing_is_held_after_the_end() -> None:
    delegate = gd.GpuDelegate()
    interpreter = gd.Interpreter(model_content=small_model(), experimental_delegates=[delegate])
    assert delegate.memory().total == 0
    interpreter.allocate_tensors()
    assert delegate.memory().total > 0
    delegate.close()
    assert delegate.memory() == gd.MemoryReport()


@pytest.mark.parametrize("host", [in_ours, in_litert])
def test_memory_of_several_segments(host: Callable[..., Any]) -> None:
    sketch, content = with_a_detour()
    totals = []
    for partitions in (1, 2):
        options = gd.GpuDelegateOptions(max_delegated_partitions=partitions)
        with gd.GpuDelegate(options, model=content) as delegate:
            interpreter = host(delegate, content)
            interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sketch.feeds[0])
            interpreter.invoke()
            totals.append(delegate.memory().inputs)
    elements = sketch.feeds[0].nbytes
    padded = -(-elements // TEXEL) * TEXEL
    assert totals == [padded, 3 * padded]


def test_inspect_tells_the_same(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.tflite", small_model())
    (segment,) = call_json("inspect", path, "--device", 0)["segments"]
    with gd.GpuDelegate() as delegate:
        allocated(delegate)
        memory = delegate.memory()
    assert memory.arena + memory.inputs == segment["activation_bytes"]
    assert memory.constants == segment["constant_bytes"]
