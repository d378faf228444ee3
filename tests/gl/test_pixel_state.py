"""Settings of an app for uploads, reads and levels of textures, and errors that it left."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import moderngl
import numpy as np
import pytest

import gles_delegate as gd
from gles_apps.live.painter import new_texture
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import libegl
from tests.gl.test_binding import PICTURE, negated
from tests.gl.test_drawing_state import contexts
from tests.support.app import App
from tests.support.live import read_texture
from tests.support.small import allocated, check
from tests.support.state import State

pytestmark = pytest.mark.mesa

STORED = {
    0x0CF0: 1,
    0x0CF1: 1,
    0x0CF2: 99,
    0x0CF3: 3,
    0x0CF4: 5,
    0x0CF5: 8,
    0x806D: 2,
    0x806E: 7,
    0x0D00: 1,
    0x0D01: 1,
    0x0D02: 99,
    0x0D03: 3,
    0x0D04: 5,
    0x0D05: 8,
    0x806B: 2,
    0x806C: 7,
}
"""All that glPixelStorei takes, of uploads and of reads: bytes swapped, rows of 99 pixels ..."""
TRANSFERRED = {0x0D10: 1, 0x0D14: 0.5, 0x0D15: 0.25, **dict.fromkeys(range(0x0D18, 0x0D1E), 0.125)}
"""Colors mapped; scales and biases of red, green, blue and alpha."""


class Current:
    """Whatever is current, for moderngl."""

    def load(self, name: str) -> int:
        return int(libegl().eglGetProcAddress(name.encode()))

    def __enter__(self) -> Current:
        return self

    def __exit__(self, *raised: object) -> None: ...

    def release(self) -> None: ...


@pytest.fixture(params=["core", "compatibility"])
def ctx(request: pytest.FixtureRequest) -> Iterator[moderngl.Context]:
    """A context of desktop OpenGL, which is current."""
    with contexts(request.param):
        yield moderngl.create_context(context=Current(), require=430)  # type: ignore[arg-type]


def is_core() -> bool:
    return bool(Functions(Current().load).integer(0x9126) & 1)


def spoil(gl: Functions, is_core: bool) -> list[float]:
    """Set whatever converts pixels to something unusual; return the values."""
    for parameter in STORED:
        gl.glPixelStorei(parameter, STORED[parameter])
    for parameter in {} if is_core else TRANSFERRED:
        gl.glPixelTransferf(parameter, TRANSFERRED[parameter])
    return values(gl)


def values(gl: Functions) -> list[float]:
    found, value = [], ctypes.c_float()
    for parameter in (*STORED, *TRANSFERRED):
        gl.unchecked("glGetFloatv")(parameter, value)
        found.append(value.value)
    gl.forget_errors()  # a core profile does not transfer
    return found


def reset(gl: Functions) -> None:
    for function, parameter, usual in (*gl.unpack_state, *gl.pack_state):
        getattr(gl, function)(parameter, usual)


@pytest.mark.parametrize(("dtype", "channels"), [("f1", 4), ("f2", 4), ("f4", 1)])
def test_outputs_in_desktop_opengl(dtype: str, channels: int, ctx: moderngl.Context) -> None:
    picture = PICTURE[..., :channels]
    mask, gl, state = (
        ctx.texture((44, 30), channels, dtype=dtype),
        Functions(Current().load),
        State(Current().load),
    )
    with gd.GpuDelegate(context="current") as delegate:
        interpreter = allocated(delegate, negated((1, 30, 44, channels)))
        delegate.bind_texture_to_tensor(1, mask)
        interpreter.set_tensor(0, -picture[np.newaxis].astype(np.float32) / 255)
        before = spoil(gl, is_core()), state.read()
        interpreter.invoke()
        assert (values(gl), state.read()) == before
    reset(gl)
    kind = {"f1": np.uint8, "f2": np.float16, "f4": np.float32}[dtype]
    actual: Any = np.frombuffer(mask.read(), kind).reshape(picture.shape)
    scale = 1 if dtype == "f1" else 255
    np.testing.assert_allclose(actual.astype(np.float32) * scale, picture, atol=0.1)


def test_weights_uploads_and_reads_in_desktop_opengl(ctx: moderngl.Context) -> None:
    gl = Functions(Current().load)
    before = spoil(gl, is_core())
    with gd.GpuDelegate(context="current") as delegate:
        check(allocated(delegate))
    texture = new_texture(PICTURE)
    np.testing.assert_array_equal(read_texture(texture), PICTURE)
    assert values(gl) == before
    texture.release()


def with_levels(app: App, base: int, immutable: bool = False) -> tuple[Functions, int]:
    """Three levels of a texture, the first of 64 x 64, with another base level."""
    gl, target = Functions(app.egl.load), gl_names.TEXTURE_2D
    with app.egl:
        name = gl.generate("Textures")
        gl.glBindTexture(target, name)
        if immutable:
            gl.glTexStorage2D(target, 3, gl_names.RGBA8, 64, 64)
        specify = ctypes.CFUNCTYPE(
            None, *[ctypes.c_uint] * 2, *[ctypes.c_int] * 4, *[ctypes.c_uint] * 2, ctypes.c_void_p
        )(app.egl.load("glTexImage2D"))
        for level in range(3):
            pixels = np.full((64 >> level, 64 >> level, 4), 100 + level, np.uint8)
            size = pixels.shape[:2]
            form = (gl_names.RGBA, gl_names.UNSIGNED_BYTE, pixels.ctypes.data)
            if immutable:
                gl.glTexSubImage2D(target, level, 0, 0, *size, *form)
            else:
                specify(target, level, gl_names.RGBA8, *size, 0, *form)
        gl.glTexParameteri(target, gl_names.TEXTURE_BASE_LEVEL, base)
        gl.glTexParameteri(target, 0x813D, 2)  # the last level
    return gl, name


@pytest.mark.parametrize(
    ("base", "immutable", "level"), [(0, False, 0), (1, False, 1), (2, True, 2), (9, True, 2)]
)
def test_the_base_level_of_an_input(base: int, immutable: bool, level: int, app: App) -> None:
    gl, name = with_levels(app, base, immutable)
    interpreter = app.interpreter(negated((1, 64 >> level, 64 >> level, 4)))
    transform = gd.ImageTransform(channels="rgba", mean=0, std=-255, padding=1)
    app.delegate.bind_texture_to_tensor(0, name, transform=transform)
    interpreter.invoke()
    np.testing.assert_allclose(interpreter.get_tensor(1) * 255, 100 + level, atol=1e-3)
    with app.egl:
        gl.glTexParameteri(gl_names.TEXTURE_2D, gl_names.TEXTURE_BASE_LEVEL, 1 - min(level, 1))
    with pytest.raises(ValueError, match=r"is bound to .*bind it again"):
        interpreter.invoke()


def test_a_base_level_above_the_last_one(app: App) -> None:
    _, name = with_levels(app, 3)
    app.interpreter(negated((1, 64, 64, 4)))
    with pytest.raises(ValueError, match="its maximum level 2: shaders would see black"):
        app.delegate.bind_texture_to_tensor(0, name, transform=gd.ImageTransform(channels="rgba"))


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("antialias", [False, True])
def test_an_srgb_texture_gives_the_stored_colors(skips: bool, antialias: bool, app: App) -> None:
    """Networks are trained on these, and not on linear light."""
    seen = []
    for form in (gl_names.RGBA8, 0x8C43):
        with app.egl:
            texture = app.ctx.texture((44, 30), 4, PICTURE.tobytes(), internal_format=form)
            if skips and form != gl_names.RGBA8:
                texture.use(0)
                Functions(app.egl.load).glTexParameteri(gl_names.TEXTURE_2D, 0x8A48, 0x8A4A)
        with gd.GpuDelegate(context=app.egl) as delegate:
            interpreter = allocated(delegate, negated((1, 20, 20, 4)))
            options = {"channels": "rgba", "mean": 0, "std": -255, "antialias": antialias}
            delegate.bind_texture_to_tensor(0, texture, transform=gd.ImageTransform(**options))
            interpreter.invoke()
            seen.append(interpreter.get_tensor(1))
    np.testing.assert_allclose(*seen, rtol=0, atol=1e-6)


@pytest.mark.parametrize("immutable", [False, True])
def test_the_base_level_of_an_output(immutable: bool, app: App) -> None:
    gl, name = with_levels(app, 1, immutable)
    interpreter = app.interpreter(negated((1, 32, 32, 4)))
    app.delegate.bind_texture_to_tensor(1, name)
    interpreter.set_tensor(0, np.full((1, 32, 32, 4), -50 / 255, np.float32))
    interpreter.invoke()
    with app.egl:
        framebuffer, pixels = gl.generate("Framebuffers"), np.empty((64, 64, 4), np.uint8)
        gl.glBindFramebuffer(gl_names.FRAMEBUFFER, framebuffer)
        gl.glTexParameteri(gl_names.TEXTURE_2D, gl_names.TEXTURE_BASE_LEVEL, 0)
        for level, expected in enumerate([100, 50, 102]):
            attachment = gl_names.COLOR_ATTACHMENT0, gl_names.TEXTURE_2D, name, level
            gl.glFramebufferTexture2D(gl_names.FRAMEBUFFER, *attachment)
            area = (0, 0, 64 >> level, 64 >> level)
            form = gl_names.RGBA, gl_names.UNSIGNED_BYTE, pixels.ctypes.data
            gl.glReadPixels(*area, *form)
            assert {*pixels.ravel()[: 4 * (64 >> level) ** 2]} == {expected}
        gl.glBindFramebuffer(gl_names.FRAMEBUFFER, 0)


PENDING = {
    gl_names.INVALID_ENUM: lambda gl: gl.unchecked("glEnable")(0xDEAD),
    gl_names.INVALID_VALUE: lambda gl: gl.unchecked("glUseProgram")(0xDEAD),
    gl_names.INVALID_OPERATION: lambda gl: gl.unchecked("glDispatchCompute")(1, 1, 1),
}


@pytest.mark.parametrize("code", PENDING)
@pytest.mark.parametrize("adopt", [False, True])
def test_an_error_of_the_app_is_cleared_and_logged(
    code: int, adopt: bool, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """It is none of the call's. Put back, pyglet would raise what moderngl leaves."""
    caplog.set_level("DEBUG", "gles_delegate")
    with app.egl:
        gl = Functions(app.egl.load)
        fail, name = PENDING[code], gl_names._ERRORS[code]
        with gd.GpuDelegate(context=app.ctx if adopt else app.egl) as delegate:
            interpreter = allocated(delegate)
            for use in (
                lambda: check(interpreter),
                interpreter.allocate_tensors,
                lambda: interpreter.invoke_async().wait(),
                lambda: gd.Fence.of_current_context().wait(),
                lambda: read_texture(new_texture(PICTURE)),
                delegate.close,
            ):
                fail(gl)
                caplog.clear()
                use()
                assert gl.forget_errors() == []
                assert f"call of the app failed before this call: {name}" in caplog.text
