""".tflite bytes to `Graph`.

Slot numbers follow the TFLite schema, tensorflow/lite/schema/schema.fbs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import numpy as np

from gles_delegate.errors import ModelError, reason_of
from gles_delegate.model.bundle import model_of, models_in
from gles_delegate.model.dtypes import ELEMENT_TYPES
from gles_delegate.model.external import External, read_external
from gles_delegate.model.files import (
    advice_on_folder,
    advice_on_suffix,
    require_regular,
    wrong_format,
)
from gles_delegate.model.flatbuffer import Content, FlatTable
from gles_delegate.model.graph import Array, Graph, Node, Quantization, Signature, Tensor
from gles_delegate.model.schema import (
    BLOCKWISE_QUANTIZATION,
    BUILTIN_OPERATORS,
    CALLS,
    CALLS_OF_LIST,
    CUSTOM,
    FILE_IDENTIFIER,
    OPTIONS,
    OPTIONS_2,
)
from gles_delegate.model.sparse import Level, Sparsity

T = TypeVar("T")
_LONGEST_NAME = 200  # limit of the characters of a path in messages

MAPPED_FROM = 64 << 20
"""Bytes from which on a file is mapped, not read. A mapped file must not change during use."""

MAX_RANK = 8  # the highest rank of tensors in LiteRT's kernels


def load_model(path: str | bytes | os.PathLike[str]) -> Graph:
    """Read a model file; raises ModelError if it cannot be read or is not a usable model."""
    return read_file(path).graph()


@dataclass(frozen=True)
class ModelFile:
    """A model: its bytes, and its graph, which is read once. `Interpreter` takes it as a path.

    Attributes:
        content: Its bytes, mapped if the file is large.
        path: The file with exactly these bytes; None for a model in a bundle.
    """

    content: Content = field(repr=False)
    path: Path | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The model argument for LiteRT's interpreter: a path only of a file that is mapped or has
        external weights, because the file may be replaced meanwhile.
        """
        by_path = not isinstance(self.content, bytes) or self.graph().weights
        if self.path is not None and by_path:
            return {"model_path": str(self.path)}
        return {"model_content": bytes(self.content)}

    def graph(self) -> Graph:
        """The main subgraph, which is read once."""
        return self._graph

    @cached_property
    def _graph(self) -> Graph:
        if self.path is None:
            return read_model(self.content)
        with naming_file(self.path):
            return read_model(self.content, self.path.parent)


def read_file(
    path: str | bytes | os.PathLike[str] | ModelFile, member: str | None = None
) -> ModelFile:
    """Read a model file, or a model in a bundle, by its name or by a path through the bundle.
    A `ModelFile` has been read.

    Raises `ModelError` if the file cannot be read or is a bundle of several models, and `TypeError`
    for a model's bytes.
    """
    if not isinstance(path, ModelFile):
        with naming_file(path):
            content, file, within = find_file(path)
            model = model_of(content, member or within)
        return ModelFile(model, file if model is content else None)
    return path if member is None else ModelFile(model_of(path.content, member))


def read_models(path: str | bytes | os.PathLike[str]) -> dict[str, ModelFile]:
    """Every model of a bundle, by name; any other file or path gives one model, named ""."""
    with naming_file(path):
        content, file, within = find_file(path)
        models = models_in(content)
    if within is not None:
        return {"": ModelFile(model_of(content, within))}
    if [*models] == [""]:
        return {"": ModelFile(content, file)}
    return {name: ModelFile(model_of(content, name)) for name in models}


def find_file(path: str | bytes | os.PathLike[str]) -> tuple[Content, Path, str | None]:
    """The bytes of a file, its path, and the rest of a path that leads into a bundle.

    Raises OSError if the file cannot be read, or is a folder or a pipe; TypeError for bytes.
    """
    if not isinstance(path, str | bytes | os.PathLike):
        kind = type(path).__name__
        raise TypeError(f"expected the path of a .tflite file, found a {kind}")
    if isinstance(path, bytes) and path[4:8] == FILE_IDENTIFIER:
        raise TypeError(
            "expected the path of a .tflite file, found the bytes of one: give them as "
            "model_content"
        )
    file = Path(os.fsdecode(path))
    bundle = next((parent for parent in file.parents if parent.is_file()), None)
    if bundle is not None:
        return read_content(bundle), bundle, file.relative_to(bundle).as_posix()
    return read_content(file), file.absolute(), None


