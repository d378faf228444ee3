"""Name what is on a picture, on the GPU: the five likeliest classes of a classifier.

python examples/classify.py MODEL.tflite PICTURE.jpg --labels labels.txt
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from imaging import as_input, as_real, load_labels, load_picture, normalization

import gles_delegate as gd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="a .tflite classifier, [1, height, width, 3] in")
    parser.add_argument("picture", type=Path, help="any picture that Pillow reads")
    parser.add_argument("--labels", type=Path, help="names of the classes, one a line")
    parser.add_argument("--mean", type=float, help="subtracted from pixels of 0..255")
    parser.add_argument("--std", type=float, help="divides them afterwards")
    arguments = parser.parse_args()

    picture = load_picture(arguments.picture)
    try:
        mean, std = normalization(arguments.model, arguments.mean, arguments.std)
        with gd.Interpreter(model_path=arguments.model) as interpreter:
            interpreter.allocate_tensors()
            image, scores = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
            interpreter.set_tensor(image["index"], as_input(picture, image, mean, std))
            interpreter.invoke()
            result = as_real(interpreter.get_tensor(scores["index"]), scores).ravel()
    except gd.DelegateError as error:
        raise SystemExit(str(error)) from error

    labels = load_labels(arguments.model, arguments.labels, result.size)
    for index in np.argsort(result)[:-6:-1]:
        print(f"{result[index]:8.4f}  {labels[index]}")


if __name__ == "__main__":
    main()
