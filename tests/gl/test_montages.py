"""Landmarkers beside MediaPipe 1.2.3 in pictures of several objects; its graphs' constants."""

import json
from functools import reduce
from typing import Any

import numpy as np
import pytest

import gles_apps.tasks as mp
from gles_apps.vision import holistic
from tests.conftest import PICTURES, Require
from tests.support.described_detectors import DescribedDetector
from tests.support.fake_networks import (
    NETWORKS,
    GestureNetworks,
    fake_bundle,
    fake_network,
    holistic_bundle,
    plausible,
)
from tests.support.mediapipe import FOLDER
from tests.support.montages import (
    KINDS,
    RECORDED,
    found,
    found_first,
    landmarker_of,
    montages,
    sha256,
)

RNG = np.random.default_rng(0)

FARTHEST = {"face": 0.1, "hand": 0.5, "pose": 1.0}
"""In pixels. The networks of hands and bodies amplify the rounding of other kernels: with LiteRT's
on the CPU, their points are within 0.25 pixels of MediaPipe's in these montages."""


@pytest.fixture
def pictures(require: Require) -> None:
    for folder in (PICTURES, FOLDER):
        if not folder.is_dir():
            require("models", f"{folder} is missing; its variable names another folder")


@pytest.mark.usefixtures("pictures")
@pytest.mark.parametrize("kind", KINDS)
def test_montages(kind: str) -> None:
    recorded, distances = json.loads(RECORDED.read_text("utf-8"))[kind], list[float]()
    with landmarker_of(mp, kind, FOLDER / "bundles") as landmarker:
        pictures = montages(kind, PICTURES, FOLDER / "hands")
        for (number, pixels), known in zip(pictures.items(), recorded, strict=True):
            assert sha256(pixels) == known["sha256"], number
            mine, theirs = found(mp, kind, pixels, landmarker), known["objects"]
            assert len(mine) == len(theirs), number
            for one, other in zip(mine, theirs, strict=True):
                distances.append(np.hypot(*np.subtract(one, other).T).max())
                assert distances[-1] < FARTHEST[kind], number
    assert len(distances) >= len(recorded)
    assert np.median(distances) < 0.1


@pytest.mark.usefixtures("pictures")
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_frame_of_a_video(kind: str) -> None:
    """MediaPipe tracks the best face and hand; a body may be replaced by a worse one."""
    recorded = json.loads(RECORDED.read_text("utf-8"))["first"][kind]
    pictures = montages(kind, PICTURES, FOLDER / "hands", KINDS[kind].streams)
    for (number, pixels), known in zip(pictures.items(), recorded, strict=True):
        assert sha256(pixels) == known["sha256"], number
        mine, theirs = found_first(mp, kind, pixels, FOLDER / "bundles"), known["objects"]
        assert len(mine) == len(theirs) == 1, number
        assert np.hypot(*np.subtract(mine[0], theirs[0]).T).max() < FARTHEST[kind], number


def bundles() -> dict[str, Any]:
    """A task of each kind, with default options."""
    hands = fake_bundle("hand", RNG)
    return {
        "FaceLandmarker": fake_bundle("face", RNG),
        "HandLandmarker": hands,
        "PoseLandmarker": fake_bundle("pose", RNG),
        "GestureRecognizer": GestureNetworks.drawn(RNG, "canned").bundle(hands),
        "HolisticLandmarker": holistic_bundle(RNG),
        "FaceDetector": fake_network(
            NETWORKS["face_detector.tflite"][0], plausible("face_detector.tflite", RNG)
        ),
        "ObjectDetector": DescribedDetector(
            np.zeros((1, 4, 4), np.float32),
            np.zeros((1, 4, 2), np.float32),
            np.ones((4, 4), np.float32),
        ).build(),
    }


