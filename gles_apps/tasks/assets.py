"""Models of tasks: .tflite files, .task bundles, and their bytes.

Messages start with MediaPipe's, for programs that look for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from pathlib import Path

from gles_apps.tasks.options import BaseOptions
from gles_delegate import ModelError
from gles_delegate.extension import (
    LITERT_TEXT,
    Content,
    ModelFile,
    files_in,
    naming_file,
    read_content,
)

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
    """The files of a task.

    Attributes:
        files: Functions that read the bundle's files, by name; empty for a single model.
    """

    def __init__(self, options: BaseOptions) -> None:
        path, content = options.model_asset_path, options.model_asset_buffer
        self._path: Path | None = None
        self._content: Content | None = None
        self._model: ModelFile | None = None
        self._inner: dict[str, Mapping[str, Callable[[], Content]]] = {}
        self.files: Mapping[str, Callable[[], Content]] = {}
        if isinstance(path, Mapping):
            self.files = {name: _reader(Path(file)) for name, file in path.items()}
        elif path is None and content is None:
            raise ValueError(
                "ExternalFile must specify at least one of 'file_content', 'file_name', "
                "'file_pointer_meta' or 'file_descriptor_meta'."
                " Give BaseOptions model_asset_path or model_asset_buffer"
            )
        elif content is not None:
            self._content = bytes(content)
        else:
            assert path is not None
            self._path = Path(path)
            self._content = _reader(self._path)()
        if self._content is not None:
            with nullcontext() if self._path is None else naming_file(self._path):
                self.files = files_in(self._content)

    def model(self) -> ModelFile:
        """The single model.

        Raises:
            ModelError: It is not a .tflite model (also a ValueError).
        """
        if self._content is None:
            raise ValueError("expected one model, found the files of a bundle")
        if self._model is None:
            is_file = self._path is not None and self._path.is_file()
            path = self._path.absolute() if self._path is not None and is_file else None
            self._model = _checked(ModelFile(self._content, path))
        return self._model

    def member(self, name: str) -> ModelFile:
        """A model of the bundle; raises what `read` and `model` raise."""
        return _checked(ModelFile(self.read(name)))

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
        outer, _, inner = name.partition("/")
        if inner and name not in self.files:
            if outer not in self._inner:
                self._inner[outer] = files_in(self.read(outer))
            return _file(self._inner[outer], inner)
        if not self.files:
            self.model()  # its error says what other files are
        return _file(self.files, name)


def task_of(files: Collection[str]) -> str | None:
    """The task on faces, hands or bodies that a bundle of these files is for, if any."""
    return next((task for file, task in KINDS.items() if file in files), None)


def _file(files: Mapping[str, Callable[[], Content]], name: str) -> Content:
    if name not in files:
        task = task_of(files)
        advice = f" It is a bundle for {task}." if task else ""
        if not files:
            advice = " It is a single model; expected a bundle (.task)."
        raise MissingFileError(
            f"No file with name: {name}. All files in the model asset bundle are: "
            f"{', '.join(sorted(files))}.{advice}"
        )
    return files[name]()


def _reader(path: Path) -> Callable[[], Content]:
    def read() -> Content:
        try:
            return read_content(path)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"Unable to open file at {path}: no such file") from error

    return read


def _checked(model: ModelFile) -> ModelFile:
    try:
        model.graph()
    except ModelError as error:
        reason = str(error).removesuffix(f" ({LITERT_TEXT})")
        raise ModelError(f"{LITERT_TEXT}: {reason}") from error
    return model
