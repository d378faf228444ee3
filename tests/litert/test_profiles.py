"""The kernels of each profile, on whatever device there is, against LiteRT's CPU kernels."""

from __future__ import annotations

import pytest

import gles_delegate as gd
from gles_delegate.device import profiles
from tests.op_table import CASES, Case, sample
from tests.support.force import force_profile
from tests.support.oracle import assert_close, assert_sane, in_ours, run, run_litert
from tests.support.sampling import choose, drawn

pytestmark = pytest.mark.usefixtures("gl", "floor")

OPS = (
    *("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "BATCH_MATMUL"),
    *("AVERAGE_POOL_2D", "MAX_POOL_2D", "SUM", "REDUCE_MAX"),
)
CASES_OF_ALL = sample([case for case in CASES if case.op in OPS], 60, seed=0)
SAMPLE = choose("by profile", CASES_OF_ALL, drawn(CASES_OF_ALL, len(CASES_OF_ALL) // 3))


@pytest.mark.parametrize("name", profiles.NAMED)
def test_kernels_of_a_profile(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    force_profile(monkeypatch, profiles.NAMED[name])
    context = gd.EglContext()
    try:
        for case in SAMPLE:
            check(case, context)
    finally:
        context.release()


def check(case: Case, context: gd.EglContext) -> None:
    content, inputs = case.build()
    options = gd.GpuDelegateOptions(require_full_delegation=True)
    with gd.GpuDelegate(options, context=context) as delegate:
        actual = run(in_ours(delegate, content), inputs)
        assert_sane(delegate)
    assert_close(actual, run_litert(content, inputs), special=case.special, inputs=inputs)
