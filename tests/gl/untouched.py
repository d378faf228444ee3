"""Runs a live example, and checks around each run of its network that the app notices nothing.

    python untouched.py EXAMPLE.py [OPTION ...]

The app's scene samples three textures through samplers, blended and scissored. It is drawn, the
network runs, it is drawn again by nothing but a draw call: pixels and queried state are the same.
"""

import ctypes
import runpy
import sys
from pathlib import Path
from typing import Any

import moderngl
import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

import overlay  # noqa: E402

from gles_delegate.gl.current import current_loader  # noqa: E402
from tests.support.state import State  # noqa: E402

SCENE = """
uniform sampler2D a, b, c;
in vec2 uv;
out vec4 color;
void main() { color = vec4(texture(a, uv).r, texture(b, uv).r, texture(c, uv).r, 0.5); }
"""


class Scene:
    """Drawn over whatever framebuffer is bound."""

    def __init__(self, ctx: moderngl.Context) -> None:
        self._ctx = ctx
        self._noise = [_noise(ctx, seed) for seed in range(3)]
        self._sampler = ctx.sampler(repeat_x=False, filter=(moderngl.NEAREST, moderngl.NEAREST))
        self._buffer = ctx.buffer(reserve=256)
        self._triangle = overlay.full_screen_triangle(ctx, SCENE)
        for unit, name in enumerate("abc"):
            self._triangle.program[name] = unit
        load = current_loader()
        self._draw = ctypes.CFUNCTYPE(None, *[ctypes.c_uint] * 3)(load("glDrawArrays"))
        self._clear = ctypes.CFUNCTYPE(None, ctypes.c_uint)(load("glClear"))

    def set_up(self) -> None:
        for unit, texture in enumerate(self._noise):
            texture.use(unit)
            self._sampler.use(unit)
        self._buffer.bind_to_storage_buffer(0)
        self._ctx.enable(moderngl.BLEND)
        self._ctx.fbo.scissor = (10, 20, 300, 200)
        self._triangle.render(moderngl.TRIANGLES, 3)

    def draw(self) -> None:
        self._clear(0x4000)  # GL_COLOR_BUFFER_BIT
        self._draw(moderngl.TRIANGLES, 0, 3)

    def tear_down(self) -> None:
        for unit in range(3):
            self._sampler.clear(unit)
        self._ctx.disable(moderngl.BLEND)
        self._ctx.fbo.scissor = None


def _noise(ctx: moderngl.Context, seed: int) -> moderngl.Texture:
    pixels = np.random.default_rng(seed).integers(0, 255, (16, 16, 4), np.uint8)
    return ctx.texture((16, 16), 4, pixels)


def changed_by(ctx: moderngl.Context, run: Any) -> str:
    """State that a run of the network between two drawings of the scene changed."""
    state, scene = State(current_loader()), Scene(ctx)
    scene.set_up()
    scene.draw()
    before = overlay.read_pixels(ctx.fbo).tobytes()
    expected, again = state.read(), state.read()
    run()
    actual = state.read()
    scene.draw()
    after = overlay.read_pixels(ctx.fbo).tobytes()
    scene.tear_down()
    if len(set(before)) < 100:
        return "the scene is blank"
    # Clocks and free memory are not state.
    changed = [k for k in expected if expected[k] == again[k] != actual[k]]
    if changed:
        return f"state {[(k, expected[k], actual[k]) for k in changed]}"
    return "nothing" if before == after else "pixels"


def main() -> None:
    original = overlay.Segmenter.run

    def run(self: Any) -> None:
        print("changed:", changed_by(moderngl.get_context(), lambda: original(self)))

    overlay.Segmenter.run = run
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
