"""Each guard of a shader, taken out: the check of writes, or a wrong result, shows it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pytest

from gles_delegate.device.profiles import UNKNOWN, Profile
from gles_delegate.gl.context import GpuContext
from gles_delegate.verification.cases import VerificationCase, load_cases
from gles_delegate.verification.check import CaseResult, Form, verified
from tests.litert.test_custom_ops import VALID, pooled_and_back, run_xnnpack, unpooled
from tests.litert.test_landmarks import cropped
from tests.litert.test_normalization import Net, as_torch
from tests.op_table import CASES
from tests.support.guards import GLSL, Guard, guards
from tests.support.oracle import complete, run_litert
from tests.support.sketch import Sketch
from tests.support.verification import built

GUARDS = guards()
TABLE = {case.id: case for case in CASES}
OF_THE_PACKAGE = {case.name: case for case in load_cases()}
CASES_OF: dict[str, tuple[str, ...]] = {
    "arg_max": ("ARG_MAX x=7, axis=-1 kind=float32", "ARG_MAX x=3x5 axis=-2 kind=float32"),
    "batch_matmul": ("BATCH_MATMUL a=5x7 b=7x6 adj_x=False adj_y=False",),
    "bucketize": ("BUCKETIZE x=()", "BUCKETIZE x=9, boundaries=()"),
    "candidates": ("NON_MAX_SUPPRESSION_V4 boxes=20 runtime=3x4",),
    "claim": ("unpooled",),
    "claimed": ("unpooled",),
    "complex_abs": ("AudioSpectrogram x=500x1 size=64 stride=70",),
    "conv_3d": (
        "CONV_3D x=1x3x1x9x2 out=18 kernel=2x1x2",
        "CONV_3D x=2x3x4x5x1 out=1 kernel=2x2x2",
    ),
    "cosine_transform": ("Mfcc x=3x5x513 count=40",),
    "cumsum": (
        "CUMSUM x=7, axis=-1 kind=float32 exclusive=False reverse=False",
        "CUMSUM x=3x5 axis=-2 kind=float32 exclusive=False reverse=False",
    ),
    "decode_boxes": ("TFLite_Detection_PostProcess boxes=1 labels=1",),
    "depthwise_conv_2d": ("DEPTHWISE_CONV_2D x=1x5x6x3 multiplier=3",),
    "detections": ("NON_MAX_SUPPRESSION_V4 boxes=20 runtime=3x4",),
    "dynamic_update_slice": ("DYNAMIC_UPDATE_SLICE x=3x7x18 update=2x3x7 at=1x2x9",),
    "elementwise": ("GRAPH of=squeeze_and_excite",),
    "fft_real": ("AudioSpectrogram x=500x1 size=64 stride=70",),
    "fft_stage": ("AudioSpectrogram x=500x1 size=3 stride=2",),
    "gather": ("EMBEDDING_LOOKUP x=7x5 count=4", "GATHER_ND x=2x3x4x5 at=3,"),
    "gru_step": ("GRAPH of=gru_in_a_loop",),
    "interpolated": (
        "LOG (16-bit) x=(), dtype=int16 scales=0.0005x0.00031x0.0007",
        "LOG (16-bit) x=7,, dtype=int16 scales=0.0005x0.00031x0.0007",
    ),
    "l2_normalization": ("L2_NORMALIZATION x=1,",),
    "landmarks_to_transform_matrix": ("Landmarks2TransformMatrix",),
    "lib/lstm": ("LSTM (full) x=1x4 units=1",),
    "lib/product": ("FULLY_CONNECTED x=3x12 runtime_weights=True bias=False",),
    "local_response_normalization": ("LOCAL_RESPONSE_NORMALIZATION x=1x3x2x33 radius=0",),
    "lstm": ("LSTM x=3x6 units=6 runtime_weights=True", "LSTM x=1x1 units=5"),
    "lstm_sums": ("LSTM (full) x=3x7 units=6 features=cifgxnormxprojection outputs=3",),
    "matrix_diag": ("MATRIX_DIAG x=3x9",),
    "max_unpooling_2d": ("pooled and back",),
    "mel_bands": ("Mfcc x=1x9x257 runtime=True", "Mfcc x=1x4x129 bands=23 high=8100"),
    "multinomial": ("MULTINOMIAL x=1x1 count=1", "MULTINOMIAL x=1x1 count=7"),
    "non_max_suppression": ("NON_MAX_SUPPRESSION_V4 boxes=20 runtime=3x4",),
    "normalize": ("normalized",),
    "one_hot": ("ONE_HOT x=2, depth=6 axis=-1", "ONE_HOT x=() depth=6 axis=-1"),
    "pack_integers": ("CAST x=(), dtype=int16 out=int64",),
    "pool_2d": (
        "AVERAGE_POOL_2D size=1x1 stride=1x1 padding=SAME",
        "AVERAGE_POOL_2D x=1x7x7x33 size=3x3 stride=2x2",
    ),
    "random": ("RANDOM_UNIFORM shape=7,",),
    "reduce": ("MEAN x=7, axes=0, keep_dims=False", "MEAN x=3x5 axes=0, keep_dims=False"),
    "reduce_window": (
        "STABLEHLO_REDUCE_WINDOW x=17, window=4, strides=3, padding=-1x2",
        "STABLEHLO_REDUCE_WINDOW x=4x3 window=2x1 dtype=int8",
    ),
    "resize_bilinear": ("RESIZE_BILINEAR x=1x3x4x18 size=3x7",),
    "resize_nearest": ("RESIZE_NEAREST_NEIGHBOR x=1x3x4x18 size=3x7",),
    "reverse_sequence": ("REVERSE_SEQUENCE x=3x7x18 seq_dim=1 batch_dim=0",),
    "rnn_step": ("RNN x=1x4 units=5",),
    "scatter": (
        "SEGMENT_SUM x=6x3x4x5 ids=0x1x2x3x4x5 dtype=float32",
        "SEGMENT_SUM x=6x3x4 ids=0x0x0x0x0x0 dtype=float32",
    ),
    "sigmoid": (
        "LOGISTIC (16-bit) x=(), dtype=int16 scales=0.0005x0.00031x0.0007",
        "LOGISTIC (16-bit) x=7,, dtype=int16 scales=0.0005x0.00031x0.0007",
    ),
    "softmax": ("LOG_SOFTMAX x=1,", "SOFTMAX x=1x1001"),
    "stablehlo_scatter": (
        "STABLEHLO_SCATTER x=9, sizes=3, at=1, axes=0,",
        "STABLEHLO_SCATTER x=5x7 sizes=1x7 axes=0, dropped=0, at=4x1 by=",
    ),
    "svdf": ("SVDF x=3x40 units=65 memory=9 rank=2",),
    "top_k": ("TOPK_V2 x=2x259 k=20",),
    "top_k_merge": ("TOPK_V2 x=2x257 k=1", "TOPK_V2 x=2x257 k=257"),
    "transform_landmarks": ("TransformLandmarks",),
    "transform_tensor_bilinear": ("cropped",),
    "transpose_conv": ("TRANSPOSE_CONV kernel=3x3 stride=2x2 padding=VALID",),
    "unpack_integers": (
        "CAST x=(), dtype=int16 out=int64",
        "RELU (16-bit) x=7,, dtype=int16 scales=0.0005x0.00031x0.0007",
    ),
    "view": ("SPACE_TO_DEPTH x=1x9x6x4 block=3",),
    "winograd_in": ("GRAPH of=feature_pyramid",),
    "winograd_out": ("GRAPH of=squeeze_and_excite", "CONV_2D out=1", "CONV_2D out=33"),
}
"""Small cases of each file with guards, whose grids have invocations beyond the results."""
SAME_NUMBERS = {
    *("gru_step.glsl", "rnn_step.glsl", "lib/lstm.glsl"),  # of the last pixel or slice
    *("reduce.glsl: pixel < OUT_PIXELS", "reduce.glsl: slice < OUT_SLICES"),
    "normalize.glsl: first < PIXEL_INVOCATION * GROUP",
    "random.glsl: PIXEL_INVOCATION > 0",
    "lib/product.glsl: REDUCTION_LANE > 0",
    "lstm_sums.glsl: gate >= CIFG",  # of a gate that nobody reads
    "non_max_suppression.glsl: blocks > 0",  # of a class of which nothing was found
    "claim.glsl: slice >= OUT_SLICES",  # none
}
"""Guards, and files with guards, without which invocations write numbers that others write, too, or
that nobody reads."""
OF_PICTURES = {"image_in.glsl", "image_out.glsl"}
EXACT = {"softmax_part"}
"""Shaders whose work groups compute one result each."""
WINOGRAD = (replace(UNKNOWN, winograd=(1,), winograd_pixels=1),)
PROFILES: dict[str, tuple[Profile, ...]] = {"winograd_in": WINOGRAD, "winograd_out": WINOGRAD}
INCLUDE = re.compile(r'#include "(.+)"')


@cache
def case_of(name: str) -> VerificationCase:
    if name in TABLE:
        return built(TABLE[name])
    if name in OF_THE_PACKAGE:
        return OF_THE_PACKAGE[name]
    sketch, outputs, results = {
        "unpooled": lambda: as_one(*unpooled((1, 1, 5, 42), VALID)),
        "cropped": lambda: as_one(*cropped((3, 7), 18, 0.3)),
        "pooled and back": lambda: (*pooled_and_back((3, 7), (3, 7), 18), None),
        "normalized": normalized,
    }[name]()
    content = sketch.build(outputs)
    results = results or run_xnnpack(content, sketch.feeds)
    return VerificationCase("", name, True, True, 1, content, (*sketch.feeds,), (*results,))


def as_one(sketch: Sketch, output: int, result: Any) -> tuple[Sketch, list[int], Any]:
    return sketch, [output], [result.astype(np.float32)]


def normalized() -> tuple[Sketch, list[int], Any]:
    net = Net((2, 3, 5, 37))
    outputs = [as_torch(net)]
    return net, outputs, run_litert(complete(net, outputs), net.feeds)


def results(guard: Guard, gpu: GpuContext) -> Iterator[CaseResult]:
    """The results of the guard's cases, in the forms that have it."""
    shader = guard.file.removesuffix(".glsl")
    base = replace(gpu.limits, buffer_texels=0, chain_blocks=0)
    forms = [
        Form(replace(base, profile=profile, store_loops=loops))
        for profile in PROFILES.get(shader, (UNKNOWN,))
        for loops in (False, True)
    ]
    yield from verified(gpu, [*map(case_of, CASES_OF[shader])], forms)


