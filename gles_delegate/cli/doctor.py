"""``gles-delegate doctor``: usable devices and a self-test."""

from __future__ import annotations

import dataclasses
import os
import sys
from importlib import metadata
from typing import Any

from rich.table import Table

from gles_delegate.cli.common import command, device_option, json_option, make_console, print_json
from gles_delegate.compatibility import CompatibilityList
from gles_delegate.errors import ContextError, DelegateError
from gles_delegate.gl.egl import list_devices
from gles_delegate.gl.libegl import libegl
from gles_delegate.litert.check import require_known_layout
from gles_delegate.version import __version__

_OVERRIDES = {
    "EGL_PLATFORM",
    "GLES_DELEGATE_EGL",
    "LIBGL_ALWAYS_SOFTWARE",
    "MESA_EXTENSION_OVERRIDE",
    "MESA_GLES_VERSION_OVERRIDE",
    "MESA_GL_VERSION_OVERRIDE",
    "MESA_LOADER_DRIVER_OVERRIDE",
}
"""Environment variables that can take OpenGL ES 3.1 away."""


@command
@device_option
@json_option
def doctor(device: int | None, as_json: bool) -> None:
    """Show usable devices, run a self-test, suggest fixes."""
    found: dict[str, Any] = {"version": __version__, "egl": None, "devices": [], "device": None}
    found |= {"limits": None, "checks": []}
    advice: list[str] = []
    try:
        found["egl"] = libegl().name
        found["devices"] = [dataclasses.asdict(d) for d in list_devices()]
        tested = CompatibilityList(device)
        found["healthy"], found["reason"] = not tested.reason, tested.reason
        found["checks"] = [{**dataclasses.asdict(c), "passed": c.passed} for c in tested.checks]
        if tested.limits is not None:
            names = ("vendor", "renderer", "version")
            found["device"] = {name: getattr(tested, name) for name in names}
            found["limits"] = dataclasses.asdict(tested.limits)
            if "OpenGL ES" not in tested.version:
                advice.append(
                    f"There is no OpenGL ES 3.1 here; {tested.version!r} serves in its place."
                )
    except ContextError as error:
        found["healthy"], found["reason"] = False, str(error)
    if advice or not found["healthy"]:
        guilty = sorted(_OVERRIDES.intersection(os.environ))
        advice += [f"{name}={os.environ[name]} is set: try without it." for name in guilty]
    found["litert"], litert_advice = _litert()
    found["advice"] = [*advice, *litert_advice]
    if as_json:
        print_json(found)
    else:
        _print_doctor(found)
    sys.exit(not found["healthy"])


def _litert() -> tuple[str | None, list[str]]:
    """The installed version of LiteRT, and what to do about it."""
    try:
        version = metadata.version("ai-edge-litert")
        require_known_layout()
    except metadata.PackageNotFoundError:
        return None, [
            "LiteRT is not installed: models of which the GPU does not take every node need it "
            "(pip install ai-edge-litert)."
        ]
    except DelegateError as error:
        return version, [f"{error}."]
    return version, []


def _print_doctor(found: dict[str, Any]) -> None:
    table = Table("", "", show_header=False, box=None, pad_edge=False)
    table.add_row("gles_delegate", found["version"])
    table.add_row("EGL", found["egl"] or "not found")
    for device in found["devices"]:
        kind = "software" if device["software"] else "hardware"
        text = f"{device['renderer']}, {device['version']} ({kind}, EGL {device['platform']})"
        table.add_row(f"device {device['index']}", text)
    if found["limits"]:
        table.add_row("in use", found["device"]["renderer"])
        for name, value in found["limits"].items():
            table.add_row(f"  {name}", str(value))
    for check in found["checks"]:
        verdict = "passed" if check["passed"] else "FAILED"
        detail = check["failure"] or f"off by {check['error']:.0e}, allowed {check['allowed']:.0e}"
        table.add_row(f"{check['name']}", f"{verdict}, {detail}")
    table.add_row("LiteRT", found["litert"] or "not installed")
    make_console().print(table)
    for sentence in found["advice"]:
        print(sentence)
    print("The delegate works here." if found["healthy"] else f"Not usable: {found['reason']}")
