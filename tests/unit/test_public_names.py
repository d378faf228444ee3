"""Public names have docstrings; tests/unit/test_api_pages.py compares them with the reference."""

from importlib import import_module
from inspect import isclass, isfunction

import pytest

import gles_delegate
from gles_delegate import Interpreter
from tests.conftest import TIERS, Require
from tests.unit.test_api_pages import MODULES


@pytest.mark.parametrize("module", MODULES)
def test_public_names_have_docstrings(module: str, require: Require) -> None:
    try:
        names = import_module(module)
    except ModuleNotFoundError as error:
        require(TIERS.get(error.name or "", error.name or ""), str(error))
    objects = {name: getattr(names, name) for name in names.__all__}
    described = {n: o for n, o in objects.items() if isclass(o) or isfunction(o)}
    assert [name for name, thing in described.items() if not (thing.__doc__ or "").strip()] == []


def test_pyright_takes_an_interpreter_for_what_it_describes() -> None:
    """To it, a cached_property suits no property of a protocol."""
    assert isinstance(vars(Interpreter)["metadata"], property)


def test_names_that_are_not_there() -> None:
    assert not hasattr(gles_delegate, "Interpretor")
    with pytest.raises(AttributeError, match=r"no attribute 'Interpretor'$"):
        gles_delegate.__getattr__("Interpretor")
