"""Fixtures of every tier: ``unit`` needs nothing, ``gl`` a GL context, ``litert`` LiteRT."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from gles_delegate.errors import ContextError
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.egl import EglContext
from gles_delegate.limits import Limits

Require = Callable[[str, str], NoReturn]
MODELS = os.environ.get("GLES_DELEGATE_MODELS", Path(__file__).parents[2] / "shared" / "models")


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


@pytest.fixture(scope="session")
def real_model(require: Require) -> Callable[[str], bytes]:
    """The bytes of a published model, from the folder named by GLES_DELEGATE_MODELS."""

    def read(name: str) -> bytes:
        path = Path(MODELS, f"{name}.tflite")
        if not path.is_file():
            require("models", f"{path} is missing; GLES_DELEGATE_MODELS names another folder")
        return path.read_bytes()

    return read


@pytest.fixture(scope="session")
def real_picture(require: Require) -> Callable[[str], Path]:
    """The path of a published picture, from the folder ``images`` beside the models."""

    def find(name: str) -> Path:
        path = Path(MODELS).parent / "images" / name
        if not path.is_file():
            require("models", f"{path} is missing; GLES_DELEGATE_MODELS names another folder")
        return path

    return find


@pytest.fixture
def floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every device is taken for one that has what OpenGL ES 3.1 guarantees, and no more."""
    read_limits = GpuContext._read_limits

    def read_floor(self: GpuContext) -> None:
        read_limits(self)
        # What a driver gets wrong stays so.
        self.limits = Limits(size_uniforms=self.limits.size_uniforms)

    monkeypatch.setattr(GpuContext, "_read_limits", read_floor)
