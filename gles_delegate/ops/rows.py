"""Which ops compute each row of a batch by itself.

A tensor *has rows* if its elements, in row-major order, are as many equal parts as the batch has
rows, and each part depends on its own row alone. RESHAPE keeps that whatever the shapes. Of the ops
below it is known when they do; of all others nothing is.
"""

from __future__ import annotations

from collections.abc import Set

from gles_delegate.ops.gathering import GatherOptions
from gles_delegate.ops.joining import ConcatenationOptions, PackOptions
from gles_delegate.ops.lib.registry import NodeView
from gles_delegate.ops.slicing import StridedSliceOptions, UnpackOptions

RESHAPING = frozenset({"EXPAND_DIMS", "RESHAPE", "SQUEEZE"})
"""Ops that keep the order of the elements of input 0."""

ELEMENTWISE = frozenset(
    """
    ABS ADD ADD_N ATAN2 BITWISE_XOR BROADCAST_TO CAST CEIL COMPLEX_ABS COS DEQUANTIZE DIV ELU EQUAL
    EXP FAKE_QUANT FLOOR FLOOR_DIV FLOOR_MOD GELU GREATER GREATER_EQUAL HARD_SWISH IMAG LEAKY_RELU
    LESS LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAXIMUM MINIMUM MUL NEG
    NOT_EQUAL POW PRELU QUANTIZE REAL RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 RIGHT_SHIFT ROUND RSQRT
    SELECT_V2 SIGN SIN SQRT SQUARE SQUARED_DIFFERENCE SUB TANH ZEROS_LIKE
    """.split()  # noqa: SIM905
)
"""Ops on elements in the same place of all inputs, which broadcast."""

OF_IMAGES = frozenset(
    """
    AVERAGE_POOL_2D CONV_2D CONV_3D Convolution2DTransposeBias DEPTHWISE_CONV_2D DEPTH_TO_SPACE
    L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LiteRtMaxUnpooling2D MAX_POOL_2D MaxPoolingWithArgmax2D
    MaxUnpooling2D RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR SPACE_TO_DEPTH TRANSPOSE_CONV
    """.split()  # noqa: SIM905
)
"""Ops on images [batch, ...]."""

OF_LAST_AXIS = frozenset({"L2_NORMALIZATION", "LOG_SOFTMAX", "SOFTMAX", "TOPK_V2"})

REDUCING = frozenset(
    """
    ARG_MAX ARG_MIN CUMSUM MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD REVERSE_V2
    SUM
    """.split()  # noqa: SIM905
)
"""Ops along the axes of which input 1 has the numbers."""

DATA = {
    "LiteRtMaxUnpooling2D": [0, 1],
    "MaxUnpooling2D": [0, 1],
    "SPLIT": [1],
    "TRANSPOSE_CONV": [2],
}
"""The inputs that have rows, of ops within rows; of the others it is input 0."""


def keeps_rows(node: NodeView, having: Set[int], rows: int) -> bool:
    """Whether the outputs of a node have rows if the tensors `having` do, of its inputs."""
    if node.op in RESHAPING:
        return having.isdisjoint(node.inputs[1:])
    mine = [i for i, index in enumerate(node.inputs) if index in having]
    shapes = [node.shape(i) for i in mine] + [node.shapes[index] for index in node.outputs]
    if any(not shape or not shape[0] or shape[0] % rows for shape in shapes):
        return False
    if node.op == "FULLY_CONNECTED":  # of a matrix [-1, channels], whatever the shape
        return mine == [0]
    if len({shape[0] for shape in shapes}) > 1:
        return False
    rank = len(shapes[-1])
    if node.op in ELEMENTWISE or (node.op == "BATCH_MATMUL" and rank > 2):
        return all(
            len(node.shape(i)) == rank if i in mine else _is_the_same_for_all_rows(node, i, rank)
            for i in range(len(node.inputs))
        )
    if node.op in ("CONCATENATION", "PACK"):
        options = ConcatenationOptions if node.op == "CONCATENATION" else PackOptions
        return options.read(node.node).axis % rank != 0 and all(
            i in mine or _is_the_same_for_all_rows(node, i, len(node.shape(i)))
            for i in range(len(node.inputs))
        )
    if node.op == "GATHER":
        return _gathers_in_rows(node, mine)
    return mine == DATA.get(node.op, [0]) and _is_within_rows(node, len(shapes[0]))


def _is_within_rows(node: NodeView, rank: int) -> bool:
    """Whether an op on a tensor [rows, ...], of that rank, never combines or moves rows."""
    if node.op in OF_IMAGES or node.op == "SLICE":  # which keeps the number of rows, so all of them
        return True
    if node.op in OF_LAST_AXIS:
        return rank > 1
    if node.op in REDUCING:
        return all(axis % rank for axis in node.array(1).reshape(-1).tolist())
    if node.op in ("SPLIT", "SPLIT_V"):
        return bool(node.array(0 if node.op == "SPLIT" else 2).item() % rank)
    if node.op == "UNPACK":
        return UnpackOptions.read(node.node).axis % rank != 0
    if node.op == "TRANSPOSE":
        return bool(node.array(1).reshape(-1)[0] % rank == 0)
    if node.op in ("PAD", "PADV2", "MIRROR_PAD"):
        return not bool(node.array(1)[0].any())
    if node.op == "TILE":
        return bool(node.array(1).reshape(-1)[0] == 1)
    if node.op == "STRIDED_SLICE":
        options = StridedSliceOptions.read(node.node)
        adds = options.ellipsis_mask or options.new_axis_mask or options.shrink_axis_mask & 1
        return not adds and bool(node.array(3).reshape(-1)[0] == 1)
    return False


def _gathers_in_rows(node: NodeView, mine: list[int]) -> bool:
    """Whether GATHER takes the same places of each row, or its places in a table."""
    options = GatherOptions.read(node.node)
    data = 0 if options.axis % len(node.shape(0)) else 1
    return not options.batch_dims and mine == [data]


def _is_the_same_for_all_rows(node: NodeView, i: int, rank: int) -> bool:
    """Whether input `i`, without rows, is the same for all of them, broadcast to that rank."""
    shape = node.shape(i)
    if len(shape) < rank or shape[0] == 1:
        return True
    tensor = node.graph.tensors[node.inputs[i]]
    if not tensor.is_constant:
        return False
    array = tensor.array()
    return bool((array == array[:1]).all())
