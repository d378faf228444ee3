"""MediaPipe's custom ops against XNNPACK, the only one of LiteRT's kernels that has them."""

import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from numpy.typing import NDArray
from PIL import Image

from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from tests.support.oracle import assert_close, run, run_gles
from tests.support.sketch import Dims, Sketch

SAME, VALID = 1, 2


def run_xnnpack(content: bytes, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    interpreter = LiteRt(model_content=content)
    interpreter.allocate_tensors()
    return run(interpreter, inputs)


def check(s: Sketch, outputs: Sequence[int]) -> None:
    content = s.build(outputs)
    assert_close(run_gles(content, s.feeds), run_xnnpack(content, s.feeds))


WINDOWS = [
    (kernel, stride)
    for kernel in [(1, 1), (2, 2), (3, 3), (5, 2), (4, 4)]
    for stride in [(1, 1), (2, 2), (3, 2)]
    if kernel >= stride  # XNNPACK does not accept others
]


@pytest.mark.parametrize("channels", [(1, 1), (3, 5), (8, 8), (16, 2)])
@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize(("kernel", "stride"), WINDOWS)
def test_convolution_2d_transpose_bias(
    kernel: Dims, stride: Dims, padding: int, channels: tuple[int, int]
) -> None:
    s = Sketch(np.random.default_rng(0))
    depth, out = channels
    size = [
        n * step + max(width - step, 0) * (padding == VALID)
        for n, width, step in zip((5, 4), kernel, stride, strict=True)
    ]
    inputs = [
        s.feed((1, 5, 4, depth)),
        s.constant(s.normal((out, *kernel, depth))),
        s.constant(s.normal((out,))),
    ]
    options = struct.pack("<3i", padding, stride[1], stride[0])
    y = s.op("Convolution2DTransposeBias", inputs, [(1, *size, out)], custom_options=options)
    check(s, [y])


def pooled_and_back(image: Dims, window: Dims, channels: int) -> tuple[Sketch, list[int]]:
    s = Sketch(np.random.default_rng(0))
    options = struct.pack("<8i", SAME, window[1], window[0], window[1], window[0], 0, 0, 0)
    pooled = [-(-n // size) for n, size in zip(image, window, strict=True)]
    values, indices = s.tensor((1, *pooled, channels)), s.tensor((1, *pooled, channels))
    x = s.feed((1, *image, channels))
    s.op("MaxPoolingWithArgmax2D", [x], [values, indices], custom_options=options)
    whole = [n * size for n, size in zip(pooled, window, strict=True)]
    unpool = struct.pack("<8i", VALID, window[1], window[0], window[1], window[0], 0, 0, 0)
    y = s.op("MaxUnpooling2D", [values, indices], [(1, *whole, channels)], custom_options=unpool)
    return s, [values, y]


@pytest.mark.parametrize("channels", [1, 3, 8, 18])
@pytest.mark.parametrize("window", [(2, 2), (3, 2), (3, 4)])
@pytest.mark.parametrize("image", [(6, 8), (7, 5), (4, 9)])
def test_pooling_and_back(image: Dims, window: Dims, channels: int) -> None:
    check(*pooled_and_back(image, window, channels))


def check_model(content: bytes, picture: NDArray[np.float32]) -> None:
    (reference,), (actual,) = run_xnnpack(content, [picture]), run_gles(content, [picture])
    scale = float(np.abs(reference).max())
    np.testing.assert_allclose(actual, reference, rtol=0, atol=1e-4 * scale)


def test_hair_segmentation(real_model: Callable[[str], bytes]) -> None:
    """On noise: among pixels that are equal but for rounding, any may be the maximum."""
    picture = np.random.default_rng(0).uniform(0, 1, (1, 512, 512, 4))
    check_model(real_model("hair_segmentation"), picture.astype(np.float32))


def test_selfie_segmenter(
    real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    picture = np.asarray(Image.open(real_picture("face.jpg")).resize((256, 256)), np.float32)
    check_model(real_model("selfie_segmenter"), picture[np.newaxis] / 255)


def unpooled(shape: Dims, padding: int) -> tuple[Sketch, int, NDArray[np.float32]]:
    """LiteRT's Python interpreter does not have it; its source is the reference."""
    batch, height, width, channels = shape
    size = (2 * height, 2 * width + (padding == VALID))
    s = Sketch(np.random.default_rng(0))
    x = s.normal(shape)
    count = size[0] * size[1] * channels
    indices = s.rng.integers(0, count, shape)  # some of them several times
    inputs = [s.feed(values=x), s.feed(values=indices, dtype="int32")]
    options = struct.pack("<5i", padding, 2, 2, 3, 2)
    y = s.op("LiteRtMaxUnpooling2D", inputs, [(batch, *size, channels)], custom_options=options)
    expected = np.zeros((batch, count), np.float32)
    for image in range(batch):
        for value, index in zip(x[image].ravel(), indices[image].ravel(), strict=True):
            expected[image, index] = value
    return s, y, expected.reshape(batch, *size, channels)


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize("shape", [(1, 8, 8, 128), (2, 2, 4, 2), (3, 5, 4, 7)])
def test_unpooling_by_index(shape: Dims, padding: int) -> None:
    s, y, expected = unpooled(shape, padding)
    (actual,) = run_gles(s.build([y]), s.feeds)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("dtype", "indices", "sizes", "reason"),
    [
        ("int64", (1, 2, 2, 4), (2, 2, 3, 2), "int64 .* to unpool"),
        ("int32", (1, 2, 2, 3), (2, 2, 3, 2), "int32 .* to unpool"),
        ("int32", (1, 2, 2, 4), (0, 2, 3, 2), "strides of .*0.* and windows of"),
        ("int32", (1, 2, 2, 4), (2, 2, 0, 2), "strides of .* and windows of .*0"),
    ],
)
def test_an_unpooling_that_cannot_be(
    dtype: str, indices: Dims, sizes: tuple[int, ...], reason: str
) -> None:
    s = Sketch(np.random.default_rng(0))
    inputs = [s.input((1, 2, 2, 4)), s.input(indices, dtype)]
    options = struct.pack("<5i", SAME, *sizes)
    y = s.op("LiteRtMaxUnpooling2D", inputs, [(1, 4, 4, 4)], custom_options=options)
    lowered = lower_graph(read_model(s.build([y])), Limits())
    assert re.search(reason, lowered.reasons[0])
