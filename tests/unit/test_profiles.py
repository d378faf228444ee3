"""The profile of a device, by the names that its driver gives."""

from dataclasses import replace

import pytest

from gles_delegate.device import profiles
from gles_delegate.device.profiles import UNKNOWN, profile_of

# Vendor, renderer, the name of the profile, and whether float16 storage pays.
DEVICES = [
    ("Broadcom", "V3D 4.2", "V3D", True),
    ("Broadcom", "V3D 7.1.7.0", "V3D", True),
    ("Mesa", "Mali-T860 (Panfrost)", "MIDGARD", True),
    ("ARM", "Mali-T880", "MIDGARD", True),
    ("Mesa", "Mali-G52 r1 (Panfrost)", "MALI_G", True),
    ("ARM", "Mali-G76", "MALI_G", True),
    ("Mesa", "Mali-G610 (Panfrost)", "VALHALL", True),
    ("ARM", "Mali-G710", "VALHALL", True),
    ("ARM", "Mali-G715-Immortalis MC11", "VALHALL", True),
    ("ARM", "Immortalis-G720", "VALHALL", True),
    ("freedreno", "FD530", "ADRENO_6XX", False),
    ("freedreno", "FD630", "ADRENO_6XX", False),
    ("freedreno", "FD730", "ADRENO_7XX", False),
    ("Mesa", "zink Vulkan 1.3(Turnip Adreno (TM) 650 (MESA_TURNIP))", "ADRENO_6XX", False),
    ("freedreno", "FD430", "ADRENO_6XX", False),
    ("Qualcomm", "ANGLE (Qualcomm, Adreno (TM) 740, OpenGL ES 3.2 V 676.0)", "ADRENO_7XX", True),
    ("Qualcomm", "Adreno (TM) 540", "ADRENO_6XX", True),
    ("Qualcomm", "Adreno (TM) 640", "ADRENO_6XX", True),
    ("Qualcomm", "Adreno (TM) 740", "ADRENO_7XX", True),
    ("Intel", "Mesa Intel(R) UHD Graphics 620 (KBL GT2)", "INTEL", True),
    ("Intel", "Mesa Intel(R) Graphics (LNL)", "XE2", True),
    ("Intel", "Mesa Intel(R) Arc(tm) B580 Graphics (BMG G21)", "XE2", True),
    ("Intel", "Mesa Intel(R) Arc(tm) A770 Graphics (DG2)", "INTEL", True),
    ("Google Inc. (Intel)", "ANGLE (Intel, Intel(R) Iris(R) Xe Graphics, D3D11)", "INTEL", True),
    ("AMD", "AMD Radeon RX 6600 (radeonsi, navi23, LLVM 15.0.7)", "AMD", True),
    ("X.Org", "AMD RENOIR (DRM 3.42.0, 5.15.0, LLVM 12.0.0)", "AMD", True),
    ("NVIDIA Corporation", "NVIDIA GeForce RTX 3060/PCIe/SSE2", "NVIDIA", True),
    ("nouveau", "NV137", "NVIDIA", True),
    ("Mesa", "NV134", "NVIDIA", True),
    ("Mesa/X.org", "virgl (AMD Radeon Graphics)", "AMD", True),
    ("Mesa/X.org", "virgl", "UNKNOWN", True),
    ("Imagination Technologies", "PowerVR Rogue GE8320", "UNKNOWN", True),
    ("Apple", "Apple M1 (G13G B1)", "UNKNOWN", True),
    ("Vivante Corporation", "GC7000L", "UNKNOWN", True),
    ("Google Inc. (Google)", "ANGLE (Google, Vulkan 1.3 (SwiftShader Device))", "SOFTWARE", False),
    ("Mesa", "llvmpipe (LLVM 15.0.6, 256 bits)", "LLVMPIPE", False),
    ("", "", "UNKNOWN", True),
]


@pytest.mark.parametrize(("vendor", "renderer", "family", "half"), DEVICES)
def test_a_device_has_the_profile_of_its_family(
    vendor: str, renderer: str, family: str, half: bool
) -> None:
    profile = profile_of(vendor, renderer)
    assert profile.half_storage == half
    assert replace(profile, half_storage=True) == getattr(profiles, family) or not half
    assert profile.tiles == getattr(profiles, family).tiles


def test_every_list_of_tiles_begins_with_a_default() -> None:
    for profile in profiles.NAMED.values():
        assert all(profile.tiles)
        assert profile.weight_textures
        others = profile.weight_pairs, profile.constant_sizes, profile.searches
        blocks = profile.blocks, profile.window_blocks
        lists = (*profile.tiles, profile.weight_textures, profile.weight_bytes, *others, *blocks)
        assert profile.choices == max(map(len, lists))
    assert (profiles.LLVMPIPE.choices, profiles.V3D.choices, profiles.MALI_G.choices) == (4, 3, 5)


def test_an_unknown_device_has_small_tiles() -> None:
    assert UNKNOWN.tiles == (((2, 2),), ((2, 2),), ((2, 2),), (3,))


def test_profiles_with_registers_for_large_tiles() -> None:
    large = {name for name, profile in profiles.NAMED.items() if profile.large_tiles}
    assert large == {"LLVMPIPE", "AMD", "NVIDIA", "ADRENO_6XX", "ADRENO_7XX"}
