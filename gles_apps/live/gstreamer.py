"""Frames of GStreamer pipelines, as textures that never pass through the CPU."""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable, Iterator
from ctypes import POINTER, byref, c_void_p
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import count
from typing import Literal, TypeVar

from gles_apps.live import libgst as gst_names
from gles_apps.live.frames import GpuFrame, Plane, Submitted
from gles_apps.live.libgst import MapInfo, VideoInfo, libgst
from gles_delegate import ContextError, EglContext, Fence
from gles_delegate.gl.current import current_functions
from gles_delegate.gl.egl import current_context
from gles_delegate.gl.libegl import libegl
from gles_delegate.image.transform import Size, Yuv
from gles_delegate.support.closing import Closing, in_any_case, on_error
from gles_delegate.support.outputs import require_other_files

T = TypeVar("T")

FRAME_TIMEOUT_S = 10.0
"""Seconds that a pipeline may take for a frame."""
MAX_LENT = 2
"""Frames that are lent at a time: one is shown while a network sees the next."""
_MAX_PLANES = 32  # that are remembered; a pool has fewer
_TICK = gst_names.SECOND // 20  # how often a thread that waits looks for Ctrl-C and errors

_APP = b"gles_delegate"  # the element that is ours
_CHANNELS = {"RGBA": (4,), "NV12": (1, 2), "I420": (1, 1, 1)}
_MATRICES: dict[int, Yuv] = {3: "bt709", 5: "bt709", 6: "bt2020"}  # GstVideoColorMatrix; 5: 240M
_FULL_RANGE = 1  # GstVideoColorRange
_AT_LEFT = 1 << 1  # GstVideoChromaSite: GST_VIDEO_CHROMA_SITE_H_COSITED


class _Pipeline(Closing):
    """A pipeline whose elements use one display, and so one context."""

    def __init__(self, pipeline: str) -> None:
        self._gst = libgst()
        self._title = f"the pipeline {pipeline!r}"
        self._release: list[Callable[[], object]] = []

    def _parse(self, description: str, display: int) -> None:
        gst = self._gst
        with gst.raising(f"GStreamer cannot parse {self._title}") as errors:
            self._pipeline = gst.gst_parse_launch(description.encode(), errors)
            if self._pipeline:
                self._release.append(lambda: gst.gst_object_unref(self._pipeline))
        self._bus = gst.gst_element_get_bus(self._pipeline)
        self._end = gst.gst_bin_get_by_name(self._pipeline, _APP)
        self._release += [
            lambda: gst.gst_object_unref(self._bus),
            lambda: gst.gst_object_unref(self._end),
            lambda: gst.gst_element_set_state(self._pipeline, gst_names.NULL),
        ]
        context = gst.gst_context_new(gst_names.DISPLAY_TYPE, 1)
        gst.gst_context_set_gl_display(context, display)
        gst.gst_element_set_context(self._pipeline, context)
        gst.gst_mini_object_unref(context)

    def _set_state(self, state: int) -> int:
        result: int = self._gst.gst_element_set_state(self._pipeline, state)
        if result == gst_names.FAILURE:
            self._raise_error()
            raise OSError(f"{self._title} does not start")
        return result

    def _require_open(self) -> None:
        if not self._release:
            raise ValueError(f"{self._title} is closed")

    def _raise_error(self, timeout: int = 0, others: int = 0) -> bool:
        """Raise the error that an element has posted; whether there is a message of `others`."""
        gst = self._gst
        message = gst.gst_bus_timed_pop_filtered(self._bus, timeout, gst_names.ERROR | others)
        if not message:
            return False
        error = POINTER(gst_names.GError)()
        details = c_void_p()
        is_error = gst_names.GstMessage.from_address(message).kind == gst_names.ERROR
        if is_error:
            gst.gst_message_parse_error(message, byref(error), byref(details))
        gst.gst_mini_object_unref(message)
        if is_error:
            with gst.raising(f"{self._title} failed{_reason(details)}") as errors:
                gst.g_propagate_error(errors, error)
                gst.g_free(details)
        return True

    def close(self) -> None:
        """Stop the pipeline. A second call does nothing."""
        release = self._release
        self._release = []
        in_any_case(reversed(release))


