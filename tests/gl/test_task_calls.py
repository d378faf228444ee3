"""Tasks: wrong calls as MediaPipe answers them, running modes, live streams, textures, threads."""

import copy
import gc
import logging
import pickle
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import moderngl
import numpy as np
import pytest

import gles_apps
import gles_apps.tasks as mp
import gles_delegate as gd
from gles_apps.tasks import audio, vision
from gles_apps.tasks.components import containers
from gles_apps.tasks.runner import _runners
from tests.conftest import Require
from tests.support.example import EXAMPLES
from tests.support.fake_networks import fake_bundle, linear_network
from tests.support.mediapipe import FOLDER, Oracle, image
from tests.support.process import run_python
from tests.support.small import means
from tests.support.sounds import RATE, SAMPLES, sound_classifier
from tests.support.waiting import wait_until

MODES = vision.RunningMode
BALL = EXAMPLES / "models" / "ball_segmenter.tflite"
RNG = np.random.default_rng(0)
FRAME = RNG.integers(0, 256, (180, 320, 3), np.uint8)


@pytest.fixture(scope="module")
def oracle(require: Require) -> Oracle:
    if not FOLDER.is_dir():
        require("models", f"{FOLDER} is missing; GLES_DELEGATE_MEDIAPIPE names another folder")
    return Oracle()


@pytest.fixture(autouse=True)
def no_place_left() -> Iterator[None]:
    yield
    gc.collect()
    assert not _runners


def options(**named: Any) -> vision.ImageSegmenterOptions:
    base = mp.BaseOptions(BALL, context=named.pop("context", None))
    return vision.ImageSegmenterOptions(base, **named)


def mask_of(result: vision.ImageSegmenterResult) -> Any:
    (mask,) = result.confidence_masks or ()
    return mask.numpy_view()


@pytest.fixture(scope="module")
def expected() -> Any:
    with vision.ImageSegmenter(options()) as segmenter:
        return mask_of(segmenter.segment(image(FRAME)))


def outcome(call: Any) -> tuple[Any, str]:
    try:
        return None, str(call())
    except Exception as error:  # the test compares it
        return error, str(error)


def used(task: Any, use: Any = lambda task: task) -> Any:
    with task:
        return use(task)


def wrong_calls(oracle: Oracle) -> dict[str, Any]:
    """Calls whose answers of MediaPipe's are recorded, and those of `CALLS`."""
    picture = image(oracle.pixels("face.jpg"))
    pixels = picture.numpy_view()
    rgba = np.dstack([pixels, np.full(pixels.shape[:2], 255, np.uint8)])
    detector = oracle.model("face_detector.tflite")

    def face(**named: Any) -> vision.FaceDetector:
        options = vision.FaceDetectorOptions(mp.BaseOptions(detector), **named)
        return vision.FaceDetector.create_from_options(options)

    def of_nonsense() -> Any:
        base = mp.BaseOptions(oracle.model("tf2_mobilenet_v2_1.0_224_ptq.tflite"))
        options = vision.ImageClassifierOptions(base, category_allowlist=["nonsense"])
        with vision.ImageClassifier.create_from_options(options) as task:
            return task.classify(picture).classifications[0].categories

    def twice(first: int, second: int) -> Any:
        with face(running_mode=MODES.VIDEO) as task:
            task.detect_for_video(picture, first)
            return task.detect_for_video(picture, second)

    def closed(then: Any) -> Any:
        task = face()
        task.close()
        return then(task)

    from_path = vision.FaceLandmarker.create_from_model_path
    return {
        **{name: call for name, (call, _, _) in CALLS.items()},
        "no_such_file": lambda: vision.FaceDetector.create_from_model_path("/nowhere.tflite"),
        "bytes_not_a_model": lambda: vision.FaceDetector(
            vision.FaceDetectorOptions(mp.BaseOptions(model_asset_buffer=b"abcdefgh" * 40))
        ),
        "image_call_in_video_mode": lambda: used(
            face(running_mode=MODES.VIDEO), lambda t: t.detect(picture)
        ),
        "async_call_in_image_mode": lambda: used(face(), lambda t: t.detect_async(picture, 0)),
        "timestamp_repeats": lambda: twice(5, 5),
        "timestamp_decreases": lambda: twice(5, 4),
        "after_close": lambda: closed(lambda task: task.detect(picture)),
        "close_twice": lambda: closed(lambda task: task.close()),
        "min_detection_confidence_2.0": lambda: used(face(min_detection_confidence=2.0)),
        "min_suppression_threshold_-1.0": lambda: used(face(min_suppression_threshold=-1.0)),
        "allow_unknown": of_nonsense,
        "bundle_is_tflite": lambda: from_path(detector),
        "wrong_bundle": lambda: from_path(oracle.model("hand_landmarker.task")),
        "srgba_image": lambda: used(
            face(), lambda task: len(task.detect(mp.Image(mp.ImageFormat.SRGBA, rgba)).detections)
        ),
        "noncontiguous_data": lambda: image(rgba[:, ::-1, :3]).numpy_view().shape,
        "write_numpy_view": lambda: picture.numpy_view().__setitem__((0, 0, 0), 1),
        "numpy_array_as_image": lambda: used(face(), lambda task: task.detect(rgba)),
    }


