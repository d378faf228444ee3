"""Devices taken for others."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import NAMED, Profile
from gles_delegate.gl.driver import Driver
from gles_delegate.verification.check import Form, forms_of

TILED = {"conv_2d", "depthwise_conv_2d", "transpose_conv", "batch_matmul", "conv_3d", "reduce"}
"""Shaders whose forms depend on the profile."""


def force_driver(monkeypatch: pytest.MonkeyPatch, change: Callable[[Driver], Driver]) -> None:
    """Every driver is read as `change` makes it."""
    read = Driver.read
    monkeypatch.setattr(Driver, "read", lambda gl, is_private: change(read(gl, is_private)))


def force_limits(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Every device has these limits, whatever its others are."""
    force_driver(
        monkeypatch, lambda driver: replace(driver, limits=replace(driver.limits, **changes))
    )


def force_profile(monkeypatch: pytest.MonkeyPatch, profile: Profile) -> None:
    """Every device has this profile, and buffer textures of the smallest size if it reads them."""

    def change(driver: Driver) -> Driver:
        has_textures = not driver.is_es or "OpenGL ES 3.2" in driver.identity[2]
        limits = limits_of(driver.limits, profile)
        limits = limits if has_textures else replace(limits, buffer_texels=0)
        return replace(driver, limits=limits)

    force_driver(monkeypatch, change)


def limits_of(limits: Limits, profile: Profile) -> Limits:
    """The limits of a device with this profile, and buffer textures if it reads them."""
    return replace(limits, profile=profile, buffer_texels=1 << 16 if profile.image_reads else 0)


def forms_of_profiles(limits: Limits) -> list[Form]:
    """Every form of every profile, on a device with otherwise these limits."""
    return [
        form
        for profile in NAMED.values()
        for form in forms_of(limits_of(limits, profile), profile.half_storage, tuned=True)
    ]
