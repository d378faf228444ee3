"""Fixtures of every tier: ``unit`` needs nothing, ``gl`` a GL context, ``litert`` LiteRT."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn

import pytest

from gles_delegate.errors import ContextError
from gles_delegate.gl.egl import EglContext

Require = Callable[[str, str], NoReturn]


@pytest.fixture(scope="session")
def require() -> Require:
    """Call it with a tier and the reason why it cannot run: it skips the test.

    It fails the test where the environment variable GLES_DELEGATE_REQUIRE, a comma-separated
    list, names the tier: then skipping it is not allowed.
    """
    required = os.environ.get("GLES_DELEGATE_REQUIRE", "").replace(" ", "").split(",")

    def require(tier: str, reason: str) -> NoReturn:
        if tier in required:
            pytest.fail(f"GLES_DELEGATE_REQUIRE asks for {tier}: {reason}", pytrace=False)
        pytest.skip(reason)

    return require


@pytest.fixture(scope="session")
def gl(require: Require) -> None:
    """A machine on which an OpenGL ES context can be had."""
    try:
        EglContext().release()
    except ContextError as error:
        require("gl", str(error))
