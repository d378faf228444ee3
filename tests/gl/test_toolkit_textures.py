"""Textures, names and contexts as toolkits make them, and what is said of those that do not fit."""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import moderngl
import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.current import current_loader
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import attributes, libegl
from tests.gl.test_binding import PICTURE, negated
from tests.gl.test_delegate import es_app
from tests.gl.test_pixel_state import ctx  # noqa: F401
from tests.support.app import App
from tests.support.process import run_python
from tests.support.small import allocated, check

pytestmark = pytest.mark.mesa

ALPHA, LUMINANCE, LUMINANCE_ALPHA = 0x1906, 0x1909, 0x190A
_BYTE, _FLOAT, _4444 = gl_names.UNSIGNED_BYTE, gl_names.FLOAT, 0x8033
RGBA = gd.ImageTransform(channels="rgba", mean=0, std=-255)


def specified(
    load: Any, internal: int, form: int, pixels: NDArray[Any] | None, kind: int = _BYTE
) -> int:
    """A texture of glTexImage2D; the content of 44 x 30 is undefined if there are no pixels."""
    gl = Functions(load)
    name = gl.generate("Textures")
    gl.glBindTexture(gl_names.TEXTURE_2D, name)
    gl.glPixelStorei(gl_names.UNPACK_ALIGNMENT, 1)
    height, width = (30, 44) if pixels is None else pixels.shape[:2]
    types = [*[ctypes.c_uint] * 2, *[ctypes.c_int] * 4, *[ctypes.c_uint] * 2, ctypes.c_void_p]
    specify = ctypes.CFUNCTYPE(None, *types)(load("glTexImage2D"))
    rows = None if pixels is None else np.ascontiguousarray(pixels)
    data = None if rows is None else rows.ctypes.data
    specify(gl_names.TEXTURE_2D, 0, internal, width, height, 0, form, kind, data)
    gl.check("glTexImage2D")
    gl.glPixelStorei(gl_names.UNPACK_ALIGNMENT, 4)
    gl.glBindTexture(gl_names.TEXTURE_2D, 0)
    return name


def test_an_output_in_rgba_without_sizes(app: App) -> None:
    """As of Kivy and vispy."""
    interpreter = app.interpreter(negated((1, 30, 44, 4)))
    with app.egl:
        name = specified(app.egl.load, gl_names.RGBA, gl_names.RGBA, None)
        coarse = specified(app.egl.load, gl_names.RGBA, gl_names.RGBA, None, _4444)
    app.delegate.bind_texture_to_tensor(1, name)
    interpreter.set_tensor(0, -PICTURE[np.newaxis].astype(np.float32) / 255)
    for _ in "12":
        interpreter.invoke()
    with app.egl:
        texture = app.ctx.external_texture(name, (44, 30), 4, 0, "f1")
    np.testing.assert_array_equal(app.read(texture, "u1"), PICTURE.ravel())
    with pytest.raises(ValueError, match=r"one of \['RGBA8'.* format 0x1908"):
        app.delegate.bind_texture_to_tensor(1, coarse)


