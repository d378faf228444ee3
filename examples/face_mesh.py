"""Find faces on a picture, and 468 points on each, by two networks one after the other.

python examples/face_mesh.py DETECTOR.tflite LANDMARKS.tflite PICTURE.jpg --output mesh.png

The networks are MediaPipe's face_detection_front or _short_range, and face_landmark.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from imaging import ending_in_a_sentence, load_picture, save_picture
from PIL import ImageDraw

import gles_delegate as gd
from gles_delegate.vision import (
    FACE_DETECTOR,
    Detection,
    detect,
    landmarks_in_picture,
    region_of_detection,
)

RIGHT_EYE, LEFT_EYE = 0, 1
"""Key points of the detector."""
AROUND = 1.5
"""How much of its surroundings the second network saw of a face when it was trained."""
PRESENT = 0.5


def faces(interpreter: gd.Interpreter, pixels: np.ndarray) -> list[Detection]:
    """The faces on a picture, as shares of it."""
    (image,) = interpreter.get_input_details()
    size = FACE_DETECTOR.anchors.size
    interpreter.set_tensor(image["index"], FACE_DETECTOR.transform.apply(pixels, size))
    interpreter.invoke()
    outputs = [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
    boxes, scores = sorted(outputs, key=lambda array: -array.shape[-1])
    found = detect(boxes, scores, FACE_DETECTOR)
    return [d.to_picture(FACE_DETECTOR.transform, pixels.shape[:2], size) for d in found]


def mesh(interpreter: gd.Interpreter, pixels: np.ndarray, face: Detection) -> np.ndarray | None:
    """The points of a face [468, 3], in pixels of the picture; None if there is no face."""
    (image,) = interpreter.get_input_details()
    size = tuple(image["shape"][1:3].tolist())
    region = region_of_detection(face, pixels.shape[:2], points=(RIGHT_EYE, LEFT_EYE)).grown(AROUND)
    transform = replace(region.transform, antialias=True)
    interpreter.set_tensor(image["index"], transform.apply(pixels, size))
    interpreter.invoke()
    outputs = [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
    present, points = sorted(outputs, key=lambda array: array.size)
    if 1 / (1 + np.exp(-present.ravel()[0])) < PRESENT:
        return None
    return landmarks_in_picture(points.reshape(-1, 3), transform, pixels.shape[:2], size)


def require(interpreter: gd.Interpreter, sizes: list[int], what: str) -> None:
    """Exit with a sentence unless the outputs have so many elements."""
    details: list[dict[str, Any]] = interpreter.get_output_details()
    found = sorted(int(np.prod(d["shape"])) for d in details)
    if found != sizes:
        raise SystemExit(f"expected {what}, with outputs of {sizes} numbers, found {found}")


@ending_in_a_sentence()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("detector", "landmarks", "picture"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--output", type=Path, default=Path("mesh.png"))
    arguments = parser.parse_args()
    picture = load_picture(arguments.picture)
    pixels = np.asarray(picture)
    with (
        gd.Interpreter(model_path=arguments.detector) as detector,
        gd.Interpreter(model_path=arguments.landmarks) as landmarks,
    ):
        require(detector, [896, 896 * 16], "a detector of faces")
        require(landmarks, [1, 468 * 3], "a network of 468 points")
        detector.allocate_tensors()
        landmarks.allocate_tensors()
        draw, drawn = ImageDraw.Draw(picture), 0
        for face in faces(detector, pixels):
            points = mesh(landmarks, pixels, face)
            if points is not None:
                radius = max(1, np.ptp(points[:, 0]) / 150)
                for x, y, _ in points:
                    draw.ellipse((x - radius, y - radius, x + radius, y + radius), "#40ff80")
                drawn += 1
    save_picture(picture, arguments.output)
    print(f"{drawn} faces, drawn into {arguments.output}")


if __name__ == "__main__":
    main()
