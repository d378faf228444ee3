"""The networks for handwritten digits in examples/models, on pictures of scans they never saw."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from numpy.typing import NDArray

import gles_apps.tasks as mp
import gles_delegate as gd
from gles_apps import vision
from gles_apps.tasks import vision as tasks
from tests.support.command import call_json
from tests.support.example import EXAMPLES, pixels, run

CLASSIFIER, DETECTOR = (
    EXAMPLES / "models" / f"digit_{name}.tflite" for name in ("classifier", "detector")
)
ONE, PAGE = EXAMPLES / "digit.png", EXAMPLES / "digits.jpg"
ON_PAGE = {
    "854": ((20, 5, 87, 109), (96, 19, 164, 104), (172, 16, 239, 94)),
    "7303": ((323, 39, 376, 136), (390, 44, 442, 126), (456, 39, 505, 133), (519, 43, 570, 119)),
    "81": ((454, 204, 518, 298), (536, 208, 582, 304)),
    "022": ((177, 336, 235, 424), (257, 340, 319, 440), (341, 343, 415, 435)),
    "99": ((465, 332, 538, 434), (563, 343, 609, 432)),
}
"""Left, top, right and bottom of each digit in pixels, as digit_pages.py drew them."""
PLACES = [*mp.BaseOptions.Delegate]


def ours(**arguments: Any) -> Any:
    return gd.Interpreter(**arguments)


HOSTS: list[Callable[..., Any]] = [ours, LiteRt]


def result(interpreter: Any, image: NDArray[np.float32]) -> NDArray[np.float32]:
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    return np.array(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("model", "picture"), [(CLASSIFIER, ONE), (DETECTOR, PAGE)])
def test_outputs_are_litert_s(model: Any, picture: Any, host: Callable[..., Any]) -> None:
    cpu = LiteRt(str(model))
    height, width = cpu.get_input_details()[0]["shape"][1:3].tolist()
    transform = gd.ImageTransform(fit="letterbox", mean=0, std=255)
    image = transform.apply(pixels(picture), (height, width))
    with gd.GpuDelegate(model=model) as delegate:
        found = result(host(model_path=str(model), experimental_delegates=[delegate]), image)
        assert delegate.report.fully_delegated
    np.testing.assert_allclose(found, result(cpu, image), atol=2e-5)


def test_the_metadata_names_the_license() -> None:
    for model in (CLASSIFIER, DETECTOR):
        assert b"CC BY 4.0" in model.read_bytes()
        with gd.Interpreter(model) as interpreter:
            assert interpreter.metadata.license == "Apache-2.0"
            assert interpreter.metadata.outputs[0].labels == tuple("0123456789")


@pytest.mark.parametrize("place", PLACES)
def test_the_classifier_names_the_digit(place: Any) -> None:
    options = tasks.ImageClassifierOptions(mp.BaseOptions(CLASSIFIER, delegate=place))
    with tasks.ImageClassifier(options) as classifier:
        (head,) = classifier.classify(mp.Image.create_from_file(str(ONE))).classifications
    assert head.categories[0].category_name == "3"
    assert head.categories[0].score > 0.8


def test_the_example_names_the_digit() -> None:
    assert run("classify.py", CLASSIFIER, ONE).splitlines()[0].endswith("  3")


@pytest.mark.parametrize("place", PLACES)
def test_the_detector_finds_the_page_s_digits(place: Any) -> None:
    """Each once, and no box is elsewhere."""
    options = tasks.ObjectDetectorOptions(mp.BaseOptions(DETECTOR, delegate=place))
    with tasks.ObjectDetector(options) as detector:
        found = detector.detect(mp.Image.create_from_file(str(PAGE))).detections
    boxes = (each.bounding_box for each in found)
    corners = [(box.origin_x, box.origin_y, box.width, box.height) for box in boxes]
    edges = np.array(corners) @ [[1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]]
    seen = ""
    for places in ON_PAGE.values():
        for each in places:
            near = np.flatnonzero(np.abs(edges - each).max(1) < 10)
            seen += found[near[0]].categories[0].category_name if near.size else "?"
            edges[near] = -1000
    assert seen == "".join(ON_PAGE)
    assert (edges == -1000).all()


def test_the_command_line_finds_them() -> None:
    text = run("detect.py", DETECTOR, "--picture", PAGE, "--headless")
    assert text.startswith("14 objects\n")
    (output,) = call_json("run", DETECTOR, "--input", PAGE)["outputs"]
    assert output["shape"] == [1, 1344, 14]


def test_a_photograph_without_digits() -> None:
    base = mp.BaseOptions(DETECTOR)
    options = tasks.ObjectDetectorOptions(base, score_threshold=0.5)
    with tasks.ObjectDetector(options) as detector:
        assert not detector.detect(mp.Image.create_from_file(str(EXAMPLES / "live.jpg"))).detections


def test_its_shape_and_names_make_it_a_yolo_network() -> None:
    with gd.Interpreter(DETECTOR) as interpreter:
        shape = interpreter.get_input_details()[0]["shape"]
        outputs = [each["shape"] for each in interpreter.get_output_details()]
        found = vision.find_detector(shape, outputs, interpreter.metadata.outputs)
    assert isinstance(found, vision.YoloDetector)
    assert (found.kind, found.classes) == ("yolov8", 10)
