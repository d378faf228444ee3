"""The examples of examples/app.py: on pictures, videos and cameras, headless and in a window."""

import signal
import subprocess
import sys
import time
import wave
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from gles_apps.vision import palette
from tests.conftest import Require
from tests.support.example import (
    EXAMPLES,
    half_blue,
    orange_disc,
    pixels,
    read_video,
    run,
    write_video,
)
from tests.support.live import COLORS, color_model
from tests.support.windows import keyboard, screenshot, started

MASKED = 0.55 * np.array((255, 140, 25)) + 0.45 * np.array(palette(2)[1])
"""The disc under a mask."""
BALL = EXAMPLES / "models" / "ball_segmenter.tflite"
FAKE_CAMERA = "lavfi:color=c=0xff8c19:size=64x48:rate=10"

Model = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _packages(require: Require) -> None:
    for name in ("av", "glfw"):
        if find_spec(name) is None:
            require("windows", f"{name} is not installed (the extra 'apps')")


@pytest.fixture
def model(tmp_path: Path, real_model: Callable[[str], bytes]) -> Model:
    """A published model's file, by its name."""

    def write(name: str) -> Path:
        path = tmp_path / f"{name}.tflite"
        path.write_bytes(real_model(name))
        return path

    return write


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    return half_blue(tmp_path / "halves.png")


def shown(name: str, *arguments: object, picture: Path, output: Path) -> NDArray[np.uint8]:
    """The picture that an example makes of one."""
    run(name, *arguments, "--picture", picture, "--headless", "--output", output)
    return pixels(output)


def changes(after: NDArray[np.uint8], before: Path) -> NDArray[np.int_]:
    """The largest change of each pixel's colors."""
    return np.abs(after.astype(int) - pixels(before)).max(-1)


@pytest.mark.parametrize("extra", [[], ["--timings"]])
@pytest.mark.parametrize("as_numbers", [False, True])
def test_segment(tmp_path: Path, halves: Path, as_numbers: bool, extra: list[str]) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(COLORS))
    path = color_model(tmp_path / "colors.tflite", as_numbers=as_numbers)
    result = shown(
        "segment.py", path, "--labels", labels, *extra, picture=halves, output=tmp_path / "o.png"
    )
    changed = changes(result, halves) > 0
    assert changed[25:, :25].any()  # the legend is in the lower left corner
    if not extra:
        assert changed[:20, :25].all()
        assert not changed[:20, 42:].any()


@pytest.mark.parametrize(("name", "share"), [("pets.jpg", 0.14), ("dog_segmentation.bmp", 0.55)])
def test_segment_finds_the_dogs(
    name: str, share: float, tmp_path: Path, model: Model, real_picture: Callable[[str], Path]
) -> None:
    source = real_picture(name)
    deeplab = model("deeplabv3_257_mv_gpu")
    output = tmp_path / "o.png"
    result = shown("segment.py", deeplab, "--mean", 127.5, picture=source, output=output)
    assert (changes(result, source) > 8).mean() == pytest.approx(share, abs=0.07)


def check_disc(picture: NDArray[np.uint8]) -> None:
    """The mask, in a color as nothing else, lies on the disc and nowhere else."""
    rows, columns = np.indices(picture.shape[:2]) + 0.5
    distance = np.hypot(columns - 100, rows - 70)
    masked = np.abs(picture - MASKED).max(-1) < 40
    assert masked[distance < 0.8 * 27].all()
    assert not masked[(distance > 1.2 * 27) & (rows < 140)].any()


@pytest.mark.mesa
def test_video(tmp_path: Path) -> None:
    output = tmp_path / "masked.mp4"
    source = write_video(tmp_path / "disc.mp4", orange_disc())
    run("segment.py", BALL, "--video", source, "--headless", "--output", output)
    frames = read_video(output)
    assert len(frames) == 3
    for frame in frames:
        check_disc(frame)


def test_camera(tmp_path: Path) -> None:
    output = tmp_path / "o.mp4"
    options = ("--camera", FAKE_CAMERA, "--frames", 3, "--headless", "--output", output)
    run("segment.py", BALL, *options)
    frames = read_video(output)
    assert [frame.shape for frame in frames] == [(48, 64, 3)] * 3


