"""Descriptions of inputs and outputs that a model's author recorded (TFLite Metadata, M001)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any
from zipfile import ZipFile

from gles_delegate.errors import ModelError
from gles_delegate.model.bundle import DAMAGES, BytesFile
from gles_delegate.model.flatbuffer import Content, FlatTable
from gles_delegate.model.graph import Graph
from gles_delegate.model.labels import lines_of
from gles_delegate.model.ultralytics import SUFFIXES, Export, parse_export

CONTENTS = ("", "feature", "image", "bounding box", "audio")
"""Names by their number in ``union ContentProperties``."""

COLORS = ("", "rgb", "gray")  # names by their number in ``enum ColorSpaceType``
NORMALIZATION, CALIBRATION, THRESHOLDING = 1, 2, 3  # numbers in ``union ProcessUnitOptions``
LABELS = (2, 3)  # numbers of axis labels and value labels in ``enum AssociatedFileType``
SIGMOIDS = 4  # number of score calibrations in ``enum AssociatedFileType``
TRANSFORMATIONS = ("identity", "log", "inverse logistic")
"""Names by their number in ``enum ScoreTransformationType``."""
MAX_FILES = 8  # limit of the files that are searched for Ultralytics' metadata
LONGEST = 1 << 24  # limit of the bytes read from a file of labels


@dataclass(frozen=True)
class ScoreCalibration:
    """How the scores of classes become probabilities, each class by its own sigmoid.

    A score x becomes scale / (1 + exp(-(slope * t(x) + offset))).

    Attributes:
        transformation: t: "identity", "log" or "inverse logistic".
        default: The result for classes without a sigmoid, and for scores below their limit.
        sigmoids: Scale, slope, offset and least score of each class; None: it has none.
    """

    transformation: str
    default: float
    sigmoids: tuple[tuple[float, float, float, float] | None, ...] = field(repr=False)


@dataclass(frozen=True)
class TensorMetadata:
    """Metadata of an input or output.

    Attributes:
        content: "image", "audio", "feature", "bounding box", or "" if unknown.
        colors: An image's "rgb" or "gray", or "" if unknown.
        mean: An input takes (value - mean) / std, for colors from 0 to 255; one number or one per
            channel. Empty if unknown.
        std: See `mean`.
        minimum: The smallest value after that; one number or one per channel. Empty if unknown.
        maximum: The largest value after that; see `minimum`.
        labels: Names of classes, by their index along the last axis, or by their number.
        threshold: The lowest score of results that count; None if unknown.
        calibration: See `ScoreCalibration`; None if there is none.
        is_share: Whether an output ranges from 0 to 1, as after a sigmoid; None if neither its op
            nor the metadata says so.
        task: What an output of Ultralytics' exporter is for: "detect", "segment", "pose", "obb" or
            "classify"; "" if unknown.
        points: The number of a pose's key points, and of the numbers for each point; from the same
            exporter.
        detector: Anchors and decoding options of an SSD's outputs, in the FlatBuffers schema
            mediapipe/tasks/metadata/object_detector_metadata_schema.fbs; empty if unknown.
        dimensions: Names of the axes.
        sample_rate: Sample rate of audio in Hz; 0 if unknown.
        channels: Channels of audio.

    Examples:
        >>> with gd.Interpreter("segmenter.tflite") as interpreter:
        ...     image = interpreter.metadata.inputs[0]
        >>> image.content, image.colors, image.mean, image.std
        ('image', 'rgb', (127.5,), (127.5,))
    """

    name: str = ""
    description: str = ""
    content: str = ""
    colors: str = ""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    minimum: tuple[float, ...] = ()
    maximum: tuple[float, ...] = ()
    labels: tuple[str, ...] = field(default=(), repr=False)
    threshold: float | None = None
    calibration: ScoreCalibration | None = None
    is_share: bool | None = None
    task: str = ""
    points: tuple[int, int] | None = None
    detector: bytes = field(default=b"", repr=False)
    dimensions: tuple[str, ...] = ()
    sample_rate: int = 0
    channels: int = 0

    def __str__(self) -> str:
        kind = " ".join(word for word in (self.colors, self.content) if word)
        texts = [self.name, self.description, kind]
        if self.mean:
            texts.append(f"(x - {_numbers(self.mean)}) / {_numbers(self.std)}")
        if self.minimum and self.maximum:
            texts.append(f"{_numbers(self.minimum)} to {_numbers(self.maximum)}")
        if self.sample_rate:
            texts.append(f"{self.sample_rate} Hz, {self.channels} channels")
        if self.threshold is not None:
            texts.append(f"counts from {self.threshold:g} on")
        if self.labels:
            dots = " ..." if len(self.labels) > 3 else ""
            texts.append(f"{len(self.labels)} labels: {', '.join(self.labels[:3])}{dots}")
        return "; ".join(filter(None, texts))


@dataclass(frozen=True)
class Metadata:
    """Metadata of a model; fields that the model lacks are empty.

    Attributes:
        inputs: Metadata of each input of the first subgraph, in its order.
        outputs: Metadata of each output of the first subgraph, in its order.
        files: The names of the files in the model, such as lists of labels.
        custom: The bytes of custom metadata, by name.
        stride: Pixels between the cells of a YOLO network's coarsest grid, as Ultralytics' exporter
            recorded it; 0 if unknown.
        size: Height and width of the input for which the same exporter exported the network.

    Examples:
        >>> with gd.Interpreter("segmenter.tflite") as interpreter:
        ...     metadata = interpreter.metadata
        >>> metadata.outputs[0].labels
        ('ball',)
    """

    name: str = ""
    description: str = ""
    version: str = ""
    author: str = ""
    license: str = ""
    inputs: tuple[TensorMetadata, ...] = ()
    outputs: tuple[TensorMetadata, ...] = ()
    files: tuple[str, ...] = ()
    custom: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    stride: int = 0
    size: tuple[int, int] | None = None


def parse_metadata(graph: Graph) -> Metadata:
    """The metadata of a model, without `is_share`; raises ModelError if it is damaged."""
    data = graph.metadata.get("TFLITE_METADATA")
    files = _files(graph.content)
    model = None if data is None or not data.size else FlatTable.root(data.tobytes())
    subgraphs = model.tables(3) if model else []
    export = _export(files)

    def tensors(slot: int, count: int) -> tuple[TensorMetadata, ...]:
        tables = subgraphs[0].tables(slot)[:count] if subgraphs else []
        described = tuple(_tensor(table, files) for table in tables)
        return described + (TensorMetadata(),) * (count - len(described))

    def text(slot: int, name: str = "") -> str:
        return (model.string(slot) if model else "") or export.texts.get(name, "")

    custom = {
        table.string(0): table.array(1, "uint8").tobytes()
        for table in (subgraphs[0].tables(9) if subgraphs else [])
    }
    inputs = tensors(2, len(graph.inputs))
    if export.task:  # Ultralytics' networks see shares of 255
        inputs = tuple(x if x.mean else replace(x, mean=(0.0,), std=(255.0,)) for x in inputs)
    outputs = []
    for output, index in zip(tensors(3, len(graph.outputs)), graph.outputs, strict=True):
        # Prototypes of masks have none. Some models name the exporter's file as their labels.
        is_labeled = export.names and len(graph.tensors[index].shape) < 4
        outputs.append(
            replace(
                output,
                detector=custom.get("DETECTOR_METADATA", b""),
                labels=export.names if is_labeled else output.labels,
                task=export.task,
                points=export.points,
            )
        )
    return Metadata(
        text(0),
        text(1, "description") or graph.description,
        text(2, "version"),
        text(4, "author"),
        text(5, "license"),
        inputs,
        tuple(outputs),
        tuple(files),
        custom,
        export.stride,
        export.size,
    )


def _export(files: Mapping[str, Callable[[], bytes]]) -> Export:
    """The record of Ultralytics' exporter among the files; empty if there is none."""
    for name in islice((name for name in files if name.endswith(SUFFIXES)), MAX_FILES):
        with suppress(*DAMAGES):
            export = parse_export(files[name]())
            if export is not None:
                return export
    return Export()


