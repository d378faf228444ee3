"""A builder of small .tflite models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as tfl
from numpy.typing import ArrayLike, DTypeLike, NDArray

Shape = Sequence[int]
NO_INPUT = -1  # stands for an optional input that is left out

_SHARED_OPTIONS = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    **dict.fromkeys(
        ["MEAN", "SUM"] + [f"REDUCE_{name}" for name in ("MAX", "MIN", "PROD", "ANY", "ALL")],
        "ReducerOptions",
    ),
}
_OPTIONS_BY_LOWER_NAME = {name.lower(): name for name in vars(tfl.BuiltinOptions)}
_ENUMS = {
    "padding": tfl.Padding,
    "fusedActivationFunction": tfl.ActivationFunctionType,
    "mode": tfl.MirrorPadMode,
    "weightsFormat": tfl.FullyConnectedOptionsWeightsFormat,
    "kernelType": tfl.LSTMKernelType,
    "inDataType": tfl.TensorType,
    "outDataType": tfl.TensorType,
}


@dataclass(frozen=True)
class _Buffer:
    """A ``BufferT`` whose data is aligned as the schema demands (``force_align: 16``)."""

    data: bytes | None = None

    def Pack(self, builder: flatbuffers.Builder) -> int:  # noqa: N802
        if self.data is not None:
            size = len(self.data)
            builder.StartVector(1, size, 16)
            builder.head = head = builder.head - size
            builder.Bytes[head : head + size] = self.data
            vector = builder.EndVector()
        tfl.BufferStart(builder)
        if self.data is not None:
            tfl.BufferAddData(builder, vector)
        return int(tfl.BufferEnd(builder))


def quantization(
    scale: ArrayLike, zero_point: ArrayLike = 0, dimension: int = 0
) -> tfl.QuantizationParametersT:
    """Affine quantisation: per tensor, or per channel along ``dimension``."""
    scales = np.atleast_1d(np.asarray(scale, np.float32))
    zero_points = np.broadcast_to(np.asarray(zero_point, np.int64), scales.shape)
    return tfl.QuantizationParametersT(
        scale=scales.tolist(), zeroPoint=zero_points.tolist(), quantizedDimension=dimension
    )


class ModelBuilder:
    """Collects tensors and operators of one subgraph; tensors are known by their index."""

    def __init__(self) -> None:
        self._graph = tfl.SubGraphT(tensors=[], inputs=[], operators=[], name="main")
        self._buffers: list[_Buffer] = [_Buffer()]
        self._codes: dict[tuple[str, int], int] = {}

    def tensor(
        self,
        shape: Shape | None = None,
        dtype: DTypeLike = np.float32,
        *,
        name: str | None = None,
        data: NDArray[Any] | None = None,
        variable: bool = False,
        quantization: tfl.QuantizationParametersT | None = None,
    ) -> int:
        """A tensor; ``shape=None`` leaves the shape unknown, ``data`` makes it a constant."""
        buffer = 0
        if data is not None:
            buffer = len(self._buffers)
            self._buffers.append(_Buffer(data.tobytes()))
        tensors = self._graph.tensors
        tensors.append(
            tfl.TensorT(
                shape=None if shape is None else list(shape),
                hasRank=shape is not None,
                type=getattr(tfl.TensorType, np.dtype(dtype).name.upper()),
                buffer=buffer,
                name=name or f"tensor_{len(tensors)}",
                isVariable=variable,
                quantization=quantization,
            )
        )
        return len(tensors) - 1

    def input(self, shape: Shape, dtype: DTypeLike = np.float32, **attributes: Any) -> int:
        index = self.tensor(shape, dtype, **attributes)
        self._graph.inputs.append(index)
        return index

    def constant(self, array: ArrayLike, **attributes: Any) -> int:
        data = np.asarray(array)
        return self.tensor(data.shape, data.dtype, data=data, **attributes)

    def variable(self, shape: Shape, dtype: DTypeLike = np.float32, **attributes: Any) -> int:
        """A tensor that keeps its value from one run to the next."""
        return self.tensor(shape, dtype, variable=True, **attributes)

    def op(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int | Shape | None] = (None,),
        *,
        version: int = 1,
        custom_options: bytes = b"",
        **options: Any,
    ) -> int:
        """Append an operator and return its first output.

        An output is an existing tensor, or the shape of a new one (None: unknown) of the first
        input's type. ``options`` are fields of the schema's options table, in snake_case or as
        spelt there; enums may be given by name. A name that is no builtin makes a custom op.
        """
        kind = self._graph.tensors[inputs[0]].type if inputs else tfl.TensorType.FLOAT32
        produced = []
        for output in outputs:
            if not isinstance(output, int):
                output = self.tensor(output)
                self._graph.tensors[output].type = kind
            produced.append(output)
        table_name, table = _options(name, options)
        self._graph.operators.append(
            tfl.OperatorT(
                opcodeIndex=self._codes.setdefault((name, version), len(self._codes)),
                inputs=list(inputs),
                outputs=produced,
                builtinOptionsType=getattr(tfl.BuiltinOptions, table_name),
                builtinOptions=table,
                customOptions=list(custom_options) or None,
            )
        )
        return produced[0]

    @property
    def tensor_count(self) -> int:
        return len(self._graph.tensors)

    def set_shape(self, index: int, shape: Shape) -> None:
        self._graph.tensors[index].shape = list(shape)
        self._graph.tensors[index].hasRank = True

    def build(
        self,
        outputs: Sequence[int],
        signatures: Mapping[str, tuple[Mapping[str, int], Mapping[str, int]]] | None = None,
    ) -> bytes:
        """The model's bytes; ``signatures`` maps a key to its named inputs and outputs."""
        self._graph.outputs = list(outputs)
        model = tfl.ModelT(
            version=3,
            operatorCodes=[_operator_code(name, version) for name, version in self._codes],
            subgraphs=[self._graph],
            buffers=self._buffers,
            signatureDefs=[
                tfl.SignatureDefT(
                    signatureKey=key, inputs=_tensor_map(named), outputs=_tensor_map(results)
                )
                for key, (named, results) in (signatures or {}).items()
            ],
        )
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())


def _tensor_map(names: Mapping[str, int]) -> list[tfl.TensorMapT]:
    return [tfl.TensorMapT(name=name, tensorIndex=index) for name, index in names.items()]


def _operator_code(name: str, version: int) -> tfl.OperatorCodeT:
    builtin = getattr(tfl.BuiltinOperator, name, tfl.BuiltinOperator.CUSTOM)
    return tfl.OperatorCodeT(
        deprecatedBuiltinCode=min(builtin, tfl.BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES),
        builtinCode=builtin,
        customCode=name if builtin == tfl.BuiltinOperator.CUSTOM else None,
        version=version,
    )


def _options(op: str, values: Mapping[str, Any]) -> tuple[str, Any]:
    """Name and object of the op's options table; ("NONE", None) for an op that has no table."""
    lower_name = f"{op}options".replace("_", "").lower()
    table_name = _SHARED_OPTIONS.get(op) or _OPTIONS_BY_LOWER_NAME.get(lower_name, "NONE")
    if table_name == "NONE":
        if values:
            raise TypeError(f"{op} takes no options, got {', '.join(values)}")
        return table_name, None
    table = getattr(tfl, f"{table_name}T")()
    for key, value in values.items():
        head, *rest = key.split("_")
        field = head + "".join(word.capitalize() for word in rest)
        if not hasattr(table, field):
            raise TypeError(f"{table_name} has no field {field}")
        setattr(table, field, getattr(_ENUMS[field], value) if isinstance(value, str) else value)
    return table_name, table
