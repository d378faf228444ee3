"""Every form of the kernels of every profile, on whatever device there is, beside LiteRT's."""

from dataclasses import replace

import numpy as np
import pytest

from gles_delegate.device.profiles import LLVMPIPE
from gles_delegate.gl.context import GpuContext
from gles_delegate.verification.check import verified
from tests.op_table import CASES, Case, sample
from tests.support import sampling
from tests.support.force import force_profile, forms_of_profiles
from tests.support.oracle import assert_close, complete, run_gles, run_litert
from tests.support.sketch import Sketch
from tests.support.verification import built

pytestmark = pytest.mark.usefixtures("floor")

CONVOLUTIONS = (
    *("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "CONV_3D", "CONV_3D_TRANSPOSE"),
    *("FULLY_CONNECTED", "BATCH_MATMUL"),
)
OTHERS = ("AVERAGE_POOL_2D", "MAX_POOL_2D", "SUM", "REDUCE_MAX")


def cases_of(*ops: str) -> list[Case]:
    """The op table's cases of these ops, with every element type."""
    return [case for case in CASES if case.op.partition(" ")[0] in ops]


EVERY = [*cases_of(*CONVOLUTIONS), *sample(cases_of(*OTHERS), 20, seed=0)]
SAMPLE = EVERY if sampling.fresh else sample(EVERY, 60 if sampling.everything else 10)
sampling.counts["by profile"] = len(SAMPLE), len(EVERY)


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.id)
def test_every_form_of_every_profile_is_right(case: Case, gpu: GpuContext) -> None:
    """Each distinct plan once; its dispatches write what they should."""
    fits_half = not case.special and "16-bit" not in case.op  # float16 has 11 bits, up to 65504
    verification = replace(built(case), half=fits_half)
    with gpu.guard():
        results = [*verified(gpu, [verification], forms_of_profiles(gpu.limits))]
    assert results
    assert [result for result in results if not result.passed] == []


@pytest.mark.parametrize(("window", "multiplier"), [((2, 5), 1), ((3, 3), 2)])
def test_a_depthwise_window_tap_by_tap(
    window: tuple[int, int], multiplier: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is wider than a run's columns, and one whose pixels are read in pieces."""
    force_profile(monkeypatch, replace(LLVMPIPE, columns=3, by_taps=True))
    s = Sketch(np.random.default_rng(0))
    weights, biases = s.normal((1, *window, 6 * multiplier)), s.normal((6 * multiplier,))
    y = s.op(
        "DEPTHWISE_CONV_2D", [s.feed((2, 7, 9, 6)), s.constant(weights), s.constant(biases)],
        stride_h=1, stride_w=2, depth_multiplier=multiplier, padding="SAME",
    )  # fmt: skip
    content = complete(s, [y])
    assert_close(run_gles(content, s.feeds), run_litert(content, s.feeds))
