"""What Python runs between two bytecodes works as if the delegate were not there.

An app's objects are deleted, and its handlers of signals run, in its own context.
"""

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.gl import llvmpipe
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.current import current_handle
from gles_delegate.gl.devices import NativeContext
from gles_delegate.gl.libegl import EglError
from gles_delegate.gl.program import Program
from gles_delegate.support import collector
from gles_delegate.support.collector import CollectorOff
from gles_delegate.support.signals import SignalsDeferred
from tests.support.process import run_python
from tests.support.sampling import choose, drawn
from tests.support.small import INPUT, allocated, check
from tests.support.surroundings import COLLECTORS, CONTEXTS, HOSTS, LIBRARIES

PACKAGES = {"pyglet": "pyglet", "PyOpenGL": "OpenGL", "moderngl": "moderngl", "timer": "moderngl"}
EVERY = [
    case
    for case in product(LIBRARIES, CONTEXTS, COLLECTORS, HOSTS)
    if case[1] == "own_thread" or case[3] != "compiled"
]
NAMED = [
    ("finalizer", "private", "on", "standalone"),
    ("finalizer", "own_thread", "always", "standalone"),
    ("pyglet", "private", "always", "litert"),
    ("timer", "private", "on", "standalone"),
    ("timer", "adopted", "on", "standalone"),
    ("moderngl", "own_thread", "always", "compiled"),
]


@pytest.mark.parametrize(
    "case", choose("surroundings", EVERY, NAMED + drawn(EVERY, 4)), ids="-".join
)
def test_an_app_around_the_delegate(case: tuple[str, ...]) -> None:
    package = PACKAGES.get(case[0], "numpy")
    pytest.importorskip(package)
    if case[3] != "standalone":
        pytest.importorskip("ai_edge_litert")
    code = "import sys; from tests.support.surroundings import main; main(*sys.argv[1:])"
    run = run_python(code, *case)
    assert (run.stdout, run.returncode) == ("", 0), run.stderr


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, before)


def test_the_collector_is_off_while_any_thread_needs_it() -> None:
    one, other = CollectorOff(), CollectorOff()
    with one:
        other.begin()
        assert not gc.isenabled()
    assert not gc.isenabled()
    other.end()
    assert gc.isenabled()
    other.end()
    assert gc.isenabled()


def test_the_collector_stays_off_where_the_app_disabled_it() -> None:
    gc.disable()
    try:
        with CollectorOff():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_in_the_middle_leaves_the_collector_on() -> None:
    off = CollectorOff()
    off.begin()
    del off
    assert gc.isenabled()


def test_what_is_due_is_collected_while_another_thread_works() -> None:
    """A long compilation in the background must not hold the collector of the app's thread."""
    gone = threading.Event()
    done = threading.Event()
    started = threading.Event()

    def work() -> None:
        with CollectorOff(on_app_thread=False):
            started.set()
            done.wait(20)

    thread = threading.Thread(target=work)
    thread.start()
    started.wait(20)
    try:
        Cycle(gone)
        with CollectorOff():
            kept = [[] for _ in range(3 * gc.get_threshold()[0])]
        assert gone.is_set()
        del kept
    finally:
        done.set()
        thread.join()
    assert gc.isenabled()


class Cycle:
    """Garbage that only the collector frees, and says so."""

    def __init__(self, gone: threading.Event) -> None:
        self.me = self
        self.gone = gone

    def __del__(self) -> None:
        self.gone.set()


def test_other_threads_collect_when_a_thread_of_ours_gives_way() -> None:
    gone = threading.Event()
    end = threading.Event()

    def work() -> None:
        with CollectorOff(on_app_thread=False):
            while not (gone.is_set() or end.is_set()):
                collector.give_way()

    Cycle(gone)
    thread = threading.Thread(target=work)
    thread.start()
    limit = time.monotonic() + 20
    while not gone.is_set() and time.monotonic() < limit:
        kept = [[] for _ in range(1000)]
    end.set()
    thread.join()
    assert gone.is_set()
    assert kept
    assert gc.isenabled()


def test_a_child_of_a_fork_has_its_collector() -> None:
    code = (
        "import gc, os, threading\n"
        "from gles_delegate.support.collector import CollectorOff\n"
        "on = threading.Event()\n"
        "def work():\n"
        "    with CollectorOff(): on.set(); threading.Event().wait()\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "on.wait()\n"
        "assert not gc.isenabled()\n"
        "child = os.fork()\n"
        "if not child: os._exit(not gc.isenabled())\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    run = run_python(code)
    assert not run.returncode, run.stderr


def test_handlers_wait_for_the_end_and_keep_their_flags() -> None:
    calls: list[str] = []
    signal.signal(signal.SIGALRM, lambda *_: calls.append("called"))
    signal.siginterrupt(signal.SIGALRM, False)
    with SignalsDeferred(), SignalsDeferred():
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGALRM)
        assert not calls
    assert calls == ["called"]
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    start = time.monotonic()
    read, write = os.pipe()
    threading.Timer(0.2, os.write, (write, b"x")).start()
    os.read(read, 1)  # goes on after the signal
    assert calls == ["called", "called"]
    assert time.monotonic() > start + 0.1
    os.close(read)
    os.close(write)


