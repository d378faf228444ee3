"""Detected objects: boxes, non-maximum suppression, and MediaPipe's ops on landmarks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, cos, sin

from gles_delegate.ops.lib.elementwise import inputs
from gles_delegate.ops.lib.grid import WORK_GROUP, by_texel, make_grid, with_loop_lengths
from gles_delegate.ops.lib.index import rank_4
from gles_delegate.ops.lib.node import NodeView, Unsupported, one_integer
from gles_delegate.ops.lib.options import Bool, FlexOptions, Float32, Int32, Ints, Options
from gles_delegate.ops.lib.packing import vector
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import Target, View, viewed
from gles_delegate.shaders.dispatch import (
    Const,
    Define,
    Dispatch,
    Grid,
    Operand,
    Step,
    Value,
    constants_of,
)

MAX_LANES = 2 * WORK_GROUP
"""Maximum number of invocations of the work group that selects boxes."""
CORNERS, CLASS, SCORE, INDEX, COUNT = range(5)
"""FIELD in glsl/detections.glsl."""
MIN_UNIT = 1e-30
"""The smallest unit of offsets of boxes: a GPU may flush denormals, and 0 / 0 is NaN."""


class DetectionOptions(FlexOptions):
    max_detections: Int32 = 0
    max_classes_per_detection: Int32 = 0
    detections_per_class: Int32 = 100
    use_regular_nms: Bool = False
    nms_score_threshold: Float32 = 0.0
    nms_iou_threshold: Float32 = 0.0
    num_classes: Int32 = 0
    y_scale: Float32 = 0.0
    x_scale: Float32 = 0.0
    h_scale: Float32 = 0.0
    w_scale: Float32 = 0.0


@dataclass(frozen=True)
class Candidates:
    """Boxes as glsl/lib/candidates.glsl keeps them, and the dispatches that select among them.

    Attributes:
        scores: [boxes, scores of a box] in any shape.
        first: The first of the classes in the scores of a box.
        most: Selections.
    """

    node: NodeView
    scores: Operand
    boxes: int
    classes: int
    first: int
    most: int

    @cached_property
    def state(self) -> Value:
        """The texels that the shaders pass on; raises `Unsupported` if they are too many."""
        texels = self.classes * self.blocks + self.classes + self.most + 1
        state = self.node.scratch((texels, 4), "state", "int")
        if state.nbytes > self.node.limits.block_bytes:
            raise Unsupported(f"{self.most} of {self.boxes} boxes in {self.classes} classes")
        return state

    @property
    def blocks(self) -> int:
        return ceil(self.boxes / 4)

    @property
    def _defines(self) -> dict[str, Define]:
        return {"CLASSES": self.classes, "BOXES": self.boxes, "MOST": self.most}

    @property
    def _score_defines(self) -> dict[str, Define]:
        return {
            **self._defines,
            **self.scores.size_defines("SCORES"),
            "SCORES_PER_BOX": self.scores.elements // max(self.boxes, 1),
            "FIRST_CLASS": self.first,
        }

    def keys(self, limits: Operand, labels: int, above: bool = False) -> Dispatch:
        """The candidates; each takes `labels` scores of a box."""
        defines = self._score_defines | {"LARGEST_OF": labels, "ABOVE": int(above)}
        grid = make_grid(self.classes * self.blocks, 1, self.node.limits)
        reads, passes = (self.scores, limits), 4 * (labels + 1)
        keys = self.node.dispatch("candidates", reads, self.state, grid, defines, passes=passes)
        keys = replace(keys, pixels=(0, self.classes * self.blocks))
        return with_loop_lengths(keys, self.node.limits, "LARGEST_OF")

    def selected(
        self, corners: Operand, limits: Operand, each: int, soft: bool = False
    ) -> Iterator[Dispatch]:
        """The selections, `each` per class, in dispatches within the device's limit of loops."""
        device = self.node.limits
        lanes = MAX_LANES if device.profile.large_tiles else WORK_GROUP
        if not device.profile.occupancy:
            lanes = device.simd_lanes
        at_first, once = self._passes(lanes)
        while at_first + once > device.loop_passes and lanes < MAX_LANES:
            lanes *= 2
            at_first, once = self._passes(lanes)
        grid = Grid(1, 1, 1, 1, reduction_lanes=lanes)
        fitting = max((device.loop_passes - at_first) // once, 1)
        for start in range(0, max(self.most, 1), fitting):
            count = min(fitting, self.most - start)
            defines: dict[str, Define] = {
                **self._defines, "START": start, "COUNT": count, "PER_CLASS": each,
                "SOFT": int(soft),
            }  # fmt: skip
            dispatch = self.node.dispatch(
                "non_max_suppression", (corners, limits), self.state, grid, defines,
                passes=count * once + (0 if start else at_first),
            )  # fmt: skip
            yield replace(dispatch, partial=True)

    def _passes(self, lanes: int) -> tuple[int, int]:
        """Passes through loops of glsl/non_max_suppression.glsl: at first, and per selection."""
        join = lanes.bit_length()
        scan = ceil(self.blocks / lanes) + 1 + join
        at_first = self.classes * (scan + 1) + 1 + join
        return at_first, scan + ceil(self.classes / lanes) + 2 + join

    def field(
        self,
        field: int,
        output: Value,
        reads: tuple[Operand, ...] = (),
        ranks: int = 0,
        per_box: int = 1,
        labels: int = 0,
    ) -> Dispatch:
        """A field of the selections.

        Args:
            per_box: Elements per box; `ranks` of them are of the best of its `labels`.
        """
        defines = self._score_defines
        defines |= {"FIELD": field, "PER_BOX": per_box, "RANKS": ranks, "LABELS": labels}
        if ranks and not reads:
            reads = (self.scores,)
        depth = 2 * ranks.bit_length() + 1
        loops = ranks + ranks // 2 * depth + labels * depth + ranks * depth + 4
        reads, passes = (self.state, *reads), 4 * loops if labels else 4
        dispatch = by_texel(self.node, "detections", reads, output, defines, passes=passes)
        return with_loop_lengths(dispatch, self.node.limits, "LABELS")


@op("TFLite_Detection_PostProcess", options=DetectionOptions)
def detection_post_process(node: NodeView, options: DetectionOptions) -> list[Step]:
    """The best-scored of overlapping boxes, decoded relative to anchors.

    Regular suppression selects in each class; fast suppression selects by the best class of each
    box, and returns several classes per box.
    """
    encodings, scores, anchors = _encoded_boxes(node, options.num_classes)
    if any(node.graph.tensors[i].dtype != "float32" for i in node.outputs):
        raise Unsupported("outputs that are not float32")
    boxes, labels = encodings.shape[1], options.num_classes
    per_box, most = options.max_classes_per_detection, options.max_detections
    regular, each = options.use_regular_nms, min(options.detections_per_class, most)
    if (
        min(labels, per_box) < 1
        or most < 0
        or (regular and each < 1)
        or not 0 < options.nms_iou_threshold <= 1
    ):
        raise Unsupported(f"{options}, which LiteRT refuses")
    classes, first = labels if regular else 1, scores.channels - labels
    candidates = Candidates(node, scores, boxes, classes, first, most)
    thresholds = (options.nms_score_threshold, options.nms_iou_threshold, 0.0)
    limits = Const(vector, (), (4,), thresholds)
    corners = node.scratch((boxes, 4), "corners")
    scales: dict[str, Define] = {
        "Y_SCALE": options.y_scale,
        "X_SCALE": options.x_scale,
        "H_SCALE": options.h_scale,
        "W_SCALE": options.w_scale,
    }
    units = (options.y_scale, options.x_scale, options.h_scale, options.w_scale)
    if min(map(abs, units)) < MIN_UNIT:
        raise Unsupported(f"boxes in units of {[*units]}; expected none nearer 0 than {MIN_UNIT}")
    grid = make_grid(boxes, 1, node.limits)
    shape, ranks = (1, most * per_box), 0 if regular else min(per_box, labels)
    per_box = 1 if regular else per_box
    return [
        node.dispatch("decode_boxes", (encodings, anchors), corners, grid, scales),
        candidates.keys(limits, 1 if regular else labels),
        *candidates.selected(corners, limits, each if regular else most),
        candidates.field(CORNERS, node.output((*shape, 4)), (corners,), ranks, per_box),
        candidates.field(CLASS, node.output(shape, 1), (), ranks, per_box, labels),
        candidates.field(SCORE, node.output(shape, 2), (), ranks, per_box, labels),
        candidates.field(COUNT, node.output((1,), 3)),
    ]


def _encoded_boxes(node: NodeView, labels: int) -> tuple[Operand, Operand, Operand]:
    """The encodings [1, boxes, 4 or more], the scores of each class, and the anchors [boxes, 4]."""
    if len(node.inputs) != 3 or len(node.outputs) != 4:
        raise Unsupported(f"{len(node.inputs)} inputs and {len(node.outputs)} outputs")
    encodings, scores, anchors = (inputs(node, (i,))[0] for i in range(3))
    for i, expected in enumerate((node.dtype(0), node.dtype(1), node.dtype(0))):
        if node.dtype(i) != expected or expected not in ("float32", "uint8"):
            raise Unsupported(f"input {i} is {node.dtype(i)}; expected float32 or uint8")
    boxes = encodings.shape[1] if len(encodings.shape) == 3 else -1
    if (
        encodings.shape[:2] != (1, boxes)
        or encodings.channels < 4
        or scores.shape not in ((1, boxes, labels), (1, boxes, labels + 1))
        or anchors.shape != (boxes, 4)
        or not boxes
    ):
        shapes = [list(x.shape) for x in (encodings, scores, anchors)]
        raise Unsupported(f"boxes, scores and anchors of shapes {shapes} of {labels} classes")
    return encodings, scores, anchors


@op("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", sized_by=(2,))
def non_max_suppression(node: NodeView, options: Options) -> list[Step]:
    """The indices of boxes that overlap no better one, padded with zeros, and their number."""
    soft, most = len(node.inputs) == 6, one_integer(node, 2, "the number of boxes")
    if len(node.inputs) not in (5, 6) or len(node.outputs) != 2 + soft:
        raise Unsupported(f"{len(node.inputs)} inputs and {len(node.outputs)} outputs")
    corners, scores, *thresholds = inputs(node, (0, 1, 4, 3, 5)[: 4 + soft])
    if any(node.dtype(i) != "float32" for i in (0, 1, 3, 4)):
        raise Unsupported("quantized boxes, scores or thresholds; expected float32")
    boxes = scores.elements
    if (
        corners.shape != (boxes, 4)
        or scores.shape != (boxes,)
        or not boxes
        or most < 0
        or any(x.shape for x in thresholds)
    ):
        shapes = [list(x.shape) for x in (corners, scores, *thresholds)]
        raise Unsupported(f"{most} of boxes, scores and thresholds of shapes {shapes}")
    candidates = Candidates(node, scores, boxes, 1, 0, most)
    limits, steps = _joined(node, thresholds)
    steps += [
        candidates.keys(limits, 1, above=True),
        *candidates.selected(corners, limits, most, soft=True),
        candidates.field(INDEX, node.output((most,), 0, "int", "int32")),
        candidates.field(COUNT, node.output((), 1 + soft, "int", "int32")),
    ]
    if soft:
        steps.append(candidates.field(SCORE, node.output((most,), 1)))
    return steps


def _joined(node: NodeView, scalars: list[Operand]) -> tuple[Operand, list[Step]]:
    """Scalars in the lanes of one texel, and the steps that put them there."""
    tensors = tuple(t for x in constants_of(scalars) for t in x.tensors)
    if len(tensors) == len(scalars):
        return Const(vector, tensors, (len(scalars),)), []
    joined, scalar = node.scratch((len(scalars),), "thresholds"), View((1,), (1,))
    targets = [Target(1, 1, 1, 1, out_channel=lane) for lane in range(len(scalars))]
    return joined, [
        viewed(node, x, joined, scalar, target) for x, target in zip(scalars, targets, strict=True)
    ]


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
    """The matrix from pixels of an upright crop to pixels around landmarks."""
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
