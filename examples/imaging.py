"""Pictures in and out of models: what the examples share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import gles_delegate as gd
from gles_delegate.errors import reason_of, sentence_of
from gles_delegate.image.pictures import as_tensor, converted
from gles_delegate.image.transform import picture_transform
from gles_delegate.model.metadata import read_metadata
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


@contextmanager
def ending_in_a_sentence() -> Iterator[None]:
    """Exit with a sentence where a file, a model or the device is at fault; decorates ``main``."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except (gd.DelegateError, OSError, ValueError) as error:
        raise SystemExit(sentence_of(error)) from error


Check = Callable[[dict[str, Any], dict[str, Any]], None]
"""Exits with a sentence where the input and the output, as an interpreter tells their details, are
not those of a task."""


def require_classifier(image: dict[str, Any], output: dict[str, Any]) -> None:
    """The `Check` of a network that classifies pictures."""
    shape = output["shape"].tolist()
    if len(shape) < 2 or shape[-1] < 2 or max(shape[:-1]) > 1:
        raise SystemExit(f"expected a classifier, with the output [1, classes], found {shape}")


def predict(arguments: argparse.Namespace, picture: Image.Image, check: Check) -> FloatArray:
    """The output of the model, on the GPU."""
    with gd.Interpreter(model_path=arguments.model) as interpreter:
        interpreter.allocate_tensors()
        return show(arguments, interpreter, picture, check)


def show(
    arguments: argparse.Namespace, interpreter: Any, picture: Image.Image, check: Check
) -> FloatArray:
    """The output of an interpreter that is ready, ours or LiteRT's, for a picture."""
    image, output = single(interpreter)
    check(image, output)
    known = read_metadata(load_model(arguments.model)).inputs[0]
    shape, dtype = image["shape"].tolist(), np.dtype(image["dtype"]).name
    transform = picture_transform(shape, dtype, known, arguments.mean, arguments.std)
    interpreter.set_tensor(image["index"], as_tensor(picture, image, transform))
    interpreter.invoke()
    return as_real(interpreter.get_tensor(output["index"]), output)


def single(interpreter: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The details of the only input and of the only output, which show the model's task."""
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    if (len(inputs), len(outputs)) != (1, 1):
        raise SystemExit(
            "expected a model of one input, a picture, and one output, found "
            f"{len(inputs)} inputs and {len(outputs)} outputs"
        )
    shape = inputs[0]["shape"].tolist()
    if len(shape) != 4 or shape[0] != 1 or shape[3] != 3:
        raise SystemExit(f"expected a model input [1, height, width, 3], found {shape}")
    return inputs[0], outputs[0]


def save_picture(picture: Image.Image, path: Path) -> None:
    """Write it, in the format that the name's ending says."""
    try:
        picture.save(path)
    except (OSError, ValueError) as error:  # ValueError: an unknown ending
        raise SystemExit(f"cannot write the picture {path}: {reason_of(error)}") from error


def positive(text: str) -> int:
    """A number of 1 or more, from the command line."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, found {number}")
    return number


def load_picture(path: Path) -> Image.Image:
    """An RGB picture from a file; exits with a sentence when it cannot be read."""
    try:
        return converted(Image.open(path), "RGB")
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise SystemExit(f"cannot read the picture {path}: {reason_of(error)}") from error


def as_real(output: NDArray[Any], detail: dict[str, Any]) -> FloatArray:
    """The numbers that an output stands for; `detail` is its entry in `get_output_details`."""
    scale, zero_point = detail["quantization"]
    return (output.astype(np.float32) - zero_point) * (scale or 1)


def load_labels(model: Path, labels: Path | None, count: int) -> list[str]:
    """Names of classes, one a line, from a file or else from those packed into the model."""
    if labels is None:
        lines = list(read_metadata(load_model(model)).outputs[0].labels)
    else:
        lines = read_labels(labels)
    return [lines[i] if i < len(lines) else f"class {i}" for i in range(count)]


def read_labels(path: Path) -> list[str]:
    """Names of classes, one a line."""
    try:
        return path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise SystemExit(f"expected names in UTF-8, one a line, in {path}: {error}") from error
