"""Tasks on LiteRT's CPU kernels, which are MediaPipe's: 8-bit networks beside its results."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import gles_apps.tasks as mp
from gles_apps.tasks import audio, place, vision
from gles_apps.tasks.components import containers
from gles_delegate.errors import ContextError
from tests.conftest import Require
from tests.support.example import EXAMPLES
from tests.support.mediapipe import (
    CLASSIFIERS,
    EMBEDDERS,
    FOLDER,
    STEP,
    Oracle,
    assert_classes,
    assert_embedding,
    assert_objects,
    clips,
    image,
)

CPU = mp.BaseOptions.Delegate.CPU
BALL = EXAMPLES / "models" / "ball_segmenter.tflite"
FRAME = np.random.default_rng(0).integers(0, 256, (180, 320, 3), np.uint8)


@pytest.fixture(scope="module")
def oracle(require: Require) -> Oracle:
    if not FOLDER.is_dir():
        require("models", f"{FOLDER} is missing; GLES_DELEGATE_MEDIAPIPE names another folder")
    return Oracle()


def base(oracle: Oracle, model: str) -> mp.BaseOptions:
    return mp.BaseOptions(oracle.model(model), delegate=CPU)


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_classifiers(model: str, oracle: Oracle) -> None:
    """Within a step; classes of equal scores have no order. Where a picture's height is such that
    positions lie between two 32nds of a pixel, as the parrot's, OpenCV's rounding decides.
    """
    options = vision.ImageClassifierOptions(base(oracle, f"{model}.tflite"))
    with vision.ImageClassifier(options) as classifier:
        for name, picture, expected in oracle.pictures(f"classifier_{model}"):
            (head,), (theirs,) = classifier.classify(picture).classifications, expected["heads"]
            assert_classes(head, theirs, (12.01 if name == "parrot.jpg" else 1.01) * STEP, name)


def test_regions_and_turns(oracle: Oracle) -> None:
    region = containers.RectF(left=0.25, top=0.1, right=0.75, bottom=0.9)
    options = vision.ImageClassifierOptions(
        base(oracle, "tf2_mobilenet_v2_1.0_224_ptq.tflite"), max_results=3
    )
    picture, known = image(oracle.pixels("cat_720p.jpg")), oracle.results("rotation")
    with vision.ImageClassifier(options) as classifier:
        for name, degrees in (("classifier_roi", 0), ("classifier_roi_90", 90)):
            processing = vision.ImageProcessingOptions(region, degrees)
            (head,) = classifier.classify(picture, processing).classifications
            theirs = known[name]["heads"][0]["categories"]
            assert [c.index for c in head.categories] == [c["index"] for c in theirs]
            np.testing.assert_allclose(
                [c.score for c in head.categories], [c["score"] for c in theirs], atol=1.01 * STEP
            )


@pytest.mark.parametrize("name", ["object_detector", "object_detector_3"])
def test_object_detector(name: str, oracle: Oracle) -> None:
    """Objects of equal scores have no order, and their classes and boxes may be another's."""
    limits: dict[str, Any] = (
        {"score_threshold": 0.3} if name == "object_detector" else {"max_results": 3}
    )
    options = vision.ObjectDetectorOptions(base(oracle, "ssd_320.tflite"), **limits)
    compared = 0
    with vision.ObjectDetector(options) as detector:
        for _, picture, expected in oracle.pictures(name):
            found = detector.detect(picture).detections
            compared += assert_objects(found, expected["detections"], 0.4, 1.01, 1)
    assert compared > 4


@pytest.mark.parametrize("name", EMBEDDERS)
def test_embedder(name: str, oracle: Oracle) -> None:
    model = base(oracle, "mobilenet_v2_1.0_224_quant.tflite")
    options = vision.ImageEmbedderOptions(model, **EMBEDDERS[name])
    with vision.ImageEmbedder(options) as embedder:
        for picture_name, picture, _ in oracle.pictures(name):
            (embedding,) = embedder.embed(picture).embeddings
            assert_embedding(oracle, name, picture_name, embedding, 1.01)


def test_audio_classifier(oracle: Oracle) -> None:
    """At the network's rate as MediaPipe; resampled, scores are a step of its sigmoid's input
    apart.
    """
    sounds = clips()
    options = audio.AudioClassifierOptions(base(oracle, "yamnet.tflite"))
    with audio.AudioClassifier(options) as classifier:
        for name, expected in oracle.results("audio_classifier")["clips"].items():
            clip, rate = name.split("@")
            data = containers.AudioData.create_from_array(sounds[clip], int(rate))
            for result, known in zip(classifier.classify(data), expected, strict=True):
                (head,), (theirs,) = result.classifications, known["heads"]
                assert_classes(head, theirs, 1.01 * STEP if rate == "16000" else 0.09, name)


def test_without_a_gpu_the_default_is_the_cpu(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise ContextError("no EGL here")

    monkeypatch.setattr(place, "GpuContext", refuse)
    caplog.set_level(logging.WARNING)
    with vision.ImageSegmenter.create_from_model_path(BALL) as segmenter:
        (mask,) = segmenter.segment(image(FRAME)).confidence_masks or ()
        assert str(segmenter.report) == "on LiteRT's CPU"
    assert "tasks run on LiteRT's CPU: no EGL here" in caplog.text
    options = vision.ImageSegmenterOptions(
        mp.BaseOptions(BALL, delegate=mp.BaseOptions.Delegate.GPU)
    )
    with pytest.raises(ContextError, match="no EGL here"):
        vision.ImageSegmenter(options)
    assert mask.numpy_view().shape == (180, 320, 1)


def test_the_cpu_takes_no_textures(gl: None) -> None:
    on_cpu = vision.ImageSegmenterOptions(mp.BaseOptions(BALL, delegate=CPU))
    with (
        vision.ImageSegmenter(on_cpu) as cpu,
        vision.ImageSegmenter.create_from_model_path(BALL) as gpu,
    ):
        masks = [task.segment(image(FRAME)).confidence_masks for task in (cpu, gpu)]
        with pytest.raises(ValueError, match=r"found a texture: Delegate\.CPU"):
            cpu.segment(mp.Image.create_from_texture(1))
    first, second = (mask.numpy_view() for (mask,) in masks)
    np.testing.assert_allclose(first, second, atol=0.01)
