"""Environment variables that Mesa reads as EGL starts: shader cache and vector width.

They affect the whole process, so they are only set for a new context, and only if the user has not
set them. Other drivers ignore them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger("gles_delegate")

_VECTORS = {256: ("avx", "AVX"), 512: ("avx512f", "AVX-512")}
"""Features for llvmpipe's longer vectors: the name in /proc/cpuinfo, and the usual one."""

_KINDS = ("SHADER_CACHE", "GLSL_CACHE")
_CACHE_SETTINGS = [f"MESA_{kind}_{end}" for kind in _KINDS for end in ("DIR", "DISABLE")]
_INDEX = Path("mesa_shader_cache", "index")
_INDEX_BYTES = 8 + 20 * 2**16  # disk_cache_os.c: the cache's size, and 2**16 keys of 20 bytes


def shader_cache(folder: str | os.PathLike[str]) -> dict[str, str]:
    """The variables that keep Mesa's shader cache in a private folder in `folder`.

    Empty if the user configured the cache, if the folder cannot be created or the disk is full, or
    if others can write there: Mesa runs the machine code in the cache.
    """
    if any(name in os.environ for name in _CACHE_SETTINGS):
        return {}
    path = Path(folder, "mesa").absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = path.stat()
        if state.st_uid != os.getuid() or state.st_mode & 0o022:
            raise PermissionError("other users can write there")
        # Mesa maps this file, and on a full disk would get SIGBUS: reserve its space.
        index = path / _INDEX
        index.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(index, flags, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, _INDEX_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        log.warning("the driver's shaders cannot be kept in %s: %s", path, error)
        return {}
    return {"MESA_SHADER_CACHE_DIR": str(path), "MESA_SHADER_CACHE_MAX_SIZE": "256M"}


def vector_bits(bits: int) -> dict[str, str]:
    """The variable that sets llvmpipe's vector width.

    Empty if the processor has no vectors of that width: LLVM would use several shorter ones.
    """
    feature, name = _VECTORS.get(bits, ("", ""))
    if feature and not processor_has(feature):
        log.warning(
            "software_vector_bits=%d needs a processor with %s, which this one lacks", bits, name
        )
        return {}
    return {"LP_NATIVE_VECTOR_WIDTH": str(bits)}


def processor_has(feature: str) -> bool:
    """Whether Linux lists a processor feature, such as "avx512f" or ARM's "atomics"."""
    try:
        return feature in Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return False


_read: dict[str, str] = {}  # the variables that were added when EGL started in this process


@contextmanager
def environment(variables: Mapping[str, str], started: bool) -> Iterator[None]:
    """Set the variables that are not set yet inside ``with``, where EGL starts.

    Logs a warning if EGL has `started` before with different ones.
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
