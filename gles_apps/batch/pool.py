"""A pool of processes on this machine, each with its own copy of the model."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gles_apps.batch.files import Masks, file_of
from gles_apps.batch.machine import take_processors
from gles_apps.batch.predictor import ModelSource, PictureFile, Predictor
from gles_apps.batch.results import Row, column_name, digest
from gles_apps.batch.tasks import TaskPredictor
from gles_apps.tasks.assets import Assets
from gles_delegate import DelegateError, list_devices
from gles_delegate.errors import reason_of
from gles_delegate.model.files import read_regular
from gles_delegate.model.graph import Array
from gles_delegate.support.threads import processor_count

_Source: TypeAlias = "tuple[Path | None, str]"
"""A model's file, and the digest of what it holds."""


def workers_for(count: int) -> int:
    """The number of workers for `count` chunks on this machine.

    One for each processor with llvmpipe. With a GPU, two: one reads pictures while one computes.
    """
    is_gpu = any(not device.software for device in list_devices())
    return min(2 if is_gpu else processor_count(), count)


class _WorkerProcess:
    """A process and its current paths, which are None before it is ready."""

    def __init__(self, model: _Source, arguments: Mapping[str, Any], processors: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.paths: list[str] | None = None
        self.process = context.Process(
            target=_serve, args=(other, model, arguments, processors), daemon=True
        )
        self.process.start()
        other.close()

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def compute(
    assets: Assets,
    arguments: Mapping[str, Any],
    chunks: Sequence[list[str]],
    workers: int,
    notice: Callable[[str], None],
) -> Iterator[list[Row]]:
    """The rows of each chunk of picture paths, in any order.

    A worker that dies is replaced, and its chunk is computed again. Raises `DelegateError` if the
    model does not run, if its file has changed, or if workers die on the same pictures.

    Args:
        assets: Of a model's file.
        arguments: See `make_predictor`.
        notice: Called with a sentence if a worker is replaced.
    """
    processors = max(processor_count() // workers, 1)
    model = (assets.path, digest(*assets.contents))
    pending = deque(chunks)
    deaths = Counter[str]()
    running: list[_WorkerProcess] = []
    left = len(pending)
    try:
        running += [_WorkerProcess(model, arguments, processors) for _ in range(workers)]
        while left:
            by_pipe: dict[Any, _WorkerProcess] = {worker.pipe: worker for worker in running}
            for pipe in wait(by_pipe):
                worker = by_pipe[pipe]
                try:
                    rows = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    worker.stop()
                    _count_death(worker, deaths, notice)
                    pending.extendleft([worker.paths] if worker.paths else [])
                    running[running.index(worker)] = _WorkerProcess(model, arguments, processors)
                    continue
                if isinstance(rows, str):
                    raise DelegateError(rows)
                if worker.paths is not None:
                    left -= 1
                    yield rows
                worker.paths = pending.popleft() if pending else []
                with suppress(BrokenPipeError, ConnectionResetError):  # `recv` sees it, too
                    worker.pipe.send(worker.paths)
    finally:
        for worker in running:
            worker.stop()


def _count_death(
    worker: _WorkerProcess, deaths: Counter[str], notice: Callable[[str], None]
) -> None:
    """Raise DelegateError if workers have died on the same pictures before."""
    first, *_ = worker.paths or [""]
    deaths[first] += 1
    code = worker.process.exitcode or 0
    cause = signal.Signals(-code).name if code < 0 else f"status {code}"
    where = f"on {first} or a later picture of its batch" if first else "as it started"
    if deaths[first] == 2:
        raise DelegateError(
            f"a worker ended with {cause} {where}, twice; if memory is short, use fewer --workers "
            "or a smaller --batch-size"
        )
    notice(f"a worker ended with {cause} {where}; it is replaced")


def make_predictor(
    model: ModelSource, masks: Masks | None = None, **arguments: Any
) -> Predictor | TaskPredictor:
    """A predictor of the results of a task, if there are "settings", or of outputs."""
    if "settings" not in arguments:
        return Predictor(model, **arguments)
    predictor = TaskPredictor(model, **arguments)
    predictor.masks = masks
    return predictor


def picture_rows(predictor: Predictor | TaskPredictor, paths: Sequence[str]) -> list[Row]:
    """The results for picture files, in their order, of a task or of a model with one input."""
    (name,) = predictor.inputs
    rows: list[Row] = []
    readable: list[Row] = []
    arrays: list[Array] = []
    for path in paths:
        row: Row = {"path": path, "picture": "", "error": None}
        rows.append(row)
        try:
            content = PictureFile(read_regular(file_of(path)))
            content.name = path
            row["picture"] = digest(content)
            arrays.append(predictor.prepare({"image": [content]})[name])
            readable.append(row)
        except OSError as error:
            row["error"] = f"cannot be read: {reason_of(error)}"
        except ValueError as error:
            row["error"] = str(error)
    if not readable:
        return rows
    if isinstance(predictor, TaskPredictor):
        for row, (image,) in zip(readable, arrays, strict=True):
            row["results"], mask = predictor.look(image)
            if predictor.masks is not None and mask is not None:
                predictor.masks.save(mask, row["path"])
        return rows
    for output, column in predictor.compute({name: np.concatenate(arrays)}).items():
        for row, values in zip(readable, column, strict=True):
            row[column_name(output)] = values.reshape(-1)
    return rows


def _serve(pipe: Connection, model: _Source, arguments: Mapping[str, Any], processors: int) -> None:
    """The main function of a process: send rows for lists of paths, or an error message."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops it
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the parent is gone
        try:
            take_processors(processors)
            assets = Assets(model[0])
            if digest(*assets.contents) != model[1]:
                raise DelegateError(f"{model[0]} has changed meanwhile: run the command again")
            predictor = make_predictor(assets, **arguments)
            pipe.send([])
            while True:
                paths = pipe.recv()
                if paths:
                    pipe.send(picture_rows(predictor, paths))
        except (DelegateError, ValueError, RuntimeError, MemoryError, OSError) as error:
            if isinstance(error, BrokenPipeError | ConnectionResetError):
                raise
            pipe.send(str(error) or type(error).__name__)
