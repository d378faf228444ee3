"""Drawing with vertex and fragment shaders in the current context, of OpenGL or OpenGL ES."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import c_float, c_int
from typing import Protocol, TypeAlias

import numpy as np

from gles_delegate.errors import ShaderError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.context import afterwards, textures_restored
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.texture import Pixels
from gles_delegate.support.closing import in_any_case, on_error

Uniform: TypeAlias = bool | int | float | Sequence[float]
"""A number, a vector of 2 or 3, or a mat3x2 of 6 numbers, column after column."""

Call: TypeAlias = tuple[str, tuple[float, ...]]
"""A GL function, and its arguments."""
_VIEWPORT_OF = {False: "glViewportIndexedf", True: "glViewportIndexedfOES"}
_CAPABILITIES = (
    *(gl_names.BLEND, gl_names.SCISSOR_TEST),
    *(0x0B44, 0x0B71, 0x0B90),  # CULL_FACE, DEPTH_TEST, STENCIL_TEST
    *(0x0BD0, 0x0BF2, 0x8C89, 0x8DB9),  # DITHER, COLOR_LOGIC_OP, RASTERIZER_DISCARD, sRGB writes
    *(0x809E, 0x809F, 0x80A0, 0x8E51),  # SAMPLE_ALPHA_TO_COVERAGE, _TO_ONE, _COVERAGE, _MASK
    *(0x0B41, 0x0B42, 0x0BC0, 0x8890),  # POLYGON_SMOOTH, _STIPPLE, ALPHA_TEST, DEPTH_BOUNDS_TEST
    *(0x9346, 0x83FE),  # CONSERVATIVE_RASTERIZATION of NVIDIA and Intel
    *range(0x3000, 0x3008),  # CLIP_DISTANCE0 to 7
)
"""Capabilities that change or discard what is drawn; not every context has each."""


class Texture(Protocol):
    """A texture with its GL name, width and height, such as a `moderngl.Texture`."""

    @property
    def glo(self) -> int: ...
    @property
    def size(self) -> tuple[int, int]: ...


class DrawProgram:
    """A program of shaders that lack a version line."""

    def __init__(self, gl: Functions, vertex: str, fragment: str) -> None:
        self._gl = gl
        is_es = gl.string(gl_names.VERSION).startswith("OpenGL ES")
        header = "#version 310 es\nprecision highp float;\n" if is_es else "#version 330\n"
        self.name = gl.glCreateProgram()
        with on_error(self.release):
            for kind, text in (
                (gl_names.VERTEX_SHADER, vertex),
                (gl_names.FRAGMENT_SHADER, fragment),
            ):
                shader = gl.glCreateShader(kind)
                gl.glShaderSource(shader, 1, ctypes.c_char_p((header + text).encode()), None)
                gl.glCompileShader(shader)
                self._require("Shader", shader, gl_names.COMPILE_STATUS)
                gl.glAttachShader(self.name, shader)
                gl.glDeleteShader(shader)  # once the program is deleted
            gl.glLinkProgram(self.name)
            self._require("Program", self.name, gl_names.LINK_STATUS)

    def use(self, uniforms: Mapping[str, Uniform]) -> None:
        """Use it for the next draws, and set uniforms."""
        self._gl.glUseProgram(self.name)
        for name, value in uniforms.items():
            location = self._gl.glGetUniformLocation(self.name, name.encode())
            if isinstance(value, bool | int):
                self._gl.glUniform1iv(location, 1, c_int(value))
                continue
            numbers = (value,) if isinstance(value, float) else value
            data = (c_float * len(numbers))(*numbers)
            if len(numbers) == 6:
                self._gl.glUniformMatrix3x2fv(location, 1, 0, data)
            else:
                getattr(self._gl, f"glUniform{len(numbers)}fv")(location, 1, data)

    def attribute(self, name: str) -> int:
        """The location of an attribute of its vertices."""
        return int(self._gl.glGetAttribLocation(self.name, name.encode()))

    def release(self) -> None:
        self._gl.glDeleteProgram(self.name)

    def _require(self, kind: str, name: int, status: int) -> None:
        done = c_int()
        log = ctypes.create_string_buffer(4096)
        getattr(self._gl, f"glGet{kind}iv")(name, status, done)
        if not done.value:
            getattr(self._gl, f"glGet{kind}InfoLog")(name, len(log), None, log)
            raise ShaderError(f"a program that draws: {log.value.decode('utf-8', 'replace')}")


class Instances:
    """A buffer with float attributes of instances, such as the shapes of a drawing.

    Args:
        attributes: The lengths of a program's attributes by their names, in the buffer's order.
    """

    def __init__(self, gl: Functions, program: DrawProgram, attributes: Mapping[str, int]) -> None:
        self._gl = gl
        self._buffer = self.name = 0
        with on_error(self.release):
            self._buffer = gl.generate("Buffers")
            self.name = gl.generate("VertexArrays")
            gl.glBindVertexArray(self.name)
            gl.glBindBuffer(gl_names.ARRAY_BUFFER, self._buffer)
            stride = 4 * sum(attributes.values())
            offset = 0
            for name, length in attributes.items():
                location = program.attribute(name)
                gl.glEnableVertexAttribArray(location)
                gl.glVertexAttribPointer(location, length, gl_names.FLOAT, 0, stride, offset)
                gl.glVertexAttribDivisor(location, 1)
                offset += 4 * length

    def draw(self, data: np.ndarray[tuple[int, ...], np.dtype[np.float32]], corners: int) -> None:
        """Draw a strip of triangles for each row of numbers, blended by their alpha."""
        gl = self._gl
        rows = np.ascontiguousarray(data)
        at = gl.first_buffer
        i = "i" * len(gl.first_buffer)
        kinds = gl_names.SRC_ALPHA, gl_names.ONE_MINUS_SRC_ALPHA
        getattr(gl, f"glEnable{i}")(gl_names.BLEND, *at)
        getattr(gl, f"glBlendFuncSeparate{i}")(*at, *kinds, *kinds)
        gl.glBindVertexArray(self.name)
        gl.glBindBuffer(gl_names.ARRAY_BUFFER, self._buffer)
        gl.glBufferData(gl_names.ARRAY_BUFFER, rows.nbytes, rows.ctypes.data, gl_names.STREAM_DRAW)
        gl.glDrawArraysInstanced(gl_names.TRIANGLE_STRIP, 0, corners, len(rows))

    def release(self) -> None:
        gl = self._gl
        in_any_case((
            lambda: gl.glDeleteVertexArrays(1, ctypes.c_uint(self.name)),
            lambda: gl.glDeleteBuffers(1, ctypes.c_uint(self._buffer)),
        ))  # fmt: skip


class Framebuffer:
    """A framebuffer that draws to one texture at a time, or reads it."""

    def __init__(self, gl: Functions) -> None:
        self._gl = gl
        self.name = gl.generate("Framebuffers")

    def bind(self, texture: Texture) -> None:
        """Draw to a texture, or read it, until another framebuffer is bound."""
        self._gl.glBindFramebuffer(gl_names.FRAMEBUFFER, self.name)
        attachment = gl_names.COLOR_ATTACHMENT0, gl_names.TEXTURE_2D, texture.glo, 0
        self._gl.glFramebufferTexture2D(gl_names.FRAMEBUFFER, *attachment)
        self._set_viewport(0, 0, *texture.size)

    def show(self, name: int, area: tuple[int, int, int, int]) -> None:
        """Clear an app's framebuffer, and draw to an area of it: left, bottom, width and height."""
        gl = self._gl
        gl.glBindFramebuffer(gl_names.FRAMEBUFFER, name)
        gl.glClearColor(0, 0, 0, 0)
        gl.glClear(gl_names.COLOR_BUFFER_BIT)
        self._set_viewport(*area)

    def _set_viewport(self, left: int, bottom: int, width: int, height: int) -> None:
        if self._gl.first_viewport:  # the others stay as they are
            set_first = getattr(self._gl, _VIEWPORT_OF[self._gl.version[0]])
            set_first(0, left, bottom, width, height)
        else:
            self._gl.glViewport(left, bottom, width, height)

    def copy(self, source: Texture, target: Texture) -> None:
        """Copy all pixels to a texture of the same size."""
        self.bind(source)
        self._gl.glActiveTexture(gl_names.TEXTURE0)
        self._gl.glBindTexture(gl_names.TEXTURE_2D, target.glo)
        self._gl.glCopyTexSubImage2D(gl_names.TEXTURE_2D, 0, 0, 0, 0, 0, *source.size)

    def read(self, texture: Texture) -> Pixels:
        """The pixels of a texture, uint8 [height, width, 4]."""
        width, height = texture.size
        self.bind(texture)
        pixels = np.empty((height, width, 4), np.uint8)
        area = (0, 0, width, height)
        kind = gl_names.RGBA, gl_names.UNSIGNED_BYTE
        self._gl.glReadPixels(*area, *kind, pixels.ctypes.data)
        return pixels

    def release(self) -> None:
        self._gl.glDeleteFramebuffers(1, ctypes.c_uint(self.name))


