"""Some of the calls of `tests.attack.faults` fail in every run of the tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gles_delegate.gl.buffers import Buffer
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.functions import Functions
from tests.attack.faults import life, run_case

pytestmark = [pytest.mark.usefixtures("gl"), pytest.mark.mesa, pytest.mark.background]

ONCE_WRONG = [
    ("standalone", "own", "eglMakeCurrent", 3),
    ("standalone", "own", "eglBindAPI", 3),
    ("standalone", "own", "glGenTextures", 3),
    ("standalone", "own", "glBindBuffer", 3),
    ("standalone", "given", "glBindBuffer", 3),
    ("standalone", "given", "glBufferSubData", 3),
    ("standalone", "given", "glFlush", 3),
    ("standalone", "given", "glUseProgram", 8),
    ("standalone", "given", "glBindTexture", 3),
    ("standalone", "given", "glGetProgramiv", 3),
    ("standalone", "given", "glGetTexLevelParameteriv", 3),
    ("standalone", "given", "glGetInteger64i_v", 3),
    ("standalone", "adopted", "eglMakeCurrent", 3),
    ("ours", "given", "glClientWaitSync", 3),
]
"""Faults that were not reported, or left something behind; the numbers: see `Life.cases`."""


@pytest.mark.parametrize(("host", "where", "name", "lines"), ONCE_WRONG)
def test_calls_that_were_once_wrong(host: str, where: str, name: str, lines: int) -> None:
    cases = [case for case in life(host, where).cases(lines) if case.name == name]
    assert cases
    assert not list(filter(None, map(run_case, cases)))


@pytest.mark.parametrize(
    ("host", "where"), [("LiteRT's", "adopted desktop"), ("ours", "own thread")]
)
def test_some_calls_of_other_lives(host: str, where: str) -> None:
    cases = life(host, where).cases(1)[::20]
    assert len(cases) > 10
    assert not list(filter(None, map(run_case, cases)))


def ignore(gl: Functions, _: str) -> None:
    gl.unchecked("glGetError")()


@pytest.mark.parametrize(
    ("function", "broken", "fault", "reason"),
    [
        ((Buffer, "release"), lambda _: None, "glGenTextures", "Buffer"),
        ((Functions, "check"), ignore, "glBufferSubData", "wrong results"),
        ((GpuContext, "release"), lambda _: None, "glGenTextures", "EGL contexts are left"),
    ],
)
def test_what_is_wrong_is_found(
    function: tuple[type, str],
    broken: Callable[..., object],
    fault: str,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = "own" if "EGL" in reason else "given"
    case = next(case for case in life("standalone", where).cases(1) if case.name == fault)
    assert not run_case(case)
    monkeypatch.setattr(*function, broken)
    assert reason in run_case(case)
