"""MediaPipe's ops that follow landmarks: crops around them, and landmarks of crops put back."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, sin

from gles_delegate.dispatch import Define, Operand, Step
from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.index import rank_4
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import FlexOptions, Float32, Int32, Ints, Options
from gles_delegate.ops.lib.registry import op


@dataclass(frozen=True)
class MatrixOptions(FlexOptions):
    subset_idxs: Ints = ()
    left_rotation_idx: Int32 = -1
    right_rotation_idx: Int32 = -1
    target_rotation_radians: Float32 = 0.0
    output_height: Int32 = 0
    output_width: Int32 = 0
    scale_x: Float32 = 0.0
    scale_y: Float32 = 0.0


@op("Landmarks2TransformMatrix", options=MatrixOptions, max_version=2)
def landmarks_to_transform_matrix(node: NodeView, options: MatrixOptions) -> list[Step]:
    """The matrix from the pixels of an upright crop to those around some landmarks."""
    _require_version_2(node)
    x = node.input(0)
    if len(x.shape) != 3 or (x.shape[0], x.shape[2]) != (1, 3):
        raise Unsupported(f"landmarks of shape {list(x.shape)}; expected [1, landmarks, 3]")
    used = (options.left_rotation_idx, options.right_rotation_idx, *options.subset_idxs)
    sizes = (options.output_height, options.output_width, options.scale_x, options.scale_y)
    if len(used) < 3 or min(used) < 0 or max(used) >= x.pixels or not min(sizes) > 0:
        raise Unsupported(f"{options} for {x.pixels} landmarks")
    output = node.output((1, 4, 4))
    defines: dict[str, Define] = {
        "SUBSET": options.subset_idxs,
        "SUBSET_SIZE": len(options.subset_idxs),
        "LEFT": options.left_rotation_idx,
        "RIGHT": options.right_rotation_idx,
        "TARGET_COS": cos(options.target_rotation_radians),
        "TARGET_SIN": sin(options.target_rotation_radians),
        "CROP_H": float(options.output_height),
        "CROP_W": float(options.output_width),
        "SCALE_X": options.scale_x,
        "SCALE_Y": options.scale_y,
    }
    name, passes = "landmarks_to_transform_matrix", len(options.subset_idxs)
    return [by_texel(node, name, (x,), output, defines, passes=passes)]


@dataclass(frozen=True)
class CropOptions(FlexOptions):
    output_height: Int32 = 0
    output_width: Int32 = 0


@op("TransformTensorBilinear", options=CropOptions, max_version=2)
def transform_tensor_bilinear(node: NodeView, options: CropOptions) -> list[Step]:
    _require_version_2(node)
    x, matrix = node.input(0), _matrix(node)
    batch, height, width, channels = rank_4(x.shape, "input 0")
    if batch != 1 or min(options.output_height, options.output_width) < 1:
        raise Unsupported(f"{list(x.shape)} cropped to {options}; expected batch 1 and a size")
    output = node.output((1, options.output_height, options.output_width, channels))
    defines: dict[str, Define] = {"IN_H": height, "IN_W": width, "OUT_W": options.output_width}
    return [by_texel(node, "transform_tensor_bilinear", (x, matrix), output, defines)]


@op("TransformLandmarks", max_version=2)
def transform_landmarks(node: NodeView, options: Options) -> list[Step]:
    _require_version_2(node)
    x, matrix = node.input(0), _matrix(node)
    if len(x.shape) != 3 or x.shape[0] != 1 or x.shape[2] not in (2, 3):
        raise Unsupported(f"landmarks of shape {list(x.shape)}; expected [1, landmarks, 2 or 3]")
    output = node.output(x.shape)
    return [by_texel(node, "transform_landmarks", (x, matrix), output, {})]


def _matrix(node: NodeView) -> Operand:
    matrix = node.input(1)
    if matrix.shape != (1, 4, 4):
        raise Unsupported(f"a matrix of shape {list(matrix.shape)}; expected [1, 4, 4]")
    return matrix


def _require_version_2(node: NodeView) -> None:
    if node.node.version != 2:
        raise Unsupported(f"version {node.node.version} of the op, of other options; expected 2")
