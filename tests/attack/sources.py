"""Videos, pictures and cameras that are damaged, cut off, of another kind, or never answer.

Each is read to its end, or closed in the middle. It gives frames of one size, or raises OSError, in
one sentence that names the file; and leaves neither threads nor open files behind.
"""

from __future__ import annotations

import gc
import math
import os
import threading
import time
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from PIL import Image

import gles_apps.tasks as mp
from tests.attack.workers import Outcome

if TYPE_CHECKING:  # the other attacks need no PyAV
    from gles_apps.live import Source

KINDS = (".mp4", ".avi", ".mkv", ".png", ".jpg", ".gif", ".webp", ".tiff")
SIZE = (48, 68)
"""FFmpeg's conversions treat the last four columns apart."""
FRAMES = 12
MOST = 60
"""Frames that are read of a video that repeats."""


@cache
def intact(kind: str) -> bytes:
    """A video or a picture of this ending."""
    import av

    rng = np.random.default_rng(0)
    with TemporaryDirectory() as folder:
        path = Path(folder, f"x{kind}")
        frames = rng.integers(0, 256, (FRAMES, *SIZE, 3), np.uint8)
        if kind not in KINDS[:3]:
            exif = Image.Exif()
            exif[0x0112] = 6
            Image.fromarray(frames[0]).save(path, exif=exif)
            return path.read_bytes()
        with av.open(path, "w") as container:
            stream = container.add_stream("mpeg4", 10)
            stream.height, stream.width = SIZE
            for frame in frames:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(frame)))
            container.mux(stream.encode())
        return path.read_bytes()


def damaged(rng: Generator, kind: str) -> bytes:
    """Bytes of a file of this kind: with other bytes, cut off, zero, or of another one."""
    content = bytearray(intact(kind))
    match rng.integers(7):
        case 0:
            for at in rng.integers(0, len(content), int(rng.choice([1, 4, 40, 400]))):
                content[at] = rng.integers(256)
        case 1:
            del content[int(rng.integers(len(content))) :]
        case 2:
            at, size = rng.integers(0, len(content), 2)
            content[at : at + size] = bytes(size)
        case 3:
            at, to = sorted(rng.integers(0, len(content), 2))
            del content[at:to]
        case 4:
            content = bytearray(intact(KINDS[rng.integers(len(KINDS))]))
        case 5:
            content = bytearray(rng.choice([b"", b"\0" * 999, b"text\n" * 99, b"RIFF", b"GIF89a"]))
    return bytes(content)


def opened(rng: Generator, path: Path) -> Source:
    """A source of the file: a picture, a video, or a camera of one of FFmpeg's formats."""
    from gles_apps.live import open_source

    way = rng.integers(4)
    if way == 0:
        return open_source(picture=path)
    if way < 3:
        return open_source(video=path, repeat=bool(rng.integers(2)))
    formats = {".mp4": "mov", ".avi": "avi", ".mkv": "matroska", ".gif": "gif", ".jpg": "mjpeg"}
    return open_source(camera=f"{formats.get(path.suffix, 'image2')}:{path}")


def attack_pipeline(rng: Generator, folder: Path) -> None:
    """A file in a GStreamer pipeline, whose frames are closed one by one or after their source."""
    from gles_apps.live import GStreamer

    path = folder / f"x{KINDS[rng.integers(len(KINDS))]}"
    path.write_bytes(damaged(rng, path.suffix) if rng.integers(4) else intact(path.suffix))
    try:
        source = GStreamer(f"filesrc location={path} ! decodebin", planes=bool(rng.integers(2)))
        kept = []
        try:
            for _ in range(int(rng.choice([0, 1, 3, MOST]))):
                frame = source.read()
                if frame is None:
                    break
                if not rng.integers(3):
                    assert frame.pixels.shape == (*frame.size, 4)
                kept.append(frame)
                if len(kept) == 2:
                    for each in kept:
                        each.close()
                    kept.clear()
        finally:
            source.close()
            for frame in kept:
                frame.close()
            source.close()
    except OSError as error:
        text = str(error)
        assert str(path) in text, text
        assert len(text.splitlines()) == 1, text


