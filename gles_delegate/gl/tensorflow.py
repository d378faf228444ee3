"""TensorFlow and Mesa in one process.

Each brings an LLVM with the same symbols. The dynamic linker would bind the second one's calls to
the first, which crashes, so the second is loaded with RTLD_DEEPBIND: it looks in its own libraries
first.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

_NAME = "tensorflow"
_DEEPBIND: int = getattr(os, "RTLD_DEEPBIND", 0)  # musl has none
_VENDOR = "libEGL_mesa.so.0"
_DRIVERS = ("dri/swrast_dri.so", "dri/kms_swrast_dri.so")
"""Names of Mesa's software drivers, beside its EGL; since 24.2 it is linked with them instead."""


def _may_load_apart() -> bool:
    # Two allocators would free each other's memory.
    return bool(_DEEPBIND) and not os.environ.get("LD_PRELOAD")


def load_mesa_apart() -> None:
    """Before EGL starts: load Mesa with its own LLVM if TensorFlow is there."""
    if _NAME not in sys.modules or not _may_load_apart():
        return
    with suppress(OSError):  # another driver, or another layout of folders
        _load(_VENDOR)
        folders = filter(None, os.environ.get("LIBGL_DRIVERS_PATH", "").split(":"))
        drivers = [Path(folder, Path(name).name) for folder in folders for name in _DRIVERS]
        drivers += [Path(path).parent / name for path in _mapped(_VENDOR) for name in _DRIVERS]
        for driver in filter(Path.is_file, drivers):
            _load(str(driver))


def watch_imports() -> None:
    """After EGL has started: load TensorFlow, if there is one, with its own LLVM beside Mesa's."""
    is_there = _NAME not in sys.modules and find_spec(_NAME) is not None
    if is_there and _may_load_apart() and _mapped("libLLVM"):
        sys.meta_path.insert(0, _Finder())


def _load(library: str) -> None:
    ctypes.CDLL(library, mode=os.RTLD_LAZY | os.RTLD_LOCAL | _DEEPBIND)


def _mapped(name: str) -> list[str]:
    """The paths of this process's libraries whose names begin with `name`."""
    with suppress(OSError):
        fields = (line.split() for line in Path("/proc/self/maps").read_text().splitlines())
        paths = {field[5] for field in fields if len(field) > 5}
        return sorted(path for path in paths if Path(path).name.startswith(name))
    return []


class _Finder(MetaPathFinder):
    """Finds TensorFlow with a loader that binds its libraries to their own symbols.

    It is gone as soon as TensorFlow is loaded, and stays where a program only looks for it.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (f.find_spec(fullname, path, target) for f in others if fullname == _NAME)
        spec = next(filter(None, found), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                with suppress(ValueError):
                    sys.meta_path.remove(self)
                flags = sys.getdlopenflags()
                sys.setdlopenflags(flags | _DEEPBIND)
                try:
                    execute(module)
                finally:
                    sys.setdlopenflags(flags)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
