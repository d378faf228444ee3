"""Examples run as a user runs them, and the pictures they leave."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: object, status: int = 0) -> str:
    """What an example prints; on standard error where it ends with another status than 0."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == status, result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout if status == 0 else result.stderr


def pixels(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))