def read(source: Source, most: int) -> None:
    """At most `most` frames, each of the source's size."""
    height, width = source.size
    for _ in range(most):
        pixels = source.read()
        if pixels is None:
            break
        assert pixels.shape == (height, width, 4), (pixels.shape, source.size)
        assert pixels.dtype == np.uint8
        is_video = source.rate is not None
        assert not is_video or (pixels[..., 3] == 255).all(), "columns are left out"
        assert math.isfinite(getattr(source, "seconds", 0.0))


def attack_file(rng: Generator, folder: Path) -> None:
    """A file, damaged or not; or a folder, or none."""
    path = folder / f"x{KINDS[rng.integers(len(KINDS))]}"
    fate = rng.integers(12)
    if fate == 0:
        path.mkdir()
    elif fate > 1:
        path.write_bytes(damaged(rng, path.suffix))
    with suppress(FileNotFoundError if fate == 1 else RuntimeError):
        mp.Image.create_from_file(path)
    try:
        source = opened(rng, path)
        try:
            read(source, int(rng.choice([0, 1, 3, MOST])))
        finally:
            source.close()
            source.close()
    except OSError as error:
        text = str(error)
        assert str(path) in text, text
        assert "[Errno" not in text, text
        assert len(text.splitlines()) == 1, text


def attack_silence(rng: Generator, folder: Path) -> None:
    """A camera that never answers, or stops in the middle of a frame."""
    from gles_apps.live import Camera

    path, frames = folder / "mute", int(rng.choice([0, 0, 1, 40]))
    os.mkfifo(path)
    end = threading.Event()

    def feed() -> None:
        picture = intact(".jpg")
        with suppress(BrokenPipeError), path.open("wb") as pipe:
            pipe.write(picture * frames + picture[: int(rng.integers(len(picture)))])
            pipe.flush()
            end.wait(30)

    feeder = threading.Thread(target=feed)
    if frames:
        feeder.start()
    start, text = time.monotonic(), ""
    try:
        camera = Camera(f"mjpeg:{path}")
        try:
            read(camera, MOST)
        finally:
            camera.close()
    except OSError as error:
        text = str(error)
    finally:
        end.set()
        if frames:
            feeder.join()
        else:
            with suppress(OSError):  # nobody reads it
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    assert str(path) in text, text
    assert time.monotonic() - start < 15


@cache
def has_gstreamer() -> bool:
    from gles_apps.live import GStreamer

    try:
        with GStreamer("videotestsrc num-buffers=1"):
            return True
    except OSError:
        return False


def left_behind(before: tuple[int, int]) -> str:
    """Resources that stay open after all threads had time to end."""
    for _ in range(50):
        gc.collect()
        after = open_things()
        if all(a <= b for a, b in zip(after, before, strict=True)):
            return ""
        time.sleep(0.1)
    return f"threads and files: {after}, were {before}"


def open_things() -> tuple[int, int]:
    cameras = [thread for thread in threading.enumerate() if thread.name == "camera"]
    return len(cameras), len(os.listdir("/proc/self/fd"))


def run_source(_: bytes, seed: int) -> Outcome:
    """A file, or each eighth time a camera that stops, or a pipeline."""
    from gles_apps.live import gstreamer, sources

    rng = np.random.default_rng(seed)
    attack: Any = attack_file if seed % 8 else attack_silence
    if seed % 8 == 1 and has_gstreamer():
        attack = attack_pipeline
    patience = sources.FRAME_TIMEOUT_S, sources.CLOSE_TIMEOUT_S
    sources.FRAME_TIMEOUT_S, sources.CLOSE_TIMEOUT_S = 1.0, 0.5
    gstreamer.FRAME_TIMEOUT_S = 1.0
    before = open_things()
    try:
        with TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("error")
            attack(rng, Path(folder))
    except Exception as error:
        return Outcome("finding", text=f"{attack.__name__}: {error!r:.500}")
    finally:
        sources.FRAME_TIMEOUT_S, sources.CLOSE_TIMEOUT_S = patience
        gstreamer.FRAME_TIMEOUT_S = sources.FRAME_TIMEOUT_S
    wrong = left_behind(before)
    return Outcome("finding", text=f"{attack.__name__}: {wrong}") if wrong else Outcome("result")
