"""The examples in the docstrings of public names run, and print what they say."""

import dataclasses
import doctest
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from inspect import isclass, isfunction, unwrap
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import gles_delegate as gd
from gles_apps import batch, live, tasks, vision
from gles_apps.live.libgst import libgst
from gles_delegate import ops
from gles_delegate.ops.lib import registry
from tests.conftest import MODELS, Require
from tests.support.example import EXAMPLES, write_video
from tests.support.snippets import MODELS as MADE
from tests.support.snippets import picture
from tests.unit.test_api_pages import MODULES as PUBLIC_MODULES

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = [name for name in PUBLIC_MODULES if name != "gles_apps.ray"]
PUBLISHED = (
    "digit_detector.tflite",
    "movenet_single_pose_lightning_ptq.tflite",
    "super_resolution_x2.tflite",
    "yamnet.tflite",
)
"""Files that examples name."""
FROM_TASKS = ("Options", "RegionOfInterest", "Result")
"""Endings of classes that the example of their task shows."""


def described() -> Iterator[tuple[str, Any]]:
    """Functions and classes that users call, with their names."""
    for module in MODULES:
        for name in import_module(module).__all__:
            thing = getattr(import_module(module), name)
            is_listed = isclass(thing) and issubclass(thing, (Exception, Enum))
            is_shown = module.startswith("gles_apps.tasks.") and name.endswith(FROM_TASKS)
            if (isclass(thing) or isfunction(thing)) and not is_listed and not is_shown:
                yield f"{module}.{name}", thing


THINGS = dict(described())


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Modules and pictures that examples name; the current folder has their files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_OPS", dict(registry._OPS))
    files = {name: make() for name, make in MADE.items()}
    files["segmenter.tflite"] = files["ball_segmenter.tflite"]
    for name, content in files.items():
        Path(name).write_bytes(content)
    pixels = picture(320, 200)[..., :3].copy()
    PIL.Image.fromarray(pixels).save("face.jpg")
    write_video(Path("video.mp4"), pixels)
    shown = tasks.Image(tasks.ImageFormat.SRGB, pixels)
    packages = {"batch": batch, "live": live, "mp": tasks, "ops": ops, "vision": vision}
    modules = {"dataclasses": dataclasses, "gd": gd, "np": np, "Path": Path, "PIL": PIL}
    return {**packages, **modules, "picture": shown}


@pytest.mark.parametrize("name", THINGS)
def test_the_example_runs(
    name: str, names: dict[str, Any], require: Require, capsys: pytest.CaptureFixture[str]
) -> None:
    text = unwrap(THINGS[name]).__doc__ or ""
    for file in PUBLISHED:
        if file in text:
            found = [p for p in (MODELS / file, EXAMPLES / "models" / file) if p.exists()]
            if not found:
                require("models", f"{file} is missing")
            Path(file).write_bytes(found[0].read_bytes())
    if "GStreamer" in text or "pipeline=" in text:
        try:
            libgst()
        except OSError as error:
            require("gstreamer", str(error))
    names[name.rpartition(".")[2]] = THINGS[name]
    test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    assert test.examples, "the docstring has no example"
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test)
    assert result.failed == 0, capsys.readouterr().out
