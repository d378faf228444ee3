"""Show what is where on a picture, on the GPU: the mask of a segmentation network over it.

python examples/segment.py MODEL.tflite PICTURE.jpg --labels labels.txt --output mask.png
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from imaging import (
    FloatArray,
    ending_in_a_sentence,
    image_parser,
    load_labels,
    load_picture,
    predict,
    require_segmenter,
    save_picture,
)
from numpy.typing import NDArray
from PIL import Image


def classes_of(scores: FloatArray) -> NDArray[np.intp]:
    """Classes of pixels from scores [height, width, classes]; a single score splits at 0.5."""
    return scores.argmax(-1) if scores.shape[-1] > 1 else (scores[..., 0] > 0.5).astype(np.intp)


def palette(count: int) -> NDArray[np.uint8]:
    """Distinct colours [count, 3]: hues a golden section apart."""
    hues = np.arange(count) * 255 * 0.618034 % 255
    hsv = np.stack([hues, np.full(count, 230), np.full(count, 255)], -1).astype(np.uint8)
    return np.asarray(Image.fromarray(hsv[np.newaxis], "HSV").convert("RGB"))[0]


def overlay(picture: Image.Image, classes: NDArray[np.intp], count: int) -> Image.Image:
    """The picture with the colour of its class laid over every pixel but the background's."""
    result = picture
    for index, colour in enumerate(palette(count)):
        if index and (classes == index).any():
            here = Image.fromarray((classes == index).astype(np.uint8) * 255)
            mask = here.resize(picture.size, Image.Resampling.BICUBIC)
            tinted = Image.blend(picture, Image.new("RGB", picture.size, tuple(colour)), 0.55)
            result = Image.composite(tinted, result, mask)
    return result


@ending_in_a_sentence()
def main() -> None:
    parser = image_parser(__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("segmented.png"))
    arguments = parser.parse_args()

    picture = load_picture(arguments.picture)
    scores = predict(arguments, picture, require_segmenter)

    classes = classes_of(scores[0])
    labels = load_labels(arguments.model, arguments.labels, scores.shape[-1])
    if len(labels) == 1:
        labels = ["background", *labels]
    count = len(labels)
    for index, pixels in enumerate(np.bincount(classes.ravel(), minlength=count)):
        if pixels:
            print(f"{pixels / classes.size:7.1%}  {labels[index]}")
    save_picture(overlay(picture, classes, count), arguments.output)
    print(f"mask over the picture: {arguments.output}")


if __name__ == "__main__":
    main()
