"""Classify a picture with LiteRT 2's CompiledModel on the GPU.

python examples/compiled_classify.py MODEL.tflite PICTURE.jpg --labels labels.txt [--cpu]
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import numpy as np
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.hardware_accelerator import HardwareAccelerator
from imaging import (
    as_real,
    ending_in_a_sentence,
    image_parser,
    load_labels,
    load_picture,
    require_classifier,
    single,
)

import gles_delegate as gd
from gles_delegate.image.pictures import as_tensor
from gles_delegate.image.transform import picture_transform


@contextmanager
def environment(on_cpu: bool) -> Iterator[Any]:
    """LiteRT's default environment, or one that uses this package as its GPU."""
    if on_cpu:
        yield None
    else:
        with gd.litert_environment() as litert:
            yield litert


@contextmanager
def without_native_log() -> Iterator[None]:
    """Keep LiteRT's forty lines from standard error, unless there is an exception."""
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as kept, open(terminal, "w", buffering=1) as errors:
        os.dup2(kept.fileno(), 2)
        try:
            with redirect_stderr(errors):  # Python's own messages
                yield
        except Exception:
            kept.seek(0)
            os.write(terminal, kept.read())
            raise
        finally:
            os.dup2(terminal, 2)


@ending_in_a_sentence()
@without_native_log()
def main() -> None:
    parser = image_parser(__doc__.splitlines()[0])
    parser.add_argument("--cpu", action="store_true", help="run on LiteRT's CPU only")
    arguments = parser.parse_args()
    picture = load_picture(arguments.picture)
    with gd.Interpreter(model_path=arguments.model) as described:  # for scales, zero points
        image, output = single(described)
        metadata = described.metadata.inputs[0]
        dtype = np.dtype(image["dtype"]).name
    require_classifier(image, output)
    transform = picture_transform(
        image["shape"].tolist(), dtype, metadata, arguments.mean, arguments.std
    )
    hardware = HardwareAccelerator.CPU
    if not arguments.cpu:
        hardware |= HardwareAccelerator.GPU
    with environment(arguments.cpu) as litert:
        model = CompiledModel.from_file(
            str(arguments.model), hardware_accel=hardware, environment=litert
        )
        inputs = model.create_input_buffers(0)
        outputs = model.create_output_buffers(0)
        inputs[0].write(as_tensor(picture, image, transform))
        model.run_by_index(0, inputs, outputs)
        count = int(np.prod(output["shape"]))
        scores = as_real(outputs[0].read(count, np.dtype(output["dtype"])), output)
        labels = load_labels(arguments.model, arguments.labels, scores.size)
        for index in np.argsort(scores)[:-6:-1]:
            print(f"{scores[index]:8.4f}  {labels[index]}")
        for delegate in litert.delegates if litert else ():
            print(str(delegate.report).splitlines()[-1])


if __name__ == "__main__":
    main()
