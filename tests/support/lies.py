"""Drivers that compute wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from gles_delegate.gl.program import Program
from gles_delegate.runtime import programs
from gles_delegate.shaders.assembly import ShaderSource
from gles_delegate.verification import verdict

WRONG_RSQRT = ("inversesqrt(x)", "(1.03 * inversesqrt(x))")


@contextmanager
def lying_driver(old: str, new: str, having: str = "") -> Iterator[None]:
    """The driver compiles `new` for `old` in each shader with `having`; no verdict is known."""

    def changed(gl: Any, source: ShaderSource, binary: bytes) -> Program:
        text = source.text.replace(old, new) if having in source.text else source.text
        return Program(gl, replace(source, text=text), binary)

    with patch.object(programs, "Program", changed), patch.dict(verdict._found, clear=True):
        yield