@pytest.mark.slow
def test_an_interrupt_completes_the_video(tmp_path: Path) -> None:
    output = tmp_path / "o.mp4"
    command = [sys.executable, str(EXAMPLES / "segment.py"), str(BALL), "--headless"]
    command += ["--camera", FAKE_CAMERA + ",realtime", "--output", str(output)]
    with started(command) as app:
        while not output.exists() or not output.stat().st_size:
            time.sleep(0.1)
        time.sleep(1)
        app.send_signal(signal.SIGINT)
        printed, text = app.communicate(timeout=60)
    assert app.returncode == 0, text
    assert "milliseconds: " in printed
    assert read_video(output)


def test_a_background_behind_a_person(
    tmp_path: Path, model: Model, real_picture: Callable[[str], Path]
) -> None:
    source, selfie = real_picture("face.jpg"), model("selfie_segmenter")
    output = tmp_path / "o.png"
    green = ("--background", "#00ff00")
    result = shown("background.py", selfie, *green, picture=source, output=output)
    assert (result[:40, :200] == (0, 255, 0)).all()  # the wall
    assert np.abs(result[200:, 280:400].astype(int) - pixels(source)[200:, 280:400]).max() < 8
    parrot = ("--background", real_picture("parrot.jpg"))
    assert shown("background.py", selfie, *parrot, picture=source, output=output).std() > 40


@pytest.mark.parametrize("as_numbers", [False, True])
def test_a_background_behind_a_class(tmp_path: Path, halves: Path, as_numbers: bool) -> None:
    """The last of three classes, blue, is the person."""
    path = color_model(tmp_path / "colors.tflite", as_numbers=as_numbers)
    options = ("--background", "#00ff00")
    result = shown("background.py", path, *options, picture=halves, output=tmp_path / "o.png")
    assert (result[:, 45:] == (0, 255, 0)).all()
    if not as_numbers:  # the number of a person is another one
        assert (result[:, :20] == (0, 0, 255)).all()


def test_dyed_hair(tmp_path: Path, model: Model, real_picture: Callable[[str], Path]) -> None:
    source, hair = real_picture("face.jpg"), model("hair_segmentation")
    purple = ("--color", "#a020f0")
    result = shown("hair.py", hair, *purple, picture=source, output=tmp_path / "o.png")
    changed = changes(result, source)
    assert (changed[20:40, 270:330] > 10).mean() > 0.6
    assert changed[220:, 280:400].max() < 8  # a shirt


def test_a_painted_picture(
    tmp_path: Path, model: Model, real_picture: Callable[[str], Path]
) -> None:
    source, painting = real_picture("face.jpg"), real_picture("parrot.jpg")
    networks = model("style_predict_quantized_256"), model("style_transfer_f16_384")
    result = shown("style.py", *networks, painting, picture=source, output=tmp_path / "o.png")
    assert np.corrcoef(result.ravel(), pixels(source).ravel())[0, 1] > 0.4
    assert changes(result, source).mean() > 20
    swapped = (*networks[::-1], painting, "--picture", source, "--headless")
    assert "expected a model of one input" in run("style.py", *swapped, status=1)


def test_detect(tmp_path: Path, model: Model, real_picture: Callable[[str], Path]) -> None:
    source, output = real_picture("face.jpg"), tmp_path / "o.png"
    text = run("detect.py", model("face_detection_front"), "--picture", source, "--headless")
    assert text.startswith("4 objects\n")
    result = shown("detect.py", model("face_detection_front"), picture=source, output=output)
    changed = changes(result, source) > 30
    assert changed[60:180, 250:352].mean() > 0.02  # the outline of the face of the man in front
    assert changed[180:].mean() < 0.01
    ssd = model("custom_ssd_mobilenet_v2_fpn_lite_320x320")
    result = shown("detect.py", ssd, "--threshold", 0.3, picture=source, output=output)
    assert 0 < (changes(result, source) > 30).mean() < 0.1
    selfie = model("selfie_segmenter")
    arguments = ("--picture", source, "--headless")
    assert "expected the outputs of a detector" in run("detect.py", selfie, *arguments, status=1)


@pytest.mark.slow
def test_pose(tmp_path: Path, model: Model) -> None:
    import skimage.data

    source = tmp_path / "man.png"
    Image.fromarray(skimage.data.camera()).save(source)
    movenet = model("movenet_single_pose_lightning_ptq")
    output = tmp_path / "o.png"
    changed = changes(shown("pose.py", movenet, picture=source, output=output), source)
    assert (changed[160:380, 20:270] > 30).mean() > 0.01  # the man
    assert changed[:, 300:].max() == 0  # the town behind him
    posenet = model("posenet_mobilenet_v1_100_257_integer_quant")
    shown("pose.py", posenet, "--threshold", 0.1, picture=source, output=tmp_path / "o.png")
    arguments = (model("selfie_segmenter"), "--picture", source, "--headless")
    assert "expected MoveNet's [1, 1, 17, 3]" in run("pose.py", *arguments, status=1)


