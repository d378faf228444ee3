"""``gles-delegate report``: a device's description, to send to the project."""

from __future__ import annotations

import dataclasses
import getpass
import os
import platform
import re
import sys
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from gles_delegate.bench import timing
from gles_delegate.bench.comparison import compare_outputs, random_feeds
from gles_delegate.bench.starts import starts, texture_to_texture
from gles_delegate.cli import common
from gles_delegate.cli.benchmark import as_data
from gles_delegate.cli.doctor import measured, self_test
from gles_delegate.cli.verify import verification
from gles_delegate.errors import DelegateError, sentence_of
from gles_delegate.model.reader import ModelFile
from gles_delegate.options import GpuDelegateOptions

_PATHS = re.compile(r"(?<![\w.:/])/(?:[^/:;,'\"<>|()]*/)*")
"""The folders of absolute paths, which need not be one word."""


@common.command
@common.device_option
@click.option("--quick", is_flag=True, help="Measure for seconds, not for minutes.")
@common.json_option
def report(device: int | None, quick: bool, as_json: bool) -> None:
    """Print JSON that describes this device.

    It has the results of doctor and verify, and speed. The exit status is 1 if the device does not
    work.
    """
    del as_json  # for errors; the report is always JSON
    state = self_test(device)
    state["checks"] = [check for check in state["checks"] if not check["passed"]]
    state["system"] = {
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }
    if state["limits"]:
        state["verify"] = _attempt(partial(verification, device, quick))
        state["bench"] = _attempt(lambda: dataclasses.asdict(measured(device, 5 if quick else 45)))
        state["networks"] = _networks(device, runs=3 if quick else 20)
        networks = files("gles_delegate.bench").joinpath("networks")
        model = ModelFile(networks.joinpath("ball_segmenter.tflite").read_bytes())
        state["texture_to_texture"] = _attempt(
            lambda: {"seconds": texture_to_texture(model, device, 10 if quick else 60)}
        )
    common.print_json(_without_names(state))
    sys.exit(not state["healthy"])


def _networks(device: int | None, runs: int) -> dict[str, Any]:
    """Times, starts and agreement with LiteRT of the package's networks, by name."""
    against = ("litert",) if find_spec("ai_edge_litert") else ()
    schedule = timing.Schedule(runs=runs, against=against)
    options = GpuDelegateOptions(device_index=device)

    def speed(model: ModelFile) -> dict[str, Any]:
        return as_data(timing.benchmark(model, random_feeds(model), options, schedule))

    def agreement(model: ModelFile) -> dict[str, Any]:
        differences = compare_outputs(model, random_feeds(model), options)
        largest = max(each.error / each.scale for each in differences)  # as a share of the scale
        return {"largest": largest, "passed": all(each.passed for each in differences)}

    speeds: dict[str, Any] = {}
    for entry in files("gles_delegate.bench").joinpath("networks").iterdir():
        if entry.name.endswith(".tflite"):
            model = ModelFile(entry.read_bytes())
            found = speeds[entry.name] = _attempt(partial(speed, model))
            found["starts"] = _attempt(partial(starts, model, device))
            if against:
                found["agreement"] = _attempt(partial(agreement, model))
    return dict(sorted(speeds.items()))


def _attempt(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return measure()
    except DelegateError as error:
        return {"error": sentence_of(error)}


def _without_names(value: Any) -> Any:
    """The same without folders, and without the user's name and home."""
    if isinstance(value, dict):
        return {key: _without_names(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_names(item) for item in value]
    if not isinstance(value, str):
        return value
    for folder in {str(Path.cwd()), str(Path.home())} - {"/"}:
        value = value.replace(folder, "")
    value = _PATHS.sub("", value)
    return re.sub(rf"\b{re.escape(_user())}\b", "user", value) if _user() else value


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return ""
