"""Single GL and EGL calls that fail: what is put back, freed and said all the same."""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import pytest

import gles_delegate as gd
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.buffers import Buffer
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.egl import current_context
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import EglBinding, EglError, libegl
from tests.gl.test_binding import PICTURE, App, negated
from tests.gl.test_delegate import break_function, desktop_app, es_app, stir
from tests.support.small import allocated, check
from tests.support.state import State, objects_in


class Fault:
    """Has one call of one GL function do nothing but set an error.

    Args:
        name: The function.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.at = -1

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """For the delegates that are made from now on."""
        unchecked = Functions.unchecked

        def counting(gl: Functions, name: str) -> Callable[..., Any]:
            function = unchecked(gl, name)
            if name != self.name:
                return function

            def call(*arguments: Any) -> Any:
                self.calls += 1
                if self.calls - 1 != self.at:
                    return function(*arguments)
                return unchecked(gl, "glBindBuffer")(0xDEAD, 0)  # GL_INVALID_ENUM

            return call

        monkeypatch.setattr(Functions, "unchecked", counting)
        monkeypatch.setattr(Functions, "prepared", lambda gl, n, *a: (counting(gl, n), a))


RESTORED = {
    "glUseProgram": (1, {hex(gl_names.CURRENT_PROGRAM)}),
    "glBindBufferRange": (6, {(hex(query), 0) for query in (0x90D3, 0x90D4, 0x90D5)}),
    "glBindTexture": (3, {("unit", 0, hex(gl_names.TEXTURE_BINDING_2D))}),
    "glPixelStorei": (4, {hex(0x0CF5)}),
}
"""How many of a function's calls restore state, and what the first of them restores."""


