"""Files that are given as models: regular files, and files of other formats with advice."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Any

from gles_delegate.errors import ModelError
from gles_delegate.model.schema import FILE_IDENTIFIER

_ONNX = "an ONNX model: export it to .tflite from where it was made, or convert it with onnx2tf"
_TORCH = (
    "a PyTorch file: convert the model to .tflite with litert-torch, or one of Ultralytics with "
    "`yolo export model=FILE format=tflite`"
)
_KERAS = "a Keras model: convert it with tf.lite.TFLiteConverter.from_keras_model"
_SAVED = "a SavedModel of TensorFlow: convert it with tf.lite.TFLiteConverter.from_saved_model"
VIDEO = (
    rb".{4}ftyp(?!hei|mif)|\x1aE\xdf\xa3|RIFF.{4}AVI |\0\0\x01\xba|G.{3}[\x10-\x3f]|FLV\x01|OggS"
)
"""The first bytes of videos: MP4 and MOV, Matroska and WebM, AVI, MPEG, FLV, Ogg."""
_KINDS = (
    (rb"[\t\n\r -~]{8,}\Z", "a text: give the file that ends in .tflite"),
    (rb"version https://git-lfs", "a Git LFS pointer: get the file itself with `git lfs pull`"),
    (
        rb"(\xef\xbb\xbf)?\s*(<!--.*?-->\s*)?<(!doctype html|html|head|body)\b",
        "a web page: download the file itself, from the address of its raw content",
    ),
    (rb"\x89HDF\r\n", _KERAS),
    (rb"\x80\x02\x8a\x0al\xfc\x9cF\xf9", _TORCH),
    (rb".{4}\0{4}\{\"", "weights of PyTorch without a model (safetensors): convert the model that "
     "has them to .tflite with litert-torch"),
    (rb"\x08\x01\x12", _SAVED),
    (rb"\x08[\x02-\x40][\x12\x1a\x22\x28\x32\x3a\x42]|.{4}ORTM", _ONNX),
    (rb"\0*PK\x03\x04", "a zip file: a bundle of models (.task) is for the task that it names"),
    (rb"\xff\xd8\xff|\x89PNG|GIF8|BM|RIFF.{4}WEBP", "a picture: the model comes first"),
    (VIDEO, "a video: the model comes first"),
    (rb"\x1f\x8b", "a compressed file: unpack it with gunzip or tar"),
)  # fmt: skip
"""Patterns of the first bytes, and what the file is; the last that matches counts."""


def require_regular(path: str | os.PathLike[str]) -> None:
    """Raise OSError unless a file is regular: opening a pipe or reading a device may not end.

    A pipe that is open already, such as a shell's ``<(...)``, is in no folder, and is accepted.
    """
    mode, name = os.stat(path).st_mode, os.fspath(path)
    is_open = stat.S_ISFIFO(mode) and not os.path.exists(os.path.realpath(name))
    if not stat.S_ISREG(mode) and not is_open:
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        reason = "it is not a regular file, but a pipe or a device: copy its content into a file"
        raise OSError(errno.EINVAL, reason, name)


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file; raises OSError as `require_regular`."""
    require_regular(path)
    return Path(path).read_bytes()


def advice_on_folder(folder: Path) -> str:
    """Reason and advice for a folder that is given as a model."""
    if (folder / "saved_model.pb").exists():
        return f"expected a .tflite model, found {_SAVED}"
    models = sorted(file.name for file in folder.glob("*.tflite"))
    found = f"with {', '.join(models[:3])}" if models else "without one"
    return f"expected a .tflite model, found a folder {found}: give the path of a file"


def advice_on_suffix(name: str) -> str:
    """The end of a message on a file that is not there, if models in it do not run."""
    kinds = {".onnx": _ONNX, ".ort": _ONNX, ".pt": _TORCH, ".pth": _TORCH, ".keras": _KERAS}
    kind = kinds.get(os.path.splitext(name)[1].lower())
    return "" if kind is None else f"; it would be {kind}"


LITERT_NOTE = " (The model is not a valid Flatbuffer buffer)"
"""LiteRT's and MediaPipe's message, for which programs look; commands leave it out."""


def wrong_format(content: Any) -> ModelError:
    """The error for bytes that are neither a model nor a zip file."""
    start = bytes(content[:1024])
    identifier = start[4:8] if len(start) >= 8 else start
    found = (
        f"a file with {identifier!r} at byte 4, where a model has {FILE_IDENTIFIER!r}: download "
        "or export it again"
    )
    if not start:
        found = "an empty file: download or copy it again"
    for pattern, kind in _KINDS:
        if re.match(pattern, start, re.DOTALL | re.IGNORECASE):
            found = kind
    return _no_model(found)


def _no_model(found: str) -> ModelError:
    return ModelError(f"expected a .tflite model, found {found}{LITERT_NOTE}")


def require_bundle(names: Collection[str]) -> None:
    """Raise ModelError if the files of a zip file show that it has another kind of model."""
    kind = None
    if any(f"/{name}".endswith("/data.pkl") for name in names):
        kind = _TORCH
    elif "model.weights.h5" in names:
        kind = _KERAS
    elif any(f"/{name}".endswith("/saved_model.pb") for name in names):
        kind = _SAVED
    if kind is not None:
        raise _no_model(kind)
