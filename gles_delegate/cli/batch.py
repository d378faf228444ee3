"""``gles-delegate batch``: a model on many pictures, by Ray, into Parquet files."""

from __future__ import annotations

import glob
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gles_delegate.cli.common import (
    command,
    json_option,
    labels_option,
    mean_option,
    model_argument,
    print_json,
    std_option,
    wrong_usage,
)
from gles_delegate.cli.files import read_labels
from gles_delegate.errors import DelegateError
from gles_delegate.image.transform import picture_transform
from gles_delegate.model.metadata import read_metadata
from gles_delegate.model.reader import read_file

PART = 256
"""Pictures whose results are written together, and so are not lost where a run ends early."""


@command
@model_argument
@click.argument("pictures", nargs=-1, required=True)
@click.option(
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder of Parquet files. What it has already is not computed again.",
)
@click.option("--top", type=click.IntRange(1), help="The likeliest classes, not all scores.")
@labels_option
@mean_option
@std_option
@click.option("--workers", type=click.IntRange(1), help="Actors; default: one a processor.")
@click.option("--batch-size", type=click.IntRange(1), default=16, show_default=True)
@click.option("--address", help="A Ray cluster, such as ray://head:10001; default: this machine.")
@json_option
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
    """Run MODEL on PICTURES, files or patterns such as 'pictures/*.jpg', with Ray."""
    graph = read_file(model).graph()
    if len(graph.inputs) != 1:
        raise wrong_usage(f"expected a model of one input, a picture, found {len(graph.inputs)}")
    tensor = graph.tensors[graph.inputs[0]]
    picture_transform(tensor.shape, tensor.dtype, read_metadata(graph).inputs[0], mean, std)
    paths = sorted({path for pattern in pictures for path in _matching(pattern)})
    try:
        import ray

        from gles_delegate.ray import PictureFiles
    except ImportError as error:
        raise wrong_usage(f"install the extra ray ({error}): pip install '.[ray]'") from error
    done = _done(output)
    missing = [path for path in paths if path not in done]
    if missing:
        ray.init(address=address, logging_level=logging.WARNING, log_to_driver=False)
        arguments: dict[str, Any] = {"top": top, "mean": mean, "std": std}
        if labels is not None:
            arguments["labels"] = read_labels(labels)
        most = workers or max(int(ray.cluster_resources().get("CPU", 1)), 1)
        rows = ray.data.from_items(
            [{"path": path} for path in missing],
            override_num_blocks=max(-(-len(missing) // PART), min(most, len(missing))),
        )
        results = rows.map_batches(
            PictureFiles,
            fn_constructor_args=(ray.put(model.read_bytes()),),
            fn_constructor_kwargs=arguments,
            batch_size=batch_size,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
        )
        try:
            results.write_parquet(str(output.absolute()), mode="append")
        except ray.exceptions.RayError as error:
            cause: BaseException = error
            while (deeper := getattr(cause, "cause", None) or cause.__cause__) is not None:
                cause = deeper
            raise DelegateError(f"a worker failed: {type(cause).__name__}: {cause}") from error
        except KeyboardInterrupt:
            print(
                f"stopped with {len(_done(output))} of {len(paths)} pictures done; the same "
                "command goes on with the others",
                file=sys.stderr,
            )
            sys.exit(130)
    found = _done(output)
    failed = sum(1 for path in paths if found.get(path))
    summary = {"pictures": len(paths), "computed": len(missing), "unreadable": failed}
    if as_json:
        print_json({**summary, "output": str(output)})
    else:
        print(
            f"{len(paths)} pictures, {len(missing)} of them computed now; {failed} cannot be read"
        )


def _matching(pattern: str) -> list[str]:
    """The files of a pattern, as absolute paths."""
    found = [pattern] if Path(pattern).is_file() else glob.glob(pattern, recursive=True)
    if not found:
        raise wrong_usage(f"no file matches {pattern!r}")
    return [str(Path(path).absolute()) for path in found]


def _done(output: Path) -> dict[str, str | None]:
    """The paths that the folder's files have, each with its error."""
    import pyarrow.parquet as pq
    from pyarrow import ArrowInvalid

    done: dict[str, str | None] = {}
    for file in sorted(output.glob("*.parquet")):
        try:
            table = pq.read_table(file, columns=["path", "error"])
        except ArrowInvalid:  # of a run that was stopped as it wrote
            file.unlink()
            continue
        done |= dict(zip(*(table[name].to_pylist() for name in ("path", "error")), strict=True))
    return done
