"""Results of MediaPipe's tasks for pictures and videos, as JSON; and these videos' frames."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gles_apps.tasks as mp
from tests.conftest import MODELS, PICTURES, folder

Pixels = NDArray[np.uint8]
FOLDER = folder("GLES_DELEGATE_MEDIAPIPE")
FRAMES, STEP_MS, SIZE = 30, 33, (480, 360)


@dataclass(frozen=True)
class Oracle:
    """The results of MediaPipe 1.2.2 on its CPU, and what it was given."""

    folder: Path = FOLDER

    def results(self, name: str) -> Any:
        return json.loads((self.folder / "oracle-1.2.2" / f"{name}.json").read_text("utf-8"))

    def model(self, name: str) -> Path:
        """A bundle, or a published model that MediaPipe was given as it is."""
        own = self.folder / "bundles" / name
        return own if own.is_file() else MODELS / name

    def pixels(self, name: str) -> Pixels:
        """RGB of a picture."""
        from PIL import Image as Pictures

        path = PICTURES / name
        path = path if path.is_file() else self.folder / "hands" / name
        return np.asarray(Pictures.open(path).convert("RGB"))

    def pictures(self, name: str) -> Iterator[tuple[str, mp.Image, Any]]:
        """The name, the picture and the result of each picture."""
        for picture, result in self.results(name)["images"].items():
            pixels = self.pixels(picture)
            assert hashlib.sha256(pixels.tobytes()).hexdigest()[:16] == result["rgb_sha256"]
            yield picture, image(pixels), result

    def frames(self, name: str) -> Iterator[tuple[int, mp.Image, Any]]:
        """The time, the picture and the result of each frame of a video: a picture that turns by
        20 degrees, changes its size by a fifth, and drifts.
        """
        recorded = self.results(name)
        pixels = self.pixels(recorded["source"])
        height, width = pixels.shape[:2]
        for i, result in enumerate(recorded["frames"]):
            phase = 2 * np.pi * i / FRAMES
            scale = (1 + 0.2 * np.sin(2 * phase)) * SIZE[0] / width
            turn = np.radians(20 * np.sin(phase))
            c, s = np.round(np.cos(turn) / scale, 9), np.round(np.sin(turn) / scale, 9)
            x = SIZE[0] / 2 + np.round(30 * np.sin(phase), 6)
            y = SIZE[1] / 2 + np.round(10 * np.cos(phase), 6)
            matrix = ((c, s, width / 2 - c * x - s * y), (-s, c, height / 2 + s * x - c * y))
            frame = _warped(pixels, np.array(matrix))
            assert hashlib.sha256(frame.tobytes()).hexdigest()[:16] == result["rgb_sha256"]
            yield i * STEP_MS, image(frame), result


def image(pixels: Pixels) -> mp.Image:
    return mp.Image(mp.ImageFormat.SRGB, pixels)


def _warped(pixels: Pixels, matrix: NDArray[Any]) -> Pixels:
    """The picture of `SIZE` whose pixel (x, y) is the picture's at ``matrix @ (x, y, 1)``:
    bilinear, with black around.
    """
    height, width = pixels.shape[:2]
    y, x = np.mgrid[: SIZE[1], : SIZE[0]].astype(np.float64)
    at_x = matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2]
    at_y = matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2]
    padded = np.pad(pixels.astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    at_x, at_y = np.clip(at_x + 1, 0, width + 0.999), np.clip(at_y + 1, 0, height + 0.999)
    i, j = np.floor(at_y).astype(int), np.floor(at_x).astype(int)
    v, u = (at_y - i)[..., None], (at_x - j)[..., None]
    top = padded[i, j] * (1 - u) + padded[i, j + 1] * u
    low = padded[i + 1, j] * (1 - u) + padded[i + 1, j + 1] * u
    return np.floor(top * (1 - v) + low * v + 0.5).astype(np.uint8)


def distances(mine: Any, theirs: Any, picture: mp.Image) -> NDArray[Any]:
    """Distances of landmarks in pixels."""
    ours = np.array([(p.x, p.y) for p in mine])
    both = (ours - np.array([p[:2] for p in theirs])) * (picture.width, picture.height)
    return np.hypot(*both.T)


STEP = 1 / 256
"""A step of the scores of 8-bit classifiers."""
CLASSIFIERS = (
    "mobilenet_v1_0.25_128_quant", "mobilenet_v2_1.0_224_quant", "tf2_mobilenet_v2_1.0_224_ptq",
)  # fmt: skip
EMBEDDERS: dict[str, dict[str, bool]] = {
    "embedder": {},
    "embedder_l2": {"l2_normalize": True},
    "embedder_quantized": {"quantize": True, "l2_normalize": True},
}
"""Options by the name of the results."""


def clips() -> dict[str, NDArray[Any]]:
    """Sounds of two seconds at 16 kHz."""
    time = np.arange(32000) / 16000
    return {
        "sine440": 0.5 * np.sin(2 * np.pi * 440 * time),
        "silence": 0 * time,
        "chirp": 0.5 * np.sin(2 * np.pi * (200 + 900 * time) * time),
        "noise": np.random.RandomState(0).uniform(-0.5, 0.5, len(time)),
    }


def assert_classes(mine: Any, theirs: Any, limit: float, name: object) -> None:
    """Compare the classes of an output: the scores of the recorded ones, and their best is ours,
    but for the limit.
    """
    assert mine.head_name == theirs["name"]
    scores = {c.index: c.score for c in mine.categories}
    names = {c.index: c.category_name for c in mine.categories}
    for known in theirs["categories"]:
        assert names[known["index"]] == known["name"]
        assert scores[known["index"]] == pytest.approx(known["score"], abs=limit), (name, known)
    assert scores[theirs["categories"][0]["index"]] >= mine.categories[0].score - limit, name


def assert_objects(found: Any, theirs: Any, least: float, steps: float, pixels: int) -> int:
    """Compare the objects above a score; their number."""
    assert len(found) == len(theirs)
    known = [each for each in theirs if each["categories"][0]["score"] > least]
    for mine, other in zip(found, known, strict=False):
        (category,), (expected,) = mine.categories, other["categories"]
        assert category.score == pytest.approx(expected["score"], abs=steps * STEP)
        assert category.category_name == expected["name"]
        box = mine.bounding_box
        sides = (box.origin_x, box.origin_y, box.width, box.height)
        assert np.abs(np.subtract(sides, other["box"])).max() <= pixels
    return len(known)


def assert_embedding(oracle: Oracle, results: str, picture: str, mine: Any, steps: float) -> None:
    """Compare a vector, whose numbers are the scores of a classifier, before its length becomes 1:
    at the classes that are recorded for this classifier.
    """
    (known,) = oracle.results(results)["images"][picture]["embeddings"]
    vector = mine.embedding
    assert (str(vector.dtype), len(vector)) == (known["dtype"], known["size"])
    assert [mine.head_index, mine.head_name] == known["head"]
    assert np.linalg.norm(vector.astype(float)) == pytest.approx(known["norm"], rel=0.03)
    options = EMBEDDERS[results]
    (raw,) = oracle.results("embedder")["images"][picture]["embeddings"]
    scale = (1 / raw["norm"] if options.get("l2_normalize") else 1) * (
        128 if options.get("quantize") else 1
    )
    classes = oracle.results("classifier_mobilenet_v2_1.0_224_quant")["images"][picture]
    for each in classes["heads"][0]["categories"]:
        expected = min(each["score"] * scale, 127)
        rounding = 0.51 if options.get("quantize") else 0
        limit = steps * STEP * scale + rounding
        assert vector[each["index"]] == pytest.approx(expected, abs=limit), (picture, each)