@pytest.mark.mesa
@pytest.mark.parametrize("make", [es_app, desktop_app])
@pytest.mark.parametrize("name", RESTORED)
def test_restoring_goes_on_past_a_call_that_fails(
    name: str, make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Fault(name)
    fault.install(monkeypatch)
    glcontext, ctx = make()
    with glcontext:
        picture = ctx.texture((44, 30), 4, PICTURE.tobytes())
        mask = ctx.texture((44, 30), 4)
        gl, state = Functions(glcontext.load), State(glcontext.load)
        alive = stir(ctx, gl)
        alive[9].use(0)
        gl.glPixelStorei(0x0CF5, 8)
        before = state.read()
        delegate = gd.GpuDelegate(context=ctx)
        interpreter = allocated(delegate, negated((1, 30, 44, 4)))
        transform = gd.ImageTransform(channels="rgba")
        delegate.bind_texture_to_tensor(0, picture, transform=transform)
        delegate.bind_texture_to_tensor(1, mask)
        fault.calls = 0
        interpreter.invoke()
        assert state.read() == before
        count, places = RESTORED[name]
        fault.at, fault.calls = fault.calls - count, 0
        with pytest.raises(gd.GLError, match="to restore the state of the app"):
            interpreter.invoke()
        after = state.read()
        changed = {key for key in before if after[key] != before[key]}
        # The active unit's binding has its own query.
        assert changed - {hex(gl_names.TEXTURE_BINDING_2D)} <= places
        fault.at = -1
        gl.glBindBufferBase(gl_names.SHADER_STORAGE_BUFFER, 0, 0)  # ours, which is deleted now
        delegate.close()
    ctx.release()


def test_an_error_inside_comes_before_one_of_restoring(
    egl: gd.EglContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Fault("glBindBufferBase")
    fault.install(monkeypatch)
    gpu = GpuContext(egl)
    fault.at = fault.calls = 0
    with pytest.raises(ZeroDivisionError), gpu.guard():
        _ = 1 / 0
    assert fault.calls > 1
    with gpu.guard():  # no error is left
        gpu.gl.check("nothing")


@pytest.mark.parametrize(
    "name", ["glDeleteBuffers", "glDeleteProgram", "glDeleteTextures", "glDeleteSync"]
)
def test_releasing_goes_on_past_a_call_that_fails(
    name: str, egl: gd.EglContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State(egl.load)
    before = objects_in(egl, state)
    delegate = gd.GpuDelegate(context=egl)
    interpreter = allocated(delegate)
    check(interpreter)
    if name == "glDeleteTextures" and not delegate.gpu.limits.buffer_texels:
        pytest.skip("there are no buffer textures on this device")
    interpreter.invoke_async()
    vars(delegate.gpu.gl).pop(name, None)
    break_function(name)(monkeypatch, 0)
    with pytest.raises(gd.GLError, match=name):
        delegate.close()
    after = objects_in(egl, state)
    left = {kind: len(after[kind] - before[kind]) for kind in after if after[kind] != before[kind]}
    left.pop("Shader", None)  # of the program that is left
    kinds = {
        "glDeleteBuffers": "Buffer",
        "glDeleteProgram": "Program",
        "glDeleteTextures": "Texture",
    }
    assert left == ({kinds[name]: 1} if name in kinds else {})


def test_a_wait_that_fails_is_not_taken_for_the_end(
    gpu: GpuContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gpu.guard():
        fence = gd.Fence(gpu.gl, lambda function: function())
        with monkeypatch.context() as patch:
            patch.setattr(gpu.gl, "glClientWaitSync", lambda *_: 0x911D, raising=False)
            with pytest.raises(gd.GLError, match="GL_WAIT_FAILED"):
                fence.wait()
        assert fence.wait()


def fail_make_current(monkeypatch: pytest.MonkeyPatch, count: int, code: int = 0x3006) -> None:
    """Have eglMakeCurrent fail once, after `count` calls."""
    make_current = libegl().eglMakeCurrent
    calls = iter(range(count + 1))

    def call(*arguments: int) -> Any:
        if next(calls, -1) == count:
            raise EglError("eglMakeCurrent", code)
        return make_current(*arguments)

    monkeypatch.setattr(libegl(), "eglMakeCurrent", call)


@pytest.mark.mesa
@pytest.mark.parametrize("in_an_app", [False, True])
def test_a_context_that_does_not_come_back_leaves_none(
    in_an_app: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    egl, (glcontext, ctx) = gd.EglContext(), desktop_app()
    with libegl().restored():
        if in_an_app:
            glcontext.__enter__()
        api = EglBinding.of_this_thread(libegl()).api
        with monkeypatch.context() as patch:
            fail_make_current(patch, 1)
            with pytest.raises(EglError, match="EGL_BAD_CONTEXT"), egl:
                assert egl.is_current
        assert current_context() == 0
        assert EglBinding.of_this_thread(libegl()).api == api
        with monkeypatch.context() as patch:
            fail_make_current(patch, 1)
            with pytest.raises(ZeroDivisionError), egl:
                _ = 1 / 0
        assert current_context() == 0
    with egl:
        assert egl.is_current
    egl.release()
    ctx.release()


def lose_by_egl(delegate: gd.GpuDelegate, patch: pytest.MonkeyPatch) -> None:
    """EGL refuses the context from now on, and no other."""
    make_current, lost = libegl().eglMakeCurrent, delegate.gpu.egl

    def call(display: int, draw: int, read: int, context: int) -> Any:
        if context and lost and lost._native and context == lost.handle:
            raise EglError("eglMakeCurrent", 0x300E)
        return make_current(display, draw, read, context)

    patch.setattr(libegl(), "eglMakeCurrent", call)


def lose_by_reset_status(delegate: gd.GpuDelegate, patch: pytest.MonkeyPatch) -> None:
    """The reset status is told once, and no call reports an error."""
    statuses = iter([0x8253])
    patch.setattr(delegate.gpu.gl, "_reset_status", lambda: next(statuses, 0))


def lose_by_error(delegate: gd.GpuDelegate, patch: pytest.MonkeyPatch) -> None:
    """Every call has an error to report, as GL_KHR_robustness has it."""
    patch.setitem(delegate.gpu.gl._unchecked, "glGetError", lambda: gl_names.LOST)


LOSSES = {
    lose_by_egl: "EGL_CONTEXT_LOST .*make a new one",
    lose_by_reset_status: "invoke: GL_GUILTY_CONTEXT_RESET .*make a new one",
    lose_by_error: "GL_CONTEXT_LOST .*make a new one",
}


@pytest.mark.parametrize("invoke", [True, False])
@pytest.mark.parametrize("own_thread", [True, False])
@pytest.mark.parametrize("lose", LOSSES)
def test_a_lost_context_is_closed_and_a_new_delegate_runs(
    lose: Callable[..., None], own_thread: bool, invoke: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threading.active_count()
    delegate = gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=own_thread))
    interpreter = allocated(delegate)
    check(interpreter)
    invocation = interpreter.invoke_async()
    delegate.memory()  # by then an own thread has started the run
    destroyed = []
    destroy = libegl().eglDestroyContext
    with monkeypatch.context() as patch:
        patch.setattr(
            libegl(), "eglDestroyContext", lambda *args: (destroyed.append(1), destroy(*args))
        )
        lose(delegate, patch)
        for call in (interpreter.invoke, interpreter.invoke, invocation.wait) if invoke else ():
            with pytest.raises(gd.ContextLostError, match=LOSSES[lose]):
                call()
        if invoke or lose is not lose_by_reset_status:
            with pytest.raises(gd.ContextLostError, match="make a new one"):
                delegate.close()
        delegate.close()
        assert destroyed
        assert threading.active_count() == threads
        assert current_context() == 0
        with pytest.raises(gd.DelegateError, match="closed"):
            interpreter.invoke()
        interpreter = None
        with gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=own_thread)) as another:
            check(allocated(another))


@pytest.mark.parametrize("own_thread", [True, False])
def test_a_context_that_was_given_is_lost(
    own_thread: bool, egl: gd.EglContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    delegate = gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=own_thread), context=egl)
    interpreter = allocated(delegate)
    with monkeypatch.context() as patch:
        lose_by_egl(delegate, patch)
        with pytest.raises(gd.ContextLostError):
            interpreter.invoke()
        with pytest.raises(gd.ContextLostError):
            delegate.close()
        delegate.close()
    with egl:  # it stays the caller's
        assert egl.is_current


def test_a_reset_while_results_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    delegate = gd.GpuDelegate()
    interpreter = allocated(delegate)
    statuses = iter([0, 0x8254])
    monkeypatch.setattr(delegate.gpu.gl, "_reset_status", lambda: next(statuses, 0))
    with pytest.raises(gd.ContextLostError, match="GL_INNOCENT_CONTEXT_RESET"):
        interpreter.invoke()
    with pytest.raises(gd.ContextLostError):
        delegate.close()


def test_own_contexts_tell_of_resets_where_egl_can(egl: gd.EglContext) -> None:
    shared = gd.EglContext(share=egl)
    asked = "EGL_EXT_create_context_robustness" in egl._native.display.extensions  # type: ignore[union-attr]
    if not asked or "EGL_ANGLE_platform_angle" in libegl().client_extensions:
        pytest.skip("EGL has no EGL_EXT_create_context_robustness, or an ANGLE that goes further")
    for context in (egl, shared):
        gl = GpuContext(context).gl
        with context:
            assert gl.integer(gl_names.RESET_NOTIFICATION_STRATEGY) == 0x8252
            gl.check_reset("nothing")
    shared.release()


def test_contexts_where_egl_refuses_robustness(monkeypatch: pytest.MonkeyPatch) -> None:
    create, refused = libegl().eglCreateContext, []

    def call(display: int, config: int, share: int, attributes: Any) -> Any:
        if {0x30BF, 0x31B2} & set(attributes):
            refused.append(1)
            raise EglError("eglCreateContext", 0x3004)
        return create(display, config, share, attributes)

    monkeypatch.setattr(libegl(), "eglCreateContext", call)
    with gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        assert refused
        with delegate.gpu.guard():
            strategy = ctypes.c_int()
            delegate.gpu.gl.unchecked("glGetIntegerv")(0x8256, strategy)
        assert strategy.value != 0x8252
        check(interpreter)


def test_closing_in_the_child_of_a_fork_ends_closed() -> None:
    delegate = gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True))
    check(allocated(delegate))
    gpu, thread = delegate.gpu, delegate._thread
    assert thread is not None
    assert thread._worker is not None
    worker = thread._worker
    gpu._pid -= 1  # as a child sees it
    with pytest.raises(gd.ContextError, match="does not survive a fork"):
        delegate.close()
    delegate.close()
    assert thread.is_closed
    worker.call(gpu.release)
    worker.stop()


