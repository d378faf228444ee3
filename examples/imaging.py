"""Code shared by the examples: pictures in and out of models."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import gles_delegate as gd
from gles_apps.vision import dequantize
from gles_apps.vision.classes import class_name
from gles_delegate.errors import reason_of, sentence_of
from gles_delegate.image.pictures import as_tensor, converted, load
from gles_delegate.image.transform import picture_transform
from gles_delegate.model.labels import read_labels
from gles_delegate.model.reader import load_model
from gles_delegate.planning.outputs import read_metadata
from gles_delegate.support.outputs import require_other_files
from gles_delegate.support.streams import prepare_streams

FloatArray = NDArray[np.float32]
OUTPUTS = ("output", "screenshot")
"""The arguments that name files or folders to write."""


def image_parser(description: str) -> argparse.ArgumentParser:
    """The command line of an example that runs a network on a picture."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", type=Path, help="a .tflite network, [1, height, width, 3] in")
    parser.add_argument("picture", type=Path, help="a picture file")
    parser.add_argument("--labels", type=Path, help="names of the classes, one per line")
    parser.add_argument("--mean", type=float, help="subtracted from pixels of 0..255")
    parser.add_argument("--std", type=float, help="divides them afterwards")
    return parser


@contextmanager
def ending_in_a_sentence() -> Iterator[None]:
    """Exit with a one-line message if a file, a model or the device fails; decorates ``main``."""
    prepare_streams()
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except (gd.DelegateError, OSError, ValueError) as error:
        raise SystemExit(sentence_of(error)) from error


Check = Callable[[dict[str, Any], dict[str, Any]], None]
"""Exits with a message unless the input and output details fit a task."""


def require_classifier(image: dict[str, Any], output: dict[str, Any]) -> None:
    """A `Check` for networks that classify pictures."""
    shape = output["shape"].tolist()
    if len(shape) < 2 or shape[-1] < 2 or max(shape[:-1]) > 1:
        raise SystemExit(f"expected a classifier, with the output [1, classes], found {shape}")


def predict(arguments: argparse.Namespace, picture: Image.Image, check: Check) -> FloatArray:
    """The model's output, computed on the GPU."""
    with gd.Interpreter(model_path=arguments.model) as interpreter:
        interpreter.allocate_tensors()
        return show(arguments, interpreter, picture, check)


def show(
    arguments: argparse.Namespace, interpreter: Any, picture: Image.Image, check: Check
) -> FloatArray:
    """The output of a prepared interpreter, this package's or LiteRT's, for a picture."""
    image, output = single(interpreter)
    check(image, output)
    metadata = read_metadata(load_model(arguments.model)).inputs[0]
    shape = image["shape"].tolist()
    dtype = np.dtype(image["dtype"]).name
    transform = picture_transform(shape, dtype, metadata, arguments.mean, arguments.std)
    interpreter.set_tensor(image["index"], as_tensor(picture, image, transform))
    interpreter.invoke()
    return as_real(interpreter.get_tensor(output["index"]), output)


def single(interpreter: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The details of the single input and the single output."""
    inputs = interpreter.get_input_details()
    outputs = interpreter.get_output_details()
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
    """Write a picture in the format given by the file extension."""
    try:
        picture.save(path)
    except (OSError, ValueError) as error:  # ValueError: an unknown extension
        raise SystemExit(f"cannot write the picture {path}: {reason_of(error)}") from error


def require_inputs_kept(
    arguments: argparse.Namespace, outputs: Iterable[Path | str | None]
) -> None:
    """Raise ValueError if outputs would replace files of the command line, or each other."""
    values = {name: value for name, value in vars(arguments).items() if name not in OUTPUTS}
    lists = (value if isinstance(value, list) else [value] for value in values.values())
    require_other_files(outputs, (f for f in chain(*lists) if isinstance(f, str | Path)))


def positive(text: str) -> int:
    """Parse a command-line number of 1 or more."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, found {number}")
    return number


def load_picture(path: Path) -> Image.Image:
    """Read an RGB picture from a file; exit with a message if that fails."""
    try:
        return converted(load(path), "RGB")
    except OSError as error:
        raise SystemExit(f"cannot read the picture {path}: {reason_of(error)}") from error


def as_real(output: NDArray[Any], detail: dict[str, Any]) -> FloatArray:
    """The dequantized values of an output; `detail` is its entry in `get_output_details`."""
    return dequantize(output, detail["quantization"]).astype(np.float32)


def load_labels(model: Path, labels: Path | None, count: int) -> list[str]:
    """Class names from a file with one per line, or else from the model."""
    if labels is None:
        lines = list(read_metadata(load_model(model)).outputs[0].labels)
    else:
        lines = list(read_labels(labels))
    return [class_name(lines, index) for index in range(count)]