@contextmanager
def naming_file(path: str | bytes | os.PathLike[str]) -> Iterator[None]:
    """Raise errors as ModelError that names the file."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        name = repr(os.fspath(path))
        if len(name) > _LONGEST_NAME:
            name = f"{name[:_LONGEST_NAME]}..."
        reason = reason_of(error)
        if re.match(r"['\"]https?:", name):
            name = re.sub("(https?:)/+", r"\1//", name)  # a path has one slash
            reason = "it is an address: download the file first"
        elif isinstance(error, FileNotFoundError):
            reason += advice_on_suffix(name.rstrip("'\""))
        failed = "" if isinstance(error, ModelError) else "Could not open "
        raise ModelError(f"{failed}{name}: {reason}") from error


def read_content(file: Path) -> Content:
    """The bytes of a file; raises OSError, see `find_file`."""
    try:
        require_regular(file)
    except IsADirectoryError as error:
        raise IsADirectoryError(error.errno, advice_on_folder(file), str(file)) from error
    with file.open("rb") as opened:
        if os.fstat(opened.fileno()).st_size >= max(MAPPED_FROM, 1):
            with suppress(OSError):  # some file systems cannot map files
                return memoryview(mmap(opened.fileno(), 0, access=ACCESS_READ))
        return opened.read()


def read_model(data: bytes | bytearray | memoryview, folder: Path | None = None) -> Graph:
    """The first subgraph of a model, which leads to the others.

    `folder` has the model's external weights. Raises ModelError if the bytes are not a model, are
    cut off or damaged.
    """
    if not isinstance(data, bytes):
        data = memoryview(data)
        data = data if data.readonly and data.contiguous else data.tobytes()
    if len(data) < 8 or data[4:8] != FILE_IDENTIFIER:
        raise wrong_format(data)
    model = FlatTable.root(data)
    version = model.scalar(0, "uint32")
    if version != 3:
        raise ModelError(f"expected a model of schema version 3, found version {version}")
    subgraphs = _Subgraphs(model, folder)
    if not subgraphs:
        raise ModelError("damaged model: it has no subgraph")
    return subgraphs[0]


def landmarks(graph: Graph) -> Iterator[tuple[int, Literal["name", "data"], int]]:
    """Index, field and file offset of the names and constant data of the graph's tensors."""
    main = FlatTable.root(graph.content).tables(2)[graph.index]
    for index, table in enumerate(main.tables(0)):
        position = table.position_of(3)
        if position is not None:
            yield index, "name", position
    start = np.frombuffer(graph.content, np.uint8).ctypes.data
    for tensor in graph.tensors:
        if tensor.data is None or tensor.is_external:
            continue
        if tensor.data.size and not tensor.sparsity:
            yield tensor.index, "data", tensor.data.ctypes.data - start


class _Subgraphs(Sequence[Graph]):
    """The subgraphs of a model, each read at its first use."""

    def __init__(self, model: FlatTable, folder: Path | None) -> None:
        self._tables = model.tables(2)
        self._external = read_external(model, folder)
        self._buffers = [_buffer(table) for table in model.tables(4)]
        self._codes = [_operator_code(table) for table in model.tables(1)]
        self._graphs: dict[int, Graph] = {}
        signatures = tuple(_signature(table) for table in model.tables(7))
        for signature in signatures:
            _pick(self._tables, signature.subgraph, "subgraph")
        self._model: dict[str, Any] = {
            "subgraphs": self,
            "signatures": signatures,
            "description": model.string(3),
            "metadata": {
                m.string(0): _pick(self._buffers, m.scalar(1, "uint32"), "buffer")
                for m in model.tables(6)
            },
            "content": model.data,
            "weights": tuple(content for _, content in self._external.groups.values()),
        }

    def __len__(self) -> int:
        return len(self._tables)

    @overload
    def __getitem__(self, index: int) -> Graph: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Graph]: ...
    def __getitem__(self, index: int | slice) -> Graph | Sequence[Graph]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index not in self._graphs:
            self._graphs[index] = self._read(index)
        return self._graphs[index]

    def _read(self, index: int) -> Graph:
        table = self._tables[index]
        nodes = tuple(_node(i, node, self._codes) for i, node in enumerate(table.tables(3)))
        inputs = table.ints(1)
        computed = {index for node in nodes for index in node.outputs} | set(inputs)
        tables, external = table.tables(0), self._external
        tensors = [
            _tensor(i, t, self._buffers, external, i in computed) for i, t in enumerate(tables)
        ]
        for i, tensor in enumerate(tables):
            quantization = tensor.table(4)
            if quantization and quantization.scalar(4, "uint8") == BLOCKWISE_QUANTIZATION:
                details = quantization.table(5)
                if details:
                    tensors[i] = replace(tensors[i], quantization=_blocks(details, tensors))
        for i in (i for i in inputs if 0 <= i < len(tensors)):
            tensors[i] = replace(tensors[i], is_variable=False)  # the app sets it
        graph = Graph(tuple(tensors), nodes, inputs, table.ints(2), index, **self._model)
        _check_indices(graph)
        return graph


