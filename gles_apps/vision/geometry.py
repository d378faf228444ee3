"""The pose of a face in space, from its landmarks and a model of a face.

It follows MediaPipe's face_geometry/libs: geometry_pipeline.cc and procrustes_solver.cc, for
landmarks of a landmark network, the origin in the upper left corner, and the camera of
face_geometry_from_landmarks_graph.cc.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array
from gles_delegate.model.protobuf import Message, ProtobufError

FIELD_OF_VIEW = 63.0
"""The camera's vertical field of view, in degrees."""
NEAR = 1.0
"""Distance of the plane that pictures are projected to, in centimeters."""
COMPACT = 1e-3
"""Faces whose points are all this close to their mean, in shares of the picture, have no pose."""


@dataclass(frozen=True, eq=False)
class FaceModel:
    """A face in centimeters.

    Attributes:
        points: Float64 [landmarks, 3].
        weights: Float64 [landmarks], how much each point counts.
    """

    points: Array
    weights: Array

    @classmethod
    def parse(cls, data: bytes) -> FaceModel:
        """From geometry_pipeline_metadata_landmarks.binarypb of a face_landmarker.task
        (GeometryPipelineMetadata in geometry_pipeline_metadata.proto and mesh_3d.proto).

        Raises:
            ValueError: The data is damaged.
        """
        try:
            metadata = Message(data)
            vertices = metadata.message(1).floats(3)
            points = vertices.reshape(-1, 5)[:, :3]  # x, y, z, u, v
            weights = np.zeros(len(points))
            for basis in metadata.messages(2):
                weights[basis.integer(1)] = basis.floats(2)[0]
        except (ProtobufError, ValueError, IndexError) as error:
            raise ValueError(f"damaged geometry of a face: {error}") from error
        if not (np.isfinite(points).all() and np.isfinite(weights).all() and weights.sum() > 0):
            raise ValueError("damaged geometry of a face: expected finite points with weights")
        return cls(points.astype(np.float64), weights)


def face_pose(landmarks: Array, model: FaceModel, picture: Size) -> Array | None:
    """The matrix [4, 4] from a face model's space to the camera's, in centimeters.

    Args:
        landmarks: [landmarks of the model or more, 3] in shares of the picture; z like x.
        model: The face.
        picture: Height and width.

    Returns:
        Float64; None if the points nearly coincide, or no pose fits.
    """
    shares = np.asarray(landmarks, np.float64)[: len(model.points)]
    from_mean = shares[:, :2] - shares[:, :2].mean(0)
    if not np.linalg.norm(from_mean, axis=1).max() > COMPACT:
        return None
    height = 2 * NEAR * math.tan(math.radians(FIELD_OF_VIEW) / 2)
    width = picture[1] * height / picture[0]
    screen = shares * (width, height, width)
    screen[:, 1] = height - screen[:, 1]
    screen[:, :2] -= (width / 2, height / 2)
    depth = screen[:, 2].mean()
    try:
        scale = _scale(model, screen * (1, 1, -1))
        scale *= _scale(model, _in_space(screen, depth, scale))
        return fit_similarity(model.points, _in_space(screen, depth, scale), model.weights)
    except np.linalg.LinAlgError:
        return None


def _in_space(screen: Array, depth: float, scale: float) -> Array:
    """Points on the near plane moved to their depths along the camera's rays."""
    z = (screen[:, 2] - depth + NEAR) / scale
    return np.column_stack([screen[:, 0] * z / NEAR, screen[:, 1] * z / NEAR, -z])


def _scale(model: FaceModel, points: Array) -> float:
    return float(np.linalg.norm(fit_similarity(model.points, points, model.weights)[:3, 0]))


def fit_similarity(sources: Array, targets: Array, weights: Array) -> Array:
    """The similarity transform [4, 4] that minimizes the weighted sum of squares of
    ``targets - T(sources)`` (Procrustes; Akca 2003, "Generalized Procrustes Analysis").

    Args:
        sources: [n, 3].
        targets: [n, 3].
        weights: [n], 0 or more.

    Raises:
        numpy.linalg.LinAlgError: No transform with a positive scale fits.
    """
    total = weights.sum()
    center = weights @ sources / total
    centered = (sources - center) * weights[:, np.newaxis]
    left, _, right = np.linalg.svd(targets.T @ centered)
    if np.linalg.det(left) * np.linalg.det(right) < 0:
        left[:, 2] *= -1
    rotation = left @ right
    spread = np.sum(centered * sources)
    scale = np.sum((centered @ rotation.T) * targets) / spread if spread > 1e-9 else 0.0
    if not scale > 1e-9:
        raise np.linalg.LinAlgError("no similarity with a positive scale")
    matrix = np.eye(4)
    matrix[:3, :3] = scale * rotation
    matrix[:3, 3] = weights @ (targets - sources @ matrix[:3, :3].T) / total
    return matrix
