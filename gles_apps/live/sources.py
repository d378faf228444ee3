"""Sources of frames: pictures, videos, cameras. PyAV decodes them on the CPU."""

from __future__ import annotations

import glob
import os
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, overload

import av
import numpy as np
from PIL import Image

from gles_apps.live.frames import GpuFrame
from gles_apps.live.gstreamer import GStreamer
from gles_delegate.errors import reason_of
from gles_delegate.image.pictures import converted as converted_picture
from gles_delegate.image.pictures import load as load_picture
from gles_delegate.image.transform import Size
from gles_delegate.model.files import require_regular
from gles_delegate.model.graph import Array
from gles_delegate.support.closing import Closing, on_error

FRAME_TIMEOUT_S = 10.0
"""Seconds that a camera may take to open, and for a frame."""
CLOSE_TIMEOUT_S = 2.0
"""Seconds that a camera may take for its last frame."""


@contextmanager
def _failing_to(action: str, advice: str = "") -> Iterator[None]:
    """Raise errors of FFmpeg and Pillow as OSErrors that name the action."""
    try:
        yield
    except (av.FFmpegError, OSError, ValueError, Image.DecompressionBombError) as error:
        raise OSError(f"cannot {action}: {reason_of(error)}{advice}") from error


class Source(Protocol):
    """A sequence of frames.

    Three more attributes are optional: `is_live` says whether frames arrive in real time, as from a
    camera, or can wait, as in a file; `seconds` is the presentation time of the frame that was read
    last, see `Frame.seconds`; `files` are the paths of the files that it reads.

    Attributes:
        size: Height and width of each frame.
        rate: Frames per second; None for a single picture.
        count: The number of frames, or None.

    Examples:
        >>> def first(source: live.Source) -> tuple[int, ...]:
        ...     return source.read().shape
        >>> first(live.Picture(Path("face.jpg")))
        (200, 320, 4)
    """

    size: Size
    rate: float | None
    count: int | None

    def read(self) -> Array | None:
        """The next frame, uint8 [height, width, 4] in RGBA; None after the last one.

        Raises:
            OSError: The frame cannot be decoded, or the camera is gone.
        """
        ...

    def close(self) -> None: ...


class GpuSource(Protocol):
    """A sequence of frames that are on the GPU; see `Source`.

    Examples:
        >>> source = live.open_source(pipeline="videotestsrc num-buffers=1")  # made by `show`
        >>> options = live.ShowOptions(headless=True)
        >>> app = live.show(lambda app: lambda frame, canvas: None, source, options)
    """

    size: Size
    rate: float | None
    count: int | None

    def read(self) -> GpuFrame | None:
        """The next frame, to be closed by the caller; None after the last one.

        Raises:
            OSError: As `Source.read`.
        """
        ...

    def close(self) -> None: ...


class Picture:
    """A picture file, repeated endlessly.

    Args:
        path: A picture in one of the formats that docs/cli.md lists; it is rotated by its EXIF
            data.

    Raises:
        OSError: The file cannot be read.

    Examples:
        >>> picture = live.Picture(Path("face.jpg"))
        >>> picture.size, picture.rate
        ((200, 320), None)
    """

    rate: float | None = None
    count: int | None = 1

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with _failing_to(f"read the picture {path}"):
            picture = converted_picture(load_picture(path), "RGBA")
        self.files = [Path(path)]
        self._pixels = np.asarray(picture)
        self.size: Size = (picture.height, picture.width)

    def read(self) -> Array:
        return self._pixels

    def close(self) -> None: ...


