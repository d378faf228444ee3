"""Programs that are compiled in the background, and taken over between two runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import pbkdf2_hmac
from pathlib import Path
from threading import Lock
from time import monotonic, sleep, thread_time
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.errors import OutOfGpuMemoryError
from gles_delegate.gl.buffers import Buffer
from gles_delegate.gl.program import Program
from gles_delegate.runtime import upgrade
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

pytestmark = [pytest.mark.usefixtures("gl"), pytest.mark.background]

SECONDS = 120
"""Longer than a thread of low priority waits for a processor."""


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[Session]:
    """The final sessions that took over."""
    sessions: list[Session] = []
    adopt = Segment._adopt

    def recorded(self: Segment, session: Session) -> None:
        adopt(self, session)
        sessions.append(session)

    monkeypatch.setattr(Segment, "_adopt", recorded)
    return sessions


@pytest.fixture
def interpreter() -> Iterator[gd.Interpreter]:
    with gd.GpuDelegate() as delegate:
        yield prepared(delegate)


def prepared(delegate: gd.GpuDelegate, model: bytes | None = None) -> gd.Interpreter:
    content = model or network()
    interpreter = allocated(delegate, content)
    interpreter.set_tensor(0, INPUT)
    return interpreter


def result(interpreter: gd.Interpreter) -> Any:
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def run_until(interpreter: gd.Interpreter, taken: list[Session]) -> Any:
    """Run until a session has taken over; return the last result."""
    end = monotonic() + SECONDS
    while not taken:
        last = result(interpreter)
        assert monotonic() < end, "the final programs did not take over"
        sleep(0.002)
    return last


def test_the_results_are_the_same(interpreter: gd.Interpreter, taken: list[Session]) -> None:
    first = result(interpreter)
    np.testing.assert_array_equal(run_until(interpreter, taken), first)
    np.testing.assert_array_equal(result(interpreter), first)
    assert len(taken) == 1


def test_states_continue(taken: list[Session]) -> None:
    results: list[Any] = []
    with gd.GpuDelegate() as delegate:
        interpreter = prepared(delegate, network(with_state=True))
        while len(taken) < 1 or len(results) < 5:
            results.append(result(interpreter))
            sleep(0.002)
        results += [result(interpreter) for _ in range(3)]
    options = gd.GpuDelegateOptions(background_compilation=False)
    with gd.GpuDelegate(options) as delegate:
        interpreter = prepared(delegate, network(with_state=True))
        for each in results:
            np.testing.assert_array_equal(result(interpreter), each)
    assert not np.array_equal(results[0], results[1])


def test_two_models_at_once(taken: list[Session]) -> None:
    with gd.GpuDelegate() as one, gd.GpuDelegate() as other:
        interpreters = [prepared(one), prepared(other)]
        first, end = result(interpreters[0]), monotonic() + SECONDS
        while len(taken) < 2:
            for interpreter in interpreters:
                np.testing.assert_array_equal(result(interpreter), first)
            assert monotonic() < end
            sleep(0.002)


def test_with_a_folder(taken: list[Session], tmp_path: Any) -> None:
    """The next start compiles neither the first nor the final programs."""
    options = gd.GpuDelegateOptions(serialization_dir=tmp_path)
    for start in range(2):
        with gd.GpuDelegate(options) as delegate:
            interpreter = prepared(delegate)
            first = result(interpreter)
            np.testing.assert_array_equal(run_until(interpreter, taken), first)
            programs = taken.pop()._shared.programs._shared.values()
            assert {each.program.is_from_binary for each in programs} == {start > 0}


def test_the_programs_differ(interpreter: gd.Interpreter, taken: list[Session]) -> None:
    run_until(interpreter, taken)
    tiles = [d.defines.get("PIXELS") for d in taken[0].plan.dispatches]
    assert any(isinstance(tile, int) and tile >= 4 for tile in tiles)


def test_one_run_compiles_nothing_more(
    interpreter: gd.Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr(upgrade.Upgrades, "start", lambda self, build: started.append(build))
    result(interpreter)
    assert not started


def test_progress_tells_of_both(taken: list[Session]) -> None:
    calls: list[tuple[int, int]] = []
    here = threading.get_ident()

    def progress(done: int, total: int) -> None:
        assert threading.get_ident() == here
        calls.append((done, total))

    with gd.GpuDelegate(progress=progress) as delegate:
        interpreter = prepared(delegate)
        first = len(calls)
        assert calls[-1][0] == calls[-1][1]
        run_until(interpreter, taken)
        assert calls[first:][-1][0] == calls[first:][-1][1]


def test_it_can_be_switched_off(taken: list[Session]) -> None:
    options = gd.GpuDelegateOptions(background_compilation=False)
    with gd.GpuDelegate(options) as delegate:
        interpreter = prepared(delegate)
        threads = threading.active_count()
        for _ in range(5):
            result(interpreter)
        assert threading.active_count() == threads
    assert not taken


def test_not_in_an_app_s_context(taken: list[Session]) -> None:
    with gd.EglContext() as context, gd.GpuDelegate(context=context) as delegate:
        interpreter = prepared(delegate)
        for _ in range(5):
            result(interpreter)
        assert not background_threads()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when the background compiles a program, which takes a while."""
    begun = threading.Event()
    finish = slowed(Program.finish, 0.2)

    def waiting(self: Program) -> None:
        if is_background():
            begun.set()
        finish(self)

    monkeypatch.setattr(Program, "finish", waiting)
    return begun


