"""The self-test of a driver."""

from __future__ import annotations

from typing import Any

import pytest

import gles_delegate as gd
from gles_delegate.profiles import UNKNOWN
from gles_delegate.runtime.session import Session
from tests.support.force import force_limits

pytestmark = pytest.mark.usefixtures("gl")


def test_a_wrong_driver_is_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    right = gd.CompatibilityList()
    assert right.is_delegate_supported_on_this_device
    assert right.best_options_for_this_device == gd.GpuDelegateOptions(
        precision_loss_allowed="llvmpipe" not in right.renderer
    )
    read = Session.read

    def wrong(self: Session, index: int, array: Any) -> None:
        read(self, index, array)
        array += 1

    monkeypatch.setattr(Session, "read", wrong)
    actual = gd.CompatibilityList()
    assert not actual.is_delegate_supported_on_this_device
    assert "computes wrong results (FAILED: matrix product, off by" in actual.reason


def test_half_storage_is_recommended_where_it_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    force_limits(monkeypatch, profile=UNKNOWN, buffer_texels=0)
    best = gd.CompatibilityList(0).best_options_for_this_device
    assert best == gd.GpuDelegateOptions(precision_loss_allowed=True, device_index=0)
