"""Many runs, lives, bindings, cancellations: memory, descriptors, threads, GL objects stay."""

import itertools
import os
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import gles_delegate as gd
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import attributes, libegl
from tests.attack.asynchronous import Case
from tests.attack.workers import Outcome
from tests.support.app import App
from tests.support.oracle import in_litert, in_ours
from tests.support.small import INPUT, check, expected, small_model
from tests.support.state import State, objects_in

MOST_BYTES = 256 << 10
"""By which a process may grow in the median of the tenths of the rounds."""


def run_soak(_: bytes, seed: int) -> Outcome:
    """One of `SOAKS`."""
    count, rounds, make = SOAKS[seed]
    what = f"{count} {rounds.__name__}, {make.__name__}"
    samples = []
    with rounds(make) as round_:
        for _ in range(10):
            for _ in range(count // 10):
                round_()
            samples.append(_resources())
    bytes_grown = np.median(np.diff([each[0] for each in samples]))
    if bytes_grown > MOST_BYTES or samples[0][1:] != samples[-1][1:]:
        return Outcome("grown", text=f"{what}: bytes, descriptors, threads: {samples}")
    return Outcome("result", text=what)


Make = Callable[[gd.GpuDelegate, bytes], Any]


@contextmanager
def runs(make: Make) -> Iterator[Callable[[], None]]:
    with gd.GpuDelegate(model=small_model()) as delegate:
        interpreter = make(delegate, small_model())
        yield lambda: check(interpreter)


@contextmanager
def lives(make: Make) -> Iterator[Callable[[], None]]:
    """A delegate with its own context, and one in an app's."""
    egl = gd.EglContext()
    state = State(egl.load)
    before = objects_in(egl, state)

    def life() -> None:
        for context in (None, egl):
            with gd.GpuDelegate(context=context, model=small_model()) as delegate:
                check(make(delegate, small_model()))

    yield life
    assert objects_in(egl, state) == before
    egl.release()


@contextmanager
def rebinds(make: Make) -> Iterator[Callable[[], None]]:
    app = App(model=small_model())
    interpreter = make(app.delegate, small_model())
    x, y = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]

    def rebind() -> None:
        buffers = app.buffer(INPUT), app.buffer(bytes(4 * 3 * 7))
        app.delegate.bind_buffer_to_tensor(x, buffers[0])
        app.delegate.bind_buffer_to_tensor(y, buffers[1])
        interpreter.invoke()
        actual = app.read(buffers[1], "float32").reshape(3, 7)
        np.testing.assert_allclose(actual, expected(), rtol=1e-5, atol=1e-5)
        app.delegate.unbind(x)
        app.delegate.unbind(y)
        with app.egl:
            for buffer in buffers:
                buffer.release()
        check(interpreter)

    yield rebind
    app.close()


@contextmanager
def cancellations(_: Make) -> Iterator[Callable[[], None]]:
    """Eight threads, each with a loop whose tasks are cancelled and whose callbacks raise."""
    case, seeds = Case(closes=False), itertools.count()
    with ThreadPoolExecutor(8) as pool:

        def round_() -> None:
            list(pool.map(case.loop, [random.Random(next(seeds)) for _ in range(8)]))
            assert not case.faults, case.faults
            check(case.interpreter)

        yield round_
    case.delegate.close()


@contextmanager
def windows(make: Make) -> Iterator[Callable[[], None]]:
    """Contexts that end before their delegates; the next ones often get their addresses."""
    egl, owner, choose = libegl(), gd.EglContext(), random.Random(0)
    before: list[Any] = []

    def window() -> None:
        egl.eglBindAPI(0x30A0)
        handle = egl.eglCreateContext(owner.display, 0, 0, attributes(0x3098, 3, 0x30FB, 1))
        egl.eglMakeCurrent(owner.display, 0, 0, handle)
        gl = Functions(owner.load)
        names = [gl.generate("Buffers") for _ in range(99)]
        for name in names:
            gl.glBindBuffer(gl_names.ARRAY_BUFFER, name)
        if choose.random() < 0.5:
            for each in before[:1]:
                each.close()
        before.clear()
        delegate = gd.GpuDelegate(context="current", model=small_model())
        interpreter = make(delegate, small_model())
        check(interpreter)
        assert all(map(gl.glIsBuffer, names))
        if choose.random() < 0.2:
            delegate.close()
        before.extend((delegate, interpreter))
        egl.eglMakeCurrent(owner.display, 0, 0, 0)
        egl.eglDestroyContext(owner.display, handle)

    with egl.restored(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield window
        before.clear()
    owner.release()


SOAKS = [
    (count, rounds, make)
    for make in (in_ours, in_litert)
    for count, rounds in ((5000, runs), (500, lives), (500, rebinds), (500, windows))
] + [(500, cancellations, in_ours)]


def _resources() -> tuple[int, int, int]:
    """Resident bytes, descriptors and threads of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    descriptors = len(os.listdir("/proc/self/fd"))
    return pages * os.sysconf("SC_PAGE_SIZE"), descriptors, threading.active_count()
