"""FaceLandmarker: 478 points of faces, their blendshapes and poses."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gles_apps.tasks.components.containers import (
    Category,
    Drawn,
    NormalizedLandmark,
    Row,
    points_row,
)
from gles_apps.tasks.image import Image
from gles_apps.tasks.network import PictureNetwork
from gles_apps.tasks.options import VisionTaskOptions
from gles_apps.tasks.vision.connections import FaceLandmarksConnections as FaceLandmarksConnections
from gles_apps.tasks.vision.drawing_utils import draw_points, draw_ring
from gles_apps.tasks.vision.finding import Landmarker, Reader, has_outputs, normalized, reader_of
from gles_apps.vision.detection import FACE_DETECTOR, FACE_DETECTOR_FULL_RANGE
from gles_apps.vision.drawing import Drawing
from gles_apps.vision.geometry import FaceModel, face_pose
from gles_apps.vision.landmarks import FACE, Landmarks
from gles_apps.vision.regions import Region
from gles_apps.vision.skeletons import FACE_EDGES, LEFT_IRIS, RIGHT_IRIS
from gles_apps.vision.tracking import Tracker
from gles_apps.vision.triangles import face_mesh_edges
from gles_delegate import ModelError
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array
from gles_delegate.support.closing import on_error

BLENDSHAPE_POINTS = (
    0, 1, 4, 5, 6, 7, 8, 10, 13, 14, 17, 21, 33, 37, 39, 40, 46, 52, 53, 54, 55, 58, 61, 63, 65,
    66, 67, 70, 78, 80, 81, 82, 84, 87, 88, 91, 93, 95, 103, 105, 107, 109, 127, 132, 133, 136,
    144, 145, 146, 148, 149, 150, 152, 153, 154, 155, 157, 158, 159, 160, 161, 162, 163, 168, 172,
    173, 176, 178, 181, 185, 191, 195, 197, 234, 246, 249, 251, 263, 267, 269, 270, 276, 282, 283,
    284, 285, 288, 291, 293, 295, 296, 297, 300, 308, 310, 311, 312, 314, 317, 318, 321, 323, 324,
    332, 334, 336, 338, 356, 361, 362, 365, 373, 374, 375, 377, 378, 379, 380, 381, 382, 384, 385,
    386, 387, 388, 389, 390, 397, 398, 400, 402, 405, 409, 415, 454, 466, 468, 469, 470, 471, 472,
    473, 474, 475, 476, 477,
)  # fmt: skip
"""The points that the network of blendshapes sees (kLandmarksSubsetIdxs in MediaPipe's
face_blendshapes_graph.cc)."""

FACE_DETECTORS = (FACE_DETECTOR, FACE_DETECTOR_FULL_RANGE)
GEOMETRY = "geometry_pipeline_metadata_landmarks.binarypb"


class Blendshapes(enum.IntEnum):
    """Facial expressions, in the order of the network's output."""

    NEUTRAL = 0
    BROW_DOWN_LEFT = 1
    BROW_DOWN_RIGHT = 2
    BROW_INNER_UP = 3
    BROW_OUTER_UP_LEFT = 4
    BROW_OUTER_UP_RIGHT = 5
    CHEEK_PUFF = 6
    CHEEK_SQUINT_LEFT = 7
    CHEEK_SQUINT_RIGHT = 8
    EYE_BLINK_LEFT = 9
    EYE_BLINK_RIGHT = 10
    EYE_LOOK_DOWN_LEFT = 11
    EYE_LOOK_DOWN_RIGHT = 12
    EYE_LOOK_IN_LEFT = 13
    EYE_LOOK_IN_RIGHT = 14
    EYE_LOOK_OUT_LEFT = 15
    EYE_LOOK_OUT_RIGHT = 16
    EYE_LOOK_UP_LEFT = 17
    EYE_LOOK_UP_RIGHT = 18
    EYE_SQUINT_LEFT = 19
    EYE_SQUINT_RIGHT = 20
    EYE_WIDE_LEFT = 21
    EYE_WIDE_RIGHT = 22
    JAW_FORWARD = 23
    JAW_LEFT = 24
    JAW_OPEN = 25
    JAW_RIGHT = 26
    MOUTH_CLOSE = 27
    MOUTH_DIMPLE_LEFT = 28
    MOUTH_DIMPLE_RIGHT = 29
    MOUTH_FROWN_LEFT = 30
    MOUTH_FROWN_RIGHT = 31
    MOUTH_FUNNEL = 32
    MOUTH_LEFT = 33
    MOUTH_LOWER_DOWN_LEFT = 34
    MOUTH_LOWER_DOWN_RIGHT = 35
    MOUTH_PRESS_LEFT = 36
    MOUTH_PRESS_RIGHT = 37
    MOUTH_PUCKER = 38
    MOUTH_RIGHT = 39
    MOUTH_ROLL_LOWER = 40
    MOUTH_ROLL_UPPER = 41
    MOUTH_SHRUG_LOWER = 42
    MOUTH_SHRUG_UPPER = 43
    MOUTH_SMILE_LEFT = 44
    MOUTH_SMILE_RIGHT = 45
    MOUTH_STRETCH_LEFT = 46
    MOUTH_STRETCH_RIGHT = 47
    MOUTH_UPPER_UP_LEFT = 48
    MOUTH_UPPER_UP_RIGHT = 49
    NOSE_SNEER_LEFT = 50
    NOSE_SNEER_RIGHT = 51


