"""Programs that are compiled in the background, and taken over between two runs."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.errors import OutOfGpuMemoryError
from gles_delegate.gl.buffers import Buffer
from gles_delegate.gl.functions import NUM_PROGRAM_BINARY_FORMATS, Functions
from gles_delegate.gl.program import Program
from gles_delegate.runtime.model import _tiers
from gles_delegate.runtime.prepared import Prepared
from gles_delegate.runtime.segment import Segment
from gles_delegate.runtime.session import Session
from tests.support.convolutions import (
    INPUT,
    background_threads,
    is_background,
    network,
    slowed,
    wait_for_background,
)
from tests.support.process import run_python
from tests.support.small import allocated

pytestmark = [pytest.mark.usefixtures("llvmpipe"), pytest.mark.background]
SECONDS = 120  # longer than a thread of low priority waits for a processor


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """The sessions that took over."""
    sessions: list[Session] = []
    step = Segment._continue_with

    def recorded(self: Segment, faster: Prepared) -> None:
        before = self.require().session
        step(self, faster)
        sessions.extend({self.require().session} - {before})

    monkeypatch.setattr(Segment, "_continue_with", recorded)
    return sessions


@pytest.fixture
def interpreter() -> Iterator[gd.Interpreter]:
    with gd.GpuDelegate() as delegate:
        yield prepared(delegate)


def prepared(delegate: gd.GpuDelegate, model: bytes | None = None) -> gd.Interpreter:
    interpreter = allocated(delegate, model or network())
    interpreter.set_tensor(0, INPUT)
    return interpreter


def resize(interpreter: gd.Interpreter, height: int) -> None:
    interpreter.resize_tensor_input(0, (1, height, 20, 8))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, INPUT[:, :height])


def result(interpreter: gd.Interpreter) -> Any:
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def job_of(interpreter: gd.Interpreter) -> Any:
    return interpreter._host.delegation._segments[0].upgrade.job


def run_until(done: Callable[[], object], run: Callable[[], Any]) -> list[Any]:
    """The results of runs until something is true, and of three more."""
    results, end = [], monotonic() + SECONDS
    while not done():
        results.append(run())
        assert monotonic() < end, "the faster programs did not take over"
        sleep(0.002)
    return results + [run() for _ in range(3)]


def tiles(session: Session) -> set[Any]:
    return {d.defines.get("PIXELS") for d in session.plan.dispatches}


def test_faster_programs_have_the_same_results(
    interpreter: gd.Interpreter, taken: list[Session]
) -> None:
    first = interpreter._host.delegation._segments[0].require().session
    for each in run_until(lambda: taken, lambda: result(interpreter)):
        np.testing.assert_array_equal(each, result(interpreter))
    assert len(taken) == 1
    assert any(isinstance(tile, int) and tile >= 4 for tile in tiles(taken[0]) - tiles(first))


def test_they_come_from_the_cache(tmp_path: Path) -> None:
    """The runs that load them compile none: they add no file."""
    code = """
import sys, threading, time, pathlib, gles_delegate as gd
folder = pathlib.Path(sys.argv[2])
def files():
    time.sleep(0.5)  # Mesa writes them on a thread
    return sum(each.is_file() and each.name != "index" for each in folder.rglob("*"))
interpreter = gd.Interpreter(model_path=sys.argv[1])
interpreter.allocate_tensors()
for _ in range(2):
    interpreter.invoke()
first = files()
for thread in threading.enumerate():
    if "upgrade" in thread.name:
        thread.join()
compiled = files()
while not interpreter._host.delegation._segments[0].upgrade.is_final:
    interpreter.invoke()
