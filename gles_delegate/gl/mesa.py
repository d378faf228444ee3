"""Variables that Mesa reads from the environment as EGL starts: shader cache and vector width.

Both hold for the whole process, so they are only set for a context of our own, and only where the
user has not set them. A driver that is not Mesa ignores them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger("gles_delegate")

_CACHE = "MESA_SHADER_CACHE_DIR"
_VECTOR_BITS = "LP_NATIVE_VECTOR_WIDTH"
_CACHE_SETTINGS = (
    *(_CACHE, "MESA_GLSL_CACHE_DIR"),
    *("MESA_SHADER_CACHE_DISABLE", "MESA_GLSL_CACHE_DISABLE"),
)
_CACHE_SIZE = {"MESA_SHADER_CACHE_MAX_SIZE": "256M"}
_INDEX = Path("mesa_shader_cache", "index")
_INDEX_BYTES = 8 + 20 * 2**16
"""Mesa's src/util/disk_cache_os.c: the size of the cache, and a key for each of 2**16 places."""


def shader_cache(folder: str | os.PathLike[str]) -> dict[str, str]:
    """The variables that keep Mesa's shader cache in a folder of `folder`, which only we can read.

    Empty if the user has chosen another place, if the folder cannot be made or the disk is full, or
    if others can write there: Mesa runs the machine code that it finds.
    """
    if any(name in os.environ for name in _CACHE_SETTINGS):
        return {}
    path = Path(folder, "mesa").absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = path.stat()
        if state.st_uid != os.getuid() or state.st_mode & 0o022:
            raise PermissionError("other users can write there")
        _allocate(path / _INDEX, _INDEX_BYTES)
    except OSError as error:
        log.warning("the driver's shaders cannot be kept in %s: %s", path, error)
        return {}
    return {_CACHE: str(path), **_CACHE_SIZE}


def _allocate(path: Path, size: int) -> None:
    """Make sure of the disk's room for a file that Mesa maps: to write there would be SIGBUS.

    Raises:
        OSError: There is no room, or the file cannot be written.
    """
    path.parent.mkdir(mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
    finally:
        os.close(descriptor)


def vector_bits(bits: int) -> dict[str, str]:
    """The variable that sets the width of llvmpipe's vectors.

    Empty if the processor has no AVX-512 for 512 bits: LLVM would use two vectors of 256.
    """
    if bits > 256 and not processor_has("avx512f"):
        log.warning(
            "software_vector_bits=%d needs a processor with AVX-512, which this one lacks", bits
        )
        return {}
    return {_VECTOR_BITS: str(bits)}


def processor_has(feature: str) -> bool:
    """Whether Linux lists a feature, such as "avx512f" or ARM's "atomics", of the processor."""
    try:
        return feature in Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return False


_read: dict[str, str] = {}
"""The variables that were set when EGL started in this process."""


@contextmanager
def environment(variables: Mapping[str, str], started: bool) -> Iterator[None]:
    """Inside ``with``, in which EGL starts, the variables that are not set already.

    Logs a warning where EGL has `started` before, with others.
    """
    added = {name: value for name, value in variables.items() if name not in os.environ}
    if not started:
        _read.update(added)
    late = [f"{name}={value}" for name, value in added.items() if _read.get(name) != value]
    if late:
        log.warning(
            "EGL was in use in this process before, so Mesa does not read %s any more: make this "
            "delegate before any other, or set that before the program starts",
            " and ".join(late),
        )
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
