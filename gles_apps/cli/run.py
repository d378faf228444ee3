"""``gles-delegate run``: one run of a model on arrays, or on a picture."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from PIL.Image import Image as Picture

from gles_apps.cli import options
from gles_apps.cli.options import compilations, listing_best, naming_missing
from gles_apps.tasks.classes import Classifier
from gles_apps.tasks.components.containers import SHOWN, ClassificationResult
from gles_apps.tasks.components.processors import ClassifierOptions
from gles_apps.tasks.image import Image, ImageFormat
from gles_apps.tasks.options import BaseOptions
from gles_apps.tasks.vision.opening import TaskModel, TaskSettings
from gles_delegate import EglContext, GpuDelegate, GpuDelegateOptions, Interpreter
from gles_delegate.bench.comparison import prepare as prepare_interpreter
from gles_delegate.cli import common, tensor_files
from gles_delegate.image.pictures import channels_last, picture_mode
from gles_delegate.model.graph import Array, Graph
from gles_delegate.model.labels import read_labels
from gles_delegate.planning.outputs import read_metadata

logger = logging.getLogger("gles_delegate")

COLUMNS = (*SHOWN, "box", "rotation")
"""Columns of results in the terminal."""


@common.command
@common.model_argument
@click.argument("more", nargs=-1, metavar="")
@common.input_option
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="An array (.npy) of an output, or a picture: the results drawn into that of --input, or "
    "else an output's bytes or numbers of 0 to 1.",
)
@click.option("--output-dir", type=common.FOLDER, help="For all other outputs, as INDEX_NAME.npy.")
@options.task_option
@options.labels_option
@options.kind_option
@options.threshold_option
@click.option("--top", type=click.IntRange(1), help="The top N classes or objects.")
@common.scaling_options
@options.antialias_option
@common.cache_option
@common.device_option
@common.json_option
def run(
    model: Path,
    more: Sequence[str],
    inputs: Sequence[str],
    outputs: Sequence[str],
    output_dir: Path | None,
    labels: Path | None,
    mean: float | None,
    std: float | None,
    antialias: bool,
    cache: Path | None,
    device: int | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Run MODEL once on arrays or on a picture.

    Of a picture, the results of the network's task are listed: its classes, objects, people or
    areas. MODEL may be a bundle of face, hand, gesture, pose or holistic.
    """
    if more:
        raise common.wrong_usage(f"expected --input before a file, found {more[0]!r}")
    names = None if labels is None else read_labels(labels)
    settings = TaskSettings(labels=names, **chosen)
    options = GpuDelegateOptions(device_index=device, serialization_dir=cache)
    with common.progress_bar() as bar:
        base = BaseOptions(
            model,
            gpu_options=options,
            antialias=antialias,
            mean=mean,
            std=std,
            progress=compilations(bar),
        )
        with naming_missing(model):
            task_model = TaskModel.of(base, settings)
        shown: dict[str, Any] | None = None
        source, read = _inputs(task_model, inputs)
        read += [model, *([] if labels is None else [labels])]
        if source is not None:
            pixels = tensor_files.read_picture(source)
            is_asked = settings != TaskSettings() or any(map(is_picture, outputs))
            try:
                shown = _look(task_model, base, pixels, outputs, output_dir, read)
            except ValueError as error:
                if is_asked or task_model.landmarker is not None:
                    raise
                logger.warning("results are not listed: %s", error)
        if shown is None:
            shown = _run(task_model, base, inputs, outputs, output_dir, read)
    if as_json:
        common.print_json(shown)
    else:
        _print(shown)


def is_picture(file: str) -> bool:
    """Whether the name of a file is a picture's, not an array's."""
    return not file.endswith(".npy")


def _inputs(model: TaskModel, inputs: Sequence[str]) -> tuple[Path | None, list[Path]]:
    """The picture for the only input of a network, or for a bundle, and all files of inputs;
    without the picture if there are other inputs.
    """
    if model.landmarker is not None:
        if len(inputs) != 1 or not is_picture(inputs[0]):
            raise common.wrong_usage("expected one --input, a picture, for a bundle")
        picture = common.file_of(inputs[0])
        return picture, [picture]
    graph = model.file.graph()
    files = tensor_files.files_by_tensor(graph, graph.inputs, inputs, "input")
    shown = [path for path in files.values() if is_picture(str(path))]
    modes = [picture_mode(channels_last(graph.tensors[i].shape)) for i in graph.inputs]
    is_single = len(shown) == len(modes) == 1 and modes[0] is not None
    return shown[0] if is_single else None, [*files.values()]


def _look(
    model: TaskModel,
    base: BaseOptions,
    pixels: Picture,
    outputs: Sequence[str],
    folder: Path | None,
    read: Sequence[Path],
) -> dict[str, Any] | None:
    """The results of a task for a picture; None: the network has none.

    The files in `read` are not written to.
    """
    task = model.task
    if task in (None, "repaint"):
        return None
    pictures = [Path(name) for name in outputs if is_picture(name)]
    arrays = [name for name in outputs if not is_picture(name)]
    is_bundle = model.landmarker is not None
    forbidden = []
    if is_bundle:
        forbidden = arrays if folder is None else [*arrays, str(folder)]
    if len(pictures) > 1 or forbidden:
        raise common.wrong_usage(
            "expected one picture with the results, and arrays only of a single network, found "
            + ", ".join([*map(str, pictures), *forbidden])
        )
    files = {} if is_bundle else _files(model.file.graph(), arrays, folder)
    common.require_other_files([*pictures, *files.values()], read)
    model = listing_best(model)
    image = Image(ImageFormat.SRGB, np.asarray(pixels))
    index = base.gpu_options.device_index if base.gpu_options else None
    context = None if index is None else EglContext(device_index=index)
    try:
        with model.open(replace(base, context=context)) as opened:
            result = opened.process(image)
            found = opened.network.arrays
            device = opened.report.device
    finally:
        if context is not None:
            context.release()
    shown: dict[str, Any] = {"task": task, "device": device, "results": result.rows(image.size)}
    for picture in pictures:
        tensor_files.save_picture(result.draw_on(pixels), picture)
    shown["file"] = str(pictures[0]) if pictures else None
    if not is_bundle:
        shown["outputs"] = _outputs(model.file.graph(), found, files, folder)
    return shown


