"""Every step of a change of a segment fails once: what it ran with before is still there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.errors import OutOfGpuMemoryError
from gles_delegate.gl.buffers import Buffer
from gles_delegate.planning.plans import Plans
from gles_delegate.runtime import segment as segments
from gles_delegate.runtime.async_runs import AsyncRuns
from gles_delegate.runtime.buffers import Buffers
from gles_delegate.runtime.commands import Recorder
from gles_delegate.runtime.constants import Constants
from gles_delegate.runtime.prepared import Prepared
from gles_delegate.runtime.programs import Programs
from gles_delegate.runtime.segment import Segment
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.variables import Variables
from tests.support.convolutions import INPUT, network, wait_for_background
from tests.support.oracle import assert_close, in_litert, in_ours, run, run_litert
from tests.support.sketch import Sketch
from tests.support.state import State, objects_in

Array = np.ndarray[Any, Any]
HOSTS = {"alone": in_ours, "in LiteRT": in_litert}
both_hosts = pytest.mark.parametrize("host", HOSTS)
STEPS = (
    (AsyncRuns, "keep"),
    (Buffers, "__init__"),
    (Buffers, "bind"),
    (Constants, "take"),
    (Plans, "lower"),
    (Plans, "plan"),
    (Programs, "compile"),
    (Programs, "take"),
    (Recorder, "record"),
    (Segment, "resolve"),
    (Segment, "_require_apart"),
    (Session, "continue_from"),
    (Session, "load"),
    (Session, "read_staged"),
    (Session, "state"),
    (Variables, "buffer"),
)
"""The methods whose calls fail, one after the other."""


class Fault:
    """Has call number `at` of the steps raise an error, and the first result of `Prepared.of`."""

    def __init__(self, at: int, error: Exception) -> None:
        self.at = at
        self.error = error
        self.has_failed = False

    def reached(self) -> None:
        self.at -= 1
        if self.at < 0 and not self.has_failed:
            self.has_failed = True
            raise self.error

    @contextmanager
    def planted(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        def failing(method: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **named: Any) -> Any:
                self.reached()
                return method(*arguments, **named)

            return call

        with monkeypatch.context() as patch:
            for owner, name in STEPS:
                patch.setattr(owner, name, failing(getattr(owner, name)))
            patch.setattr(Prepared, "of", staticmethod(failing(Prepared.of)))
            yield


def each_fault(error: Callable[[], Exception]) -> Iterator[Fault]:
    """Faults at one step after the other, until one is beyond the last."""
    for at in itertools.count():
        fault = Fault(at, error())
        yield fault
        if not fault.has_failed:
            assert at > 10, "few steps were seen"
            return


def refused() -> Exception:
    return gd.GLError("planted")


class Running:
    """A model of one input and one output in a host."""

    def __init__(self, host: str, delegate: gd.GpuDelegate, content: bytes) -> None:
        self.delegate = delegate
        self.content = content
        self.interpreter = HOSTS[host](delegate, content)
        (self.segment,) = delegate.bound.first._segments
        self.output = self.interpreter.get_output_details()[0]["index"]

    def resize(self, height: int) -> None:
        self.interpreter.resize_tensor_input(0, (1, height, *INPUT.shape[2:]))
        self.interpreter.allocate_tensors()

    def run(self, height: int) -> Array:
        self.interpreter.set_tensor(0, INPUT[:, :height])
        self.interpreter.invoke()
        return self.interpreter.get_tensor(self.output)

    def run_segment(self, height: int) -> Array:
        """A run without the host, which may refuse runs after an error."""
        result = self.segment.empty(self.output)
        self.segment.invoke({0: INPUT[:, :height]}, {self.output: result})
        return result

    def buffer(self, nbytes: int) -> Buffer:
        return self.delegate.bound.thread.run(lambda: Buffer(self.delegate.gpu.gl, bytes(nbytes)))


def same(actual: Array, expected: Array) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)


@both_hosts
def test_a_resize_that_fails(
    host: str, egl: gd.EglContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State(egl.load)
    with gd.GpuDelegate(context=egl, model=network()) as delegate:
        running = Running(host, delegate, network())
        whole = running.run(24)
        invocation = running.interpreter.invoke_async() if host == "alone" else None
        for fault in each_fault(refused):
            before = running.segment.require()
            objects = objects_in(egl, state)
            with fault.planted(monkeypatch):
                try:
                    running.resize(12)
                except (gd.GLError, RuntimeError):
                    assert fault.has_failed
                else:
                    break
            assert running.segment.require() is before
            assert objects_in(egl, state) == objects
            same(running.run_segment(24), whole)
            if fault.at % 4 == 0:  # the host goes on, too
                running.resize(24)
                same(running.run(24), whole)
        assert not fault.has_failed
        same(running.run(12)[:, :8], whole[:, :8])
        if invocation is not None:
            same(invocation.get_tensor(running.output), whole)


@both_hosts
def test_a_bind_that_fails(host: str, egl: gd.EglContext, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(egl.load)
    content = network(with_state=True)
    with (
        gd.GpuDelegate(context=egl, model=content) as delegate,
        gd.GpuDelegate(context=egl) as other,
    ):
        running = Running(host, delegate, content)
        undisturbed = Running("alone", other, content)  # has the same states
        buffer = running.buffer(480 * 4 * 4)
        same(running.run(24), undisturbed.run(24))
        for fault in each_fault(refused):
            before = running.segment.require()
            objects = objects_in(egl, state)
            with fault.planted(monkeypatch):
                try:
                    delegate.bind_buffer_to_tensor(running.output, buffer.name)
                except gd.GLError:
                    assert fault.has_failed
                else:
                    break
            assert running.segment.require() is before
            assert not delegate.bound.first.bindings
            assert objects_in(egl, state) == objects
            same(running.run(24), undisturbed.run(24))
        assert not fault.has_failed
        running.interpreter.invoke()
        texels = running.segment.read_result(running.output)
        assert texels is not None
        same(texels, undisturbed.run(24))


@pytest.mark.mesa
@pytest.mark.background
@pytest.mark.usefixtures("llvmpipe")
@both_hosts
def test_an_upgrade_that_fails(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its errors end the upgrade, and no run fails."""
    content = network(with_state=True)
    with (
        gd.GpuDelegate(model=content) as delegate,
        gd.GpuDelegate(gd.GpuDelegateOptions(background_compilation=False)) as other,
    ):
        running = Running(host, delegate, content)
        undisturbed = Running("alone", other, content)
        upgrade = running.segment.upgrade
        while upgrade.job is None:
            same(running.run(24), undisturbed.run(24))
        job = upgrade.job
        wait_for_background()
        for fault in each_fault(refused):
            upgrade.job = job
            upgrade.is_final = False
            before = running.segment.require()
            with fault.planted(monkeypatch):
                while not upgrade.is_final:
                    same(running.run(24), undisturbed.run(24))
            if fault.has_failed:
                assert running.segment.require() is before
            same(running.run(24), undisturbed.run(24))
        assert running.segment.require() is not before
        assert running.segment.upgrade.plans is job.upgraded.plans


