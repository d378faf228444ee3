"""Drawing frames, layers and shapes on a texture, with OpenGL or OpenGL ES."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from PIL import Image

from gles_apps.live.frames import GpuFrame
from gles_apps.live.layers import Layer
from gles_apps.vision.drawing import Drawing, Glyph, Overlay, Rectangle, Strokes, Text, place_glyphs
from gles_delegate import WrongContextError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.context import textures_restored
from gles_delegate.gl.current import current_functions
from gles_delegate.gl.drawing import (
    DrawProgram,
    Framebuffer,
    Instances,
    Texture,
    Triangle,
    Uniform,
    drawing_restored,
)
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.mark import Mark
from gles_delegate.gl.texture import Pixels, PixelTexture, Sampler
from gles_delegate.image.colors import LUMA, SITING, yuv_to_rgb
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array
from gles_delegate.shaders.files import read_body
from gles_delegate.support.closing import release_all

ATLAS = 1024
"""Width and height of the glyph texture."""
_MAX_UPLOADS = 8
"""Textures of arrays that are kept for the next frame."""
_SHAPE = {"ends": 4, "radius": 1, "tint": 4, "letter": 4}
"""The numbers of a shape, in the order of glsl/live/shape.vert."""


def _shader(name: str) -> str:
    return read_body(f"live/{name}").text


class Letters:
    """A texture atlas of glyphs."""

    def __init__(self, gl: Functions) -> None:
        self.texture = PixelTexture(gl, (ATLAS, ATLAS, 1))
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
                self._x = 0
                self._y += self._row
                self._row = 0
            if self._y + height > ATLAS:  # full: earlier glyphs of this text are lost
                self._clear()
            self.texture.write(glyph.mask[:height, :width, np.newaxis], self._x, self._y)
            box = (self._x, self._y, self._x + width, self._y + height)
            self._boxes[id(glyph)] = (glyph, box)
            self._x += width
            self._row = max(self._row, height)
        return self._boxes[id(glyph)][1]


class Painter:
    """A painter of pictures of one size, in the context that is current now and at every call.

    It leaves the context's state as it was. Calls raise `WrongContextError` if that context is not
    current.

    Args:
        size: Height and width of the picture.
    """

    def __init__(self, size: Size) -> None:
        self.size = size
        self._gl = gl = current_functions()
        self._variants: dict[str, DrawProgram] = {}
        self._uploads: dict[int, tuple[Array, PixelTexture]] = {}
        with drawing_restored(gl):
            self._mark = Mark(gl)
            # A layer reads the picture below it, so two textures alternate.
            self._textures = [PixelTexture(gl, (*size, 4)) for _ in range(2)]
            self._framebuffer = Framebuffer(gl)
            self._triangle = Triangle(gl)
            self._smooth = Sampler(gl, linear=True)
            self._copy = DrawProgram(gl, _shader("fill.vert"), _shader("copy.frag"))
            self._letters = Letters(gl)
            self._soft = PixelTexture(gl, (1, 1, 4))
            self._shape = DrawProgram(gl, _shader("shape.vert"), _shader("shape.frag"))
            self._shapes = Instances(gl, self._shape, _SHAPE)

    @property
    def texture(self) -> PixelTexture:
        """The drawn picture, first row first."""
        return self._textures[0]

    def begin(self, picture: Texture | GpuFrame) -> None:
        """Start with a picture, RGBA8, first row first, or a frame."""
        if isinstance(picture, GpuFrame):
            picture.ready.wait_on_gpu()
            if len(picture.textures) > 1:
                self._begin_with_planes(picture)
                return
            (picture,) = picture.textures
        with self._drawing():
            if picture.size == self.texture.size:
                self._framebuffer.copy(picture, self.texture)
            else:
                self._framebuffer.bind(self.texture)
                self._fill(self._copy, [picture], {"flipped": False})

    def _begin_with_planes(self, frame: GpuFrame) -> None:
        rows = yuv_to_rgb(frame.colors["yuv"], frame.colors["full_range"]).tolist()
        uniforms: dict[str, Uniform] = dict(zip(("red", "green", "blue"), rows, strict=True))
        uniforms["siting"] = (SITING[frame.colors["siting"]] / frame.textures[1].size[0], 0.0)
        uniforms |= {"picture": 0, "plane1": 1, "plane2": 2}
        with self._drawing():
            self._framebuffer.bind(self.texture)
            defines = {"PLANES": len(frame.textures)}
            self._fill(self._variant("planes.frag", defines), frame.textures, uniforms)

    def layer(self, layer: Layer) -> None:
        """Draw a layer over the picture."""
        with self._drawing():
            textures: list[Texture] = [self.texture, self._as_texture(layer.picture)]
            if layer.is_softened:
                size = textures[1].size
                if self._soft.size != size:
                    self._soft.release()
                    self._soft = PixelTexture(self._gl, (*size[::-1], 4))
                self._framebuffer.bind(self._soft)
                self._fill(self._variant("soften.frag", {}), [textures[1]], {"picture": 0})
                textures[1] = self._soft
            uniforms: dict[str, Uniform] = {"picture": 0, "layer": 1}
            if isinstance(layer.fill, np.ndarray):
                textures.append(self._as_texture(layer.fill, self.size))
                uniforms["backdrop"] = 2
            elif layer.fill is not None:
                uniforms["fill"] = [x / 255 for x in layer.fill]
            width, height = textures[1].size
            uniforms["to_layer"] = layer.to_layer(self.size, (height, width)).T.ravel().tolist()
            uniforms["size"] = [*map(float, self.size[::-1])]
            uniforms["edges"] = layer.edges or (0.0, 0.0)
            uniforms |= {"opacity": float(layer.opacity), "inverted": layer.inverse}
            if layer.contour:
                uniforms["line"] = layer.contour / 2
            self._framebuffer.bind(self._textures[1])
            defines = {
                "SMOOTH": int(layer.smooth),
                "TINT": int(layer.tint),
                "MASK": int(layer.fill is not None),
                "BACKDROP": int("backdrop" in uniforms),
                "CONTOUR": int(layer.contour > 0),
                "LUMA": f"vec3{LUMA['bt601']}",
            }
            self._fill(self._variant("layer.frag", defines), textures, uniforms)
            self._textures.reverse()

    def draw(self, drawing: Drawing) -> None:
        """Draw a drawing: its overlays, and over them all shapes with one instanced draw."""
        shapes: list[Strokes | Rectangle | Text] = []
        for item in drawing.items:
            if isinstance(item, Overlay):
                self.layer(Layer.of_areas(item.picture, drawing.unit))
            else:
                shapes.append(item)
        with self._drawing():
            self._letters.make_room([item for item in shapes if isinstance(item, Text)])
            blocks = [self._instances_of(item) for item in shapes]
            data = np.concatenate([b for b in blocks if len(b)] or [np.empty((0, 13), np.float32)])
            if not len(data):
                return
            self._framebuffer.bind(self.texture)
            self._sample([self._letters.texture])
            self._shape.use({"size": [*map(float, self.size[::-1])], "letters": 0})
            self._shapes.draw(data, 4)

    def present(self, size: Size, framebuffer: int = 0) -> None:
        """Draw the picture into a window, as large as it fits.

        Args:
            size: Height and width of the window.
            framebuffer: The GL name of its framebuffer.
        """
        height, width = size
        scale = min(width / self.size[1], height / self.size[0])
        w = round(self.size[1] * scale)
        h = round(self.size[0] * scale)
        with self._drawing():
            self._framebuffer.show(framebuffer, ((width - w) // 2, (height - h) // 2, w, h))
            # A window's first row is the lowest.
            self._fill(self._copy, [self.texture], {"flipped": True})

    def pixels(self) -> Array:
        """The drawn picture, uint8 [height, width, 3]."""
        with self._drawing():
            return self._framebuffer.read(self.texture)[..., :3]

    def release(self) -> None:
        """Delete its textures and programs, unless they are gone with their context."""
        if not self._mark.is_here():
            return
        programs = (self._copy, self._shape, *self._variants.values())
        textures = (*self._textures, *(texture for _, texture in self._uploads.values()))
        others = (self._framebuffer, self._triangle, self._smooth, self._shapes)
        letters = self._letters.texture
        release_all((*programs, *textures, letters, self._soft, *others, self._mark))

    @contextmanager
    def _drawing(self) -> Iterator[Functions]:
        if not self._mark.is_here():
            raise WrongContextError(
                "expected the context that the Painter was made in to be current, found another or "
                "none: make it current, or make a Painter in this one"
            )
        with drawing_restored(self._gl):
            yield self._gl

    def _sample(self, textures: Sequence[Texture]) -> None:
        """Bind textures to units, the last one's active first."""
        for unit, texture in reversed([*enumerate(textures)]):
            self._gl.glActiveTexture(gl_names.TEXTURE0 + unit)
            self._gl.glBindTexture(gl_names.TEXTURE_2D, texture.glo)
            self._gl.glBindSampler(unit, self._smooth.name)

    def _fill(
        self, program: DrawProgram, textures: Sequence[Texture], uniforms: dict[str, Uniform]
    ) -> None:
        """Draw a program over the bound framebuffer's viewport."""
        self._sample(textures)
        program.use(uniforms)
        self._triangle.draw()

    def _variant(self, shader: str, defines: Mapping[str, object]) -> DrawProgram:
        """A program without branches, as llvmpipe would execute both sides."""
        text = "".join(f"#define {name} {value}\n" for name, value in defines.items())
        text += _shader(shader)
        if text not in self._variants:
            self._variants[text] = DrawProgram(self._gl, _shader("fill.vert"), text)
        return self._variants[text]

    def _as_texture(self, picture: Any, size: Size | None = None) -> Texture:
        """A texture itself, or a cached texture of an array, scaled to `size`."""
        if not isinstance(picture, np.ndarray):
            texture: Texture = picture
            return texture
        upload = self._uploads.pop(id(picture), None)  # reinserted as the latest used
        if upload is None:
            pixels = picture
            if pixels.dtype != np.uint8:
                pixels = (pixels.clip(0, 1) * 255 + 0.5).astype(np.uint8)
            if size is not None and pixels.shape[:2] != size:
                pixels = np.asarray(Image.fromarray(pixels).resize(size[::-1]))
            while len(self._uploads) >= _MAX_UPLOADS:
                self._uploads.pop(next(iter(self._uploads)))[1].release()
            upload = (picture, PixelTexture(self._gl, pixels.shape))
            upload[1].write(pixels)
        self._uploads[id(picture)] = upload
        return upload[1]

    def _instances_of(self, item: Strokes | Rectangle | Text) -> Array:
        color = np.array((*item.color, 255)[:4], np.float32) / 255
        radius = -1.0
        letters: Array = np.zeros((1, 4), np.float32)
        match item:
            case Strokes(ends, width):
                radius = width / 2
            case Rectangle(box):
                ends = np.array([box], np.float32)
            case Text():
                quads = np.array(self._letters.quads(item), np.float32).reshape(-1, 8)
                ends = quads[:, :4]
                letters = quads[:, 4:]
        data = np.empty((len(ends), 13), np.float32)
        data[:, :4] = ends
        data[:, 4] = radius
        data[:, 5:9] = color
        data[:, 9:] = letters
        return data


def new_texture(pixels: Pixels) -> PixelTexture:
    """A texture of uint8 [height, width, channels], in the current context."""
    gl = current_functions()
    gl.forget_app_errors()
    with textures_restored(gl):
        texture = PixelTexture(gl, pixels.shape)
        texture.write(pixels)
        return texture


def write_texture(texture: PixelTexture, pixels: Pixels) -> None:
    """Change all pixels of a texture, in the current context."""
    gl = current_functions()
    gl.forget_app_errors()
    with textures_restored(gl):
        texture.write(pixels)
