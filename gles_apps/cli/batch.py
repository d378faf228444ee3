"""``gles-delegate batch``: a table of a model's results for many pictures."""

from __future__ import annotations

import glob
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from threading import Timer
from typing import Any

import click

from gles_apps.batch import pool
from gles_apps.batch.files import Masks, file_of, name_of
from gles_apps.batch.predictor import by_name
from gles_apps.batch.results import Column, Results, Row, columns_of, digest, files_of, open_results
from gles_apps.cli import options
from gles_apps.tasks.assets import Assets
from gles_apps.tasks.options import BaseOptions
from gles_apps.tasks.vision.opening import TaskModel, TaskSettings
from gles_delegate import DelegateError
from gles_delegate.cli import common
from gles_delegate.image.pictures import picture_suffixes
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
"""The error of files whose names a table cannot have; see `name_of`."""

MAX_NAMED = 10
"""Unreadable pictures that are listed."""

MAX_KINDS = 5
"""Suffixes of skipped files that are listed."""


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
@click.option("--overwrite", is_flag=True, help="Use a folder of --masks that has other files.")
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
    overwrite: bool,
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
    """Run MODEL on many PICTURES, and write a table.

    PICTURES are files, folders, or patterns such as 'pictures/*.jpg'. The table has a row for each
    class, object, person or area of a picture, as `run` lists them; or the outputs' numbers, if the
    network does not have such results. MODEL may be a bundle of a face, hand, gesture, pose or
    holistic landmarker.

    Pictures that cannot be read have a reason instead of results; then it exits with status 1,
    but not with --skip-errors.
    """
    names = None if labels is None else read_labels(labels)
    settings = TaskSettings(labels=names, **chosen)
    base = BaseOptions(model, antialias=antialias, mean=mean, std=std)
    with options.naming_missing(model):
        task_model = TaskModel.of(base, settings)
    files, skipped = _files(pictures)
    paths = sorted(files)
    task = None if as_outputs else task_model.task
    arguments, columns = _plan(task_model, base, task)
    run = _name(task_model.assets, arguments)
    written = [*files_of(output)]
    reserved: AbstractContextManager[None] = nullcontext()
    if masks is not None:
        if task != "segment":
            raise common.wrong_usage(f"expected a segmenter for --masks, found the task {task!r}")
        folder = Masks(masks.absolute(), digest(run)[:16])
        run = _name(task_model.assets, {**arguments, "masks": folder.folder})
        arguments["masks"] = folder
        reserved = folder.reserved(paths, written, overwrite)
        written = [*written, *_different([*map(folder.file_of, paths)])]
    common.require_other_files(written, [model, labels, *files.values()])
    with reserved, closing(open_results(output, run, columns)) as results:
        try:
            missing = _missing(results, paths)
            chunks = [missing[i : i + batch_size] for i in range(0, len(missing), batch_size)]
            if missing:
                rows = _computed(task_model.assets, arguments, chunks, workers, address)
                _add(results, rows, len(missing), as_json)
            results.write_table()
        except (DelegateError, KeyboardInterrupt) as error:
            _end_early(results, paths, error)
        errors = {path: reason for path in paths if (reason := results.rows[path][1])}
    computed = len({*missing} - {*errors})
    counts = {
        "pictures": len(paths),
        "with_results": len(paths) - len(errors),
        "unreadable": len(errors),
        "computed": computed,
        "kept": len(paths) - len(errors) - computed,
        "skipped": skipped.total(),
    }
    if as_json:
        common.print_json({**counts, "errors": errors, "output": str(output)})
    else:
        _print(counts, errors, skipped)
    sys.exit(bool(errors) and not skip_errors)


def _print(counts: Mapping[str, int], errors: Mapping[str, str], skipped: Counter[str]) -> None:
    number = "1 picture" if counts["pictures"] == 1 else f"{counts['pictures']} pictures"
    parts = [f"{number}: {counts['with_results']} with results, {counts['unreadable']} unreadable"]
    if counts["kept"]:
        parts.append(f"{counts['kept']} kept from earlier runs")
    if counts["skipped"]:
        parts.append(f"{_listed(skipped)} skipped")
    print("; ".join(parts))
    for path, reason in [*errors.items()][:MAX_NAMED]:
        print(common.printable(f"{path}: {reason}"), file=sys.stderr)
    if len(errors) > MAX_NAMED:
        print(f"and {len(errors) - MAX_NAMED} more, which the table names", file=sys.stderr)


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
    model: TaskModel, base: BaseOptions, task: str | None
) -> tuple[dict[str, Any], dict[str, Column] | None]:
    """The arguments of workers' predictors, and the columns of outputs; None for results."""
    arguments: dict[str, Any] = {"mean": base.mean, "std": base.std, "antialias": base.antialias}
    if task not in (None, "repaint"):
        return arguments | {"settings": options.listing_best(model).settings}, None
    if model.settings != TaskSettings():
        raise common.wrong_usage(
            "expected a network with results for --task, --kind, --labels, --threshold and --top, "
            "found --outputs, or a network that makes pictures or whose outputs show no task"
        )
    return arguments, _columns(model.file.graph(), base.mean, base.std)


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
    options |= asdict(settings) | {"labels": settings.labels and digest(*settings.labels)[:16]}
    named = [f"{key} {value}" for key, value in options.items() if value not in (None, False)]
    return ", ".join([f"model {digest(*assets.contents)[:16]}", *named])


def _different(masks: Sequence[Path]) -> Sequence[Path]:
    """The files of masks; raises ValueError if two are the same."""
    for file, count in Counter(masks).items():
        if count > 1:
            raise ValueError(
                f"expected pictures of different names for --masks, found two for {file}"
            )
    return masks


def _files(patterns: Sequence[str]) -> tuple[dict[str, str], Counter[str]]:
    """The files that match patterns, and folders' pictures, by their names in tables; and how many
    other files the folders have, by suffix.
    """
    files = set[str]()
    skipped = set[str]()
    suffixes = picture_suffixes()
    for pattern in patterns:
        given = Path(pattern)
        if given.is_dir():
            every = {str(path.absolute()) for path in given.iterdir() if not path.is_dir()}
            matching = {file for file in every if Path(file).suffix.lower() in suffixes}
            skipped |= every - matching
        else:
            found = [pattern] if given.is_file() else glob.glob(pattern, recursive=True)
            matching = {str(Path(file).absolute()) for file in found}
        if not matching:
            if not given.is_dir():
                raise common.wrong_usage(f"no file matches {pattern!r}")
            others = f"; it has {_listed(_kinds(every))}" if every else ""
            raise common.wrong_usage(f"the folder has no picture: {pattern!r}{others}")
        files |= matching
    return {name_of(file): file for file in files}, _kinds(skipped - files)


def _kinds(files: Iterable[str]) -> Counter[str]:
    """How many files there are of each suffix, or of each name without one."""
    return Counter(Path(file).suffix.lower() or Path(file).name for file in files)


def _listed(kinds: Counter[str]) -> str:
    number = "1 other file" if kinds.total() == 1 else f"{kinds.total()} other files"
    more = ", ..." if len(kinds) > MAX_KINDS else ""
    return f"{number} ({', '.join(sorted(kinds)[:MAX_KINDS])}{more})"


def _missing(results: Results, paths: Sequence[str]) -> list[str]:
    """The paths to compute: of new and changed pictures, and of errors; odd names get a row."""

    def is_old(path: str, picture: str, error: str | None) -> bool:
        try:
            return bool(error) or digest(read_regular(file_of(path))) != picture
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
