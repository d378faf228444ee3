"""Pictures in and out of models: what the examples share."""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import gles_delegate as gd
from gles_delegate.model.metadata import normalization
from gles_delegate.model.reader import load_model

FloatArray = NDArray[np.float32]


def image_parser(description: str) -> argparse.ArgumentParser:
    """The command line of an example that shows a picture to a network."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", type=Path, help="a .tflite network, [1, height, width, 3] in")
    parser.add_argument("picture", type=Path, help="any picture that Pillow reads")
    parser.add_argument("--labels", type=Path, help="names of the classes, one a line")
    parser.add_argument("--mean", type=float, help="subtracted from pixels of 0..255")
    parser.add_argument("--std", type=float, help="divides them afterwards")
    return parser


def predict(arguments: argparse.Namespace, picture: Image.Image) -> FloatArray:
    """The first output of the model, on the GPU; exits with a sentence when it cannot be run."""
    try:
        with gd.Interpreter(model_path=arguments.model) as interpreter:
            interpreter.allocate_tensors()
            return show(arguments, interpreter, picture)
    except gd.DelegateError as error:
        raise SystemExit(str(error)) from error


def show(arguments: argparse.Namespace, interpreter: Any, picture: Image.Image) -> FloatArray:
    """The first output of an interpreter that is ready, ours or LiteRT's, for a picture."""
    image, output = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    graph = load_model(arguments.model)
    mean, std = normalization(graph, image["index"], arguments.mean, arguments.std)
    interpreter.set_tensor(image["index"], as_input(picture, image, mean, std))
    interpreter.invoke()
    return as_real(interpreter.get_tensor(output["index"]), output)


def load_picture(path: Path) -> Image.Image:
    """An RGB picture from a file; exits with a sentence when it cannot be read."""
    try:
        return Image.open(path).convert("RGB")
    except OSError as error:
        raise SystemExit(f"cannot read the picture {path}: {error}") from error


def as_input(
    picture: Image.Image, detail: dict[str, Any], mean: FloatArray, std: FloatArray
) -> NDArray[Any]:
    """The picture as a model's input: stretched to its size, and as bytes or normalized.

    `detail` is the input's entry in `get_input_details`.
    """
    shape = detail["shape"].tolist()
    if len(shape) != 4 or shape[0] != 1 or shape[3] != 3:
        raise SystemExit(f"expected a model input [1, height, width, 3], found {shape}")
    pixels = picture.resize((shape[2], shape[1]), Image.Resampling.BILINEAR)
    if detail["dtype"] == np.uint8:
        return np.asarray(pixels)[np.newaxis]
    real = ((np.asarray(pixels, np.float32) - mean) / std)[np.newaxis]
    scale, zero_point = detail["quantization"]
    if not scale:
        return real.astype(detail["dtype"])
    limits = np.iinfo(detail["dtype"])
    steps = np.round(real / scale) + zero_point
    return steps.clip(limits.min, limits.max).astype(detail["dtype"])


def as_real(output: NDArray[Any], detail: dict[str, Any]) -> FloatArray:
    """The numbers that an output stands for; `detail` is its entry in `get_output_details`."""
    scale, zero_point = detail["quantization"]
    return (output.astype(np.float32) - zero_point) * (scale or 1)


def load_labels(model: Path, labels: Path | None, count: int) -> list[str]:
    """Names of classes, one a line, from a file or else from those packed into the model."""
    lines = _stored_labels(model) if labels is None else labels.read_text("utf-8").splitlines()
    return [lines[i] if i < len(lines) else f"class {i}" for i in range(count)]


def _stored_labels(model: Path) -> list[str]:
    if not zipfile.is_zipfile(model):
        return []
    with zipfile.ZipFile(model) as files:
        names = [name for name in files.namelist() if name.endswith(".txt")]
        return files.read(names[0]).decode().splitlines() if names else []
