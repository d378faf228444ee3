"""Writes .tflite files through the schema objects that come with LiteRT."""

from __future__ import annotations

from collections.abc import Sequence

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as tfl


class AlignedBuffer(tfl.BufferT):
    """A buffer whose data starts at a multiple of 16 bytes, as the TFLite schema demands."""

    def Pack(self, builder: flatbuffers.Builder) -> int:  # noqa: N802
        builder.Prep(16, len(self.data))
        return super().Pack(builder)


class TfliteWriter:
    """One float32 graph in the making; its tensors are known by their index."""

    def __init__(self) -> None:
        self.graph = tfl.SubGraphT(name="main", tensors=[], operators=[])
        self.buffers = [tfl.BufferT()]  # buffer 0 is empty, by the format's convention
        self.codes: dict[int, int] = {}  # BuiltinOperator -> index in the file's list of them

    def buffer(self, data: bytes) -> int:
        self.buffers.append(AlignedBuffer(data=np.frombuffer(data, np.uint8)))
        return len(self.buffers) - 1

    def tensor(self, name: str, shape: Sequence[int], **fields: object) -> int:
        self.graph.tensors.append(tfl.TensorT(name=name, shape=list(shape), **fields))
        return len(self.graph.tensors) - 1

    def constant(self, name: str, values: np.ndarray) -> int:
        """A tensor of float32, or of int32 where `values` are integers."""
        integers = values.dtype.kind == "i"
        kind = tfl.TensorType.INT32 if integers else tfl.TensorType.FLOAT32
        data = values.astype("<i4" if integers else "<f4").tobytes()
        return self.tensor(name, values.shape, buffer=self.buffer(data), type=kind)

    def operator(self, op: str, inputs: Sequence[int], output: int, options: object = None) -> int:
        """Append the builtin operator `op` and return its output."""
        code = getattr(tfl.BuiltinOperator, op)
        operator = tfl.OperatorT(
            self.codes.setdefault(code, len(self.codes)), list(inputs), [output]
        )
        if options:
            kind = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(tfl.BuiltinOptions, kind)
            operator.builtinOptions = options
        self.graph.operators.append(operator)
        return output

    def finish(self, input_: int, output: int, description: str, licences: str) -> bytes:
        """The file, with the one signature ``serving_default``."""
        self.graph.inputs, self.graph.outputs = [input_], [output]

        def named(index: int) -> list[tfl.TensorMapT]:
            return [tfl.TensorMapT(self.graph.tensors[index].name, index)]

        signature = tfl.SignatureDefT(
            signatureKey="serving_default", inputs=named(input_), outputs=named(output)
        )
        model = tfl.ModelT(
            version=3,
            description=description,
            operatorCodes=[tfl.OperatorCodeT(code, builtinCode=code) for code in self.codes],
            subgraphs=[self.graph],
            signatureDefs=[signature],
            metadata=[tfl.MetadataT("LICENCES", self.buffer(licences.encode()))],
            buffers=self.buffers,
        )
        builder = flatbuffers.Builder()
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())
