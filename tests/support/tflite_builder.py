"""A builder of small .tflite models, without LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from flatbuffers import flexbuffers
from numpy.typing import ArrayLike, DTypeLike, NDArray

from gles_delegate.model.dtypes import SCHEMA_NUMBERS
from gles_delegate.model.schema import BUILTIN_OPERATORS, COMPOSITE_OPTIONS, CUSTOM, OPTIONS_2
from tests.support.schema import BUILTIN_OPTIONS, ENUMS, TABLES, Values, pack_model

Shape = Sequence[int]
SMALL = {"int4": 4, "int2": 2}
"""Bits of the types that numpy does not have."""

Signatures = Mapping[str, tuple[Any, ...]]
"""By key, named inputs and outputs; then the subgraph if it is not the first."""
NO_INPUT = -1  # stands for an optional input that is left out

_SHARED_OPTIONS = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    **dict.fromkeys(["MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"], "RandomOptions"),
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
    **dict.fromkeys(
        ["MEAN", "SUM"] + [f"REDUCE_{name}" for name in ("MAX", "MIN", "PROD", "ANY", "ALL")],
        "ReducerOptions",
    ),
}
_SECOND_OPTIONS = {
    "STABLEHLO_CASE": "StablehloCaseOptions",
    "STABLEHLO_COMPARE": "StablehloCompareOptions",
    "STABLEHLO_GATHER": "StablehloGatherOptions",
    "STABLEHLO_PAD": "StablehloPadOptions",
    "STABLEHLO_REDUCE_WINDOW": "StablehloReduceWindowOptions",
    "STABLEHLO_SCATTER": "StablehloScatterOptions",
    "STABLEHLO_SORT": "StablehloSortOptions",
}
_OPTIONS_BY_LOWER_NAME = {name.lower(): name for name in BUILTIN_OPTIONS}
_PLACEHOLDER = BUILTIN_OPERATORS.index("PLACEHOLDER_FOR_GREATER_OP_CODES")


def quantization(scale: ArrayLike, zero_point: ArrayLike = 0, dimension: int = 0) -> Values:
    """Affine quantization: per tensor, or per channel along ``dimension``."""
    scales = np.atleast_1d(np.asarray(scale, np.float32))
    zero_points = np.broadcast_to(np.asarray(zero_point, np.int64), scales.shape)
    return {"scale": scales, "zero_point": zero_points, "quantized_dimension": dimension}


def blockwise(scales: int, size: int) -> Values:
    """Quantization with a scale for each `size` elements, from the tensor `scales`."""
    details = ("BlockwiseQuantization", {"scales": scales, "block_size": size})
    return {"details_type": 2, "details": details}


class ModelBuilder:
    """Collects tensors and operators of the first subgraph; tensors are known by their index."""

    def __init__(self) -> None:
        self.tensors: list[dict[str, Any]] = []
        self._inputs: list[int] = []
        self._operators: list[dict[str, Any]] = []
        self._subgraphs: list[Values] = []
        self._buffers: list[Values] = [{}]
        self._codes: dict[tuple[str, int | None], int] = {}

    def tensor(
        self,
        shape: Shape | None = None,
        dtype: DTypeLike = np.float32,
        *,
        name: str | None = None,
        data: NDArray[Any] | None = None,
        variable: bool = False,
        quantization: Values | None = None,
    ) -> int:
        """A tensor; ``shape=None`` leaves the shape unknown, ``data`` makes it a constant."""
        buffer = 0
        if data is not None:
            buffer = len(self._buffers)
            self._buffers.append({"data": data.tobytes()})
        index = len(self.tensors)
        named = isinstance(dtype, str) and dtype in SCHEMA_NUMBERS
        type_name = str(dtype) if named else np.dtype(dtype).name
        self.tensors.append(
            {
                "type": SCHEMA_NUMBERS[type_name],
                "buffer": buffer,
                "name": name or f"tensor_{index}",
                "is_variable": variable,
                "quantization": quantization,
            }
        )
        if shape is not None:
            self.set_shape(index, shape)
        return index

    def input(self, shape: Shape, dtype: DTypeLike = np.float32, **attributes: Any) -> int:
        index = self.tensor(shape, dtype, **attributes)
        self._inputs.append(index)
        return index

    def constant(self, array: ArrayLike, **attributes: Any) -> int:
        data = np.asarray(array)
        return self.tensor(data.shape, data.dtype, data=data, **attributes)

    def small(self, array: ArrayLike, dtype: str, **attributes: Any) -> int:
        """A constant of signed integers of a type of `SMALL`, several in a byte."""
        values, bits = np.asarray(array), SMALL[dtype]
        rows = np.zeros((-(-values.size * bits // 8), 8 // bits), np.uint8)
        rows.reshape(-1)[: values.size] = values.reshape(-1) & ((1 << bits) - 1)
        data = np.bitwise_or.reduce(rows << np.arange(0, 8, bits), axis=1).astype(np.uint8)
        return self.tensor(values.shape, dtype, data=data, **attributes)

    def variable(self, shape: Shape, dtype: DTypeLike = np.float32, **attributes: Any) -> int:
        """A tensor that keeps its value from one run to the next."""
        return self.tensor(shape, dtype, variable=True, **attributes)

    def op(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int | Shape | None] = (None,),
        *,
        version: int | None = 1,
        custom_options: bytes = b"",
        intermediates: Sequence[int] = (),
        **options: Any,
    ) -> int:
        """Append an operator and return its first output.

        An output is an existing tensor, or the shape of a new one (None: unknown) of the first
        input's type. ``options`` are fields of the schema's options table; enums may be given by
        name. A name that is not a builtin makes a custom op.
        """
        kind = self.tensors[inputs[0]]["type"] if inputs else SCHEMA_NUMBERS["float32"]
        produced = []
        for output in outputs:
            if not isinstance(output, int):
                output = self.tensor(output)
                self.tensors[output]["type"] = kind
            produced.append(output)
        table = options_table(name)
        unknown = set(options) - set(TABLES.get(table, {}))
        if unknown:
            raise TypeError(f"the options of {name} ({table}) have no {', '.join(sorted(unknown))}")
        packed = None if table == "NONE" else (table, _by_number(options))
        second = name in _SECOND_OPTIONS
        self._operators.append(
            {
                "opcode_index": self._codes.setdefault((name, version), len(self._codes)),
                "inputs": list(inputs),
                "outputs": produced,
                "builtin_options_type": 0 if second else BUILTIN_OPTIONS.index(table),
                "builtin_options": None if second else packed,
                "builtin_options_2_type": OPTIONS_2[name] if second else 0,
                "builtin_options_2": packed if second else None,
                "custom_options": list(custom_options) or None,
                "intermediates": list(intermediates) or None,
            }
        )
        return produced[0] if produced else NO_INPUT

    def subgraph(self, build: Callable[[ModelBuilder], Sequence[int]]) -> int:
        """Append a subgraph and return its index; ``build`` fills it and returns its outputs."""
        inner = ModelBuilder()
        inner._buffers, inner._codes = self._buffers, self._codes
        inner._subgraphs = self._subgraphs
        graph = inner._graph(build(inner))
        self._subgraphs.append(graph)
        return len(self._subgraphs)

    def composite(
        self, subgraph: int, inputs: Sequence[int], outputs: Sequence[int | Shape | None]
    ) -> int:
        """Append a composite, which a subgraph decomposes; the rest as for `op`."""
        first = self.op("STABLEHLO_COMPOSITE", inputs, outputs)
        options = {
            "name": "composite",
            "decomposition_subgraph_index": subgraph,
            "composite_attributes": list(flexbuffers.Dumps({})),
        }
        self._operators[-1] |= {
            "builtin_options_2_type": COMPOSITE_OPTIONS,
            "builtin_options_2": ("StableHLOCompositeOptions", options),
        }
        return first

    def set_shape(self, index: int, shape: Shape) -> None:
        self.tensors[index] |= {"shape": shape, "has_rank": True}

    def __str__(self) -> str:
        """The inputs and operators, one a line."""
        codes = [name for name, _ in self._codes]
        lines = [f"{_listed(self._inputs)} = inputs"]
        for operator in self._operators:
            _, options = operator["builtin_options"] or ("NONE", {})
            call = f"{codes[operator['opcode_index']]}({_listed(operator['inputs'])})"
            lines.append(f"{_listed(operator['outputs'])} = {call} {options or ''}".rstrip())
        return "\n".join(lines)

    def model(self, outputs: Sequence[int], signatures: Signatures | None = None) -> Values:
        """The tables of the model; ``signatures``: its named inputs and outputs by key."""
        return {
            "version": 3,
            "operator_codes": [_operator_code(name, version) for name, version in self._codes],
            "subgraphs": [self._graph(outputs), *self._subgraphs],
            "buffers": self._buffers,
            "signature_defs": [
                {
                    "signature_key": key,
                    "inputs": _tensor_map(named),
                    "outputs": _tensor_map(results),
                    "subgraph_index": sum(subgraph),
                }
                for key, (named, results, *subgraph) in (signatures or {}).items()
            ],
        }

    def _graph(self, outputs: Sequence[int]) -> Values:
        return {
            "tensors": self.tensors,
            "inputs": self._inputs,
            "outputs": list(outputs),
            "operators": self._operators,
            "name": "main",
        }

    def build(self, outputs: Sequence[int], signatures: Signatures | None = None) -> bytes:
        """The model's bytes."""
        return pack_model(self.model(outputs, signatures))


def _listed(tensors: Sequence[int]) -> str:
    return ", ".join(map(str, tensors))


def _tensor_map(names: Mapping[str, int]) -> list[Values]:
    return [{"name": name, "tensor_index": index} for name, index in names.items()]


def _operator_code(name: str, version: int | None) -> Values:
    builtin = BUILTIN_OPERATORS.index(name) if name in BUILTIN_OPERATORS else CUSTOM
    return {
        "deprecated_builtin_code": min(builtin, _PLACEHOLDER),
        "builtin_code": builtin,
        "custom_code": name if builtin == CUSTOM else None,
        "version": version,
    }


def options_table(op: str) -> str:
    """The name of the op's options table; "NONE" for an op that has none."""
    lower_name = f"{op}options".replace("_", "").lower()
    named = _SHARED_OPTIONS.get(op) or _SECOND_OPTIONS.get(op)
    return named or _OPTIONS_BY_LOWER_NAME.get(lower_name, "NONE")


def _by_number(values: Values) -> Values:
    """The same fields, with the numbers of enums."""
    return {
        key: ENUMS[key].index(value) if key in ENUMS and isinstance(value, str) else value
        for key, value in values.items()
    }
