"""Drawing frames, layers and shapes on a texture, with OpenGL or OpenGL ES through moderngl."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import moderngl
import numpy as np
from PIL import Image

from gles_delegate.gl.current import current_functions
from gles_delegate.gl.functions import COLOR_BUFFER_BIT, RGBA, TEXTURE_2D, UNSIGNED_BYTE, Functions
from gles_delegate.image.transform import LUMA, Size
from gles_delegate.live.layers import Layer
from gles_delegate.model.graph import Array
from gles_delegate.shaders.files import read_body
from gles_delegate.vision.drawing import Drawing, Glyph, Rectangle, Strokes, Text, place_glyphs

ATLAS = 1024
"""Width and height of the glyph texture."""


def read_shader(name: str) -> str:
    """A file of ``glsl/live``."""
    return read_body(f"live/{name}").text


def make_program(
    ctx: moderngl.Context, vertex_shader: str, fragment_shader: str
) -> moderngl.Program:
    """A program of shaders that lack a version line."""
    is_es = "OpenGL ES" in ctx.info["GL_VERSION"]
    header = "#version 310 es\nprecision highp float;\n" if is_es else "#version 330\n"
    return ctx.program(header + vertex_shader, header + fragment_shader)


def full_screen_triangle(ctx: moderngl.Context, fragment_shader: str) -> moderngl.VertexArray:
    """A triangle over the framebuffer; `uv` is 0 to 1 from the framebuffer's first row."""
    return ctx.vertex_array(make_program(ctx, read_shader("fill.vert"), fragment_shader), [])


class Letters:
    """A texture atlas of glyphs."""

    def __init__(self, ctx: moderngl.Context) -> None:
        self.texture = ctx.texture((ATLAS, ATLAS), 1, alignment=1)
        self._clear()

    def _clear(self) -> None:
        self._boxes: dict[int, tuple[Glyph, tuple[int, int, int, int]]] = {}
        self._x = self._y = self._row = 0

    def quads(self, text: Text) -> list[tuple[float, ...]]:
        """Corners on the picture and in the atlas, eight numbers for each glyph."""
        quads: list[tuple[float, ...]] = []
        for glyph, left, top in place_glyphs(text):
            if glyph.mask.size:
                box = self._box(glyph)
                quads.append((left, top, left + box[2] - box[0], top + box[3] - box[1], *box))
        return quads

    def make_room(self, texts: list[Text]) -> None:
        """Empty the atlas if the glyphs of a drawing may not fit."""
        glyphs = {id(glyph): glyph for text in texts for glyph, _, _ in place_glyphs(text)}
        new = [glyph.mask.shape for key, glyph in glyphs.items() if key not in self._boxes]
        if not new:
            return
        # A row wastes less than the widest glyph, and is as high as the highest one.
        height, width = np.max(new, axis=0).tolist()
        rows = math.ceil(sum(width for _, width in new) / max(ATLAS - width, 1))
        if self._y + self._row + (rows + 1) * height > ATLAS:
            self._clear()

    def _box(self, glyph: Glyph) -> tuple[int, int, int, int]:
        """Left, top, right and bottom in the atlas."""
        if id(glyph) not in self._boxes:
            height, width = (min(length, ATLAS) for length in glyph.mask.shape)
            if self._x + width > ATLAS:
                self._x, self._y, self._row = 0, self._y + self._row, 0
            if self._y + height > ATLAS:  # full: earlier glyphs of this text are lost
                self._clear()
            mask = np.ascontiguousarray(glyph.mask[:height, :width])
            self.texture.write(mask, (self._x, self._y, width, height), alignment=1)
            box = (self._x, self._y, self._x + width, self._y + height)
            self._boxes[id(glyph)] = (glyph, box)
            self._x, self._row = self._x + width, max(self._row, height)
        return self._boxes[id(glyph)][1]


