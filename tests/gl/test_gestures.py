"""`GestureRecognizer` beside MediaPipe's rules, with twins of its networks."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gles_apps.tasks as mp
import gles_delegate as gd
from gles_apps.batch.results import FIELDS
from gles_apps.tasks.components.containers import Category
from gles_apps.tasks.components.processors import ClassifierOptions
from gles_apps.tasks.options import ImageProcessingOptions, VisionTaskRunningMode
from gles_apps.tasks.vision.gesture_recognizer import combined
from gles_apps.vision.drawing import Drawing
from tests.support.bundles import aligned_bundle
from tests.support.fake_networks import GestureNetworks, fake_bundle

Recognizer, Options = mp.vision.GestureRecognizer, mp.vision.GestureRecognizerOptions
VIDEO = VisionTaskRunningMode.VIDEO
CPU = mp.BaseOptions.Delegate.CPU


@pytest.fixture(params=[("canned",), ("canned", "custom")], ids="+".join)
def networks(request: pytest.FixtureRequest) -> GestureNetworks:
    return GestureNetworks.drawn(np.random.default_rng(3), *request.param)


@pytest.fixture
def picture() -> mp.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (90, 160, 3), np.uint8)
    return mp.Image(mp.ImageFormat.SRGB, pixels)


def bundle(networks: GestureNetworks, seed: int = 0) -> bytes:
    return networks.bundle(fake_bundle("hand", np.random.default_rng(seed)))


def recognizer(networks: GestureNetworks, delegate: Any = None, **options: Any) -> Any:
    base = mp.BaseOptions(model_asset_buffer=bundle(networks), delegate=delegate)
    return Recognizer.create_from_options(Options(base, **options))


def expected(networks: GestureNetworks, result: Any, hand: int, degrees: int = 0) -> list[Any]:
    """Scores by label, from the points in a result: custom, then canned."""
    points = np.array([(p.x * 160, p.y * 90, p.z * 160) for p in result.hand_landmarks[hand]])
    world = np.array([(p.x, p.y, p.z) for p in result.hand_world_landmarks[hand]])
    features = []
    for each in (points, world):
        relative = each - each[0]
        plane = (relative[:, 0] + 1j * relative[:, 1]) * np.exp(1j * np.radians(degrees))
        relative[:, 0], relative[:, 1] = plane.real, plane.imag
        longest = 160 if each is points else 1
        features.append(relative / (np.ptp(relative[:, :2], axis=0).max() + longest * 1e-5))
    (side,) = result.handedness[hand]
    left = side.score if side.category_name == "Left" else 1 - side.score
    numbers = np.concatenate([features[0].ravel(), [left], features[1].ravel()])
    embedding = np.tanh(networks.embedder @ numbers)
    answers = []
    for kind in sorted(networks.classifiers, reverse=True):
        powers = np.exp(networks.classifiers[kind] @ embedding)
        scores = dict(zip(networks.labels[kind], powers / powers.sum(), strict=True))
        answers.append(scores)
    return answers


def require_right(networks: GestureNetworks, result: Any, degrees: int = 0) -> None:
    assert result.gestures
    for hand, (gesture,) in enumerate(result.gestures):
        answers = expected(networks, result, hand, degrees)
        best = [max(scores, key=scores.__getitem__) for scores in answers]
        wanted = next((i for i, label in enumerate(best) if label != "None"), 0)
        assert (gesture.index, gesture.category_name) == (-1, best[wanted])
        assert gesture.score == pytest.approx(answers[wanted][best[wanted]], abs=1e-4)


@pytest.mark.parametrize("delegate", [None, CPU], ids=["gpu", "cpu"])
def test_gestures_follow_from_the_points(
    networks: GestureNetworks, picture: mp.Image, delegate: Any
) -> None:
    with recognizer(networks, delegate, num_hands=2) as task:
        result = task.recognize(picture)
    require_right(networks, result)
    assert len(result.handedness) == len(result.hand_landmarks) == len(result.gestures)


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_hands_in_turned_pictures(
    networks: GestureNetworks, picture: mp.Image, degrees: int
) -> None:
    with recognizer(networks) as task:
        turned = ImageProcessingOptions(rotation_degrees=degrees)
        require_right(networks, task.recognize(picture, turned), degrees)


def test_a_video_and_a_live_stream(networks: GestureNetworks, picture: mp.Image) -> None:
    with recognizer(networks, running_mode=VIDEO) as task:
        results = [task.recognize_for_video(picture, time) for time in (0, 33, 66)]
        with pytest.raises(ValueError, match=r"increasing\. Found 66 ms after 66 ms"):
            task.recognize_for_video(picture, 66)
    for result in results:
        require_right(networks, result)
    answers: list[Any] = []
    done = threading.Event()

    def note(result: Any, image: mp.Image, timestamp_ms: int) -> None:
        answers.append((result, timestamp_ms))
        done.set()

    mode = VisionTaskRunningMode.LIVE_STREAM
    with recognizer(networks, running_mode=mode, result_callback=note) as task:
        task.recognize_async(picture, 5)
        assert done.wait(60)
    assert answers == [(results[0], 5)]


def test_options_choose_among_the_gestures(picture: mp.Image) -> None:
    networks = GestureNetworks.drawn(np.random.default_rng(3), "canned", "custom")
    none, only = ClassifierOptions(score_threshold=2.0), ClassifierOptions(max_results=1)
    allowed = ClassifierOptions(category_allowlist=["canned two"])

    def gestures(canned: ClassifierOptions, custom: ClassifierOptions) -> Any:
        with recognizer(
            networks,
            canned_gesture_classifier_options=canned,
            custom_gesture_classifier_options=custom,
        ) as task:
            return task.recognize(picture).gestures[0]

    assert gestures(none, none) == []
    (found,) = gestures(allowed, none)
    assert found.category_name == "canned two"
    assert len(gestures(only, only)) == 1


def test_custom_gestures_win() -> None:
    none, fist, wave = (
        Category(i, 0.1 * (i + 5), None, n) for i, n in enumerate(("None", "a", "b"))
    )
    assert combined([[none], [wave, fist]])[0].category_name == "b"
    assert combined([[fist, none], [wave]])[0].category_name == "a"
    assert combined([[none], [none]])[0].category_name == "None"
    assert combined([[], [wave]])[0].category_name == "b"
    assert combined([[], []]) == []


def test_results_draw_themselves_and_have_rows(
    networks: GestureNetworks, picture: mp.Image
) -> None:
    with recognizer(networks) as task:
        result = task.recognize(picture)
    (row,) = result.rows(picture.size)
    assert row["gesture"] == result.gestures[0][0].category_name
    assert row["side"] in ("Left", "Right")
    assert row.keys() - {"box"} <= FIELDS.keys()
    drawing = Drawing(picture.size)
    result.draw(drawing)
    result.gestures[0] = []
    assert result.rows(picture.size)[0]["gesture"] is None


def test_the_bundle_opens_as_any_task(
    networks: GestureNetworks, picture: mp.Image, tmp_path: Path
) -> None:
    path = tmp_path / "gesture_recognizer.task"
    path.write_bytes(bundle(networks))
    with mp.vision.open_task(mp.BaseOptions(path)) as task:
        assert isinstance(task, Recognizer)
        require_right(networks, task.process(picture))


def broken(networks: GestureNetworks) -> Iterator[tuple[bytes, str]]:
    hands = fake_bundle("hand", np.random.default_rng(0))
    inner = {"hand_landmarker.task": hands}
    yield hands, "No file with name: hand_landmarker.task"
    yield aligned_bundle(**inner), "No file with name: hand_gesture_recognizer.task"
    empty = aligned_bundle(**{"gesture_embedder.tflite": b"", "other.tflite": b""})
    yield (
        aligned_bundle(**inner, **{"hand_gesture_recognizer.task": empty}),
        "expected a .tflite model",
    )
    without = aligned_bundle(**{"other.tflite": b""})
    yield (
        aligned_bundle(**inner, **{"hand_gesture_recognizer.task": without}),
        r"No file with name: gesture_embedder.tflite. All files .* are: other.tflite",
    )
    networks.embedder = networks.embedder[:5]
    yield networks.bundle(hands), "canned_gesture_classifier.tflite to have float32 inputs of 5"


def test_bundles_that_lack_something() -> None:
    for content, message in broken(GestureNetworks.drawn(np.random.default_rng(0), "canned")):
        base = mp.BaseOptions(model_asset_buffer=content)
        with pytest.raises(gd.ModelError, match=message):
            Recognizer.create_from_options(Options(base))
