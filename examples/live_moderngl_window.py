"""Draw a network's mask over a moving picture, in a moderngl-window window. Q quits.

python examples/live_moderngl_window.py [--video FILE] [--model FILE]
"""

from __future__ import annotations

import argparse
import logging
import sys
from typing import Any

import moderngl_window
import overlay


class Window(moderngl_window.WindowConfig):
    title = "gles_delegate"
    gl_version = (4, 3)
    window_size = overlay.SIZE
    aspect_ratio = None
    vsync = False
    log_level = logging.WARNING

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        parser.description = __doc__.splitlines()[0]
        overlay.add_arguments(parser)

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.wnd.exit_key = self.wnd.keys.Q
        self._live = overlay.Live(self.ctx, self.argv)

    def on_render(self, time: float, frame_time: float) -> None:
        self.wnd.title = self._live.title
        if not self._live.draw(self.wnd.fbo):
            self.wnd.close()  # this destroys the context and the delegate's objects


if __name__ == "__main__":
    if not {"-h", "--help"}.intersection(sys.argv):
        overlay.require_display()
    moderngl_window.run_window_config(Window)
