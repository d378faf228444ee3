"""The loop of an app: read a frame, run networks, draw, show or write."""

from __future__ import annotations

import itertools
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TaskID

from gles_apps.live.app import App, Canvas, Frame
from gles_apps.live.frames import GpuFrame
from gles_apps.live.painter import Painter, new_texture, write_texture
from gles_apps.live.sources import GpuSource, Recording, Source
from gles_apps.vision.drawing import PANEL, Drawing, text_extent
from gles_delegate import ContextError, EglContext, Fence
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.current import current_functions
from gles_delegate.gl.drawing import Framebuffer, Texture, drawing_restored
from gles_delegate.gl.libegl import release_thread
from gles_delegate.gl.texture import PixelTexture
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array
from gles_delegate.support.closing import in_any_case, release_all
from gles_delegate.support.outputs import require_other_files

if TYPE_CHECKING:
    from gles_apps.live.glfw_window import GlfwWindow

T = TypeVar("T")

FrameHandler: TypeAlias = Callable[[Frame, Canvas], None]
"""Runs networks on a frame, and draws their results on the canvas."""


@dataclass(frozen=True)
class ShowOptions:
    """Options of `show`.

    Attributes:
        title: The window's title.
        headless: No window.
        output: A video, or a picture of the last frame; None: nothing is written.
        overlay: Show the timings until the key T is pressed.
        frames: End after this number of frames; None: at the end of the source.
        cache: A folder for compiled shaders.
        scale: The factor by which frames are enlarged before they are drawn, shown and written.
        antialias: See `tasks.BaseOptions`.
        quiet: No progress bar in the terminal.

    Examples:
        >>> options = live.ShowOptions(headless=True, output=Path("out.png"), frames=1)
        >>> picture = live.Picture(Path("face.jpg"))
        >>> app = live.show(lambda app: lambda frame, canvas: None, picture, options)
    """

    title: str = "gles_delegate"
    headless: bool = False
    output: Path | None = None
    overlay: bool = False
    frames: int | None = None
    cache: Path | None = None
    scale: int = 1
    antialias: bool = True
    quiet: bool = False


def show(
    make: Callable[[App], FrameHandler],
    source: Source | Callable[[], GpuSource],
    options: ShowOptions,
) -> App:
    """Run an app until its source ends or its user quits.

    Another thread, with its own context, runs the networks, while this one reads, draws and shows
    frames. A window shows every frame of a camera, with the newest results from the second frame
    on. Frames of a video or of a pipeline that can wait, and those that are written, have their own
    results; a window shows them later if the networks take longer.

    Keys: Q quits, T shows or hides the timings. Ctrl-C quits, too, and completes the output file.

    Args:
        make: Makes the `FrameHandler`; called once, in the networks' thread, where its context is
            current.
        source: Frames; closed at the end. A function is called where the context of the window is
            current, for a source that shares with it.
        options: See `ShowOptions`.

    Returns:
        The closed app, with its timings.

    Raises:
        ContextError: A window needs a display and glfw, and one of them is missing; or there is no
            EGL.
        OSError: A file cannot be read or written.
        ValueError: The output is a file that the source reads.
        DelegateError: A network cannot run.

    Examples:
        >>> def make(app):
        ...     return live.frame_handler_for(app, Path("ball_segmenter.tflite"))
        >>> options = live.ShowOptions(headless=True, output=Path("out.mp4"))
        >>> app = live.show(make, live.Video(Path("video.mp4")), options)
        >>> sorted(app.timings.milliseconds)[:2]
        ['ball_segmenter', 'draw']
    """
    with ExitStack() as stack:
        opened: Source | GpuSource | None = None
        if not callable(source):
            opened = source
            stack.callback(opened.close)
        window = None
        if not options.headless:
            try:
                from gles_apps.live.glfw_window import GlfwWindow
            except ImportError as error:
                raise ContextError(
                    f"a window needs glfw ({error}): pip install glfw, or write a file with "
                    "--headless --output FILE"
                ) from error
            window = GlfwWindow(options.title)
            stack.callback(window.close)
        else:  # one that a source's context can share with
            stack.enter_context(EglContext(robust=opened is not None))
        if callable(source):
            opened = source()
            stack.callback(opened.close)
        assert opened is not None
        require_other_files([options.output], getattr(opened, "files", ()))
        size = (options.scale * opened.size[0], options.scale * opened.size[1])
        if window is not None:
            window.open(size)
        painter = Painter(size)
        stack.callback(painter.release)
        networks = stack.enter_context(_Networks(size, painter, options))
        loop = _Loop(networks, opened, window, painter, options)
        stack.enter_context(loop.bar)
        loop.prepare(make)
        if options.output is not None:
            rate = opened.rate or 30
            loop.recording = stack.enter_context(Recording(options.output, size, rate))
        loop.run()
        return networks.app