def reached_after(number: signal.Signals, interrupts: bool = False) -> list[str]:
    """The steps of a block in which a signal comes; at the end is what its handler raised."""
    steps: list[str] = []
    try:
        with SignalsDeferred(interrupts):
            os.kill(os.getpid(), number)
            time.sleep(0.01)
            steps.append("the end of the block")
    except (KeyboardInterrupt, TimeoutError) as error:
        steps.append(type(error).__name__)
    return steps


def test_an_error_of_a_handler_is_raised_at_the_end() -> None:
    def handler(*_: object) -> None:
        raise TimeoutError("too long")

    signal.signal(signal.SIGALRM, handler)
    assert reached_after(signal.SIGALRM) == ["the end of the block", "TimeoutError"]
    assert signal.getsignal(signal.SIGALRM) is handler


def test_ctrl_c_does_not_wait() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert reached_after(signal.SIGINT) == ["KeyboardInterrupt"]
        waited = reached_after(signal.SIGINT, interrupts=True)
        assert waited == ["the end of the block", "KeyboardInterrupt"]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_of_c_is_left_alone(tmp_path: Any) -> None:
    import faulthandler

    calls: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: calls.append(1))
    with (tmp_path / "trace").open("w+") as trace:
        faulthandler.register(signal.SIGUSR1, trace, all_threads=False, chain=False)
        with SignalsDeferred():
            os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        faulthandler.unregister(signal.SIGUSR1)
        trace.seek(0)
        assert trace.read().count("most recent call first") == 2
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert not calls


class Dying(np.ndarray[Any, Any]):
    """An array of an app that notes where it is deleted."""

    seen: list[tuple[int, int]] = []  # noqa: RUF012

    def __del__(self) -> None:
        self.seen.append((current_handle(), threading.get_ident()))


@pytest.mark.parametrize("own_thread", [False, True])
def test_arrays_end_outside_the_context(own_thread: bool) -> None:
    Dying.seen.clear()
    options = gd.GpuDelegateOptions(own_thread=own_thread)
    with gd.GpuDelegate(options) as delegate:
        interpreter = allocated(delegate)
        for _ in range(3):
            interpreter.run({"x": INPUT.view(Dying)})
            interpreter.set_tensor(0, INPUT.view(Dying))
            interpreter.invoke()
            interpreter.invoke_async().get_tensor(interpreter.get_output_details()[0]["index"])
        check(interpreter)
    assert {*Dying.seen} == {(0, threading.get_ident())}


def test_a_context_that_does_not_come_back_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is EGL's, and what was current before is current, with its state."""
    app, egl = gd.EglContext(), gd.EglContext()
    gpu = GpuContext(egl)

    def fail(*_: object) -> None:
        raise EglError("eglMakeCurrent", 0x3003)

    with app:
        with (
            monkeypatch.context() as patch,
            pytest.raises(gd.ContextError, match="eglMakeCurrent"),
            gpu.guard(),
            gpu.suspended(),
        ):
            patch.setattr(NativeContext, "make_current", fail)
        assert app.is_current
        with gpu.guard():
            assert egl.is_current
        assert app.is_current
    assert gc.isenabled()
    egl.release()
    app.release()


def test_a_handler_runs_while_programs_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for all of them, and runs in the app's context."""
    finished: list[Program] = []
    seen: list[tuple[int, int]] = []
    finish = Program.finish

    def finish_and_signal(program: Program) -> None:
        finish(program)
        if threading.current_thread() is threading.main_thread():
            finished.append(program)
            os.kill(os.getpid(), signal.SIGALRM)

    monkeypatch.setattr(Program, "finish", finish_and_signal)
    monkeypatch.setattr(llvmpipe, "threads_with_room", lambda: 0)  # others may compile all but one
    app = gd.EglContext()
    with app:
        signal.signal(signal.SIGALRM, lambda *_: seen.append((current_handle(), len(finished))))
        with gd.Interpreter("examples/models/digit_classifier.tflite") as interpreter:
            interpreter.allocate_tensors()
        assert {handle for handle, _ in seen} == {app.handle}
        assert seen[0][1] < len(finished)
    app.release()


def test_a_thread_that_python_ends_may_hold_the_collector() -> None:
    """The end of a process clears its thread-local variables."""
    run = run_python(
        "import threading\n"
        "from gles_delegate.support import collector, threads\n"
        "holds = threading.Event()\n"
        "def work():\n"
        "    collector.hold()\n"
        "    holds.set()\n"
        "    while True: pass\n"
        "thread = threads.Thread(work, 'work')\n"
        "thread.start()\n"
        "holds.wait()\n",
        timeout=30,
    )
    assert run.returncode == 0, run.stderr
