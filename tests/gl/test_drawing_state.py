"""Painter draws the same whatever the app has set, and leaves it as it was."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_float, c_int, c_ubyte, c_uint
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_apps.live.layers import Layer
from gles_apps.live.painter import Painter, new_texture
from gles_apps.vision.drawing import Drawing
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.current import current_loader
from gles_delegate.gl.drawing import DrawProgram, Framebuffer, drawing_restored
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import attributes, libegl
from gles_delegate.gl.texture import PixelTexture
from gles_delegate.model.graph import Array
from tests.gl.test_egl import OPENGL_API
from tests.support.sampling import choose, drawn
from tests.support.state import State

pytestmark = pytest.mark.mesa

KINDS = {"ES": 0, "core": 1, "compatibility": 2}
"""The profile bit of contexts of desktop OpenGL."""


@contextmanager
def contexts(kind: str) -> Iterator[Callable[[], None]]:
    """A context of a kind, which is current; the function makes one current that shares with it."""
    egl, profile = libegl(), KINDS[kind]
    with gd.EglContext() as own, egl.restored():
        egl.eglBindAPI(OPENGL_API if profile else OPENGL_ES_API)
        wanted = (
            attributes(0x3098, 4, 0x30FB, 5, 0x30FD, profile)
            if profile
            else attributes(0x3098, 3, 0x30FB, 2)
        )
        first = egl.eglCreateContext(own.display, 0, 0, wanted)
        second = egl.eglCreateContext(own.display, 0, first, wanted)
        assert 0 not in (first, second)
        egl.eglMakeCurrent(own.display, 0, 0, first)
        yield lambda: egl.eglMakeCurrent(own.display, 0, 0, second)
        egl.eglMakeCurrent(own.display, 0, 0, 0)
        for handle in (first, second):
            egl.eglDestroyContext(own.display, handle)


def call(name: str, *arguments: Any) -> None:
    """Call a function of unsigned integers, or of what the arguments are of ctypes."""
    given = [a if isinstance(a, ctypes._SimpleCData) else c_uint(a) for a in arguments]
    ctypes.CFUNCTYPE(None, *map(type, given))(current_loader()(name))(*given)


MASK = [c_ubyte(n) for n in (1, 0, 1, 0)]
HALF = [c_float(n) for n in (0.25, 0.5, 0.25, 0.5)]
VALUES: dict[str, Callable[[], None]] = {
    "color mask": lambda: call("glColorMask", *MASK),
    "color mask of buffer 0": lambda: call("glColorMaski", 0, *MASK),
    "color mask of buffer 1": lambda: call("glColorMaski", 1, *MASK),
    "blend equation": lambda: call("glBlendEquation", 0x800B),
    "blend equation of buffer 0": lambda: call("glBlendEquationi", 0, 0x8007),
    "blend equation of buffer 2": lambda: call("glBlendEquationSeparatei", 2, 0x8007, 0x8008),
    "blend factors": lambda: call("glBlendFunc", 0, 0x0301),
    "blend factors of buffer 0": lambda: call("glBlendFunci", 0, 1, 1),
    "blend factors of buffer 1": lambda: call("glBlendFuncSeparatei", 1, 1, 0, 0, 1),
    "blending of buffer 0": lambda: call("glEnablei", 0x0BE2, 0),
    "blending of all buffers but 1": lambda: [
        call("glEnable", 0x0BE2),
        call("glDisablei", 0x0BE2, 1),
    ],
    "blend color": lambda: call("glBlendColor", *HALF),
    "logic operation": lambda: [call("glLogicOp", 0x150A), call("glEnable", 0x0BF2)],
    "lines": lambda: call("glPolygonMode", 0x0408, 0x1B01),
    "points": lambda: call("glPolygonMode", 0x0408, 0x1B00),
    "lines in front": lambda: call("glPolygonMode", 0x0404, 0x1B01),
    "upper left": lambda: call("glClipControl", 0x8CA2, 0x935E),
    "upper left in ES": lambda: call("glClipControlEXT", 0x8CA2, 0x935F),
    "viewport": lambda: call("glViewport", 3, 4, 5, 6),
    "viewport 0": lambda: call("glViewportIndexedf", 0, *HALF),
    "viewport 3": lambda: call("glViewportIndexedf", 3, *HALF),
    "scissor": lambda: [call("glScissor", 1, 2, 3, 4), call("glEnable", 0x0C11)],
    "scissor 0": lambda: [call("glScissorIndexed", 0, 1, 1, 2, 2), call("glEnablei", 0x0C11, 0)],
    "scissor 2": lambda: call("glEnablei", 0x0C11, 2),
    "cleared to red": lambda: call("glClearColor", *map(c_float, (1, 0, 0, 1))),
    "all culled": lambda: [call("glCullFace", 0x0408), call("glEnable", 0x0B44)],
    "clockwise": lambda: [call("glFrontFace", 0x0900), call("glEnable", 0x0B44)],
    "no depth passes": lambda: [call("glDepthFunc", 0x0200), call("glEnable", 0x0B71)],
    "no stencil passes": lambda: [call("glStencilFunc", 0x0200, 1, 1), call("glEnable", 0x0B90)],
    "no alpha passes": lambda: [call("glAlphaFunc", 0x0200, c_float(0)), call("glEnable", 0x0BC0)],
    "no sample": lambda: [call("glSampleMaski", 0, 0), call("glEnable", 0x8E51)],
    "no coverage": lambda: [
        call("glSampleCoverage", c_float(0), c_ubyte(0)),
        call("glEnable", 0x80A0),
    ],
    "depth range": lambda: call("glDepthRangef", c_float(1), c_float(0)),
    "flat first": lambda: call("glProvokingVertex", 0x8E4D),
    "clamped vertices": lambda: call("glClampColor", 0x891A, 1),
    "rows of 99 pixels": lambda: [call("glPixelStorei", n, 99) for n in (0x0D02, 0x0CF2)],
    "skipped pixels": lambda: [call("glPixelStorei", n, 3) for n in (0x0D04, 0x0CF4)],
    "swapped bytes": lambda: [call("glPixelStorei", n, 1) for n in (0x0D00, 0x0CF0)],
    "upside down reads": lambda: call("glPixelStorei", 0x8758, 1),
    "half of red": lambda: call("glPixelTransferf", 0x0D14, c_float(0.5)),
    "more blue": lambda: call("glPixelTransferf", 0x0D1B, c_float(0.5)),
}
CORE_LACKS = {"lines in front", "no alpha passes", "clamped vertices", "half of red", "more blue"}
ES_LACKS = {
    *CORE_LACKS,
    *("logic operation", "lines", "points", "flat first", "swapped bytes", "upside down reads"),
}
LACKS: dict[str, set[str]] = {"ES": ES_LACKS, "core": CORE_LACKS, "compatibility": set()}
"""The values that a kind of context may not know."""
OPENGL_ES_API = 0x30A0
INDEXED = (*gl_names.BLEND_FUNCTION, *gl_names.BLEND_EQUATION, 0x0C23, 0x0BA2, 0x0C10)
"""Blending, color masks, viewports and scissors."""


class App:
    """Draws a picture with a layer and shapes, into a window as well."""

    def __init__(self) -> None:
        self.gl, self.state = Functions(current_loader()), State(current_loader())
        rng = np.random.default_rng(0)
        self.small = new_texture(rng.integers(0, 256, (18, 32, 4), np.uint8))
        self.layer = Layer(rng.random((18, 32, 1), np.float32), fill=(10, 200, 30))
        with drawing_restored(self.gl):
            self.window = PixelTexture(self.gl, (40, 70, 4))
            self.framebuffer = Framebuffer(self.gl)
            self.framebuffer.bind(self.window)
        self.painter = Painter((36, 64))
        self.drawing = Drawing((36, 64))
        self.drawing.box((10, 10, 50, 30), (255, 0, 0))
        self.drawing.text((5, 5), "a", (0, 0, 255))

    def drawn(self) -> Array:
        painter = self.painter
        painter.begin(self.small)
        painter.layer(self.layer)
        painter.draw(self.drawing)
        painter.present((40, 70), self.framebuffer.name)
        return painter.pixels()

    def read(self) -> dict[Any, Any]:
        state = self.state.read()
        for i in range(4):
            for query in INDEXED:
                values = (c_int * 4)()
                self.gl.unchecked("glGetIntegeri_v")(query, i, values)
                state[query, i] = [*values]
            for capability in (0x0BE2, 0x0C11):
                state["enabled", capability, i] = self.gl.unchecked("glIsEnabledi")(capability, i)
        self.gl.forget_errors()  # a context lacks some of these
        return state

    def shown(self) -> Array:
        """Pixels of the window, read in a context whose state is the usual one."""
        gl, pixels = Functions(current_loader()), np.empty((40, 70, 4), np.uint8)
        Framebuffer(gl).bind(self.window)
        gl.glFinish()
        gl.glReadPixels(0, 0, 70, 40, 0x1908, 0x1401, pixels.ctypes.data)
        return pixels


def with_change(kind: str, change: Callable[[Functions], object]) -> tuple[bool, str, Array, Array]:
    """Whether the context knows a change; what it did to the state; the picture and the window."""
    with contexts(kind) as change_context:
        app = App()
        change(app.gl)
        is_known = not app.gl.forget_errors()
        before = app.read()
        drawn, after = app.drawn(), app.read()
        different = {key: (before[key], after[key]) for key in before if before[key] != after[key]}
        app.gl.glFinish()
        change_context()
        return is_known, str(different or ""), drawn, app.shown()


@pytest.fixture(scope="module")
def usual(gl: None) -> dict[str, tuple[Array, Array]]:
    return {kind: with_change(kind, lambda gl: None)[2:] for kind in KINDS}


def check(kind: str, name: str, change: Callable[[Functions], object], usual: Any) -> bool:
    is_known, different, *pictures = with_change(kind, change)
    if is_known:
        assert different == "", name
        for found, expected in zip(pictures, usual[kind], strict=True):
            np.testing.assert_array_equal(found, expected, name)
    return is_known


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_the_app_has_set(kind: str, usual: Any) -> None:
    assert len(np.unique(usual[kind][1])) > 9
    chosen = choose("drawing state", [*VALUES], drawn([*VALUES], 15))
    known = {n for n in chosen if check(kind, n, lambda gl, n=n: VALUES[n](), usual)}
    assert {*chosen} - known <= LACKS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_capabilities_that_the_app_has_turned(kind: str, usual: Any) -> None:
    """Every capability of the context, together; with --all, also each alone."""
    numbers = (*range(0x0B00, 0x0E00), *range(0x3000, 0x3010), *range(0x8000, 0x9700))

    def turn(gl: Functions, *turned: int) -> None:
        for number in turned or [n for n in numbers if gl.answers(n, "glIsEnabled")]:
            call("glDisable" if gl.unchecked("glIsEnabled")(number) else "glEnable", number)

    with contexts(kind):
        gl = Functions(current_loader())
        known = [n for n in numbers if gl.answers(n, "glIsEnabled")]
    assert len(known) > 12
    check(kind, "all of them", lambda gl: [turn(gl), gl.forget_errors()], usual)
    for number in choose("capabilities", known, []):
        check(kind, f"{number:#x}", lambda gl, n=number: turn(gl, n), usual)


@pytest.mark.parametrize("broken", [0, 1], ids=["vertex", "fragment"])
def test_a_shader_that_does_not_compile(broken: int) -> None:
    """The error quotes the driver's log."""
    shaders = [
        "void main() { gl_Position = vec4(0.0); }",
        "out vec4 c; void main() { c = vec4(1); }",
    ]
    shaders[broken] = "void main() { no_such_name = 1.0; }"
    with gd.EglContext() as egl, pytest.raises(gd.ShaderError, match=r"draws: .*no_such_name"):
        DrawProgram(Functions(egl.load), *shaders)
    egl.release()