def _signature(table: FlatTable) -> Signature:
    inputs, outputs = (
        dict(sorted((entry.string(0), entry.scalar(1, "uint32")) for entry in table.tables(slot)))
        for slot in (0, 1)
    )
    return Signature(table.string(2), inputs, outputs, table.scalar(4, "uint32"))


def _buffer(table: FlatTable) -> Array:
    offset, size = table.scalar(1, "uint64"), table.scalar(2, "uint64")
    if offset <= 1:  # 0 and 1 are the schema's marks for "inside this table"
        return table.array(0, "uint8")
    if offset + size > len(table.data):
        raise ModelError(
            f"damaged model: a buffer of {size} bytes at byte {offset} lies outside the "
            f"{len(table.data)} bytes of the model; was the file cut off?"
        )
    return np.frombuffer(table.data, np.uint8, size, offset)


def _tensor(
    index: int, table: FlatTable, buffers: list[Array], external: External, is_computed: bool
) -> Tensor:
    shape = table.ints(0)
    name = table.string(3)
    title = f"tensor {index} {name!r}"
    if any(size < 0 for size in shape) or len(shape) > MAX_RANK:
        raise ModelError(
            f"damaged model: {title} has the shape {list(shape)}; expected at most {MAX_RANK} "
            "sizes, none negative"
        )
    buffer = table.scalar(2, "uint32")
    data = _pick(buffers, buffer, "buffer") if buffers else None
    # Buffer 0 means "no data"; any other empty one may hold a constant without elements.
    if data is not None and not (buffer and (data.size or (0 in shape and not is_computed))):
        data = None
    outside = table.scalar(10, "uint32")
    if outside and data is None:
        data = external.data(outside, title)
    tensor = Tensor(
        index,
        name,
        _pick(ELEMENT_TYPES, table.scalar(1, "int8"), "tensor type").name,
        shape,
        table.ints(7),
        _quantization(table.table(4)),
        table.scalar(5, "bool", False),
        _sparsity(table.table(6)),
        data,
        is_external=bool(outside),
    )
    if tensor.is_variable and tensor.is_constant:
        raise ModelError(f"damaged model: variable {title} has data; expected an empty buffer")
    if tensor.shape_signature and len(tensor.shape_signature) != len(shape):
        raise ModelError(
            f"damaged model: {title} has the shape {list(shape)} and the "
            f"signature {list(tensor.shape_signature)}"
        )
    return tensor


def _quantization(table: FlatTable | None) -> Quantization:
    """Scales, and the lowest 32 bits of zero points, as in LiteRT."""
    if table is None:
        return Quantization()
    return Quantization(
        tuple(table.array(2, "float32").tolist()),
        tuple(table.array(3, "int64").astype(np.int32).tolist()),
        table.scalar(6, "int32"),
    )


def _blocks(table: FlatTable, tensors: Sequence[Tensor]) -> Quantization:
    """Scales and zero points that are stored as tensors."""
    scales = _pick(tensors, table.scalar(0, "int32"), "tensor of scales").array()
    index = table.scalar(1, "int32")
    # Without zero points, LiteRT's writers store tensor 0, which never holds them, or -1.
    zeros = tensors[index] if 0 < index < len(tensors) else None
    points = zeros.array().reshape(-1).tolist() if zeros and zeros.is_constant else []
    block = table.scalar(2, "int32")
    if block <= 0:
        raise ModelError(f"damaged model: blocks of {block} elements; expected 1 or more")
    return Quantization(tuple(scales.reshape(-1).tolist()), tuple(points), block=block)


