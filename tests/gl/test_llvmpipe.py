"""Measures for llvmpipe only."""

import ctypes
import os
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread

import moderngl
import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.device.profiles import LLVMPIPE, TileSearch
from gles_delegate.gl import llvmpipe
from gles_delegate.gl.context import OUTPUT_BLOCK, GpuContext
from gles_delegate.gl.egl import current_context
from tests.support.convolutions import network
from tests.support.force import force_profile
from tests.support.process import run_python
from tests.support.sketch import Sketch
from tests.support.small import allocated, expected, small_model

pytestmark = pytest.mark.usefixtures("llvmpipe")


def used(gpu: GpuContext, number: int) -> tuple[list[list[int]], list[int]]:
    """The contexts that used each of `number` programs, and the progress that was reported."""
    contexts: list[list[int]] = [[] for _ in range(number)]

    def use(here: list[int]) -> Callable[[], None]:
        return lambda: here.append(current_context())

    progress: list[int] = []
    with gpu.guard():
        gpu.run_trials([use(here) for here in contexts], progress.append)
        (own,) = {current_context()}
    assert all(here[-1] == own for here in contexts)
    return contexts, progress


def test_every_program_is_used_in_the_own_context(gpu: GpuContext) -> None:
    contexts, progress = used(gpu, 50)
    assert all(len(here) == 2 for here in contexts)
    assert progress[-1] == 50
    assert progress == sorted(set(progress))


def test_progress_starts_at_0_where_other_threads_are_faster(
    gpu: GpuContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Thread.start

    def finish(thread: Thread) -> None:
        start(thread)
        thread.join()

    monkeypatch.setattr(gpu.gl, "integer", lambda name: 1)
    monkeypatch.setattr(Thread, "start", finish)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(4))
    assert used(gpu, 5)[1] == [0, 5]
    assert used(gpu, 0)[1] == [0]


def test_no_other_context_compiles_without_a_shader_cache(
    gpu: GpuContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu.gl, "integer", lambda name: 0)
    monkeypatch.setattr(llvmpipe, "EglContext", lambda share: pytest.fail("a second context"))
    contexts, _ = used(gpu, 3)
    assert all(len(set(here)) == 1 for here in contexts)


def test_compilation_goes_on_where_no_other_context_is_to_be_had(
    gpu: GpuContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(share: object) -> None:
        raise gd.ContextError("no more contexts")

    monkeypatch.setattr(llvmpipe, "EglContext", refuse)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(4))
    assert len(used(gpu, 3)[0]) == 3


LIMITED = """
import os, resource, sys, time
import gles_delegate as gd
def limit(megabytes):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), -1))
with gd.Interpreter(sys.argv[1]) as interpreter:
    interpreter.allocate_tensors()
    interpreter.invoke()
    limit(20)
    for _ in range(10):
        interpreter.invoke()
        time.sleep(0.02)
    assert interpreter._host.delegation.thread.run(lambda: True)
"""


def test_nothing_compiles_where_llvm_would_abort(tmp_path: Path) -> None:
    """20 MB of address space are too few for the faster programs, which are left out."""
    model = tmp_path / "model.tflite"
    model.write_bytes(network())
    done = run_python(LIMITED, model, MESA_SHADER_CACHE_DIR=str(tmp_path / "cache"))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("megabytes", [100, 2000])
def test_compiling_threads_need_address_space(
    gpu: GpuContext, monkeypatch: pytest.MonkeyPatch, megabytes: int
) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one processor")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (megabytes << 20)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (most, most))
    started: list[Thread] = []
    start = Thread.start
    monkeypatch.setattr(Thread, "start", lambda thread: (started.append(thread), start(thread)))
    used(gpu, 50)
    assert bool(started) == (megabytes == 2000)


def test_what_fails_in_the_own_context_stops_the_others(gpu: GpuContext) -> None:
    def fail(done: int) -> None:
        raise KeyboardInterrupt

    with gpu.guard(), pytest.raises(KeyboardInterrupt):
        gpu.run_trials([lambda: None] * 10, fail)


def test_compiling_writes_into_no_buffer() -> None:
    with gd.EglContext() as egl:
        ctx = moderngl.create_context(context=egl, require=310)  # type: ignore[arg-type]
        ctx.clear_errors()
        buffer = ctx.buffer(b"\x7f" * 84)
        buffer.bind_to_storage_buffer(OUTPUT_BLOCK)
        with gd.GpuDelegate(context=egl) as delegate:
            interpreter = gd.Interpreter(
                model_content=small_model(), experimental_delegates=[delegate]
            )
            (y,) = interpreter.get_output_details()
            delegate.bind_buffer_to_tensor(y["index"], buffer)
            interpreter.allocate_tensors()
            assert buffer.read() == b"\x7f" * 84
            (x,) = interpreter.get_input_details()
            interpreter.set_tensor(x["index"], np.ones((3, 5), np.float32))
            interpreter.invoke()
            result = np.frombuffer(buffer.read(), np.float32).reshape(3, 7)
            np.testing.assert_allclose(result, expected(np.ones((3, 5), np.float32)), atol=1e-5)


def gflops(channels: int = 128) -> float:
    """The best time of several runs of a pointwise convolution."""
    rng = np.random.default_rng(0)
    s = Sketch(rng)
    weights = s.constant(rng.standard_normal((channels, 1, 1, channels)).astype(np.float32))
    x = s.input((1, 40, 40, channels))
    y = s.op("CONV_2D", [x, weights], [(1, 40, 40, channels)], stride_w=1, stride_h=1)
    with gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate, s.build([y]))
        interpreter.invoke()
        return max(
            time.flops / time.seconds / 1e9
            for _ in range(10)
            for time in delegate.profile()
            if time.shader == "conv_2d"
        )


def test_register_tiles_are_in_registers(gpu: GpuContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile whose sums the compiler keeps in memory is slower than one of a single texel."""
    tiled = gflops()
    force_profile(monkeypatch, replace(LLVMPIPE, searches=(TileSearch(1, 1, 1),)))
    assert tiled > 1.5 * gflops()


def without_executable_memory() -> None:
    if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):  # PR_SET_MDWE, of Linux 6.3
        print("there is no such setting")
        return
    with pytest.raises(gd.ContextError, match=r"may become executable.*MemoryDenyWriteExecute"):
        gd.Interpreter(model_content=small_model())
    assert "MemoryDenyWriteExecute" in gd.CompatibilityList().reason


def test_without_executable_memory_llvmpipe_is_refused() -> None:
    """LLVM would end the process."""
    child = run_python(
        "from tests.gl.test_llvmpipe import *; without_executable_memory()",
        LIBGL_ALWAYS_SOFTWARE="1",
    )
    assert child.returncode == 0, child.stderr