class _Networks:
    """The thread of an app's networks, with a context that shares with the current one."""

    def __init__(self, size: Size, painter: Painter, options: ShowOptions) -> None:
        self._size = size
        self._painter = painter
        self._thread = ThreadPoolExecutor(1, "networks")
        self._context = EglContext(share="current")
        self._kept = _KeptTextures()
        self.app = App("current", cache=options.cache, antialias=options.antialias)

    def __enter__(self) -> _Networks:
        self._call(self._context.__enter__)
        return self

    def __exit__(self, *error: object) -> None:
        leave: Callable[[], object] = partial(self._context.__exit__, None, None, None)
        ends = (self.app.close, self._kept.release, leave, self._context.release, release_thread)
        with self._thread:
            in_any_case(partial(self._call, end) for end in ends)

    def _call(self, function: Callable[[], T]) -> T:
        return self._thread.submit(function).result()

    def start(self, make: Callable[[App], FrameHandler]) -> Future[FrameHandler]:
        """Make a handler in the thread."""
        return self._thread.submit(make, self.app)

    def see(self, handler: FrameHandler, frame: Frame) -> Future[Canvas]:
        """Run a handler on a frame in the thread, after what was submitted here before."""
        return self._thread.submit(self._see, handler, frame, Fence.of_current_context())

    def _see(self, handler: FrameHandler, frame: Frame, fence: Fence) -> Canvas:
        fence.wait_on_gpu()
        fence.close()
        canvas = Canvas(frame, self._painter, self._size, self._kept.next())
        handler(frame, canvas)
        current_functions().glFinish()  # the thread that draws must not wait for the GPU
        return canvas


class _KeptTextures:
    """Copies of networks' textures, in turns: for the results drawn, waiting, and under way."""

    def __init__(self) -> None:
        self._turns: list[list[PixelTexture]] = [[], [], []]

    def next(self) -> Callable[[Texture], Texture]:
        """The function that copies a texture for the next results."""
        self._turns.append(self._turns.pop(0))
        copies = self._turns[-1]
        places = itertools.count()

        def keep(texture: Texture) -> Texture:
            gl = current_functions()
            place = next(places)
            width, height = texture.size
            with drawing_restored(gl):
                if place == len(copies):
                    copies.append(PixelTexture(gl, (height, width, 4)))
                elif copies[place].size != texture.size:
                    old = copies[place]
                    copies[place] = PixelTexture(gl, (height, width, 4))
                    old.release()
                framebuffer = Framebuffer(gl)
                framebuffer.copy(texture, copies[place])
                framebuffer.release()
            return copies[place]

        return keep

    def release(self) -> None:
        release_all(copy for copies in self._turns for copy in copies)