interpreter.invoke()
print(first > 0, compiled > 0, files() - compiled)
interpreter.close()
"""
    model, cache = tmp_path / "model.tflite", tmp_path / "cache"
    model.write_bytes(network())
    done = run_python(code, model, cache, MESA_SHADER_CACHE_DIR=str(cache))
    assert (done.stdout.split()[1:], done.stderr) == (["True", "0"], "")


def test_states_continue(taken: list[Session]) -> None:
    with gd.GpuDelegate() as delegate:
        interpreter = prepared(delegate, network(with_state=True))
        results = run_until(lambda: taken, lambda: result(interpreter))
    options = gd.GpuDelegateOptions(background_compilation=False)
    with gd.GpuDelegate(options) as delegate:
        interpreter = prepared(delegate, network(with_state=True))
        for each in results:
            np.testing.assert_array_equal(result(interpreter), each)
    assert not np.array_equal(results[0], results[1])


def test_progress_is_told_on_the_delegate_s_thread(taken: list[Session]) -> None:
    calls: list[tuple[int, int, int]] = []
    with gd.GpuDelegate(progress=lambda *c: calls.append((*c, threading.get_ident()))) as delegate:
        interpreter = prepared(delegate)
        first = len(calls)
        run_until(lambda: taken, lambda: result(interpreter))
    assert {each[2] for each in calls} == {threading.get_ident()}
    assert len(calls) > first
    assert calls[-1][0] == calls[-1][1]


@pytest.mark.parametrize("kind", ["one run", "switched off", "an app's context"])
def test_nothing_is_compiled(kind: str, taken: list[Session]) -> None:
    options = gd.GpuDelegateOptions(background_compilation=kind != "switched off")
    own = gd.EglContext() if kind == "an app's context" else None
    with gd.GpuDelegate(options, context=own) as delegate:
        interpreter = prepared(delegate)
        for _ in range(1 if kind == "one run" else 5):
            result(interpreter)
            assert not background_threads()
    assert not taken


class Stuck:
    """Programs that the background compiles until `go` is set."""

    def __init__(self) -> None:
        self.begun, self.go = list[object](), threading.Event()

    def begin(self, interpreter: gd.Interpreter) -> Any:
        return run_until(lambda: self.begun, lambda: result(interpreter))[-1]


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stuck]:
    stuck, finish = Stuck(), Program.finish

    def waiting(self: Program) -> None:
        if is_background() and not stuck.go.is_set():
            stuck.begun.append(self)
            assert stuck.go.wait(SECONDS)
        finish(self)

    monkeypatch.setattr(Program, "finish", waiting)
    yield stuck
    stuck.go.set()
    wait_for_background()


def end_of_job(stuck: Stuck, job: Any) -> None:
    """Let its program finish: the job must end, without a result."""
    stuck.go.set()
    wait_for_background()
    assert job.is_done
    assert job.upgraded is None


def test_close_does_not_wait_for_a_program(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread frees it, says so, and ends."""
    caplog.set_level("INFO", "gles_delegate")
    freed, release = list[object](), Program.release
    with gd.GpuDelegate() as delegate:
        interpreter = prepared(delegate)
        stuck.begin(interpreter)
        job = job_of(interpreter)
        start = monotonic()
    assert monotonic() - start < 1
    monkeypatch.setattr(Program, "release", lambda p: (freed.append(p), release(p)))
    end_of_job(stuck, job)
    assert stuck.begun[0] in freed
    assert "the faster programs are left out: the model was closed, resized or bound" in caplog.text


def test_a_delegate_that_is_not_closed_is_freed(stuck: Stuck) -> None:
    delegate = gd.GpuDelegate()
    interpreter = prepared(delegate)
    stuck.begin(interpreter)
    job = job_of(interpreter)
    with pytest.warns(ResourceWarning, match="not closed"):
        del delegate, interpreter
    gc.collect()
    end_of_job(stuck, job)


def test_resizing_does_not_wait_for_a_program(
    interpreter: gd.Interpreter, stuck: Stuck, taken: list[Session]
) -> None:
    """The new size has its own upgrade, after that program."""
    whole = stuck.begin(interpreter)
    for height in (12, 16):
        start = monotonic()
        resize(interpreter, height)
        small = result(interpreter)
        assert monotonic() - start < 2
        np.testing.assert_allclose(small[:, :8], whole[:, :8], rtol=1e-4, atol=1e-5)
    stuck.go.set()
    for each in run_until(lambda: taken, lambda: result(interpreter)):
        np.testing.assert_array_equal(each, small)
    assert len(taken) == 1
    resize(interpreter, 24)
    np.testing.assert_allclose(result(interpreter), whole, rtol=1e-4, atol=1e-5)


def test_binding_does_not_wait_for_a_program(stuck: Stuck, taken: list[Session]) -> None:
    with gd.GpuDelegate() as delegate:
        interpreter = prepared(delegate)
        whole = stuck.begin(interpreter)
        buffer = delegate.bound.thread.run(lambda: Buffer(delegate.gpu.gl, bytes(whole.nbytes)))
        start = monotonic()
        output = interpreter.get_output_details()[0]["index"]
        delegate.bind_buffer_to_tensor(output, buffer.name)
        np.testing.assert_array_equal(result(interpreter), whole)
        assert monotonic() - start < 2
        stuck.go.set()
        for each in run_until(lambda: taken, lambda: result(interpreter)):
            np.testing.assert_array_equal(each, whole)