@pytest.mark.slow
def test_face_mesh(tmp_path: Path, model: Model, real_picture: Callable[[str], Path]) -> None:
    source, output = real_picture("face.jpg"), tmp_path / "o.png"
    detector = model("face_detection_front")
    for landmarks in ("face_landmark", "face_landmark_with_attention"):
        networks = (detector, model(landmarks))
        result = shown("face_mesh.py", *networks, picture=source, output=output)
        changed = changes(result, source) > 30
        assert changed[60:170, 250:350].mean() > 0.05  # the face of the man in front
        assert not changed[:20].any()
    wrong = (*networks[::-1], "--picture", source, "--headless")
    assert "to be a detector of inputs" in run("face_mesh.py", *wrong, status=1)
    hands = (detector, model("hand_landmark_full"), "--picture", source, "--headless")
    assert "expected hand_detector.tflite to be a detector" in run("hands.py", *hands, status=1)
    alone = (detector, "--picture", source, "--headless")
    assert "expected a bundle (.task) or two networks" in run("face_mesh.py", *alone, status=1)


def test_face_mesh_in_a_video(
    tmp_path: Path, model: Model, real_picture: Callable[[str], Path]
) -> None:
    """The faces are followed: the detector has nothing to do after the first frame."""
    source, output = tmp_path / "face.mp4", tmp_path / "o.mp4"
    write_video(source, pixels(real_picture("face.jpg"))[:354, 220:440])
    networks = (model("face_detection_front"), model("face_landmark"))
    options = ("--most", 1, "--video", source, "--headless", "--output", output)
    run("face_mesh.py", *networks, *options)
    for frame in read_video(output):
        changed = np.abs(frame.astype(int) - read_video(source)[0]).max(-1) > 40
        assert changed[60:170, 30:130].mean() > 0.05


@pytest.mark.parametrize(
    ("example", "detector", "landmarks"),
    [
        ("hands.py", "palm_detection_full", "hand_landmark_full"),
        ("pose.py", "pose_detection", "pose_landmark_lite"),
    ],
)
def test_bodies(example: str, detector: str, landmarks: str, tmp_path: Path, model: Model) -> None:
    import skimage.data

    source, output = tmp_path / "man.png", tmp_path / "o.png"
    Image.fromarray(skimage.data.camera()).save(source)
    networks = (model(detector), model(landmarks))
    text = run(example, *networks, "--picture", source, "--headless", "--output", output)
    changed = changes(pixels(output), source) > 30
    assert changed.any() == (example == "pose.py")  # his hands are too small
    assert text.startswith("1 pose\n" if example == "pose.py" else "0 hands\n")
    assert not changed[:, 400:].any()


def test_upscale(tmp_path: Path, real_picture: Callable[[str], Path]) -> None:
    """In one piece and in tiles the same as the picture that was halved."""
    with Image.open(real_picture("parrot.jpg")) as picture:
        truth = picture.convert("RGB").crop((0, 0, 360, 480))
    small, output = tmp_path / "small.png", tmp_path / "o.png"
    truth.resize((180, 240), Image.Resampling.BICUBIC).save(small)
    result = shown("upscale.py", picture=small, output=output).astype(int)
    bicubic = Image.open(small).resize(truth.size, Image.Resampling.BICUBIC)
    errors = [((a - np.asarray(truth).astype(int)) ** 2).mean() for a in (result, bicubic)]
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.slow
def test_large_pictures_are_doubled_in_tiles(tmp_path: Path) -> None:
    import skimage.data

    cat = skimage.data.chelsea()
    large = np.tile(cat, (4, 3, 1))[:1100, :1000]
    Image.fromarray(large).save(tmp_path / "large.png")
    Image.fromarray(large[:300, :451]).save(tmp_path / "small.png")
    in_tiles, whole = (
        shown("upscale.py", picture=tmp_path / f"{name}.png", output=tmp_path / "o.png")
        for name in ("large", "small")
    )
    assert in_tiles.shape == (2200, 2000, 3)
    assert np.abs(in_tiles[:580, :880].astype(int) - whole[:580, :880]).max() <= 1