class Triangle:
    """Three vertices without attributes; desktop OpenGL wants a vertex array for them."""

    def __init__(self, gl: Functions) -> None:
        self._gl = gl
        self.name = gl.generate("VertexArrays")

    def draw(self) -> None:
        self._gl.glBindVertexArray(self.name)
        self._gl.glDrawArraysInstanced(gl_names.TRIANGLES, 0, 3, 1)

    def release(self) -> None:
        self._gl.glDeleteVertexArrays(1, ctypes.c_uint(self.name))


def _capabilities(gl: Functions) -> tuple[list[Call], list[Call]]:
    """The calls that set the capabilities to what they are, and that turn all of them off.

    Draw buffers and viewports may differ; of each, drawing uses and changes the first.
    """
    present: list[Call] = []
    usual: list[Call] = []
    for capability in (c for c in _CAPABILITIES if gl.answers(c, "glIsEnabled")):
        indices = {gl_names.BLEND: gl.first_buffer, gl_names.SCISSOR_TEST: gl.first_viewport}
        at = indices.get(capability, ())
        i = "i" * len(at)
        enabled = gl.unchecked(f"glIsEnabled{i}")(capability, *at)
        present.append((f"gl{'Enable' if enabled else 'Disable'}{i}", (capability, *at)))
        usual.append((f"glDisable{i}", (capability, *at)))
    return present, usual


