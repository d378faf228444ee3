"""Running a model on the rows of batches."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from gles_apps.batch.machine import cache_folder
from gles_apps.tasks.assets import Assets
from gles_apps.tasks.image import as_pillow
from gles_delegate import (
    DelegateError,
    GpuDelegate,
    GpuDelegateOptions,
    Interpreter,
    TensorMetadata,
)
from gles_delegate.hosts.interpreter import unique_names
from gles_delegate.image.pictures import PICTURES, as_tensor, picture_mode
from gles_delegate.image.pictures import load as load_picture
from gles_delegate.image.transform import picture_transform
from gles_delegate.model.graph import Array, Graph
from gles_delegate.planning.rows import keeps_resources, keeps_states
from gles_delegate.runtime.delegation import Delegation
from gles_delegate.support.closing import on_error

log = logging.getLogger("gles_delegate")

ModelSource: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | Array | Assets"
"""A model: its path, its bytes, an array of its bytes, or its files that have been read."""

Batch: TypeAlias = "dict[str, Array]"
"""Columns by name."""

Kind: TypeAlias = "tuple[tuple[int, ...], ...]"
"""The shapes of a row's inputs."""


class Predictor:
    """Runs a model on batches of rows.

    A batch has a column for each input, by its name. A model's only input may also be in a
    column "image", or in the batch's only column. Other columns are returned unchanged, with an
    additional column for each output, by its name, or by its index if names are not unique.

    If an input is a picture, rows may be pictures of any size, uint8 [height, width] or [height,
    width, 1, 3 or 4], or picture files as bytes. They are stretched to the input's size, and
    normalized by the model's metadata; see `ImageTransform.for_input`.

    The results of a row never depend on other rows. Rows are computed together if the graph shows
    that no op combines them; otherwise they are computed in the model's own batch size. A model
    that keeps states between runs starts each row with their initial values. A smaller last batch
    is padded, so that it compiles nothing. A row may also be a whole input whose batch is not 1,
    and must be one if the model combines the rows of a larger batch, as a recurrent network
    [time, 1, features] does.

    Args:
        model: The path of a model, or its bytes.
        signature: The signature that names inputs and outputs; None: tensors' names.
        mean: See `ImageTransform`; it takes precedence over the metadata.
        std: Likewise.
        antialias: Likewise.
        options: See `GpuDelegateOptions`. Without a `serialization_dir`, programs are kept in a
            folder for temporary files.

    Attributes:
        inputs: The details of each input by its name, as in LiteRT.
        outputs: The details of each output by its name.

    Raises:
        ModelError: The model cannot be read.
        UnsupportedModelError, ContextError: See `Interpreter`.
        ValueError: There is no such signature.

    Examples:
        >>> pictures = [np.zeros((200, 320, 3), np.uint8)] * 2
        >>> predictor = batch.Predictor("model.tflite")
        >>> results = predictor({"image": pictures, "path": ["a.jpg", "b.jpg"]})
        >>> predictor.close()
        >>> [len(column) for column in results.values()]
        [2, 2]
    """

    def __init__(
        self,
        model: ModelSource,
        *,
        signature: str | None = None,
        mean: float | None = None,
        std: float | None = None,
        antialias: bool = True,
        options: GpuDelegateOptions | None = None,
    ) -> None:
        self._options = replace(cached(options), own_thread=True)
        self._mean = mean
        self._std = std
        self._antialias = antialias
        self._delegate = GpuDelegate(self._options)
        with on_error(self._delegate.close):
            interpreter = self._interpreter = Interpreter(
                **_arguments(model), experimental_delegates=[self._delegate]
            )
            details = interpreter.get_input_details()
            self._subgraph = 0
            if signature:
                runner = interpreter.get_signature_runner(signature)
                (self._subgraph,) = (
                    each.subgraph for each in self._graph.signatures if each.key == signature
                )
                self._run: Any = lambda feeds: runner(**feeds)
                self.inputs = runner.get_input_details()
                self.outputs = runner.get_output_details()
            else:
                self.inputs = by_name(details)
                self.outputs = by_name(interpreter.get_output_details())
                self._run = lambda feeds: interpreter.run(
                    {self.inputs[name]["index"]: array for name, array in feeds.items()}
                )
            self._delegation.set_shapes(self.outputs.values())
            self._shapes = {name: tuple(d["shape"].tolist()) for name, d in self.inputs.items()}
            metadata = zip((d["index"] for d in details), interpreter.metadata.inputs, strict=False)
            self._metadata: dict[int, TensorMetadata] = dict(metadata)
            self._has_states = keeps_states(self._graph)
            self._keeps_resources = keeps_resources(self._graph)
            self._has_run = False
            self._rows = self._own_rows()
            self._sizes: dict[Kind, int] = {}
            self._fixed: set[Kind] = set()

    @property
    def _delegation(self) -> Delegation:
        return self._delegate.bound.subgraphs[self._subgraph]

    @property
    def _graph(self) -> Graph:
        return self._delegation.graph

    def _own_rows(self) -> int:
        """The rows of the model's own batch; 0 if a row is a whole input."""
        shapes = {d["index"]: self._shapes[name] for name, d in self.inputs.items()}
        sizes = {shape[:1] for shape in shapes.values()}
        if len(sizes) != 1 or sizes <= {(), (0,)}:
            return 0
        ((size,),) = sizes
        return size if size == 1 or self._delegation.rows_are_independent(shapes) else 0

    def __call__(self, batch: Mapping[str, Any]) -> Batch:
        """Add the results to a batch.

        Raises:
            ValueError: A column is missing, or does not suit its input.
        """
        taken = self._columns(batch)
        kept = {n: np.asarray(c) for n, c in batch.items() if n not in taken.values()}
        return kept | self.compute(self.prepare(batch))

    def prepare(self, batch: Mapping[str, Any]) -> Batch:
        """The columns of a batch as the model's inputs [rows, ...].

        Raises:
            ValueError: A column is missing, or does not suit its input.
        """
        columns = self._columns(batch)
        return {name: self._feed(name, batch[column]) for name, column in columns.items()}

    def compute(self, feeds: Mapping[str, Array]) -> Batch:
        """The results for inputs [rows, ...] from `prepare`."""
        return self._results(feeds, len(next(iter(feeds.values()))))

    def row_shape(self, name: str) -> tuple[int, ...]:
        """The shape of a row of an input of `compute`."""
        shape = self._shapes[name]
        return shape[1:] if self._rows or shape[:1] == (1,) else shape

    def check(self) -> None:
        """Raise ContextLostError if the context is lost."""
        self._delegate.memory()

    def close(self) -> None:
        """Free GPU resources; the end of an actor does so, too."""
        self._delegate.close()

    def _columns(self, batch: Mapping[str, Any]) -> dict[str, str]:
        columns = {name: name for name in self.inputs if name in batch}
        if len(self.inputs) == 1 and not columns:
            (only,) = self.inputs
            column = next(iter(batch), "") if len(batch) == 1 else "image"
            columns = {only: column} if column in batch else {}
        if self.inputs.keys() - columns.keys():
            raise ValueError(
                f"expected a column for each of the inputs {sorted(self.inputs)}, found "
                f"{sorted(batch)}"
            )
        return columns

    def _feed(self, name: str, column: Any) -> Array:
        details = self.inputs[name]
        inner = self.row_shape(name)
        dtype = np.dtype(details["dtype"])
        rows: list[Any] = [row if isinstance(row, bytes) else np.asarray(row) for row in column]
        if not rows:
            return np.zeros((0, *inner), dtype)
        if self._are_tensors(name, rows):
            return np.stack(rows)
        if picture_mode((1, *inner)) is None:
            kinds = sorted({_described(row) for row in rows})
            raise ValueError(
                f"expected rows of {dtype.name} {list(inner)} for the input {name!r}, found "
                f"{' and '.join(kinds)}"
            )
        row_details = {**details, "shape": (1, *inner)}
        metadata = self._metadata.get(details["index"], TensorMetadata())
        transform = picture_transform((1, *inner), dtype.name, metadata, self._mean, self._std)
        transform = replace(transform, antialias=self._antialias)
        try:
            return np.concatenate(
                [as_tensor(picture_of(row), row_details, transform) for row in rows]
            )
        except OSError as error:  # for pictures whose numbers have no known range
            raise ValueError(str(error)) from error

    def _are_tensors(self, name: str, rows: Sequence[Any]) -> bool:
        """Whether rows are tensors of the input's type, in one shape that the model accepts."""
        kinds = {(row.dtype, row.shape) if isinstance(row, np.ndarray) else None for row in rows}
        kind, *others = kinds
        if kind is None or others or kind[0] != self.inputs[name]["dtype"]:
            return False
        shape = kind[1]
        whole = self._shapes[name]
        inner = self.row_shape(name)
        if shape == inner or (shape == whole and whole[:1] != (1,)):
            return True
        stretches = kind[0] == np.uint8 and picture_mode((1, *inner)) is not None
        return len(shape) == len(inner) and self._rows <= 1 and not stretches

    def _results(self, feeds: Mapping[str, Array], rows: int) -> Batch:
        """The outputs [rows, ...] for inputs [rows, ...]."""
        if not rows:  # run on zeros, for the outputs' shapes and types
            zeros = {n: np.zeros((1, *a.shape[1:]), a.dtype) for n, a in feeds.items()}
            return {name: array[:0] for name, array in self._results(zeros, 1).items()}
        if not self._rows or any(a.shape[1:] == self._shapes[n] for n, a in feeds.items()):
            # Rows are whole inputs, or lack only the dimension for rows.
            ranks = {name: len(shape) for name, shape in self._shapes.items()}
            whole = {n: a if a.ndim > ranks[n] else a[:, np.newaxis] for n, a in feeds.items()}
            results = [self._run_fresh({n: a[i] for n, a in whole.items()}) for i in range(rows)]
            return {name: np.stack([each[name] for each in results]) for name in results[0]}
        kind = tuple(array.shape[1:] for array in feeds.values())
        size = self._sizes.get(kind, self._rows)
        if rows > size and not self._has_states and kind not in self._fixed:
            together = self._as_one(feeds, rows)
            if together is not None:
                self._sizes[kind] = rows
                return together
            self._fixed.add(kind)
        batches = []
        for start in range(0, rows, size):
            part = {name: array[start : start + size] for name, array in feeds.items()}
            batches.append(self._run_padded(part, min(size, rows - start), size))
        return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}

    def _as_one(self, feeds: Mapping[str, Array], rows: int) -> Batch | None:
        """The outputs of more rows than before, computed together; None if rows affect others."""
        shapes = {self.inputs[name]["index"]: array.shape for name, array in feeds.items()}
        if not self._delegation.rows_are_independent(shapes):
            log.info("rows are computed one by one: the graph may combine them")
            return None
        try:
            return self._run_padded(feeds, rows, rows)
        except (DelegateError, RuntimeError, ValueError) as error:
            log.info("rows are computed one by one, as the model has one batch size: %s", error)
            return None

    def _run_padded(self, feeds: Mapping[str, Array], rows: int, size: int) -> Batch:
        """The outputs of rows, padded to `size`; raises ValueError if they have another number."""
        if rows < size:
            padding = size - rows
            feeds = {n: np.concatenate([a, a[-1:].repeat(padding, 0)]) for n, a in feeds.items()}
        results = self._run_fresh(feeds)
        if size == 1:  # an output may lack the dimension for rows
            have_rows = [n for n, each in self.outputs.items() if each["shape"].tolist()[:1] == [1]]
            return {n: a if n in have_rows else a[np.newaxis] for n, a in results.items()}
        if any(not a.ndim or a.shape[0] != size for a in results.values()):
            shapes = {name: list(array.shape) for name, array in results.items()}
            raise ValueError(f"expected outputs of {size} rows, found the shapes {shapes}")
        return {name: array[:rows] for name, array in results.items()}

    def _run_fresh(self, feeds: Mapping[str, Array]) -> Batch:
        """The outputs of a run that starts with the initial values of all states."""
        if self._keeps_resources and self._has_run:
            self._delegate.close()
            self._delegate = GpuDelegate(self._options)
            self._interpreter.modify_graph_with_delegate(self._delegate)
        self._has_run = True
        with self._interpreter.exclusive():
            if self._has_states:
                self._interpreter.allocate_tensors()
                self._interpreter.reset_all_variables()
            return {str(name): array for name, array in self._run(feeds).items()}


