"""Products whose work groups load what they multiply into shared memory."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.device import profiles
from gles_delegate.device.limits import Limits
from gles_delegate.kernels import depthwise, tiles
from gles_delegate.ops.lib.window import span
from gles_delegate.runtime import tuning
from tests.support.force import force_profile
from tests.support.small import allocated
from tests.support.tflite_builder import ModelBuilder, quantization

BLOCKS = sorted({block for blocks in profiles.NVIDIA.blocks for block in blocks})
PROFILE = replace(
    profiles.NVIDIA, weight_pairs=(True,), weight_bytes=(1 << 20,), shared_sums=(False,)
)
"""Weights are packed in every way, and sums are added in one order."""
SIZES = [(1, 8, 16, 64), (2, 9, 13, 20), (3, 50, 7, 8), (1, 16, 15, 35)]
WINDOW_BLOCKS = sorted({block for blocks in profiles.NVIDIA.window_blocks for block in blocks})
WINDOWS: list[tuple[tuple[int, ...], tuple[int, int], str, bool, dict[str, Any]]] = [
    ((1, 8, 16, 64), (3, 3), "float32", False, {}),
    ((2, 19, 26, 20), (3, 3), "float16", True, dict(stride_h=2, stride_w=2)),
    ((1, 25, 9, 35), (2, 5), "int8", False, dict(padding="VALID", stride_h=3)),
    ((1, 16, 15, 8), (3, 3), "int4", False, dict(dilation_h_factor=2, dilation_w_factor=3)),
    ((3, 11, 7, 4), (7, 7), "float32", True, {}),
]
"""The input's size, the window's, the type of the weights, half storage, and other options."""


def convolution(
    size: tuple[int, ...],
    outputs: int,
    weights: str,
    window: tuple[int, int] = (1, 1),
    groups: int = 1,
    after: bool = False,
    **changes: Any,
) -> bytes:
    """A convolution, or with `after` one of RSQRT of a depthwise one with this window."""
    builder, rng = ModelBuilder(), np.random.default_rng(2)
    channels = size[-1]
    first_weights = rng.uniform(0.5, 1, (1, *window, channels)).astype(np.float32)
    shape = (outputs, *((1, 1) if after else window), channels // groups)
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
    options: dict[str, Any] = dict(padding="SAME", fused_activation_function="RELU6")
    options |= dict(stride_h=1, stride_w=1, dilation_h_factor=1, dilation_w_factor=1) | changes
    same, out = options["padding"] == "SAME", [size[0]]
    for side, length, taps in zip("hw", size[1:3], window, strict=True):
        steps = options[f"stride_{side}"], options[f"dilation_{side}_factor"]
        out.append(span(length, taps, *steps, same, False)[0])
    x = builder.input(size)
    if after:
        inputs = [
            x,
            builder.constant(first_weights),
            builder.constant(np.full(channels, 99, np.float32)),
        ]
        first, seen = options | dict(depth_multiplier=1), (*out, channels)
        del first["fused_activation_function"]
        x = builder.op("DEPTHWISE_CONV_2D", inputs, [seen], **first)
        x = builder.op("RSQRT", [x], [seen])
        options |= dict(stride_h=1, stride_w=1)
    return builder.build([builder.op("CONV_2D", [x, w, bias], [(*out, outputs)], **options)])


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
    content: bytes,
    block: tuple[int, ...],
    patch: pytest.MonkeyPatch,
    is_alone: bool = False,
    **options: Any,
) -> None:
    """The product by blocks has the bits of the one by tiles of an invocation.

    With `is_alone` no other dispatch computes.
    """
    results = []
    for choice in (0, 1):
        blocks = ((), (block,))
        force_profile(patch, replace(PROFILE, blocks=blocks, window_blocks=blocks))
        patch.setattr(tiles, "MAX_COMPUTED", 1 << 20)
        patch.setattr(depthwise, "MAX_BLOCK_LOADS", 1 << 20)
        patch.setattr(tuning, "tune", lambda lowered, nodes, *_, c=choice: dict.fromkeys(nodes, c))
        result, plan = run(content, **options)
        group = "groups of {}x{},".format(*block[2:])
        by_blocks = group in plan if "batch_matmul" in plan else "block_product" in plan
        assert by_blocks == (choice == 1)
        assert not (by_blocks and is_alone and "depthwise_conv_2d" in plan)
        results.append(result)
    # A fused depthwise result is not rounded to float16.
    rounding = 0.01 if is_alone and options["precision_loss_allowed"] else 0
    np.testing.assert_allclose(*results, rtol=rounding, atol=rounding)
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


@pytest.mark.parametrize("case", WINDOWS, ids=str)
@pytest.mark.parametrize("block", WINDOW_BLOCKS, ids=str)
def test_a_window_by_blocks_has_the_same_bits(
    block: tuple[int, ...],
    case: tuple[tuple[int, ...], tuple[int, int], str, bool, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size, window, weights, half, options = case
    content = convolution(size, 67, weights, window, **options)
    check(content, block, monkeypatch, precision_loss_allowed=half)


@pytest.mark.parametrize("case", WINDOWS, ids=str)
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_depthwise_convolution_by_blocks_has_the_same_bits(
    block: tuple[int, ...],
    case: tuple[tuple[int, ...], tuple[int, int], str, bool, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And zero in the lanes without channels, of which RSQRT would be infinite."""
    size, window, weights, half, options = case
    outputs = 4 * block[1] * block[3] - 5  # the last lane has no channel
    content = convolution(size, outputs, weights, window, after=True, **options)
    check(content, block, monkeypatch, is_alone=True, precision_loss_allowed=half)


