"""The emulated systems of tools/test-systems."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def arm64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, with folders for the kernel's files and for a system with QEMU."""
    monkeypatch.syspath_prepend(TOOLS)
    module = import_module("arm64")
    monkeypatch.setattr(module, "BINFMT", tmp_path)
    monkeypatch.setattr(module, "ENTRY", tmp_path / "entry")
    monkeypatch.setattr(module, "unpacked", lambda *_: Path("/qemu"))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    (tmp_path / "register").touch()
    return module


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_emulation_ends_however_its_use_ends(
    error: type[BaseException], arm64: ModuleType, tmp_path: Path
) -> None:
    def use() -> None:
        with arm64.emulation(tmp_path):
            assert "/qemu/usr/bin/qemu-aarch64:OF" in (tmp_path / "register").read_text()
            arm64.ENTRY.touch()
            raise error

    with pytest.raises(error):
        use()
    assert arm64.ENTRY.read_text() == "-1"


@pytest.mark.parametrize(
    ("machine", "kind", "emulated"),
    [(183, 2, True), (183, 3, True), (62, 2, False), (183, 1, False)],
)
def test_programs_that_are_emulated(
    machine: int, kind: int, emulated: bool, arm64: ModuleType
) -> None:
    """Executables (2) and position-independent ones (3) for aarch64 (183), with any ABI."""
    header = b"\x7fELF\x02\x01\x01\x03".ljust(16, b"\0") + bytes([kind, 0, machine, 0])
    magic, mask = (
        re.sub(r"\\x(..)", lambda byte: byte[1], text.replace("ELF", r"\x45\x4c\x46"))
        for text in (arm64.MAGIC, arm64.MASK)
    )
    pairs = zip(header, bytes.fromhex(magic), bytes.fromhex(mask), strict=True)
    assert all(byte & bits == expected & bits for byte, expected, bits in pairs) == emulated


def test_checksums_must_be_equal(
    arm64: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arm64, "run", lambda *_: True)
    for name, checksum in (("arm", "a.tflite 1 c4953ce0"), ("x86", "a.tflite 1 c4953ce0")):
        (tmp_path / name / "root").mkdir(parents=True)
        (tmp_path / name / "root/checksums").write_text(checksum)
    assert arm64.same_checksums(tmp_path / "arm", tmp_path / "x86", "cortex-a72")
    (tmp_path / "arm/root/checksums").write_text("a.tflite 1 c4953ce1")
    assert not arm64.same_checksums(tmp_path / "arm", tmp_path / "x86", "cortex-a72")
