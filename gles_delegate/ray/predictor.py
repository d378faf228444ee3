"""Ray Data: a model on the batches of a dataset."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import ray
from PIL import Image

from gles_delegate.delegate import GpuDelegate
from gles_delegate.errors import DelegateError
from gles_delegate.image.pictures import PICTURES, as_tensor, picture_mode
from gles_delegate.image.transform import picture_transform
from gles_delegate.interpreter import Interpreter
from gles_delegate.model.graph import Array
from gles_delegate.model.metadata import TensorMetadata
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.ray.actors import cache_folder, device_of_actor, take_processors

log = logging.getLogger("gles_delegate")

Model: TypeAlias = Any
"""A path, bytes, an array of bytes, or Ray's reference of one of these."""

Batch: TypeAlias = "dict[str, Array]"
"""A column for each name, as Ray Data has it in batch format "numpy"."""


class Predictor:
    """Runs a model on the batches of a dataset, in an actor of Ray's::

        dataset.map_batches(
            Predictor, fn_constructor_args=(path,), concurrency=(1, 8), batch_size=32
        )

    A batch has a column for each input of the model, by its name. The only input of a model may
    also be in a column "image", or in the only column. What the model does not take is passed on.
    To this, a column is added for each output, by its name.

    Where an input is a picture, rows may be pictures of any size [height, width] or [height, width,
    1, 3 or 4] of uint8, or files of pictures as bytes. They are stretched to the input's size, and
    normalized as the model's metadata says; see `ImageTransform.for_input`.

    Rows are computed together if the model can be resized to the batch, and gives the same results
    then, otherwise in parts as large as the model's own batch. A last, smaller batch is padded, so
    it compiles nothing. Rows may be whole inputs as well, of a model without a batch.

    On llvmpipe an actor uses as many processors as Ray gives it (`num_cpus`), and each actor of a
    node others. With `num_gpus`, it takes the device of the GPU that Ray gives it. Programs
    are compiled once on a node: see `GpuDelegateOptions.serialization_dir`, which is a folder for
    temporary files unless it is given.

    Args:
        model: The path of a model, which each node must have; or its bytes; or a reference,
            such as ``ray.put(path.read_bytes())``, which Ray sends once to each node.
        signature: The signature whose names inputs and outputs have; None: those of tensors.
        top: Instead of the only output, give the so many likeliest classes, as columns "labels" and
            "scores".
        labels: Names of classes; None: those in the model's metadata.
        mean, std: See `ImageTransform`; they take precedence over the metadata.
        options: See `GpuDelegateOptions`.

    Raises:
        ModelError: The model cannot be read.
        UnsupportedModelError, ContextError: See `Interpreter`.
        ValueError: `top` is asked for of a model that is no classifier.
    """

    def __init__(
        self,
        model: Model,
        *,
        signature: str | None = None,
        top: int | None = None,
        labels: Sequence[str] | None = None,
        mean: float | None = None,
        std: float | None = None,
        options: GpuDelegateOptions | None = None,
    ) -> None:
        take_processors()
        options = options or GpuDelegateOptions()
        options = replace(
            options,
            own_thread=True,
            serialization_dir=options.serialization_dir or cache_folder(),
            device_index=device_of_actor()
            if options.device_index is None
            else options.device_index,
        )
        self._mean, self._std = mean, std
        self._delegate = GpuDelegate(options)
        try:
            self._open(model, signature, top, labels)
        except BaseException:
            self._delegate.close()
            raise

    def _open(
        self,
        model: Model,
        signature: str | None,
        top: int | None,
        labels: Sequence[str] | None,
    ) -> None:
        self._interpreter = Interpreter(
            **_arguments(model), experimental_delegates=[self._delegate]
        )
        runner = self._interpreter.get_signature_runner(signature) if signature else None
        if runner is not None:
            self._run: Any = lambda feeds: runner(**feeds)
            self._inputs, self._outputs = runner.get_input_details(), runner.get_output_details()
        else:
            self._run = self._interpreter.run
            self._inputs, self._outputs = (
                {str(details["name"] or details["index"]): details for details in found}
                for found in (
                    self._interpreter.get_input_details(),
                    self._interpreter.get_output_details(),
                )
            )
        self._known = self._metadata()
        self.top = top
        self._labels = self._class_names(labels) if top else ()
        self._rows = 0
        self._resizes: bool | None = None

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
        results = self._in_parts(feeds, len(next(iter(feeds.values()))))
        return self._likeliest(next(iter(results.values()))) if self.top else results

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
        found = {name: name for name in self._inputs if name in batch}
        if len(self._inputs) == 1 and not found:
            (only,) = self._inputs
            column = next(iter(batch), "") if len(batch) == 1 else "image"
            found = {only: column} if column in batch else {}
        if self._inputs.keys() - found.keys():
            raise ValueError(
                f"expected a column for each of the inputs {sorted(self._inputs)}, found "
                f"{sorted(batch)}"
            )
        return found

    def _feed(self, name: str, column: Any) -> Array:
        """A column as an array [rows, ...] of the input."""
        details = self._inputs[name]
        shape, dtype = tuple(details["shape"].tolist()), np.dtype(details["dtype"])
        rows: list[Any] = [row if isinstance(row, bytes) else np.asarray(row) for row in column]
        inner = shape[1:]
        if not rows:
            return np.zeros((0, *inner), dtype)
        if all(isinstance(row, np.ndarray) for row in rows):
            kinds = {(row.dtype, row.shape) for row in rows}
            if kinds == {(dtype, shape)} and shape[:1] != (1,):
                return np.stack(rows)  # whole inputs, of a model without a batch
        plain = all(
            isinstance(row, np.ndarray) and row.dtype == dtype and row.ndim == len(inner)
            for row in rows
        )
        is_picture = picture_mode((1, *inner)) is not None
        stretches = is_picture and dtype == np.uint8 and plain and rows[0].shape != inner
        if plain and not stretches and len({row.shape for row in rows}) == 1:
            return np.stack(rows)
        if not is_picture:
            found = sorted({_described(row) for row in rows})
            raise ValueError(
                f"expected rows of {dtype.name} {list(inner)} for the input {name!r}, found "
                f"{' and '.join(found)}"
            )
        one = {**details, "shape": (1, *inner)}
        transform = picture_transform(
            (1, *inner), dtype.name, self._known[name], self._mean, self._std
        )
        return np.concatenate([as_tensor(_picture(row), one, transform) for row in rows])

    def _in_parts(self, feeds: Mapping[str, Array], rows: int) -> Batch:
        """The outputs [rows, ...] of inputs [rows, ...]."""
        name, details = next(iter(self._inputs.items()))
        own = tuple(details["shape"].tolist())
        if feeds[name].ndim > len(own) or not own:  # without a dimension for rows
            results = [self._run({n: a[i] for n, a in feeds.items()}) for i in range(rows)]
            return {str(n): np.stack([result[n] for result in results]) for n in self._outputs}
        self._rows = max(self._rows, rows, 1)
        size = max(own[0], 1)
        if self._resizes is None and rows:
            self._resizes = self._rows <= size or self._can_be_resized(feeds, rows, size)
        if self._resizes and rows:
            return self._part(feeds, rows, max(self._rows, size))
        parts = [
            self._part({n: a[i : i + size] for n, a in feeds.items()}, min(size, rows - i), size)
            for i in range(0, rows, size)
        ]
        if not parts:  # of no rows, shapes and types alone
            one = {n: np.zeros((1, *a.shape[1:]), a.dtype) for n, a in feeds.items()}
            parts = [{name: found[:0] for name, found in self._part(one, 1, size).items()}]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _can_be_resized(self, feeds: Mapping[str, Array], rows: int, size: int) -> bool:
        """Whether rows have the same results among more rows than the model's own batch has."""
        first = min(rows, size)
        alone = self._part({n: array[:first] for n, array in feeds.items()}, first, size)
        try:
            together = self._part(feeds, rows, self._rows)
        except (DelegateError, RuntimeError, ValueError) as error:
            log.info("rows are computed in parts, as the model has one batch size: %s", error)
            return False
        return all(_agree(array, together[name][:first]) for name, array in alone.items())

    def _part(self, feeds: Mapping[str, Array], rows: int, size: int) -> Batch:
        """The outputs of so many rows, computed as `size` rows.

        Raises:
            ValueError: The outputs do not have as many rows.
        """
        padding = size - rows
        padded = {
            name: np.concatenate([array, array[-1:].repeat(padding, 0)]) if padding else array
            for name, array in feeds.items()
        }
        results = {str(name): array for name, array in self._run(padded).items()}
        if size == 1:  # an output may lack the dimension for rows
            own = {name: details["shape"].tolist() for name, details in self._outputs.items()}
            return {n: a if own[n][:1] == [1] else a[np.newaxis] for n, a in results.items()}
        if any(not a.ndim or a.shape[0] != size for a in results.values()):
            shapes = {name: list(array.shape) for name, array in results.items()}
            raise ValueError(f"expected outputs of {size} rows, found the shapes {shapes}")
        return {name: array[:rows] for name, array in results.items()}

    def _likeliest(self, scores: Array) -> Batch:
        """The labels and scores of the likeliest classes."""
        (details,) = self._outputs.values()
        scale, zero = details["quantization"]
        real = scores.reshape(len(scores), -1).astype(np.float32)
        real = (real - zero) * np.float32(scale) if scale else real
        best = np.argsort(-real, axis=1, kind="stable")[:, : self.top]
        names = np.array(
            [*self._labels, *(f"class {i}" for i in range(len(self._labels), real.shape[1]))]
        )
        return {"labels": names[best], "scores": np.take_along_axis(real, best, 1)}

    def _class_names(self, labels: Sequence[str] | None) -> Sequence[str]:
        shapes = [details["shape"].tolist() for details in self._outputs.values()]
        if len(shapes) != 1 or int(np.prod(shapes[0][:-1])) != 1 or shapes[0][-1] < 2:
            raise ValueError(f"top needs a classifier, with one output [1, classes], not {shapes}")
        known = self._interpreter.metadata.outputs
        return labels if labels is not None else known[0].labels

    def _metadata(self) -> dict[str, TensorMetadata]:
        of = {
            details["index"]: known
            for details, known in zip(
                self._interpreter.get_input_details(),
                self._interpreter.metadata.inputs,
                strict=False,
            )
        }
        return {n: of.get(d["index"], TensorMetadata()) for n, d in self._inputs.items()}


