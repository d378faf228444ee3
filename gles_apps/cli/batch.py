"""``gles-delegate batch``: a table of a model's results for many pictures."""

from __future__ import annotations

import glob
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

import click
from PIL.Image import registered_extensions

from gles_apps.batch import pool
from gles_apps.batch.pool import mask_of
from gles_apps.batch.predictor import FORMATS, by_name
from gles_apps.batch.results import Column, Results, Row, columns_of, digest, open_results
from gles_apps.cli import options
from gles_apps.tasks.assets import Assets, assets_of
from gles_apps.tasks.options import BaseOptions
from gles_apps.tasks.vision.opening import TaskSettings, task_of
from gles_delegate import DelegateError
from gles_delegate.cli import common
from gles_delegate.image.transform import picture_transform
from gles_delegate.model.files import read_regular
from gles_delegate.model.graph import Graph
from gles_delegate.model.labels import read_labels
from gles_delegate.planning.outputs import prepared, read_metadata
from gles_delegate.runtime.standalone import describe as describe_tensor
from gles_delegate.support.optional import lacks_extra

NOTICE_AFTER_S = 5.0
"""Seconds without a first row after which it says what it waits for."""

ODD = "expected a file name of one line of UTF-8: rename the file"
"""The error of files whose names a table cannot have: it has them in quotation marks."""

MAX_NAMED = 10
"""Unreadable pictures that are listed."""


