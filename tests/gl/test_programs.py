"""Programs are ready for use before the first run."""

from pathlib import Path

import pytest

import gles_delegate as gd
from gles_delegate.gl.functions import Functions
from gles_delegate.runtime import programs
from tests.support.small import allocated, check
from tests.support.trace import traced


@pytest.fixture(params=["here", "floor"])
def device(request: pytest.FixtureRequest) -> None:
    if request.param == "floor":
        request.getfixturevalue("floor")


@pytest.mark.usefixtures("device")
def test_every_program_is_used_before_the_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers such as llvmpipe and V3D generate machine code when a program is first used."""
    steps: list[tuple[int, int]] = []
    with (
        traced(monkeypatch) as calls,
        gd.GpuDelegate(progress=lambda done, total: steps.append((done, total))) as delegate,
    ):
        interpreter = allocated(delegate)
        programs = calls.count("glCreateProgram")
        assert calls.count("glDispatchComputeIndirect") >= programs > 0
        assert "glDispatchCompute" not in calls
        assert (steps[0], steps[-1]) == ((0, programs), (programs, programs))
        assert steps == sorted({(done, programs) for done, _ in steps})
        check(interpreter)


def test_only_a_context_of_the_delegate_gets_all_compiler_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call, counts = "glMaxShaderCompilerThreadsKHR", []
    context = gd.EglContext()
    with context:
        has_threads = "GL_KHR_parallel_shader_compile" in Functions(context.load).extensions()
    for given in (None, context):
        with traced(monkeypatch) as calls, gd.GpuDelegate(context=given) as delegate:
            allocated(delegate)
        counts.append(calls.count(call))
    context.release()
    assert counts == [int(has_threads), 0]


@pytest.mark.parametrize("kept", [False, True])
def test_long_compiling_is_said_once(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And not to those who are told of each program."""
    options = gd.GpuDelegateOptions(serialization_dir=tmp_path if kept else None)
    for silence, progress, count in ((600, None, 0), (-1, None, 1), (-1, lambda *_: None, 0)):
        monkeypatch.setattr(programs, "_SILENCE", silence)
        caplog.clear()
        with gd.GpuDelegate(options, progress=progress) as delegate:
            allocated(delegate)
        lines = [line for line in caplog.messages if line.startswith("compiling shaders: 0 of ")]
        assert len(lines) == count
        assert all(line.endswith(" keeps them for later") != kept for line in lines)
