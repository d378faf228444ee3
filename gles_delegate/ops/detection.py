"""Boxes of detected objects: TFLite_Detection_PostProcess and NON_MAX_SUPPRESSION."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from gles_delegate.dispatch import Const, Define, Dispatch, Grid, Operand, Step, Value
from gles_delegate.model.graph import Array
from gles_delegate.ops.lib.elementwise import inputs
from gles_delegate.ops.lib.flexbuffer import FlexOptions
from gles_delegate.ops.lib.grid import WORK_GROUP, make_grid
from gles_delegate.ops.lib.node import NodeView, Unsupported, one_integer
from gles_delegate.ops.lib.options import Bool, Float32, Int32, Options
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import Region, View, view

MOST_LANES = 2 * WORK_GROUP
"""Most invocations of the work group that selects boxes."""
CORNERS, CLASS, SCORE, INDEX, COUNT = range(5)
"""FIELD in glsl/detections.glsl."""


@dataclass(frozen=True)
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
    """How glsl/lib/candidates.glsl keeps boxes, and what it selects of them.

    Attributes:
        scores: [boxes, `per_box`] in any shape.
        first: The first of the classes in the scores of a box.
        most: Selections.
        state: The texels of the shaders.
    """

    scores: Operand
    boxes: int
    classes: int
    per_box: int
    first: int
    most: int
    state: Value

    @classmethod
    def of(
        cls, node: NodeView, scores: Operand, boxes: int, classes: int, first: int, most: int
    ) -> Candidates:
        per_box = scores.elements // max(boxes, 1)
        texels = classes * ceil(boxes / 4) + classes + most + 1
        state = node.scratch((texels, 4), "state", "int")
        if state.nbytes > node.limits.block_bytes:
            raise Unsupported(f"{most} selections from {boxes} boxes in {classes} classes")
        return cls(scores, boxes, classes, per_box, first, most, state)

    @property
    def blocks(self) -> int:
        return ceil(self.boxes / 4)

    @property
    def defines(self) -> dict[str, Define]:
        return {"CLASSES": self.classes, "BOXES": self.boxes, "MOST": self.most}

    @property
    def score_defines(self) -> dict[str, Define]:
        return {
            "IN_CHANNELS": max(self.scores.channels, 1),
            "IN_PIXELS": self.scores.pixels,
            "SCORES_PER_BOX": self.per_box,
            "FIRST_CLASS": self.first,
        }


@op("TFLite_Detection_PostProcess", options=DetectionOptions)
def detection_post_process(node: NodeView, options: DetectionOptions) -> list[Step]:
    """The boxes with the best scores of those that overlap, from encodings relative to anchors.

    Regular suppression selects in each class; fast suppression by the best class of each box, and
    gives several classes of it.
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
    found = Candidates.of(node, scores, boxes, classes, first, most)
    thresholds = (options.nms_score_threshold, options.nms_iou_threshold, 0.0)
    limits = Const(numbers, (), (4,), thresholds)
    corners = node.scratch((boxes, 4), "corners")
    scales: dict[str, Define] = {
        "Y_SCALE": options.y_scale,
        "X_SCALE": options.x_scale,
        "H_SCALE": options.h_scale,
        "W_SCALE": options.w_scale,
    }
    if 0.0 in scales.values():
        raise Unsupported(f"boxes in units of {[*scales.values()]}; expected none of 0")
    grid = make_grid(boxes, 1, node.limits)
    shape, ranks = (1, most * per_box), 0 if regular else min(per_box, labels)
    per_box = 1 if regular else per_box
    return [
        node.dispatch("decode_boxes", (encodings, anchors), corners, grid, scales),
        _keys(node, found, limits, 1 if regular else labels),
        *_selected(node, found, corners, limits, each if regular else most),
        _field(node, found, CORNERS, node.output((*shape, 4)), (corners,), ranks, per_box),
        _field(node, found, CLASS, node.output(shape, 1), (), ranks, per_box, labels),
        _field(node, found, SCORE, node.output(shape, 2), (), ranks, per_box, labels),
        _field(node, found, COUNT, node.output((1,), 3)),
    ]


def _encoded_boxes(node: NodeView, labels: int) -> tuple[Operand, Operand, Operand]:
    """The encodings [1, boxes, 4 or more], the scores of each class, and the anchors [boxes, 4].

    Raises:
        Unsupported: They have other shapes or types.
    """
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


