"""A GLFW window with an OpenGL ES context from EGL."""

from __future__ import annotations

import os
from typing import Any

import glfw

from gles_delegate import ContextError
from gles_delegate.image.transform import Size

LARGEST = (720, 1280)
"""Maximum height and width of a window when it opens."""


class GlfwWindow:
    """A hidden window, whose context is current on this thread.

    Args:
        title: The window's title.

    Raises:
        ContextError: There is no display, or no OpenGL ES 3.1.
    """

    def __init__(self, title: str) -> None:
        if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
            raise ContextError(
                "a window needs a display: start the app in a desktop session or with xvfb-run, or "
                "write a file with --headless --output FILE"
            )
        if not glfw.init():
            raise ContextError("GLFW found no display; write a file with --headless --output FILE")
        for hint, value in (
            (glfw.CLIENT_API, glfw.OPENGL_ES_API),
            (glfw.CONTEXT_CREATION_API, glfw.EGL_CONTEXT_API),
            (glfw.CONTEXT_VERSION_MAJOR, 3),
            (glfw.CONTEXT_VERSION_MINOR, 1),
            (glfw.VISIBLE, glfw.FALSE),
        ):
            glfw.window_hint(hint, value)
        height, width = LARGEST
        self._window = glfw.create_window(width, height, title, None, None)
        if not self._window:
            glfw.terminate()
            raise ContextError(
                "GLFW cannot make a window with OpenGL ES 3.1 by EGL; write a file with --headless "
                "--output FILE"
            )
        glfw.make_context_current(self._window)
        glfw.swap_interval(0)
        self._pressed: set[str] = set()
        glfw.set_key_callback(self._window, self._on_key)

    def open(self, size: Size) -> None:
        """Show the window for a content of this height and width, no larger than `LARGEST`."""
        scale = min(1.0, *(most / length for most, length in zip(LARGEST, size, strict=True)))
        glfw.set_window_size(self._window, round(size[1] * scale), round(size[0] * scale))
        glfw.show_window(self._window)
        # The driver learns the size at a swap, and what it has drawn before is lost.
        for _ in range(3):
            glfw.swap_buffers(self._window)
            glfw.wait_events_timeout(0.05)

    def _on_key(self, window: Any, key: int, scancode: int, action: int, mods: int) -> None:
        if action == glfw.PRESS and 0 < key < 128:
            self._pressed.add(chr(key))

    @property
    def size(self) -> Size:
        """Height and width of the framebuffer."""
        width, height = glfw.get_framebuffer_size(self._window)
        return height, width

    def present(self, title: str) -> set[str]:
        """Show the drawn frame, and return the keys pressed since the last one, in upper case."""
        glfw.swap_buffers(self._window)
        self.retitle(title)
        pressed = self._pressed
        self._pressed = set()
        return pressed | ({"Q"} if glfw.window_should_close(self._window) else set())

    def retitle(self, title: str) -> None:
        """Change the title between frames."""
        glfw.set_window_title(self._window, title)
        self.poll()

    def poll(self) -> None:
        """Answer the desktop, and note keys."""
        glfw.poll_events()

    def close(self) -> None:
        glfw.destroy_window(self._window)
        glfw.terminate()
