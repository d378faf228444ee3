"""Windows on a virtual X server, and keys for them."""

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from Xlib import XK, X
from Xlib.display import Display
from Xlib.error import BadRequest, BadValue, XError
from Xlib.ext import xtest


@contextmanager
def started(command: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that does not outlive the block; its output is piped."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*map(str, command)], **pipes, **options) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def keyboard(server: str, title: str) -> Iterator[Callable[..., None]]:
    """Presses keys in the window with this title, a regular expression, once it is there."""
    display = _opened(server)
    window = _wait_for_window(display, title)

    def press(key: str, until: subprocess.Popen[Any] | None = None) -> None:
        """Once; with `until` again and again until that process ends."""
        code = display.keysym_to_keycode(XK.string_to_keysym(key))
        for _ in range(60 if until else 1):  # a window that is not yet in front gets no key
            window.set_input_focus(X.RevertToParent, X.CurrentTime)
            for event in (X.KeyPress, X.KeyRelease):
                xtest.fake_input(display, event, code)
                display.sync()
                time.sleep(0.2)  # some apps look at keys once a frame
            if until is not None:
                with suppress(subprocess.TimeoutExpired):
                    until.wait(1)
                    return

    try:
        yield press
    finally:
        display.close()


def screenshot(server: str) -> NDArray[np.uint8]:
    """The display's pixels [height, width, 3]."""
    display = _opened(server)
    root = display.screen().root
    size = root.get_geometry()
    image = root.get_image(0, 0, size.width, size.height, X.ZPixmap, 0xFFFFFFFF)
    display.close()
    pixels = np.frombuffer(image.data, np.uint8).reshape(size.height, size.width, 4)
    return pixels[..., 2::-1]


def _opened(server: str) -> Display:
    display = Display(server)
    # python-xlib has RandR's errors, which it cannot parse, under the numbers of these.
    display.display.error_classes |= {1: BadRequest, 2: BadValue}
    return display


def _wait_for_window(display: Display, title: str) -> Any:
    for _ in range(600):
        for window in display.screen().root.query_tree().children:
            with suppress(XError):  # the window is gone
                if re.fullmatch(title, window.get_wm_name() or ""):
                    return window
        time.sleep(0.1)
    raise TimeoutError(f"no window has the title {title}")