@op("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", max_version=1, sized_by=(2,))
def non_max_suppression(node: NodeView, options: Options) -> list[Step]:
    """The indices of boxes that overlap no better one, zeros, and how many there are."""
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
    found = Candidates.of(node, scores, boxes, 1, 0, most)
    limits, steps = _joined(node, thresholds)
    steps += [
        _keys(node, found, limits, 1, above=True),
        *_selected(node, found, corners, limits, most, soft=True),
        _field(node, found, INDEX, node.output((most,), 0, "int", "int32")),
        _field(node, found, COUNT, node.output((), 1 + soft, "int", "int32")),
    ]
    if soft:
        steps.append(_field(node, found, SCORE, node.output((most,), 1)))
    return steps


def numbers(*values: Array | float) -> Array:
    """Scalars as one texel."""
    return phwc4(np.array([float(value) for value in values], np.float32))


def _joined(node: NodeView, scalars: list[Operand]) -> tuple[Operand, list[Step]]:
    """Scalars in the lanes of one texel, and the steps that put them there."""
    tensors = tuple(t for x in scalars if isinstance(x, Const) for t in x.tensors)
    if len(tensors) == len(scalars):
        return Const(numbers, tensors, (len(scalars),)), []
    joined = node.scratch((len(scalars),), "thresholds")
    steps: list[Step] = [
        view(
            x, joined, View((1,), (1,)), node.limits, node.index,
            Region(1, 1, 1, 1, out_channel=lane),
        )
        for lane, x in enumerate(scalars)
    ]  # fmt: skip
    return joined, steps


def _keys(
    node: NodeView, found: Candidates, limits: Operand, labels: int, above: bool = False
) -> Dispatch:
    """The candidates; each takes `labels` scores of a box."""
    defines = found.defines | found.score_defines | {"LARGEST_OF": labels, "ABOVE": int(above)}
    grid = make_grid(found.classes * found.blocks, 1, node.limits)
    reads = (found.scores, limits)
    passes = 4 * (labels + 1)
    keys = node.dispatch("candidates", reads, found.state, grid, defines, passes=passes)
    return keys if node.limits.profile.short_loops else keys.sized("LARGEST_OF")


def _selected(
    node: NodeView,
    found: Candidates,
    corners: Operand,
    limits: Operand,
    each: int,
    soft: bool = False,
) -> Iterator[Dispatch]:
    """The selections, `each` in a class, in enough dispatches for the device's limit of loops."""
    profile = node.limits.profile
    lanes = MOST_LANES if profile.large_tiles else WORK_GROUP
    if not profile.occupancy:
        lanes = node.limits.simd_lanes
    at_first, once = _passes(found, lanes)
    while at_first + once > node.limits.loop_passes and lanes < MOST_LANES:
        lanes *= 2
        at_first, once = _passes(found, lanes)
    grid = Grid(1, 1, 1, 1, reduction_lanes=lanes)
    fitting = max((node.limits.loop_passes - at_first) // once, 1)
    for start in range(0, max(found.most, 1), fitting):
        count = min(fitting, found.most - start)
        defines: dict[str, Define] = {
            **found.defines, "START": start, "COUNT": count, "PER_CLASS": each, "SOFT": int(soft),
        }  # fmt: skip
        passes = count * once + (0 if start else at_first)
        dispatch = node.dispatch(
            "non_max_suppression", (corners, limits), found.state, grid, defines, passes=passes
        )
        yield replace(dispatch, partial=True)


def _passes(found: Candidates, lanes: int) -> tuple[int, int]:
    """Passes through loops of glsl/non_max_suppression.glsl: at first, and for each selection."""
    join = lanes.bit_length()
    scan = ceil(found.blocks / lanes) + 1 + join
    at_first = found.classes * (scan + 1) + 1 + join
    return at_first, scan + ceil(found.classes / lanes) + 2 + join


def _field(
    node: NodeView,
    found: Candidates,
    field: int,
    output: Value,
    reads: tuple[Operand, ...] = (),
    ranks: int = 0,
    per_box: int = 1,
    labels: int = 0,
) -> Dispatch:
    """A field of what was selected.

    Args:
        per_box: Elements for each box, of which `ranks` are of the best of its `labels`.
    """
    defines = found.defines | found.score_defines
    defines |= {"FIELD": field, "PER_BOX": per_box, "RANKS": ranks, "LABELS": labels}
    if ranks and not reads:
        reads = (found.scores,)
    depth = 2 * ranks.bit_length() + 1
    passes = 4 * (ranks + ranks // 2 * depth + labels * depth + ranks * depth + 4) if labels else 4
    grid = make_grid(output.pixels, output.slices, node.limits)
    reads = (found.state, *reads)
    of_field = node.dispatch("detections", reads, output, grid, defines, passes=passes)
    return of_field if node.limits.profile.short_loops else of_field.sized("LABELS")
