"""Public names: all are on the page of versions, and each has a docstring."""

import re
from importlib import import_module
from inspect import isclass, isfunction
from pathlib import Path

import pytest

from tests.conftest import TIERS, Require

PAGE = (Path(__file__).parents[2] / "docs" / "versions.md").read_text("utf-8")
LISTED = {
    module: re.findall(r"`(\w+)`", names)
    for module, names in re.findall(
        r"^### (\S+)\n\n(.+?)\n(?:\n|\Z)", PAGE, re.MULTILINE | re.DOTALL
    )
}


@pytest.mark.parametrize("module", LISTED)
def test_the_page_lists_the_public_names(module: str, require: Require) -> None:
    """A name that is added goes onto the page; one that is missing breaks somebody's program."""
    try:
        names = import_module(module)
    except ModuleNotFoundError as error:
        require(TIERS.get(error.name or "", error.name or ""), str(error))
    assert LISTED[module] == sorted(names.__all__)
    objects = {name: getattr(names, name) for name in names.__all__}
    described = {n: o for n, o in objects.items() if isclass(o) or isfunction(o)}
    assert [name for name, thing in described.items() if not (thing.__doc__ or "").strip()] == []


def test_the_page_has_each_module() -> None:
    """The apps have few names beside tasks, whose names are MediaPipe's."""
    assert len(LISTED) == 10
    ours = [names for module, names in LISTED.items() if re.match(r"gles_apps\.(?!tasks)", module)]
    assert 40 < sum(map(len, ours)) < 60
