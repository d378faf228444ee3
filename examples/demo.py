"""Double the resolution of a photograph on the GPU; compare with bicubic scaling and the CPU.

    python examples/demo.py [PICTURE] [--output FOLDER]

Without a picture, it halves and doubles photographs from scikit-image on which the network was not
trained, so the originals serve as ground truth.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import skimage.data
from ai_edge_litert.interpreter import Interpreter as LiteRt
from imaging import FloatArray, ending_in_a_sentence, load_picture, require_inputs_kept
from PIL import Image, ImageDraw, ImageFont
from skimage.metrics import peak_signal_noise_ratio
from tiles import doubled

import gles_delegate as gd

MODEL = Path(__file__).parent / "models" / "super_resolution_x2.tflite"
RUNS = 10
DOUBLED = "doubled.png"
"""The file of a doubled picture."""
ON_CPU = (
    "This device is the CPU: fine for tests, slower than LiteRT's own kernels. An NVIDIA H200\n"
    "takes 1.3 ms for the first picture, from array to array."
)
DETAILS = {"astronaut": (190, 70), "chelsea": (150, 90)}
"""Held-out photographs, and the top left corner (x, y) of the detail to show."""
DETAIL = 96


@ending_in_a_sentence()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path, nargs="?", help="a picture to double")
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder for the results")
    arguments = parser.parse_args()
    require_inputs_kept(arguments, [arguments.output / DOUBLED])
    arguments.output.mkdir(parents=True, exist_ok=True)

    with gd.GpuDelegate() as delegate:
        interpreter = gd.Interpreter(model_path=MODEL, experimental_delegates=[delegate])
        device = gd.list_devices()[0]
        print(f"device {device}\n{str(delegate.report).splitlines()[-1]}")
        if device.software:
            print(ON_CPU)
        print()
        if arguments.picture:
            double(interpreter, load_picture(arguments.picture), arguments.output)
            return
        paths = [compare(interpreter, device, *item, arguments.output) for item in DETAILS.items()]
        if os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"} and shutil.which("xdg-open"):
            subprocess.run(["xdg-open", str(paths[0])], check=False)


def double(interpreter: gd.Interpreter, picture: Image.Image, folder: Path) -> None:
    """Write the picture at twice its size."""
    result = as_picture(doubled(partial(run, interpreter), as_array(picture)))
    path = folder / DOUBLED
    result.save(path)
    print(f"{picture.width}x{picture.height} -> {result.width}x{result.height}: {path}")


def compare(
    interpreter: gd.Interpreter, device: gd.Device, name: str, corner: tuple[int, int], folder: Path
) -> Path:
    """Halve and double a photograph; print speed, agreement and PSNR, write the comparison."""
    truth = Image.fromarray(getattr(skimage.data, name)())
    truth = truth.crop((0, 0, truth.width // 2 * 2, truth.height // 2 * 2))
    small = truth.resize((truth.width // 2, truth.height // 2), Image.Resampling.BICUBIC)
    image = as_array(small)

    on_gpu = run(interpreter, image)
    cpu = LiteRt(str(MODEL), num_threads=2)
    on_cpu = run(cpu, image)
    latency = ""
    if not device.software:
        latency = (
            f"  latency    {milliseconds(interpreter):.1f} ms on {device.renderer}, "
            f"{milliseconds(cpu):.1f} ms on LiteRT's CPU (medians of {RUNS})\n"
        )
    bicubic = small.resize(truth.size, Image.Resampling.BICUBIC)
    network = as_picture(on_gpu)
    print(
        f"{name}: {small.width}x{small.height} -> {truth.width}x{truth.height}\n"
        f"{latency}"
        f"  agreement  largest difference to LiteRT's CPU {np.abs(on_gpu - on_cpu).max():.1e} "
        "of a range of 1\n"
        f"  PSNR       bicubic {psnr(truth, bicubic):.2f} dB, network {psnr(truth, network):.2f} dB"
    )
    panels = {
        "input": small.resize(truth.size, Image.Resampling.NEAREST),
        f"bicubic {psnr(truth, bicubic):.2f} dB": bicubic,
        f"network {psnr(truth, network):.2f} dB": network,
        "original": truth,
    }
    path = folder / f"{name}.png"
    side_by_side(panels, corner).save(path)
    print(f"  picture    {path}\n")
    return path


def run(interpreter: gd.Interpreter | LiteRt, image: FloatArray) -> FloatArray:
    """The network's result for one image of any size."""
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, image.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(index, image)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def milliseconds(interpreter: gd.Interpreter | LiteRt) -> float:
    """Median time of one invocation."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        interpreter.invoke()
        times.append(1000 * (time.perf_counter() - start))
    return median(times)


def as_array(picture: Image.Image) -> FloatArray:
    """[1, height, width, 3] in 0..1."""
    return np.asarray(picture, np.float32)[np.newaxis] / 255


def as_picture(array: FloatArray) -> Image.Image:
    return Image.fromarray((array[0].clip(0, 1) * 255).round().astype(np.uint8))


def psnr(truth: Image.Image, picture: Image.Image) -> float:
    return float(peak_signal_noise_ratio(np.asarray(truth), np.asarray(picture)))


def side_by_side(panels: dict[str, Image.Image], corner: tuple[int, int]) -> Image.Image:
    """The pictures in a row, with captions above and an enlarged detail below each."""
    font = ImageFont.load_default(20)
    width, height = next(iter(panels.values())).size
    gap = 8
    head = 32
    canvas = Image.new(
        "RGB", (len(panels) * (width + gap) + gap, head + height + width + 2 * gap), "white"
    )
    draw = ImageDraw.Draw(canvas)
    x, y = corner
    for i, (caption, panel) in enumerate(panels.items()):
        left = gap + i * (width + gap)
        draw.text((left, 4), caption, "black", font)
        canvas.paste(panel, (left, head))
        draw.rectangle(
            (left + x, head + y, left + x + DETAIL, head + y + DETAIL), outline="white", width=2
        )
        detail = panel.crop((x, y, x + DETAIL, y + DETAIL))
        enlarged = detail.resize((width, width), Image.Resampling.NEAREST)
        canvas.paste(enlarged, (left, head + height + gap))
    return canvas


if __name__ == "__main__":
    main()
