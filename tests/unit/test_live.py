"""Where frames of apps come from and go to, and what an app needs."""

from __future__ import annotations

import os
import struct
import sys
import threading
import wave
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gles_delegate import ContextError
from tests.conftest import Require
from tests.support.example import write_video


@pytest.fixture(autouse=True)
def _packages(require: Require) -> None:
    for name in ("av", "rich"):
        if find_spec(name) is None:
            require("windows", f"{name} is not installed (the extra 'apps')")


def silence(path: Path) -> None:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(bytes(3200))


def header(path: Path) -> None:
    import av

    with av.open(path, "w", format="avi") as container:
        stream = container.add_stream("mpeg4", 10)
        stream.height, stream.width = 48, 64
        container.start_encoding()


def unknown(path: Path) -> None:
    """A video whose codec is called what nobody calls one."""
    content = write_video(path.with_suffix(".mkv"), np.zeros((48, 64, 3), np.uint8)).read_bytes()
    assert b"V_MPEG4/ISO/AVC" in content
    path.write_bytes(content.replace(b"V_MPEG4/ISO/AVC", b"V_NOSUCH/ISO/AV"))


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (silence, "expected a video stream with a known codec, found none"),
        (unknown, "expected a video stream with a known codec, found none"),
        (header, "expected a video with"),
    ],
)
@pytest.mark.parametrize("repeat", [False, True])
def test_videos_without_frames(
    write: Callable[[Path], None], message: str, repeat: bool, tmp_path: Path
) -> None:
    from gles_apps.live import Video

    path = tmp_path / "video"
    write(path)
    with pytest.raises(OSError, match=message) as caught:
        Video(path, repeat=repeat).read()
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.gif", "a.avi"])
def test_what_repeats_starts_again(name: str, tmp_path: Path) -> None:
    """A picture that is given as a video too, which cannot be sought in."""
    from gles_apps.live import Video

    path, red = tmp_path / name, np.full((48, 64, 3), (250, 0, 0), np.uint8)
    if name == "a.avi":
        write_video(path, red)
    else:
        Image.fromarray(red).save(path)
    video = Video(path, repeat=True)
    for _ in range(9):
        pixels = video.read()
        assert pixels is not None
        assert np.abs(pixels[..., :3].astype(int) - red).max() < 16
    video.close()


