"""The normalization of pictures that a model's metadata asks for (TFLite Metadata, M001)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gles_delegate.errors import ModelError
from gles_delegate.model.flatbuffer import FlatTable
from gles_delegate.model.graph import Graph

_NORMALIZATION = 1
"""Number of NormalizationOptions in the union ProcessUnitOptions."""

_DEFAULT = 127.5


def normalization(
    graph: Graph, tensor: int, mean: float | None = None, std: float | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and standard deviation to normalize an input's pixels of 0 to 255 with.

    Each is one number for all channels, or one per channel. Arguments take precedence over the
    model's metadata; the default is 127.5, which maps pixels to -1 to 1.

    Raises:
        ModelError: The metadata is damaged, or it or what is given does not fit the input.
    """
    stored = _stored(graph, tensor) or ([_DEFAULT], [_DEFAULT])
    means, stds = (
        np.array(of_model if given is None else [given], np.float32)
        for given, of_model in zip((mean, std), stored, strict=True)
    )
    shape = graph.tensors[tensor].shape
    channels = shape[3] if len(shape) == 4 else 1
    if not {means.size, stds.size} <= {1, channels} or not (stds > 0).all():
        raise ModelError(
            f"expected a mean and a positive standard deviation of all, or of each of {channels}, "
            f"channels of the input {graph.tensors[tensor].name!r}, found {means.tolist()} and "
            f"{stds.tolist()}, given or in the model's metadata: give other ones"
        )
    return means, stds


def _stored(graph: Graph, tensor: int) -> tuple[list[float], list[float]] | None:
    data = graph.metadata.get("TFLITE_METADATA")
    if data is None:
        return None
    # ModelMetadata.subgraph_metadata, SubGraphMetadata.input_tensor_metadata,
    # TensorMetadata.process_units
    at = graph.inputs.index(tensor)
    for subgraph in FlatTable.root(data.tobytes()).tables(3)[:1]:
        for entry in subgraph.tables(2)[at : at + 1]:
            for unit in entry.tables(4):
                options = unit.table(1)
                if options is not None and unit.scalar(0, "uint8") == _NORMALIZATION:
                    mean, std = (options.array(slot, "float32").tolist() for slot in (0, 1))
                    return mean, std
    return None
