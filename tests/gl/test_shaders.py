"""Shaders that do not compile: the error names our file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

import gles_delegate as gd
from gles_delegate.dispatch import Call, Dispatch
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.program import Program
from gles_delegate.shaders.assembly import DESKTOP_HEADER, ES_HEADER, assemble
from tests.op_table.graphs import GRAPHS
from tests.unit.test_plan import FLOOR, ROOMY, plan_of, sketched

pytestmark = pytest.mark.usefixtures("gl")


@pytest.fixture(scope="module")
def gpu(gl: None) -> Iterator[GpuContext]:
    gpu = GpuContext()
    yield gpu
    gpu.release()


def first_of_each_shader() -> dict[str, Dispatch]:
    plans = (plan_of(sketched(name), limits) for name in GRAPHS for limits in (ROOMY, FLOOR))
    return {dispatch.shader: dispatch for plan in plans for dispatch in plan.dispatches}


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


@pytest.mark.parametrize("shader", first_of_each_shader())
def test_a_missing_define_is_named_with_file_and_line(shader: str, gpu: GpuContext) -> None:
    dispatch = first_of_each_shader()[shader]
    compile_shader(dispatch, gpu)
    assert dispatch.defines
    for name in dispatch.defines:
        rest = {key: value for key, value in dispatch.defines.items() if key != name}
        with pytest.raises(gd.ShaderError) as caught:
            compile_shader(replace(dispatch, defines=rest), gpu)
        message = str(caught.value)
        assert message.startswith(f"{shader}.glsl did not compile:\n")
        assert re.search(r"\b[\w/]+\.glsl:\d+", message), message


def test_an_unknown_epilogue_is_a_shader_error(gpu: GpuContext) -> None:
    dispatch = first_of_each_shader()["conv_2d"]
    call = Call("NO_SUCH_FUNCTION")
    with pytest.raises(gd.ShaderError, match="NO_SUCH_FUNCTION"):
        compile_shader(replace(dispatch, epilogue=(call,)), gpu)


def test_a_program_that_does_not_link(gpu: GpuContext) -> None:
    """A work group beyond the device's limit."""
    dispatch = first_of_each_shader()["softmax"]
    with pytest.raises(gd.ShaderError, match=r"softmax\.glsl did not (compile|link)"):
        compile_shader(replace(dispatch, grid=replace(dispatch.grid, pixel_lanes=1 << 20)), gpu)
