"""The published 8-bit models on real pictures, against LiteRT's CPU.

LiteRT's own two sets of kernels differ by up to 19 steps at the end of these networks, so what is
compared is the class, its score, and the correlation of all scores.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from numpy.typing import NDArray
from PIL import Image

import gles_delegate as gd
from tests.support.oracle import delegated_interpreter, gles_interpreter, litert_interpreter, run

CLASSIFIERS = {  # and the steps, of 255, by which the score of the best class may differ
    "mobilenet_v1_0.25_128_quant": 2,
    "mobilenet_v2_1.0_224_quant": 5,
    "tf2_mobilenet_v2_1.0_224_ptq": 2,
}


def both(content: bytes, picture: Path) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """The outputs of the delegate and of LiteRT for a picture."""
    with gd.GpuDelegate() as delegate:
        ours = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        assert delegate.report.fully_delegated
        reference = LiteRt(model_content=content)
        for interpreter in (ours, reference):
            interpreter.allocate_tensors()
        detail = ours.get_input_details()[0]
        with Image.open(picture) as image:
            size = detail["shape"][2], detail["shape"][1]
            pixels = np.asarray(image.convert("RGB").resize(size))[np.newaxis]
        feed = pixels if detail["dtype"] == np.uint8 else (pixels / 127.5 - 1).astype(np.float32)
        return run(ours, [feed]), run(reference, [feed])


@pytest.mark.parametrize("host", [gles_interpreter, delegated_interpreter])
def test_a_sound_from_its_waveform_on(
    host: Callable[..., Any], real_model: Callable[[str], bytes]
) -> None:
    content = real_model("yamnet")
    seconds = np.arange(15600) / 16000
    wave = np.sin(2 * np.pi * 440 * seconds * (1 + seconds)).astype(np.float32)
    (expected,) = run(litert_interpreter(content), [wave])
    with host(content) as ours:
        (actual,) = run(ours, [wave])
    assert actual.argmax() == expected.argmax()
    assert np.corrcoef(actual.ravel(), expected.ravel())[0, 1] > 0.999


@pytest.mark.mesa  # a rounding that falls the other way changes scores by steps
@pytest.mark.parametrize("picture", ["cat_720p.jpg", "parrot.jpg"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_name_the_same(
    name: str, picture: str, real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    (ours,), (reference,) = both(real_model(name), real_picture(picture))
    assert ours.dtype == reference.dtype == np.uint8
    assert ours.argmax() == reference.argmax()
    assert abs(int(ours.max()) - int(reference.max())) <= CLASSIFIERS[name]
    assert np.corrcoef(ours.ravel(), reference.ravel())[0, 1] > 0.999


def test_posenet(real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]) -> None:
    content = real_model("posenet_mobilenet_v1_100_257_integer_quant")
    for ours, reference in zip(*both(content, real_picture("pets.jpg")), strict=True):
        assert np.corrcoef(ours.ravel(), reference.ravel())[0, 1] > 0.995


def test_quantized_models_can_be_left_out(real_model: Callable[[str], bytes]) -> None:
    options = gd.GpuDelegateOptions(quantized_models_allowed=False, require_full_delegation=True)
    content = real_model("mobilenet_v1_0.25_128_quant")
    with (
        gd.GpuDelegate(options) as delegate,
        pytest.raises(gd.UnsupportedModelError, match="quantized_models_allowed=False") as caught,
    ):
        gd.Interpreter(model_content=content, experimental_delegates=[delegate])
    assert len(caught.value.nodes) == 31
