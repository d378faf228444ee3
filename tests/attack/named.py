"""The differences to LiteRT's results that docs/ops.md names under "What is not promised"."""

from math import nan

import numpy as np

from gles_delegate.model.graph import Graph, Node
from gles_delegate.ops.axis import LocalResponseNormalizationOptions
from gles_delegate.ops.elementwise import LeakyRelu
from gles_delegate.ops.randomness import RandomOptions
from gles_delegate.ops.slicing import StridedSliceOptions
from tests.attack.ways import RANDOM, other_shapes
from tests.op_table.case import Case
from tests.support.oracle import TOLERANCE, Arrays, assert_close

COMPARISONS = {"EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"}
RECURRENT = {
    *("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "SVDF"),
    *("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN"),
}
WEIGHTED = {*RECURRENT, "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "CONV_3D", "CONV_3D_TRANSPOSE"}
FARTHEST = 2**16
"""The largest ratio of two factors, or of one and 1, in LiteRT's fixed-point arithmetic."""

WIDEST = 2**47
"""From here on, LiteRT's products of int64 wrap."""

HUGE = 1e30
"""From here on, real numbers are about to exceed the largest float32."""


def is_named(graph: Graph, seed: int, ours: Arrays, theirs: Arrays) -> bool:
    """Whether the values, which differ, are of a graph for which they may."""
    if [(a.shape, a.dtype) for a in ours] != [(a.shape, a.dtype) for a in theirs]:
        return False
    return (
        _has_chance(graph)
        or _has_free_shifts(graph)
        or _has_cancellation(graph)
        or _is_by_wrapping(graph, ours, theirs)
        or _has_overflows(graph, seed)
        or _is_by_huge_weights(graph, ours, theirs)
        or _is_by_overflow(ours, theirs)
    )


def _has_chance(graph: Graph) -> bool:
    """Whether LiteRT draws other random numbers at each start, or reads what nothing wrote."""
    late = {index for node in graph.nodes for index in node.outputs}
    for node in graph.nodes:
        if not late.isdisjoint(node.inputs):  # LiteRT runs the nodes in the order of the file
            return True
        if node.op in RANDOM and not RandomOptions.read(node).is_seeded:
            return True
        if _has_free_begin(graph, node):
            return True
        late.difference_update(node.outputs)
    return False


def _has_free_begin(graph: Graph, node: Node) -> bool:
    return (
        node.op == "STRIDED_SLICE"
        and StridedSliceOptions.read(node).offset
        and not graph.tensors[node.inputs[1]].is_constant
    )


def _has_free_shifts(graph: Graph) -> bool:
    """Whether integers may be shifted to the left by less than 0, or by all bits and more."""
    shifts = [n.inputs[1] for n in graph.nodes if n.op == "STABLEHLO_SHIFT_LEFT"]
    return any(not graph.tensors[index].is_constant for index in shifts)


def _has_cancellation(graph: Graph) -> bool:
    """Whether normalized sums are differences, of which LiteRT's kernels compute other digits."""
    nodes = [n for n in graph.nodes if n.op == "LOCAL_RESPONSE_NORMALIZATION"]
    options = map(LocalResponseNormalizationOptions.read, nodes)
    return any(each.alpha * each.bias < 0 for each in options)


def _is_by_wrapping(graph: Graph, ours: Arrays, theirs: Arrays) -> bool:
    """Whether only numbers at the limits of their type differ, as LiteRT's SVDF wraps its sums."""
    if "SVDF" not in {node.op for node in graph.nodes}:
        return False
    differing = [(a, a[a != b]) for a, b in zip(ours, theirs, strict=True)]
    return all(
        not values.size or (array.dtype == np.int8 and bool(np.isin(values, (-128, 127)).all()))
        for array, values in differing
    )


def _has_overflows(graph: Graph, seed: int) -> bool:
    """Whether LiteRT's kernels exceed their integers, or do not initialize a result."""
    ops = {node.op for node in graph.nodes}
    most_bits = 16 if "DIV" in ops else 8
    quantized = [t for t in graph.tensors if t.is_quantized and t.type.bits <= most_bits]
    scales = [scale for tensor in quantized for scale in tensor.quantization.scales]
    if not scales:
        return False
    wide = [t.array() for t in graph.tensors if t.is_constant and t.dtype == "int64"]
    slopes = [abs(LeakyRelu.read(n).alpha) for n in graph.nodes if n.op == "LEAKY_RELU"]
    shapes = {index: graph.tensors[index].shape for index in graph.inputs}
    is_empty = any(0 in shape for shape in {**shapes, **other_shapes(shapes, seed)}.values())
    return (
        "DIV" in ops
        or ("SUM" in ops and is_empty)
        or (bool(ops & COMPARISONS) and max(scales) >= 1)
        or max(1, *scales, *slopes) > FARTHEST * min(1, *scales)
        or any((np.abs(biases.astype(float)) >= WIDEST).any() for biases in wide)
    )


def _is_by_overflow(ours: Arrays, theirs: Arrays) -> bool:
    """Whether only real numbers differ that are, on both sides, huge or no numbers."""
    if any(a.dtype.kind != "f" for a in ours):
        return False
    beyond = [[~(np.abs(a) < HUGE) for a in arrays] for arrays in (ours, theirs)]
    if any((a != b).any() for a, b in zip(*beyond, strict=True)):
        return False
    pairs = [
        [a[~out] for a, out in zip(arrays, beyond[0], strict=True)] for arrays in (ours, theirs)
    ]
    return any(out.any() for out in beyond[0]) and _are_close(*pairs, tolerance=1e-4)


def _is_by_huge_weights(graph: Graph, ours: Arrays, theirs: Arrays) -> bool:
    """Whether only our NaN differ, or what LiteRT clamps, by constants that are huge or no numbers.

    LiteRT's products are clamped to the largest float32, so that their normalization is finite.
    """
    if not WEIGHTED.intersection(node.op for node in graph.nodes):
        return False
    constants = (t.array() for t in graph.tensors if t.is_constant and t.dtype == "float32")
    if all((np.abs(array) < HUGE).all() for array in constants):
        return False
    pairs = [
        (np.where(out := np.isnan(a) | ~(np.abs(b) < HUGE), nan, a), np.where(out, nan, b))
        for a, b in zip(ours, theirs, strict=True)
    ]
    return _are_close(*zip(*pairs, strict=True), tolerance=TOLERANCE)


def _are_close(ours: Arrays, theirs: Arrays, tolerance: float) -> bool:
    try:
        assert_close(ours, theirs, special=True, tolerance=tolerance)
    except AssertionError:
        return False
    return True


_SUMS = {
    *("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "CONV_3D", "CONV_3D_TRANSPOSE"),
    *("FULLY_CONNECTED", "BATCH_MATMUL", "ADD_N", "SUM", "MEAN", "CUMSUM", "GRAPH"),
    *("L2_POOL_2D", "AVERAGE_POOL_2D", *RECURRENT),
    *("RFFT2D", "AudioSpectrogram", "Mfcc", "RESIZE_BILINEAR", "L2_NORMALIZATION"),
    "LOCAL_RESPONSE_NORMALIZATION",
}
_SELECTIONS = {
    *("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "TFLite_Detection_PostProcess")
}
_NOT_FINITE = ("special", "one NaN", "infinities")
_INTEGERS = ("integers", "one integer")

HARD: tuple[tuple[tuple[str, ...], tuple[str, ...], set[str]], ...] = (
    (("large",), ("NaN", "infinity", "number"), _SUMS),
    (
        _NOT_FINITE,
        ("NaN", "infinity", "number", "integer"),
        {
            *("ARG_MAX", "ARG_MIN", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", *_SELECTIONS),
            *("RFFT2D", "AudioSpectrogram", "LOCAL_RESPONSE_NORMALIZATION", "RESIZE_BILINEAR"),
        },
    ),
    (("special", "infinities"), ("NaN",), {"ADD_N"}),
    (_NOT_FINITE, ("NaN",), {*RECURRENT, "CONV_3D", "CONV_3D_TRANSPOSE"}),
    (("zeros", "large", "small"), ("integer", "number", "infinity"), _SELECTIONS),
    (("small",), ("number",), {"ATAN2"}),
    (_INTEGERS, ("integer",), {"POW", "STABLEHLO_SHIFT_LEFT", "DIV", "FLOOR_DIV", "FLOOR_MOD"}),
    (
        _INTEGERS,
        ("number", "integer", "NaN", "infinity", "sign of zero"),
        {"STRIDED_SLICE", "REVERSE_SEQUENCE"},
    ),
    (
        (*_NOT_FINITE, *_INTEGERS, "zeros", "large", "small"),
        ("sign of zero",),
        {
            *("POW", "ATAN2", "FLOOR_DIV", "FLOOR_MOD", "CUMSUM", "SCATTER_ND", "SEGMENT_SUM"),
            *RECURRENT,
            *("UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN"),
            *("MAX_POOL_2D", "AVERAGE_POOL_2D", "RESIZE_BILINEAR", "RFFT2D", *_SELECTIONS),
        },
    ),
)
"""Palettes of hard values, kinds of differences, and the ops in which they may differ so."""


def is_hard_difference(case: Case, palette: str, kind: str) -> bool:
    """Whether a case of the op table may differ so where some of its inputs are hard values.

    Args:
        palette: Of the hard values, a name of `tests.attack.hard.PALETTES`.
        kind: Of the difference, as `tests.attack.hard.differing` names it.
    """
    attributes, op = case.attributes, case.op.partition(" ")[0]
    if "int64" in attributes.values() and kind == "integer":  # computed as int32
        return True
    if op == "CONV_2D" and attributes.get("groups", 1) > 1 and palette in _NOT_FINITE:
        return True
    if op == "SOFTMAX" and not attributes.get("beta", 1) and kind == "NaN":
        return True
    if op == "LEAKY_RELU" and not attributes.get("alpha", 0) and kind in ("NaN", "sign of zero"):
        return True
    if case.op in ("SVDF (8-bit)", "SOFTMAX (16-bit)") and palette in _INTEGERS:
        return True
    return any(palette in palettes and kind in kinds and op in ops for palettes, kinds, ops in HARD)
