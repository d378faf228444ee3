"""Results of MediaPipe's tasks for pictures and videos, as JSON; and these videos' frames."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gles_delegate.tasks as mp
from tests.conftest import MODELS

Pixels = NDArray[np.uint8]
FOLDER = Path(os.environ.get("GLES_DELEGATE_MEDIAPIPE", Path(MODELS).parent / "mediapipe-oracle"))
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
        return own if own.is_file() else Path(MODELS) / name

    def pixels(self, name: str) -> Pixels:
        """RGB of a picture."""
        from PIL import Image as Pictures

        path = Path(MODELS).parent / "images" / name
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
