"""A model on the rows of batches."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from PIL import Image, UnidentifiedImageError

from gles_delegate.batch.machine import cache_folder
from gles_delegate.closing import on_error
from gles_delegate.delegate import GpuDelegate
from gles_delegate.errors import DelegateError
from gles_delegate.image.pictures import PICTURES, as_tensor, picture_mode
from gles_delegate.image.transform import picture_transform
from gles_delegate.interpreter import Interpreter, unique_names
from gles_delegate.model.graph import Array, Graph
from gles_delegate.model.metadata import TensorMetadata
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.planning.rows import keeps_resources, keeps_states
from gles_delegate.runtime.delegation import Delegation
from gles_delegate.vision.classes import class_names, dequantize, top_indices

log = logging.getLogger("gles_delegate")

ModelSource: TypeAlias = Any
"""A path, bytes or an array of bytes."""

Batch: TypeAlias = "dict[str, Array]"
"""A column for each name."""

FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""Pillow's names of the formats that are read; for others it runs programs, or reads slowly."""


class Predictor:
    """Runs a model on batches of rows::

        predictor = Predictor("model.tflite", top=5)
        results = predictor({"image": pictures, "path": paths})

    A batch has a column for each input of the model, by its name. The only input of a model may
    also be in a column "image", or in the only column. What the model does not take is passed on.
    To this, a column is added for each output, by its name; by its index, if it shares the name.

    Where an input is a picture, rows may be pictures of any size [height, width] or [height, width,
    1, 3 or 4] of uint8, or files of pictures as bytes. They are stretched to the input's size, and
    normalized as the model's metadata says; see `ImageTransform.for_input`.

    The results of a row never depend on the others. Rows are computed together if the graph shows
    that no op combines them, and if the first batch has the same results then as row by row;
    otherwise one after the other, in parts as large as the model's own batch. A model that keeps
    states between runs begins each row with their first values. A last, smaller batch is padded,
    so it compiles nothing. A row may also be a whole input of another batch than 1, and must be one
    where a batch of more rows combines them, as a recurrent network [time, 1, features] does.

    Args:
        model: The path of a model, or its bytes.
        signature: The signature whose names inputs and outputs have; None: the names of tensors.
        top: Instead of the only output, give the `top` best classes, as columns "labels" and
            "scores".
        labels: Names of classes; None: those in the model's metadata.
        mean: See `ImageTransform`; it takes precedence over the metadata.
        std: Likewise.
        options: See `GpuDelegateOptions`. Without a `serialization_dir`, programs are kept in a
            folder for temporary files.

    Raises:
        ModelError: The model cannot be read.
        UnsupportedModelError, ContextError: See `Interpreter`.
        ValueError: `top` is given and the model is not a classifier.
    """

    def __init__(
        self,
        model: ModelSource,
        *,
        signature: str | None = None,
        top: int | None = None,
        labels: Sequence[str] | None = None,
        mean: float | None = None,
        std: float | None = None,
        options: GpuDelegateOptions | None = None,
    ) -> None:
        options = options or GpuDelegateOptions()
        folder = options.serialization_dir or cache_folder()
        self._options = replace(options, own_thread=True, serialization_dir=folder)
        self._mean, self._std = mean, std
        self._delegate = GpuDelegate(self._options)
        with on_error(self._delegate.close):
            self._open(model, signature, top, labels)

    def _open(
        self,
        model: ModelSource,
        signature: str | None,
        top: int | None,
        labels: Sequence[str] | None,
    ) -> None:
        interpreter = self._interpreter = Interpreter(
            **_arguments(model), experimental_delegates=[self._delegate]
        )
        self._subgraph = 0
        if signature:
            runner = interpreter.get_signature_runner(signature)
            (self._subgraph,) = (
                each.subgraph for each in self._graph.signatures if each.key == signature
            )
            self._run: Any = lambda feeds: runner(**feeds)
            self._inputs, self._outputs = runner.get_input_details(), runner.get_output_details()
        else:
            self._inputs = by_name(interpreter.get_input_details())
            self._outputs = by_name(interpreter.get_output_details())
            self._run = self._run_by_index
        self._input_metadata = self._metadata()
        self.top = top
        self._labels = self._class_names(labels) if top else ()
        self._has_states = keeps_states(self._graph)
        self._keeps_resources = keeps_resources(self._graph)
        self._has_run = False
        self._rows = self._own_rows()
        self._sizes: dict[tuple[tuple[int, ...], ...], tuple[int, bool]] = {}

    @property
    def _delegation(self) -> Delegation:
        return self._delegate.bound.subgraphs[self._subgraph]

    @property
    def _graph(self) -> Graph:
        return self._delegation.graph

    def _own_rows(self) -> int:
        """The rows of the model's own batch; 0 if a row is a whole input of it."""
        shapes = {each["index"]: tuple(each["shape"].tolist()) for each in self._inputs.values()}
        sizes = {shape[:1] for shape in shapes.values()}
        if len(sizes) != 1 or sizes <= {(), (0,)}:
            return 0
        ((size,),) = sizes
        return size if size == 1 or self._delegation.rows_are_independent(shapes) else 0

    def _run_by_index(self, feeds: Mapping[str, Array]) -> Mapping[str | int, Array]:
        arrays = {self._inputs[name]["index"]: array for name, array in feeds.items()}
        return self._interpreter.run(arrays)

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
        """The results for inputs [rows, ...], which `prepare` made."""
        results = self._results(feeds, len(next(iter(feeds.values()))))
        return self._top_classes(next(iter(results.values()))) if self.top else results

    def row_shape(self, name: str) -> tuple[int, ...]:
        """The shape of a row of an input that `compute` takes."""
        shape = self._shape(name)
        return shape[1:] if self._rows or shape[:1] == (1,) else shape

    def check(self) -> None:
        """Raise ContextLostError if the driver has given up the context."""
        self._delegate.memory()

    @property
    def inputs(self) -> Mapping[str, dict[str, Any]]:
        """The details of each input by its name, as LiteRT describes them."""
        return self._inputs

    @property
    def outputs(self) -> Mapping[str, dict[str, Any]]:
        """The details of each output, likewise."""
        return self._outputs

    def close(self) -> None:
        """Free what it has on the GPU; the end of an actor does so, too."""
        self._delegate.close()

    def _columns(self, batch: Mapping[str, Any]) -> dict[str, str]:
        """The name of each input's column."""
        columns = {name: name for name in self._inputs if name in batch}
        if len(self._inputs) == 1 and not columns:
            (only,) = self._inputs
            column = next(iter(batch), "") if len(batch) == 1 else "image"
            columns = {only: column} if column in batch else {}
        if self._inputs.keys() - columns.keys():
            raise ValueError(
                f"expected a column for each of the inputs {sorted(self._inputs)}, found "
                f"{sorted(batch)}"
            )
        return columns

    def _feed(self, name: str, column: Any) -> Array:
        """A column as an array [rows, ...] of the input."""
        details, inner = self._inputs[name], self.row_shape(name)
        dtype = np.dtype(details["dtype"])
        rows: list[Any] = [row if isinstance(row, bytes) else np.asarray(row) for row in column]
        if not rows:
            return np.zeros((0, *inner), dtype)
        if self._are_tensors(name, rows):
            return np.stack(rows)
        if picture_mode((1, *inner)) is None:
            others = sorted({_described(row) for row in rows})
            raise ValueError(
                f"expected rows of {dtype.name} {list(inner)} for the input {name!r}, found "
                f"{' and '.join(others)}"
            )
        one = {**details, "shape": (1, *inner)}
        transform = picture_transform(
            (1, *inner), dtype.name, self._input_metadata[name], self._mean, self._std
        )
        try:
            return np.concatenate([as_tensor(_picture(row), one, transform) for row in rows])
        except OSError as error:  # of pictures with numbers of no known range
            raise ValueError(str(error)) from error

    def _are_tensors(self, name: str, rows: Sequence[Any]) -> bool:
        """Whether rows have the input's elements, in one shape that the model takes."""
        kinds = {(row.dtype, row.shape) if isinstance(row, np.ndarray) else None for row in rows}
        kind, *others = kinds
        if kind is None or others or kind[0] != self._inputs[name]["dtype"]:
            return False
        shape, whole, inner = kind[1], self._shape(name), self.row_shape(name)
        if shape == inner or (shape == whole and whole[:1] != (1,)):
            return True
        stretches = kind[0] == np.uint8 and picture_mode((1, *inner)) is not None
        return len(shape) == len(inner) and self._rows <= 1 and not stretches

    def _results(self, feeds: Mapping[str, Array], rows: int) -> Batch:
        """The outputs [rows, ...] of inputs [rows, ...]."""
        if not rows:  # shapes and types alone
            some = {n: np.zeros((1, *a.shape[1:]), a.dtype) for n, a in feeds.items()}
            return {name: array[:0] for name, array in self._results(some, 1).items()}
        if not self._rows or any(a.shape[1:] == self._shape(n) for n, a in feeds.items()):
            results = [self._alone({n: a[i] for n, a in feeds.items()}) for i in range(rows)]
            return {name: np.stack([each[name] for each in results]) for name in results[0]}
        kind = tuple(array.shape[1:] for array in feeds.values())
        size, may_grow = self._sizes.get(kind, (self._rows, not self._has_states))
        if rows > size and may_grow:
            together = self._as_one(feeds, rows, size)
            if together is not None:
                self._sizes[kind] = rows, True
                return together
            self._sizes[kind] = size, False
        return self._in_batches(feeds, rows, size)

    def _as_one(self, feeds: Mapping[str, Array], rows: int, size: int) -> Batch | None:
        """The outputs of more rows than before, computed together; None if that is not sound."""
        shapes = {self._inputs[name]["index"]: array.shape for name, array in feeds.items()}
        if not self._delegation.rows_are_independent(shapes):
            log.info("rows are computed one by one: the graph may combine them")
            return None
        expected = self._in_batches(feeds, rows, size)
        try:
            together = self._run_padded(feeds, rows, rows)
        except (DelegateError, RuntimeError, ValueError) as error:
            log.info("rows are computed one by one, as the model has one batch size: %s", error)
            return None
        if not all(self._agree(name, array, together[name]) for name, array in expected.items()):
            log.warning("rows are computed one by one: together they have other results")
            return None
        return together

    def _in_batches(self, feeds: Mapping[str, Array], rows: int, size: int) -> Batch:
        """The outputs of inputs, computed as `size` rows at a time."""
        batches = [
            self._run_padded(
                {n: a[i : i + size] for n, a in feeds.items()}, min(size, rows - i), size
            )
            for i in range(0, rows, size)
        ]
        return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}

    def _run_padded(self, feeds: Mapping[str, Array], rows: int, size: int) -> Batch:
        """The outputs of `rows` rows, computed as `size` rows.

        Raises:
            ValueError: The outputs have another number of rows.
        """
        padding = size - rows
        padded = {
            name: np.concatenate([array, array[-1:].repeat(padding, 0)]) if padding else array
            for name, array in feeds.items()
        }
        results = self._run_anew(padded)
        if size == 1:  # an output may lack the dimension for rows
            own = {name: details["shape"].tolist() for name, details in self._outputs.items()}
            return {n: a if own[n][:1] == [1] else a[np.newaxis] for n, a in results.items()}
        if any(not a.ndim or a.shape[0] != size for a in results.values()):
            shapes = {name: list(array.shape) for name, array in results.items()}
            raise ValueError(f"expected outputs of {size} rows, found the shapes {shapes}")
        return {name: array[:rows] for name, array in results.items()}

    def _alone(self, row: Mapping[str, Array]) -> Batch:
        """The outputs of a row that is a whole input, or lacks only the dimension for rows."""
        whole = {n: a if a.ndim == len(self._shape(n)) else a[np.newaxis] for n, a in row.items()}
        return self._run_anew(whole)

    def _shape(self, name: str) -> tuple[int, ...]:
        shape: tuple[int, ...] = tuple(self._inputs[name]["shape"].tolist())
        return shape

    def _run_anew(self, feeds: Mapping[str, Array]) -> Batch:
        """The outputs of inputs, with the first values of all states."""
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

    def _agree(self, name: str, one: Array, other: Array) -> bool:
        """Whether values of an output are the same but for rounding."""
        if one.dtype.kind == "f":
            scale = float(np.abs(one[np.isfinite(one)]).max(initial=1))
            return np.allclose(one, other, rtol=0, atol=1e-3 * scale, equal_nan=True)
        if one.dtype.kind in "iu" and self._outputs[name]["quantization"][0]:
            return bool((np.abs(one.astype(np.int64) - other.astype(np.int64)) <= 1).all())
        return bool((one == other).all())

    def _top_classes(self, scores: Array) -> Batch:
        """The labels and scores of the top classes."""
        (details,) = self._outputs.values()
        rows = scores.reshape(len(scores), -1).astype(np.float32)
        real = dequantize(rows, details["quantization"])
        best = top_indices(real, self.top)
        names = np.array(class_names(self._labels, real.shape[1]))
        return {"labels": names[best], "scores": np.take_along_axis(real, best, 1)}

    def _class_names(self, labels: Sequence[str] | None) -> Sequence[str]:
        shapes = [details["shape"].tolist() for details in self._outputs.values()]
        if len(shapes) != 1 or int(np.prod(shapes[0][:-1])) != 1 or shapes[0][-1] < 2:
            raise ValueError(f"top needs a classifier, with one output [1, classes], not {shapes}")
        metadata = self._interpreter.metadata.outputs
        return labels if labels is not None else metadata[0].labels

    def _metadata(self) -> dict[str, TensorMetadata]:
        by_index = {
            details["index"]: metadata
            for details, metadata in zip(
                self._interpreter.get_input_details(),
                self._interpreter.metadata.inputs,
                strict=False,
            )
        }
        return {n: by_index.get(d["index"], TensorMetadata()) for n, d in self._inputs.items()}


