"""``gles-delegate run``: a model on arrays or pictures, once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from gles_delegate.cli import comparison
from gles_delegate.cli.common import (
    cache_option,
    command,
    device_option,
    input_option,
    json_option,
    mean_option,
    model_argument,
    print_json,
    print_table,
    std_option,
)
from gles_delegate.cli.files import files_by_tensor, load_inputs, naming_new_shapes, save_output
from gles_delegate.delegate import GpuDelegate
from gles_delegate.interpreter import Interpreter
from gles_delegate.model.graph import Array, Tensor
from gles_delegate.model.metadata import read_metadata
from gles_delegate.model.reader import read_file
from gles_delegate.options import GpuDelegateOptions

ADDS_UP = 0.05
"""How far the sum of a network's shares may be from 1, with the rounding of 8 bits."""


@command
@model_argument
@input_option
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Where an output goes: an array (.npy) or, of bytes or numbers of 0 to 1, a picture.",
)
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for all other outputs, as INDEX_NAME.npy.",
)
@mean_option
@std_option
@cache_option
@device_option
@json_option
def run(
    model: Path,
    inputs: Sequence[str],
    outputs: Sequence[str],
    output_dir: Path | None,
    mean: float | None,
    std: float | None,
    cache: Path | None,
    device: int | None,
    as_json: bool,
) -> None:
    """Run MODEL once on arrays or pictures."""
    file = read_file(model)
    graph = file.graph()
    feeds = load_inputs(graph, inputs, mean, std)
    targets = files_by_tensor(graph, graph.outputs, outputs, "output")
    if output_dir is not None:
        output_dir.mkdir(parents=True, exist_ok=True)
        for index in graph.outputs:
            name = re.sub(r"[^\w.-]+", "_", graph.tensors[index].name)
            targets.setdefault(index, output_dir / f"{index}_{name}.npy")
    known = dict(zip(graph.outputs, read_metadata(graph).outputs, strict=True))
    results: list[dict[str, Any]] = []
    options = GpuDelegateOptions(device_index=device, serialization_dir=cache)
    with GpuDelegate(options) as delegate:
        interpreter = Interpreter(**file.arguments, experimental_delegates=[delegate])
        with naming_new_shapes(graph, feeds):
            comparison.prepare(interpreter, feeds)
        interpreter.invoke()
        for index in graph.outputs:
            array, tensor = interpreter.get_tensor(index), graph.tensors[index]
            if index in targets:
                save_output(targets[index], array, tensor)
            results.append(
                {
                    "index": index,
                    "name": tensor.name,
                    "dtype": tensor.dtype,
                    "shape": list(array.shape),
                    "minimum": float(array.min()) if array.size else None,
                    "maximum": float(array.max()) if array.size else None,
                    "argmax": int(np.argmax(array)) if array.size else None,
                    **_best(array, tensor, known[index].labels),
                    "file": str(targets[index]) if index in targets else None,
                }
            )
    if as_json:
        print_json({"outputs": results})
    else:
        rows = ({**row, **_in_words(row)} for row in results)
        print_table([{k: v for k, v in row.items() if k != "argmax"} for row in rows])


def _best(array: Array, tensor: Tensor, labels: Sequence[str]) -> dict[str, Any]:
    """The class of the highest score, and that score, of an output of one score for each class.

    Without labels, scores that add up to 1 are taken for such.
    """
    classes = array.shape[-1] if array.shape else 1
    scores = array.reshape(-1).astype(np.float64)
    if tensor.is_quantized:
        scale, zero = tensor.quantization.pair
        scores = (scores - zero) * scale
    is_sure = len(labels) == classes or abs(scores.sum() - 1) < ADDS_UP
    if classes < 2 or scores.size != classes or not is_sure:
        return {"label": None, "score": None}
    best = int(np.argmax(scores))
    label = labels[best] if len(labels) == classes else f"class {best}"
    return {"label": label, "score": float(scores[best])}


def _in_words(row: dict[str, Any]) -> dict[str, Any]:
    """The cells of a table, where nothing stands for what is not known."""
    return {key: "" if row[key] is None else row[key] for key in ("label", "score", "file")}
