"""Examples run as a user runs them, and the pictures they leave."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tests.support.process import OPTIMIZER

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: object, status: int = 0) -> str:
    """An example's output, or its standard error if its status is not 0; with LLVM's optimizer."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    users = {key: value for key, value in os.environ.items() if key != OPTIMIZER}
    result = subprocess.run(
        command, env=users, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == status, result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout if status == 0 else result.stderr


def pixels(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def half_blue(path: Path) -> Path:
    """A picture whose left half is blue, and whose right half is black."""
    picture = np.zeros((40, 60, 3), np.uint8)
    picture[:, :30, 2] = 255
    Image.fromarray(picture).save(path)
    return path


def orange_disc() -> NDArray[np.uint8]:
    """A disc before a dark blue: its center is at row 70 and column 100, its radius 27."""
    y, x = np.indices((180, 320))
    picture = np.full((180, 320, 3), (40, 90, 100), np.uint8)
    picture[(x - 100) ** 2 + (y - 70) ** 2 < 27**2] = (255, 140, 25)
    return picture


def write_video(path: Path, picture: NDArray[np.uint8]) -> Path:
    """A video of three frames that are all alike."""
    import av

    with av.open(path, "w") as container:
        stream = container.add_stream("h264", 24)
        stream.height, stream.width = picture.shape[:2]
        for _ in range(3):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return path


def read_video(path: Path) -> list[NDArray[np.uint8]]:
    """Its frames."""
    import av

    with av.open(path) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
