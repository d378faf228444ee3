"""Contexts that end before the delegate, and others that get their addresses."""

import gc
import warnings
from collections.abc import Callable, Iterator
from ctypes import CDLL, CFUNCTYPE, c_float, c_ubyte, c_uint, c_void_p
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import moderngl
import numpy as np
import pytest

import gles_delegate as gd
from gles_apps.live.painter import Painter, new_texture
from gles_delegate.gl import libglx, thread
from gles_delegate.gl.current import current_handle, current_loader
from gles_delegate.gl.egl import current_context
from gles_delegate.gl.libegl import LibEgl, libegl
from tests.gl.test_delegate import es_app
from tests.support.process import run_python
from tests.support.small import allocated, check
from tests.support.state import State

pytestmark = pytest.mark.mesa

NEXT = "another .*at its address .*make a new one"


@pytest.fixture
def window() -> Iterator[Callable[[], moderngl.Context]]:
    """Opens windows: contexts that are current until the next one is opened."""
    with libegl().restored():
        yield lambda: moderngl.create_standalone_context(require=430, backend="egl")


def close(ctx: moderngl.Context) -> None:
    """As toolkits do: no context is current afterwards."""
    egl = libegl()
    display, handle = egl.eglGetCurrentDisplay(), egl.eglGetCurrentContext()
    egl.eglMakeCurrent(display, 0, 0, 0)
    egl.eglDestroyContext(display, handle)


def run(delegate: gd.GpuDelegate, interpreter: gd.Interpreter) -> None:
    for _ in "12":
        with pytest.raises(gd.ContextLostError, match=NEXT):
            interpreter.invoke()


def end(delegate: gd.GpuDelegate, interpreter: gd.Interpreter) -> None:
    delegate.close()


@pytest.mark.parametrize("use", [run, end, None])
def test_the_next_context_at_an_address_is_another(
    use: Callable[[gd.GpuDelegate, gd.Interpreter], None] | None,
    window: Callable[[], moderngl.Context],
) -> None:
    """Drivers give the address of a destroyed context to the next one."""
    first, left = window(), len(thread._left)
    delegate = gd.GpuDelegate(context="current")
    interpreter = allocated(delegate)
    check(interpreter)
    close(first)
    ctx = window()
    alive = [ctx.buffer(b"the app's") for _ in range(99)]
    state = State(current_loader())
    before = state.read(), state.objects()
    adopted = delegate.gpu._adopted
    assert adopted is not None
    adopted.handle = current_handle()
    if use is not None:
        use(delegate, interpreter)
        delegate.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del delegate, interpreter
        gc.collect()
    with gd.GpuDelegate(context="current") as another:
        check(allocated(another))
    assert len(thread._left) == left
    assert (state.read(), state.objects()) == before
    assert {buffer.read() for buffer in alive} == {b"the app's"}


def test_a_context_of_ours_is_not_taken_for_the_next_at_its_address() -> None:
    """After another library's eglTerminate."""
    egl, other = gd.EglContext(), gd.EglContext()
    delegate = gd.GpuDelegate(context=egl)
    interpreter = allocated(delegate)
    native = egl._native
    assert native is not None
    egl._native = replace(native, handle=other.handle)
    with pytest.raises(gd.ContextLostError, match=NEXT):
        interpreter.invoke()
    with pytest.raises(gd.ContextLostError, match="make a new one"):
        interpreter.invoke()
    assert current_context() == 0
    delegate.close()
    egl.release()
    with gd.GpuDelegate(context=other) as delegate:
        check(allocated(delegate))
    other.release()
    native.destroy()


def test_an_adopted_context_that_is_gone_is_given_up(
    window: Callable[[], moderngl.Context],
) -> None:
    ctx = window()
    delegate = gd.GpuDelegate(context="current")
    interpreter = allocated(delegate)
    with es_app()[0], pytest.raises(gd.WrongContextError, match="make it current"):
        delegate.close()
    close(ctx)
    for _ in "12":
        with pytest.raises(gd.ContextLostError, match="EGL has no such context"):
            interpreter.invoke()
    delegate.close()
    window()
    with gd.GpuDelegate(context="current") as another:
        interpreter.modify_graph_with_delegate(another)
        interpreter.allocate_tensors()
        check(interpreter)


def test_a_context_that_its_app_released_while_current_does_not_come_back() -> None:
    with gd.GpuDelegate() as delegate, libegl().restored():
        interpreter = allocated(delegate)
        for _ in "12":
            moderngl.create_standalone_context(require=430, backend="egl").release()
            assert current_context()
            check(interpreter)
            assert current_context() == 0


