"""Code shared by the live examples: a network's mask over a moving picture, all on the GPU."""

from __future__ import annotations

import argparse
import itertools
import math
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import moderngl
import numpy as np
from imaging import as_real, positive, require_inputs_kept, single
from PIL import Image

import gles_delegate as gd
from gles_apps.live import Video
from gles_apps.vision import palette
from gles_delegate.image.pictures import as_tensor

MODEL = Path(__file__).parent / "models" / "ball_segmenter.tflite"
SIZE = (1280, 720)
"""Width and height of the synthetic camera and the windows."""

TRIANGLE = """
// A triangle of which the viewport is a part; `uv` is 0 to 1 from the framebuffer's first row.
out vec2 uv;
void main() {
    uv = vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2.0;
    gl_Position = vec4(uv * 2.0 - 1.0, 0.0, 1.0);
}
"""

CAMERA = """
uniform vec3 ball;
uniform float aspect, time;
in vec2 uv;
out vec4 color;
void main() {
    vec2 at = vec2(uv.x * aspect, uv.y);
    float waves = sin(6.0 * at.x + time) * sin(5.0 * at.y - 1.3 * time + 2.0 * sin(3.0 * at.x));
    vec3 orange = vec3(1.0, 0.55, 0.1);
    vec3 scene = mix(vec3(0.1, 0.2, 0.4), vec3(0.2, 0.5, 0.4), 0.5 + 0.5 * waves);
    // Stripes in the ball's color: only its shape distinguishes the ball from them.
    scene = mix(scene, orange, step(abs(fract(3.0 * at.x + at.y - 0.2 * time) - 0.5), 0.05));
    vec2 offset = (at - ball.xy) / ball.z;
    float height = sqrt(max(0.0, 1.0 - dot(offset, offset)));
    float light = max(0.0, dot(vec3(offset, height), vec3(-0.41, -0.62, 0.67)));
    vec3 lit = orange * (0.4 + 0.7 * light) + 0.5 * pow(light, 20.0);
    color = vec4(height > 0.0 ? lit : scene, 1.0);
}
"""

BLEND = """
uniform sampler2D picture, mask;
in vec2 uv;
out vec4 color;
void main() {
    vec2 at = vec2(uv.x, 1.0 - uv.y);  // textures start with the top row, OpenGL at the bottom
    // Four samples between the mask's texels, which are larger than pixels, make its edge smooth.
    vec2 a = 0.5 / vec2(textureSize(mask, 0)), b = vec2(a.x, -a.y);
    vec4 both = texture(mask, at + a) + texture(mask, at - a);
    vec4 tint = 0.25 * (both + texture(mask, at + b) + texture(mask, at - b));
    color = vec4(texture(picture, at).rgb * (1.0 - 0.6 * tint.a) + 0.6 * tint.rgb, 1.0);
}
"""


COPY = """
uniform sampler2D picture;
in vec2 uv;
out vec4 color;
void main() { color = texture(picture, uv); }
"""


class Source(Protocol):
    """A source of pictures, each written to the same texture with the top row first."""

    texture: moderngl.Texture

    def advance(self) -> None:
        """Put the next picture in the texture."""
        ...


class SyntheticCamera:
    """A ball in front of a moving background, drawn by OpenGL; it never passes through the CPU."""

    def __init__(self, ctx: moderngl.Context, size: tuple[int, int] = SIZE) -> None:
        self.texture = ctx.texture(size, 4)
        self.framebuffer = ctx.framebuffer([self.texture])
        self._triangle = full_screen_triangle(ctx, CAMERA)
        self._triangle.program["aspect"] = size[0] / size[1]
        self._frames = itertools.count(1)

    def advance(self) -> None:
        self.show(next(self._frames))

    def show(self, frame: float) -> None:
        self.framebuffer.use()
        self._triangle.program["ball"] = ball_at(frame, self.texture.width / self.texture.height)
        self._triangle.program["time"] = frame / 30
        self._triangle.render(moderngl.TRIANGLES, 3)


def ball_at(frame: float, aspect: float = SIZE[0] / SIZE[1]) -> tuple[float, float, float]:
    """The ball's center (x, y) from the top left corner and its radius, in picture heights."""
    return (
        aspect * (0.5 + 0.35 * math.sin(0.031 * frame)),
        0.5 + 0.28 * math.sin(0.047 * frame + 1),
        0.15 + 0.03 * math.sin(0.02 * frame),
    )