DEFAULTS = {
    # min_suppression_threshold of face_detector_graph_options.proto, and of pose_detector's; the
    # landmarkers' options do not set it.
    "FaceLandmarker._finder._preset.overlap": 0.5,
    "PoseLandmarker._finder._preset.overlap": 0.5,
    # hand_detector_graph.cc
    "HandLandmarker._finder._preset.overlap": 0.3,
    "GestureRecognizer._finder._preset.overlap": 0.3,
    # holistic_landmarker.py and face_detector.py, which set the graphs' options
    "HolisticLandmarker._finder._preset.overlap": 0.3,
    "HolisticLandmarker._faces._preset.overlap": 0.3,
    "FaceDetector._finder._preset.overlap": 0.3,
    # object_detector_options.proto; detection_postprocessing_graph.cc
    "ObjectDetector._preset.overlap": 0.3,
    "ObjectDetector._preset.weighted": False,
    "ObjectDetector._choice.most": None,
    # min_detection_confidence of the graphs' options
    **{
        f"{task}._finder._preset.{name}": value
        for task in (
            *("FaceLandmarker", "HandLandmarker", "PoseLandmarker", "GestureRecognizer"),
            *("HolisticLandmarker", "FaceDetector"),
        )
        for name, value in {"threshold": 0.5, "weighted": True}.items()
    },
    "HolisticLandmarker._faces._preset.threshold": 0.5,
    # min_detection_confidence of the landmarks' graphs, and num_faces, num_hands and num_poses
    **{
        f"{task}._tracker.{name}": value
        for task in (
            *("FaceLandmarker", "HandLandmarker", "PoseLandmarker", "GestureRecognizer"),
            "HolisticLandmarker",
        )
        for name, value in {"presence": 0.5, "most": 1}.items()
    },
    # Where the graphs of detectors limit their regions: only pose_detector_graph.cc does not, but
    # holistic_pose_tracking.cc takes the best.
    "FaceLandmarker._tracker.takes_all": False,
    "HandLandmarker._tracker.takes_all": False,
    "GestureRecognizer._tracker.takes_all": False,
    "PoseLandmarker._tracker.takes_all": True,
    "HolisticLandmarker._tracker.takes_all": False,
    # face_landmarks_detector_graph.cc and pose_landmarks_detector_graph.cc
    "FaceLandmarker.smoothing.points.min_cutoff": 0.05,
    "FaceLandmarker.smoothing.points.beta": 80.0,
    "PoseLandmarker.smoothing.points.min_cutoff": 0.05,
    "PoseLandmarker.smoothing.points.beta": 80.0,
    "PoseLandmarker.smoothing.world.min_cutoff": 0.1,
    "PoseLandmarker.smoothing.world.beta": 40.0,
    # hand_landmarks_detector_graph.cc, hand_detector_graph.cc
    "HandLandmarker._reader.kind.tracked.scale": 2.0,
    "HandLandmarker._reader.kind.tracked.shift": -0.1,
    "HandLandmarker._reader.kind.detected.scale": 2.6,
    "HandLandmarker._reader.kind.detected.shift": -0.5,
    # face_detector_graph.cc, pose_detector_graph.cc
    "FaceLandmarker._reader.kind.detected.scale": 1.5,
    "PoseLandmarker._reader.kind.detected.scale": 1.25,
}
"""Numbers of tasks with default options."""


def test_the_defaults_of_the_graphs() -> None:
    seen: dict[str, Any] = {}
    files = bundles()
    for name in {path.split(".")[0] for path in DEFAULTS}:
        base = mp.BaseOptions(model_asset_buffer=files[name])
        options = getattr(mp.tasks.vision, f"{name}Options")(base)
        with getattr(mp.tasks.vision, name).create_from_options(options) as task:
            for path in (path for path in DEFAULTS if path.startswith(f"{name}.")):
                seen[path] = reduce(getattr, path.split(".")[1:], task)
    assert seen == DEFAULTS
    assert holistic.PALM_VISIBILITY == 0.1  # holistic_hand_tracking.cc