def begin(interpreter: gd.Interpreter, begun: threading.Event) -> Any:
    """Run until the background compiles."""
    for _ in range(3):
        last = result(interpreter)
    assert begun.wait(SECONDS)
    return last


def test_closed_in_the_middle(slow: threading.Event) -> None:
    with gd.GpuDelegate() as delegate:
        begin(prepared(delegate), slow)
    wait_for_background()


def test_lost_in_the_middle(slow: threading.Event) -> None:
    """A context that was reset cannot be entered to close, but its threads end."""
    delegate = gd.GpuDelegate()
    begin(prepared(delegate), slow)
    delegate._thread.gpu.gl.lost = "a test"  # type: ignore[union-attr]
    with pytest.raises(gd.ContextLostError):
        delegate.close()
    wait_for_background()


def test_resized_in_the_middle(
    interpreter: gd.Interpreter, slow: threading.Event, taken: list[Session]
) -> None:
    begin(interpreter, slow)
    interpreter.resize_tensor_input(0, (1, 12, 9, 8))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, INPUT[:, :12, :9])
    small = result(interpreter)
    np.testing.assert_array_equal(run_until(interpreter, taken), small)
    interpreter.resize_tensor_input(0, INPUT.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, INPUT)
    whole = result(interpreter)
    np.testing.assert_allclose(whole[:, :9, :6], small[:, :9, :6], rtol=1e-4, atol=1e-5)
    assert len(taken) == 1


def test_no_thread_is_to_be_had(
    interpreter: gd.Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first programs stay."""
    first = result(interpreter)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(5):
        np.testing.assert_array_equal(result(interpreter), first)
    assert interpreter._host.delegation._segments[0].is_final


class Stuck:
    """A program that the background compiles until `go` is set."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.go.wait(SECONDS)


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stuck]:
    stuck, finish = Stuck(), Program.finish

    def waiting(self: Program) -> None:
        if is_background():
            stuck()
        finish(self)

    monkeypatch.setattr(Program, "finish", waiting)
    yield stuck
    stuck.go.set()
    wait_for_background()


