"""Detection on pictures, with long loops, in half precision and with damaged options."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from numpy.typing import NDArray
from PIL import Image

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import UNKNOWN
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from tests.op_table import OPS
from tests.op_table.case import make_case
from tests.support.force import force_limits, force_profile
from tests.support.oracle import (
    WHOLE,
    assert_close,
    complete,
    in_ours,
    litert_interpreter,
    run,
    run_delegated,
    run_gles,
    run_litert,
)
from tests.support.sketch import Sketch

SSD = "custom_ssd_mobilenet_v2_fpn_lite_320x320"
NAME = "TFLite_Detection_PostProcess"
MODES = (
    {},
    {"use_regular_nms": True, "max_detections": 100},
    {"max_classes_per_detection": 3, "max_detections": 100},
)


def picture(path: Path) -> NDArray[np.uint8]:
    return np.asarray(Image.open(path).convert("RGB").resize((320, 320)))[np.newaxis]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_boxes_of_pictures(
    mode: dict[str, Any], real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    """12804 anchors; the network itself is LiteRT's, so that near scores keep their order."""
    content = real_model(SSD)
    graph = read_model(content)
    node = graph.nodes[-1]
    assert node.op == NAME
    assert node.custom_options is not None
    interpreter = litert_interpreter(content, apart=True)
    run(interpreter, [picture(real_picture("pets.jpg"))])
    s = Sketch(np.random.default_rng(0))
    inputs = [s.feed(values=interpreter.get_tensor(i)) for i in node.inputs[:2]]
    inputs.append(s.constant(graph.tensors[node.inputs[2]].array()))
    outputs = [s.tensor() for _ in range(4)]
    options = flexbuffers.Loads(bytes(node.custom_options)) | mode
    s.op(NAME, inputs, outputs, custom_options=flexbuffers.Dumps(options))
    model = complete(s, outputs)
    reference = run_litert(model, s.feeds)
    assert reference[3] == options["max_detections"]
    for host in (run_gles, run_delegated):
        assert_close(host(model, s.feeds), reference)


@pytest.mark.parametrize("host", [run_gles, run_delegated])
def test_whole_network(
    host: Callable[..., list[NDArray[Any]]],
    real_model: Callable[[str], bytes],
    real_picture: Callable[[str], Path],
) -> None:
    """The best box; those with lower scores change places by a quantization step."""
    content = real_model(SSD)
    inputs = [picture(real_picture("pets.jpg"))]
    scores, boxes, count, classes = run_litert(content, inputs)
    ours = host(content, inputs)
    assert [a.shape for a in ours] == [a.shape for a in (scores, boxes, count, classes)]
    assert ours[2] == count
    assert ours[3][0, 0] == classes[0, 0]
    np.testing.assert_allclose(ours[0], scores, rtol=0, atol=0.05)
    np.testing.assert_allclose(ours[1][0, 0], boxes[0, 0], rtol=0, atol=0.02)


@pytest.mark.parametrize("regular", [False, True])
def test_selections_in_several_dispatches(regular: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    force_limits(monkeypatch, loop_passes=200)
    attributes = {"boxes": 60, "labels": 5, "most": 30, "each": 20, "regular": regular}
    content, inputs = make_case(NAME, OPS[NAME], attributes).build()
    with gd.GpuDelegate(WHOLE) as delegate:
        interpreter = in_ours(delegate, content)
        assert_close(run(interpreter, inputs), run_litert(content, inputs))
        graph = read_model(content)
        (steps,) = (
            lower_graph(graph, delegate.gpu.limits).steps[n.index]
            for n in graph.nodes
            if n.op == NAME
        )
    selecting = [step for step in steps if "non_max_suppression" in str(step)]
    assert len(selecting) > 2


def test_half_precision_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    force_profile(monkeypatch, UNKNOWN)
    content, inputs = make_case(NAME, OPS[NAME], {"boxes": 300, "labels": 3}).build()
    inputs = [np.float32(np.float16(array)) for array in inputs]
    half = replace(WHOLE, precision_loss_allowed=True)
    with gd.GpuDelegate(half) as delegate:
        ours = run(in_ours(delegate, content), inputs)
        assert delegate.report.storage == "float16"
    assert_close(ours, run_litert(content, inputs), tolerance=3e-3)


def test_damaged_options_are_refused_or_taken() -> None:
    case = make_case(NAME, OPS[NAME], {"boxes": 5, "labels": 2})
    sketch, outputs = case.sketch()
    (operator,) = (o for o in sketch._operators if o["custom_options"])
    whole, rng = bytes(operator["custom_options"]), np.random.default_rng(0)
    refused = 0
    for length in (0, 1, 3, *[len(whole)] * 300):
        damaged = bytearray(whole[:length])
        for at in rng.integers(0, max(length, 1), 3):
            damaged[at : at + 1] = bytes([rng.integers(0, 256)])
        operator["custom_options"] = list(damaged) or None
        refused += bool(lower_graph(read_model(sketch.build(outputs)), Limits()).reasons)
    assert 3 < refused < 303


@pytest.mark.parametrize("unit", [0.0, 1e-40])
def test_boxes_in_units_of_zero_are_refused(unit: float) -> None:
    case = make_case(NAME, OPS[NAME], {"boxes": 5, "labels": 2})
    sketch, outputs = case.sketch()
    (operator,) = (o for o in sketch._operators if o["custom_options"])
    options = flexbuffers.Loads(bytes(operator["custom_options"])) | {"w_scale": unit}
    operator["custom_options"] = list(flexbuffers.Dumps(options))
    (reason,) = lower_graph(read_model(sketch.build(outputs)), Limits()).reasons.values()
    assert "expected none nearer 0" in reason