TEXTS_OF_GRAPHS = {"num_hands_0", "gray_image", "numpy_array_as_image"}
"""Wrong calls whose recorded text names MediaPipe's internals; the exception's type is the same."""
SCORES = {"allow_unknown", "min_detection_confidence_2.0", "min_suppression_threshold_-1.0"}
"""Calls that return, whose text has an address or the scores of 8-bit kernels."""


def test_wrong_calls_end_as_in_mediapipe(oracle: Oracle) -> None:
    """Or with more text; but a closed task raises, where MediaPipe returns an empty result."""
    recorded, calls = oracle.results("errors")["errors"], wrong_calls(oracle)
    assert recorded.keys() <= calls.keys()
    for name, (kind, text) in recorded.items():
        error, mine = outcome(calls[name])
        if name == "after_close":
            assert isinstance(error, ValueError)
        elif kind == "returned":
            assert error is None, name
            assert mine == text or name in SCORES, name
        else:
            assert kind in [each.__name__ for each in type(error).__mro__], (name, error)
            assert text in mine or name in TEXTS_OF_GRAPHS, name


def classes(**named: Any) -> vision.ImageClassifier:
    model = named.pop("model", None) or linear_network(np.float32(np.eye(3)))
    base = mp.BaseOptions(model_asset_buffer=model)
    return vision.ImageClassifier(vision.ImageClassifierOptions(base, **named))


def hands(**named: Any) -> vision.HandLandmarker:
    base = mp.BaseOptions(model_asset_buffer=fake_bundle("hand", np.random.default_rng(0)))
    return vision.HandLandmarker(vision.HandLandmarkerOptions(base, **named))


def sounds(**named: Any) -> audio.AudioClassifier:
    base = mp.BaseOptions(model_asset_buffer=named.pop("model", None) or sound_classifier())
    return audio.AudioClassifier(audio.AudioClassifierOptions(base, **named))


GRAY = mp.Image(mp.ImageFormat.GRAY8, FRAME[..., 0])
TURNED = vision.ImageProcessingOptions(rotation_degrees=45)
PART = vision.ImageProcessingOptions(containers.RectF(0, 0, 0.5, 0.5))
CALLS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no BaseOptions": (
        lambda: vision.ImageSegmenter(vision.ImageSegmenterOptions(BALL)),  # type: ignore[arg-type]
        TypeError, "expected BaseOptions, found PosixPath",
    ),
    "no_asset": (
        lambda: vision.ImageSegmenter(vision.ImageSegmenterOptions(mp.BaseOptions())),
        ValueError, "ExternalFile must specify at least one of 'file_content'",
    ),
    "live_without_callback": (
        lambda: classes(running_mode=MODES.LIVE_STREAM),
        ValueError, "is in live stream mode, a user-defined result callback must be provided",
    ),
    "image_with_callback": (
        lambda: classes(result_callback=print),
        ValueError, "is in image or video mode, a user-defined result callback should not be",
    ),
    "sounds without a callback": (
        lambda: sounds(running_mode=audio.RunningMode.AUDIO_STREAM),
        ValueError, "is in audio stream mode, a user-defined result callback must be provided",
    ),
    "sounds with a callback": (
        lambda: sounds(result_callback=print),
        ValueError, "is in audio clips mode, a user-defined result callback should not be",
    ),
    "sounds of pictures": (
        lambda: sounds(model=linear_network(np.float32(np.eye(3)))),
        gd.ModelError, r"rate, found float32 \[1, 8, 8, 3\] at 0 Hz",
    ),
    "no sound": (
        lambda: used(sounds(), lambda task: task.classify(np.zeros(4))),
        TypeError, "expected AudioData, found ndarray",
    ),
    "a sound without its rate": (
        lambda: used(sounds(), lambda task: task.classify(containers.AudioData(4))),
        ValueError, "Must provide the audio sample rate",
    ),
    "video_call_in_image_mode": (
        lambda: used(classes(), lambda task: task.classify_for_video(image(FRAME), 0)),
        ValueError, "not initialized with the video mode. Current running mode:image mode",
    ),
    "max_results_0": (
        lambda: classes(max_results=0), ValueError, "Invalid `max_results` option",
    ),
    "allow_and_deny": (
        lambda: classes(category_allowlist=["class 0"], category_denylist=["class 1"]),
        ValueError, "`category_allowlist` and `category_denylist` are mutually exclusive",
    ),
    "no_metadata": (
        lambda: classes(model=means()), FileNotFoundError, "requires specifying Normalization",
    ),
    "num_hands_0": (lambda: hands(num_hands=0), RuntimeError, "num_hands of 1 or more, found 0"),
    "segment_nothing": (
        lambda: vision.ImageSegmenter(options(output_confidence_masks=False)),
        ValueError, "At least one of `output_confidence_masks` and `output_category_mask`",
    ),
    "gray_image": (
        lambda: used(classes(), lambda task: task.classify(GRAY)),
        RuntimeError, "expected a picture of .*SRGB.* for .*, found GRAY8",
    ),
    "a turn by 45 degrees": (
        lambda: used(classes(), lambda task: task.classify(image(FRAME), TURNED)),
        ValueError, "Expected rotation to be a multiple of 90",
    ),
    "a part for a landmarker": (
        lambda: used(hands(), lambda task: task.detect(image(FRAME), PART)),
        ValueError, "This task doesn't support region-of-interest",
    ),
    "float_data_for_srgb": (
        lambda: mp.Image(mp.ImageFormat.SRGB, np.zeros((4, 4, 3), np.float32)),
        ValueError, "Unsupported image format: SRGB .* for float data",
    ),
    "two_channels": (
        lambda: image(np.zeros((8, 8, 2), np.uint8)),
        ValueError, r"Pixel data size is too small: 128 \(expected 192\)",
    ),
}  # fmt: skip
"""Wrong calls, and what they raise: MediaPipe's texts where it has one. Those with underscores in
their names are recorded.
"""


