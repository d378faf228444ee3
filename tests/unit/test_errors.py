"""Errors that processes send to each other."""

import copy
import pickle
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

import gles_delegate as gd
from gles_delegate.gl.libegl import DestroyedError, EglError
from gles_delegate.ops.lib.node import RunTimeParameter
from tests.unit.test_imports import APP_FILES, APPS, FILES, PACKAGE

ARGUMENTS: dict[type[BaseException], tuple[Any, ...]] = {
    gd.UnsupportedModelError: ("two nodes", [(0, "ADD", "why"), (1, "MUL", "why not")]),
    DestroyedError: ("expected a context, found none",),
    EglError: ("eglMakeCurrent", 0x3002),
    RunTimeParameter: ("expected a constant", 1, 2),
}
"""Of classes with a constructor of their own."""


def classes() -> list[type[BaseException]]:
    """Every class of errors in both packages whose module can be imported here."""
    for root, files in ((PACKAGE, FILES), (APPS, APP_FILES)):
        for path in files:
            parts = path.relative_to(root.parent).with_suffix("").parts
            name = ".".join(part for part in parts if part != "__init__")
            if not name.endswith("__main__"):
                with suppress(ImportError):  # an extra is missing
                    import_module(name)
    mine = {
        c for c in _below(BaseException) if c.__module__.startswith(("gles_delegate", "gles_apps"))
    }
    return sorted(mine, key=lambda each: each.__name__)


def _below(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def test_every_error_survives_a_pickle() -> None:
    """A pool of processes waits for ever for a result that cannot be loaded."""
    found = classes()
    assert {gd.DelegateError, gd.ShaderError, *ARGUMENTS} <= {*found}
    assert {each for each in found if "__init__" in vars(each)} == ARGUMENTS.keys()
    for kind in found:
        error = kind(*ARGUMENTS.get(kind, ("expected this, found that",)))
        error.noted = "by the caller"  # type: ignore[attr-defined]
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(again) is kind
            assert str(again) == str(error)
            assert again.args == error.args
            assert vars(again) == vars(error)


@pytest.mark.parametrize("kind", [gd.ModelError, gd.OutOfGpuMemoryError])
def test_an_error_of_two_trees_stays_both(kind: type[Exception]) -> None:
    error = pickle.loads(pickle.dumps(kind("expected a model, found none")))
    assert isinstance(error, gd.DelegateError)
    assert isinstance(error, ValueError | MemoryError)