@both_hosts
def test_other_values_that_decide_sizes_fail(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run fails, and the next one with the values before needs no new plan."""
    s = Sketch(np.random.default_rng(0))
    x = s.normal((4, 6))
    y = s.op("TILE", [s.input((4, 6)), s.input((2,), np.int32)], [s.tensor(None)])
    content = s.build([s.op("ABS", [y], [None])])
    few, many = (np.array(times, np.int32) for times in ((1, 2), (3, 1)))
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = HOSTS[host](delegate, content)

        expected = run_litert(content, [x, few])
        assert_close(run(interpreter, [x, few]), expected)
        (segment,) = delegate.bound.first._segments
        before = segment.require()
        for fault in each_fault(refused):
            with fault.planted(monkeypatch):
                try:
                    result = run(interpreter, [x, many])
                except (gd.GLError, RuntimeError):
                    assert fault.has_failed
                else:
                    break
            assert_close(run(interpreter, [x, few]), expected)
            assert segment.require() is before
        assert_close(result, run_litert(content, [x, many]))


class Full:
    """A GPU without room for the next `count` sessions."""

    def __init__(self, count: int) -> None:
        self.count = count

    def session(self, *arguments: Any, **named: Any) -> Session:
        self.count -= 1
        if self.count >= 0:
            raise OutOfGpuMemoryError("planted")
        return Session(*arguments, **named)


@both_hosts
def test_a_resize_takes_the_memory_of_the_session_before(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gd.GpuDelegate(model=network()) as delegate:
        running = Running(host, delegate, network())
        whole = running.run(24)
        invocation = running.interpreter.invoke_async() if host == "alone" else None
        with monkeypatch.context() as patch:
            patch.setattr(segments, "Session", Full(1).session)
            running.resize(12)
        same(running.run(12)[:, :8], whole[:, :8])
        if invocation is not None:
            same(invocation.get_tensor(running.output), whole)


@both_hosts
def test_without_that_either_the_session_before_is_made_again(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its variables."""
    content = network(with_state=True)
    with gd.GpuDelegate(model=content) as delegate, gd.GpuDelegate() as other:
        running = Running(host, delegate, content)
        undisturbed = Running("alone", other, content)
        for _ in range(2):
            same(running.run(24), undisturbed.run(24))
        before = running.segment.require()
        with monkeypatch.context() as patch:
            patch.setattr(segments, "Session", Full(2).session)
            with pytest.raises(OutOfGpuMemoryError, match="planted"):
                running.segment.prepare({0: INPUT.shape})
        after = running.segment.require()
        assert after is not before
        assert after.session.runs == before.session.runs
        same(running.run(24), undisturbed.run(24))
