"""Settings for Mesa in the environment, each in a separate process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gles_delegate as gd
from gles_delegate.gl import mesa
from tests.support.disks import NoMount, fill, small_disk
from tests.support.small import allocated, check

pytestmark = pytest.mark.mesa

PROGRAM = """
import sys
import gles_delegate as gd
from tests.support.small import allocated, check
options = gd.GpuDelegateOptions(**eval(sys.argv[1]))
with gd.GpuDelegate(options) as delegate:
    check(allocated(delegate))
    print(delegate.gpu.driver.is_llvmpipe, delegate.gpu.limits.simd_lanes)
"""
SETTINGS = {*mesa._CACHE_SETTINGS, "MESA_SHADER_CACHE_MAX_SIZE", "LP_NATIVE_VECTOR_WIDTH"}


def run(options: dict[str, object], first: str = "", **variables: str) -> tuple[str, str]:
    """The program's output and its log."""
    environment = {name: text for name, text in os.environ.items() if name not in SETTINGS}
    done = subprocess.run(
        [sys.executable, "-c", first + PROGRAM, repr(options)],
        env={**environment, "PYTHONWARNINGS": "error", **variables},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), done.stderr


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_shader_cache_is_kept_with_the_model(tmp_path: Path) -> None:
    _, log = run({"serialization_dir": str(tmp_path / "kept")}, HOME=str(tmp_path / "home"))
    cache = tmp_path / "kept" / "mesa"
    assert files(cache)
    assert cache.stat().st_mode & 0o077 == 0
    assert not files(tmp_path / "home")
    assert not log


def test_the_users_own_shader_cache_stays(tmp_path: Path) -> None:
    chosen = str(tmp_path / "chosen")
    run({"serialization_dir": str(tmp_path / "kept")}, MESA_SHADER_CACHE_DIR=chosen)
    assert files(tmp_path / "chosen")
    assert not (tmp_path / "kept" / "mesa").exists()


def test_a_shader_cache_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "mesa").mkdir()
    (tmp_path / "mesa").chmod(0o777)
    _, log = run({"serialization_dir": str(tmp_path)})
    assert "other users can write there" in log
    assert not files(tmp_path / "mesa")


@pytest.mark.parametrize("kilobytes", [64, 1000, 20_000])
def test_a_shader_cache_for_which_the_disk_lacks_room_is_not_used(
    kilobytes: int, tmp_path: Path
) -> None:
    """Mesa would map its index there, and the kernel end the process."""
    try:
        with small_disk(tmp_path / "disk", kilobytes) as disk:
            _, first = run({"serialization_dir": str(disk)})
            fill(disk)
            _, second = run({"serialization_dir": str(disk)})
            assert ("No space left" in first) == (kilobytes < 20_000)
            assert ("shaders cannot be kept" in second) == (kilobytes < 20_000)
    except NoMount:
        pytest.skip("mounting a small disk takes privileges")


def test_a_shader_cache_on_a_full_disk_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    assert mesa.shader_cache(tmp_path) == {}
    assert "No space left on device" in caplog.text


def test_a_sparse_index_of_the_shader_cache_gets_its_room(tmp_path: Path) -> None:
    index = tmp_path / "mesa" / mesa._INDEX
    index.parent.mkdir(parents=True, mode=0o700)
    (tmp_path / "mesa").chmod(0o700)
    index.write_bytes(b"kept")
    os.truncate(index, mesa._INDEX_BYTES)
    assert mesa.shader_cache(tmp_path)
    assert index.stat().st_blocks * 512 >= mesa._INDEX_BYTES
    assert index.read_bytes() == b"kept".ljust(mesa._INDEX_BYTES, b"\0")


def test_a_start_that_is_too_late_is_told(tmp_path: Path) -> None:
    first = "import gles_delegate; gles_delegate.list_devices()"
    _, log = run({"serialization_dir": str(tmp_path)}, first)
    assert "EGL was in use in this process before" in log
    assert "MESA_SHADER_CACHE_DIR" in log


def test_two_delegates_with_one_folder_are_not_late(tmp_path: Path) -> None:
    _, log = run({"serialization_dir": str(tmp_path)}, PROGRAM)
    assert not log


def test_settings_are_not_for_an_apps_context(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = gd.GpuDelegateOptions(serialization_dir=tmp_path)
    with gd.EglContext() as context, gd.GpuDelegate(options, context=context) as delegate:
        check(allocated(delegate))
    assert not caplog.records


@pytest.mark.parametrize("bits", [128, 256, 512])
def test_vectors_have_the_width_that_was_asked_for(bits: int) -> None:
    actual, log = run({"software_vector_bits": bits})
    is_software, lanes = actual.split()
    if is_software == "False":
        pytest.skip("this device is not llvmpipe")
    feature, name = mesa._VECTORS.get(bits, ("", ""))
    if feature and not mesa.processor_has(feature):
        assert f"needs a processor with {name}, which" in log
    else:
        assert int(lanes) == bits // 32


def test_the_users_own_width_stays() -> None:
    actual, _ = run({"software_vector_bits": 256}, LP_NATIVE_VECTOR_WIDTH="128")
    assert actual in ("True 4", "False 8")
