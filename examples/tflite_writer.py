"""Write .tflite files with the schema classes that come with LiteRT."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as tfl


class AlignedBuffer(tfl.BufferT):
    """A buffer whose data is aligned to 16 bytes, as the TFLite schema requires."""

    def Pack(self, builder: flatbuffers.Builder) -> int:  # noqa: N802
        builder.Prep(16, len(self.data))
        return super().Pack(builder)


class TfliteWriter:
    """Builds one float32 graph; tensors are identified by index."""

    def __init__(self) -> None:
        self.graph = tfl.SubGraphT(name="main", tensors=[], operators=[])
        self.buffers = [tfl.BufferT()]  # buffer 0 is empty by convention
        self.codes: dict[int, int] = {}  # BuiltinOperator -> index in the file's list of them

    def buffer(self, data: bytes) -> int:
        self.buffers.append(AlignedBuffer(data=np.frombuffer(data, np.uint8)))
        return len(self.buffers) - 1

    def tensor(self, name: str, shape: Sequence[int], **fields: object) -> int:
        self.graph.tensors.append(tfl.TensorT(name=name, shape=list(shape), **fields))
        return len(self.graph.tensors) - 1

    def constant(self, name: str, values: np.ndarray) -> int:
        """Add a float32 tensor, or an int32 tensor if `values` are integers."""
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

    def finish(self, input_: int, output: int, about: Description, licences: str) -> bytes:
        """The file, with the signature ``serving_default``, metadata and labels."""
        self.graph.inputs = [input_]
        self.graph.outputs = [output]

        def named(index: int) -> list[tfl.TensorMapT]:
            return [tfl.TensorMapT(self.graph.tensors[index].name, index)]

        signature = tfl.SignatureDefT(
            signatureKey="serving_default", inputs=named(input_), outputs=named(output)
        )
        model = tfl.ModelT(
            version=3,
            description=about.description,
            operatorCodes=[tfl.OperatorCodeT(code, builtinCode=code) for code in self.codes],
            subgraphs=[self.graph],
            signatureDefs=[signature],
            metadata=[
                tfl.MetadataT("LICENCES", self.buffer(licences.encode())),
                tfl.MetadataT("TFLITE_METADATA", self.buffer(about.metadata())),
            ],
            buffers=self.buffers,
        )
        builder = flatbuffers.Builder()
        builder.Finish(model.Pack(builder), b"TFL3")
        return with_labels(bytes(builder.Output()), about.labels)


LABELS = "labels.txt"


@dataclass(frozen=True)
class Description:
    """The description of a model for pictures; see TFLite's metadata_schema.fbs.

    Attributes:
        image, result: Name and description of the input and of the output.
        mean, std: The input is (pixel - mean) / std, with pixels of 0 to 255.
        labels: Names of the output's channels.
    """

    name: str
    description: str
    license: str
    image: tuple[str, str]
    result: tuple[str, str]
    mean: float
    std: float
    labels: Sequence[str] = ()
    version: str = "1"
    author: str = "gles_delegate"

    def metadata(self) -> bytes:
        """The ModelMetadata table."""
        b = flatbuffers.Builder()
        numbers = [((v - self.mean) / self.std,) for v in (255, 0)]  # maximum, minimum
        stats = _table(b, *map(partial(_floats, b), numbers))
        options = _table(b, _floats(b, (self.mean,)), _floats(b, (self.std,)))
        normalize = _table(b, 1, options)  # NormalizationOptions
        picture = _table(b, 2, _table(b, 1))  # ImageProperties, RGB
        files = [_table(b, b.CreateString(LABELS), None, 2)] if self.labels else []
        image, result = (map(b.CreateString, texts) for texts in (self.image, self.result))
        units = _vector(b, [normalize])
        listed = _vector(b, files)
        tensors = [
            _vector(b, [_table(b, *image, None, picture, units, stats)]),
            _vector(b, [_table(b, *result, None, None, None, None, listed)]),
        ]
        graphs = _vector(b, [_table(b, None, None, *tensors)])
        texts = self.name, self.description, self.version, self.author, self.license
        name, description, version, author, license = map(b.CreateString, texts)
        model = _table(b, name, description, version, graphs, author, license)
        b.Finish(model, b"M001")
        return bytes(b.Output())


def with_labels(model: bytes, labels: Sequence[str]) -> bytes:
    """Append a zip file with the labels, if any, to a model."""
    if not labels:
        return model
    file = BytesIO(model)
    with zipfile.ZipFile(file, "a") as packed:  # for reproducible bytes
        packed.writestr(zipfile.ZipInfo(LABELS), "".join(f"{label}\n" for label in labels))
    return file.getvalue()


def _table(b: flatbuffers.Builder, *fields: int | None) -> int:
    """A table of offsets by slot; numbers below 4 are enumerations."""
    b.StartObject(len(fields))
    for slot, value in enumerate(fields):
        if value is not None and value < 4:
            b.PrependInt8Slot(slot, value, 0)
        elif value is not None:
            b.PrependUOffsetTRelativeSlot(slot, value, 0)
    return b.EndObject()


def _vector(b: flatbuffers.Builder, tables: Sequence[int]) -> int:
    b.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        b.PrependUOffsetTRelative(table)
    return b.EndVector()


def _floats(b: flatbuffers.Builder, values: Sequence[float]) -> int:
    return b.CreateNumpyVector(np.array(values, np.float32))
