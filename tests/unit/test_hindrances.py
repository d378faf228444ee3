"""Environment variables that hide a driver."""

from pathlib import Path

import pytest

from gles_delegate.gl import hindrances as module
from gles_delegate.gl.hindrances import hindrances


@pytest.fixture
def vendors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A usual folder with two drivers, in an environment without any variable."""
    for name in ("10_nvidia.json", "50_mesa.json"):
        (tmp_path / name).touch()
    monkeypatch.setattr(module, "_USUAL_FOLDERS", (str(tmp_path),))
    for name in (*module._VARIABLES, module._FILES, module._FOLDERS, "NVIDIA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_without_variables(vendors: Path) -> None:
    assert hindrances(is_working=False) == hindrances(is_working=True) == []


def test_vendors_that_are_not_looked_for(vendors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mesa, nvidia = vendors / "50_mesa.json", vendors / "10_nvidia.json"
    monkeypatch.setenv(module._FOLDERS, "/nowhere")
    assert hindrances(True) == [
        f"{module._FOLDERS}=/nowhere hides {nvidia}, {mesa}: try without it."
    ]
    monkeypatch.setenv(module._FILES, str(mesa))  # goes before the other
    assert hindrances(True) == [f"{module._FILES}={mesa} hides {nvidia}: try without it."]
    monkeypatch.setenv(module._FILES, f"{mesa}:{nvidia}")
    assert hindrances(False) == []


def test_variables_that_may_be_the_cause(vendors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIBGL_DRIVERS_PATH", "/nowhere")
    assert hindrances(False) == ["LIBGL_DRIVERS_PATH=/nowhere is set: try without it."]
    assert hindrances(True) == []


@pytest.mark.parametrize(
    ("devices", "capabilities", "is_named"),
    [
        *(("all", "compute,utility", True), ("0", "", True), ("all", "compute,graphics", False)),
        *(("all", "all", False), ("none", "", False), ("void", "compute", False)),
    ],
)
def test_nvidia_s_containers(
    devices: str, capabilities: str, is_named: bool, vendors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", devices)
    monkeypatch.setenv("NVIDIA_DRIVER_CAPABILITIES", capabilities)
    assert any("NVIDIA_DRIVER_CAPABILITIES=all." in each for each in hindrances(True)) == is_named


def test_an_allocator_beside_tensorflow(
    vendors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "libjemalloc.so.2")
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    (sentence,) = hindrances(is_working=True)
    assert "LD_PRELOAD=libjemalloc.so.2" in sentence
    assert "TensorFlow" in sentence
