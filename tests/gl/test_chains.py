"""Tensors that stay on the GPU from one model to the next."""

import moderngl
import numpy as np
import pytest

import gles_delegate as gd
from tests.support.tflite_builder import ModelBuilder

SHAPE = (1, 3, 5, 6)


def model(op: str) -> bytes:
    b = ModelBuilder()
    return b.build([b.op(op, [b.input(SHAPE)], [SHAPE])])


@pytest.mark.parametrize("layout", ["bhwc", "phwc4"])
def test_the_output_of_one_model_is_the_input_of_the_next(layout: str) -> None:
    with gd.EglContext() as context:
        ctx = moderngl.create_context(context=context, require=310)
        texels = 15 * -(-SHAPE[3] // 4)
        buffer = ctx.buffer(reserve=16 * texels)
        with gd.GpuDelegate(context=context) as one, gd.GpuDelegate(context=context) as other:
            first, second = (
                gd.Interpreter(model_content=model(op), experimental_delegates=[delegate])
                for op, delegate in (("NEG", one), ("EXP", other))
            )
            one.bind_buffer_to_tensor(1, buffer, layout=layout)
            other.bind_buffer_to_tensor(0, buffer, layout=layout)
            first.allocate_tensors()
            second.allocate_tensors()
            for seed in (0, 1):
                x = np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)
                first.set_tensor(0, x)
                first.invoke()
                second.invoke()
                np.testing.assert_allclose(second.get_tensor(1), np.exp(-x), rtol=1e-5)