def terminate(own_thread: bool, platforms: int) -> None:
    """Another library ends the display that a delegate uses, as pyrender and vispy do."""
    if not platforms:  # the delegates' only one
        LibEgl.devices = lambda self: []  # type: ignore[method-assign]
    options = gd.GpuDelegateOptions(own_thread=own_thread)
    egl = gd.EglContext()
    delegates = [gd.GpuDelegate(options), gd.GpuDelegate(options, context=egl)]
    interpreters = [allocated(delegate) for delegate in delegates]
    devices = gd.list_devices()
    other = gd.EglContext()
    libegl()._library.eglTerminate(c_void_p(egl.display))
    with pytest.raises(gd.ContextLostError, match="expected an EglContext to share with"):
        gd.EglContext(share=other)
    for delegate, interpreter in zip(delegates, interpreters, strict=True):
        for _ in "12":
            with pytest.raises(gd.ContextLostError, match=r"eglTerminate.*make a new one"):
                interpreter.invoke()
        delegate.close()
        with gd.GpuDelegate(options) as another:
            interpreter.modify_graph_with_delegate(another)
            interpreter.allocate_tensors()
            check(interpreter)
    with pytest.raises(gd.ContextLostError, match="eglTerminate"):
        gd.EglContext(share=egl)
    with pytest.raises(gd.ContextLostError, match="eglTerminate"), egl:
        pass
    egl.release()
    assert gd.list_devices() == devices


@pytest.mark.parametrize("platforms", [0, 2])
@pytest.mark.parametrize("own_thread", [False, True])
def test_another_library_terminates_the_display(own_thread: bool, platforms: int) -> None:
    code = f"from tests.gl.test_lifetime import terminate; terminate({own_thread}, {platforms})"
    child = run_python(code)
    assert child.returncode == 0, child.stderr


def test_a_painter_leaves_another_context_alone(window: Callable[[], moderngl.Context]) -> None:
    window()
    picture = np.zeros((4, 6, 4), np.uint8)
    painter = Painter((4, 6))
    painter.begin(new_texture(picture))
    ctx = window()
    alive = [ctx.buffer(b"the app's") for _ in range(99)]
    texture = new_texture(picture)
    state = State(current_loader())
    before = state.read(), state.objects()
    with pytest.raises(gd.WrongContextError, match="make a Painter in this one"):
        painter.begin(texture)
    painter.release()
    assert (state.read(), state.objects()) == before
    assert {buffer.read() for buffer in alive} == {b"the app's"}


def draw_with_osmesa() -> None:
    """A program that draws with OSMesa, as pyrender and MuJoCo do without a display."""
    osmesa, pixels = CDLL("libOSMesa.so.8"), (c_ubyte * (8 * 4 * 4))()
    osmesa.OSMesaCreateContextExt.restype = c_void_p
    osmesa.OSMesaGetCurrentContext.restype = c_void_p
    osmesa.OSMesaGetProcAddress.restype = c_void_p
    ctx = c_void_p(osmesa.OSMesaCreateContextExt(0x1908, 24, 0, 0, None))

    def call(name: bytes, *arguments: Any) -> None:
        types = map(type, arguments)
        CFUNCTYPE(None, *types)(osmesa.OSMesaGetProcAddress(name))(*arguments)

    def draw(red: float) -> int:
        call(b"glClearColor", *map(c_float, (red, 0, 0, 1)))
        call(b"glClear", c_uint(0x4000))
        call(b"glFinish")
        return pixels[0]

    assert osmesa.OSMesaMakeCurrent(ctx, pixels, 0x1401, 8, 4)
    assert draw(1) == 255
    with gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        for red in (0, 51, 102):
            check(interpreter)
            assert osmesa.OSMesaGetCurrentContext() == ctx.value
            assert draw(red / 255) == red
    assert draw(1) == 255


def test_osmesa_s_context_comes_back() -> None:
    try:
        CDLL("libOSMesa.so.8")
    except OSError:
        pytest.skip("OSMesa is not installed")
    child = run_python("from tests.gl.test_lifetime import *; draw_with_osmesa()")
    assert child.returncode == 0, child.stderr


def test_a_context_of_a_library_as_osmesa_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where OSMesa is not installed."""
    osmesa, glapi = Mock(), Mock()
    osmesa.OSMesaGetCurrentContext.return_value = 7
    with gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        monkeypatch.setattr(libglx, "_glapi", lambda: glapi)
        monkeypatch.setattr(libglx, "_loaded_osmesa", lambda: osmesa)
        check(interpreter)
        osmesa.OSMesaMakeCurrent.assert_called_with(7, 0, 0, 0, 0)
        osmesa.OSMesaMakeCurrent.return_value = 0
        with pytest.raises(gd.GLError, match="OSMesaMakeCurrent"):
            interpreter.invoke()
        glapi._glapi_get_context.return_value = 0
        check(interpreter)
