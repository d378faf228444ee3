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
    """Every device has this profile, and buffer textures of the smallest size if it reads them."""
    read_limits = GpuContext._read_limits

    def read_others(self: GpuContext) -> None:
        read_limits(self)
        has_textures = not self.is_es or "OpenGL ES 3.2" in self.identity[2]
        texels = 1 << 16 if profile.image_reads and has_textures else 0
        self.limits = replace(self.limits, profile=profile, buffer_texels=texels)

    monkeypatch.setattr(GpuContext, "_read_limits", read_others)
