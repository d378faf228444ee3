"""Programs are ready for use before the first run."""

import pytest

import gles_delegate as gd
from gles_delegate.gl.functions import Functions
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
