"""Classify a picture on the GPU in LiteRT's own interpreter.

python examples/litert_classify.py MODEL.tflite PICTURE.jpg --labels labels.txt [--cpu]
"""

from __future__ import annotations

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from imaging import (
    ending_in_a_sentence,
    image_parser,
    load_labels,
    load_picture,
    require_classifier,
    show,
)

import gles_delegate as gd
from gles_delegate.model.reader import load_model


@ending_in_a_sentence()
def main() -> None:
    parser = image_parser(__doc__.splitlines()[0])
    parser.add_argument("--cpu", action="store_true", help="run without the delegate")
    arguments = parser.parse_args()
    picture = load_picture(arguments.picture)
    load_model(arguments.model)  # LiteRT's own error for an unreadable file is cryptic
    try:
        delegates = [] if arguments.cpu else [gd.GpuDelegate(model=arguments.model)]
        interpreter = Interpreter(str(arguments.model), experimental_delegates=delegates)
        interpreter.allocate_tensors()
    except (gd.DelegateError, ValueError) as error:
        raise SystemExit(str(error)) from error
    scores = show(arguments, interpreter, picture, require_classifier).ravel()
    labels = load_labels(arguments.model, arguments.labels, scores.size)
    for index in np.argsort(scores)[:-6:-1]:
        print(f"{scores[index]:8.4f}  {labels[index]}")
    for delegate in delegates:
        print(str(delegate.report).splitlines()[-1])


if __name__ == "__main__":
    main()
