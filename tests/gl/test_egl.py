"""EglContext and list_devices on a real driver."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import moderngl
import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.errors import ContextError, GLError, WrongThreadError
from gles_delegate.gl.egl import EglContext, current_context, list_devices
from gles_delegate.gl.libegl import (
    BAD_ACCESS,
    BAD_MATCH,
    Display,
    EglBinding,
    EglError,
    Handle,
    LibEgl,
    attributes,
    libegl,
)
from tests.gl.test_binding import negated
from tests.support.process import run_python
from tests.support.small import allocated, check

OPENGL_API = 0x30A2
DOUBLE = """#version 310 es
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer Data { float data[]; };
void main() { data[gl_GlobalInvocationID.x] *= 2.0; }
"""


@pytest.fixture
def context() -> Iterator[EglContext]:
    context = EglContext()
    yield context
    context.release()
    assert current_context() == 0


@pytest.fixture
def foreign(context: EglContext) -> Iterator[EglBinding]:
    """A desktop OpenGL context with a surface, as an app would have it: current here."""
    egl, display = libegl(), context.display
    config, count = Handle(), attributes(0)
    egl.eglBindAPI(OPENGL_API)
    wanted = attributes(0x3040, 0x8, 0x3033, 0x1)  # renderable by OpenGL, to a pbuffer
    egl.eglChooseConfig(display, wanted, config, 1, count)
    surface = egl.eglCreatePbufferSurface(display, config, attributes(0x3057, 4, 0x3056, 4))
    handle = egl.eglCreateContext(display, config, 0, attributes())
    egl.eglMakeCurrent(display, surface, surface, handle)
    yield EglBinding.of_this_thread(egl)
    egl.eglMakeCurrent(display, 0, 0, 0)
    egl.eglDestroyContext(display, handle)
    with suppress(GLError):  # a test may have destroyed it
        egl.eglDestroySurface(display, surface)
    egl.eglBindAPI(0x30A0)


def doubled(context: EglContext) -> bytes:
    """[1, 2] through a compute shader that doubles, on the context."""
    with context:
        ctx = moderngl.create_context(context=context, require=310)
        ctx.clear_errors()
        buffer = ctx.buffer(b"\0\0\x80\x3f\0\0\0\x40")
        buffer.bind_to_storage_buffer(0)
        ctx.compute_shader(DOUBLE).run(2)
        ctx.memory_barrier()
        return bytes(buffer.read())


def test_is_current_inside_with_only(context: EglContext) -> None:
    assert not context.is_current
    with context as entered:
        assert entered is context
        assert context.is_current
        assert current_context() == context.handle
        with context:
            assert context.is_current
        assert context.is_current
    assert not context.is_current
    assert current_context() == 0


def test_moderngl_context_enters_and_leaves_it(context: EglContext) -> None:
    with context:
        ctx = moderngl.create_context(context=context, require=310)
    with ctx:
        assert context.is_current
    assert not context.is_current
    ctx.release()
    with pytest.raises(ContextError, match="released"):
        context.load("glFlush")


def test_two_contexts_nest(context: EglContext) -> None:
    other = EglContext()
    with context:
        with other:
            assert other.is_current
            assert not context.is_current
            with context:
                assert context.is_current
            assert other.is_current
        assert context.is_current
    other.release()


@pytest.mark.mesa
def test_what_was_current_comes_back(context: EglContext, foreign: EglBinding) -> None:
    egl = libegl()
    with context:
        assert context.is_current
        assert egl.eglQueryAPI() != OPENGL_API
    assert EglBinding.of_this_thread(egl) == foreign
    with pytest.raises(ZeroDivisionError), context:
        _ = 1 / 0
    assert EglBinding.of_this_thread(egl) == foreign


@pytest.mark.mesa
def test_a_surface_that_the_app_destroyed_while_it_was_current(foreign: EglBinding) -> None:
    """EGL keeps it until another is current; then the app's context is current without one."""
    with gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        check(interpreter)
        foreign.egl.eglDestroySurface(foreign.display, foreign.draw)
        for _ in range(2):
            check(interpreter)
            assert foreign.egl.eglGetCurrentContext() == foreign.context


@pytest.mark.parametrize("code", [BAD_ACCESS, BAD_MATCH])
def test_a_context_that_cannot_be_current(code: int, foreign: EglBinding) -> None:
    """One try, unless GLX has the thread; the app's context stays current."""
    tries: list[int] = []

    def make_current() -> None:
        tries.append(code)
        if len(tries) == 1:
            libegl().eglMakeCurrent(foreign.display, 0, 0, 0)
            raise EglError("eglMakeCurrent", code)

    with pytest.raises(EglError):
        libegl().replaced(make_current)
    assert tries == [code]
    assert EglBinding.of_this_thread(libegl()) == foreign


def test_creating_releasing_and_listing_leave_the_binding_alone(foreign: EglBinding) -> None:
    list_devices()
    assert EglBinding.of_this_thread(libegl()) == foreign
    context = EglContext()
    assert EglBinding.of_this_thread(libegl()) == foreign
    context.release()
    assert EglBinding.of_this_thread(libegl()) == foreign


def test_a_second_thread_is_refused_until_the_first_leaves(context: EglContext) -> None:
    def enter() -> bool:
        with context:
            return context.is_current

    with ThreadPoolExecutor(1) as pool:
        with context, pytest.raises(WrongThreadError, match="eglMakeCurrent: EGL_BAD_ACCESS"):
            pool.submit(enter).result()
        assert pool.submit(enter).result()
    assert not context.is_current


def test_release_twice_and_use_after(context: EglContext) -> None:
    context.release()
    context.release()
    assert not context.is_current
    assert "released" in repr(context)
    for use in (
        *(context.__enter__, lambda: context.load("glFlush"), lambda: context.handle),
        lambda: EglContext(share=context),
    ):
        with pytest.raises(ContextError, match="released"):
            use()