def _sparsity(table: FlatTable | None) -> Sparsity | None:
    if table is None:
        return None
    return Sparsity(table.ints(0), table.ints(1), tuple(_level(t) for t in table.tables(2)))


def _level(table: FlatTable) -> Level:
    if table.scalar(0, "int8") == 0:
        return Level(table.scalar(1, "int32"))
    return Level(0, _index_vector(table, 2), _index_vector(table, 4))


def _index_vector(table: FlatTable, slot: int) -> Array:
    """A union SparseIndexVector: its type in `slot`, its table after that."""
    types = (None, "int32", "uint16", "uint8")
    dtype = _pick(types, table.scalar(slot, "uint8"), "type of index vector")
    vector = table.table(slot + 1)
    if dtype is None or vector is None:
        raise ModelError("damaged model: a sparse level without indices")
    return vector.array(0, dtype).astype(np.int64)


def _operator_code(table: FlatTable) -> tuple[str, int]:
    # Numbers above 127 do not fit the old field; new writers fill both.
    number = max(table.scalar(0, "int8"), table.scalar(3, "int32"))
    version = table.scalar(2, "int32", 1)
    if number == CUSTOM:
        # Planning adds nodes whose names are in parentheses.
        return table.string(1).lstrip("(") or "CUSTOM", version
    is_known = 0 <= number < len(BUILTIN_OPERATORS)
    return BUILTIN_OPERATORS[number] if is_known else f"BUILTIN_{number}", version


def _node(index: int, table: FlatTable, codes: list[tuple[str, int]]) -> Node:
    op, version = _pick(codes, table.scalar(0, "uint32"), "operator code")
    offset, size = table.scalar(9, "uint64"), table.scalar(10, "uint64")
    if offset > 1 and offset + size <= len(table.data):
        custom_options = np.frombuffer(table.data, np.uint8, size, offset)
    else:
        custom_options = table.array(5, "uint8")
    options = table.table(4) or table.table(12)
    if OPTIONS.get(op, table.scalar(3, "uint8")) != table.scalar(3, "uint8"):
        options = None  # of another op; LiteRT ignores them, too
    if OPTIONS_2.get(op, table.scalar(11, "uint8")) != table.scalar(11, "uint8"):
        options = None
    subgraphs = tuple(options.scalar(slot, "int32") for slot in CALLS.get(op, ()) if options)
    if op in CALLS_OF_LIST and options:
        subgraphs = options.ints(CALLS_OF_LIST[op])
    inputs, outputs, middle = table.ints(1), table.ints(2), table.ints(8)
    return Node(index, op, version, inputs, outputs, options, custom_options, subgraphs, middle)


def _pick(items: Sequence[T], index: int, what: str) -> T:
    if not 0 <= index < len(items):
        raise ModelError(f"damaged model: {what} {index} does not exist; there are {len(items)}")
    return items[index]


def _check_indices(graph: Graph) -> None:
    where = f"in subgraph {graph.index}, " if graph.index else ""
    signatures = [s for s in graph.signatures if s.subgraph == graph.index]
    unused = -1 if graph.index and not signatures else 0  # of a branch that does not need an input
    lists = [("the graph's inputs", graph.inputs, unused)]
    lists.append(("the graph's outputs", graph.outputs, 0))
    for node in graph.nodes:
        lists.append((f"node {node.index} {node.op}'s inputs", node.inputs, -1))
        lists.append((f"node {node.index} {node.op}'s outputs", node.outputs, 0))
        lists.append((f"node {node.index} {node.op}'s intermediates", node.intermediates, -1))
        for index in node.subgraphs:
            _pick(range(len(graph.subgraphs)), index, "subgraph")
    for signature in signatures:
        indices = (*signature.inputs.values(), *signature.outputs.values())
        lists.append((f"signature {signature.key!r}", indices, 0))
    for owner, indices, lowest in lists:
        for index in indices:
            if not lowest <= index < len(graph.tensors):
                raise ModelError(
                    f"damaged model: {where}{owner} name tensor {index}; "
                    f"there are {len(graph.tensors)} tensors"
                )