class Painter:
    """A painter of pictures of one size.

    Args:
        ctx: The app's context, current now and at every call.
        size: Height and width of the picture.
    """

    def __init__(self, ctx: moderngl.Context, size: Size) -> None:
        self._ctx, self.size = ctx, size
        extent = size[::-1]
        # A layer reads the picture below it, so two textures alternate.
        self._textures = [ctx.texture(extent, 4) for _ in range(2)]
        self._framebuffers = [ctx.framebuffer([texture]) for texture in self._textures]
        self._copy = full_screen_triangle(ctx, read_shader("copy.frag"))
        self._layers: dict[str, moderngl.VertexArray] = {}
        self._letters = Letters(ctx)
        program = make_program(ctx, read_shader("shape.vert"), read_shader("shape.frag"))
        program["size"] = extent
        self._shapes = ctx.buffer(reserve=13 * 4, dynamic=True)
        self._instances = ctx.vertex_array(
            program, [(self._shapes, "4f 1f 4f 4f /i", "ends", "radius", "tint", "letter")]
        )
        self._uploads: dict[int, tuple[Array, moderngl.Texture]] = {}

    @property
    def texture(self) -> moderngl.Texture:
        """The drawn picture, first row first."""
        return self._textures[0]

    def begin(self, picture: moderngl.Texture) -> None:
        """Start with a picture."""
        if picture.size == self.texture.size:
            copy_texture(picture, self.texture)
        else:
            picture.repeat_x = picture.repeat_y = False
            self._fill(self._copy, self._framebuffers[0], picture)

    def layer(self, layer: Layer) -> None:
        """Draw a layer over the picture."""
        textures = [self._as_texture(layer.picture)]
        if isinstance(layer.fill, np.ndarray):
            textures.append(self._as_texture(layer.fill, self.size))
        for unit, texture in enumerate(textures, 1):
            texture.repeat_x = texture.repeat_y = False
            texture.filter = (moderngl.LINEAR, moderngl.LINEAR)
            texture.use(unit)
        variant = self._variant(layer)
        program, extent = variant.program, (textures[0].height, textures[0].width)
        program["to_layer"] = tuple(layer.to_layer(self.size, extent).T.ravel().tolist())
        program["size"] = self.size[::-1]
        program["edges"] = layer.edges or (0.0, 0.0)
        program["opacity"], program["inverted"] = layer.opacity, layer.inverse
        program["layer"] = 1
        if isinstance(layer.fill, np.ndarray):
            program["backdrop"] = 2
        elif layer.fill is not None:
            program["fill"] = tuple(x / 255 for x in layer.fill)
        self._fill(variant, self._framebuffers[1], self._textures[0])
        self._textures.reverse()
        self._framebuffers.reverse()

    def _variant(self, layer: Layer) -> moderngl.VertexArray:
        """The program for such layers, without branches, as llvmpipe would execute both sides."""
        defines = {
            "SMOOTH": int(layer.smooth),
            "TINT": int(layer.tint),
            "MASK": int(layer.fill is not None),
            "BACKDROP": int(isinstance(layer.fill, np.ndarray)),
            "LUMA": f"vec3{LUMA['bt601']}",
        }
        lines = "".join(f"#define {name} {value}\n" for name, value in defines.items())
        if lines not in self._layers:
            text = lines + read_shader("layer.frag")
            self._layers[lines] = full_screen_triangle(self._ctx, text)
        return self._layers[lines]

    def draw(self, drawing: Drawing) -> None:
        """Draw all shapes of a drawing with one instanced draw."""
        self._letters.make_room([item for item in drawing.items if isinstance(item, Text)])
        blocks = [self._instances_of(item) for item in drawing.items]
        data = np.concatenate([b for b in blocks if len(b)] or [np.empty((0, 13), np.float32)])
        if not len(data):
            return
        if data.nbytes > self._shapes.size:
            self._shapes.orphan(2 * data.nbytes)
        self._shapes.write(data.tobytes())
        self._framebuffers[0].use()
        self._letters.texture.use(0)
        self._ctx.enable_only(moderngl.BLEND)
        self._ctx.blend_func = moderngl.SRC_ALPHA, moderngl.ONE_MINUS_SRC_ALPHA
        self._instances.render(moderngl.TRIANGLE_STRIP, 4, instances=len(data))
        self._ctx.enable_only(moderngl.NOTHING)

    def present(self, target: moderngl.Framebuffer) -> None:
        """Draw the picture into a window's framebuffer, as large as it fits."""
        _, _, width, height = target.viewport
        scale = min(width / self.size[1], height / self.size[0])
        w, h = round(self.size[1] * scale), round(self.size[0] * scale)
        target.use()
        # moderngl's clear calls glClearDepth, which drivers of OpenGL ES may lack.
        gl = current_functions()
        gl.forget_errors()
        gl.glClearColor(0, 0, 0, 0)
        gl.glClear(COLOR_BUFFER_BIT)
        target.viewport = ((width - w) // 2, (height - h) // 2, w, h)
        self.texture.filter = (moderngl.LINEAR, moderngl.LINEAR)
        self._copy.program["flipped"] = True  # a window's first row is the lowest
        self._fill(self._copy, target, self.texture)
        self._copy.program["flipped"] = False
        target.viewport = (0, 0, width, height)

    def pixels(self) -> Array:
        """The drawn picture, uint8 [height, width, 3]."""
        return read_texture(self.texture)[..., :3]

    def _fill(
        self, fill: moderngl.VertexArray, target: moderngl.Framebuffer, picture: moderngl.Texture
    ) -> None:
        target.use()
        picture.use(0)
        self._ctx.enable_only(moderngl.NOTHING)
        fill.render(moderngl.TRIANGLES, 3)

    def _as_texture(self, picture: Any, size: Size | None = None) -> moderngl.Texture:
        """A texture itself, or a cached texture of an array, scaled to `size`."""
        if isinstance(picture, moderngl.Texture):
            return picture
        upload = self._uploads.pop(id(picture), None)  # reinserted as the latest used
        if upload is None:
            pixels = picture
            if pixels.dtype != np.uint8:
                pixels = (pixels.clip(0, 1) * 255 + 0.5).astype(np.uint8)
            if size is not None and pixels.shape[:2] != size:
                pixels = np.asarray(Image.fromarray(pixels).resize(size[::-1]))
            height, width, depth = pixels.shape
            while len(self._uploads) >= 8:
                self._uploads.pop(next(iter(self._uploads)))[1].release()
            texture = self._ctx.texture(
                (width, height), depth, np.ascontiguousarray(pixels).tobytes(), alignment=1
            )
            upload = (picture, texture)
        self._uploads[id(picture)] = upload
        return upload[1]

    def _instances_of(self, item: Strokes | Rectangle | Text) -> Array:
        color = np.array((*item.color, 255)[:4], np.float32) / 255
        letters: Array = np.zeros((1, 4), np.float32)
        if isinstance(item, Strokes):
            ends, radius = item.ends, item.width / 2
        elif isinstance(item, Rectangle):
            ends, radius = np.array([item.box], np.float32), -1.0
        else:
            quads = np.array(self._letters.quads(item), np.float32).reshape(-1, 8)
            ends, radius, letters = quads[:, :4], -1.0, quads[:, 4:]
        data = np.empty((len(ends), 13), np.float32)
        data[:, :4], data[:, 4], data[:, 5:9], data[:, 9:] = ends, radius, color, letters
        return data


def copy_texture(source: moderngl.Texture, target: moderngl.Texture) -> None:
    """Copy all pixels to a texture of the same size, both of RGBA8."""
    # moderngl's copy calls glDrawBuffer, which OpenGL ES lacks.
    with _framebuffer_of(source) as gl:
        target.use(0)
        gl.glCopyTexSubImage2D(TEXTURE_2D, 0, 0, 0, 0, 0, *source.size)


def read_texture(texture: moderngl.Texture) -> Array:
    """The pixels of an RGBA8 texture, uint8 [height, width, 4]."""
    # OpenGL ES reads only framebuffers. moderngl's read calls glClampColor, and crashes if a
    # driver of OpenGL ES lacks it.
    pixels = np.empty((texture.height, texture.width, 4), np.uint8)
    with _framebuffer_of(texture) as gl:
        gl.glReadPixels(0, 0, *texture.size, RGBA, UNSIGNED_BYTE, pixels.ctypes.data)
    return pixels


@contextmanager
def _framebuffer_of(texture: moderngl.Texture) -> Iterator[Functions]:
    """Bind a framebuffer of the texture for the ``with`` block, and restore the previous one."""
    ctx = texture.ctx
    framebuffer, before = ctx.framebuffer([texture]), ctx.fbo
    framebuffer.use()
    try:
        gl = current_functions()
        gl.forget_errors()
        yield gl
    finally:
        if before is not None:
            before.use()
        framebuffer.release()