@pytest.mark.slow
def test_sound(tmp_path: Path, model: Model, halves: Path) -> None:
    """A dial tone, then silence."""
    rate = 22050
    seconds = np.arange(3 * rate) / rate
    tone = np.sin(2 * np.pi * 440 * seconds) + np.sin(2 * np.pi * 350 * seconds)
    samples = np.concatenate([tone * 8000, np.zeros(rate)]).astype("<i2")
    source, output = tmp_path / "tone.wav", tmp_path / "o.png"
    with wave.open(str(source), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    run("sound.py", model("yamnet"), "--sound", source, "--headless", "--output", output)
    spectrogram = pixels(output)[:440].astype(int).sum(2)
    row = round(440 * np.log(7800 / 440) / np.log(7800 / 60))
    assert spectrogram[row - 5 : row + 5, 1100].max() > 450
    assert spectrogram[row, 1230] < 100  # silence
    assert spectrogram[40, 1100] < 100  # high frequencies
    arguments = (model("yamnet"), "--sound", source.with_name("no.wav"), "--headless")
    assert "cannot open the sound" in run("sound.py", *arguments, status=1)
    arguments = (model("yamnet"), "--sound", halves, "--headless")
    assert "expected a stream of sound, found none" in run("sound.py", *arguments, status=1)
    wrong = (model("selfie_segmenter"), "--sound", source, "--headless")
    assert "expected a network with one input, [samples]" in run("sound.py", *wrong, status=1)


DIGITS = EXAMPLES / "models" / "digit_classifier.tflite"


@pytest.mark.parametrize(
    ("network", "options", "message"),
    [
        (DIGITS, (), "expected scores [1, height, width, classes]"),
        (EXAMPLES, (), "found a folder without one: give the path of a file"),
        (Path(__file__), (), "expected a .tflite model"),
        (BALL, ("--picture", BALL), "cannot read the picture"),
        (BALL, ("--picture", "{folder}/no.png"), "cannot read the picture"),
        (BALL, ("--video", BALL), "cannot read the video"),
        (BALL, ("--camera", "/dev/nothing"), "cannot open the camera /dev/nothing"),
        (BALL, ("--camera", "lavfi"), "cannot open the camera lavfi"),
        (BALL, ("--output", "{folder}"), "cannot write"),
        (BALL, ("--output", "{folder}/missing/x.png"), "cannot write the picture"),
        (BALL, ("--output", "{folder}/x.qqq"), "cannot write the video"),
        (BALL, ("--labels", "{folder}/halves.png"), "expected names in UTF-8, one per line"),
        (BALL, ("--labels", "{folder}"), "Is a directory"),
        (BALL, ("--labels", "{folder}/missing.txt"), "No such file"),
    ],
)
def test_what_cannot_be_read_or_written(
    network: Path, options: tuple[str, ...], message: str, tmp_path: Path, halves: Path
) -> None:
    arguments = [str(option).format(folder=tmp_path) for option in options]
    if not {"--picture", "--video", "--camera"} & {*arguments}:
        arguments += ["--picture", str(halves)]
    text = run("segment.py", network, *arguments, "--headless", status=1)
    assert message in text
    assert "[Errno" not in text
    assert len(text.strip().splitlines()) == 1


def test_without_egl(halves: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLES_DELEGATE_EGL", str(tmp_path / "libEGL.so"))
    text = run("segment.py", BALL, "--picture", halves, "--headless", status=1)
    assert "libEGL.so" in text
    assert len(text.strip().splitlines()) == 1


def test_a_closed_pipe_is_no_error(tmp_path: Path, halves: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "segment.py"), str(BALL), "--headless"]
    command += ["--picture", str(halves), "--output", str(tmp_path / "mask.png")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.mesa
@pytest.mark.usefixtures("display")
class TestWindow:
    def test_keys(self, server: str, tmp_path: Path) -> None:
        """T shows the timings, Q quits."""
        Image.fromarray(orange_disc()).resize((640, 360)).save(tmp_path / "disc.png")
        command = [sys.executable, EXAMPLES / "segment.py", BALL, "--picture", "disc.png"]
        output = tmp_path / "last.png"
        command += ["--output", output]
        with started(command, cwd=tmp_path) as app:
            with keyboard(server, "gles_delegate: [1-9][0-9]* frames per second") as press:
                shown = screenshot(server).reshape(-1, 3).astype(int)
                assert (np.abs(shown - (40, 90, 100)).max(1) < 8).sum() > 100_000  # the frame
                press("t")
                press("q", until=app)
            printed, _ = app.communicate(timeout=60)
        assert "milliseconds: " in printed
        frame = pixels(output)
        assert np.abs(frame[:16, :60].astype(int) - (40, 90, 100)).max() > 60  # letters
        assert np.abs(frame[165, 232] - MASKED).max() < 40  # the mask