_capitalized = [shape.name.title().replace("_", "") for shape in Blendshapes]
BLENDSHAPE_NAMES = ("_neutral", *(name[0].lower() + name[1:] for name in _capitalized[1:]))
"""As in results, such as browDownLeft."""


@dataclass
class FaceLandmarkerResult(Drawn):
    """Faces in a picture.

    Attributes:
        face_landmarks: 478 points of each face; 468 without irises.
        face_blendshapes: 52 expressions of each face and their scores, if they are wanted.
        facial_transformation_matrixes: Float32 [4, 4] of each face, from a face model to the
            camera, in centimeters, if they are wanted.
    """

    face_landmarks: list[list[NormalizedLandmark]]
    face_blendshapes: list[list[Category]]
    facial_transformation_matrixes: list[Array]

    def draw(self, drawing: Drawing) -> None:
        """Draw a mesh of triangles, contours and irises."""
        for face in self.face_landmarks:
            draw_points(drawing, face, face_mesh_edges(), lines=(255, 255, 255, 110), width=0.6)
            draw_points(drawing, face, FACE_EDGES, lines=(0, 240, 190))
            if len(face) > 468:
                for iris in (RIGHT_IRIS, LEFT_IRIS):
                    draw_ring(drawing, face, [start for start, _ in iris], (255, 220, 0))

    def rows(self, size: Size) -> list[Row]:
        """A row for each face, in pixels of a picture of this height and width."""
        return [points_row(face, size) for face in self.face_landmarks]


@dataclass
class FaceLandmarkerOptions(VisionTaskOptions):
    """Options of `FaceLandmarker`.

    Attributes:
        base_options: The bundle: face_landmarker.task.
        running_mode: Single pictures, a video or a live stream.
        num_faces: Maximum number of faces. Landmarks are smoothed in streams only if it is 1.
        min_face_detection_confidence: Minimum score of a detection.
        min_face_presence_confidence: A face is lost if its presence is not higher.
        min_tracking_confidence: A detection whose region overlaps a tracked face's by more
            (intersection over union) replaces it.
        output_face_blendshapes: Whether to return expressions.
        output_facial_transformation_matrixes: Whether to return poses.
        result_callback: Called in a live stream with the result, the picture and its time in ms.
        rigid_smoothing: Smooth all points alike, which keeps the shape of a turning face; see
            `OneEuro.rigid`. Not MediaPipe's.
    """

    num_faces: int = 1
    min_face_detection_confidence: float = 0.5
    min_face_presence_confidence: float = 0.5
    min_tracking_confidence: float = 0.5
    output_face_blendshapes: bool = False
    output_facial_transformation_matrixes: bool = False
    result_callback: Callable[[FaceLandmarkerResult, Image, int], None] | None = None
    rigid_smoothing: bool = False


