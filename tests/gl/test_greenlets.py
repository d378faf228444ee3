"""Threads stay threads where gevent makes greenlets of Python's; it is simulated here."""

from __future__ import annotations

import _thread
import queue
import sys
import threading
from types import ModuleType
from typing import Any, NoReturn

import pytest

from tests.support.process import run_python

pytestmark = pytest.mark.usefixtures("gl")


def patch_all() -> None:
    """Do as gevent.monkey.patch_all, with greenlets that cannot be had."""
    originals = dict(vars(_thread))
    monkey = ModuleType("gevent.monkey")
    monkey.get_original = lambda module, name: originals[name]  # type: ignore[attr-defined]
    sys.modules["gevent.monkey"] = monkey

    def greenlet(*_: object, **__: object) -> NoReturn:
        raise AssertionError("expected a thread, found a greenlet")

    modules: Any = _thread, threading
    for module in modules:
        module.get_ident = lambda: 1
    threading.main_thread()._ident = 1  # type: ignore[attr-defined]
    for name in ("start_new_thread", "start_joinable_thread"):
        setattr(_thread, name, greenlet)
        setattr(threading, f"_{name}", greenlet)
    queue.SimpleQueue = greenlet  # type: ignore[assignment,misc]


def use(is_first: bool) -> None:
    """Patch before or after the package is imported, and run delegates."""
    if is_first:
        patch_all()
    import gles_delegate as gd
    from gles_delegate.runtime import takeover
    from tests.support.small import allocated, check

    takeover._OFTEN = 2  # runs until programs are compiled in the background
    if not is_first:
        patch_all()
    for own_thread in (False, True):
        delegates = [gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=own_thread)) for _ in "12"]
        interpreters = [allocated(delegate) for delegate in delegates]
        for _ in range(5):
            for interpreter in interpreters:
                check(interpreter)
                interpreter.invoke_async().wait()
        for delegate in delegates:
            thread = delegate._thread
            delegate.close()
            if own_thread:
                assert thread is not None
                assert thread._worker is not None
                assert not thread._worker._thread.is_alive()


@pytest.mark.parametrize("is_first", [False, True])
def test_under_gevent(is_first: bool) -> None:
    child = run_python(f"from tests.gl.test_greenlets import use; use({is_first})")
    assert child.returncode == 0, child.stderr