def test_wrong_calls() -> None:
    for name, (call, kind, message) in CALLS.items():
        error, text = outcome(call)
        assert isinstance(error, kind), (name, error)
        assert re.search(message, text), (name, text)


def test_a_network_of_another_kind_is_refused_in_a_sentence(oracle: Oracle) -> None:
    members = {
        "face_detector.tflite": oracle.model("face_detector.tflite"),
        "face_landmarks_detector.tflite": oracle.model("face_landmark.tflite"),
    }
    base = mp.BaseOptions(members)
    with pytest.raises(FileNotFoundError, match=r"No file with name: face_blendshapes\.tflite"):
        vision.FaceLandmarker(vision.FaceLandmarkerOptions(base, output_face_blendshapes=True))
    members["face_blendshapes.tflite"] = oracle.model("face_blendshapes.tflite")
    with pytest.raises(gd.ModelError, match="146 of 478 points"):
        vision.FaceLandmarker(vision.FaceLandmarkerOptions(base, output_face_blendshapes=True))
    with vision.FaceLandmarker.create_from_model_path(members) as landmarker:
        result = landmarker.detect(image(oracle.pixels("face.jpg")))
    assert [len(face) for face in result.face_landmarks] == [468]
    with pytest.raises(gd.ModelError, match=r"expected model to be a detector .* 6 key points"):
        vision.FaceDetector.create_from_model_path(BALL)


def test_a_single_model_is_no_bundle() -> None:
    options = vision.HandLandmarkerOptions(mp.BaseOptions(BALL))
    with pytest.raises(FileNotFoundError, match=r"is a single model; expected a bundle"):
        vision.HandLandmarker.create_from_options(options)


def test_tasks_share_one_context_and_say_where_they_run(expected: Any) -> None:
    with vision.ImageSegmenter(options()) as first, vision.ImageSegmenter(options()) as second:
        assert first._runner is second._runner
        np.testing.assert_array_equal(mask_of(first.segment(image(FRAME))), expected)
        np.testing.assert_array_equal(mask_of(second.segment(image(FRAME))), expected)
        assert first.report.networks["model"] is not None
        assert "nodes run on the GPU" in str(first.report)
    assert not _runners


def test_what_a_notebook_shows() -> None:
    picture = mp.Image.create_from_file(str(EXAMPLES / "digits.jpg"))
    path = str(EXAMPLES / "models" / "digit_detector.tflite")
    with vision.open_task(mp.BaseOptions(path)) as task:
        result = task.process(picture)
        report = repr(task.report)
    assert f"DetectionResult: {len(result.detections)} found" in result._repr_html_()
    assert f"{result.detections[0].categories[0].score:.3f}" in result._repr_html_()
    assert repr(picture) == "<Image 720x480, SRGB>"
    assert report.startswith("<TaskReport on ")
    assert len(report) < 200
    with pytest.raises(AttributeError, match=r"MediaPipe's names are in gles_apps\.tasks"):
        _ = gles_apps.Image


def test_a_video_and_its_times(expected: Any) -> None:
    with vision.ImageSegmenter(options(running_mode=MODES.VIDEO)) as segmenter:
        for time in (0, 1, 40):
            mask = mask_of(segmenter.segment_for_video(image(FRAME), time))
            np.testing.assert_array_equal(mask, expected)
        with pytest.raises(ValueError, match="monotonically increasing"):
            segmenter.segment_for_video(image(FRAME), 40)
        # A call that is refused does not count.
        with pytest.raises(TypeError, match="expected an Image, found ndarray"):
            segmenter.segment_for_video(FRAME, 50)  # type: ignore[arg-type]
        segmenter.segment_for_video(image(FRAME), 45)


