"""Devices taken for others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gles_delegate.gl.context import GpuContext
from gles_delegate.profiles import Profile


def force_limits(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Every device has these limits, whatever its others are."""
    read_limits = GpuContext._read_limits

    def read_others(self: GpuContext) -> None:
        read_limits(self)
        self.limits = replace(self.limits, **changes)

    monkeypatch.setattr(GpuContext, "_read_limits", read_others)


def force_profile(monkeypatch: pytest.MonkeyPatch, profile: Profile) -> None:
    """Every device has this profile."""
    force_limits(monkeypatch, profile=profile)
