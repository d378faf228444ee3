"""``gles-delegate batch``: a table of a model's results for many pictures."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gles_delegate.batch.predictor import by_name, require_classes
from gles_delegate.batch.results import Results, Row, columns_of, digest, open_results
from gles_delegate.cli import common
from gles_delegate.cli.tensor_files import read_labels
from gles_delegate.errors import DelegateError
from gles_delegate.image.transform import picture_transform
from gles_delegate.model.files import read_regular
from gles_delegate.model.graph import Graph
from gles_delegate.model.reader import ModelFile, read_file
from gles_delegate.planning.outputs import read_metadata
from gles_delegate.runtime.standalone import describe


@common.command
@common.model_argument
@click.argument("pictures", nargs=-1, required=True)
@click.option(
    "--output",
    required=True,
    type=common.PATH,
    help="A folder for a Parquet file, or a file results.csv. Existing rows are not recomputed.",
)
@click.option("--top", type=click.IntRange(1), help="The top N classes instead of all scores.")
@common.labels_option
@common.scaling_options
@click.option(
    "--workers", type=click.IntRange(1), help="Processes; default: one per processor, two on a GPU."
)
@click.option("--batch-size", type=click.IntRange(1), default=16)
@click.option("--address", help="A Ray cluster, such as ray://head:10001; default: this machine.")
@common.json_option
def batch(
    model: Path,
    pictures: Sequence[str],
    output: Path,
    top: int | None,
    labels: Path | None,
    mean: float | None,
    std: float | None,
    workers: int | None,
    batch_size: int,
    address: str | None,
    as_json: bool,
) -> None:
    """Run MODEL on PICTURES, files or patterns such as 'pictures/*.jpg'.

    Pictures that cannot be read have a reason instead of results; then it exits with status 1.
    """
    file = read_file(model)
    graph = file.graph()
    arguments: dict[str, Any] = {"top": top, "mean": mean, "std": std}
    if labels is not None:
        arguments["labels"] = read_labels(labels)
    outputs = _check(graph, mean, std)
    require_classes(outputs, top, arguments.get("labels"))
    paths = sorted({path for pattern in pictures for path in _matching(pattern)})
    results = open_results(output, _name(file, graph, arguments), columns_of(outputs, top))
    try:
        results.forget(_outdated(results, paths))
        missing = [path for path in paths if path not in results.rows]
        chunks = [missing[i : i + batch_size] for i in range(0, len(missing), batch_size)]
        with common.progress_bar(quiet=as_json) as bar:
            task = bar.add_task("pictures", total=len(missing))
            for rows in _computed(file, arguments, chunks, workers, address) if missing else ():
                results.add(rows)
                bar.update(task, advance=len(rows))
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
        _print_summary(len(paths), len(missing), errors)
    sys.exit(bool(errors))


def _print_summary(pictures: int, computed: int, errors: Mapping[str, str]) -> None:
    number = f"{pictures} picture{'s' * (pictures != 1)}"
    print(f"{number}: {computed} computed, {len(errors)} unreadable")
    for path, reason in errors.items():
        print(common.printable(f"{path}: {reason}"), file=sys.stderr)


def _check(graph: Graph, mean: float | None, std: float | None) -> Mapping[str, dict[str, Any]]:
    """The outputs by name of a model whose only input is a picture; raises an error for others."""
    if len(graph.inputs) != 1:
        raise common.wrong_usage(
            f"expected a model with one input, a picture, found {len(graph.inputs)}"
        )
    tensor = graph.tensors[graph.inputs[0]]
    picture_transform(tensor.shape, tensor.dtype, read_metadata(graph).inputs[0], mean, std)
    tensors = [graph.tensors[index] for index in graph.outputs]
    return by_name([describe(tensor, tensor.shape) for tensor in tensors])


def _name(file: ModelFile, graph: Graph, arguments: Mapping[str, Any]) -> str:
    """Identifies what results depend on beside the pictures: the model and the options."""
    model = digest(file.content, *graph.weights)[:16]
    options = {name: value for name, value in arguments.items() if value is not None}
    if "labels" in options:
        options["labels"] = digest(*options["labels"])[:16]
    return ", ".join([f"model {model}", *(f"{name} {value}" for name, value in options.items())])


def _matching(pattern: str) -> Iterator[str]:
    """Absolute paths of the files that match a pattern."""
    matching = [pattern] if Path(pattern).is_file() else glob.glob(pattern, recursive=True)
    if not matching:
        raise common.wrong_usage(f"no file matches {pattern!r}")
    for path in map(Path, matching):
        if "\n" in str(path) or os.fsencode(path) != str(path).encode("utf-8", "replace"):
            name = repr(str(path))
            raise common.wrong_usage(f"expected file names of one line of UTF-8, found {name}")
        yield str(path.absolute())


def _outdated(results: Results, paths: Sequence[str]) -> set[str]:
    """The paths whose picture has changed since its row was written, or whose row is an error."""

    def has_changed(path: str, picture: str) -> bool:
        try:
            return digest(read_regular(path)) != picture
        except OSError:
            return True

    rows = {path: results.rows[path] for path in paths if path in results.rows}
    return {path for path, (picture, error) in rows.items() if error or has_changed(path, picture)}


def _computed(
    file: ModelFile,
    arguments: Mapping[str, Any],
    chunks: Sequence[list[str]],
    workers: int | None,
    address: str | None,
) -> Iterator[list[Row]]:
    """Rows from processes of this machine, or from Ray's actors."""
    if address is None:
        from gles_delegate.batch import pool

        (model,) = file.arguments.values()
        workers = min(workers or pool.workers_for(len(chunks)), len(chunks))
        return pool.compute(
            model, arguments, chunks, workers,
            notice=lambda sentence: print(f"gles-delegate: {sentence}", file=sys.stderr),
        )  # fmt: skip
    try:
        from gles_delegate.ray import cluster
    except ImportError as error:
        raise common.wrong_usage(
            f"--address needs the extra ray ({error}): pip install 'gles_delegate[ray]'"
        ) from error
    return cluster.compute(bytes(file.content), arguments, chunks, workers, address)


def _end_early(results: Results, paths: Sequence[str], error: BaseException) -> None:
    """Write the table, and end with the error and the number of pictures that are done."""
    reason = str(error)
    try:
        results.write_table()
    except DelegateError as another:
        reason = reason or str(another)
    done = sum(1 for path in paths if path in results.rows)
    progress = f"{done} of {len(paths)} pictures are done; the same command computes the others"
    if isinstance(error, KeyboardInterrupt):
        print(f"stopped: {f'{reason}; ' if reason else ''}{progress}", file=sys.stderr)
        sys.exit(130)
    raise DelegateError(f"{reason}; {progress}") from error