def test_a_live_stream_answers_in_order_on_another_thread(expected: Any) -> None:
    """The newest frame wins: those that wait while one runs are dropped, but for the last."""
    answers: list[tuple[int, bool]] = []
    busy, running = threading.Event(), threading.Event()

    def answer(result: vision.ImageSegmenterResult, picture: mp.Image, time: int) -> None:
        assert threading.current_thread() is not threading.main_thread()
        assert isinstance(picture, mp.Image)
        answers.append((time, bool((mask_of(result) == expected).all())))
        running.set()
        assert busy.wait(30)

    live = options(running_mode=MODES.LIVE_STREAM, result_callback=answer)
    with vision.ImageSegmenter(live) as segmenter:
        segmenter.segment_async(image(FRAME), 0)
        assert running.wait(30)
        for time in range(33, 330, 33):
            segmenter.segment_async(image(FRAME), time)
        with pytest.raises(ValueError, match="monotonically increasing"):
            segmenter.segment_async(image(FRAME), 33)
        busy.set()
    assert answers == [(0, True), (297, True)]
    with pytest.raises(ValueError, match="not running"):
        segmenter.segment_async(image(FRAME), 999)


class Stop(BaseException):
    pass


def test_errors_in_a_live_stream_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    times = []

    def answer(result: Any, picture: mp.Image, time: int) -> None:
        times.append(time)
        done.set()
        if time < 2:
            raise [ValueError, Stop][time]

    live = options(running_mode=MODES.LIVE_STREAM, result_callback=answer)
    with caplog.at_level(logging.ERROR), vision.ImageSegmenter(live) as segmenter:
        for time in range(3):
            done = threading.Event()
            segmenter.segment_async(image(FRAME), time)
            assert done.wait(30)
    assert times == [0, 1, 2]
    assert [r.message for r in caplog.records] == ["result_callback failed"] * 2


