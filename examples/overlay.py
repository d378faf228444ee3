"""A network's mask over a moving picture, all of it on the GPU: what the live examples share."""

from __future__ import annotations

import argparse
import itertools
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import moderngl
import numpy as np
from imaging import as_input, as_real, positive, require_segmenter, single
from PIL import Image
from segment import classes_of, palette

import gles_delegate as gd

MODEL = Path(__file__).parent / "models" / "ball_segmenter.tflite"
SIZE = (1280, 720)
"""Width and height of the synthetic camera and of the windows."""

TRIANGLE = """
out vec2 uv;
void main() {  // a triangle of which the viewport is a part
    uv = vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2.0;
    gl_Position = vec4(uv * 2.0 - 1.0, 0.0, 1.0);
}
"""

CAMERA = """
uniform vec3 ball;
uniform float aspect, time;
in vec2 uv;
out vec4 colour;
void main() {
    vec2 at = vec2(uv.x * aspect, uv.y);
    float waves = sin(6.0 * at.x + time) * sin(5.0 * at.y - 1.3 * time + 2.0 * sin(3.0 * at.x));
    vec3 orange = vec3(1.0, 0.55, 0.1);
    vec3 scene = mix(vec3(0.1, 0.2, 0.4), vec3(0.2, 0.5, 0.4), 0.5 + 0.5 * waves);
    // Lines of the ball's colour: only its shape tells it from them.
    scene = mix(scene, orange, step(abs(fract(3.0 * at.x + at.y - 0.2 * time) - 0.5), 0.05));
    vec2 offset = (at - ball.xy) / ball.z;
    float height = sqrt(max(0.0, 1.0 - dot(offset, offset)));
    float light = max(0.0, dot(vec3(offset, height), vec3(-0.41, -0.62, 0.67)));
    vec3 lit = orange * (0.4 + 0.7 * light) + 0.5 * pow(light, 20.0);
    colour = vec4(height > 0.0 ? lit : scene, 1.0);
}
"""

BLEND = """
uniform sampler2D picture, mask;
in vec2 uv;
out vec4 colour;
void main() {
    vec2 at = vec2(uv.x, 1.0 - uv.y);  // textures have the top row first, OpenGL the lowest
    vec4 tint = texture(mask, at);
    colour = vec4(texture(picture, at).rgb * (1.0 - 0.6 * tint.a) + 0.6 * tint.rgb, 1.0);
}
"""


class Source(Protocol):
    """Pictures, one after the other in the same texture, its top row first."""

    texture: moderngl.Texture

    def advance(self) -> bool:
        """Put the next picture in the texture; whether there was one."""
        ...


class SyntheticCamera:
    """A ball before a moving background, drawn by OpenGL: it never passes through the CPU."""

    def __init__(self, ctx: moderngl.Context, size: tuple[int, int] = SIZE) -> None:
        self.texture = ctx.texture(size, 4)
        self.framebuffer = ctx.framebuffer([self.texture])
        self._triangle = full_screen_triangle(ctx, CAMERA)
        self._triangle.program["aspect"] = size[0] / size[1]
        self._frames = itertools.count(1)

    def advance(self) -> bool:
        self.show(next(self._frames))
        return True

    def show(self, frame: float) -> None:
        self.framebuffer.use()
        self._triangle.program["ball"] = ball_at(frame, self.texture.width / self.texture.height)
        self._triangle.program["time"] = frame / 30
        self._triangle.render(moderngl.TRIANGLES, 3)


def ball_at(frame: float, aspect: float = SIZE[0] / SIZE[1]) -> tuple[float, float, float]:
    """The ball's centre (x, y) from the top left corner and its radius, in picture heights."""
    return (
        aspect * (0.5 + 0.35 * math.sin(0.031 * frame)),
        0.5 + 0.28 * math.sin(0.047 * frame + 1),
        0.15 + 0.03 * math.sin(0.02 * frame),
    )


class VideoFile:
    """The pictures of a video file, decoded on the CPU and uploaded.

    Attributes:
        rate: Pictures a second.
        count: How many there are, 0 if the file does not say.
    """

    def __init__(self, ctx: moderngl.Context, path: Path, *, repeat: bool = True) -> None:
        import av

        try:
            self._container = av.open(path)
            stream = self._container.streams.video[0]
        except (av.FFmpegError, IndexError) as error:
            raise SystemExit(f"cannot read the video {path}: {error}") from error
        self.rate, self.count = stream.average_rate, stream.frames
        self.texture = ctx.texture((stream.width, stream.height), 4)
        self._pictures = self._decode(repeat)

    def _decode(self, repeat: bool) -> Iterator[np.ndarray]:
        while True:
            for frame in self._container.decode(video=0):
                yield frame.to_ndarray(format="rgba")
            if not repeat:
                return
            self._container.seek(0)

    def advance(self) -> bool:
        picture = next(self._pictures, None)
        if picture is not None:
            self.texture.write(np.ascontiguousarray(picture))
        return picture is not None