@pytest.mark.mesa
def test_release_inside_with_puts_the_rest_back(context: EglContext, foreign: EglBinding) -> None:
    with context:
        context.release()
        assert current_context() == 0
    assert EglBinding.of_this_thread(libegl()) == foreign


def test_leaving_without_entering_is_an_error(context: EglContext) -> None:
    with pytest.raises(ContextError, match="more often"):
        context.__exit__()


def test_a_shared_context_sees_the_buffers(context: EglContext) -> None:
    sharing = EglContext(share=context)
    assert sharing.share is context
    assert sharing.device == context.device
    with context:
        ctx = moderngl.create_context(context=context, require=310)
        buffer = ctx.buffer(b"seen by both")
        ctx.finish()
        with sharing:
            other = moderngl.create_context(context=sharing, require=310)
            assert other.external_buffer(buffer.glo, buffer.size).read() == b"seen by both"
    sharing.release()


def test_a_context_beside_the_one_that_is_current(context: EglContext) -> None:
    """A context as an app's window has it, which the package does not know as its own."""
    with context:
        ctx = moderngl.create_context(context=context, require=310)
        texture = ctx.texture((1, 1), 4, b"both")
        ctx.finish()
        beside = EglContext(share="current")
        assert context.is_current
        assert beside.share is None
        assert beside.device.renderer == context.device.renderer
    options = gd.GpuDelegateOptions(own_thread=True)
    with gd.GpuDelegate(options, context=beside) as delegate:
        interpreter = allocated(delegate, negated((1, 1, 1, 4)))
        transform = gd.ImageTransform(channels="rgba")
        delegate.bind_texture_to_tensor(0, texture, transform=transform)
        interpreter.invoke()
        actual = -interpreter.get_tensor(1).ravel() * 255
    np.testing.assert_allclose(actual, list(b"both"), atol=1e-3)
    beside.release()


def test_nothing_is_current_to_share_with() -> None:
    with pytest.raises(ContextError, match="a current EGL context to share with, found none"):
        EglContext(share="current")


def test_each_listed_device_computes(context: EglContext) -> None:
    devices = list_devices()
    assert context.device == devices[0]
    assert [device.index for device in devices] == list(range(len(devices)))
    assert devices == sorted(devices, key=lambda device: device.software)
    for device in devices:
        chosen = EglContext(device.index)
        assert chosen.device == device
        assert doubled(chosen) == b"\0\0\0\x40\0\0\x80\x40"
        chosen.release()


@pytest.mark.mesa
def test_a_device_reached_by_two_platforms_is_listed_once() -> None:
    for _ in range(3):  # Mesa 25.0 forgets the device of a display after the first time
        assert 1 <= len(list_devices()) <= len(libegl().devices())


@pytest.mark.mesa
def test_a_display_whose_device_egl_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    initialized = LibEgl.initialized

    def without_device(egl: LibEgl, platform: str, handle: int) -> Display:
        display = initialized(egl, platform, handle)
        return replace(display, device=0) if platform == "surfaceless" else display

    monkeypatch.setattr(LibEgl, "initialized", without_device)
    devices = list_devices()
    assert devices[0].platform == "surfaceless"
    assert len(devices) <= len(libegl().devices())


@pytest.mark.parametrize("missing", ["EGL_KHR_no_config_context", "EGL_KHR_surfaceless_context"])
def test_contexts_with_a_config_or_a_surface(
    missing: str, context: EglContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    initialized = LibEgl.initialized

    def without(egl: LibEgl, platform: str, handle: int) -> object:
        display = initialized(egl, platform, handle)
        return replace(display, extensions=display.extensions - {missing})

    monkeypatch.setattr(LibEgl, "initialized", without)
    plain = EglContext()
    assert doubled(plain) == doubled(context)
    plain.release()


def test_a_fork_refuses_what_it_inherits() -> None:
    run = run_python(
        "import os\n"
        "from gles_delegate.errors import ContextError\n"
        "from gles_delegate.gl.egl import EglContext, list_devices\n"
        "context = EglContext()\n"
        "with context:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        for use in (context.__enter__, EglContext, list_devices):\n"
        "            try:\n"
        "                use()\n"
        "            except ContextError as error:\n"
        "                print(error, flush=True)\n"
        "        context.release()\n"
        "        os._exit(context.is_current)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    assert context.is_current\n"
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("before it was forked") == 3
    assert "spawn" in run.stdout


def test_a_fork_before_the_first_use_is_free() -> None:
    run = run_python(
        "import os\n"
        "from gles_delegate.gl.egl import EglContext, current_context\n"
        "assert current_context() == 0\n"
        "child = os.fork()\n"
        "EglContext().release()\n"
        "if child: assert os.waitpid(child, 0)[1] == 0\n"
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.mesa
@pytest.mark.parametrize("robust", [True, False])
def test_a_plain_context_shares_with_one_that_is_not_robust(robust: bool) -> None:
    """As GStreamer's does."""
    app, egl = EglContext(robust=robust), libegl()
    plain: list[int] = []

    def share() -> None:
        egl.eglBindAPI(0x30A0)
        wanted = attributes(0x3098, 3, 0x30FB, 1)
        plain.append(egl.eglCreateContext(app.display, 0, app.handle, wanted))

    try:
        if robust:
            with pytest.raises(gd.GLError, match="EGL_BAD_MATCH"):
                share()
        else:
            share()
            with EglContext(share=app, robust=False) as other:
                assert other.device == app.device
    finally:
        for context in plain:
            egl.eglDestroyContext(app.display, context)
        app.release()
