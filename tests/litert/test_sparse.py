"""Sparse constants behind DENSIFY: expanded while planning, as LiteRT expands them."""

from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.model.reader import read_model
from tests.support.oracle import assert_close, run_gles, run_litert
from tests.support.tflite_builder import ModelBuilder


def compressed(dense: NDArray[Any]) -> tuple[NDArray[Any], list[int], list[int]]:
    """Values, segments and indices of the last axis, over the rows of all others."""
    rows = dense.reshape(-1, dense.shape[-1])
    segments = [0, *np.cumsum([np.count_nonzero(row) for row in rows]).tolist()]
    return rows[rows != 0], segments, np.nonzero(rows)[1].tolist()


def sparse_level(segments: list[int], indices: list[int], kind: str) -> Any:
    level = schema.DimensionMetadataT()
    level.format = schema.DimensionType.SPARSE_CSR
    for name, values in (("arraySegments", segments), ("arrayIndices", indices)):
        vector = getattr(schema, f"{kind}VectorT")()
        vector.values = values
        setattr(level, name, vector)
        setattr(level, f"{name}Type", getattr(schema.SparseIndexVector, f"{kind}Vector"))
    return level


def dense_level(size: int) -> Any:
    level = schema.DimensionMetadataT()
    level.format, level.denseSize = schema.DimensionType.DENSE, size
    return level


def sparse_model(
    dense: NDArray[Any], values: NDArray[Any], order: list[int], blocks: list[int], levels: Any
) -> bytes:
    """y = x + DENSIFY(constant), the constant stored as `values` in these levels."""
    builder = ModelBuilder()
    x = builder.input(dense.shape)
    constant = builder.constant(values)
    unpacked = builder.op("DENSIFY", [constant], [dense.shape])
    if dense.dtype == np.float16:
        unpacked = builder.op("DEQUANTIZE", [unpacked], [dense.shape])
    y = builder.op("ADD", [x, unpacked], [dense.shape])
    model = schema.ModelT.InitFromPackedBuf(builder.build(outputs=[y]), 0)
    tensors = model.subgraphs[0].tensors
    if dense.dtype == np.float16:
        half = model.subgraphs[0].operators[0].outputs[0]
        tensors[half].type = schema.TensorType.FLOAT16
    tensor = tensors[constant]
    tensor.shape = list(dense.shape)
    tensor.sparsity = schema.SparsityParametersT()
    tensor.sparsity.traversalOrder, tensor.sparsity.blockMap = order, blocks
    tensor.sparsity.dimMetadata = levels
    packed = flatbuffers.Builder()
    packed.Finish(model.Pack(packed), b"TFL3")
    return bytes(packed.Output())


def holes(shape: tuple[int, ...]) -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    return np.where(rng.random(shape) < 0.3, rng.standard_normal(shape), 0).astype(np.float32)


@pytest.mark.parametrize("kind", ["Int32", "Uint16", "Uint8"])
def test_rows_compressed(kind: str) -> None:
    dense = holes((6, 11))
    values, segments, indices = compressed(dense)
    levels = [dense_level(6), sparse_level(segments, indices, kind)]
    check(dense, sparse_model(dense, values, [0, 1], [], levels))


def test_columns_first() -> None:
    dense = holes((6, 11))
    values, segments, indices = compressed(dense.T)
    levels = [dense_level(11), sparse_level(segments, indices, "Int32")]
    check(dense, sparse_model(dense, values, [1, 0], [], levels))


def test_blocks_of_four_columns() -> None:
    dense = holes((5, 3)).repeat(4, axis=1)
    blocks = dense.reshape(5, 3, 4)
    kept = blocks.any(-1)
    segments = [0, *np.cumsum(kept.sum(1)).tolist()]
    columns = sparse_level(segments, np.nonzero(kept)[1].tolist(), "Int32")
    levels = [dense_level(5), columns, dense_level(4)]
    check(dense, sparse_model(dense, blocks[kept].ravel(), [0, 1, 2], [1], levels))


def check(dense: NDArray[Any], content: bytes) -> None:
    x = np.ones(dense.shape, np.float32)
    (ours,) = run_gles(content, [x])
    np.testing.assert_allclose(ours, 1 + dense, atol=1e-6)
    assert_close([ours], run_litert(content, [x]))


def test_damaged_levels_end_in_a_model_error() -> None:
    dense = holes((6, 11))
    values, segments, indices = compressed(dense)
    for bad_segments, bad_indices in (
        ([0, 10**6, *segments[2:]], indices),
        (segments, [99] * len(indices)),
        (segments[:3], indices),
        ([-5, *segments[1:]], indices),
    ):
        levels = [dense_level(6), sparse_level(bad_segments, bad_indices, "Int32")]
        content = sparse_model(dense, values, [0, 1], [], levels)
        with pytest.raises(gd.ModelError, match="sparse constant"):
            read_model(content).tensors[1].array()
