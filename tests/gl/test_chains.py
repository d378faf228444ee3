"""Tensors that stay on the GPU from one model to the next."""

from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from tests.support.app import App
from tests.support.small import allocated
from tests.support.tflite_builder import ModelBuilder

SHAPE = (1, 3, 5, 6)


def model(op: str) -> bytes:
    b = ModelBuilder()
    return b.build([b.op(op, [b.input(SHAPE)], [SHAPE])])


@pytest.mark.parametrize("layout", ["bhwc", "phwc4"])
def test_the_output_of_one_model_is_the_input_of_the_next(layout: Any, app: App) -> None:
    texels = 15 * -(-SHAPE[3] // 4)
    buffer = app.buffer(16 * texels)
    with gd.GpuDelegate(context=app.egl) as other:
        first, second = app.interpreter(model("NEG")), allocated(other, model("EXP"))
        app.delegate.bind_buffer_to_tensor(1, buffer, layout=layout)
        other.bind_buffer_to_tensor(0, buffer, layout=layout)
        for seed in (0, 1):
            x = np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)
            first.set_tensor(0, x)
            first.invoke()
            second.invoke()
            np.testing.assert_allclose(second.get_tensor(1), np.exp(-x), rtol=1e-5)
