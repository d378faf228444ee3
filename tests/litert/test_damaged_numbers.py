"""Damaged numbers of a model: refused with a reason, or such that LiteRT's kernels disagree."""

from collections.abc import Callable
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from tests.litert.test_custom_ops import run_xnnpack
from tests.support.hosts import both_hosts
from tests.support.oracle import in_ours, run, run_litert
from tests.support.tflite_builder import ModelBuilder, quantization

SIZE = (1, 4, 4, 4)
SLIDING = dict(stride_w=1, stride_h=1, dilation_w_factor=1, dilation_h_factor=1)


def reasons(content: bytes) -> list[str]:
    """Why nodes stay on the CPU, in any host."""
    return [*lower_graph(read_model(content), Limits()).reasons.values()]


def convolution(
    op: str, scales: dict[str, float] | None = None, bias: int = 0, kind: str = "int8"
) -> bytes:
    """A convolution, or a product of rows, with four channels on either side."""
    each = {"source": 0.1, "weights": 0.1, "result": 0.5, **(scales or {})}
    b, rng = ModelBuilder(), np.random.default_rng(0)
    shape = {"FULLY_CONNECTED": (4, 4), "DEPTHWISE_CONV_2D": (1, 1, 1, 4)}.get(op, (4, 1, 1, 4))
    steps = None if kind == "float32" else each
    numbers = rng.integers(-100, 100, shape).astype(kind)
    x = b.input(SIZE, kind, quantization=steps and quantization(steps["source"]))
    by_channel = quantization(np.array([0.1, 0.1, each["weights"], 0.1]))
    by_channel["quantized_dimension"] = 3 if op == "DEPTHWISE_CONV_2D" else 0
    w = b.constant(numbers, quantization=steps and by_channel)
    added = b.constant(np.array([0, 1, bias, 2], "float32" if steps is None else np.int32))
    options = {} if op == "FULLY_CONNECTED" else SLIDING
    shape = (16, 4) if op == "FULLY_CONNECTED" else SIZE
    y = b.tensor(shape, kind, quantization=steps and quantization(steps["result"]))
    if op == "TRANSPOSE_CONV":
        size = b.constant(np.array(SIZE, np.int32))
        return b.build([b.op(op, [size, w, x, added], [y], stride_w=1, stride_h=1, version=3)])
    if op == "DEPTHWISE_CONV_2D":
        options = {**options, "depth_multiplier": 1}
    return b.build([b.op(op, [x, w, added], [y], **options)])


def elementwise(op: str, inputs: int, scale: float, of_result: float) -> bytes:
    b = ModelBuilder()
    x = b.input(SIZE, "int8", quantization=quantization(scale))
    result = b.tensor(SIZE, "int8", quantization=quantization(of_result))
    return b.build([b.op(op, [x] * inputs, [result])])


def quantize(source: Any, target: Any) -> bytes:
    """A QUANTIZE or DEQUANTIZE of a type, scale and zero point to another; float32 without."""
    b = ModelBuilder()
    kinds = [(kind, rest and quantization(*rest)) for kind, *rest in (source, target)]
    x = b.input((1, 24), kinds[0][0], quantization=kinds[0][1] or None)
    op = "DEQUANTIZE" if target == ("float32",) else "QUANTIZE"
    y = b.tensor((1, 24), kinds[1][0], quantization=kinds[1][1] or None)
    return b.build([b.op(op, [x], [y])])


OF_ACTIVATIONS: dict[str, Callable[[float], bytes]] = {
    "QUANTIZE": lambda scale: quantize(("float32",), ("int8", scale, 0)),
    "requantize": lambda scale: quantize(("uint8", 0.5, 0), ("int8", scale, 0)),
    "DEQUANTIZE": lambda scale: quantize(("int16", scale, 0), ("float32",)),
    "RELU": lambda scale: elementwise("RELU", 1, scale, scale),
    "ADD": lambda scale: elementwise("ADD", 2, scale, 0.5),
    "MUL": lambda scale: elementwise("MUL", 2, 0.5, scale),
    "source": lambda scale: convolution("CONV_2D", {"source": scale}),
    "result": lambda scale: convolution("CONV_2D", {"result": scale}),
}
OPS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf, -0.5, 0.0, 1e-38, 3.4e38])
@pytest.mark.parametrize("place", OF_ACTIVATIONS)
def test_scales_of_activations(place: str, scale: float) -> None:
    (reason,) = reasons(OF_ACTIVATIONS[place](scale))
    assert "is quantized with the scale" in reason


@pytest.mark.parametrize("scale", [np.nan, np.inf, -0.5, 3.4e38])
@pytest.mark.parametrize("op", OPS)
def test_scales_of_weights(op: str, scale: float) -> None:
    (reason,) = reasons(convolution(op, {"weights": scale}))
    assert "is quantized with the scale" in reason


@pytest.mark.parametrize("op", OPS)
def test_a_channel_of_zeros_may_have_no_scale(op: str) -> None:
    assert reasons(convolution(op, {"weights": 0.0})) == []


@pytest.mark.parametrize("op", OPS)
def test_biases_that_exceed_sums(op: str) -> None:
    assert reasons(convolution(op, bias=(1 << 31) - 1)) == []
    (reason,) = reasons(convolution(op, bias=-(1 << 31)))
    assert f"biases of up to {1 << 31}; expected at most {(1 << 31) - 1}" in reason


