"""Running a task on the pictures of batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gles_apps.batch.files import Masks
from gles_apps.batch.predictor import Batch, ModelSource, assets_from, cached, picture_of
from gles_apps.tasks.image import Image, ImageFormat
from gles_apps.tasks.options import BaseOptions
from gles_apps.tasks.vision.image_segmenter import ImageSegmenterResult
from gles_apps.tasks.vision.opening import TaskSettings, open_task
from gles_delegate import EglContext, GpuDelegateOptions
from gles_delegate.image.pictures import converted as converted_picture
from gles_delegate.model.graph import Array
from gles_delegate.support.closing import on_error


class TaskPredictor:
    """Runs the task of a model on batches of pictures.

    A batch has pictures in the column "image", or in its only column: uint8 [height, width] or
    [height, width, 1, 3 or 4], or picture files as bytes. Other columns are returned unchanged,
    with a column "results": for each picture, a list of dicts, one for each class, object, person
    or area; see `tasks.vision.open_task`.

    Args:
        model: The path of a network or of a landmarker's bundle, or its bytes.
        settings: The task and its options; None: the usual.
        mean: See `tasks.BaseOptions`.
        std: Likewise.
        antialias: Likewise; on by default.
        options: See `GpuDelegateOptions`. Without a `serialization_dir`, programs are kept in a
            folder for temporary files.

    Attributes:
        inputs: The type of the column "image".
        outputs: The type of the column "results".
        masks: Where segmenters' masks of picture files are written; None: nowhere.

    Raises:
        ModelError: The model cannot be read.
        ContextError: There is no usable OpenGL ES context.
        ValueError: No task can run this model, or these settings do not apply to it.

    Examples:
        >>> pictures = [np.zeros((200, 320, 3), np.uint8)] * 2
        >>> settings = mp.tasks.vision.TaskSettings(top=5)
        >>> predictor = batch.TaskPredictor("model.tflite", settings)
        >>> results = predictor({"image": pictures, "path": ["a.jpg", "b.jpg"]})
        >>> predictor.close()
        >>> sorted(results), [len(rows) for rows in results["results"]]
        (['path', 'results'], [5, 5])
    """

    def __init__(
        self,
        model: ModelSource,
        settings: TaskSettings | None = None,
        *,
        mean: float | None = None,
        std: float | None = None,
        antialias: bool = True,
        options: GpuDelegateOptions | None = None,
    ) -> None:
        self.masks: Masks | None = None
        options = cached(options)
        device = options.device_index
        self._context = None if device is None else EglContext(device_index=device)
        row = np.array([1])
        self.inputs: dict[str, dict[str, Any]] = {"image": {"dtype": np.uint8, "shape": row}}
        self.outputs: dict[str, dict[str, Any]] = {"results": {"dtype": np.object_, "shape": row}}
        with on_error(self._release):
            base = BaseOptions(
                delegate=BaseOptions.Delegate.GPU,
                context=self._context,
                gpu_options=options,
                antialias=antialias,
                mean=mean,
                std=std,
                assets=assets_from(model),
            )
            self._task = open_task(base, settings)

    def __call__(self, batch: Mapping[str, Any]) -> Batch:
        """Add the results to a batch.

        Raises:
            ValueError: There is no column of pictures.
        """
        column = _column_of_pictures(batch)
        kept = {name: np.asarray(each) for name, each in batch.items() if name != column}
        return kept | self.compute(self.prepare(batch))

    def prepare(self, batch: Mapping[str, Any]) -> Batch:
        """The pictures of a batch, decoded.

        Raises:
            ValueError: There is no column of pictures, or a row is not a picture.
        """
        images = [
            Image(ImageFormat.SRGB, np.asarray(converted_picture(picture_of(row), "RGB")))
            for row in batch[_column_of_pictures(batch)]
        ]
        return {"image": _objects(images)}

    def compute(self, feeds: Mapping[str, Array]) -> Batch:
        """The results for pictures from `prepare`."""
        return {"results": _objects([self.look(image)[0] for image in feeds["image"].tolist()])}

    def look(self, image: Image) -> tuple[list[dict[str, Any]], Array | None]:
        """The rows for a picture, and a segmenter's mask of class numbers, uint8
        [height, width].
        """
        result = self._task.process(image)
        mask = None
        if isinstance(result, ImageSegmenterResult) and result.category_mask is not None:
            mask = result.category_mask.numpy_view()[..., 0]
        return result.rows(image.size), mask

    def row_shape(self, name: str) -> tuple[int, ...]:
        """The shape of a row of `compute`: a single object."""
        return ()

    def check(self) -> None:
        """Raise ContextLostError if the context is lost."""
        self._task.check()

    def close(self) -> None:
        """Free GPU resources; the end of an actor does so, too."""
        try:
            self._task.close()
        finally:
            self._release()

    def _release(self) -> None:
        if self._context is not None:
            self._context.release()


def _column_of_pictures(batch: Mapping[str, Any]) -> str:
    """The column "image", or the only one; raises ValueError if there is none."""
    column = "image" if "image" in batch else next(iter(batch), "")
    if column not in batch or (column != "image" and len(batch) > 1):
        raise ValueError(f"expected a column 'image', found {sorted(batch)}")
    return column


def _objects(things: list[Any]) -> Array:
    """An array [n] of any objects."""
    array = np.empty(len(things), object)
    array[:] = things
    return array