def test_what_is_bound_to_a_lost_context_does_not_count_as_released(app: App) -> None:
    """There, glIsBuffer and glIsTexture say no to every name."""
    interpreter = app.interpreter(negated((1, 2, 2, 4)))
    gl = app.delegate.gpu.gl
    is_buffer, alive = gl.unchecked("glIsBuffer"), [True]
    gl._unchecked["glIsBuffer"] = lambda name: alive[0] and is_buffer(name)
    app.delegate.bind_buffer_to_tensor(0, app.buffer(64))
    interpreter.invoke()
    alive[0] = False
    gl._reset_status = lambda: 0x8253
    with pytest.raises(gd.ContextLostError, match="make a new one"):
        interpreter.invoke()
    with pytest.raises(gd.ContextLostError):
        app.delegate.close()


def test_bytes_that_the_driver_lost_are_not_read(
    gpu: GpuContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gpu.guard():
        buffer = Buffer(gpu.gl, b"1234")
        assert buffer.read() == b"1234"
        unmap = gpu.gl.unchecked("glUnmapBuffer")
        monkeypatch.setitem(gpu.gl._unchecked, "glUnmapBuffer", lambda target: unmap(target) * 0)
        with pytest.raises(gd.GLError, match="glUnmapBuffer"):
            buffer.read()


def test_no_fence_is_an_error() -> None:
    gpu = GpuContext()
    with gpu.guard():
        gpu.gl._unchecked["glFenceSync"] = lambda *_: None
        with pytest.raises(gd.OutOfGpuMemoryError, match="glFenceSync"):
            gd.Fence(gpu.gl, lambda function: function())
    gpu.release()