def by_name(details: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Tensors by the names that `Interpreter.run` uses."""
    names = unique_names([(each["index"], each["name"]) for each in details])
    by_index = {each["index"]: each for each in details}
    return {str(name): by_index[index] for name, index in names.items()}


def _described(row: Any) -> str:
    return f"{row.dtype.name} {list(row.shape)}" if isinstance(row, np.ndarray) else "bytes"


def _picture(row: Any) -> Image.Image:
    """A row as a picture.

    Raises:
        ValueError: It is none.
    """
    try:
        if isinstance(row, bytes):
            picture = Image.open(io.BytesIO(row), formats=FORMATS)
            picture.load()
            return picture
        if row.dtype == np.uint8 and row.ndim in (2, 3):
            return Image.fromarray(row[..., 0] if row.ndim == 3 and row.shape[2] == 1 else row)
    except UnidentifiedImageError as error:  # which names the address of an object
        raise ValueError(f"expected a picture, found {_described(row)} of another kind") from error
    except Exception as error:  # decoders raise anything
        raise ValueError(f"expected a picture, found {_described(row)}: {error}") from error
    raise ValueError(f"expected a picture {PICTURES[1:]}, of uint8, found {_described(row)}")


def _arguments(model: ModelSource) -> dict[str, Any]:
    """The argument of `Interpreter` for a model."""
    if isinstance(model, np.ndarray):
        model = model.tobytes()
    if isinstance(model, bytes | bytearray | memoryview):
        return {"model_content": bytes(model)}
    return {"model_path": os.fspath(model)}
