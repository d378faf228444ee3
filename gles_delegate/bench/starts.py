"""Times that users of a device wait for: first results, and a mask's texture for a picture's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from gles_delegate.errors import DelegateError
from gles_delegate.gl.egl import EglContext
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.texture import PixelTexture
from gles_delegate.hosts.delegate import GpuDelegate
from gles_delegate.hosts.interpreter import Interpreter
from gles_delegate.image.output import ImageOutput
from gles_delegate.image.transform import ImageTransform
from gles_delegate.model.reader import ModelFile

_START = """
import sys, time
import gles_delegate as gd
model, folder, device = sys.argv[1:]
index = int(device) if device else None
options = gd.GpuDelegateOptions(serialization_dir=folder, device_index=index)
before = time.perf_counter()
with gd.GpuDelegate(options) as delegate:
    interpreter = gd.Interpreter(model, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.invoke()
    for output in interpreter.get_output_details():
        interpreter.get_tensor(output["index"])
    print(time.perf_counter() - before)
"""
_PICTURE = (480, 640, 4)


def starts(model: ModelFile, device_index: int | None = None) -> dict[str, float]:
    """Seconds from making a delegate to a model's first results, in a process each: "cold" without
    any cache of programs, "warm" with what the cold one kept.

    Raises DelegateError if the process fails.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "model.tflite"
        file.write_bytes(model.content)
        device = "" if device_index is None else str(device_index)
        command = [sys.executable, "-c", _START, str(file), str(folder / "cache"), device]
        package = str(Path(__file__).parents[2])
        paths = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        # NVIDIA's driver keeps programs, too.
        variables = {"PYTHONPATH": paths, "__GL_SHADER_DISK_CACHE_PATH": name}
        return {kind: _timed(command, variables) for kind in ("cold", "warm")}


def _timed(command: list[str], variables: dict[str, str]) -> float:
    try:
        ended = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True,
            timeout=300, check=True,
        )  # fmt: skip
        return float(ended.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise DelegateError(f"expected seconds of a start, found: {error}") from error


def texture_to_texture(model: ModelFile, device_index: int | None = None, runs: int = 50) -> float:
    """Median of the seconds from a picture in a texture to an output in another one, complete.

    The model's first input sees a picture, and its first output is one.
    """
    egl = EglContext(device_index)
    try:
        with egl, GpuDelegate(context=egl) as delegate:
            gl = Functions(egl.load)
            interpreter = Interpreter(**model.arguments, experimental_delegates=[delegate])
            source = interpreter.get_input_details()[0]
            output = interpreter.get_output_details()[0]
            frame = PixelTexture(gl, _PICTURE)
            mask = PixelTexture(gl, (*output["shape"][1:3].tolist(), 4))
            frame.write(np.random.default_rng(0).integers(0, 256, _PICTURE, np.uint8))
            seen = ImageTransform.for_input(interpreter, source["index"])
            delegate.bind_texture_to_tensor(source["index"], frame, transform=seen)
            delegate.bind_texture_to_tensor(output["index"], mask, transform=ImageOutput())
            interpreter.allocate_tensors()
            times = []
            for _ in range(runs):
                before = perf_counter()
                interpreter.invoke()
                gl.glFinish()
                times.append(perf_counter() - before)
            frame.release()
            mask.release()
            return median(times[len(times) // 5 :])
    finally:
        egl.release()