def _numbers(gl: Functions, query: int, at: tuple[int, ...], count: int = 1) -> list[int]:
    found = (c_int * count)()
    getattr(gl, "glGetIntegeri_v" if at else "glGetIntegerv")(query, *at, found)
    return [*found]


def _values(gl: Functions) -> tuple[list[Call], list[Call]]:
    """The same for color masks, blending, polygon modes, clip control and the viewport."""
    is_es = gl.version[0]
    first = gl.first_buffer
    i = "i" * len(gl.first_buffer)
    functions, equations = (
        [n for query in queries for n in _numbers(gl, query, first)]
        for queries in (gl_names.BLEND_FUNCTION, gl_names.BLEND_EQUATION)
    )
    mask = _numbers(gl, gl_names.COLOR_WRITEMASK, first, 4)
    present: list[Call] = [
        (f"glColorMask{i}", (*first, *mask)),
        (f"glBlendEquationSeparate{i}", (*first, *equations)),
        (f"glBlendFuncSeparate{i}", (*first, *functions)),
    ]
    usual: list[Call] = [
        (f"glColorMask{i}", (*first, 1, 1, 1, 1)),
        (f"glBlendEquationSeparate{i}", (*first, *[gl_names.FUNC_ADD] * 2)),
    ]
    if not is_es:
        front, back = _numbers(gl, gl_names.POLYGON_MODE, (), 2)
        sides = {gl_names.FRONT: front, gl_names.BACK: back}
        modes = {gl_names.FRONT_AND_BACK: front} if gl.is_core else sides
        present += [("glPolygonMode", side) for side in modes.items()]
        usual.append(("glPolygonMode", (gl_names.FRONT_AND_BACK, gl_names.FILL)))
    if gl.answers(gl_names.CLIP_CONTROL[0]):
        name = "glClipControlEXT" if is_es else "glClipControl"
        present.append((name, tuple(gl.integer(query) for query in gl_names.CLIP_CONTROL)))
        usual.append((name, (gl_names.LOWER_LEFT, gl_names.NEGATIVE_ONE_TO_ONE)))
    viewport = (c_float * 4)()
    if gl.first_viewport:
        gl.glGetFloati_v(gl_names.VIEWPORT, 0, viewport)
        present.append((_VIEWPORT_OF[is_es], (0, *viewport)))
    else:
        present.append(("glViewport", tuple(_numbers(gl, gl_names.VIEWPORT, (), 4))))
    return present, usual


@contextmanager
def drawing_restored(gl: Functions) -> Iterator[None]:
    """Save and restore the state that drawing changes; inside, all tests and blending are off."""
    gl.forget_app_errors()
    states = _capabilities(gl), _values(gl)
    framebuffers = [
        (gl_names.DRAW_FRAMEBUFFER, gl.integer(gl_names.DRAW_FRAMEBUFFER_BINDING)),
        (gl_names.READ_FRAMEBUFFER, gl.integer(gl_names.READ_FRAMEBUFFER_BINDING)),
    ]
    color = (c_float * 4)()
    gl.glGetFloatv(gl_names.COLOR_CLEAR_VALUE, color)
    program = gl.integer(gl_names.CURRENT_PROGRAM)
    array = gl.integer(gl_names.VERTEX_ARRAY_BINDING)
    pack = gl.saved(gl.pack_state)
    buffers = [
        (gl_names.ARRAY_BUFFER, gl.integer(gl_names.ARRAY_BUFFER_BINDING)),
        (gl_names.PIXEL_PACK_BUFFER, gl.integer(gl_names.PIXEL_PACK_BUFFER_BINDING)),
    ]

    def restore() -> None:
        for target, name in framebuffers:
            gl.unchecked("glBindFramebuffer")(target, name)
        for function, arguments in (call for present, _ in states for call in present):
            gl.unchecked(function)(*arguments)
        gl.unchecked("glClearColor")(*color)
        gl.unchecked("glUseProgram")(gl.existing("Program", program))
        gl.unchecked("glBindVertexArray")(array)
        for target, name in buffers:
            gl.unchecked("glBindBuffer")(target, gl.existing("Buffer", name))
        gl.set_pixel_state(pack)

    with textures_restored(gl), afterwards(gl, restore):
        for function, arguments in (call for _, usual in states for call in usual):
            getattr(gl, function)(*arguments)
        gl.glBindBuffer(gl_names.PIXEL_PACK_BUFFER, 0)
        gl.set_pixel_state(gl.pack_state)
        yield


def read_texture(gl: Functions, texture: Texture) -> Pixels:
    """The pixels of an 8-bit texture as RGBA, uint8 [height, width, 4]."""
    with drawing_restored(gl):
        framebuffer = Framebuffer(gl)
        try:
            return framebuffer.read(texture)
        finally:
            framebuffer.release()