class _Loop:
    """Reads, draws, shows and writes frames, while `networks` see others."""

    recording: Recording | None = None

    def __init__(
        self,
        networks: _Networks,
        source: Source | GpuSource,
        window: GlfwWindow | None,
        painter: Painter,
        options: ShowOptions,
    ) -> None:
        self._networks = networks
        self._app = networks.app
        self._source = source
        self._window = window
        self._painter = painter
        self._options = options
        self._uploads: list[PixelTexture] = []
        self._compiling = ""
        self._overlay = options.overlay
        self._start = self._last = self._shown = time.perf_counter()
        self._app.progress = self._note_progress
        console = Console(stderr=True)
        is_quiet = options.quiet or not console.is_terminal
        # For compilations and, without a window, for frames.
        self.bar = Progress(console=console, transient=True, disable=is_quiet)
        self._bars: dict[str, TaskID] = {}

    def prepare(self, make: Callable[[App], FrameHandler]) -> None:
        """Make the handler, and show the compilation's progress meanwhile."""
        self._handler = self._waited_for(self._networks.start(make))

    def _note_progress(self, name: str, compiled: int, total: int) -> None:
        is_under_way = compiled < total
        self._compiling = f"compiling {name}: {compiled} of {total}" if is_under_way else ""
        if name not in self._bars:
            self._bars[name] = self.bar.add_task(f"compiling {escape(name)}")
        self.bar.update(self._bars[name], completed=compiled, total=total, visible=is_under_way)

    def _waited_for(self, result: Future[T]) -> T:
        """A result of the networks' thread; the window answers meanwhile."""
        while self._window is not None and not result.done():
            wait([result], 0.05)
            if self._compiling:
                self._window.retitle(f"{self._options.title}: {self._compiling}")
            else:
                self._window.poll()
        return result.result()

    def run(self) -> None:
        """Show frames until they end, or their user quits."""
        self._app.timings.is_exact = self._overlay or self._window is None
        # A picture stays in the window until it is closed.
        count = self._options.frames or (None if self._window else self._source.count)
        is_shown = self._window is None and count != 1
        frames = self.bar.add_task("frames", total=count, visible=is_shown)
        is_watched = self._window is not None and self.recording is None
        can_wait = getattr(self._source, "is_live", None) is False
        pairs = self._newest if is_watched and not can_wait else self._matched
        with suppress(KeyboardInterrupt):
            for frame, canvas in pairs(itertools.islice(self._frames(), count)):
                if is_watched:
                    self._keep_pace()
                if not self._show(frame, canvas):
                    return
                self.bar.advance(frames)

    def _frames(self) -> Iterator[Frame]:
        for index in itertools.count():
            with self._app.timings.measure("read"):
                picture = self._source.read()
            if picture is None:
                return
            if isinstance(picture, GpuFrame):
                yield Frame(None, picture, self._seconds(picture, index))
            else:
                seconds = self._seconds(self._source, index)
                with self._app.timings.measure("upload"):
                    texture = self._uploaded(picture)
                yield Frame(picture, texture, seconds)

    def _seconds(self, timed: object, index: int) -> float:
        """The presentation time of a frame, or a clock's time if the source provides none."""
        seconds: float | None = getattr(timed, "seconds", None)
        if seconds is not None:
            return seconds
        if self._window is None and not getattr(self._source, "is_live", False):
            return index / (self._source.rate or 30)  # as in the output
        return time.perf_counter() - self._start

    def _uploaded(self, pixels: Array) -> PixelTexture:
        """A texture of the pixels; two earlier ones may be in use."""
        if len(self._uploads) < 3:
            self._uploads.append(new_texture(pixels))
        else:
            self._uploads.append(self._uploads.pop(0))
            write_texture(self._uploads[-1], pixels)
        return self._uploads[-1]

    def _matched(self, frames: Iterator[Frame]) -> Iterator[tuple[Frame, Canvas]]:
        """Each frame with its own results, while the networks see the next one."""
        before: tuple[Frame, Future[Canvas]] | None = None
        for frame in itertools.chain(frames, (None,)):
            under_way = None if frame is None else (frame, self._networks.see(self._handler, frame))
            if before is not None:
                with self._app.timings.measure("wait"):
                    canvas = self._waited_for(before[1])
                self._app.counts.add(canvas.counts)
                yield before[0], canvas
                before[0].give_back()
            before = under_way

    def _newest(self, frames: Iterator[Frame]) -> Iterator[tuple[Frame, Canvas]]:
        """Each frame with the newest results, in the source's own time; the first with its own."""
        canvas: Canvas | None = None
        under_way: tuple[Frame, Future[Canvas]] | None = None
        for frame in frames:
            if under_way is None:
                under_way = (frame, self._networks.see(self._handler, frame))
            if canvas is None or under_way[1].done():
                canvas = self._waited_for(under_way[1])
                self._app.counts.add(canvas.counts)
                seen = under_way[0]
                under_way = (frame, self._networks.see(self._handler, frame))
                if seen is not frame:
                    seen.give_back()
            yield frame, canvas
            if frame is not under_way[0]:
                frame.give_back()

    def _keep_pace(self) -> None:
        """Wait until a frame of a file is due."""
        rate = self._source.rate
        if rate and not getattr(self._source, "is_live", False):
            due = self._last + 1 / rate
            time.sleep(max(due - time.perf_counter(), 0))
            self._last = max(due, time.perf_counter() - 1 / rate)

    def _show(self, frame: Frame, canvas: Canvas) -> bool:
        """Draw a frame, write it and show it; whether to continue."""
        timings = self._app.timings
        start = self._shown
        with timings.measure("draw"):
            canvas.finish(frame, self._timings() if self._overlay else None)
        if self.recording is not None:
            with timings.measure("write"):
                self.recording.write(canvas.pixels())
        pressed: set[str] = set()
        if self._window is not None:
            self._painter.present(self._window.size)
            title = f"{self._options.title}: {self._rate:.0f} frames per second"
            pressed = self._window.present(title)
            if "T" in pressed:
                self._overlay = not self._overlay
            timings.is_exact = self._overlay
        self._shown = time.perf_counter()
        timings.add("frame", 1000 * (self._shown - start))
        return "Q" not in pressed

    @property
    def _rate(self) -> float:
        return 1000 / self._app.timings.milliseconds.get("frame", 1000)

    def _timings(self) -> Drawing:
        """Small lines at the upper edge, which hide little of the picture."""
        renderer = current_functions().string(gl_names.RENDERER).split(" (")[0]
        text = f"{renderer}; ms: {self._app.timings}"
        if "frame" in self._app.timings.milliseconds:  # the first one has not ended
            text = f"{self._rate:.1f} frames per second on {text}"
        rows, columns = (self._options.scale * size for size in self._source.size)
        drawing = Drawing((rows, columns))
        size = max(12, drawing.font_size // 2)
        fitting = int(len(text) * (columns - 8) / text_extent(text, size)[0])
        lines = textwrap.wrap(text, max(fitting, 8))
        drawing.rectangle((0, 0, columns, 1.3 * size * len(lines) + 4), PANEL)
        for row, line in enumerate(lines):
            drawing.text((4, 2 + row * 1.3 * size), line, size=size)
        return drawing
