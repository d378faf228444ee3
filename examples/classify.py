"""Classify a picture on the GPU, and print the top five classes.

python examples/classify.py MODEL.tflite PICTURE.jpg --labels labels.txt
"""

from __future__ import annotations

import numpy as np
from imaging import (
    ending_in_a_sentence,
    image_parser,
    load_labels,
    load_picture,
    predict,
    require_classifier,
)


@ending_in_a_sentence()
def main() -> None:
    arguments = image_parser(__doc__.splitlines()[0]).parse_args()
    scores = predict(arguments, load_picture(arguments.picture), require_classifier).ravel()
    labels = load_labels(arguments.model, arguments.labels, scores.size)
    for index in np.argsort(scores)[:-6:-1]:
        print(f"{scores[index]:8.4f}  {labels[index]}")


if __name__ == "__main__":
    main()