class FaceLandmarker(Landmarker[FaceLandmarkerResult]):
    """Finds faces and their points.

    Examples:
        >>> path = "face_landmarker.task"
        >>> with mp.tasks.vision.FaceLandmarker.create_from_model_path(path) as landmarker:
        ...     result = landmarker.detect(mp.Image.create_from_file("face.jpg"))
        >>> nose = result.face_landmarks[0][1]
    """

    _options_type = FaceLandmarkerOptions

    def __init__(self, options: FaceLandmarkerOptions) -> None:
        super().__init__(options)
        self._expressions: Expressions | None = None
        self._model: FaceModel | None = None
        with on_error(self.close):
            confidence = options.min_face_detection_confidence
            finder = self._find_with("face_detector.tflite", FACE_DETECTORS, confidence)
            mesh = face_reader(self._network("face_landmarks_detector.tflite"))
            most = at_least_one("num_faces", options.num_faces)
            overlap = options.min_tracking_confidence
            presence = options.min_face_presence_confidence
            self._follow(finder, mesh, Tracker(FACE, most, overlap, presence))
            if options.output_face_blendshapes:
                self._expressions = Expressions(self._network("face_blendshapes.tflite"), mesh)
            if options.output_facial_transformation_matrixes:
                self._model = FaceModel.parse(bytes(self.assets.read(GEOMETRY)))

    def _process(self, image: Image, region: Region, time_ms: int | None) -> FaceLandmarkerResult:
        faces = [face for face, _ in self._seen(image, region, time_ms)]
        shapes = [self._expressions(face) for face in faces] if self._expressions else []
        poses: list[Array] = []
        if self._model is not None:
            height, width = image.size
            shares = (face.points / (width, height, width) for face in faces)
            found = (face_pose(points, self._model, image.size) for points in shares)
            poses = [matrix.astype(np.float32) for matrix in found if matrix is not None]
        return FaceLandmarkerResult([normalized(face, image) for face in faces], shapes, poses)


class Expressions:
    """The network of blendshapes, for faces of this reader.

    Raises:
        ModelError: It is another network, or the faces have no irises (478 points).
    """

    def __init__(self, network: PictureNetwork, faces: Reader) -> None:
        shape = network.inputs[0]["shape"].tolist()
        if shape != [1, len(BLENDSHAPE_POINTS), 2] or has_outputs(faces.network, FACE_OUTPUTS[0]):
            raise ModelError(
                f"expected blendshapes of {len(BLENDSHAPE_POINTS)} of 478 points, found an "
                f"input {shape} and a face network with outputs {faces.network.shapes}"
            )
        self._network = network

    def __call__(self, face: Landmarks) -> list[Category]:
        """52 expressions and their scores."""
        points = face.points[list(BLENDSHAPE_POINTS), :2].astype(np.float32)
        scores = self._network.run({0: points[np.newaxis]})[0].ravel().tolist()
        pairs = enumerate(zip(BLENDSHAPE_NAMES, scores, strict=True))
        return [Category(i, score, None, name) for i, (name, score) in pairs]


def face_reader(network: PictureNetwork) -> Reader:
    """Raises ModelError if this is not a face landmark network."""
    face = reader_of(network, FACE, "468 or 478 points of a face", *FACE_OUTPUTS)
    return replace(face, depth=_face_depth)


def _face_depth(region: Region, picture: Size) -> float:
    """Depths scale like the region's upper side in shares of the picture's sides
    (CalculateZScale in MediaPipe's landmark_projection_calculator.cc).
    """
    angle = math.radians(region.rotation)
    return math.hypot(math.cos(angle), math.sin(angle) * picture[1] / picture[0])


FACE_OUTPUTS = ((1404, 1), (1434, 1), (1404, 160, 142, 142, 10, 10, 1))
"""Numbers in the outputs of face networks without irises, with them, and with attention. The one in
Google's face_landmarker.task has a third output, which MediaPipe ignores."""


def at_least_one(name: str, number: int) -> int:
    """The limit of objects; raises RuntimeError below 1, as MediaPipe does."""
    if number < 1:
        raise RuntimeError(
            f"expected {name} of 1 or more, found {number}: max_vec_size should be greater than "
            "or equal to 1."
        )
    return number
