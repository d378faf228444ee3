"""A model's inputs and outputs in files."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from gles_delegate.cli import common
from gles_delegate.cli.common import wrong_usage
from gles_delegate.errors import reason_of
from gles_delegate.hosts.shapes import label as label
from gles_delegate.hosts.shapes import naming_new_shapes as naming_new_shapes
from gles_delegate.image.pictures import (
    PICTURES,
    FoundVideo,
    as_tensor,
    channels_last,
    converted,
    load,
    picture_mode,
)
from gles_delegate.image.transform import picture_transform
from gles_delegate.model.files import require_regular
from gles_delegate.model.graph import Array, Graph, Tensor
from gles_delegate.planning.outputs import read_metadata
from gles_delegate.runtime import standalone
from gles_delegate.runtime.standalone import dequantize

log = logging.getLogger("gles_delegate")


def load_inputs(
    graph: Graph,
    inputs: Iterable[str],
    mean: float | None,
    std: float | None,
    antialias: bool = True,
) -> dict[int, Array]:
    """An array for each input, from the arguments of ``--input``."""
    files = files_by_tensor(graph, graph.inputs, inputs, "input")
    missing = [graph.tensors[index] for index in graph.inputs if index not in files]
    if missing:
        names = "; ".join(map(label, missing))
        raise wrong_usage(f"give --input NAME=FILE for each input; missing: {names}")
    return {i: load_input(path, graph, i, mean, std, antialias) for i, path in files.items()}


def files_by_tensor(
    graph: Graph, tensors: Sequence[int], arguments: Iterable[str], kind: str
) -> dict[int, Path]:
    """Files by tensor index, from ``NAME=FILE``, ``INDEX=FILE`` or, for a sole tensor, ``FILE``."""
    names = {graph.tensors[i].name: i for i in tensors} | {str(i): i for i in tensors}
    files: dict[int, Path] = {}
    for argument in arguments:
        name = max((n for n in names if argument.startswith(f"{n}=")), key=len, default=None)
        if name is not None:
            index = names[name]
            file = argument[len(name) + 1 :]
        elif len(tensors) == 1 and ("=" not in argument or is_path(Path(argument))):
            index = tensors[0]
            file = argument
        else:
            unknown = f", which names no {kind}" if "=" in argument else ""
            described = "; ".join(label(graph.tensors[i]) for i in tensors)
            raise wrong_usage(
                f"expected --{kind} NAME=FILE, found {argument!r}{unknown}; the model's {kind}s "
                f"are {described}"
            )
        if index in files:
            raise wrong_usage(f"{kind} {index} is given twice: {files[index]} and {file}")
        files[index] = common.file_of(file)
    return files


def is_path(path: Path) -> bool:
    """Whether a name with a "=" is a file's, or could be a new file's."""
    return path.exists() or ("=" in str(path.parent) and path.parent.is_dir())


def load_input(
    path: Path,
    graph: Graph,
    index: int,
    mean: float | None,
    std: float | None,
    antialias: bool = True,
) -> Array:
    """An array from a file, checked against its input; see `load_inputs`."""
    tensor = graph.tensors[index]
    if path.suffix == ".npy":
        require_regular(path)
        with path.open("rb") as file:
            try:
                array: Array = np.lib.format.read_array(file, allow_pickle=False)
            except ValueError as error:
                raise ValueError(f"cannot read the array {path}: {error}") from error
        if array.dtype.name != tensor.dtype or array.ndim != len(tensor.shape):
            raise ValueError(
                f"expected an array for {label(tensor)}, found {array.dtype} "
                f"{list(array.shape)} in {path}"
            )
        return array.astype(tensor.dtype)  # in this machine's byte order
    metadata = read_metadata(graph).inputs[graph.inputs.index(index)]
    shape = channels_last(tensor.shape)
    if picture_mode(shape) is None:
        raise ValueError(
            f"a picture suits an input {PICTURES}; give {path} as .npy for {label(tensor)}"
        )
    transform = picture_transform(shape, tensor.dtype, metadata, mean, std)
    transform = replace(transform, antialias=antialias)
    with _naming_picture(path):
        picture = load(path)
        pixels = as_tensor(picture, standalone.describe(tensor, shape), transform)
    if transform.channels == "rgba" and not picture.has_transparency_data:
        log.warning("%s has no alpha: the fourth channel of %s gets 0", path, label(tensor))
    return pixels if shape == tensor.shape else np.moveaxis(pixels, 3, 1)


def read_picture(path: Path) -> Image.Image:
    """A picture in RGB, rotated according to its EXIF data."""
    with _naming_picture(path):
        return converted(load(path), "RGB")


@contextmanager
def _naming_picture(path: Path) -> Iterator[None]:
    """Raise errors of a picture as ValueErrors that name it."""
    try:
        yield
    except OSError as error:
        reason = reason_of(error)
        if isinstance(error, FoundVideo):
            reason += f": `gles-delegate watch MODEL --video {path}` reads it"
        raise ValueError(f"cannot read the picture {path}: {reason}") from error


def real_values(array: Array, tensor: Tensor) -> Array:
    return dequantize(array, standalone.describe(tensor, array.shape)["quantization"])


def save_output(path: Path, array: Array, tensor: Tensor) -> None:
    """Write an output as an array, or as a picture of its bytes, or of its numbers of 0 to 1."""
    if path.suffix == ".npy":
        np.save(path, array)
        return
    mode = picture_mode(array.shape)
    is_real = array.dtype.kind in "fb" or tensor.is_quantized
    if mode is None or not (array.dtype == np.uint8 or is_real):
        raise ValueError(
            f"cannot make the picture {path} of {label(tensor)}: expected {PICTURES} of "
            "bytes, or of numbers of 0 to 1; write a .npy file instead"
        )
    if array.dtype != np.uint8:
        real = real_values(array, tensor).astype(np.float32)
        array = (np.nan_to_num(real).clip(0, 1) * 255).round().astype(np.uint8)
    height, width = array.shape[1:3]
    sizes = (height, width) if mode == "L" else (height, width, len(mode))
    save_picture(Image.fromarray(array.reshape(sizes)), path)


def save_picture(picture: Image.Image, path: Path) -> None:
    """Write a picture; raises ValueError if its format is unknown or does not suit."""
    try:
        picture.save(path)
    except ValueError as error:
        raise ValueError(
            f"cannot write the picture {path}: {error}; expected the suffix of a picture, such as "
            ".png, or .npy for an array"
        ) from error
