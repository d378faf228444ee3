"""Published networks on published pictures: a texture gives what numpy gives."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gles_delegate as gd
from tests.gl.test_binding import ends
from tests.support.app import App

# Positions between pixels, but not halfway: there, many colors would be rounded by chance.
# Means of turned pixels leave some, and an 8-bit network or one sharp edge enlarges these.
WAYS: dict[str, dict[str, Any]] = {
    "stretched": {"roi": (0.37, 0.21, 1279.1, 719.3)},
    "turned in a letterbox": {
        "rotation": 20,
        "fit": "letterbox",
        "padding": 114,
        "antialias": False,
    },
    "a quarter turn": {
        "rotation": 90,
        "roi": (0.37, 0.21, 1279.1, 719.3),
        "fit": "letterbox",
        "antialias": False,
    },
    "a region, lowest row first": {"roi": (300, 40, 500, 600), "fit": "crop", "flip_y": True},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(
    "model",
    ["selfie_segmenter", pytest.param("mobilenet_v1_0.25_128_quant", marks=pytest.mark.mesa)],
)
def test_a_texture_gives_what_numpy_gives(
    model: str,
    way: dict[str, Any],
    real_model: Callable[[str], bytes],
    real_picture: Callable[[str], Path],
    app: App,
) -> None:
    frame = np.asarray(Image.open(real_picture("cat_720p.jpg")).convert("RGBA"))
    interpreter = app.interpreter(real_model(model))
    x, y = ends(interpreter)
    detail = interpreter.get_input_details()[0]
    size, dtype = tuple(detail["shape"][1:3]), np.dtype(detail["dtype"]).name
    transform = gd.ImageTransform(**way)
    pixels = transform.apply(frame, size, dtype=dtype, quantization=detail["quantization"])
    interpreter.set_tensor(x, pixels)
    interpreter.invoke()
    expected = interpreter.get_tensor(y)

    app.delegate.bind_texture_to_tensor(x, app.texture(frame), transform=transform)
    interpreter.invoke()
    actual = interpreter.get_tensor(y)
    if dtype == "uint8":
        assert actual.argmax() == expected.argmax()
        assert np.abs(actual.astype(int) - expected).max() <= 2  # steps
    else:
        np.testing.assert_allclose(actual, expected, atol=1e-3)
    assert np.ptp(expected.astype(float)) > 0.5

    if len(expected.shape) == 4:
        palette = [(0, 0, 0, 0), (0, 200, 80, 160)]
        mask = app.texture(np.zeros((*size, 4), np.uint8))
        output = gd.ImageOutput(palette=palette)
        app.delegate.bind_texture_to_tensor(y, mask, transform=output)
        interpreter.invoke()
        drawn = app.read(mask, "u1").reshape(*size, 4)
        assert (drawn == output.apply(actual) * 255).mean() > 0.9999
        assert 0 < (drawn == palette[1]).all(-1).mean() < 1
