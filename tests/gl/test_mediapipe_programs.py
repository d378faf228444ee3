"""Programs in the style of MediaPipe's documentation, run with their imports changed."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pictures

from tests.conftest import Require
from tests.support.fake_networks import GestureNetworks, fake_bundle, holistic_bundle
from tests.support.mediapipe import FOLDER, Oracle

CHANGES = (
    (r"import mediapipe as mp", "import gles_apps.tasks as mp"),
    (r"from mediapipe\.tasks import python", "from gles_apps import tasks as python"),
    (r"from mediapipe\.tasks\.python", "from gles_apps.tasks"),
)
"""The table in docs/tasks.md."""

FACE_MESH = """
import mediapipe as mp
import numpy as np
from mediapipe.tasks import python
from mediapipe.tasks.python import vision
from mediapipe.tasks.python.vision import drawing_utils

base_options = python.BaseOptions(model_asset_path="face_landmarker.task")
options = vision.FaceLandmarkerOptions(
    base_options=base_options,
    output_face_blendshapes=True,
    output_facial_transformation_matrixes=True,
    num_faces=1,
)
detector = vision.FaceLandmarker.create_from_options(options)
image = mp.Image.create_from_file("face.png")
detection_result = detector.detect(image)

annotated_image = np.copy(image.numpy_view())
for face_landmarks in detection_result.face_landmarks:
    drawing_utils.draw_landmarks(
        image=annotated_image,
        landmark_list=face_landmarks,
        connections=vision.FaceLandmarksConnections.FACE_LANDMARKS_CONTOURS,
        landmark_drawing_spec=None,
        connection_drawing_spec=drawing_utils.DrawingSpec(color=(0, 255, 0), thickness=1),
    )
names = [category.category_name for category in detection_result.face_blendshapes[0]]
scores = [category.score for category in detection_result.face_blendshapes[0]]
matrix = detection_result.facial_transformation_matrixes[0]
detector.close()
"""

HANDS_IN_A_VIDEO = """
import mediapipe as mp

BaseOptions = mp.tasks.BaseOptions
HandLandmarker = mp.tasks.vision.HandLandmarker
HandLandmarkerOptions = mp.tasks.vision.HandLandmarkerOptions
VisionRunningMode = mp.tasks.vision.RunningMode

options = HandLandmarkerOptions(
    base_options=BaseOptions(model_asset_path="hand_landmarker.task"),
    running_mode=VisionRunningMode.VIDEO,
    num_hands=2,
)
tips = []
with HandLandmarker.create_from_options(options) as landmarker:
    for frame_timestamp_ms, numpy_frame_from_opencv in frames:
        mp_image = mp.Image(image_format=mp.ImageFormat.SRGB, data=numpy_frame_from_opencv)
        result = landmarker.detect_for_video(mp_image, frame_timestamp_ms)
        for landmarks, handedness in zip(result.hand_landmarks, result.handedness):
            tip = landmarks[8]
            tips.append((handedness[0].category_name, tip.x, tip.y))
"""

POSES_IN_A_LIVE_STREAM = """
import threading
import mediapipe as mp

BaseOptions = mp.tasks.BaseOptions
PoseLandmarker = mp.tasks.vision.PoseLandmarker
PoseLandmarkerOptions = mp.tasks.vision.PoseLandmarkerOptions
PoseLandmarkerResult = mp.tasks.vision.PoseLandmarkerResult
VisionRunningMode = mp.tasks.vision.RunningMode
seen = []
done = threading.Event()

def print_result(result: PoseLandmarkerResult, output_image: mp.Image, timestamp_ms: int):
    seen.append((timestamp_ms, result.pose_landmarks, output_image.width))
    done.set()

options = PoseLandmarkerOptions(
    base_options=BaseOptions(model_asset_path="pose_landmarker_lite.task"),
    running_mode=VisionRunningMode.LIVE_STREAM,
    result_callback=print_result,
)
with PoseLandmarker.create_from_options(options) as landmarker:
    for frame_timestamp_ms, frame in frames[:3]:
        done.clear()
        mp_image = mp.Image(image_format=mp.ImageFormat.SRGB, data=frame)
        landmarker.detect_async(mp_image, frame_timestamp_ms)
        done.wait(60)
nose = seen[0][1][0][mp.tasks.vision.PoseLandmark.NOSE]
"""

OBJECTS = """
import mediapipe as mp
import numpy as np
from mediapipe.tasks import python
from mediapipe.tasks.python import vision
from mediapipe.tasks.python.vision import drawing_utils

base_options = python.BaseOptions(model_asset_path="face_detector.tflite")
options = vision.FaceDetectorOptions(base_options=base_options, min_detection_confidence=0.6)
found = vision.FaceDetector.create_from_options(options).detect(
    mp.Image.create_from_file("face.png")
)
image = np.copy(mp.Image.create_from_file("face.png").numpy_view())
for detection in found.detections:
    bbox = detection.bounding_box
    start_point = bbox.origin_x, bbox.origin_y
    drawing_utils.draw_detection(image, detection)
    category = detection.categories[0]
    probability = round(category.score, 2)

options = vision.ObjectDetectorOptions(
    base_options=python.BaseOptions(model_asset_path="ssd_320.tflite"), score_threshold=0.5
)
with vision.ObjectDetector.create_from_options(options) as detector:
    objects = detector.detect(mp.Image.create_from_file("face.png")).detections
"""

SIMILAR_PICTURES = """
import mediapipe as mp
from mediapipe.tasks.python import vision
from mediapipe.tasks.python.components import processors
from mediapipe.tasks.python.components.containers import RectF

