"""Published YOLO networks on pictures, on the GPU and on LiteRT's CPU, decoded alike.

The 8-bit ones have float activations, which LiteRT's kernels round to 8 bits at run time: their
results are compared closely with the same network in float.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as tfl
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray
from PIL import Image

import gles_delegate as gd
from gles_apps import vision
from gles_delegate.model.reader import read_model
from gles_delegate.planning.outputs import read_metadata
from tests.support.command import call_json
from tests.support.oracle import run

# In pixels of the pictures, as one sees them: left, top, right and bottom.
SEEN = {
    "pets.jpg": {"dog": [(106, 14, 262, 297), (345, 165, 495, 368)]},
    "cat_720p.jpg": {"cat": [(117, 80, 912, 712)]},
    "owl.jpg": {"bird": [(158, 15, 333, 379)]},
}


def in_float(content: bytes) -> bytes:
    """The model with its int8 weights as the real numbers that they stand for."""
    model = tfl.ModelT.InitFromPackedBuf(content, 0)
    for tensor in model.subgraphs[0].tensors:
        data, scales = (
            model.buffers[tensor.buffer].data,
            getattr(tensor.quantization, "scale", None),
        )
        if tensor.type != tfl.TensorType.INT8 or data is None or scales is None:
            continue
        shape = [1] * len(tensor.shape)
        if len(scales) > 1:
            shape[tensor.quantization.quantizedDimension] = -1
        assert not np.any(tensor.quantization.zeroPoint)
        steps = np.asarray(data).view(np.int8).reshape(tensor.shape)
        weights = steps * np.asarray(scales, np.float32).reshape(shape)
        tensor.buffer, tensor.type = len(model.buffers), tfl.TensorType.FLOAT32
        tensor.quantization = None
        model.buffers.append(tfl.BufferT())
        model.buffers[-1].data = np.frombuffer(weights.tobytes(), np.uint8)
    builder = flatbuffers.Builder(1 << 24)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def detector_of(content: bytes) -> vision.YoloDetector:
    graph = read_model(content)
    shapes = [graph.tensors[index].shape for index in graph.outputs]
    picture = graph.tensors[graph.inputs[0]].shape
    found = vision.find_detector(picture, shapes, read_metadata(graph).outputs)
    assert isinstance(found, vision.YoloDetector)
    return found


def seen_by(
    interpreter: Any, detector: vision.YoloDetector, picture: NDArray[np.uint8]
) -> list[vision.Detection]:
    outputs = run(interpreter, [detector.transform.apply(picture, detector.size)])
    found = vision.read_detections(outputs, detector)
    return [each.to_picture(detector.transform, picture.shape[:2], detector.size) for each in found]


@pytest.mark.parametrize(("name", "kind"), [("yolov8n_int8", "yolov8"), ("yolo26n_int8", "yolo26")])
def test_objects_where_they_are(
    name: str, kind: str, real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    content = real_model(f"today/{name}")
    detector = detector_of(content)
    assert detector.kind == kind
    cpu = Interpreter(model_content=in_float(content))
    cpu.allocate_tensors()
    with gd.Interpreter(model_content=content) as gpu:
        gpu.allocate_tensors()
        names = gpu.metadata.outputs[0].labels
        for file, objects in SEEN.items():
            picture = np.asarray(Image.open(real_picture(file)).convert("RGB"))
            extent = picture.shape[1::-1] * 2
            actual, expected = (seen_by(each, detector, picture) for each in (gpu, cpu))
            assert [d.class_index for d in actual] == [d.class_index for d in expected]
            for one, other in zip(actual, expected, strict=True):
                assert one.score == pytest.approx(other.score, abs=1e-3)
                difference = np.multiply(np.subtract(one.box, other.box), extent)
                assert np.abs(difference).max() < 0.05
            for label, boxes in objects.items():
                sure = [d for d in actual if d.score > 0.5]
                assert [names[d.class_index] for d in sure] == [label] * len(boxes)
                sure.sort(key=lambda d: d.box[0])
                pixels = [np.multiply(d.box, extent) for d in sure]
                np.testing.assert_allclose(pixels, boxes, atol=25)


def test_yolox_as_on_the_cpu(
    real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    """A network of hand signs, which takes a knot in the wood below the parrot for one.

    Padded at the other side, it finds the same, as pictures have their place in the input.
    """
    content = real_model("today/yolox_nano_with_post_float16")
    detector = detector_of(content)
    assert detector.kind == "yolox"
    picture = np.asarray(Image.open(real_picture("parrot.jpg")).convert("RGB"))
    cpu = Interpreter(model_content=content)
    cpu.allocate_tensors()
    (expected,) = seen_by(cpu, detector, picture)
    with gd.Interpreter(model_content=content) as gpu:
        gpu.allocate_tensors()
        (actual,) = seen_by(gpu, detector, picture)
    assert actual.class_index == expected.class_index
    assert actual.score == pytest.approx(expected.score, abs=1e-3)
    np.testing.assert_allclose(actual.box, expected.box, atol=1e-4)
    wider = np.pad(picture, ((0, 0), (200, 0), (0, 0)), constant_values=114)
    (moved,) = seen_by(cpu, detector, wider)
    left, top, right, bottom = np.multiply(expected.box, picture.shape[1::-1] * 2)
    shifted = np.multiply(moved.box, wider.shape[1::-1] * 2)
    np.testing.assert_allclose(shifted, (left + 200, top, right + 200, bottom), atol=12)


def test_the_command_line_lists_them(
    real_model: Callable[[str], bytes], real_picture: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tmp_path / "yolov8n.tflite"
    path.write_bytes(real_model("today/yolov8n_int8"))
    found = call_json("run", path, "--input", real_picture("pets.jpg"))["results"]
    assert [row["label"] for row in found] == ["dog", "dog"]
    boxes = sorted(row["box"] for row in found)
    np.testing.assert_allclose(boxes, SEEN["pets.jpg"]["dog"], atol=25)
