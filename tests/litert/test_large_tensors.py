"""Tensors larger than a storage block, and more work groups than fit along an axis."""

import numpy as np
import pytest

import gles_delegate as gd
from tests.op_table import CASES, Case, sample
from tests.support.force import force_limits
from tests.support.oracle import assert_close, assert_sane, in_ours, run, run_gles, run_litert
from tests.support.sampling import choose
from tests.support.small import small_model
from tests.support.tflite_builder import ModelBuilder

WITHOUT_STORE = ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "TFLite_Detection_PostProcess")
"""Ops whose shaders read and write their own storage block, which is never large."""

WITH_STORE = [case for case in CASES if case.op not in WITHOUT_STORE]
SOME = sample(WITH_STORE, 1200, seed=0)
SAMPLE = choose("large tensors", SOME, sample(SOME, 100))


def check(case: Case, context: gd.EglContext) -> bool:
    """Whether the GPU takes the model, whose results are then LiteRT's."""
    content, inputs = case.build()
    options = gd.GpuDelegateOptions(require_full_delegation=True)
    with gd.GpuDelegate(options, context=context) as delegate:
        try:
            interpreter = in_ours(delegate, content)
        except gd.UnsupportedModelError as error:
            if not ("bytes" in str(error) or "work groups" in str(error)):
                raise
            return False
        ours = run(interpreter, inputs)
        assert_sane(delegate)
    reference = run_litert(content, inputs)
    assert_close(ours, reference, special=case.special, steps=case.steps, inputs=inputs)
    return True


@pytest.mark.parametrize("first", range(8))
def test_ops(first: int, egl: gd.EglContext, monkeypatch: pytest.MonkeyPatch) -> None:
    with gd.GpuDelegate(context=egl) as delegate:
        in_ours(delegate, small_model())
        if not delegate.gpu.limits.large_texels:
            pytest.skip("the driver has no buffer textures")
    force_limits(monkeypatch, block_bytes=128)
    cases = SAMPLE[first::8]
    assert sum(check(case, egl) for case in cases) > 0.9 * len(cases)


@pytest.mark.parametrize("shape", [(1, 5003), (3, 5000), (700, 11)])
@pytest.mark.parametrize("op", ["ADD", "CONCATENATION", "PAD", "TRANSPOSE", "CUMSUM"])
def test_slices_beyond_a_grid(
    op: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices or pixels have more work groups than an axis allows."""
    force_limits(monkeypatch, groups=(5, 5, 65535), invocations=64, local_size=(64, 64, 64))
    b = ModelBuilder()
    x, out = b.input(shape), [b.tensor()]
    inputs = {
        "CONCATENATION": [x, b.constant(np.ones((shape[0], shape[1] // 5), np.float32)), x],
        "PAD": [x, b.constant(np.array([[0, 0], [shape[1] // 9, 3]], np.int32))],
        "TRANSPOSE": [x, b.constant(np.array([1, 0], np.int32))],
        "CUMSUM": [x, b.constant(np.int32(0))],
    }.get(op, [x, x])
    options = {"axis": 1} if op == "CONCATENATION" else {}
    content = b.build([b.op(op, inputs, out, **options)])
    array = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape) % 4093
    (ours,), (theirs,) = run_gles(content, [array]), run_litert(content, [array])
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("first", range(8))
def test_grids(first: int, egl: gd.EglContext, monkeypatch: pytest.MonkeyPatch) -> None:
    force_limits(monkeypatch, groups=(5, 5, 65535), invocations=64, local_size=(64, 64, 64))
    cases = SAMPLE[first::8]
    assert sum(check(case, egl) for case in cases) > 0.9 * len(cases)