class GStreamer(_Pipeline):
    """The frames of a GStreamer pipeline, for `show` and for loops of an app.

    Frames of a pipeline with a tag "image-orientation" are turned, and are then RGBA; the pipeline
    starts again for that. Live pipelines drop frames that are not read in time; others wait.

    Args:
        pipeline: The elements up to raw video, such as "v4l2src ! decodebin", in the syntax of
            gst-launch-1.0. The rest, which brings frames into textures, is added.
        share: "current": GStreamer's context shares with the current EGL context, which must not be
            robust (see `EglContext`) and may be a window's. None: the source makes `context`.
        planes: Lend the planes of YUV video, which is fastest; False: convert to RGBA first.

    Attributes:
        context: A context that shares with GStreamer's, for the delegate; None with `share`.
        size: Height and width of each frame.
        rate: Frames per second.
        count: None, as the number of frames is not known.
        is_live: Frames arrive in real time, as from a camera.

    Raises:
        OSError: GStreamer is not installed, or the pipeline does not work.
        ContextError: There is no EGL, or no context that GStreamer's can share with.

    Examples:
        >>> pipeline = "videotestsrc num-buffers=2 ! video/x-raw,format=NV12,width=320,height=240"
        >>> with live.GStreamer(pipeline) as camera:
        ...     with gd.GpuDelegate(context=camera.context) as delegate:
        ...         for frame in camera:
        ...             frame.close()
        >>> camera.size
        (240, 320)
    """

    count: int | None = None

    def __init__(
        self, pipeline: str, *, share: Literal["current"] | None = None, planes: bool = True
    ) -> None:
        super().__init__(pipeline)
        self._lent: list[_Loan] = []
        self._planes: dict[Plane, Plane] = {}
        self.context: EglContext | None = None
        self.size: Size = (0, 0)
        self.rate: float | None = None
        self.is_live = False
        self._origin: int | None = None
        with on_error(self.close):
            self._make_contexts(share)
            contexts = len(self._release)
            self._start(pipeline, "{NV12,I420,RGBA}" if planes else "RGBA")
            if self._orientation() not in ("", "rotate-0"):
                self._finish(self._lent.pop())
                self._planes.clear()
                release = self._release[contexts:]
                self._release = self._release[:contexts]
                in_any_case(reversed(release))
                turn = " ! glupload ! glcolorconvert ! glvideoflip video-direction=auto"
                self._start(pipeline + turn, "RGBA")

    def _start(self, pipeline: str, formats: str) -> None:
        self._parse(
            f"{pipeline} ! videoconvert ! glupload ! video/x-raw(memory:GLMemory),"
            f"format=(string){formats},texture-target=2D ! appsink name={_APP.decode()} "
            "sync=false max-buffers=2",
            self._display,
        )
        self.is_live = self._set_state(gst_names.PAUSED) == gst_names.NO_PREROLL
        if self.is_live:
            self._gst.gst_app_sink_set_max_buffers(self._end, 1)
            self._gst.gst_app_sink_set_drop(self._end, 1)
        self._set_state(gst_names.PLAYING)
        self._origin = None
        self._first = self._pull()
        if self._first is None:
            raise OSError(f"{self._title} delivered no frames")

    def _orientation(self) -> str:
        """How frames must be turned, such as "rotate-90"; "" if no tag says so."""
        gst = self._gst
        text = c_void_p()
        tags = ctypes.c_size_t()
        found = ""
        pad = gst.gst_element_get_static_pad(self._end, b"sink")
        for i in count():
            event = gst.gst_pad_get_sticky_event(pad, gst_names.TAG, i)
            if not event:
                break
            gst.gst_event_parse_tag(event, byref(tags))
            if gst.gst_tag_list_get_string(tags, b"image-orientation", byref(text)):
                found = ctypes.string_at(text).decode()
                gst.g_free(text)
            gst.gst_mini_object_unref(event)
        gst.gst_object_unref(pad)
        return found

    def _make_contexts(self, share: Literal["current"] | None) -> None:
        """GStreamer's context comes first: EGL refuses it to share with a robust one."""
        gst = self._gst
        egl = libegl()
        if share is None:
            native = EglContext()
            display = native.display
            native.release()
        else:
            display = egl.eglGetCurrentDisplay() if current_context() else 0
        if not display:
            raise ContextError("expected a current EGL context to share with, found none")
        self._display = gst.gst_gl_display_egl_new_with_egl_display(display)
        self._release.append(lambda: gst.gst_object_unref(self._display))
        others = 0
        if share is not None:
            api = gst.gst_gl_context_get_current_gl_api(gst_names.EGL, None, None)
            shared = current_context()
            others = gst.gst_gl_context_new_wrapped(self._display, shared, gst_names.EGL, api)
            self._release.append(lambda: gst.gst_object_unref(others))
        gst.gst_gl_display_filter_gl_api(self._display, gst_names.GLES2)
        self._theirs = gst.gst_gl_context_new(self._display)
        self._release.append(lambda: gst.gst_object_unref(self._theirs))
        try:
            with gst.raising("GStreamer cannot share with the current context") as errors:
                gst.gst_gl_context_create(self._theirs, others, errors)
        except OSError as error:
            raise ContextError(
                f"{error}; it must not be robust: EglContext(robust=False)"
            ) from error
        gst.gst_gl_display_add_context(self._display, self._theirs)
        if share is None:
            self.context = self._in_gl_thread(lambda: EglContext(share="current"))
            self._release.append(self.context.release)

    def read(self) -> GpuFrame | None:
        """The next frame; None after the last one.

        Raises:
            OSError: The pipeline failed, or delivered no frame for 10 seconds.
            ValueError: Two frames have not been closed, or the source is closed.
        """
        self._require_open()
        self._reclaim()
        if len(self._lent) == MAX_LENT:
            oldest = self._lent[0]
            if oldest.after is None:
                raise ValueError(
                    f"expected at most {MAX_LENT} frames that are not closed: close one first"
                )
            oldest.after.wait()
            self._reclaim()
        frame = self._first
        self._first = None
        return frame or self._pull()

    def __iter__(self) -> Iterator[GpuFrame]:
        while (frame := self.read()) is not None:
            yield frame

    def close(self) -> None:
        """Stop the pipeline; waits until the GPU has read all closed frames.

        Frames that are not closed lose their textures. A second call does nothing.
        """
        lent = self._lent
        self._lent = []
        in_any_case((*(partial(self._finish, loan, wait=True) for loan in lent), super().close))

    def _pull(self) -> GpuFrame | None:
        gst = self._gst
        deadline = time.monotonic() + FRAME_TIMEOUT_S
        while not (sample := gst.gst_app_sink_try_pull_sample(self._end, _TICK)):
            self._raise_error()
            if gst.gst_app_sink_is_eos(self._end):
                return None
            if time.monotonic() > deadline:
                raise OSError(f"{self._title} delivered no frame in {FRAME_TIMEOUT_S:g} seconds")
        loan = _Loan(sample)
        with on_error(lambda: self._finish(loan)):
            return self._lend(loan)

    def _lend(self, loan: _Loan) -> GpuFrame:
        gst = self._gst
        info = VideoInfo()
        if not gst.gst_video_info_from_caps(byref(info), gst.gst_sample_get_caps(loan.sample)):
            raise OSError(f"{self._title} delivers non-video buffers")
        channels = _CHANNELS[gst.gst_video_format_to_string(info.format[0]).decode()]
        buffer = gst.gst_sample_get_buffer(loan.sample)
        planes = []
        for place, depth in enumerate(channels):
            memory = gst.gst_buffer_peek_memory(buffer, place)
            if not gst.gst_is_gl_memory(memory):
                raise OSError(f"{self._title} delivers frames outside GL memory")
            mapped = MapInfo()
            # glupload is lazy: the map uploads.
            if not gst.gst_memory_map(memory, byref(mapped), gst_names.READ | gst_names.GL):
                raise OSError(f"{self._title} has a frame that GStreamer cannot upload")
            loan.mapped.append(mapped)
            half = 1 if place == 0 else 2
            width = -(-info.width // half)
            height = -(-info.height // half)
            planes.append(self._plane(Plane(mapped.data[0], (width, height), depth)))
        loan.ready = self._in_gl_thread(lambda: Fence(current_functions(), self._in_gl_thread))
        self.size = (info.height, info.width)
        self.rate = info.rate[0] / info.rate[1] if info.rate[0] and info.rate[1] else None
        self._lent.append(loan)
        pts = gst_names.GstBuffer.from_address(buffer).pts  # in nanoseconds
        seconds = None
        if pts != gst_names.NO_TIME:
            self._origin = pts if self._origin is None else self._origin
            seconds = (pts - self._origin) / gst_names.SECOND
        return GpuFrame(
            planes,
            colors={
                "yuv": _MATRICES.get(info.matrix, "bt601"),
                "full_range": info.range == _FULL_RANGE,
                "siting": "left" if info.chroma_site & _AT_LEFT else "center",
            },
            ready=loan.ready,
            run=self._in_gl_thread,
            give_back=lambda after: self._give_back(loan, after),
            seconds=seconds,
        )

    def _plane(self, plane: Plane) -> Plane:
        """The equal plane of an earlier frame, which a delegate recognizes, or else this one."""
        known = self._planes.pop(plane, plane)
        self._planes[known] = known
        if len(self._planes) > _MAX_PLANES:
            del self._planes[next(iter(self._planes))]
        return known

    def _give_back(self, loan: _Loan, after: Submitted | None) -> None:
        if loan not in self._lent:  # the source is closed
            return
        if after is None and current_context():
            after = Fence(current_functions(), self._in_gl_thread)
        loan.after = after
        if after is None:
            self._lent.remove(loan)
            self._finish(loan)

    def _reclaim(self) -> None:
        """Return frames that the GPU has read to GStreamer: its pool cannot wait for the GPU."""
        done = [loan for loan in self._lent if loan.after is not None and loan.after.done()]
        for loan in done:
            self._lent.remove(loan)
            self._finish(loan)

    def _finish(self, loan: _Loan, wait: bool = False) -> None:
        if wait and loan.after is not None:
            loan.after.wait()
        gst = self._gst
        mapped = loan.mapped
        loan.mapped = []
        for each in mapped:
            gst.gst_memory_unmap(each.memory, byref(each))
        sample = loan.sample
        loan.sample = 0
        if sample:
            gst.gst_mini_object_unref(sample)
        if loan.ready is not None:
            loan.ready.close()

    def _in_gl_thread(self, function: Callable[[], T]) -> T:
        """Call a function where GStreamer's context is current; raises ValueError after `close`."""
        self._require_open()
        results: list[T] = []
        errors: list[BaseException] = []

        def task(context: int, data: int) -> None:
            try:
                results.append(function())
            except BaseException as error:  # raised below
                errors.append(error)

        self._gst.gst_gl_context_thread_add(self._theirs, gst_names.Task(task), 0)
        if errors:
            raise errors[0]
        return results[0]


def _reason(details: c_void_p) -> str:
    """An error's details in one line, without the place in GStreamer's code."""
    text = ctypes.string_at(details).decode("utf-8", "replace") if details else ""
    reason = " ".join(text.partition(":\n")[2].split())
    return f" ({reason})" if reason else ""


def locations(pipeline: str) -> list[str]:
    """The files that the elements of a pipeline name."""
    found = re.findall(r'\blocation\s*=\s*(?:"((?:[^"\\]|\\.)*)"|(\S+))', pipeline)
    return [re.sub(r"\\(.)", r"\1", quoted or plain) for quoted, plain in found]


class GStreamerSink(_Pipeline):
    """A pipeline that takes a network's pictures as textures.

    Args:
        pipeline: The elements after raw video, such as "x264enc ! mp4mux ! filesink
            location=masks.mp4". Elements that bring textures to them are added.
        source: The source whose context the pipeline shares; close it after the sink.
        size: Height and width of the pictures.
        rate: Pictures per second; None: the source's.

    Raises:
        OSError: The pipeline does not work.
        ValueError: It would write a file that is open for reading, as the source's is.

    Examples:
        >>> pipeline = "videotestsrc num-buffers=2 ! video/x-raw,format=NV12,width=256,height=144"
        >>> camera = live.GStreamer(pipeline)
        >>> into, onto = gd.ImageTransform(), gd.ImageOutput()
        >>> with camera, gd.GpuDelegate(context=camera.context) as delegate:
        ...     interpreter = gd.Interpreter("segmenter.tflite", experimental_delegates=[delegate])
        ...     ball = interpreter.get_output_details()[0]["index"]
        ...     with live.GStreamerSink("fakesink", camera, (144, 256)) as sink:
        ...         for frame in camera:
        ...             delegate.bind_texture_to_tensor(0, frame.textures, transform=into)
        ...             picture = sink.picture()
        ...             delegate.bind_texture_to_tensor(ball, picture.texture, transform=onto)
        ...             interpreter.allocate_tensors()
        ...             picture.push(interpreter.invoke_async(wait_for=frame.ready))
        ...             frame.close()
    """

    def __init__(
        self, pipeline: str, source: GStreamer, size: Size, rate: float | None = None
    ) -> None:
        require_other_files(locations(pipeline))
        super().__init__(pipeline)
        gst = self._gst
        height, width = size
        self._source = source
        self._size = size
        self._count = 0
        self._rate = rate or source.rate or 30
        fraction = Fraction(self._rate).limit_denominator(1001)
        caps = gst.gst_caps_from_string(
            f"video/x-raw(memory:GLMemory),format=RGBA,texture-target=2D,width={width},"
            f"height={height},framerate={fraction.numerator}/{fraction.denominator}".encode()
        )
        self._release.append(lambda: gst.gst_mini_object_unref(caps))
        with on_error(self.close):
            self._parse(
                f"appsrc name={_APP.decode()} format=time block=true max-buffers=4 ! "
                f"glcolorconvert ! gldownload ! videoconvert ! {pipeline}",
                source._display,
            )
            gst.gst_app_src_set_caps(self._end, caps)
            self._pool = gst.gst_gl_buffer_pool_new(source._theirs)
            self._release.append(lambda: gst.gst_object_unref(self._pool))
            config = gst.gst_buffer_pool_get_config(self._pool)
            gst.gst_buffer_pool_config_set_params(config, caps, 4 * width * height, 2, 0)
            if not gst.gst_buffer_pool_set_config(self._pool, config):
                raise OSError(f"{self._title} cannot have pictures of {width}x{height}")
            gst.gst_buffer_pool_set_active(self._pool, 1)
            self._release.append(lambda: gst.gst_buffer_pool_set_active(self._pool, 0))
            self._set_state(gst_names.PLAYING)

    def picture(self) -> SinkPicture:
        """The next picture, to be written and pushed.

        Raises:
            OSError: The pipeline failed.
            ValueError: The sink is closed.
        """
        self._require_open()
        self._raise_error()
        gst = self._gst
        buffer = POINTER(gst_names.GstBuffer)()
        if gst.gst_buffer_pool_acquire_buffer(self._pool, byref(buffer), None) != gst_names.OK:
            raise OSError(f"{self._title} does not accept frames")
        memory = gst.gst_buffer_peek_memory(ctypes.addressof(buffer.contents), 0)
        mapped = MapInfo()
        # The map marks GStreamer's copy in system memory as outdated.
        if not gst.gst_memory_map(memory, byref(mapped), gst_names.WRITE | gst_names.GL):
            raise OSError(f"{self._title} has a texture that cannot be written")
        height, width = self._size
        plane = self._source._plane(Plane(mapped.data[0], (width, height), 4))
        return SinkPicture(plane, partial(self._push, buffer, mapped))

    def _push(
        self, buffer: ctypes._Pointer[gst_names.GstBuffer], mapped: MapInfo, after: Submitted
    ) -> None:
        gst = self._gst
        after.wait()
        self._require_open()
        gst.gst_memory_unmap(mapped.memory, byref(mapped))
        buffer.contents.pts = round(self._count * gst_names.SECOND / self._rate)
        self._count += 1
        buffer.contents.duration = round(gst_names.SECOND / self._rate)
        if gst.gst_app_src_push_buffer(self._end, buffer) != gst_names.OK:
            self._raise_error(gst_names.SECOND)
            raise OSError(f"{self._title} does not accept more frames")

    def finish(self) -> None:
        """Wait until the pipeline has processed all pictures, such as until a file is complete.

        Raises:
            OSError: The pipeline failed, or does not end within 10 seconds.
            ValueError: The sink is closed.
        """
        self._require_open()
        self._gst.gst_app_src_end_of_stream(self._end)
        deadline = time.monotonic() + FRAME_TIMEOUT_S
        while not self._raise_error(_TICK, gst_names.END):
            if time.monotonic() > deadline:
                raise OSError(f"{self._title} does not end in {FRAME_TIMEOUT_S:g} seconds")


@dataclass(frozen=True)
class SinkPicture:
    """A picture of a `GStreamerSink`, to be written once and pushed.

    Attributes:
        texture: RGBA, for `GpuDelegate.bind_texture_to_tensor`.
        push: Call it with the run that writes the texture; it waits for the run. It raises OSError
            if the pipeline failed.
    """

    texture: Plane
    push: Callable[[Submitted], None]


class _Loan:
    def __init__(self, sample: int) -> None:
        self.sample = sample
        self.mapped: list[MapInfo] = []
        self.ready: Fence | None = None
        self.after: Submitted | None = None
