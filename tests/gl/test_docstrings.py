"""The examples in the docstrings of public names run, and print what they say."""

from __future__ import annotations

import doctest
import shutil
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from inspect import isclass, isfunction, unwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from tests.support.example import EXAMPLES
from tests.unit.test_public_names import LISTED

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = ("gles_delegate",)


def described() -> Iterator[tuple[str, Any]]:
    """Functions, and classes that users create or get, with their names."""
    for module in MODULES:
        for name in LISTED[module]:
            thing = getattr(import_module(module), name)
            is_raised_or_listed = isclass(thing) and issubclass(thing, (Exception, Enum))
            if (isclass(thing) or isfunction(thing)) and not is_raised_or_listed:
                yield f"{module}.{name}", thing


THINGS = dict(described())


@pytest.mark.parametrize("name", THINGS)
def test_the_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(EXAMPLES / "models" / "ball_segmenter.tflite", tmp_path / "segmenter.tflite")
    monkeypatch.chdir(tmp_path)
    text = unwrap(THINGS[name]).__doc__ or ""
    names = {"gd": gd, "np": np, name.rpartition(".")[2]: THINGS[name]}
    test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    assert test.examples, "the docstring has no example"
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test)
    assert result.failed == 0, capsys.readouterr().out
