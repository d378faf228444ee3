"""Descriptions of inputs and outputs that a model's author recorded (TFLite Metadata, M001)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from zipfile import ZipFile

from gles_delegate.errors import ModelError
from gles_delegate.model.bundle import DAMAGES, BytesFile
from gles_delegate.model.flatbuffer import Content, FlatTable
from gles_delegate.model.graph import Graph

CONTENTS = ("", "feature", "image", "bounding box", "audio")
"""Names by their number in ``union ContentProperties``."""

COLORS = ("", "rgb", "gray")  # names by their number in ``enum ColorSpaceType``
NORMALIZATION, THRESHOLDING = 1, 3  # numbers in ``union ProcessUnitOptions``
LABELS = (2, 3)  # numbers of axis labels and value labels in ``enum AssociatedFileType``
LONGEST = 1 << 24  # limit of the bytes read from a file of labels


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
        maximum: The largest; likewise.
        labels: Names of classes, by their index along the last axis, or by their number.
        threshold: The lowest score of results that count; None if unknown.
        is_share: Whether an output ranges from 0 to 1, as after a sigmoid; None if neither its op
            nor the metadata says so.
        dimensions: Names of the axes.
        sample_rate: Sample rate of audio in Hz; 0 if unknown.
        channels: Channels of audio.
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
    is_share: bool | None = None
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
        outputs: Likewise.
        files: The names of the files in the model, such as lists of labels.
    """

    name: str = ""
    description: str = ""
    version: str = ""
    author: str = ""
    license: str = ""
    inputs: tuple[TensorMetadata, ...] = ()
    outputs: tuple[TensorMetadata, ...] = ()
    files: tuple[str, ...] = ()


def parse_metadata(graph: Graph) -> Metadata:
    """The metadata of a model, without `is_share`; raises ModelError if it is damaged."""
    data = graph.metadata.get("TFLITE_METADATA")
    files = _files(graph.content)
    model = None if data is None or not data.size else FlatTable.root(data.tobytes())
    subgraphs = model.tables(3) if model else []

    def tensors(slot: int, count: int) -> tuple[TensorMetadata, ...]:
        tables = subgraphs[0].tables(slot)[:count] if subgraphs else []
        described = tuple(_tensor(table, files) for table in tables)
        return described + (TensorMetadata(),) * (count - len(described))

    def text(slot: int) -> str:
        return model.string(slot) if model else ""

    return Metadata(
        text(0),
        text(1) or graph.description,
        text(2),
        text(4),
        text(5),
        tensors(2, len(graph.inputs)),
        tensors(3, len(graph.outputs)),
        tuple(files),
    )


def _tensor(table: FlatTable, files: Mapping[str, Callable[[], bytes]]) -> TensorMetadata:
    fields: dict[str, Any] = {}
    for unit in table.tables(4):
        kind, options = unit.scalar(0, "uint8"), unit.table(1)
        if options is not None and kind == NORMALIZATION:
            fields |= {"mean": _floats(options, 0), "std": _floats(options, 1)}
        elif options is not None and kind == THRESHOLDING:
            fields["threshold"] = options.scalar(0, "float32", 0.0)
    stats = table.table(5)
    if stats is not None:
        fields |= {"maximum": _floats(stats, 0), "minimum": _floats(stats, 1)}
    content = table.table(3)
    kind = _name(CONTENTS, content.scalar(0, "uint8")) if content else ""
    properties = content.table(1) if content else None
    if properties is not None and kind == "image":
        fields["colors"] = _name(COLORS, properties.scalar(0, "int8"))
    if properties is not None and kind == "audio":
        fields["sample_rate"] = properties.scalar(0, "uint32")
        fields["channels"] = properties.scalar(1, "uint32")
    return TensorMetadata(
        name=table.string(0),
        description=table.string(1),
        content=kind,
        labels=_labels(table, files),
        dimensions=table.strings(2),
        **fields,
    )


def _labels(table: FlatTable, files: Mapping[str, Callable[[], bytes]]) -> tuple[str, ...]:
    """The labels in the default language, or else in the first one listed."""
    lists = [file for file in table.tables(6) if file.scalar(2, "int8") in LABELS]
    for file in sorted(lists, key=lambda file: bool(file.string(3))):
        name = file.string(0)
        if name in files:
            try:
                text = files[name]().decode("utf-8", "replace")
            except DAMAGES as error:
                raise ModelError(f"damaged model: its file {name!r} of labels: {error}") from error
            return tuple(line.strip() for line in text.splitlines())
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