def test_a_frame_that_fails_does_not_end_a_stream(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, process = queue.Queue[int](), vision.ImageSegmenter._process

    def failing(self: Any, *arguments: Any) -> Any:
        if arguments[-1] == 0:
            answers.put(-1)
            raise gd.DelegateError("the driver failed")
        return process(self, *arguments)

    monkeypatch.setattr(vision.ImageSegmenter, "_process", failing)
    live = options(
        running_mode=MODES.LIVE_STREAM, result_callback=lambda _, picture, time: answers.put(time)
    )
    with caplog.at_level(logging.ERROR), vision.ImageSegmenter(live) as segmenter:
        for time, answer in ((0, -1), (1, 1)):
            segmenter.segment_async(image(FRAME), time)
            assert answers.get(timeout=30) == answer
    assert [r.message for r in caplog.records] == ["an item of a stream failed"]


def test_a_callback_may_close_its_task() -> None:
    closed = threading.Event()

    def answer(*_: Any) -> None:
        segmenter.close()
        closed.set()

    live = options(running_mode=MODES.LIVE_STREAM, result_callback=answer)
    segmenter = vision.ImageSegmenter(live)
    segmenter.segment_async(image(FRAME), 0)
    assert closed.wait(30)
    segmenter.close()


def until_refused(send: Callable[[], object]) -> str:
    """Send until the task refuses; times that are not later are another's."""
    while True:
        try:
            send()
        except ValueError as error:
            if "increasing" not in str(error):
                return str(error)
        time.sleep(1e-3)


class Fed:
    """A live stream of pictures or sounds, which a thread feeds, or each callback."""

    def __init__(self, kind: str, by_callback: bool) -> None:
        self.by_callback, self.answered, self.ended = by_callback, threading.Event(), list[str]()
        self._clock = iter(range(10**9))
        self.task: Any
        if kind == "pictures":
            live = options(running_mode=MODES.LIVE_STREAM, result_callback=self._answer)
            self.task = vision.ImageSegmenter(live)
            self.send = lambda: self.task.segment_async(image(FRAME), next(self._clock))
        else:
            mode = audio.RunningMode.AUDIO_STREAM
            self.task = sounds(running_mode=mode, result_callback=self._answer)
            block = containers.AudioData.create_from_array(np.zeros(SAMPLES), RATE)
            self.send = lambda: self.task.classify_async(block, next(self._clock))
        self._camera = threading.Thread(target=lambda: self.ended.append(until_refused(self.send)))
        self.send() if by_callback else self._camera.start()
        assert self.answered.wait(60)

    def _answer(self, *_: Any) -> None:
        self.answered.set()
        if self.by_callback:
            try:
                self.send()
            except ValueError as error:
                self.ended.append(str(error))

    def require_end(self) -> None:
        if not self.by_callback:
            self._camera.join(60)
        wait_until(lambda: bool(self.ended))
        assert {*self.ended} == {"Task runner is currently not running."}


@pytest.mark.parametrize("by_callback", [False, True], ids=["a thread", "the callback"])
@pytest.mark.parametrize("kind", ["pictures", "sounds"])
@pytest.mark.parametrize("closers", [1, 2])
def test_a_stream_that_is_fed_is_closed(kind: str, by_callback: bool, closers: int) -> None:
    fed = Fed(kind, by_callback)
    threads = [threading.Thread(target=fed.task.close, daemon=True) for _ in range(closers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    fed.require_end()
    fed.task.close()


def heard(result: Any) -> list[float]:
    """The samples of a window, which are the scores of `sound_classifier`."""
    (head,) = result.classifications
    return [each.score for each in sorted(head.categories, key=lambda each: each.index)]


def test_the_rest_of_a_stream_of_sounds_is_classified() -> None:
    """Filled up with silence, when the task is closed; not again by a second call."""
    found: list[tuple[int, list[float]]] = []

    def answer(result: Any, time: int) -> None:
        found.append((time, heard(result)))

    sound = np.arange(1, 11, dtype=np.float32) / 16
    with sounds(running_mode=audio.RunningMode.AUDIO_STREAM, result_callback=answer) as task:
        for i in (0, 5):
            block = containers.AudioData.create_from_array(sound[i : i + 5], RATE)
            task.classify_async(block, 100 + i)
    task.close()
    padded = np.append(sound, [0, 0]).reshape(3, SAMPLES).tolist()
    assert found == [*zip((100, 104, 108), padded, strict=True)]
    with pytest.raises(ValueError, match="not running"):
        task.classify_async(block, 200)


def test_sounds_of_another_rate_are_resampled() -> None:
    """A tone at twice the network's rate: every other sample, but for the ends."""
    tone = np.sin(np.arange(80) / 4) + 1
    with sounds() as task:
        results = task.classify(containers.AudioData.create_from_array(tone, 2 * RATE))
    samples = np.concatenate([*map(heard, results)])
    np.testing.assert_allclose(samples[8:-8], tone[16:-16:2], atol=0.02)
    assert [result.timestamp_ms for result in results] == [*range(0, 40, SAMPLES)]


@pytest.mark.parametrize("channels", [0, 1, 2])
def test_windows_of_sounds_by_their_channels(channels: int) -> None:
    """A network without a number of channels has one, which is the mean of a sound's."""
    clip = np.random.default_rng(0).random((10, 2), np.float32)
    seen = clip if channels == 2 else clip.mean(1, keepdims=True)
    windows = np.pad(seen, ((0, 2), (0, 0))).reshape(3, -1)
    with sounds(model=sound_classifier(channels)) as task:
        results = task.classify(containers.AudioData.create_from_array(clip, RATE))
        if channels == 2:
            mono = containers.AudioData.create_from_array(clip[:, 0], RATE)
            with pytest.raises(ValueError, match=r"has 1 channel\(s\) but the model requires 2"):
                task.classify(mono)
    assert [each.timestamp_ms for each in results] == [0, SAMPLES, 2 * SAMPLES]
    for result, window in zip(results, windows, strict=True):
        assert heard(result) == pytest.approx(window)


def test_threads_share_a_task(expected: Any) -> None:
    with vision.ImageSegmenter(options()) as segmenter, ThreadPoolExecutor(4) as threads:

        def work(seed: int) -> None:
            mine = np.random.default_rng(seed).integers(0, 256, FRAME.shape, np.uint8)
            first = mask_of(segmenter.segment(image(mine)))
            for _ in range(5):
                assert (mask_of(segmenter.segment(image(mine))) == first).all()
                assert (mask_of(segmenter.segment(image(FRAME))) == expected).all()

        assert len([*threads.map(work, range(4))]) == 4


def test_a_task_that_is_closed_while_others_wait() -> None:
    """Calls that come too late raise; none hangs."""
    segmenter, ends = vision.ImageSegmenter(options()), []
    started = threading.Barrier(5)

    def work() -> None:
        started.wait()
        for _ in range(20):
            error, _text = outcome(lambda: segmenter.segment(image(FRAME)))
            ends.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    segmenter.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert {type(error) for error in ends} <= {type(None), ValueError}
    assert any(error is not None for error in ends)


@pytest.mark.parametrize("time", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_a_time_that_is_none(time: Any) -> None:
    """It is refused, and the task continues."""
    with vision.ImageSegmenter(options(running_mode=MODES.VIDEO)) as segmenter:
        segmenter.segment_for_video(image(FRAME), 0)
        with pytest.raises(ValueError, match="expected a time in ms, a finite number, found"):
            segmenter.segment_for_video(image(FRAME), time)
        segmenter.segment_for_video(image(FRAME), 1)
        with pytest.raises(ValueError, match="monotonically"):
            segmenter.segment_for_video(image(FRAME), 1)


def limit_textures(task: Any, size: int) -> None:
    gpu = task._runner._thread.gpu
    gpu.driver = replace(gpu.driver, limits=replace(gpu.limits, texture_size=size))


def planes_of(pixels: Any) -> mp.Image:
    chroma = pixels[::2, ::2, 1:]
    return mp.Image.create_from_planes([pixels[..., 0], chroma])


@pytest.mark.parametrize("picture", [image(FRAME), planes_of(FRAME)])
@pytest.mark.parametrize("antialias", [False, True])
def test_a_picture_beyond_the_limit_of_textures(picture: mp.Image, antialias: bool) -> None:
    """The CPU scales it, to the same numbers."""
    base = mp.BaseOptions(BALL, antialias=antialias)
    with vision.ImageSegmenter(vision.ImageSegmenterOptions(base)) as segmenter:
        expected, small = mask_of(segmenter.segment(picture)), image(FRAME[:9, :9])
        whole = mask_of(segmenter.segment(small))
        limit_textures(segmenter, 64)
        for _ in range(2):
            np.testing.assert_allclose(mask_of(segmenter.segment(picture)), expected, atol=4e-3)
            np.testing.assert_array_equal(mask_of(segmenter.segment(small)), whole)


def test_a_picture_beyond_the_largest_texture() -> None:
    with vision.ImageSegmenter(options()) as segmenter:
        most = segmenter._runner._thread.gpu.limits.texture_size  # type: ignore[union-attr]
        wide = np.zeros((2, most + 1, 3), np.uint8)
        assert mask_of(segmenter.segment(image(wide))).shape == (2, most + 1, 1)
        with pytest.raises(ValueError, match="expected a picture of at most"):
            segmenter._runner.run(lambda: segmenter._runner.new_texture((2, most + 1, 3)))


def close_by_threads(segmenter: vision.ImageSegmenter) -> None:
    started = threading.Barrier(2)
    threads = [
        threading.Thread(target=lambda: (started.wait(), segmenter.close())) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def close_with_a_copy(segmenter: vision.ImageSegmenter) -> None:
    another = copy.copy(segmenter)
    segmenter.close()
    with pytest.raises(ValueError, match="not running"):
        another.segment(image(FRAME))
    another.close()


@pytest.mark.parametrize("close", [close_by_threads, close_with_a_copy])
def test_a_task_that_is_closed_twice_ends_no_other(close: Any, expected: Any) -> None:
    for _ in range(10):
        segmenter, other = vision.ImageSegmenter(options()), vision.ImageSegmenter(options())
        close(segmenter)
        assert (mask_of(other.segment(image(FRAME))) == expected).all()
        other.close()


def test_dropped_tasks_are_closed(expected: Any) -> None:
    """Beside another task, and then with their place and its thread."""
    threads = {*threading.enumerate()}
    with vision.ImageSegmenter(options()) as other:
        held = len(other._runner.leases)
        for _ in range(3):
            vision.ImageSegmenter(options()).segment(image(FRAME))
        wait_until(lambda: len(other._runner.leases) == held)
        assert (mask_of(other.segment(image(FRAME))) == expected).all()
    vision.ImageSegmenter(options()).segment(image(FRAME))
    wait_until(lambda: not _runners and {*threading.enumerate()} <= threads)


def test_a_dropped_task_frees_its_networks() -> None:
    segmenter = vision.ImageSegmenter(options())
    (network,) = segmenter._networks
    delegate = network._delegate
    assert delegate is not None
    del segmenter, network
    wait_until(lambda: delegate._closed)


def test_a_dropped_stream_ends_after_its_frames(expected: Any) -> None:
    threads, results = {*threading.enumerate()}, []
    stream = options(
        running_mode=MODES.LIVE_STREAM, result_callback=lambda *answer: results.append(answer[0])
    )
    vision.ImageSegmenter(stream).segment_async(image(FRAME), 0)
    wait_until(lambda: {*threading.enumerate()} <= threads)
    assert [(mask_of(result) == expected).all() for result in results] == [True]


def itself(result: Any) -> Any:
    return result


@pytest.mark.parametrize(
    "copied", [itself, copy.copy, replace, vars], ids=lambda copied: copied.__name__
)
def test_a_texture_outlives_a_dropped_task(copied: Any) -> None:
    """Whoever copies the result."""
    textured = options(output_texture=gd.ImageOutput(), output_confidence_masks=False)
    result = vision.ImageSegmenter(textured).segment(image(FRAME))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(result)
    with pytest.raises(TypeError, match="cannot be pickled"):
        copy.deepcopy(result)
    kept = copied(result)
    results = [kept if copied is not vars else SimpleNamespace(**kept)]
    del result, kept
    gc.collect()
    (runner,) = _runners.values()
    gl = runner._thread.gpu.gl  # type: ignore[union-attr]
    assert runner.run(lambda: gl.glIsTexture(results[0].texture.glo))
    results.clear()
    wait_until(lambda: not runner.leases and runner not in _runners.values())


FORK = """
import os, signal, sys
import numpy as np
import gles_delegate as gd, gles_apps.tasks as mp
picture = mp.Image(mp.ImageFormat.SRGB, np.zeros((9, 9, 3), np.uint8))
options = mp.vision.ImageSegmenterOptions(
    mp.BaseOptions(sys.argv[1]), running_mode=mp.vision.RunningMode.LIVE_STREAM,
    result_callback=lambda *answer: None,
)
def refused(kind, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        return "fork" in str(error)

with (
    mp.vision.ImageSegmenter.create_from_model_path(sys.argv[1]) as segmenter,
    mp.vision.ImageSegmenter.create_from_options(options) as stream,
):
    segmenter.segment(picture)
    stream._stream._changed.acquire()  # as another thread may hold it
    child = os.fork()
    if not child:
        signal.alarm(30)
        assert refused(gd.ContextError, segmenter.segment, picture)
        assert refused(ValueError, stream.segment_async, picture, 1)
        os._exit(7)
    stream._stream._changed.release()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    segmenter.segment(picture)
sys.exit(code)
"""


def test_a_fork_is_refused() -> None:
    """A child has neither the thread nor the context, and a stream's lock may be another's."""
    result = run_python(FORK, BALL, PYTHONWARNINGS="ignore::DeprecationWarning")
    assert result.returncode == 7, result.stderr


@pytest.fixture
def app() -> Iterator[moderngl.Context]:
    with gd.EglContext() as egl:
        yield moderngl.create_context(context=egl, require=310)
    egl.release()


def test_an_apps_task_is_closed_on_its_thread(app: moderngl.Context, expected: Any) -> None:
    """Elsewhere it stays open; one that is dropped is closed by the thread's next call."""
    segmenter = vision.ImageSegmenter(options(context=app))
    with ThreadPoolExecutor(1) as pool:
        error, _ = pool.submit(outcome, segmenter.close).result()
    assert isinstance(error, gd.WrongThreadError)
    del error
    assert (mask_of(segmenter.segment(image(FRAME))) == expected).all()
    delegate = segmenter._networks[0]._delegate
    assert delegate is not None
    del segmenter
    gc.collect()
    assert not delegate._closed
    vision.ImageSegmenter(options(context=app)).close()
    assert delegate._closed


def texture_of(app: moderngl.Context, pixels: Any) -> moderngl.Texture:
    data = np.ascontiguousarray(pixels).tobytes()
    return app.texture(pixels.shape[1::-1], pixels.shape[2], data, alignment=1)


def test_textures_of_the_apps_context(expected: Any, app: moderngl.Context) -> None:
    texture, flipped = texture_of(app, FRAME), texture_of(app, FRAME[::-1])
    pictures = [
        mp.Image.create_from_texture(texture),
        mp.Image.create_from_texture(texture.glo),
        mp.Image.create_from_texture(flipped, flip_y=True),
        image(FRAME),
    ]
    for context in (app, "current"):
        with vision.ImageSegmenter(options(context=context)) as segmenter:
            for picture in pictures:
                assert picture.uses_gpu() == (picture is not pictures[-1])
                mask = mask_of(segmenter.segment(picture))
                np.testing.assert_allclose(mask, expected, atol=1e-4)
                assert picture.size == FRAME.shape[:2]
    with pytest.raises(ValueError, match="found a texture"):
        pictures[0].numpy_view()
    with pytest.raises(ValueError, match="found a GL name"):
        _ = mp.Image.create_from_texture(texture.glo).size


def test_the_apps_context_stays_on_its_thread(app: moderngl.Context) -> None:
    with vision.ImageSegmenter(options(context=app)) as segmenter, ThreadPoolExecutor(1) as pool:
        error, _ = pool.submit(outcome, lambda: segmenter.segment(image(FRAME))).result()
        assert isinstance(error, gd.WrongThreadError)
    with pytest.raises(ValueError, match="for a stream, found the app's"):
        vision.ImageSegmenter(
            options(context=app, running_mode=MODES.LIVE_STREAM, result_callback=print)
        )


def test_each_of_an_apps_contexts_has_its_tasks(expected: Any) -> None:
    """Whichever is current when a task is made."""
    apps = gd.EglContext(), gd.EglContext()
    tasks = []
    for egl in apps:
        with egl:
            tasks.append(vision.ImageSegmenter(options(context="current")))
    for egl, segmenter in zip(apps, tasks, strict=True):
        with egl:
            np.testing.assert_array_equal(mask_of(segmenter.segment(image(FRAME))), expected)
            segmenter.close()
        egl.release()


def test_textures_of_a_context_that_shares(expected: Any, app: moderngl.Context) -> None:
    """Any thread may call, as the tasks' thread has the context; a fence orders the work."""
    texture = texture_of(app, FRAME)
    shared = gd.EglContext(share="current")
    with vision.ImageSegmenter(options(context=shared)) as segmenter:
        fence = gd.Fence.of_current_context()
        picture = mp.Image.create_from_texture(texture, fence=fence)
        np.testing.assert_array_equal(mask_of(segmenter.segment(picture)), expected)
        with ThreadPoolExecutor(1) as pool:
            result = pool.submit(segmenter.segment, picture).result()
        np.testing.assert_array_equal(mask_of(result), expected)
    shared.release()


def test_masks_that_stay_on_the_gpu(
    expected: Any, app: moderngl.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the picture nor the mask is read back."""
    texture = texture_of(app, FRAME)
    on_gpu = options(context=app, output_confidence_masks=False, output_texture=gd.ImageOutput())
    with vision.ImageSegmenter(on_gpu) as segmenter:
        with monkeypatch.context() as patch:
            patch.setattr(gd.Interpreter, "get_tensor", lambda *_: pytest.fail("read back"))
            patch.setattr(gd.GpuDelegate, "read_tensor", lambda *_: pytest.fail("read back"))
            result = segmenter.segment(mp.Image.create_from_texture(texture))
        assert result.confidence_masks is None
        mask = app.external_texture(result.texture.glo, result.texture.size, 4, 0, "f1")
        target = app.framebuffer([mask])
        pixels = np.frombuffer(target.read(components=4), np.uint8)
        red = pixels.reshape(*result.texture.size[::-1], 4)[..., 0] / 255
    both = options(output_texture=gd.ImageOutput())
    with vision.ImageSegmenter(both) as segmenter:
        result = segmenter.segment(image(FRAME))
        np.testing.assert_array_equal(mask_of(result), expected)
    assert red.mean() == pytest.approx(expected.mean(), abs=0.01)


def test_planes_of_video() -> None:
    gray = np.full((180, 320, 3), 100, np.uint8)
    planes = [np.full((180, 320), 100, np.uint8), np.full((90, 160, 2), 128, np.uint8)]
    with vision.ImageSegmenter(options()) as segmenter:
        video = mp.Image.create_from_planes(planes, full_range=True)
        np.testing.assert_allclose(
            mask_of(segmenter.segment(video)), mask_of(segmenter.segment(image(gray))), atol=1e-4
        )
    with pytest.raises(ValueError, match="all arrays or all textures"):
        mp.Image.create_from_planes([planes[0], 3])


def test_regions_of_interest(expected: Any) -> None:
    whole = vision.ImageProcessingOptions(containers.RectF(0.0, 0.0, 1.0, 1.0))
    part = vision.ImageProcessingOptions(containers.RectF(left=0.25, top=0, right=1, bottom=0.5))
    with vision.ImageSegmenter(options()) as segmenter:
        np.testing.assert_array_equal(mask_of(segmenter.segment(image(FRAME), whole)), expected)
        cropped = mask_of(segmenter.segment(image(FRAME[:90, 80:]), None))
        mask = mask_of(segmenter.segment(image(FRAME), part))
        assert mask.shape == (180, 320, 1)
        assert mask.mean() == pytest.approx(cropped.mean(), abs=1e-2)
        for region, text in (
            (containers.RectF(left=0.5, top=0, right=0.5, bottom=1), "left < right"),
            (containers.RectF(left=-0.1, top=0, right=0.5, bottom=1), "in \\[0,1\\]"),
            (containers.RectF(left=0.1, top=-0.1, right=0.5, bottom=1), "in \\[0,1\\]"),
            (containers.RectF(left=0.1, top=0, right=0.5, bottom=1.1), "in \\[0,1\\]"),
        ):
            with pytest.raises(ValueError, match=text):
                segmenter.segment(image(FRAME), vision.ImageProcessingOptions(region))


def test_what_is_not_there_is_named() -> None:
    for name in ("solutions", "FaceMesh", "Hands"):
        with pytest.raises(AttributeError, match=rf"no attribute '{name}': .* the page Porting"):
            getattr(mp, name)
    with pytest.raises(AttributeError, match=r": it is in gles_apps\.tasks\.vision$"):
        _ = mp.FaceLandmarker  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'genai'$"):
        _ = mp.genai
    assert mp.tasks.vision is vision


def test_a_bundle_of_another_task_is_named() -> None:
    base = mp.BaseOptions(model_asset_buffer=fake_bundle("hand", np.random.default_rng(0)))
    faces = vision.FaceLandmarkerOptions(base)
    with pytest.raises(FileNotFoundError, match=r"It is a bundle for HandLandmarker\.$"):
        vision.FaceLandmarker.create_from_options(faces)


def test_a_path_is_no_picture() -> None:
    with (
        vision.ImageSegmenter(options()) as segmenter,
        pytest.raises(TypeError, match=r"found str: make one with Image\.create_from_file"),
    ):
        segmenter.segment("face.jpg")  # type: ignore[arg-type]