class VideoFile:
    """The frames of a video file, repeated, decoded on the CPU and uploaded."""

    def __init__(self, ctx: moderngl.Context, path: Path) -> None:
        self._video = Video(path, repeat=True)
        self.texture = ctx.texture(self._video.size[::-1], 4)

    def advance(self) -> None:
        self.texture.write(self._video.read())


class Segmenter:
    """A segmentation network that reads one texture and writes its colored mask to another.

    Args:
        ctx: The app's context, current now and at every call.
        picture: The input, stretched to the network's input size.

    Attributes:
        mask: The colored mask, a texture.
    """

    def __init__(self, ctx: moderngl.Context, model: Path, picture: moderngl.Texture) -> None:
        self._delegate = self._make_delegate(ctx)
        self._interpreter = gd.Interpreter(
            model_path=model, experimental_delegates=[self._delegate]
        )
        self._image, self._scores = single(self._interpreter)
        _, height, width, classes = self._scores["shape"].tolist()
        colors = [(0, 0, 0, 0), *((*color, 255) for color in palette(max(classes, 2))[1:])]
        self._output = gd.ImageOutput(palette=colors)
        index = self._image["index"]
        # Sample without averaging: on llvmpipe, averaging takes longer than everything else.
        whole = gd.ImageTransform.for_input(self._interpreter, index)
        self._transform = replace(whole, antialias=False)
        self.mask = ctx.texture((width, height), 4)
        self._prepare(ctx, picture)
        self._interpreter.allocate_tensors()

    def _make_delegate(self, ctx: moderngl.Context) -> gd.GpuDelegate:
        return gd.GpuDelegate(context=ctx)

    def _prepare(self, ctx: moderngl.Context, picture: moderngl.Texture) -> None:
        self._bind(picture, self.mask)

    def _bind(self, picture: moderngl.Texture, mask: moderngl.Texture) -> None:
        bind = self._delegate.bind_texture_to_tensor
        bind(self._image["index"], picture, transform=self._transform)
        bind(self._scores["index"], mask, transform=self._output)

    def run(self) -> None:
        """Update the mask from the picture."""
        self._interpreter.invoke()

    def close(self) -> None:
        """The context must be current."""
        self._delegate.close()


class SegmenterThroughNumpy(Segmenter):
    """A segmenter that goes through the CPU: it reads the picture back and uploads the mask."""

    def _prepare(self, ctx: moderngl.Context, picture: moderngl.Texture) -> None:
        self._seen = ctx.framebuffer([picture])

    def run(self) -> None:
        _, height, width, _ = self._image["shape"].tolist()
        seen = read_pixels(self._seen).resize((width, height), Image.Resampling.BILINEAR)
        tensor = as_tensor(seen, self._image, self._transform)
        self._interpreter.set_tensor(self._image["index"], tensor)
        self._interpreter.invoke()
        scores = as_real(self._interpreter.get_tensor(self._scores["index"]), self._scores)
        self.mask.write((255 * self._output.apply(scores)).round().astype(np.uint8))


class SegmenterBeside(Segmenter):
    """A segmenter with its own context and thread, so that the app's window never waits for it.

    The network reads a copy of the picture and writes its own mask, because the app keeps drawing
    both.
    """

    def _make_delegate(self, ctx: moderngl.Context) -> gd.GpuDelegate:
        beside = gd.EglContext(share="current")
        return gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True), context=beside)

    def _prepare(self, ctx: moderngl.Context, picture: moderngl.Texture) -> None:
        self._picture = picture
        self._copied, self._made = (ctx.texture(t.size, 4) for t in (picture, self.mask))
        self._triangle = full_screen_triangle(ctx, COPY)
        self._to_copied, self._to_mask = (ctx.framebuffer([t]) for t in (self._copied, self.mask))
        self._bind(self._copied, self._made)
        self._invocation: gd.Invocation | None = None

    def run(self) -> None:
        """Show the newest finished mask, and start the next run."""
        if self._invocation is not None:
            if not self._invocation.done():
                return
            self._copy(self._made, self._to_mask)
        self._copy(self._picture, self._to_copied)
        self._invocation = self._interpreter.invoke_async(wait_for=gd.Fence.of_current_context())

    def _copy(self, source: moderngl.Texture, target: moderngl.Framebuffer) -> None:
        target.use()
        source.use(0)
        self._triangle.render(moderngl.TRIANGLES, 3)