options = vision.ImageEmbedderOptions(
    base_options=mp.tasks.BaseOptions(model_asset_path="mobilenet_v2_1.0_224_quant.tflite"),
    l2_normalize=True,
    quantize=True,
)
with vision.ImageEmbedder.create_from_options(options) as embedder:
    image = mp.Image.create_from_file("face.png")
    part = vision.ImageProcessingOptions(RectF(left=0.1, top=0.1, right=0.9, bottom=0.9))
    embeddings = [embedder.embed(image), embedder.embed(image, part)]
    similarity = vision.ImageEmbedder.cosine_similarity(*(e.embeddings[0] for e in embeddings))

options = vision.ImageClassifierOptions(
    base_options=mp.tasks.BaseOptions(model_asset_path="mobilenet_v2_1.0_224_quant.tflite"),
    max_results=4,
)
with vision.ImageClassifier.create_from_options(options) as classifier:
    top = classifier.classify(image).classifications[0].categories
"""

GESTURES = """
import mediapipe as mp
from mediapipe.tasks import python
from mediapipe.tasks.python import vision

base_options = python.BaseOptions(model_asset_path="gesture_recognizer.task")
options = vision.GestureRecognizerOptions(base_options=base_options)
recognizer = vision.GestureRecognizer.create_from_options(options)
results = []
for image_file_name in ["hand.png", "hand.png"]:
    image = mp.Image.create_from_file(image_file_name)
    recognition_result = recognizer.recognize(image)
    top_gesture = recognition_result.gestures[0][0]
    hand_landmarks = recognition_result.hand_landmarks
    results.append((top_gesture, hand_landmarks))
title = f"{top_gesture.category_name} ({top_gesture.score:.2f})"

options = vision.HolisticLandmarkerOptions(
    base_options=python.BaseOptions(model_asset_path="holistic_landmarker.task"),
    output_face_blendshapes=True,
)
with vision.HolisticLandmarker.create_from_options(options) as landmarker:
    whole = landmarker.detect(image)
wrist = whole.left_hand_landmarks[vision.HandLandmark.WRIST]
"""


@pytest.fixture
def run(require: Require, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that runs a program where its models and pictures are; it returns its names."""
    if not FOLDER.is_dir():
        require("models", f"{FOLDER} is missing; GLES_DELEGATE_MEDIAPIPE names another folder")
    oracle = Oracle()
    monkeypatch.chdir(tmp_path)
    Pictures.fromarray(oracle.pixels("face.jpg")).save("face.png")

    def run(program: str, video: str = "") -> dict[str, Any]:
        for model in re.findall(r'"(\S+\.(?:task|tflite))"', program):
            if not Path(model).exists():
                Path(model).symlink_to(oracle.model(model))
        names: dict[str, Any] = {}
        if video:
            names["frames"] = [(time, i.numpy_view()) for time, i, _ in oracle.frames(video)][:6]
        return with_imports_changed(program, names)

    return run


def with_imports_changed(program: str, names: dict[str, Any]) -> dict[str, Any]:
    """The names of a program after it ran."""
    for before, after in CHANGES:
        program = re.sub(before, after, program)
    assert "mediapipe" not in program
    exec(program, names)
    return names


def test_face_mesh(run: Any) -> None:
    names = run(FACE_MESH)
    image, drawn = names["image"].numpy_view(), names["annotated_image"]
    (face,) = names["detection_result"].face_landmarks
    changed = np.argwhere((drawn != image).any(-1))[:, ::-1]
    points = np.array([(p.x, p.y) for p in face]) * (image.shape[1], image.shape[0])
    assert len(changed) > 300
    assert (changed.min(0) > points.min(0) - 4).all()
    assert (changed.max(0) < points.max(0) + 4).all()
    assert drawn[tuple(changed[0][::-1])][1] > 100
    assert (len(names["names"]), names["names"][0]) == (52, "_neutral")
    assert names["matrix"].shape == (4, 4)


def test_hands_in_a_video(run: Any) -> None:
    names = run(HANDS_IN_A_VIDEO, "hand_landmarker_video")
    assert [side for side, *_ in names["tips"]] == ["Right"] * 6


def test_poses_in_a_live_stream(run: Any) -> None:
    names = run(POSES_IN_A_LIVE_STREAM, "pose_landmarker_lite_video")
    assert [(time, width) for time, _, width in names["seen"]] == [(0, 480), (33, 480), (66, 480)]
    assert 0 < names["nose"].x < 1
    assert names["nose"].visibility > 0.9


def test_objects(run: Any) -> None:
    names = run(OBJECTS)
    assert len(names["found"].detections) == 2
    assert names["probability"] > 0.6
    assert (np.abs(names["image"][68:73, 300].astype(int) - 224).max(1) < 10).any()  # a box's side
    assert names["objects"][0].categories[0].category_name == "object4"


def test_similar_pictures(run: Any) -> None:
    names = run(SIMILAR_PICTURES)
    assert 0.2 < names["similarity"] < 1
    assert len(names["top"]) == 4
    assert names["top"][0].category_name


def test_gestures_and_a_whole_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With twins of the networks."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    gestures = GestureNetworks.drawn(rng, "canned").bundle(fake_bundle("hand", rng))
    Path("gesture_recognizer.task").write_bytes(gestures)
    Path("holistic_landmarker.task").write_bytes(holistic_bundle(rng))
    Pictures.fromarray(rng.integers(0, 256, (90, 160, 3), np.uint8)).save("hand.png")
    names = with_imports_changed(GESTURES, {})
    assert names["results"][0] == names["results"][1]
    assert names["title"].split()[0] in ("None", "canned")
    assert (len(names["whole"].pose_landmarks), len(names["whole"].face_blendshapes)) == (33, 52)
    assert names["wrist"].x is not None