def _tensor(table: FlatTable, files: Mapping[str, Callable[[], bytes]]) -> TensorMetadata:
    fields: dict[str, Any] = {}
    for unit in table.tables(4):
        kind, options = unit.scalar(0, "uint8"), unit.table(1)
        if options is not None and kind == NORMALIZATION:
            fields |= {"mean": _floats(options, 0), "std": _floats(options, 1)}
        elif options is not None and kind == THRESHOLDING:
            fields["threshold"] = options.scalar(0, "float32", 0.0)
        elif options is not None and kind == CALIBRATION:
            fields["calibration"] = _calibration(table, options, files)
    stats = table.table(5)
    if stats is not None:
        fields |= {"maximum": _floats(stats, 0), "minimum": _floats(stats, 1)}
    content = table.table(3)
    kind = _name(CONTENTS, content.scalar(0, "uint8")) if content else ""
    properties = content.table(1) if content else None
    lists = [file for file in table.tables(6) if file.scalar(2, "int8") in LABELS]
    if properties is not None and kind == "image":
        fields["colors"] = _name(COLORS, properties.scalar(0, "int8"))
    if properties is not None and kind == "audio":
        fields["sample_rate"] = properties.scalar(0, "uint32")
        fields["channels"] = properties.scalar(1, "uint32")
    return TensorMetadata(
        name=table.string(0),
        description=table.string(1),
        content=kind,
        # In the default language, or else in the first one listed.
        labels=_lines(sorted(lists, key=lambda file: bool(file.string(3))), files),
        dimensions=table.strings(2),
        **fields,
    )


