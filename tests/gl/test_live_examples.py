"""The live examples in windows of a virtual X server, and those that need no window."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from tests.conftest import Require
from tests.support.example import EXAMPLES, orange_disc, pixels, run, write_video
from tests.support.windows import keyboard, started

pytestmark = pytest.mark.usefixtures("gl")

TOOLKITS = {"moderngl_window": "moderngl_window", "glfw": "glfw", "qt": "PySide6"}
FRAMES = 7


@pytest.fixture(params=TOOLKITS)
def example(request: pytest.FixtureRequest, require: Require) -> str:
    """The name of a live example."""
    return live(request.param, require)


def live(toolkit: str, require: Require) -> str:
    if find_spec(TOOLKITS[toolkit]) is None:
        require("windows", f"{TOOLKITS[toolkit]} is not installed (examples/requirements.txt)")
    return f"live_{toolkit}.py"


@pytest.fixture
def video(tmp_path: Path, require: Require) -> Path:
    """A disc that stands, an eighth of a second long."""
    if find_spec("av") is None:
        require("windows", "PyAV is not installed (the extra 'apps')")
    return write_video(tmp_path / "disc.mp4", orange_disc())


def check_disc(picture: NDArray[np.uint8], x: float, y: float, radius: float) -> None:
    """The mask, which is blue as nothing else, lies on the disc and nowhere else."""
    rows, columns = np.indices(picture.shape[:2]) + 0.5
    distance = np.hypot(columns - x, rows - y)
    masked = picture[..., 2] > 130
    assert masked[distance < 0.85 * radius].all()
    assert not masked[distance > 1.15 * radius].any()


def check_ball(path: Path) -> None:
    """The mask lies on the synthetic camera's ball in a screenshot of the last frame."""
    height, aspect = 720, 1280 / 720
    # As in examples/overlay.py
    x = aspect * (0.5 + 0.35 * np.sin(0.031 * FRAMES))
    y = 0.5 + 0.28 * np.sin(0.047 * FRAMES + 1)
    radius = 0.15 + 0.03 * np.sin(0.02 * FRAMES)
    picture = pixels(path)
    assert picture.shape == (720, 1280, 3)
    check_disc(picture, x * height, y * height, radius * height)


@pytest.mark.mesa
@pytest.mark.usefixtures("display")
class TestWindow:
    @pytest.mark.parametrize("options", [[], ["--through-numpy"]])
    def test_mask_is_on_the_ball(self, example: str, options: list[str], tmp_path: Path) -> None:
        picture = tmp_path / "screenshot.png"
        run(example, "--frames", FRAMES, "--screenshot", picture, *options)
        check_ball(picture)

    def test_mask_is_on_the_disc_of_a_video(
        self, example: str, video: Path, tmp_path: Path
    ) -> None:
        picture = tmp_path / "screenshot.png"
        # More frames than the video has: it starts again.
        run(example, "--video", video, "--frames", 5, "--screenshot", picture)
        check_disc(pixels(picture), 400, 280, 108)

    def test_a_window_that_never_waits(self, video: Path, tmp_path: Path, require: Require) -> None:
        picture = tmp_path / "screenshot.png"
        options = ("--frames", 60, "--screenshot", picture, "--beside")
        run(live("glfw", require), "--video", video, *options)
        check_disc(pixels(picture), 400, 280, 108)

    def test_glx_cannot_be_shared_with(self, require: Require) -> None:
        text = run(live("moderngl_window", require), "--frames", 3, "--beside", status=1)
        assert "EGL" in text

    @pytest.mark.parametrize("platform", ["xcb_glx", "xcb_egl"])
    def test_qt_s_next_context_gets_a_delegate_of_its_own(
        self, platform: str, tmp_path: Path, require: Require, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        live("qt", require)
        monkeypatch.setenv("QT_XCB_GL_INTEGRATION", platform)
        picture = tmp_path / "screenshot.png"
        assert script("recreated.py", picture) == "2 contexts\n"
        assert (pixels(picture)[..., 2] > 130).sum() > 10_000

    def test_app_s_rendering_is_untouched(self, example: str) -> None:
        printed = script("untouched.py", EXAMPLES / example, "--frames", 3)
        assert printed.splitlines() == ["changed: nothing"] * 3

    def test_q_quits(self, example: str, server: str) -> None:
        with started([sys.executable, EXAMPLES / example]) as app:
            # The title has the frame rate after the first second.
            with keyboard(server, "gles_delegate: [1-9][0-9]* frames per second") as press:
                press("q", until=app)
            assert app.wait(60) == 0

    def test_unreadable_model_ends_in_a_sentence(self, example: str, tmp_path: Path) -> None:
        model = tmp_path / "no.tflite"
        assert "Could not open" in run(example, "--model", model, status=1)


def script(name: str, *arguments: object) -> str:
    """The output of a script of this folder."""
    command = [sys.executable, str(Path(__file__).with_name(name)), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_no_display_ends_in_a_sentence(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert "--through-numpy" in run(example, "--help")
    assert run(example, status=1).startswith("no display")


def test_thread_pool_doubles_each_picture(tmp_path: Path) -> None:
    paths = []
    for i in range(6):
        size, color = (24 + 8 * (i % 2), 16), (40 * i, 128, 250 - 40 * i)
        paths.append(tmp_path / f"{i}.png")
        Image.new("RGB", size, color).save(paths[-1])
    printed = run("thread_pool.py", *paths, "--output", tmp_path / "out").splitlines()
    assert [line.split(" ")[0] for line in printed] == [str(path) for path in paths]
    for path in paths:
        doubled = pixels(tmp_path / "out" / path.name)
        expected = pixels(path).repeat(2, 0).repeat(2, 1)
        assert doubled.shape == expected.shape
        assert np.abs(doubled.astype(int) - expected)[4:-4, 4:-4].max() < 8


@pytest.mark.slow
@pytest.mark.mesa
def test_make_ball_segmenter(tmp_path: Path) -> None:
    model = tmp_path / "ball.tflite"
    printed = run("make_ball_segmenter.py", "--steps", 40, "--output", model)
    assert printed.startswith(f"{model}: {model.stat().st_size} bytes")
    assert float(printed.split()[-1]) > 0.3
