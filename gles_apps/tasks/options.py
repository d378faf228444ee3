"""Options that tasks share."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, wraps
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from gles_apps.tasks.assets import Assets, ModelPath
from gles_apps.tasks.components.containers import RectF
from gles_delegate import GpuDelegateOptions

T = TypeVar("T")


class Delegate(enum.IntEnum):
    """Where a task runs.

    DEFAULT is the GPU, or LiteRT's CPU kernels with a warning if there is no usable context.
    """

    DEFAULT = 0
    CPU = 1
    GPU = 2


@dataclass
class BaseOptions:
    """A task's model, and where it runs.

    Attributes:
        model_asset_path: A .tflite file or a .task bundle, or a path into a bundle. Or the files of
            a bundle's members, by their names, such as "face_detector.tflite".
        model_asset_buffer: Its bytes, instead of a file.
        delegate: See `Delegate`; None is DEFAULT.
        context: None: the tasks' own context and thread, which any thread may call. An
            `EglContext`, such as one that shares with the app's: the tasks' thread uses it, and it
            must not be current anywhere else. A `moderngl.Context` or "current": the app's own;
            the task is created and called where it is current, and does not support live streams.
        gpu_options: Options of the networks' delegates; `own_thread` does not matter.
        antialias: Average over the area of each pixel that a network sees, as `ImageTransform`
            does by default. False: sample as MediaPipe does; see ``ImageTransform.opencv``.
        mean: A classifier, a detector or a segmenter gets (color - mean) / std, for colors from 0
            to 255. None: the model's metadata decides. Not MediaPipe's.
        std: See `mean`.
        requires_normalization: Refuse such networks of floats without a mean in their metadata, as
            MediaPipe does. False: they get colors from 0 to 1. Not MediaPipe's.
        progress: ``progress(file, compiled, total)`` is called as a network's programs compile.
        assets: The model's files, which have been read, instead of a path or bytes. Not
            MediaPipe's.

    Examples:
        >>> base = mp.BaseOptions(model_asset_path="hand_landmarker.task", antialias=True)
        >>> options = mp.tasks.vision.HandLandmarkerOptions(base_options=base, num_hands=2)
        >>> with mp.tasks.vision.HandLandmarker.create_from_options(options) as landmarker:
        ...     hands = landmarker.detect(picture).hand_landmarks
    """

    model_asset_path: ModelPath | None = None
    model_asset_buffer: bytes | None = None
    delegate: Delegate | None = None
    context: Any = None
    gpu_options: GpuDelegateOptions | None = None
    antialias: bool = False
    mean: float | None = None
    std: float | None = None
    requires_normalization: bool = True
    progress: Callable[[str, int, int], None] | None = None
    assets: Assets | None = field(default=None, repr=False)

    Delegate: ClassVar[type[Delegate]] = Delegate

    def read_assets(self) -> Assets:
        """The model's files, which are read unless they have been; `Assets` has the errors."""
        return self.assets or Assets(self.model_asset_path, self.model_asset_buffer)


def also_named(**older: str) -> Callable[[type[T]], type[T]]:
    """Let a dataclass of options take and show fields by older names, by keyword.

    None stands for the default, and both names for one field raise ValueError, as in MediaPipe.
    """

    def decorate(options: type[T]) -> type[T]:
        create: Any = options.__init__

        @wraps(create)
        def init(self: T, *arguments: Any, **named: Any) -> None:
            known = {*older, *older.values()}
            given = {k: v for k, v in named.items() if v is not None or k not in known}
            for old in older.keys() & given.keys():
                if older[old] in given:
                    raise ValueError(f"Specify either `{older[old]}` or `{old}`, not both.")
                given[older[old]] = given.pop(old)
            create(self, *arguments, **given)

        options.__init__ = init  # type: ignore[method-assign, assignment]
        for old, new in older.items():
            put = partial(lambda new, self, value: setattr(self, new, value), new)
            setattr(options, old, property(attrgetter(new), put))
        return options

    return decorate


class VisionTaskRunningMode(enum.Enum):
    """Single pictures, frames of a video, or a live stream."""

    IMAGE = "IMAGE"
    VIDEO = "VIDEO"
    LIVE_STREAM = "LIVE_STREAM"


@dataclass
class VisionTaskOptions:
    """Options of every task on pictures in one of the running modes.

    Attributes:
        base_options: The model, or the bundle.
        running_mode: Single pictures, a video or a live stream.
    """

    base_options: BaseOptions
    running_mode: VisionTaskRunningMode = VisionTaskRunningMode.IMAGE


def validate_running_mode(
    running_mode: VisionTaskRunningMode, packet_callback: Callable[..., object] | None = None
) -> None:
    """Raise ValueError unless there is a callback in a live stream, and only there."""
    is_stream = running_mode == VisionTaskRunningMode.LIVE_STREAM
    if is_stream and packet_callback is None:
        raise ValueError(
            "The vision task is in live stream mode, a user-defined result callback must be "
            "provided."
        )
    if not is_stream and packet_callback is not None:
        raise ValueError(
            "The vision task is in image or video mode, a user-defined result callback should "
            "not be provided."
        )


@dataclass
class ImageProcessingOptions:
    """The part of a picture that a task sees.

    Attributes:
        region_of_interest: In shares of the picture; None: the whole picture. Only classifiers,
            embedders and segmenters take one.
        rotation_degrees: How far to turn the region clockwise, a multiple of 90.

    Examples:
        >>> upright = mp.tasks.vision.ImageProcessingOptions(rotation_degrees=90)
        >>> path = "model.tflite"
        >>> with mp.tasks.vision.ImageClassifier.create_from_model_path(path) as classifier:
        ...     result = classifier.classify(picture, upright)
    """

    region_of_interest: RectF | None = None
    rotation_degrees: int = 0