def _run(
    model: TaskModel,
    base: BaseOptions,
    inputs: Sequence[str],
    outputs: Sequence[str],
    folder: Path | None,
    read: Sequence[Path],
) -> dict[str, Any]:
    """The outputs of a model for arrays, and a classifier's results; for `read`, see `_look`."""
    graph = model.file.graph()
    settings = model.settings
    files = _files(graph, outputs, folder)
    common.require_other_files(files.values(), read)
    if replace(settings, labels=None, top=None, task=None) != TaskSettings():
        raise common.wrong_usage("expected a picture for --kind and --threshold")
    feeds = tensor_files.load_inputs(graph, inputs, base.mean, base.std, base.antialias)
    progress = None if base.progress is None else partial(base.progress, "model")
    with GpuDelegate(base.gpu_options, progress=progress) as delegate:
        interpreter = Interpreter(model.file, experimental_delegates=[delegate])
        with tensor_files.naming_new_shapes(graph, feeds):
            prepare_interpreter(interpreter, feeds)
        interpreter.invoke()
        arrays = [interpreter.get_tensor(index) for index in graph.outputs]
    shown: dict[str, Any] = {"task": None, "results": [], "file": None}
    classifier = _classifier(graph, settings, [array.shape for array in arrays])
    if classifier is not None:
        pairs = zip(arrays, graph.outputs, strict=True)
        real = [tensor_files.real_values(array, graph.tensors[index]) for array, index in pairs]
        result = ClassificationResult(classifier.heads(real))
        shown |= {"task": "classify", "results": result.rows((1, 1))}
    shown["outputs"] = _outputs(graph, arrays, files, folder)
    return shown


def _classifier(
    graph: Graph, settings: TaskSettings, shapes: Sequence[tuple[int, ...]]
) -> Classifier | None:
    """The reader of scores [1, classes], if their names are known or the top ones are asked for."""
    metadata = read_metadata(graph).outputs
    are_scores = all(shape and math.prod(shape) == shape[-1] for shape in shapes)
    if not (settings.top or settings.labels):
        labels = [each.labels for each in metadata]
        if not are_scores or any(len(n) != s[-1] for n, s in zip(labels, shapes, strict=True)):
            return None
    elif not are_scores:
        tensors = [graph.tensors[index] for index in graph.outputs]
        pairs = zip(tensors, shapes, strict=True)
        found = "; ".join(tensor_files.label(replace(t, shape=shape)) for t, shape in pairs)
        raise ValueError(f"expected outputs [1, classes] for --top and --labels, found {found}")
    options = ClassifierOptions(max_results=settings.top or 1)
    return Classifier(shapes, metadata, options, settings.labels, probabilities=True)


def _print(shown: dict[str, Any]) -> None:
    outputs = shown.get("outputs", ())
    if outputs:
        keys = [key for key in outputs[0] if key != "argmax"]
        common.print_table([{k: "" if r[k] is None else r[k] for k in keys} for r in outputs])
    if shown["task"] is not None:
        rows = shown["results"]
        device = shown.get("device", "the GPU")
        results = "1 result" if len(rows) == 1 else f"{len(rows)} results"
        print(f"\n{shown['task']}: {results} on {device}")
        cells = [{k: "" if v is None else v for k, v in r.items() if k in COLUMNS} for r in rows]
        if cells:
            common.print_table(cells)
    if shown["file"] is not None:
        print(shown["file"])


def _files(graph: Graph, named: Sequence[str], folder: Path | None) -> dict[int, Path]:
    """The files of outputs: those in `named`, and others in the folder, if there is one."""
    files = tensor_files.files_by_tensor(graph, graph.outputs, named, "output")
    if folder is not None:
        for index in graph.outputs:
            name = re.sub(r"[^\w.-]+", "_", graph.tensors[index].name)
            files.setdefault(index, folder / f"{index}_{name}.npy")
    return files


def _outputs(
    graph: Graph, arrays: Sequence[Array], files: Mapping[int, Path], folder: Path | None
) -> list[dict[str, Any]]:
    """Write outputs to their files; a row for each."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for index, array in zip(graph.outputs, arrays, strict=True):
        tensor = graph.tensors[index]
        path = files.get(index)
        if path is not None:
            tensor_files.save_output(path, array, tensor)
        row = {
            "index": index,
            "name": tensor.name,
            "dtype": tensor.dtype,
            "shape": list(array.shape),
            "minimum": float(array.min()) if array.size else None,
            "maximum": float(array.max()) if array.size else None,
            "argmax": int(np.argmax(array)) if array.size else None,
            "file": None if path is None else str(path),
        }
        rows.append(row)
    return rows
