"""Devices taken for others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gles_delegate.gl.context import GpuContext
from gles_delegate.profiles import Profile


def force_profile(monkeypatch: pytest.MonkeyPatch, profile: Profile) -> None:
    """Every device has this profile. llvmpipe follows it with the fixture `floor`."""
    read_limits = GpuContext._read_limits

    def read_profile(self: GpuContext) -> None:
        read_limits(self)
        self.limits = replace(self.limits, profile=profile)

    monkeypatch.setattr(GpuContext, "_read_limits", read_profile)