class Video:
    """The frames of a video file, turned as players show them. A thread decodes the next one in
    advance.

    Args:
        path: Any format that FFmpeg reads.
        repeat: Start again at the end.

    Attributes:
        seconds: Presentation time of the frame that was read last, since the first one's; it
            continues when the video starts again.

    Raises:
        OSError: The file cannot be read, or has no pictures.

    Examples:
        >>> video = live.Video(Path("video.mp4"))
        >>> video.size, video.rate, video.count
        ((200, 320), 24.0, 3)
        >>> video.close()
    """

    is_live = False
    seconds = 0.0

    def __init__(self, path: str | os.PathLike[str], *, repeat: bool = False) -> None:
        self._path = Path(path)
        self.files = [self._path]
        self.size: Size = (0, 0)
        with _failing_to(f"read the video {path}"):
            if self._path.exists():
                require_regular(path)
            else:  # FFmpeg also reads patterns, such as x%03d.png
                folder = self._path.parent
                name = self._path.name
                parts = [glob.escape(part) for part in re.split(r"%\d*d", name)]
                self.files = sorted(folder.glob("*".join(parts).replace("%%", "%")))
            self._container, stream = _open(str(path))
            with on_error(self._container.close):
                self.rate: float | None = float(stream.average_rate or 30)
                self.count: int | None = None if repeat else stream.frames or None
                frames = self._decoded(repeat)
                first = next(frames)
        self.size = (first[0].shape[0], first[0].shape[1])
        self._frames = chain([first], frames)
        self._thread = ThreadPoolExecutor(1, "video")
        self._next = self._thread.submit(next, self._frames, None)

    def _decoded(self, repeat: bool) -> Iterator[tuple[Array, float]]:
        """Frames with their times, which continue when the video starts again."""
        step = 1 / (self.rate or 30)
        seconds = -step
        while True:
            origin: float | None = None
            count = 0
            for frame in self._container.decode(video=0):
                count += 1
                seconds += step
                if frame.time is not None:
                    origin = frame.time - seconds if origin is None else origin
                    seconds = frame.time - origin
                yield _pixels(frame, self.size), seconds
            if not count:
                raise ValueError("expected a video with frames, found none")
            if not repeat:
                return
            # Some formats, such as pictures, do not support seeking.
            self._container.close()
            self._container, _ = _open(str(self._path))

    def read(self) -> Array | None:
        with _failing_to(f"decode the video {self._path}"):
            frame = self._next.result()
        if frame is None:
            return None
        self._next = self._thread.submit(next, self._frames, None)
        pixels, self.seconds = frame
        return pixels

    def close(self) -> None:
        self._thread.shutdown()
        self._container.close()


class Camera:
    """The newest frame of a camera. A thread decodes, and drops frames that are not read in time.

    Args:
        name: A number N for /dev/videoN, the device's path, or "FORMAT:NAME" for another input
            format of FFmpeg's devices, such as "lavfi:testsrc2=size=640x480:rate=30" or
            "x11grab::0".
        size: Height and width to request; the camera chooses another mode if it lacks this.

    Raises:
        OSError: The camera does not exist, or does not answer within 10 seconds.

    Examples:
        >>> camera = live.Camera("lavfi:testsrc2=size=320x240:rate=30")  # 0, or /dev/video0
        >>> camera.read().shape
        (240, 320, 4)
        >>> camera.close()
    """

    count: int | None = None
    is_live = True

    def __init__(self, name: str, size: Size | None = None) -> None:
        self._name = name
        self.size: Size = (0, 0)
        self.rate: float | None = None
        self._newest: Array | None = None
        self._error: Exception | None = None
        self._changed = threading.Condition()
        self._stopped = False
        # Drivers may wait for a device forever, in calls that cannot be interrupted.
        self._thread = threading.Thread(target=self._run, args=(size,), name="camera", daemon=True)
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self.rate or self._error, FRAME_TIMEOUT_S)
            if self.rate:
                return
            self._stopped = True
        error = self._error or TimeoutError(f"no answer in {FRAME_TIMEOUT_S:g} seconds")
        raise OSError(
            f"cannot open the camera {name}: {reason_of(error)}; ls /dev/video* lists cameras"
        ) from self._error

    def _run(self, size: Size | None) -> None:
        """Open the camera and decode; only this thread uses the container."""
        kind = "v4l2"
        file = f"/dev/video{self._name}" if self._name.isdecimal() else self._name
        if not file.startswith("/"):
            kind, _, file = file.partition(":")
        options = {"video_size": f"{size[1]}x{size[0]}"} if size and kind == "v4l2" else {}
        error: Exception = OSError("it has stopped")
        try:
            container, stream = _open(file, format=kind, options=options, timeout=FRAME_TIMEOUT_S)
            with container:
                for frame in container.decode(video=0):
                    pixels = _pixels(frame, self.size)
                    with self._changed:
                        self.size = (pixels.shape[0], pixels.shape[1])
                        self.rate = float(stream.average_rate or 30)
                        self._newest = pixels
                        self._changed.notify()
                        if self._stopped:
                            break
        except Exception as failure:  # raised by `read` on its caller's thread
            error = failure
        with self._changed:
            self._error = error
            self._changed.notify()

    def read(self) -> Array:
        with self._changed:
            self._changed.wait_for(lambda: self._newest is not None or self._error, FRAME_TIMEOUT_S)
            pixels = self._newest
            self._newest = None
            if pixels is None:
                error = self._error or TimeoutError(f"no frame in {FRAME_TIMEOUT_S:g} seconds")
                raise OSError(f"the camera {self._name} delivers no frames: {reason_of(error)}")
            return pixels

    def close(self) -> None:
        """Stop decoding; a thread that waits for the device ends later, or with the process."""
        with self._changed:
            self._stopped = True
        self._thread.join(CLOSE_TIMEOUT_S)


@overload
def open_source(
    picture: str | os.PathLike[str] | None = None,
    video: str | os.PathLike[str] | None = None,
    camera: str | None = None,
    *,
    repeat: bool = False,
) -> Source: ...


@overload
def open_source(*, pipeline: str) -> Callable[[], GpuSource]: ...