def cached(options: GpuDelegateOptions | None) -> GpuDelegateOptions:
    """The options, with a folder of this machine for compiled programs."""
    options = options or GpuDelegateOptions()
    return replace(options, serialization_dir=options.serialization_dir or cache_folder())


def by_name(details: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Details of tensors by the names that `Interpreter.run` uses."""
    names = unique_names([(each["index"], each["name"]) for each in details])
    by_index = {each["index"]: each for each in details}
    return {str(name): by_index[index] for name, index in names.items()}


def _described(row: Any) -> str:
    return f"{row.dtype.name} {list(row.shape)}" if isinstance(row, np.ndarray) else "bytes"


class PictureFile(bytes):
    """The bytes of a picture file, and its name for messages."""

    name: str | None = None


def picture_of(row: Any) -> Image.Image:
    """A row as a picture; raises ValueError if it is none."""
    try:
        if isinstance(row, bytes):
            return load_picture(row, getattr(row, "name", None))
        if row.dtype == np.uint8 and row.ndim in (2, 3):
            return as_pillow(row)
    except Exception as error:  # of other shapes, too
        reason = str(error)
        if not reason.startswith("expected"):
            reason = f"expected a picture, found {_described(row)}: {reason}"
        raise ValueError(reason) from error
    raise ValueError(f"expected a uint8 picture {PICTURES[1:]}, found {_described(row)}")


def assets_from(model: ModelSource) -> Assets:
    """The files of a task's model; `Assets` has the errors."""
    match model:
        case Assets():
            return model
        case np.ndarray():
            return Assets(content=model.tobytes())
        case bytes() | bytearray() | memoryview():
            return Assets(content=bytes(model))
        case path:
            return Assets(path)


def _arguments(model: ModelSource) -> dict[str, Any]:
    """The argument of `Interpreter` for a model."""
    match model:
        case Assets():
            return {"model_path": model.model()}
        case np.ndarray():
            return {"model_content": model.tobytes()}
        case bytes() | bytearray() | memoryview():
            return {"model_content": bytes(model)}
        case path:
            return {"model_path": os.fspath(path)}
