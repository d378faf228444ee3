"""Products whose work groups load what they multiply into shared memory."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.device import profiles
from gles_delegate.runtime import tuning
from tests.support.force import force_profile
from tests.support.small import allocated
from tests.support.tflite_builder import ModelBuilder, quantization

BLOCKS = [block for block in profiles.NVIDIA.blocks if block]
PROFILE = replace(
    profiles.NVIDIA, weight_pairs=(True,), weight_bytes=(1 << 20,), shared_sums=(False,)
)
"""Weights are packed in every way, and sums are added in one order."""
SIZES = [(1, 8, 16, 64), (2, 9, 13, 20), (3, 50, 7, 8), (1, 16, 15, 35)]


def convolution(size: tuple[int, ...], outputs: int, weights: str) -> bytes:
    builder, rng = ModelBuilder(), np.random.default_rng(2)
    shape = (outputs, 1, 1, size[-1])
    numbers = rng.integers(-7, 8, shape).astype(np.int8)
    by_channel = quantization(rng.uniform(0.01, 0.02, outputs))
    if weights == "int8":
        w = builder.constant(numbers, quantization=by_channel)
    elif weights == "int4":
        w = builder.small(numbers, "int4", quantization=by_channel)
    else:
        w = builder.constant(rng.standard_normal(shape).astype(weights))
        if weights == "float16":
            w = builder.op("DEQUANTIZE", [w], [builder.tensor(shape)])
    bias = builder.constant(rng.standard_normal(outputs).astype(np.float32))
    options = dict(padding="SAME", stride_w=1, stride_h=1, fused_activation_function="RELU6")
    y = builder.op("CONV_2D", [builder.input(size), w, bias], [(*size[:-1], outputs)], **options)
    return builder.build([y])


def product(a: tuple[int, ...], b: tuple[int, ...], **options: bool) -> bytes:
    """A product of two tensors of these shapes, or of their adjoints."""
    builder = ModelBuilder()
    shapes = [
        (*shape[:-2], *shape[:-3:-1]) if options.get(name) else shape
        for name, shape in (("adj_x", a), ("adj_y", b))
    ]
    inputs = [builder.input(shape) for shape in shapes]
    size = (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
    return builder.build([builder.op("BATCH_MATMUL", inputs, [size], **options)])


def run(content: bytes, **options: Any) -> tuple[NDArray[Any], str]:
    """The result for random inputs, and the plan."""
    preference = gd.InferencePreference.SUSTAINED_SPEED
    options = dict(inference_preference=preference, **options)
    with gd.GpuDelegate(gd.GpuDelegateOptions(**options)) as delegate:
        interpreter = allocated(delegate, content)
        rng = np.random.default_rng(3)
        for detail in interpreter.get_input_details():
            values = rng.standard_normal(detail["shape"]).astype(np.float32)
            interpreter.set_tensor(detail["index"], values)
        interpreter.invoke()
        (y,) = interpreter.get_output_details()
        return interpreter.get_tensor(y["index"]), str(delegate.profile())


def check(
    content: bytes, block: tuple[int, ...], patch: pytest.MonkeyPatch, **options: Any
) -> None:
    """The product by blocks has the bits of the one by tiles of an invocation."""
    results = []
    for choice in (0, 1):
        force_profile(patch, replace(PROFILE, blocks=((), block)))
        patch.setattr(tuning, "tune", lambda lower, nodes, *_, c=choice: dict.fromkeys(nodes, c))
        result, plan = run(content, **options)
        assert ("groups of {}x{},".format(*block[2:]) in plan) == (choice == 1)
        results.append(result)
    np.testing.assert_array_equal(*results)
    assert np.ptp(results[0]) > 1


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("weights", ["float32", "float16", "int8", "int4"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_convolution_by_blocks_has_the_same_bits(
    block: tuple[int, ...],
    size: tuple[int, ...],
    weights: str,
    half: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = convolution(size, 123, weights)
    check(content, block, monkeypatch, precision_loss_allowed=half)


@pytest.mark.parametrize("adjoint", [{}, {"adj_x": True}, {"adj_y": True}], ids=str)
@pytest.mark.parametrize(
    ("a", "b"),
    [((64, 32), (32, 64)), ((2, 3, 100, 37), (3, 37, 90)), ((5, 100, 17), (1, 17, 126))],
    ids=str,
)
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_product_of_tensors_by_blocks_has_the_same_bits(
    block: tuple[int, ...],
    a: tuple[int, ...],
    b: tuple[int, ...],
    adjoint: dict[str, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check(product(a, b, **adjoint), block, monkeypatch)