@pytest.mark.parametrize("window", [(1, 1), (3, 3)], ids=str)
def test_groups_that_share_slices_by_blocks_have_the_same_bits(
    window: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = convolution((1, 16, 16, 30), 30, "float32", window, groups=3)
    check(content, (4, 1, 8, 16), monkeypatch)


def test_of_several_blocks_that_computes_least_in_vain() -> None:
    limits = Limits(shared_bytes=49152, invocations=1024, profile=profiles.NVIDIA)

    def block(pixels: int, channels: int, choice: int = 3) -> tuple[int, ...]:
        slices = channels // 4
        tile = tiles.Tile.of_block(pixels, slices, slices, limits, choice, taps=9)
        return (tile.pixels, tile.slices, *tile.block, tile.depth) if tile else ()

    assert block(512 * 512, 64) == block(64 * 64, 256) == block(40 * 40, 64) == (8, 2, 128, 16, 4)
    assert block(1080 * 1920, 32) == (8, 2, 256, 8, 4)
    assert block(1080 * 1920, 16) == (8, 2, 512, 4, 4)
    assert block(4 * 4, 64) == ()


def test_small_blocks_keep_more_cores_busy_and_long_sums_of_few_pixels_have_none() -> None:
    """Fastest on an H200, of those tried."""
    limits = Limits(shared_bytes=49152, invocations=1024, profile=profiles.NVIDIA)

    def block(size: int, inputs: int, outputs: int, window: int = 1) -> tuple[int, ...]:
        taps = window * window if window > 1 else 0
        sizes = size * size, outputs // 4, inputs // 4
        tile = tiles.Tile.of_block(*sizes, limits, 0, taps)
        return (tile.pixels, tile.slices, *tile.block) if tile else ()

    large, small, narrow = (8, 1, 64, 16), (4, 1, 64, 8), (4, 1, 128, 4)
    assert block(256, 64, 64) == block(128, 64, 64) == block(64, 256, 256) == large
    assert block(14, 512, 512) == block(28, 256, 256) == block(7, 512, 1024) == small
    assert block(33, 480, 80) == block(16, 128, 32) == block(10, 384, 256) == small
    assert block(33, 96, 16) == block(65, 72, 12) == narrow
    assert block(7, 1024, 1024) == block(4, 512, 64) == ()
    assert block(128, 64, 64, 3) == block(512, 64, 64, 3) == (8, 2, 64, 16)
    assert block(256, 32, 32, 3) == (8, 2, 128, 8)
    assert block(192, 32, 16, 3) == block(512, 16, 16, 3) == block(80, 16, 16, 3) == narrow
    for size, inputs, outputs in ((96, 32, 32), (80, 64, 64), (40, 64, 80), (32, 256, 256)):
        assert block(size, inputs, outputs, 3) == small
    assert block(20, 64, 64, 3) == block(10, 128, 128, 3) == block(512, 16, 8, 3) == ()


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