def test_close_does_not_wait_for_a_program(stuck: Stuck, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread frees the programs."""
    freed: list[threading.Thread] = []
    release = Program.release

    def recorded(self: Program) -> None:
        freed.append(threading.current_thread())
        release(self)

    monkeypatch.setattr(Program, "release", recorded)
    with gd.GpuDelegate() as delegate:
        begin(prepared(delegate), stuck.begun)
        start = monotonic()
    assert monotonic() - start < 1
    (thread,) = background_threads()
    assert not freed
    stuck.go.set()
    wait_for_background()
    assert {*freed} == {thread}
    assert delegate._thread.gpu.egl._native is None  # type: ignore[union-attr]


def test_resizing_does_not_wait_for_a_program(
    interpreter: gd.Interpreter, stuck: Stuck, taken: list[Session]
) -> None:
    """The thread ends alone with its objects; the delegate has others, and an upgrade of them."""
    delegation = interpreter._host.delegation
    gl, bound = delegation.thread.gpu.gl, delegation._context.shared
    whole, first = begin(interpreter, stuck.begun), bound.programs
    for size in (12, 24):
        start = monotonic()
        interpreter.resize_tensor_input(0, (1, size, 20, 8))
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, INPUT[:, :size])
        small = result(interpreter)
        assert monotonic() - start < 3
        np.testing.assert_allclose(small[:, :8], whole[:, :8], rtol=1e-4, atol=1e-5)
    assert bound.programs is not first
    assert len(first._shared) > 0
    stuck.go.set()
    np.testing.assert_array_equal(run_until(interpreter, taken), small)
    wait_for_background()
    assert not first._shared
    names = [each.program.name for each in bound.programs._shared.values()]
    assert delegation.thread.run(lambda: all(map(gl.glIsProgram, names)))


def test_binding_does_not_wait_for_a_program(stuck: Stuck, taken: list[Session]) -> None:
    with gd.GpuDelegate() as delegate:
        interpreter = prepared(delegate)
        whole = begin(interpreter, stuck.begun)
        output = interpreter.get_output_details()[0]["index"]
        buffer = delegate.bound.thread.run(lambda: Buffer(delegate.gpu.gl, bytes(whole.nbytes)))
        start = monotonic()
        delegate.bind_buffer_to_tensor(output, buffer.name)
        np.testing.assert_array_equal(result(interpreter), whole)
        assert monotonic() - start < 3
        stuck.go.set()
        np.testing.assert_array_equal(run_until(interpreter, taken), whole)


BUSY = """
import time
end = time.monotonic() + 100
while time.monotonic() < end:
    pass
"""


def test_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of a second, of low priority beside others, takes many."""
    begun, finish = threading.Event(), Program.finish

    def long(self: Program) -> None:
        if is_background():
            begun.set()
            end = thread_time() + 1
            while thread_time() < end:
                pbkdf2_hmac("sha256", b"", b"", 20000)  # without Python's lock
        finish(self)

    monkeypatch.setattr(Program, "finish", long)
    others = [
        subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2 * (os.cpu_count() or 1))
    ]
    try:
        seconds = []
        delegate = gd.GpuDelegate()
        interpreter = prepared(delegate)
        begin(interpreter, begun)
        start = monotonic()
        interpreter.resize_tensor_input(0, (1, 12, 9, 8))
        interpreter.allocate_tensors()
        seconds.append(monotonic() - start)
        interpreter.set_tensor(0, INPUT[:, :12, :9])
        begin(interpreter, begun)
        start = monotonic()
        delegate.close()
        seconds.append(monotonic() - start)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert max(seconds) < 3, seconds
    wait_for_background()


