"""``gles-delegate run``: one run of a model on arrays or pictures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from gles_delegate.bench.comparison import prepare
from gles_delegate.cli import common, detections, landmarks, tensor_files
from gles_delegate.delegate import GpuDelegate
from gles_delegate.interpreter import Interpreter
from gles_delegate.model.graph import Array, Graph, Tensor
from gles_delegate.model.reader import read_file
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.planning.outputs import read_metadata
from gles_delegate.tasks.vision.bundles import landmarker_kind
from gles_delegate.vision.classes import class_name, top_indices


@common.command
@common.model_argument
@common.input_option
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="A file for an output: an array (.npy), or a picture of bytes, numbers of 0 to 1, or "
    "classes. For a detector, a picture gets the boxes.",
)
@click.option("--output-dir", type=common.FOLDER, help="For all other outputs, as INDEX_NAME.npy.")
@common.labels_option
@common.kind_option
@click.option("--top", type=click.IntRange(1), help="Show the top N classes.")
@common.scaling_options
@common.cache_option
@common.device_option
@common.json_option
def run(
    model: Path,
    inputs: Sequence[str],
    outputs: Sequence[str],
    output_dir: Path | None,
    labels: Path | None,
    kind: str | None,
    top: int | None,
    mean: float | None,
    std: float | None,
    cache: Path | None,
    device: int | None,
    as_json: bool,
) -> None:
    """Run MODEL once on arrays or pictures.

    For a bundle of a face, hand or pose landmarker, list the objects in a picture, and draw them
    into the picture of --output.
    """
    options = GpuDelegateOptions(device_index=device, serialization_dir=cache)
    bundled = landmarker_kind(model)
    if bundled is not None:
        landmarks.require_none(output_dir, labels, kind, top, mean, std)
        landmarks.run_bundle(model, bundled, inputs, outputs, options, as_json)
        return
    file = read_file(model)
    graph = file.graph()
    given = None if labels is None else tensor_files.read_labels(labels)
    is_drawn = any(not argument.endswith(".npy") for argument in outputs)
    is_required = is_drawn or kind is not None
    finder = detections.find(graph, given, kind, is_required=is_required)
    transform = None if finder is None else finder.transform
    feeds = tensor_files.load_inputs(graph, inputs, mean, std, transform)
    source, drawn, outputs = _pictures(graph, inputs, outputs) if finder else (None, None, outputs)
    files = _output_files(graph, outputs, output_dir)
    names = _class_names(graph, None if finder else labels)
    with (
        common.progress_bar(quiet=as_json) as bar,
        GpuDelegate(options, progress=common.compilation(bar)) as delegate,
    ):
        interpreter = Interpreter(**file.arguments, experimental_delegates=[delegate])
        with tensor_files.naming_new_shapes(graph, feeds):
            prepare(interpreter, feeds)
        interpreter.invoke()
        arrays = {index: interpreter.get_tensor(index) for index in graph.outputs}
    results = [
        _result(array, graph.tensors[index], names[index], files.get(index), top)
        for index, array in arrays.items()
    ]
    if top:
        _require_classes(graph, results)
    shown: dict[str, Any] = {"outputs": results}
    if finder is not None and source is not None:
        shown |= finder.found(graph, arrays, source, drawn)
    if as_json:
        common.print_json(shown)
    else:
        _print(shown)


def _require_classes(graph: Graph, results: Sequence[dict[str, Any]]) -> None:
    """Raise ValueError if no result has top classes."""
    if not any(result["top"] for result in results):
        raise ValueError(
            "--top needs an output with a score for each class, [1, classes], found "
            + "; ".join(tensor_files.describe(graph.tensors[index]) for index in graph.outputs)
        )


def _print(shown: dict[str, Any]) -> None:
    _print_results(shown["outputs"])
    if "detections" in shown:
        _print_detections(shown["detections"])
    if "file" in shown:
        print(shown["file"])


def _print_detections(rows: Sequence[dict[str, Any]]) -> None:
    print(f"\n{len(rows)} detection{'s' * (len(rows) != 1)}")
    shown = ("label", "score", "box", "rotation")
    if rows:
        common.print_table([{key: row[key] for key in shown if key in row} for row in rows])


def _pictures(
    graph: Graph, inputs: Sequence[str], outputs: Sequence[str]
) -> tuple[Path, Path | None, list[str]]:
    """A detector's picture, the file for the picture with boxes, and the arrays of ``--output``.

    Raises `click.UsageError` for pictures of tensors, which show nothing.
    """
    (source,) = tensor_files.files_by_tensor(graph, graph.inputs, inputs, "input").values()
    arrays = [argument for argument in outputs if argument.endswith(".npy")]
    pictures = [argument for argument in outputs if argument not in arrays]
    if not pictures:
        return source, None, arrays
    is_named = "=" in pictures[0] and not tensor_files.is_path(Path(pictures[0]))
    if len(pictures) > 1 or is_named or source.suffix == ".npy":
        raise common.wrong_usage(
            "expected one --output PICTURE without a name, which gets the boxes in the picture of "
            f"--input, and .npy files for outputs of a detector, found {', '.join(pictures)} for "
            f"{source}"
        )
    return source, Path(pictures[0]), arrays


def _output_files(graph: Graph, named: Sequence[str], folder: Path | None) -> dict[int, Path]:
    """The file of each output by index; outputs without a name go to `folder`, which is created."""
    files = tensor_files.files_by_tensor(graph, graph.outputs, named, "output")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for index in graph.outputs:
            name = re.sub(r"[^\w.-]+", "_", graph.tensors[index].name)
            files.setdefault(index, folder / f"{index}_{name}.npy")
    return files


def _class_names(graph: Graph, path: Path | None) -> dict[int, Sequence[str]]:
    """The labels of each output, from a file or else from the model's metadata."""
    metadata = zip(graph.outputs, read_metadata(graph).outputs, strict=True)
    by_output: dict[int, Sequence[str]] = {index: output.labels for index, output in metadata}
    if path is None:
        return by_output
    labels = tensor_files.read_labels(path)
    outputs = [graph.tensors[index] for index in graph.outputs]
    scored = [t for t in outputs if t.shape[-1:] == (len(labels),)]
    numbered = [t for t in outputs if "int" in t.dtype and not t.is_quantized]
    if not scored and not numbered:
        raise ValueError(
            f"expected a label for each class of an output, found {len(labels)} in {path}; "
            "the outputs are " + "; ".join(map(tensor_files.describe, outputs))
        )
    return by_output | {tensor.index: labels for tensor in scored or numbered}