def open_source(
    picture: str | os.PathLike[str] | None = None,
    video: str | os.PathLike[str] | None = None,
    camera: str | None = None,
    *,
    pipeline: str | None = None,
    repeat: bool = False,
) -> Source | Callable[[], GpuSource]:
    """The source for the arguments of a command line, for `show`.

    Args:
        picture: See `Picture`.
        video: See `Video`.
        camera: See `Camera`.
        pipeline: See `GStreamer`; `show` calls the result where its context is current.
        repeat: See `Video`.

    Raises:
        ValueError: Not exactly one of the four is set.
        OSError: The source cannot be read.

    Examples:
        >>> live.open_source(picture=Path("face.jpg")).size
        (200, 320)
    """
    if sum(source is not None for source in (picture, video, camera, pipeline)) != 1:
        raise ValueError("expected one of a picture, a video, a camera and a pipeline")
    if pipeline is not None:
        return partial(GStreamer, pipeline, share="current")
    if picture is not None:
        return Picture(picture)
    return Video(video, repeat=repeat) if video is not None else Camera(str(camera))


def _open(file: str, **arguments: Any) -> tuple[Any, Any]:
    """The container and its first video stream; for the arguments, see `av.open`."""
    container = av.open(file, **arguments)
    stream = next(iter(container.streams.video), None)
    if stream is None or stream.codec_context is None or not stream.width:
        container.close()
        raise ValueError("expected a video stream with a known codec, found none")
    stream.thread_type = "AUTO"
    return container, stream


def _pixels(frame: av.VideoFrame, size: Size) -> Array:
    """A frame in RGBA, turned as players show it, in the first one's size; (0, 0): it is first."""
    # Where a step to the right and one down in the stored frame lead: (right, down) of each.
    right, down = np.eye(2)
    matrix: Any = frame.side_data.get("DISPLAYMATRIX")  # PyAV's types want a member of its enum
    if matrix is not None:
        right, down = np.frombuffer(bytes(matrix), np.int32).reshape(3, 3)[:2, :2]
    is_turned = abs(right[1]) > abs(right[0])
    if size[0]:
        shown = size
    else:
        shown = (frame.width, frame.height) if is_turned else (frame.height, frame.width)
    height, width = shown[::-1] if is_turned else shown
    # FFmpeg's conversion from YUV to four channels leaves out the last columns of some widths.
    pixels: Array = frame.reformat(width, height, "rgb24").to_ndarray(format="rgba")
    if is_turned:
        pixels = pixels.swapaxes(0, 1)
        right, down = down, right
    flips = (slice(None, None, -1 if step < 0 else 1) for step in (down[1], right[0]))
    return np.ascontiguousarray(pixels[tuple(flips)])


class Recording(Closing):
    """A file for frames: a video, or a picture of the last frame.

    Args:
        path: The suffix determines the format.
        size: Height and width. Videos drop an odd row or column.
        rate: Frames per second.

    Raises:
        OSError: The file cannot be written, or the suffix is unknown.
    """

    def __init__(self, path: str | os.PathLike[str], size: Size, rate: float) -> None:
        path = self._path = Path(path)
        self._picture: Array | None = None
        self._container = None
        if Image.registered_extensions().get(path.suffix.lower()) in Image.SAVE:
            return
        advice = "; expected the suffix of a picture or of a video in H.264, such as .png or .mp4"
        with _failing_to(f"write the video {path}", advice):
            self._container = av.open(str(path), "w")
            self._stream: Any = self._container.add_stream(
                "h264", Fraction(rate).limit_denominator(1001)
            )
        if min(size) < 2:
            raise OSError(
                f"expected 2x2 pixels or more for the video {path}, found {size[1]}x{size[0]}; "
                "write a picture, such as .png"
            )
        # 4:2:0 has one chroma sample per 2x2 pixels.
        self._stream.height, self._stream.width = (length // 2 * 2 for length in size)
        self._stream.pix_fmt = "yuv420p"

    def write(self, pixels: Array) -> None:
        """Add a frame, uint8 [height, width, 3] in RGB."""
        if self._container is None:
            self._picture = pixels
            return
        height = self._stream.height
        width = self._stream.width
        self._encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels[:height, :width])))

    def _encode(self, frame: av.VideoFrame | None) -> None:
        assert self._container is not None
        with _failing_to(f"write the video {self._path}"):
            self._container.mux(self._stream.encode(frame))
            if frame is None:
                self._container.close()

    def close(self) -> None:
        """Complete the file. A second call does nothing.

        Raises:
            OSError: The file cannot be written.
        """
        picture = self._picture
        self._picture = None
        if self._container is not None:
            self._encode(None)
            self._container = None
        elif picture is not None:
            with _failing_to(f"write the picture {self._path}"):
                Image.fromarray(picture).save(self._path)