FORMATS = {  # columns of a chroma sample, and by how much samples are above 8 bits
    "yuv420p": (2, 0),
    "yuv422p": (2, 0),
    "yuv444p": (1, 0),
    "yuva420p": (2, 0),
    "yuv420p10le": (2, 2),
    "nv12": (2, 0),
    "gray": (0, 0),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_frames_of_any_width_are_as_in_numpy(kind: str) -> None:
    """Columns of different brightness in one color, to the last one."""
    import av

    from gles_apps.live.sources import _pixels

    across, shift = FORMATS[kind]
    u, v = (150, 90) if across else (128, 128)
    for width in (*range(2, 70), 404, 500, 610, 852, 1366):
        frame = av.VideoFrame(width, 6, kind)
        luma = np.linspace(80, 180, width).astype(np.uint16)
        count = -(-width // max(across, 1))
        rows = [luma, np.full(count, u, np.uint16), np.full(count, v, np.uint16)]
        if kind == "nv12":
            rows[1:] = [np.tile(np.array((u, v), np.uint16), count)]
        for plane, row in zip(frame.planes, [*rows, np.full(width, 99)], strict=False):
            lines = np.zeros((plane.height, plane.line_size), np.uint8)
            content = (row << shift).astype(np.uint16 if shift else np.uint8).view(np.uint8)
            lines[:, : content.size] = content
            plane.update(lines.tobytes())
        y = luma.astype(int) if kind == "gray" else 1.164 * (luma.astype(int) - 16)
        blue, red = u - 128, v - 128
        columns = (y + 1.596 * red, y - 0.392 * blue - 0.813 * red, y + 2.017 * blue)
        pixels = _pixels(frame, (6, width))
        assert pixels.flags.c_contiguous
        assert (pixels[..., 3] == 255).all()
        assert np.abs(pixels[..., :3] - np.stack(columns, -1)).max() < 4, width


TURNS = [(1, 0, 0, 1), (0, 1, -1, 0), (-1, 0, 0, -1), (0, -1, 1, 0)]
"""The first two rows of display matrices: turned by 0, 90, 180 and 270 degrees."""
FLIPS = [(-1, 0, 0, 1), (1, 0, 0, -1), (0, 1, 1, 0), (0, -1, -1, 0)]


@pytest.mark.parametrize("matrix", [*TURNS, *FLIPS])
@pytest.mark.parametrize("odd", [0, 1])
def test_videos_are_shown_upright(matrix: tuple[int, ...], odd: int, tmp_path: Path) -> None:
    from gles_apps.live import Camera, Video

    height, width = 48, 64 + 2 * odd
    colors = np.zeros((height, width, 3), np.uint8)
    colors[:24, : width // 2], colors[24:, : width // 2], colors[24:, width // 2 :] = 60, 120, 180
    right, down, *_ = np.array(matrix).reshape(2, 2) << 16
    content = bytearray(write_video(tmp_path / "v.mp4", colors).read_bytes())
    at = content.index(b"tkhd") + 44  # of the matrix
    content[at : at + 36] = struct.pack(">9i", *right, 0, *down, 0, 0, 0, 1 << 30)
    (tmp_path / "v.mp4").write_bytes(content)
    # Where the quarters' centers come to lie, seen from the picture's center.
    quarters = {(-1, -1): 60, (-1, 1): 120, (1, 1): 180, (1, -1): 0}
    shown = {tuple(np.sign(y * down + x * right)[::-1]): c for (x, y), c in quarters.items()}
    size = (width, height) if matrix[1] else (height, width)
    for source in (Video(str(tmp_path / "v.mp4")), Camera(f"mov:{tmp_path / 'v.mp4'}")):
        assert source.size == size
        pixels = source.read()
        assert pixels is not None
        assert pixels.shape == (*size, 4)
        assert pixels.flags.c_contiguous
        rows, columns = size[0] // 4, size[1] // 4
        seen = pixels[rows :: 2 * rows, columns :: 2 * columns, 1][:2, :2].ravel().tolist()
        assert np.abs(np.array(seen) - [shown[key] for key in sorted(shown)]).max() < 6
        source.close()


def test_pictures_in_sequence(tmp_path: Path) -> None:
    from gles_apps.live import Video

    for number in range(3):
        Image.new("RGB", (20, 8), (0, 0, 90 * number)).save(tmp_path / f"x{number:03}.png")
    video = Video(tmp_path / "x%03d.png")
    read = [
        (int(pixels[0, 0, 2]), video.seconds)
        for _ in range(3)
        if (pixels := video.read()) is not None
    ]
    video.close()
    assert read == [(90 * number, pytest.approx(number / 25)) for number in range(3)]


@pytest.fixture
def mute(tmp_path: Path) -> Iterator[Path]:
    """A device that never answers: a pipe that nobody writes to, until the test ends."""
    path = tmp_path / "mute"
    os.mkfifo(path)
    yield path
    with suppress(OSError):  # nobody reads it
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def test_a_camera_that_never_answers(mute: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gles_apps.live import Camera

    monkeypatch.setattr("gles_apps.live.sources.FRAME_TIMEOUT_S", 0.3)
    with pytest.raises(
        OSError, match=r"cannot open the camera mjpeg:.*: no answer in 0\.3 seconds"
    ):
        Camera(f"mjpeg:{mute}")


def test_a_camera_that_answers_no_more(
    mute: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its frames are read, then an error says that there are none; it closes nevertheless."""
    from gles_apps.live import Camera

    monkeypatch.setattr("gles_apps.live.sources.FRAME_TIMEOUT_S", 3.0)
    monkeypatch.setattr("gles_apps.live.sources.CLOSE_TIMEOUT_S", 0.1)
    Image.new("RGB", (64, 48), "red").save(tmp_path / "a.jpg")

    def feed() -> None:
        with mute.open("wb") as pipe:
            pipe.write((tmp_path / "a.jpg").read_bytes() * 200)
            pipe.flush()
            done.wait(60)

    done = threading.Event()
    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        camera = Camera(f"mjpeg:{mute}")
        assert camera.size == (48, 64)
        with pytest.raises(OSError, match="no frame in 3 seconds"):
            [camera.read() for _ in range(300)]
        camera.close()
    finally:
        done.set()
        feeder.join()


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("x.mp4", (1, 7), "expected 2x2 pixels or more for the video .*, found 7x1"),
        ("x.webm", (8, 8), "cannot write the video .* such as .png or .mp4"),
        ("missing/x.mp4", (8, 8), "cannot write the video .*x.mp4"),
    ],
)
def test_what_cannot_be_recorded(
    name: str, size: tuple[int, int], message: str, tmp_path: Path
) -> None:
    from gles_apps.live.sources import Recording

    with pytest.raises(OSError, match=message), Recording(tmp_path / name, size, 30) as recording:
        recording.write(np.zeros((*size, 3), np.uint8))


def nothing(frame: object, canvas: object) -> None:
    """See nothing."""


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Image.new("RGB", (6, 4)).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


def test_without_glfw(picture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gles_apps.live import Picture, ShowOptions, show

    monkeypatch.setitem(sys.modules, "glfw", None)
    monkeypatch.delitem(sys.modules, "gles_apps.live.glfw_window", raising=False)
    with pytest.raises(ContextError, match=r"pip install glfw, or .*--headless"):
        show(lambda app: nothing, Picture(picture), ShowOptions())


def test_without_moderngl(
    picture: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from gles_apps.live import Picture, ShowOptions, show

    monkeypatch.setitem(sys.modules, "moderngl", None)
    output = picture.with_name("output.png")
    show(lambda app: nothing, Picture(picture), ShowOptions(headless=True, output=output))
    assert caplog.text == ""
    assert output.exists()


def test_a_canvas_draws_in_order() -> None:
    """The frame, layers, its drawing, and at the end the one above."""
    from gles_apps.live import Canvas, Layer
    from gles_apps.vision import Drawing

    class Noted:
        def __init__(self) -> None:
            self.calls: list[object] = []

        def begin(self, texture: object) -> None:
            self.calls.append(texture)

        layer = draw = begin

    frame, later = (SimpleNamespace(texture=name, size=(4, 6)) for name in ("frame", "later"))
    layer, above = Layer(np.zeros((4, 6, 4), np.uint8)), Drawing((4, 6))
    for arguments, begun, ended in (((), "frame", []), ((later, above), "later", [above])):
        painter: Any = Noted()
        canvas = Canvas(frame, painter, (4, 6))  # type: ignore[arg-type]
        canvas.layer(layer)
        canvas.finish(*arguments)
        expected = [begun, layer, canvas.drawing, *ended]
        assert all(a is b for a, b in zip(painter.calls, expected, strict=True))