def _result(
    array: Array, tensor: Tensor, labels: Sequence[str], path: Path | None, top: int | None
) -> dict[str, Any]:
    """Save an output, and describe it."""
    if path is not None:
        tensor_files.save_output(path, array, tensor, labels)
    best = _best(array, tensor, labels, top)
    has_classes = bool(labels) or (path is not None and path.suffix != ".npy")
    return {
        "index": tensor.index,
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(array.shape),
        "minimum": float(array.min()) if array.size else None,
        "maximum": float(array.max()) if array.size else None,
        "argmax": int(np.argmax(array)) if array.size else None,
        "label": best[0]["label"] if best else None,
        "score": best[0]["score"] if best else None,
        "file": None if path is None else str(path),
        **({"top": best} if top else {}),
        "classes": _shares(array, tensor, labels) if has_classes else [],
    }


def _best(
    array: Array, tensor: Tensor, labels: Sequence[str], top: int | None
) -> list[dict[str, Any]]:
    """The top classes of an output with a score for each class, best first.

    Without `top`, the best one; none if there are no labels and the scores do not add up to 1.
    """
    classes = array.shape[-1] if array.shape else 1
    if classes < 2 or array.size != classes:
        return []
    scores = tensor_files.real_values(array, tensor).reshape(-1).astype(np.float64)
    named = len(labels) == classes
    is_softmax = abs(scores.sum() - 1) < 0.05  # with 8-bit rounding
    if not (top or named or is_softmax):
        return []
    return [
        {
            "class": int(best),
            "label": class_name(labels if named else (), best),
            "score": float(scores[best]),
        }
        for best in top_indices(scores, top or 1)
    ]


def _shares(array: Array, tensor: Tensor, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Each class's share of the pixels of a segmentation output, the largest first."""
    classes = tensor_files.class_numbers(array, tensor, labels)
    if classes is None or classes.size < 2:
        return []
    counts = np.bincount(classes.reshape(-1))
    return [
        {
            "class": int(index),
            "label": class_name(labels, index),
            "share": float(counts[index] / classes.size),
        }
        for index in top_indices(counts, None)
        if counts[index]
    ]


def _print_results(results: Sequence[dict[str, Any]]) -> None:
    columns = [key for key in results[0] if key not in ("argmax", "top", "classes")]
    rows = [{key: "" if row[key] is None else row[key] for key in columns} for row in results]
    common.print_table(rows)
    for row in results:
        shares = [{**row, "share": f"{row['share']:.1%}"} for row in row["classes"]]
        ranking = row.get("top") or shares
        if ranking:
            print(f"\n{row['name']}")
            common.print_table(ranking)
