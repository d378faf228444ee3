"""The loop of an app: read a frame, run networks, draw, show or write."""

from __future__ import annotations

import itertools
import logging
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from tqdm import tqdm

from gles_delegate.errors import ContextError, LiteRtError
from gles_delegate.gl.egl import EglContext
from gles_delegate.image.transform import Size
from gles_delegate.live.app import App, Canvas, Frame
from gles_delegate.live.painter import Painter, new_texture, write_texture
from gles_delegate.live.sources import Recording, Source
from gles_delegate.vision.drawing import text_extent

if TYPE_CHECKING:
    from gles_delegate.live.glfw_window import GlfwWindow

logger = logging.getLogger("gles_delegate")

Seer: TypeAlias = Callable[[Frame, Canvas], None]
"""Runs networks on a frame, and draws their results on the canvas."""


@dataclass(frozen=True)
class ShowOptions:
    """Options of `show`.

    Attributes:
        title: The window's title.
        headless: No window.
        output: A video, or a picture of the last frame; None: nothing is written.
        cpu: Networks run on LiteRT's CPU kernels until the key G is pressed.
        overlay: Show the timings until the key T is pressed.
        frames: End after this number; None: at the end of the source.
        cache: A folder for compiled shaders.
        scale: Factor for the size of frames before they are drawn, shown and written.
    """

    title: str = "gles_delegate"
    headless: bool = False
    output: Path | None = None
    cpu: bool = False
    overlay: bool = False
    frames: int | None = None
    cache: Path | None = None
    scale: int = 1


def show(make: Callable[[App], Seer], source: Source, options: ShowOptions) -> App:
    """Run an app until its source ends or its user quits. Without EGL it runs on the CPU and warns.

    Keys: Q quits, G switches between GPU and CPU, T shows or hides the timings. Ctrl-C quits, too,
    and completes the output file.

    Args:
        make: Makes the `Seer`; called once, with the context current.
        source: Frames; closed at the end.
        options: See `ShowOptions`.

    Returns:
        The closed app, with its timings.

    Raises:
        ContextError: A window needs a display and glfw, and one of them is missing.
        OSError: A file cannot be read or written.
        DelegateError: A network cannot run.
    """
    with ExitStack() as stack:
        stack.callback(source.close)
        window, painter = None, None
        size = (options.scale * source.size[0], options.scale * source.size[1])
        if not options.headless:
            try:
                from gles_delegate.live.glfw_window import GlfwWindow
            except ImportError as error:
                raise ContextError(
                    f"a window needs glfw ({error}): pip install glfw, or write a file with "
                    "--headless --output FILE"
                ) from error
            window = GlfwWindow(options.title, size)
            stack.callback(window.close)
        if window is not None or _enter_offscreen(stack):
            painter = Painter(size)
            stack.callback(painter.release)
        app = App("current" if painter is not None else None, cache=options.cache)
        stack.callback(app.close)
        app.on_gpu = painter is not None and not options.cpu
        loop = _Loop(app, source, size, window, painter, options)
        app.progress = loop.compiling
        seer = make(app)
        if options.output is not None:
            rate = source.rate or 30
            loop.recording = stack.enter_context(Recording(options.output, size, rate))
        loop.run(seer)
        return app


def _enter_offscreen(stack: ExitStack) -> bool:
    """Make a context without a window current; false if there is no EGL."""
    try:
        stack.enter_context(EglContext())
    except ContextError as error:
        logger.warning("no OpenGL ES, so networks run on LiteRT's CPU: %s", error)
        return False
    return True


@dataclass
class _Loop:
    _app: App
    _source: Source
    _size: Size
    _window: GlfwWindow | None
    _painter: Painter | None
    _options: ShowOptions
    recording: Recording | None = None

    def __post_init__(self) -> None:
        self._texture = None
        if self._painter is not None:
            self._texture = new_texture(np.zeros((*self._source.size, 4), np.uint8))
        self._start = time.perf_counter()
        self._overlay = self._options.overlay

    def compiling(self, name: str, compiled: int, total: int) -> None:
        """Show a network's compilation progress on the terminal and in the window's title."""
        text = f"compiling {name}: {compiled} of {total}"
        if sys.stderr.isatty():
            print(f"\r\033[K{text if compiled < total else ''}", end="", file=sys.stderr)
        if self._window is not None:
            self._window.retitle(f"{self._options.title}: {text}")

    def run(self, seer: Seer) -> None:
        timings = self._app.timings
        timings.is_exact = self._overlay or self._window is None
        # A picture stays in the window until it is closed.
        frames = self._options.frames or (None if self._window else self._source.count)
        bar = tqdm(total=frames, unit="frame", disable=True if self._window else None)
        with bar, suppress(KeyboardInterrupt):
            for _ in itertools.count() if frames is None else range(frames):
                if not self._step(seer):
                    return
                bar.update()

    def _step(self, seer: Seer) -> bool:
        """Process one frame; whether to continue."""
        timings, start = self._app.timings, time.perf_counter()
        with timings.measure("read"):
            pixels = self._source.read()
            if pixels is None:
                return False
            if self._texture is not None:
                write_texture(self._texture, pixels)
        frame = Frame(pixels, self._texture, time.perf_counter() - self._start)
        canvas = self._canvas(seer, frame)
        self._app.findings.add(canvas.counts)
        if self._overlay:
            self._draw_timings(canvas)
        with timings.measure("draw"):
            canvas.finish()
        if self.recording is not None:
            with timings.measure("write"):
                self.recording.write(canvas.pixels())
        continues = self._present()
        timings.add("frame", 1000 * (time.perf_counter() - start))
        return continues

    def _canvas(self, seer: Seer, frame: Frame) -> Canvas:
        """The canvas after a seer; the app returns to the GPU if LiteRT fails."""
        canvas = Canvas(frame, self._painter, self._size)
        try:
            seer(frame, canvas)
        except LiteRtError as error:
            if self._painter is None or self._app.on_gpu or self._options.cpu:
                raise
            logger.warning("networks stay on the GPU: %s", error)
            self._app.on_gpu = True
            return self._canvas(seer, frame)
        return canvas

    def _present(self) -> bool:
        """Show the frame; whether to continue."""
        if self._window is None or self._painter is None:
            return True
        self._painter.present(self._window.size)
        pressed = self._window.present(f"{self._options.title}: {self._rate:.0f} frames per second")
        if "G" in pressed:
            self._app.on_gpu = not self._app.on_gpu
            self._app.timings.clear()
        if "T" in pressed:
            self._overlay = not self._overlay
        self._app.timings.is_exact = self._overlay
        return "Q" not in pressed

    @property
    def _rate(self) -> float:
        """Frames per second."""
        return 1000 / self._app.timings.milliseconds.get("frame", 1000)

    def _draw_timings(self, canvas: Canvas) -> None:
        where = "GPU" if self._app.on_gpu else "LiteRT's CPU"
        stages = self._app.timings.milliseconds.items()
        lines = [f"{where}, {self._rate:.1f} frames per second"]
        lines += [f"{stage} {milliseconds:.1f} ms" for stage, milliseconds in stages]
        drawing = canvas.drawing
        step = 1.3 * drawing.font_size
        width = max(text_extent(line, drawing.font_size)[0] for line in lines)
        drawing.rectangle((0, 0, width + 16, step * len(lines) + 8), (0, 0, 0, 140))
        for row, line in enumerate(lines):
            drawing.text((8, 4 + row * step), line)
