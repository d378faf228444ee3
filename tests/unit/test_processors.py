"""Messages and limits that depend on the processor or on the word size of Python."""

import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from gles_delegate.errors import LiteRtError
from gles_delegate.gl import mesa
from gles_delegate.litert.check import require_known_layout
from gles_delegate.litert.elf import data_library
from gles_delegate.litert.kernels import litert_cpu
from gles_delegate.model.reader import ModelFile
from tests.support import speed


@pytest.mark.parametrize(
    ("features", "widths", "lacking"),
    [
        ("Features : fp asimd atomics sve", [128], ["256 needs a processor with AVX,", "AVX-512"]),
        ("flags : sse4_2 avx avx2", [128, 256], ["512 needs a processor with AVX-512,"]),
        ("flags : avx avx512f", [128, 256, 512], []),
    ],
)
def test_vectors_longer_than_the_processors_are_refused(
    features: str,
    widths: list[int],
    lacking: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda _: features)
    settings = {bits: mesa.vector_bits(bits) for bits in (128, 256, 512)}
    assert settings == {
        bits: {"LP_NATIVE_VECTOR_WIDTH": str(bits)} if bits in widths else {} for bits in settings
    }
    assert len(caplog.messages) == len(lacking)
    for message, part in zip(caplog.messages, lacking, strict=True):
        assert part in message


@pytest.fixture
def python_of_32_bits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A 32-bit Python on a 64-bit kernel, without LiteRT."""

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(sys, "maxsize", 2**31 - 1)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr(metadata, "version", missing)
    for module in ("ai_edge_litert", "ai_edge_litert.interpreter"):
        monkeypatch.setitem(sys.modules, module, None)
    require_known_layout.cache_clear()
    yield
    require_known_layout.cache_clear()


@pytest.mark.usefixtures("python_of_32_bits")
def test_a_python_of_32_bits_is_named() -> None:
    with pytest.raises(LiteRtError, match="found aarch64 with a 32-bit Python"):
        data_library("aarch64", "Some", 8)
    for needs_litert in (require_known_layout, lambda: litert_cpu(ModelFile(b""))):
        with pytest.raises(LiteRtError, match="not installed: it needs a 64-bit system"):
            needs_litert()


@pytest.mark.parametrize(("seconds", "expected"), [(0.001, 5), (speed.SECONDS * 20, 100)])
def test_limits_grow_on_slow_processors(
    seconds: float, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0, seconds] * 3)
    monkeypatch.setattr(time, "process_time", lambda: next(times))
    speed._measured.cache_clear()
    try:
        assert speed.scaled(5) == pytest.approx(expected)
    finally:
        speed._measured.cache_clear()