@pytest.mark.parametrize("seed", range(6))
def test_any_calls(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run has its result, and no thread is left."""
    choose = random.Random(seed)
    slow = slowed(Program.finish, choose.choice((0, 0.01, 0.1)))
    monkeypatch.setattr(Program, "finish", slow)
    with gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=seed % 2 > 0)) as delegate:
        interpreter = prepared(delegate)
        output, pending = interpreter.get_output_details()[0]["index"], list[Any]()
        expected = {24: result(interpreter)}
        for kind in choose.choices(("run", "start", "pause", "resize"), (6, 6, 1, 1), k=60):
            height = interpreter.get_input_details()[0]["shape"][1]
            if kind == "run":
                np.testing.assert_array_equal(result(interpreter), expected[height])
            elif kind == "start":
                pending = [*pending[-1:], interpreter.invoke_async()]
                np.testing.assert_array_equal(pending[0].get_tensor(output), expected[height])
            elif kind == "pause":
                sleep(choose.choice((0.001, 0.3)))
            else:
                pending.clear()
                resize(interpreter, height := choose.choice((12, 24)))
                first = result(interpreter)
                np.testing.assert_array_equal(first, expected.setdefault(height, first))
    wait_for_background()


@pytest.mark.parametrize("error", [OutOfGpuMemoryError("x"), gd.ShaderError("x"), MemoryError()])
@pytest.mark.parametrize("place", ["while compiling", "while taking over", "without a thread"])
def test_after_an_error_the_first_programs_stay(
    interpreter: gd.Interpreter, monkeypatch: pytest.MonkeyPatch, error: Exception, place: str
) -> None:
    first, finish = result(interpreter), Program.finish

    def fail(self: Program) -> None:
        if is_background() == (place == "while compiling"):
            raise error
        finish(self)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Program, "finish", fail)
    if place == "without a thread":
        monkeypatch.setattr(threading.Thread, "start", refuse)
    segment = interpreter._host.delegation._segments[0]
    before = segment.require()
    for each in run_until(lambda: segment.upgrade.is_final, lambda: result(interpreter)):
        np.testing.assert_array_equal(each, first)
    assert segment.require() is before


ENDS = """
import ctypes, sys, threading, time
libc = ctypes.CDLL(None)
if sys.argv[3] == "stuck" and hasattr(libc, "on_exit"):
    libc.on_exit(libc.abort, None)  # C's exit functions must not run
import gles_delegate as gd
from gles_delegate.gl.functions import NUM_PROGRAM_BINARY_FORMATS, Functions
from gles_delegate.gl.program import Program
from gles_delegate.runtime.model import _tiers
finish, begun, stuck = Program.finish, threading.Event(), sys.argv[3] == "stuck"
def finish_late(program):
    if "upgrade" in threading.current_thread().name:
        begun.set()
        time.sleep(60 * stuck)
    finish(program)
Program.finish = finish_late
interpreter = gd.Interpreter(model_path=sys.argv[1])
interpreter.allocate_tensors()
for _ in range(int(sys.argv[2])):
    interpreter.invoke()
if sys.argv[3]:
    begun.wait()
print("the end", time.monotonic())
sys.exit(3)
"""


@pytest.mark.parametrize(("runs", "kind"), [(1, ""), (5, ""), (60, ""), (3, "begun"), (3, "stuck")])
def test_a_process_ends_meanwhile(tmp_path: Path, runs: int, kind: str) -> None:
    """Soon, with its status and its output."""
    model = tmp_path / "model.tflite"
    model.write_bytes(network())
    done = run_python(ENDS, model, runs, kind, MESA_SHADER_CACHE_DIR=str(tmp_path / "cache"))
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith("the end")
    assert monotonic() - float(done.stdout.split()[-1]) < 10


def test_where_programs_have_no_form_to_keep_the_first_ones_are_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    integer = Functions.integer

    def without_formats(self: Functions, name: int, index: int | None = None) -> int:
        return 0 if name == NUM_PROGRAM_BINARY_FORMATS else integer(self, name, index)

    with gd.GpuDelegate() as delegate:
        allocated(delegate)
        assert delegate._thread
        assert _tiers(delegate._thread, delegate.options)[1] is not None
        monkeypatch.setattr(Functions, "integer", without_formats)
        assert _tiers(delegate._thread, delegate.options)[1] is None
