"""Double pictures on a pool of threads that share one network, as web frameworks do.

    python examples/thread_pool.py PICTURE... --output FOLDER

A FastAPI app would create one `Doubler` and call it in a plain ``def`` handler, which FastAPI runs
on a pool of threads as well::

    doubler = Doubler()

    @app.post("/double")
    def double(file: UploadFile) -> Response:
        ...
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from imaging import FloatArray, ending_in_a_sentence, load_picture, positive, require_inputs_kept
from PIL import Image
from tiles import doubled

import gles_delegate as gd

MODEL = Path(__file__).parent / "models" / "super_resolution_x2.tflite"


class Doubler:
    """One network, shared by all threads."""

    def __init__(self) -> None:
        self._interpreter = gd.Interpreter(model_path=MODEL)

    def __call__(self, picture: Image.Image) -> Image.Image:
        """The picture at twice its size."""
        enlarged = doubled(self._run, np.asarray(picture, np.float32)[np.newaxis] / 255)
        return Image.fromarray((enlarged[0].clip(0, 1) * 255).round().astype(np.uint8))

    def _run(self, tile: FloatArray) -> FloatArray:
        # A single call is atomic: other requests cannot interleave.
        return self._interpreter.run({"image": tile})["image_x2"]

    def close(self) -> None:
        self._interpreter.close()


@ending_in_a_sentence()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pictures", type=Path, nargs="+", help="pictures, one request each")
    parser.add_argument("--output", type=Path, default=Path("doubled"), help="folder")
    parser.add_argument("--threads", type=positive, default=4, help="number of threads")
    arguments = parser.parse_args()
    outputs = {path: arguments.output / f"{path.stem}.png" for path in arguments.pictures}
    require_inputs_kept(arguments, outputs.values())
    arguments.output.mkdir(parents=True, exist_ok=True)

    doubler = Doubler()

    def serve(path: Path) -> str:
        result = doubler(load_picture(path))
        result.save(outputs[path])
        return f"{path} -> {outputs[path]}, {result.width}x{result.height}"

    with ThreadPoolExecutor(arguments.threads) as pool:
        for line in pool.map(serve, arguments.pictures):
            print(line)
    doubler.close()


if __name__ == "__main__":
    main()
