"""Drivers that compute wrong."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from gles_delegate.gl.program import Program
from gles_delegate.runtime import programs
from gles_delegate.shaders.assembly import ShaderSource
from gles_delegate.verification import verdict
from tests.support.sampling import ROOT
from tests.support.tflite_builder import ModelBuilder

WRONG_RSQRT = ("inversesqrt(x)", "(1.03 * inversesqrt(x))")
RSQRT_INPUT = np.linspace(0.5, 9, 12, dtype=np.float32).reshape(1, 2, 2, 3)
RSQRT_RESULT = np.tanh(1 / np.sqrt(RSQRT_INPUT + 1))
_LOOP = re.compile(r"for \(int (\w+) = ([^;\n]+); ([^;\n]+); ([^;()\n]+)\)")

_UNROLLED = re.compile(r"#pragma unroll.*\n.*")


def rsqrt_model() -> bytes:
    """tanh(rsqrt(x + 1))."""
    b, shape = ModelBuilder(), RSQRT_INPUT.shape
    x = b.op("ADD", [b.input(shape), b.constant(np.float32(1))], [shape])
    return b.build([b.op("TANH", [b.op("RSQRT", [x], [shape])], [shape])])


@contextmanager
def lying_driver(old: str, new: str, having: str = "", name: str = "") -> Iterator[None]:
    """The driver compiles `new` for `old` in each shader with `having`, and of this name if one is
    given; no verdict is known."""

    def changed(gl: Any, source: ShaderSource, binary: bytes) -> Program:
        is_meant = having in source.text and name in ("", source.name)
        text = source.text.replace(old, new) if is_meant else source.text
        return Program(gl, replace(source, text=text), binary)

    with patch.object(programs, "Program", changed), patch.dict(verdict._found, clear=True):
        yield


@contextmanager
def watched_driver() -> Iterator[list[ShaderSource]]:
    """An honest driver; the list has the shaders that it compiles."""
    sources: list[ShaderSource] = []

    def watched(gl: Any, source: ShaderSource, binary: bytes) -> Program:
        sources.append(source)
        return Program(gl, source, binary)

    with patch.object(programs, "Program", watched):
        yield sources


def loops_of(source: ShaderSource) -> list[str]:
    """The heads of the loops of a shader's own file, not of its includes, that stay loops."""
    own = _UNROLLED.sub("", (ROOT / "glsl" / source.name).read_text("utf-8"))
    loops = dict.fromkeys(match[0] for match in _LOOP.finditer(source.text))
    return [loop for loop in loops if loop in own]


def ending_early(loop: str) -> str:
    """The head of a loop that ends after its first pass."""
    match = _LOOP.fullmatch(loop)
    assert match is not None
    name, start, condition, step = match.groups()
    return f"for (int {name} = {start}; ({condition}) && {name} == ({start}); {step})"