def test_sessions_that_were_not_taken_over_are_gone(
    taken: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[upgrade.Upgrade | None] = []
    start = upgrade.Upgrades.start

    def recorded(self: upgrade.Upgrades, build: upgrade.Build) -> upgrade.Upgrade | None:
        started.append(start(self, build))
        return started[-1]

    monkeypatch.setattr(upgrade.Upgrades, "start", recorded)
    with gd.GpuDelegate() as delegate:
        interpreter = prepared(delegate)
        for number, size in enumerate((12, 24, 12), 1):
            while len(started) < number:  # another run would take over
                result(interpreter)
            for thread in background_threads():
                thread.join(SECONDS)
            interpreter.resize_tensor_input(0, (1, size, 20, 8))
            interpreter.allocate_tensors()
            interpreter.set_tensor(0, INPUT[:, :size])
        assert not taken
        held = delegate._thread._held.objects  # type: ignore[union-attr]
        assert sum(isinstance(each, Session) for each in held) == 1


def test_a_lost_delegate_frees_both(slow: threading.Event) -> None:
    """Without close(), the thread ends, and the garbage collector frees the sessions."""
    delegate = gd.GpuDelegate()
    begin(prepared(delegate), slow)
    wait_for_background()
    with pytest.warns(ResourceWarning, match="not closed"):
        del delegate


def test_asynchronous_results_of_the_earlier_programs_stay(
    interpreter: gd.Interpreter, taken: list[Session]
) -> None:
    output = interpreter.get_output_details()[0]["index"]
    expected = result(interpreter)
    end = monotonic() + SECONDS
    runs = [interpreter.invoke_async()]
    while len(taken) < 1:
        interpreter.set_tensor(0, INPUT)
        runs.append(interpreter.invoke_async())
        sleep(0.002)
        assert monotonic() < end
        np.testing.assert_array_equal(runs[-2].get_tensor(output), expected)
    np.testing.assert_array_equal(runs[-1].get_tensor(output), expected)
    for _ in range(3):
        interpreter.invoke_async().wait()


@pytest.mark.parametrize(
    "error", [OutOfGpuMemoryError("full"), gd.ShaderError("no"), MemoryError()]
)
def test_an_error_leaves_the_first_programs(
    interpreter: gd.Interpreter, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    first = result(interpreter)

    def fail(self: Program) -> None:
        raise error

    monkeypatch.setattr(Program, "finish", fail)
    monkeypatch.setattr(Program, "start", fail)
    for _ in range(40):
        np.testing.assert_array_equal(result(interpreter), first)
        sleep(0.01)


def test_any_thread_of_its_own(taken: list[Session]) -> None:
    """Two threads run while the final programs take over, and check each result."""
    options = gd.GpuDelegateOptions(own_thread=True)
    with gd.GpuDelegate(options) as delegate, ThreadPoolExecutor(2) as pool:
        interpreter = prepared(delegate)
        output = interpreter.get_output_details()[0]["index"]
        expected, end = result(interpreter), monotonic() + SECONDS

        turn = Lock()  # results of the last two runs alone can be read

        def run() -> None:
            is_last = False
            while not is_last:
                assert monotonic() < end, "the final programs did not take over"
                is_last = bool(taken)
                with turn:
                    actual = interpreter.invoke_async().get_tensor(output)
                np.testing.assert_array_equal(actual, expected)
                sleep(0.001)

        for future in [pool.submit(run) for _ in range(2)]:
            future.result()
        assert len(taken) == 1


ENDS = """
import sys, numpy as np, gles_delegate as gd
delegate = gd.GpuDelegate()
interpreter = gd.Interpreter(model_path=sys.argv[1], experimental_delegates=[delegate])
interpreter.allocate_tensors()
for _ in range(int(sys.argv[2])):
    interpreter.invoke()
"""
COUNTS = """
import atexit, threading, time
begun, ended = [], []
atexit.register(lambda: print(len(begun), sum(begun)))
from gles_delegate.gl.program import Program
finish = Program.finish
def slow(program):
    if threading.current_thread() is not threading.main_thread():
        begun.append(bool(ended))
        time.sleep(0.3)
    finish(program)
Program.finish = slow
"""
WAITS = """
while len(begun) < 2:
    time.sleep(0.01)
ended.append(True)
"""


def end_early(code: str, folder: Path, runs: int, status: int = 0) -> str:
    """The output of a process that ends after some runs."""
    model = folder / "model.tflite"
    model.write_bytes(network())
    done = run_python(code, model, runs, MESA_SHADER_CACHE_DIR=str(folder / "cache"))
    assert (done.returncode, done.stderr) == (status, "")
    return done.stdout


@pytest.mark.parametrize("runs", [1, 2, 5, 60])
def test_a_process_that_ends_meanwhile(tmp_path: Path, runs: int) -> None:
    end_early(ENDS, tmp_path, runs)


STUCK = """
import threading, time
from gles_delegate.gl.program import Program
finish, begun = Program.finish, threading.Event()
def stuck(program):
    if "upgrade" in threading.current_thread().name:
        begun.set()
        time.sleep(60)
    finish(program)
Program.finish = stuck
"""
ENDS_STUCK = """
begun.wait()
print("the end")
sys.exit(3)
"""


def test_a_process_ends_beside_a_long_program(tmp_path: Path) -> None:
    """Within a second, with its status and its output."""
    start = monotonic()
    end_early(ENDS, tmp_path, 3)
    usual, start = monotonic() - start, monotonic()
    assert end_early(STUCK + ENDS + ENDS_STUCK, tmp_path, 3, status=3) == "the end\n"
    assert monotonic() - start < usual + 3


def test_a_process_that_ends_compiles_nothing_more(tmp_path: Path) -> None:
    begun, after_the_end = map(int, end_early(COUNTS + ENDS + WAITS, tmp_path, 3).split())
    assert begun >= 2
    assert after_the_end == 0