@common.command
@common.model_argument
@click.argument("pictures", nargs=-1, required=True)
@click.option(
    "--output",
    required=True,
    type=common.PATH,
    help="A folder for a Parquet file, or a file results.csv. Existing rows are not recomputed.",
)
@options.task_option
@options.labels_option
@options.kind_option
@options.threshold_option
@click.option("--top", type=click.IntRange(1), help="The top N classes or objects of a picture.")
@click.option(
    "--masks", type=common.FOLDER, help="Write a segmenter's class numbers there, as NAME.png."
)
@click.option(
    "--outputs", "as_outputs", is_flag=True, help="The numbers of the outputs instead of results."
)
@common.scaling_options
@options.antialias_option
@click.option(
    "--workers", type=click.IntRange(1), help="Processes; default: one per processor, two on a GPU."
)
@click.option("--batch-size", type=click.IntRange(1), default=16)
@click.option("--skip-errors", is_flag=True, help="Unreadable pictures do not change the status.")
@click.option("--address", help="A Ray cluster, such as ray://head:10001; default: this machine.")
@common.json_option
def batch(
    model: Path,
    pictures: Sequence[str],
    output: Path,
    labels: Path | None,
    masks: Path | None,
    as_outputs: bool,
    mean: float | None,
    std: float | None,
    antialias: bool,
    workers: int | None,
    batch_size: int,
    skip_errors: bool,
    address: str | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Run MODEL on PICTURES: files, folders, or patterns such as 'pictures/*.jpg'.

    The table has a row for each class, object, person or area of a picture, as `run` lists them;
    or the outputs' numbers, if the network does not have such results. MODEL may be a bundle of a
    face, hand, gesture, pose or holistic landmarker.

    Pictures that cannot be read have a reason instead of results; then it exits with status 1,
    but not with --skip-errors.
    """
    names = None if labels is None else read_labels(labels)
    base = options.base_of(model, antialias=antialias, mean=mean, std=std)
    paths = sorted({path for pattern in pictures for path in _matching(pattern)})
    settings = TaskSettings(labels=names, **chosen)
    task = None if as_outputs else task_of(base, settings)
    arguments, columns = _plan(base, settings, task, masks)
    if masks is not None:
        for file, count in Counter(mask_of(masks, path) for path in paths).items():
            if count > 1:
                raise ValueError(
                    f"expected pictures of different names for --masks, found two for {file}"
                )
        masks.mkdir(parents=True, exist_ok=True)
        arguments["masks"] = masks.absolute()
    results = open_results(output, _name(assets_of(base), arguments), columns)
    try:
        missing = _missing(results, paths)
        chunks = [missing[i : i + batch_size] for i in range(0, len(missing), batch_size)]
        if missing:
            rows = _computed(assets_of(base), arguments, chunks, workers, address)
            _add(results, rows, len(missing), as_json)
        results.write_table()
    except (DelegateError, KeyboardInterrupt) as error:
        _end_early(results, paths, error)
    finally:
        results.close()
    errors = {path: reason for path in paths if (reason := results.rows[path][1])}
    if as_json:
        summary = {"pictures": len(paths), "computed": len(missing), "unreadable": len(errors)}
        common.print_json({**summary, "errors": errors, "output": str(output)})
    else:
        number = "1 picture" if len(paths) == 1 else f"{len(paths)} pictures"
        print(f"{number}: {len(missing)} computed, {len(errors)} unreadable")
        for path, reason in [*errors.items()][:MAX_NAMED]:
            print(common.printable(f"{path}: {reason}"), file=sys.stderr)
        if len(errors) > MAX_NAMED:
            print(f"and {len(errors) - MAX_NAMED} more, which the table names", file=sys.stderr)
    sys.exit(bool(errors) and not skip_errors)


def _add(results: Results, every: Iterator[list[Row]], count: int, is_quiet: bool) -> None:
    """Add rows as they come, with a bar; says what the first ones wait for, if they take long."""
    text = "gles-delegate: no rows yet: each process compiles the network's shaders first"
    notice = Timer(NOTICE_AFTER_S, lambda: print(text, file=sys.stderr))
    notice.daemon = True
    if not is_quiet:
        notice.start()
    try:
        with common.progress_bar() as bar:
            shown = bar.add_task("compiling shaders", total=count)
            for rows in every:
                notice.cancel()
                results.add(rows)
                bar.update(shown, advance=len(rows), description="pictures")
    finally:
        notice.cancel()


def _plan(
    base: BaseOptions, settings: TaskSettings, task: str | None, masks: Path | None
) -> tuple[dict[str, Any], dict[str, Column] | None]:
    """The arguments of workers' predictors, and the columns of outputs; None for results."""
    arguments: dict[str, Any] = {"mean": base.mean, "std": base.std, "antialias": base.antialias}
    if masks is not None and task != "segment":
        raise common.wrong_usage(f"expected a segmenter for --masks, found the task {task!r}")
    if task not in (None, "repaint"):
        top = settings.top or 1 if task == "classify" else settings.top
        return arguments | {"settings": replace(settings, top=top)}, None
    if settings != TaskSettings():
        raise common.wrong_usage(
            "expected a network with results for --task, --kind, --labels, --threshold and --top, "
            "found --outputs, or a network that makes pictures or whose outputs show no task"
        )
    return arguments, _columns(assets_of(base).model().graph(), base.mean, base.std)


def _columns(graph: Graph, mean: float | None, std: float | None) -> dict[str, Column]:
    """The columns of the outputs of a model whose only input is a picture."""
    if len(graph.inputs) != 1:
        raise common.wrong_usage(
            f"expected a model with one input, a picture, found {len(graph.inputs)}"
        )
    tensor = graph.tensors[graph.inputs[0]]
    picture_transform(tensor.shape, tensor.dtype, read_metadata(graph).inputs[0], mean, std)
    graph = prepared(graph)
    tensors = [graph.tensors[index] for index in graph.outputs]
    return columns_of(by_name([describe_tensor(tensor, tensor.shape) for tensor in tensors]))


def _name(assets: Assets, arguments: Mapping[str, Any]) -> str:
    """Identifies what results depend on beside the pictures: the model and the options."""
    options: dict[str, Any] = {"outputs": "settings" not in arguments} | dict(arguments)
    settings = options.pop("settings", TaskSettings())
    options |= vars(settings) | {"labels": settings.labels and digest(*settings.labels)[:16]}
    named = [f"{key} {value}" for key, value in options.items() if value not in (None, False)]
    return ", ".join([f"model {digest(*assets.contents)[:16]}", *named])


def _matching(pattern: str) -> Iterator[str]:
    """Absolute paths of the files that match a pattern, or of a folder's pictures; see `ODD`."""
    given = Path(pattern)
    if given.is_dir():
        kinds = [suffix for suffix, kind in registered_extensions().items() if kind in FORMATS]
        files = [path for path in given.iterdir() if not path.is_dir()]
        matching = [str(path) for path in files if path.suffix.lower() in kinds]
    else:
        matching = [pattern] if given.is_file() else glob.glob(pattern, recursive=True)
    if not matching:
        found = "the folder has no picture:" if given.is_dir() else "no file matches"
        raise common.wrong_usage(f"{found} {pattern!r}")
    for path in map(str, map(Path.absolute, map(Path, matching))):
        is_odd = "\n" in path or os.fsencode(path) != path.encode("utf-8", "replace")
        yield repr(path) if is_odd else path


def _missing(results: Results, paths: Sequence[str]) -> list[str]:
    """The paths to compute: of new and changed pictures, and of errors; odd names get a row."""

    def is_old(path: str, picture: str, error: str | None) -> bool:
        try:
            return bool(error) or digest(read_regular(path)) != picture
        except OSError:
            return True

    rows = {path: results.rows[path] for path in paths if path in results.rows}
    results.forget({path for path, row in rows.items() if is_old(path, *row)})
    odd = [path for path in paths if not path.startswith("/")]
    results.add([{"path": path, "picture": "", "error": ODD} for path in odd])
    return [path for path in paths if path not in results.rows]


def _computed(
    assets: Assets,
    arguments: Mapping[str, Any],
    chunks: Sequence[list[str]],
    workers: int | None,
    address: str | None,
) -> Iterator[list[Row]]:
    """Rows from processes of this machine, or from Ray's actors."""
    if address is None:
        workers = min(workers or pool.workers_for(len(chunks)), len(chunks))
        return pool.compute(
            assets, arguments, chunks, workers,
            notice=lambda sentence: print(f"gles-delegate: {sentence}", file=sys.stderr),
        )  # fmt: skip
    try:
        from gles_apps.ray import cluster
    except ImportError as error:
        raise common.wrong_usage(lacks_extra("--address", "ray", error)) from error
    return cluster.compute(bytes(assets.contents[0]), arguments, chunks, workers, address)


def _end_early(results: Results, paths: Sequence[str], error: BaseException) -> None:
    """Write the table, and end with the error and the number of pictures that are done."""
    reason = str(error)
    try:
        results.write_table()
    except DelegateError as another:
        reason = reason or str(another)
    done = sum(path in results.rows for path in paths)
    progress = f"{done} of {len(paths)} pictures are done"
    if done:
        progress += "; the same command computes the others"
    if isinstance(error, KeyboardInterrupt):
        print(f"stopped: {f'{reason}; ' if reason else ''}{progress}", file=sys.stderr)
        sys.exit(130)
    raise DelegateError(f"{reason}; {progress}") from error
