"""Environment variables that keep an installed driver away, or end the process."""

from __future__ import annotations

import os
from glob import glob
from importlib.util import find_spec

_VARIABLES = {
    "EGL_PLATFORM",
    "GALLIUM_DRIVER",
    "GBM_BACKENDS_PATH",
    "GLES_DELEGATE_EGL",
    "LIBGL_ALWAYS_SOFTWARE",
    "LIBGL_DRIVERS_PATH",
    "MESA_EXTENSION_OVERRIDE",
    "MESA_GLES_VERSION_OVERRIDE",
    "MESA_GL_VERSION_OVERRIDE",
    "MESA_LOADER_DRIVER_OVERRIDE",
}
_FILES, _FOLDERS = "__EGL_VENDOR_LIBRARY_FILENAMES", "__EGL_VENDOR_LIBRARY_DIRS"
_USUAL_FOLDERS = ("/etc/glvnd/egl_vendor.d", "/usr/share/glvnd/egl_vendor.d")


def hindrances(is_working: bool) -> list[str]:
    """A sentence for each variable that hides a driver, or may if none works."""
    found: list[str] = []
    name = next((each for each in (_FILES, _FOLDERS) if os.environ.get(each)), None)
    if name is not None:
        chosen = os.environ[name].split(":")
        files = chosen if name == _FILES else _vendors(chosen)
        kept = {os.path.realpath(file) for file in files}
        hidden = [file for file in _vendors(_USUAL_FOLDERS) if os.path.realpath(file) not in kept]
        if hidden:
            found.append(f"{name}={os.environ[name]} hides {', '.join(hidden)}: try without it.")
    if not is_working:
        named = sorted(_VARIABLES.intersection(os.environ))
        found += [f"{name}={os.environ[name]} is set: try without it." for name in named]
    capabilities = os.environ.get("NVIDIA_DRIVER_CAPABILITIES", "")
    in_container = os.environ.get("NVIDIA_VISIBLE_DEVICES", "void") not in ("", "void", "none")
    if in_container and not {"graphics", "all"} & set(capabilities.split(",")):
        found.append(
            f"NVIDIA_DRIVER_CAPABILITIES={capabilities} leaves EGL out: start the container with "
            "NVIDIA_DRIVER_CAPABILITIES=all."
        )
    preloaded = os.environ.get("LD_PRELOAD")
    if preloaded and find_spec("tensorflow") is not None:
        found.append(
            f"LD_PRELOAD={preloaded} is set: a process with TensorFlow and llvmpipe may crash, as "
            "their LLVMs cannot be loaded apart."
        )
    return found


def _vendors(folders: tuple[str, ...] | list[str]) -> list[str]:
    return [file for folder in folders for file in sorted(glob(f"{folder}/*.json"))]