def _calibration(
    table: FlatTable, options: FlatTable, files: Mapping[str, Callable[[], bytes]]
) -> ScoreCalibration:
    """See `ScoreCalibration`; its file has "scale,slope,offset[,least score]" for each class."""
    sigmoids: list[tuple[float, float, float, float] | None] = []
    lists = [file for file in table.tables(6) if file.scalar(2, "int8") == SIGMOIDS]
    for line in _lines(lists, files):
        try:
            numbers = [float(word) for word in line.split(",")] if line else []
        except ValueError:
            numbers = [0.0]
        if len(numbers) not in (0, 3, 4):
            raise ModelError(
                'damaged model: expected a calibration "scale,slope,offset" or '
                f'"scale,slope,offset,least score", found {line!r}'
            )
        scale, slope, offset, least = ([*numbers, float("-inf")] * 4)[:4]
        sigmoids.append((scale, slope, offset, least) if numbers else None)
    transformation = _name(TRANSFORMATIONS, options.scalar(0, "int8"))
    default = options.scalar(1, "float32", 0.0)
    return ScoreCalibration(transformation or "identity", default, tuple(sigmoids))


def _lines(
    tables: Sequence[FlatTable], files: Mapping[str, Callable[[], bytes]]
) -> tuple[str, ...]:
    """The lines of the first of these files that the model has."""
    for file in tables:
        name = file.string(0)
        if name in files:
            try:
                return lines_of(files[name](), "replace")
            except DAMAGES as error:
                raise ModelError(f"damaged model: its file {name!r}: {error}") from error
    return ()


def _files(content: Content) -> dict[str, Callable[[], bytes]]:
    """A reader of each file in the zip file at the model's end, by name."""
    try:
        bundle = ZipFile(BytesFile(content))
    except DAMAGES:
        return {}

    def read(name: str) -> bytes:
        with bundle.open(name) as file:
            return file.read(LONGEST)

    return {name: partial(read, name) for name in bundle.namelist()}


def _floats(table: FlatTable, slot: int) -> tuple[float, ...]:
    return tuple(table.array(slot, "float32").tolist())


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else ""


def _numbers(values: tuple[float, ...]) -> str:
    """The values as text; a single number if all are equal."""
    texts = [f"{value:g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else f"[{', '.join(texts)}]"
