"""Threads stay threads where gevent and eventlet make greenlets of Python's; both are simulated."""

import _thread
import queue
import sys
import threading
from types import ModuleType
from typing import Any, NoReturn

import pytest

from tests.support.process import run_python


def greenlet(*_: object, **__: object) -> NoReturn:
    raise AssertionError("expected a thread, found a greenlet")


def patch_all(kind: str) -> None:
    """Do as monkey_patch of gevent or eventlet, with greenlets that cannot be had.

    Another thread may wake a greenlet of gevent's that waits, but none of eventlet's.
    """
    originals = {name: ModuleType(name) for name in ("_thread", "threading")}
    for name, copied in originals.items():
        vars(copied).update(vars(sys.modules[name]))
    if kind == "gevent":
        monkey: Any = ModuleType("gevent.monkey")
        monkey.get_original = lambda module, name: getattr(originals[module], name)
    else:
        monkey = ModuleType("eventlet.patcher")
        monkey.original = originals.__getitem__
        of_greenlets = {"__init__": lambda *_: None, "__enter__": greenlet, "__exit__": greenlet}
        threading.Condition = type("Condition", (), of_greenlets)  # type: ignore[misc]
    sys.modules[monkey.__name__] = monkey
    modules: Any = _thread, threading
    for module in modules:
        module.get_ident = lambda: 1
    threading.main_thread()._ident = 1  # type: ignore[attr-defined]
    for name in ("start_new_thread", "start_joinable_thread"):
        setattr(_thread, name, greenlet)
        setattr(threading, f"_{name}", greenlet)
    queue.SimpleQueue = greenlet  # type: ignore[assignment,misc]


def use(kind: str, is_first: bool) -> None:
    """Patch before or after the package is imported, and run delegates."""
    if is_first:
        patch_all(kind)
    import gles_delegate as gd
    from tests.support.small import allocated, check

    if not is_first:
        patch_all(kind)
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


@pytest.mark.parametrize("kind", ["gevent", "eventlet"])
@pytest.mark.parametrize("is_first", [False, True])
def test_where_python_s_threads_are_replaced(kind: str, is_first: bool) -> None:
    child = run_python(f"from tests.gl.test_greenlets import use; use({kind!r}, {is_first})")
    assert child.returncode == 0, child.stderr


def test_small_stacks_of_other_threads() -> None:
    """A server of many threads sets them; a delegate's thread compiles shaders on its stack."""
    script = """
import threading; threading.stack_size(32768)
import gles_delegate as gd
from tests.support.small import allocated, check
with gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True)) as delegate:
    check(allocated(delegate))
assert threading.stack_size() == 32768
"""
    child = run_python(script, MESA_SHADER_CACHE_DISABLE="1")
    assert child.returncode == 0, child.stderr
