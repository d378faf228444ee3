"""``gles-delegate doctor --bench``, on convolutions that take no time."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

import gles_delegate as gd
from gles_delegate.bench import compatibility, kernels
from gles_delegate.bench import device as speed
from gles_delegate.bench.device import DeviceSpeed, measure, name_profile
from gles_delegate.bench.kernels import KERNELS, KernelCase, KernelTimer
from gles_delegate.device import profiles
from gles_delegate.device.profiles import AMD, INTEL, UNKNOWN, V3D, Profile
from gles_delegate.gl.context import GpuContext
from gles_delegate.verification.cases import load_cases
from tests.support.command import call, call_json

pytestmark = pytest.mark.usefixtures("small")

NAMES = {*profiles.NAMED} - {"SOFTWARE", "LLVMPIPE"}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few small kernels, each measured once, and few cases of the self-test."""
    few = tuple(replace(kernel, size=16, channels=16, outputs=16) for kernel in KERNELS[::2])
    for module in (speed, kernels):
        monkeypatch.setattr(module, "KERNELS", few)
    monkeypatch.setattr(compatibility, "load_cases", lambda quick: load_cases(quick)[:4])
    monkeypatch.setattr(kernels, "_TIME_LIMIT", 0)
    monkeypatch.setattr(speed, "_COPIED", (1, 64, 64, 4))


def measured(gpu: GpuContext, seconds: float = 60) -> DeviceSpeed:
    return measure(gpu, seconds, lambda done, total: None)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_kernel_is_one_convolution(kernel: KernelCase, gpu: GpuContext) -> None:
    _, plan = KernelTimer(gpu).plan(kernel.graph())
    dispatch = kernels.main_dispatch(plan)
    size = kernel.size // kernel.stride
    each = 1 if "depthwise" in kernel.name else kernel.channels
    assert dispatch.output.shape == (1, size, size, kernel.outputs)
    assert dispatch.flops == 2 * size * size * kernel.outputs * each * kernel.window**2


@pytest.mark.mesa
def test_llvmpipe_has_tiles_of_its_own(gpu: GpuContext) -> None:
    actual = measured(gpu)
    assert (actual.profile, actual.profiles, actual.left_out) == ("LLVMPIPE", {}, 0)
    assert actual.copy > 0
    assert actual.dispatch > actual.dispatch_cpu > 0
    assert actual.half.keys() == {str(speed.KERNELS[0])}
    assert actual.reads.keys() == {"storage blocks", "buffer textures"}
    defaults = [tile.kernel for tile in actual.tiles if tile.default_of == ("LLVMPIPE",)]
    assert sorted(defaults) == sorted(map(str, speed.KERNELS))
    assert len(actual.tiles) > len(defaults)
    assert all(tile.gflops > 0 for tile in actual.tiles)


@pytest.mark.mesa
@pytest.mark.usefixtures("gpu_like")
def test_every_profile_is_measured_on_a_gpu() -> None:
    gpu = GpuContext()
    try:
        limits = gpu.limits
        actual = measured(gpu)
        assert gpu.limits == limits
    finally:
        gpu.release()
    assert actual.by_gpu_timer
    assert (actual.profile, actual.left_out) == ("UNKNOWN", 0)
    assert actual.profiles.keys() == NAMES
    assert min(actual.profiles.values()) >= 1
    assert [*actual.profiles.values()] == sorted(actual.profiles.values())
    users = Counter((tile.kernel, name) for tile in actual.tiles for name in tile.default_of)
    assert set(users.values()) == {1}
    assert len(users) == len(speed.KERNELS) * len(NAMES)
    pointwise = {tile.tile for tile in actual.tiles if tile.kernel.startswith("1x1")}
    assert pointwise >= {"2x2", "4x1", "4x2", "4x4", "8x2", "3x1"}


def test_without_time_tiles_are_left_out(gpu: GpuContext) -> None:
    actual = measured(gpu, seconds=0)
    assert not actual.tiles
    assert actual.left_out > 0
    text = call("doctor", "--bench", "--seconds", 0)
    assert f"There was no time for {actual.left_out} more tiles: increase --seconds." in text
    assert "would be best" not in text


@pytest.mark.parametrize("error", [gd.ShaderError, gd.OutOfGpuMemoryError])
def test_tiles_that_the_driver_refuses(
    error: type[Exception], gpu: GpuContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise error("too many registers, or too much memory")

    monkeypatch.setattr(kernels, "Session", refuse)
    actual = measured(gpu)
    assert {tile.seconds for tile in actual.tiles} == {None}
    assert not actual.half
    assert "does not compile" in call("doctor", "--bench")


def test_a_driver_that_fails_ends_the_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise gd.GLError("glFinish: GL_OUT_OF_MEMORY")

    monkeypatch.setattr(kernels, "Session", fail)
    text = call("doctor", "--bench")
    assert "--bench ended early: glFinish: GL_OUT_OF_MEMORY." in text
    assert "The delegate works here." in text


@pytest.mark.mesa
def test_the_report_of_llvmpipe() -> None:
    text = call("doctor", "--bench")
    assert "llvmpipe has its own tiles" in text
    assert re.search(r"^profile +LLVMPIPE", text, re.MULTILINE)
    assert "  pointwise" not in text
    assert "issue tracker" in text.splitlines()[-1]


@pytest.mark.mesa
@pytest.mark.usefixtures("gpu_like")
def test_the_report_of_a_gpu() -> None:
    text = call("doctor", "--bench", "--verbose")
    lines = [line.split() for line in text.splitlines()]
    assert ["profile", "UNKNOWN"] in lines
    assert ["pointwise", "2x2"] in lines
    assert ["lanes", "8x8"] in lines
    assert {line[0] for line in lines if line} >= NAMES
    assert re.search("The profile in use(, UNKNOWN, is as good| is UNKNOWN; .* would be)", text)
    data = call_json("doctor", "--bench")
    assert data["profile"] == "UNKNOWN"
    assert data["bench"]["profiles"].keys() == NAMES
    assert data["bench"]["tiles"][0]["seconds"] > 0
    assert call_json("doctor")["bench"] is None


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        (UNKNOWN, "UNKNOWN"),
        (V3D, "V3D"),
        (replace(AMD, half_storage=False), "AMD"),
        (replace(INTEL, columns=7), ""),
    ],
)
def test_the_name_of_a_profile(profile: Profile, name: str) -> None:
    assert name_profile(profile) == name


@pytest.mark.mesa
@pytest.mark.usefixtures("gpu_like")
@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ({"V3D": 1.0, "UNKNOWN": 1.02}, "The profile in use, UNKNOWN, is as good as the best."),
        ({"V3D": 1.0, "UNKNOWN": 1.2}, "The profile in use is UNKNOWN; V3D would be best."),
        ({"V3D": 1.0}, "The profile in use is UNKNOWN; V3D would be best."),
    ],
)
def test_which_profile_would_be_best(
    ratios: dict[str, float], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "_slowdowns", lambda tiles: ratios)
    assert verdict in call("doctor", "--bench", "--seconds", 0)