def colors(form: int, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Colors that GL makes of an old format."""
    luminance, alpha = pixels[..., :1].astype(np.float32), pixels[..., -1:].astype(np.float32)
    none = np.zeros_like(luminance)
    if form == ALPHA:
        return np.concatenate([none, none, none, alpha], -1)
    one = none + 255 if form == LUMINANCE else alpha
    return np.concatenate([luminance, luminance, luminance, one], -1)


def sampled(interpreter: gd.Interpreter, delegate: gd.GpuDelegate, name: int) -> NDArray[Any]:
    delegate.bind_texture_to_tensor(0, name, transform=RGBA)
    interpreter.invoke()
    return 255 * interpreter.get_tensor(1)[0]


@pytest.mark.parametrize(("form", "channels"), [(ALPHA, 1), (LUMINANCE, 1), (LUMINANCE_ALPHA, 2)])
def test_inputs_in_old_formats(form: int, channels: int, app: App) -> None:
    """As of Kivy, SDL and GStreamer in OpenGL ES 2."""
    pixels = PICTURE[..., :channels]
    interpreter = app.interpreter(negated((1, 30, 44, 4)))
    with app.egl:
        name = specified(app.egl.load, form, form, pixels)
    actual = sampled(interpreter, app.delegate, name)
    np.testing.assert_allclose(actual, colors(form, pixels), atol=1e-3)


@pytest.mark.parametrize("ctx", ["compatibility"], indirect=True)
@pytest.mark.parametrize(
    ("internal", "form", "kind"),
    [
        *((0x803C, ALPHA, _BYTE), (0x8040, LUMINANCE, _BYTE), (0x8045, LUMINANCE_ALPHA, _BYTE)),
        *((0x8818, LUMINANCE, _FLOAT), (0x881C, ALPHA, _FLOAT), (0x804B, gl_names.RED, _BYTE)),
    ],
)
def test_inputs_in_old_formats_of_desktop_opengl(
    internal: int,
    form: int,
    kind: int,
    ctx: moderngl.Context,  # noqa: F811
) -> None:
    pixels = PICTURE[..., : 2 if form == LUMINANCE_ALPHA else 1]
    content = pixels if kind == _BYTE else pixels / np.float32(255)
    name = specified(current_loader(), internal, form, content, kind)
    with gd.GpuDelegate(context="current") as delegate:
        interpreter = allocated(delegate, negated((1, 30, 44, 4)))
        actual = sampled(interpreter, delegate, name)
    expected = np.repeat(pixels, 4, -1) if internal == 0x804B else colors(form, pixels)
    np.testing.assert_allclose(actual, expected, atol=0.1)


def test_planes_in_old_formats(app: App) -> None:
    interpreter = app.interpreter(negated((1, 30, 44, 3)))
    bind = app.delegate.bind_texture_to_tensor
    luma, chroma = PICTURE[..., :1], PICTURE[:15, :22, :2]
    with app.egl:
        load = app.egl.load
        new = [specified(load, gl_names.R8, gl_names.RED, luma)]
        new.append(specified(load, gl_names.RG8, gl_names.RG, chroma))
        old = [specified(load, LUMINANCE, LUMINANCE, luma)]
        old.append(specified(load, LUMINANCE_ALPHA, LUMINANCE_ALPHA, chroma))
        single = specified(load, gl_names.R8, gl_names.RED, chroma[..., :1])
    results = []
    for planes in (new, [old[0], new[1]]):
        bind(0, planes)
        interpreter.invoke()
        results.append(interpreter.get_tensor(1))
    np.testing.assert_array_equal(*results)
    with pytest.raises(ValueError, match=r"in red and green .*0x190a, whose last channel is alpha"):
        bind(0, old)
    with pytest.raises(ValueError, match="expected U and V in the second of two planes"):
        bind(0, [new[0], single])


class Named:
    """An object of arcade or pyglet."""

    def __init__(self, name: int) -> None:
        self.glo = ctypes.c_uint(name)


@pytest.mark.parametrize("kind", [np.uint32, np.int64, ctypes.c_uint, ctypes.c_int, Named])
def test_names_of_other_types(kind: Any, app: App) -> None:
    interpreter = app.interpreter(negated((1, 30, 44, 4)))
    source, target = app.texture(PICTURE), app.texture(PICTURE)
    for texture in (source, app.texture(PICTURE // 2), source):
        app.delegate.bind_texture_to_tensor(0, kind(texture.glo), transform=RGBA)
        app.delegate.bind_texture_to_tensor(1, kind(target.glo))
        for _ in "12":
            interpreter.invoke()
    np.testing.assert_array_equal(app.read(target, "u1"), PICTURE.ravel())
    buffer = app.buffer(PICTURE.size * 4)
    app.delegate.bind_buffer_to_tensor(1, kind(buffer.glo))
    interpreter.invoke()
    np.testing.assert_allclose(app.read(buffer, "f4") * 255, PICTURE.ravel(), atol=1e-3)
    region = app.buffer(np.array([[44, 0, 0], [0, 30, 0]], np.float32))
    transform = gd.ImageTransform(channels="rgba")
    app.delegate.bind_texture_to_tensor(
        0, np.array([source.glo], np.uint32), transform=transform, region=kind(region.glo)
    )
    interpreter.invoke()


def test_an_object_whose_name_changes_in_place(app: App) -> None:
    interpreter = app.interpreter(negated((1, 30, 44, 4)))
    thing, other = Named(app.texture(PICTURE).glo), app.texture(PICTURE).glo
    app.delegate.bind_texture_to_tensor(0, thing, transform=RGBA)
    interpreter.invoke()
    thing.glo.value = other
    with pytest.raises(ValueError, match=f"found the name {other}: bind it again"):
        interpreter.invoke()


def test_the_name_0_means_none(app: App) -> None:
    app.interpreter(negated((1, 30, 44, 4)))
    with pytest.raises(ValueError, match="found the name 0, which means none"):
        app.delegate.bind_texture_to_tensor(0, 0, transform=RGBA)
    with pytest.raises(ValueError, match="found the name 0, which means none"):
        app.delegate.bind_buffer_to_tensor(0, 0)


def test_a_fence_of_another_context(app: App) -> None:
    with app.egl:
        fence = gd.Fence.of_current_context()
    with gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        with pytest.raises(ValueError, match="the context of the fence, or one that shares"):
            interpreter.invoke_async(wait_for=fence)
        check(interpreter)
    with app.egl:
        assert fence.wait()


def test_an_adopted_context_on_another_thread() -> None:
    glcontext, adopted = es_app()
    with glcontext, gd.GpuDelegate(context=adopted) as delegate, ThreadPoolExecutor(1) as pool:
        interpreter = allocated(delegate)
        with pytest.raises(gd.WrongThreadError, match=r'its context, EglContext\(share="current"'):
            pool.submit(interpreter.invoke).result()
    adopted.release()


def test_an_adopted_context_of_opengl_es_3_0() -> None:
    code = "from tests.gl.test_toolkit_textures import *; adopt_es_3_0()"
    child = run_python(code, MESA_GLES_VERSION_OVERRIDE="3.0")
    assert child.returncode == 0, child.stderr


def adopt_es_3_0() -> None:
    egl = gd.EglContext()  # of desktop OpenGL
    libegl().eglBindAPI(0x30A0)
    handle = libegl().eglCreateContext(egl.display, 0, 0, attributes(0x3098, 3))
    libegl().eglMakeCurrent(egl.display, 0, 0, handle)
    with pytest.raises(gd.ContextError, match=r"expected OpenGL ES 3\.1 .*found 'OpenGL ES 3\.0"):
        allocated(gd.GpuDelegate(context="current"))


@pytest.mark.parametrize("robust", [False, True])
def test_sharing_with_a_context_without_errors(robust: bool) -> None:
    """As GLFW's hint CONTEXT_NO_ERROR gives."""
    egl, base = libegl(), gd.EglContext()
    with egl.restored():
        egl.eglBindAPI(0x30A0)
        wanted = attributes(0x3098, 3, 0x30FB, 1, 0x31B3, 1)
        handle = egl.eglCreateContext(base.display, 0, 0, wanted)
        egl.eglMakeCurrent(base.display, 0, 0, handle)
        shared = gd.EglContext(share="current", robust=robust)
        with gd.GpuDelegate(context=shared) as delegate:
            check(allocated(delegate))
        shared.release()
        egl.eglMakeCurrent(base.display, 0, 0, 0)
        egl.eglDestroyContext(base.display, handle)
    base.release()