def sparse(content: bytes, position: int) -> bytes:
    """The model, in which all elements of an input of its node are stored in dense levels."""
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    graph = model.subgraphs[0]
    tensor = graph.tensors[graph.operators[0].inputs[position]]
    tensor.sparsity = schema.SparsityParametersT()
    tensor.sparsity.traversalOrder = list(range(len(tensor.shape)))
    tensor.sparsity.dimMetadata = [schema.DimensionMetadataT() for _ in tensor.shape]
    for level, size in zip(tensor.sparsity.dimMetadata, tensor.shape, strict=True):
        level.format, level.denseSize = schema.DimensionType.DENSE, int(size)
    packed = flatbuffers.Builder()
    packed.Finish(model.Pack(packed), b"TFL3")
    return bytes(packed.Output())


SPARSE = [
    *((op, position) for op in OPS[:3] for position in (1, 2)),
    *(("TRANSPOSE_CONV", position) for position in (0, 1, 3)),
]


@pytest.mark.parametrize("kind", ["float32", "int8"])
@pytest.mark.parametrize(("op", "position"), SPARSE)
def test_sparse_constants(op: str, position: int, kind: str) -> None:
    """LiteRT reads their bytes as if they were dense, but for the weights of FULLY_CONNECTED."""
    found = reasons(sparse(convolution(op, kind=kind), position))
    is_expanded = (op, position) == ("FULLY_CONNECTED", 1)
    assert found == [f"input {position} is sparse; expected DENSIFY in front of it"][is_expanded:]


@both_hosts
def test_a_sparse_constant_is_litert_s(host: Any) -> None:
    content = sparse(convolution("DEPTHWISE_CONV_2D", bias=3, kind="float32"), 2)
    x = np.ones(SIZE, np.float32)
    with gd.GpuDelegate(model=content) as delegate:
        (result,) = run(host(delegate, content), [x])
    np.testing.assert_allclose(result, run_litert(content, [x])[0], rtol=1e-6)


@pytest.mark.parametrize("permutation", [(0, 2, 1, -2), (0, 1, 2, 2), (0, 1, 2, 4), (0, 1, 2)])
def test_permutations(permutation: tuple[int, ...]) -> None:
    b = ModelBuilder()
    inputs = [b.input((1, 4, 6, 5)), b.constant(np.array(permutation, np.int32))]
    (reason,) = reasons(b.build([b.op("TRANSPOSE", inputs, [(1, 6, 4, 5)])]))
    assert "permutation" in reason or "the axis 4 of a tensor of rank 4" in reason


def infinite_weight() -> tuple[bytes, NDArray[np.float32]]:
    b, rng = ModelBuilder(), np.random.default_rng(0)
    weights = rng.standard_normal((12, 5, 5, 10)).astype(np.float32)
    weights[3, 2, 2, 1] = np.inf
    size, w = b.constant(np.array([1, 11, 11, 12], np.int32)), b.constant(weights)
    x = b.input((1, 3, 3, 10))
    y, options = b.tensor((1, 11, 11, 12)), dict(stride_w=3, stride_h=3, padding="VALID")
    content = b.build([b.op("TRANSPOSE_CONV", [size, w, x], [y], **options)])
    return content, np.ones((1, 3, 3, 10), np.float32)


def infinite_pixel() -> tuple[bytes, NDArray[np.float32]]:
    b = ModelBuilder()
    inputs = [b.input((1, 3, 3, 1)), b.constant(np.array([5, 5], np.int32))]
    content = b.build([b.op("RESIZE_BILINEAR", inputs, [(1, 5, 5, 1)])])
    picture = np.ones((1, 3, 3, 1), np.float32)
    picture[0, 1, 1] = np.inf
    return content, picture


@pytest.mark.parametrize("build", [infinite_weight, infinite_pixel])
def test_where_litert_s_kernels_disagree(build: Any) -> None:
    """The finite numbers are equal; what becomes of infinity is not promised."""
    content, x = build()
    (builtin,), (xnnpack,) = run_litert(content, [x]), run_xnnpack(content, [x])
    assert not np.array_equal(builtin, xnnpack, equal_nan=True)
    with gd.GpuDelegate() as delegate:
        (result,) = run(in_ours(delegate, content), [x])
    finite = np.isfinite(builtin) & np.isfinite(xnnpack)
    np.testing.assert_allclose(result[finite], builtin[finite], rtol=1e-5, atol=1e-5)


HALVES = np.arange(-12, 12)
FLOAT = ("float32",)
ROUNDED = [
    *((FLOAT, (kind, 0.5, zero)) for kind, zero in (("int8", 3), ("uint8", 127), ("int16", 0))),
    *((("int8", 0.5, 0), target) for target in (("int8", 1.0, 1), ("uint8", 1.0, 127))),
    (("int16", 0.25, 0), ("int8", 0.5, -3)),
    (("uint8", 0.5, 128), ("int8", 1.0, 0)),
    (("int8", 1.0, 0), ("int8", 8.0, 0)),
    (("int16", 0.5, 0), ("int16", 1.0, 0)),
    (("int8", 0.5, 0), ("int16", 1.0, 0)),
]


@both_hosts
@pytest.mark.parametrize(("source", "target"), ROUNDED, ids=str)
def test_quantize_rounds_ties_as_litert_does(source: Any, target: Any, host: Any) -> None:
    """By default; real numbers to even, and integers up."""
    content = quantize(source, target)
    zero = (*source, 0, 0)[2]
    numbers = (HALVES + 0.5) * target[1] if source == FLOAT else HALVES + zero
    x = numbers.astype(source[0]).reshape(1, 24)
    with gd.GpuDelegate(model=content) as delegate:
        (result,) = run(host(delegate, content), [x])
        assert delegate.report.nodes[0].delegated
    np.testing.assert_array_equal(result, *run_xnnpack(content, [x]))
