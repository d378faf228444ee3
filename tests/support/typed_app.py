"""A user's program, which mypy --strict accepts with the package that is installed."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gles_apps.tasks as mp
import gles_delegate as gd
from gles_apps.batch import TaskPredictor
from gles_apps.live import App, Canvas, Frame, Picture, ShowOptions, show
from gles_apps.tasks import vision as tasks
from gles_apps.vision import Detection, Detector, find_detector, read_detections

Image = NDArray[np.uint8]


def scores(model: Path, pixels: Image) -> dict[str, NDArray[Any]]:
    options = gd.GpuDelegateOptions(precision_loss_allowed=True, serialization_dir="cache")
    with gd.GpuDelegate(options) as delegate:
        interpreter = gd.Interpreter(model, experimental_delegates=[delegate])
        index: int = interpreter.get_input_details()[0]["index"]
        transform = gd.ImageTransform.for_input(interpreter, index)
        interpreter.allocate_tensors()
        interpreter.set_tensor(index, transform.apply(pixels, (64, 64)))
        interpreter.invoke()
        return {
            d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()
        }


def boxes(model: Path, outputs: list[NDArray[np.float32]]) -> list[Detection]:
    with gd.Interpreter(model) as interpreter:
        (image,), shapes = interpreter.get_input_details(), [array.shape for array in outputs]
        detector = find_detector(image["shape"], shapes, interpreter.metadata.outputs)
    return read_detections(outputs, detector) if isinstance(detector, Detector) else []


def faces(bundle: str, picture: str) -> list[float | None]:
    options = tasks.FaceLandmarkerOptions(mp.BaseOptions(model_asset_path=bundle), num_faces=2)
    with tasks.FaceLandmarker.create_from_options(options) as landmarker:
        result = landmarker.detect(mp.Image.create_from_file(picture))
    return [face[1].x for face in result.face_landmarks]


def draw(model: Path, picture: Path, output: Path) -> dict[str, float]:
    def make(app: App) -> Any:
        network = app.network(model)

        def see(frame: Frame, canvas: Canvas) -> None:
            canvas.drawing.text((20, 20), f"{len(network(frame))} outputs")

        return see

    app = show(make, Picture(picture), ShowOptions(headless=True, output=output))
    return app.timings.milliseconds


def labels(model: Path, pictures: list[Path]) -> list[str]:
    predictor = TaskPredictor(model, tasks.TaskSettings(top=1))
    results = predictor({"image": [path.read_bytes() for path in pictures]})
    predictor.close()
    return [str(rows[0]["label"]) for rows in results["results"]]