def is_same(guard: Guard) -> bool:
    return not {guard.file, str(guard)}.isdisjoint(SAME_NUMBERS)


@pytest.mark.parametrize("file", [f"{name}.glsl" for name in CASES_OF])
def test_cases_are_right(file: str, gpu: GpuContext) -> None:
    (guard, *_) = (guard for guard in GUARDS if guard.file == file)
    with gpu.guard():
        assert [result for result in results(guard, gpu) if not result.passed] == []


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_a_guard_that_is_taken_out_shows(guard: Guard, gpu: GpuContext) -> None:
    if guard.file in OF_PICTURES:
        pytest.skip("shown by tests/gl, or not to be tried")
    with gpu.guard(), guard.taken_out():
        # Of two invocations that write one place, the right one may come last.
        tries = range(1 if is_same(guard) else 5)
        found = chain.from_iterable(results(guard, gpu) for _ in tries)
        shown = next((result for result in found if not result.passed), None)
    assert (shown is None) == is_same(guard)
    if shown is not None:  # not by a shader that the driver refuses
        assert "the first is byte" in shown.failure or shown.error > shown.allowed


def test_guards_are_found() -> None:
    """In every shader, or in what it includes."""
    having = {guard.file for guard in GUARDS}

    def has_guard(file: str) -> bool:
        return file in having or any(map(has_guard, INCLUDE.findall((GLSL / file).read_text())))

    shaders = {path.name for path in GLSL.glob("*.glsl")}
    assert {file.removesuffix(".glsl") for file in shaders if not has_guard(file)} == EXACT
    assert having == {f"{name}.glsl" for name in CASES_OF} | OF_PICTURES
    assert all(any(is_same(guard) for guard in GUARDS) for _ in SAME_NUMBERS)