def _agree(one: Array, other: Array) -> bool:
    """Whether results are the same but for rounding."""
    if one.shape != other.shape:
        return False
    if one.dtype.kind != "f":
        return bool((np.abs(one.astype(np.int64) - other.astype(np.int64)) <= 1).all())
    scale = float(np.abs(one[np.isfinite(one)]).max(initial=1))
    return np.allclose(one, other, rtol=0, atol=1e-3 * scale, equal_nan=True)


def _described(row: Any) -> str:
    return f"{row.dtype.name} {list(row.shape)}" if isinstance(row, np.ndarray) else "bytes"


def _picture(row: Any) -> Image.Image:
    """A row as a picture.

    Raises:
        ValueError: It is none.
    """
    try:
        if isinstance(row, bytes):
            return Image.open(io.BytesIO(row))
        if row.dtype == np.uint8 and row.ndim in (2, 3):
            return Image.fromarray(row[..., 0] if row.ndim == 3 and row.shape[2] == 1 else row)
    except (OSError, SyntaxError, TypeError, Image.DecompressionBombError) as error:
        raise ValueError(f"expected a picture, found {_described(row)}: {error}") from error
    raise ValueError(f"expected a picture {PICTURES[1:]}, of uint8, found {_described(row)}")


def _arguments(model: Model) -> dict[str, Any]:
    """The argument of `Interpreter` for a model."""
    if isinstance(model, ray.ObjectRef):
        model = ray.get(model)
    if isinstance(model, np.ndarray):
        model = model.tobytes()
    if isinstance(model, bytes | bytearray | memoryview):
        return {"model_content": bytes(model)}
    return {"model_path": os.fspath(model)}
