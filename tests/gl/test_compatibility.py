"""The self-test of a driver."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

import gles_delegate as gd
from gles_delegate import compatibility
from gles_delegate.bench.device import half_slowdown
from gles_delegate.gl.context import GpuContext
from gles_delegate.profiles import UNKNOWN
from gles_delegate.runtime.session import Session
from tests.support.force import force_limits

pytestmark = pytest.mark.usefixtures("gl")


def test_a_wrong_driver_is_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    right = gd.CompatibilityList()
    assert right.is_delegate_supported_on_this_device
    if "llvmpipe" in right.renderer:
        best = right.best_options_for_this_device()
        assert best == gd.GpuDelegateOptions(precision_loss_allowed=False)
    read = Session.read

    def wrong(self: Session, index: int, array: Any) -> None:
        read(self, index, array)
        array += 1

    monkeypatch.setattr(Session, "read", wrong)
    actual = gd.CompatibilityList()
    assert not actual.is_delegate_supported_on_this_device
    assert "computes wrong results (FAILED: CONCATENATION, off by" in actual.reason


@pytest.mark.parametrize(("times", "recommended"), [(0.6, True), (1.2, False), (inf, False)])
def test_half_storage_is_recommended_where_it_is_right_and_faster(
    times: float, recommended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faster is what takes less time on the device."""
    force_limits(monkeypatch, profile=UNKNOWN, buffer_texels=0)
    tested = gd.CompatibilityList(0)
    measured: list[float] = []

    def slowdown(gpu: GpuContext) -> float:
        measured.append(half_slowdown(gpu))
        return times

    monkeypatch.setattr(compatibility, "half_slowdown", slowdown)
    best = tested.best_options_for_this_device()
    assert best == gd.GpuDelegateOptions(precision_loss_allowed=recommended, device_index=0)
    assert [0 < ratio < inf for ratio in measured] == [True]
