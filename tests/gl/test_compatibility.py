"""The self-test of a driver."""

import re
from copy import copy
from dataclasses import replace
from math import inf
from typing import Any

import pytest

import gles_delegate as gd
from gles_delegate.bench import compatibility
from gles_delegate.bench.kernels import half_slowdown
from gles_delegate.device.profiles import UNKNOWN
from gles_delegate.gl.context import GpuContext
from gles_delegate.runtime.session import Session
from gles_delegate.verification.cases import load_cases
from tests.support.force import force_limits
from tests.support.lies import WRONG_RSQRT, lying_driver


def test_a_right_driver_is_supported() -> None:
    right = gd.CompatibilityList()
    assert right.is_delegate_supported_on_this_device
    if "llvmpipe" in right.renderer:
        best = right.best_options_for_this_device()
        assert best == gd.GpuDelegateOptions(precision_loss_allowed=False)


def test_of_many_wrong_ops_some_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Session.read

    def wrong(self: Session, index: int, array: Any) -> None:
        read(self, index, array)
        array[...] = array == 0

    monkeypatch.setattr(Session, "read", wrong)
    monkeypatch.setattr(compatibility, "load_cases", lambda quick: load_cases(quick)[:6])
    reason = gd.CompatibilityList().reason
    assert re.search(r"computes wrong results \((\w+.*: wrong by [^;]*; ){3}\d more\)", reason)


def test_a_wrong_op_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of those that models rarely have counts, too."""
    calls: list[tuple[int, int]] = []
    with lying_driver(*WRONG_RSQRT):
        actual = gd.CompatibilityList(progress=lambda *call: calls.append(call))
    assert not actual.is_delegate_supported_on_this_device
    assert re.search(r"computes wrong results \(RSQRT.*: wrong by .*\): try another", actual.reason)
    assert {check.op for check in actual.checks if not check.passed} == {"RSQRT"}
    assert calls == [(i, len(calls)) for i in range(len(load_cases(quick=True)))]


def test_half_storage_is_recommended_where_it_is_right_and_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Faster is what takes less time on the device."""
    force_limits(monkeypatch, profile=UNKNOWN, buffer_texels=0)
    first = gd.CompatibilityList(0)
    for times, recommended in ((inf, False), (1.2, False), (0.6, True)):
        tested = copy(first)
        measured: list[float] = []

        def slowdown(gpu: GpuContext, ratio: float = times, to: list[float] = measured) -> float:
            to.append(half_slowdown(gpu))
            return ratio

        monkeypatch.setattr(compatibility, "half_slowdown", slowdown)
        best = tested.best_options_for_this_device()
        assert best == gd.GpuDelegateOptions(precision_loss_allowed=recommended, device_index=0)
        assert [0 < ratio < inf for ratio in measured] == [True]
    halves = [check for check in first.checks if check.storage == "float16"]
    first.checks = (*first.checks, replace(halves[0], error=1.0))
    assert not first.best_options_for_this_device().precision_loss_allowed
    assert first.is_delegate_supported_on_this_device
