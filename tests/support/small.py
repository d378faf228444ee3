"""A model of a few programs, an input for it, and what comes out."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gles_delegate as gd
from tests.support.sketch import Sketch
from tests.support.tflite_builder import ModelBuilder

Floats = NDArray[np.float32]
_RNG = np.random.default_rng(0)
_WEIGHTS = _RNG.standard_normal((7, 5)).astype(np.float32)
INPUT: Floats = _RNG.standard_normal((3, 5)).astype(np.float32)


@cache
def small_model() -> bytes:
    """relu(x @ w.T) squared: one program between views of the input and of the output."""
    builder = ModelBuilder()
    x = builder.input((3, 5), name="x")
    inputs = [x, builder.constant(_WEIGHTS), builder.constant(np.zeros(7, np.float32))]
    y = builder.op("FULLY_CONNECTED", inputs, [(3, 7)], fused_activation_function="RELU")
    z = builder.op("MUL", [y, y], [(3, 7)])
    return builder.build([z], signatures={"serve": ({"x": x}, {"y": z})})


@cache
def tiny_model() -> bytes:
    """RELU of four numbers: one program."""
    builder = ModelBuilder()
    return builder.build([builder.op("RELU", [builder.input((1, 4))], [(1, 4)])])


def means() -> bytes:
    """The mean color of pictures [1, 4, 4, 3]."""
    b = ModelBuilder()
    x = b.input((1, 4, 4, 3), name="picture")
    y = b.tensor((1, 3), name="color")
    b.op("MEAN", [x, b.constant(np.int32([1, 2]))], [y])
    return b.build([y])


def picture_classifier(seed: int = 0) -> bytes:
    """Pictures [1, 8, 8, 3] to the scores of five classes."""
    s = Sketch(np.random.default_rng(seed))
    x = s.input((1, 8, 8, 3), name="picture")
    weights = [s.constant(s.normal((5, 3, 3, 3))), s.constant(s.normal((5,)))]
    y = s.op("CONV_2D", [x, *weights], [(1, 8, 8, 5)], padding="SAME", stride_w=1, stride_h=1,
             dilation_w_factor=1, dilation_h_factor=1)  # fmt: skip
    y = s.op("MEAN", [y, s.constant(np.int32([1, 2]))], [(1, 5)])
    return s.build([s.op("SOFTMAX", [y], [s.tensor((1, 5), name="scores")], beta=1.0)])


def with_a_detour() -> tuple[Sketch, bytes]:
    """RELU, EXP; a CAST to float64 and back, which the GPU does not take; ADD of both, TANH."""
    shape = (2, 5, 3)
    s = Sketch(np.random.default_rng(3))
    x = s.op("EXP", [s.op("RELU", [s.feed(shape)], [shape])], [shape])
    whole = s.op("CAST", [x], [s.tensor(shape, np.float64)])
    y = s.op("CAST", [whole], [s.tensor(shape)])
    return s, s.build([s.op("TANH", [s.op("ADD", [x, y], [shape])], [shape])])


def expected(x: Floats = INPUT) -> Floats:
    return np.square(np.maximum(x @ _WEIGHTS.T, 0))


def allocated(delegate: gd.GpuDelegate, content: bytes | None = None) -> gd.Interpreter:
    """Our interpreter of a model, by default `small_model`; tensors are allocated."""
    content = content or small_model()
    interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    return interpreter


def run(interpreter: gd.Interpreter, x: Floats = INPUT) -> Any:
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def check(interpreter: gd.Interpreter, x: Floats = INPUT) -> None:
    np.testing.assert_allclose(run(interpreter, x), expected(x), rtol=1e-5, atol=1e-5)
