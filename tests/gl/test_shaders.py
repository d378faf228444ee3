"""Shaders that do not compile: the error names our file and line."""

import re
from dataclasses import replace
from functools import cache

import pytest

import gles_delegate as gd
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.program import Program
from gles_delegate.shaders.assembly import DESKTOP_HEADER, ES_HEADER, assemble
from gles_delegate.shaders.dispatch import Call, Dispatch
from tests.op_table.graphs import GRAPHS
from tests.unit.test_plan import FLOOR, ROOMY, plan_of, sketched


@cache
def some_of_each_shader() -> dict[str, tuple[Dispatch, Dispatch]]:
    """The first and the last dispatch of each shader in the graphs."""
    plans = (plan_of(sketched(name), limits) for name in GRAPHS for limits in (ROOMY, FLOOR))
    found: dict[str, tuple[Dispatch, Dispatch]] = {}
    for dispatch in (dispatch for plan in plans for dispatch in plan.dispatches):
        first, _ = found.get(dispatch.shader, (dispatch, dispatch))
        found[dispatch.shader] = first, dispatch
    return found


def compile_shader(dispatch: Dispatch, gpu: GpuContext) -> None:
    with gpu.guard():
        program = Program(
            gpu.gl,
            assemble(dispatch, gpu.limits, ES_HEADER if gpu.driver.is_es else DESKTOP_HEADER),
        )
        try:
            program.finish()
        finally:
            program.release()


@pytest.mark.parametrize("shader", some_of_each_shader())
def test_a_missing_define_is_named_with_file_and_line(shader: str, gpu: GpuContext) -> None:
    """Some forms of a shader do without some defines, but not all forms."""
    messages: dict[str, list[str]] = {}
    for dispatch in some_of_each_shader()[shader]:
        compile_shader(dispatch, gpu)
        for name in dispatch.defines:
            rest = {key: value for key, value in dispatch.defines.items() if key != name}
            messages.setdefault(name, [])
            try:
                compile_shader(replace(dispatch, defines=rest), gpu)
            except gd.ShaderError as error:
                messages[name].append(str(error))
    assert messages
    for name, some in messages.items():
        assert some, f"{name} is defined for nothing"
        for message in some:
            assert message.startswith(f"{shader}.glsl did not compile:\n")
            assert re.search(r"\b[\w/]+\.glsl:\d+", message), message


def test_an_unknown_epilogue_is_a_shader_error(gpu: GpuContext) -> None:
    dispatch = some_of_each_shader()["conv_2d"][0]
    call = Call("NO_SUCH_FUNCTION")
    with pytest.raises(gd.ShaderError, match="NO_SUCH_FUNCTION"):
        compile_shader(replace(dispatch, epilogue=(call,)), gpu)


def test_a_program_that_does_not_link(gpu: GpuContext) -> None:
    """A work group beyond the device's limit."""
    dispatch = some_of_each_shader()["softmax"][0]
    with pytest.raises(gd.ShaderError, match=r"softmax\.glsl did not (compile|link)"):
        compile_shader(replace(dispatch, grid=replace(dispatch.grid, pixel_lanes=1 << 20)), gpu)
