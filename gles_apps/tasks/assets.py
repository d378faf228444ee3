"""Models of tasks: .tflite files, .task bundles, and their bytes.

Messages start with MediaPipe's, for programs that look for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

from gles_delegate import ModelError
from gles_delegate.model.bundle import files_in, model_of
from gles_delegate.model.files import LITERT_NOTE
from gles_delegate.model.flatbuffer import Content
from gles_delegate.model.reader import ModelFile, find_file, naming_file

ModelPath: TypeAlias = "str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]]"
"""A .tflite file, a .task bundle, a path into a bundle, or the files of a bundle by their names."""

KINDS = {
    "hand_gesture_recognizer.task": "GestureRecognizer",
    "hand_roi_refinement.tflite": "HolisticLandmarker",
    "face_landmarks_detector.tflite": "FaceLandmarker",
    "hand_landmarks_detector.tflite": "HandLandmarker",
    "pose_landmarks_detector.tflite": "PoseLandmarker",
}
"""Tasks by a file of their bundle, in the order to look for them."""


class MissingFileError(ModelError, FileNotFoundError):
    """A bundle lacks a file that the task needs, or a model lacks metadata."""


class Assets:
    """The files of a task's model, each read and parsed at most once.

    Args:
        path: See `ModelPath`.
        content: The bytes of a model or of a bundle, instead of its file.

    Attributes:
        path: The file, if there is one.
        content: Its bytes, or the bytes of the file in a bundle to which the path leads.
        files: Functions that read the bundle's files, by name; empty for a single model.

    Raises:
        OSError: The file cannot be read; FileNotFoundError if there is none, also in a bundle.
        ModelError: A bundle is damaged (also a ValueError).
        ValueError: There is neither a path nor content.
    """

    def __init__(self, path: ModelPath | None = None, content: bytes | None = None) -> None:
        self.path: Path | None = None
        self.content: Content | None = None
        self._file: Path | None = None
        self._models: dict[str, ModelFile] = {}
        self.files: Mapping[str, Callable[[], Content]] = {}
        if isinstance(path, Mapping):
            self.files = {name: _reader(Path(file)) for name, file in path.items()}
        elif content is not None:
            self.content = bytes(content)
            self.files = _files(self.content)
        elif path is not None:
            self.path = Path(path)
            self.content, self._file = _find(self.path)
            with naming_file(self.path):
                self.files = _files(self.content)
        else:
            raise ValueError(
                "ExternalFile must specify at least one of 'file_content', 'file_name', "
                "'file_pointer_meta' or 'file_descriptor_meta'."
                " Give BaseOptions model_asset_path or model_asset_buffer"
            )

    @property
    def contents(self) -> list[Content]:
        """The bytes on which results depend: of the file, and of a model's external weights."""
        assert self.content is not None
        return [self.content, *(() if self.files else self.model().graph().weights)]

    def model(self) -> ModelFile:
        """The single model, also of a bundle.

        Raises:
            ModelError: It is not a .tflite model (also a ValueError).
        """
        if self.content is None:
            raise ValueError("expected one model, found the files of a bundle")
        if "" not in self._models:
            content = model_of(self.content, None)
            file = None if self.files else self._file
            self._models[""] = _checked(ModelFile(content, file))
        return self._models[""]

    def member(self, name: str) -> ModelFile:
        """A model of the bundle; raises what `read` and `model` raise."""
        if name not in self._models:
            self._models[name] = _checked(ModelFile(self.read(name)))
        return self._models[name]

    def has(self, name: str) -> bool:
        """Whether there is a file; see `read`."""
        try:
            self.read(name)
        except MissingFileError:
            return False
        return True

    def read(self, name: str) -> Content:
        """A file of the bundle, or of a bundle in it: "hand_landmarker.task/hand_detector.tflite".

        Raises:
            MissingFileError: There is none (also a FileNotFoundError).
            ModelError: It is neither a bundle nor a model.
        """
        if not self.files:
            self.model()  # its error says what other files are
        return _file(self.files, name)


def bundle_task(files: Collection[str]) -> str | None:
    """The task on faces, hands or bodies that a bundle of these files is for, if any."""
    return next((task for file, task in KINDS.items() if file in files), None)


def _file(files: Mapping[str, Callable[[], Content]], name: str) -> Content:
    outer, _, inner = name.partition("/")
    if inner and outer in files and name not in files:
        return _file(files_in(files[outer]()), inner)
    if name not in files:
        task = bundle_task(files)
        advice = f" It is a bundle for {task}." if task else ""
        if not files:
            advice = " It is a single model; expected a bundle (.task)."
        raise MissingFileError(
            f"No file with name: {name}. All files in the model asset bundle are: "
            f"{', '.join(sorted(files))}.{advice}"
        )
    return files[name]()


def _find(path: Path) -> tuple[Content, Path | None]:
    """The bytes of a file, or of one in a bundle, and its path if it is not."""
    try:
        content, file, within = find_file(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"Unable to open file at {path}: no such file") from error
    return (content, file) if within is None else (_file(files_in(content), within), None)


def _reader(path: Path) -> Callable[[], Content]:
    return cache(lambda: _find(path)[0])


def _files(content: Content) -> Mapping[str, Callable[[], Content]]:
    return {name: cache(read) for name, read in files_in(content).items()}


def _checked(model: ModelFile) -> ModelFile:
    try:
        model.graph()
    except ModelError as error:
        reason = str(error).removesuffix(LITERT_NOTE)
        raise ModelError(f"{reason}{LITERT_NOTE}") from error
    return model