class Overlay:
    """Draws a source's pictures with a network's masks over them.

    Attributes:
        fps: Frames per second, over the last second.
    """

    def __init__(
        self,
        ctx: moderngl.Context,
        source: Source,
        model: Path,
        segmenter: type[Segmenter] = Segmenter,
    ) -> None:
        self.fps = 0.0
        self._source = source
        try:
            self._segmenter = segmenter(ctx, model, source.texture)
        except (gd.DelegateError, ValueError) as error:
            raise SystemExit(str(error)) from error
        self._triangle = full_screen_triangle(ctx, BLEND)
        self._triangle.program["mask"] = 1
        self._counted = 0
        self._since = time.perf_counter()

    def draw(self, target: moderngl.Framebuffer) -> None:
        """Draw the next picture and its mask."""
        self._source.advance()
        self._segmenter.run()
        target.use()
        self._source.texture.use(0)
        self._segmenter.mask.use(1)
        self._triangle.render(moderngl.TRIANGLES, 3)
        self._count()

    def _count(self) -> None:
        self._counted += 1
        elapsed = time.perf_counter() - self._since
        if elapsed >= 1:
            self.fps = self._counted / elapsed
            self._counted = 0
            self._since = time.perf_counter()

    def close(self) -> None:
        """Free the network's resources; the context must be current."""
        self._segmenter.close()


class Live:
    """The contents of a window, as chosen on the command line.

    Attributes:
        title: The window's title, with the frame rate.
    """

    def __init__(self, ctx: moderngl.Context, arguments: argparse.Namespace) -> None:
        try:
            require_inputs_kept(arguments, [arguments.screenshot])
        except ValueError as error:
            raise SystemExit(str(error)) from error
        video = arguments.video
        source = VideoFile(ctx, video) if video else SyntheticCamera(ctx)
        self._overlay = Overlay(ctx, source, arguments.model, arguments.segmenter)
        self._arguments = arguments
        self._drawn = 0

    def draw(self, target: moderngl.Framebuffer) -> bool:
        """Draw a frame, and return whether to continue."""
        self._overlay.draw(target)
        self._drawn += 1
        if self._drawn != self._arguments.frames:
            return True
        if self._arguments.screenshot:
            picture = read_pixels(target).transpose(Image.Transpose.FLIP_TOP_BOTTOM)
            picture.save(self._arguments.screenshot)
        return False

    @property
    def title(self) -> str:
        return f"gles_delegate: {self._overlay.fps:.0f} frames per second"

    def close(self) -> None:
        """The context must be current."""
        self._overlay.close()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a live example."""
    add = parser.add_argument
    add("--model", type=Path, default=MODEL, help="a segmentation network; default: ball segmenter")
    add("--video", type=Path, help="a video file instead of the synthetic camera")
    ways = parser.add_mutually_exclusive_group()
    for option, segmenter, what in (
        ("--through-numpy", SegmenterThroughNumpy, "feed the network from the CPU, for comparison"),
        ("--beside", SegmenterBeside, "do not wait for the network; not for GLX"),
    ):
        ways.add_argument(
            option, dest="segmenter", action="store_const", const=segmenter, help=what
        )
    parser.set_defaults(segmenter=Segmenter)
    add("--frames", type=positive, help="quit after this many frames")
    add("--screenshot", type=Path, metavar="FILE", help="save the last frame")


def require_display() -> None:
    """Exit with a message if there is no display."""
    if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        raise SystemExit("no display: start it in a desktop session, or with xvfb-run")


def full_screen_triangle(ctx: moderngl.Context, fragment_shader: str) -> moderngl.VertexArray:
    """A triangle over the framebuffer, for OpenGL or OpenGL ES."""
    is_es = "OpenGL ES" in ctx.info["GL_VERSION"]
    header = "#version 310 es\nprecision highp float;\n" if is_es else "#version 330\n"
    return ctx.vertex_array(ctx.program(header + TRIANGLE, header + fragment_shader), [])


def read_pixels(framebuffer: moderngl.Framebuffer) -> Image.Image:
    """The colors of a framebuffer, first row first."""
    # OpenGL ES can only read framebuffers, not textures, and only four channels.
    pixels = framebuffer.read(components=4)
    return Image.frombytes("RGBA", framebuffer.size, pixels).convert("RGB")