class Segmenter:
    """A segmentation network that reads one texture and writes its coloured mask to another.

    Args:
        ctx: The app's context, current now and at every call.
        picture: What it looks at; the whole of it is stretched to the network's input.
        through_numpy: Instead, read the picture back, prepare it on the CPU, and upload the mask.
    """

    def __init__(
        self, ctx: moderngl.Context, model: Path, picture: moderngl.Texture, through_numpy: bool
    ) -> None:
        self._delegate = gd.GpuDelegate(context=ctx)
        self._interpreter = gd.Interpreter(
            model_path=model, experimental_delegates=[self._delegate]
        )
        self._image, self._scores = single(self._interpreter)
        require_segmenter(self._image, self._scores)
        _, height, width, classes = self._scores["shape"].tolist()
        colours = palette(max(classes, 2)).tolist()
        self._colours = [(0, 0, 0, 0), *((*colour, 255) for colour in colours[1:])]
        index = self._image["index"]
        self._transform = gd.ImageTransform.for_input(self._interpreter, index)
        self.mask = ctx.texture((width, height), 4)
        self._seen = ctx.framebuffer([picture]) if through_numpy else None
        if not through_numpy:
            self._bind(picture)
        self._interpreter.allocate_tensors()

    def _bind(self, picture: moderngl.Texture) -> None:
        output = gd.ImageOutput(palette=self._colours)
        bind = self._delegate.bind_texture_to_tensor
        bind(self._image["index"], picture, transform=self._transform)
        bind(self._scores["index"], self.mask, transform=output)

    def run(self) -> None:
        """Bring the mask up to date with the picture."""
        if self._seen:
            self._run_through_numpy()
        else:
            self._interpreter.invoke()

    def _run_through_numpy(self) -> None:
        tensor = as_input(read_pixels(self._seen), self._image, self._transform)
        self._interpreter.set_tensor(self._image["index"], tensor)
        self._interpreter.invoke()
        scores = as_real(self._interpreter.get_tensor(self._scores["index"]), self._scores)
        self.mask.write(np.array(self._colours, np.uint8)[classes_of(scores[0])])

    def close(self) -> None:
        self._delegate.close()


class Overlay:
    """Draws the pictures of a source with what a network sees in them.

    Attributes:
        fps: Frames a second, over the last second.
    """

    def __init__(
        self, ctx: moderngl.Context, source: Source, model: Path, through_numpy: bool = False
    ) -> None:
        self.fps = 0.0
        self._source = source
        try:
            self._segmenter = Segmenter(ctx, model, source.texture, through_numpy)
        except (gd.DelegateError, ValueError) as error:
            raise SystemExit(str(error)) from error
        self._triangle = full_screen_triangle(ctx, BLEND)
        self._triangle.program["mask"] = 1
        self._counted, self._since = 0, time.perf_counter()

    def draw(self, target: moderngl.Framebuffer) -> bool:
        """Draw the next picture and its mask; whether there was one."""
        if not self._source.advance():
            return False
        self._segmenter.run()
        target.use()
        self._source.texture.use(0)
        self._segmenter.mask.use(1)
        self._triangle.render(moderngl.TRIANGLES, 3)
        self._count()
        return True

    def _count(self) -> None:
        self._counted += 1
        elapsed = time.perf_counter() - self._since
        if elapsed >= 1:
            self.fps = self._counted / elapsed
            self._counted, self._since = 0, time.perf_counter()

    def close(self) -> None:
        """Free what the network holds; the context must be current."""
        self._segmenter.close()


class Live:
    """What a window shows, as its command line asks for it.

    Attributes:
        title: For the window, with the frames a second.
    """

    def __init__(self, ctx: moderngl.Context, arguments: argparse.Namespace) -> None:
        video = arguments.video
        source = VideoFile(ctx, video) if video else SyntheticCamera(ctx)
        self._overlay = Overlay(ctx, source, arguments.model, arguments.through_numpy)
        self._arguments = arguments
        self._drawn = 0

    def draw(self, target: moderngl.Framebuffer) -> bool:
        """Draw a frame; whether there is to be another one."""
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
        return f"gles_delegate: {self._overlay.fps:.0f} frames a second"

    def close(self) -> None:
        """The context must be current."""
        self._overlay.close()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a live example."""
    add = parser.add_argument
    add("--model", type=Path, default=MODEL, help="a segmentation network, the ball's by default")
    add("--video", type=Path, help="a video file instead of the synthetic camera")
    add("--through-numpy", action="store_true", help="feed it from the CPU, to compare")
    add("--frames", type=positive, help="quit after as many")
    add("--screenshot", type=Path, metavar="FILE", help="keep the last of them")


def require_display() -> None:
    """Exit with a sentence where there is no display."""
    if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        raise SystemExit("no display: start it in a desktop session, or with xvfb-run")


def read_pixels(framebuffer: moderngl.Framebuffer) -> Image.Image:
    """Its colours, first row first."""
    # OpenGL ES reads framebuffers only, not textures, and four channels only.
    pixels = framebuffer.read(components=4)
    return Image.frombytes("RGBA", framebuffer.size, pixels).convert("RGB")


def full_screen_triangle(ctx: moderngl.Context, fragment_shader: str) -> moderngl.VertexArray:
    """Fills the framebuffer, for OpenGL and OpenGL ES."""
    es = "OpenGL ES" in ctx.info["GL_VERSION"]
    header = "#version 310 es\nprecision highp float;" if es else "#version 430"
    shaders = (header + TRIANGLE, header + fragment_shader)
    return ctx.vertex_array(ctx.program(*shaders), [])
