"""Draw a network's mask over a moving picture, in a GLFW window with OpenGL ES. Q quits.

python examples/live_glfw.py [--video FILE] [--model FILE]
"""

from __future__ import annotations

import argparse
from typing import Any

import glfw
import moderngl
import overlay
from imaging import ending_in_a_sentence


def make_window() -> Any:
    """Create a window whose OpenGL ES context is current."""
    if not glfw.init():
        raise SystemExit("GLFW found no display")
    glfw.window_hint(glfw.CLIENT_API, glfw.OPENGL_ES_API)
    glfw.window_hint(glfw.CONTEXT_CREATION_API, glfw.EGL_CONTEXT_API)
    glfw.window_hint(glfw.CONTEXT_VERSION_MAJOR, 3)
    glfw.window_hint(glfw.CONTEXT_VERSION_MINOR, 1)
    window = glfw.create_window(*overlay.SIZE, "gles_delegate", None, None)
    if not window:
        raise SystemExit("GLFW cannot make a window with OpenGL ES 3.1")
    glfw.make_context_current(window)
    return window


@ending_in_a_sentence()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    overlay.add_arguments(parser)
    arguments = parser.parse_args()

    overlay.require_display()
    window = make_window()
    ctx = moderngl.create_context(require=310)
    live = overlay.Live(ctx, arguments)
    again = True
    while again and not glfw.window_should_close(window):
        ctx.screen.viewport = (0, 0, *glfw.get_framebuffer_size(window))
        again = live.draw(ctx.screen)
        glfw.swap_buffers(window)
        glfw.set_window_title(window, live.title)
        glfw.poll_events()
        if glfw.get_key(window, glfw.KEY_Q) == glfw.PRESS:
            again = False
    live.close()
    glfw.terminate()


if __name__ == "__main__":
    main()
