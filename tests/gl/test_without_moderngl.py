"""A machine without moderngl and glcontext, which have no wheels for most boards."""

from tests.support.process import run_python

BLOCKED = "import sys; sys.modules.update(moderngl=None, glcontext=None)\n"

RUN = """
import gles_delegate as gd
from tests.support.small import allocated, check

with gd.GpuDelegate() as delegate:
    interpreter = allocated(delegate)
    check(interpreter)
    print(delegate.report)
    delegate.bind_buffer_to_tensor(interpreter.get_input_details()[0]["index"], 0)
"""

ADOPT = """
import gles_delegate as gd
from tests.support.small import allocated, check

with gd.EglContext(), gd.GpuDelegate(context="current") as delegate:
    check(allocated(delegate))
    print(delegate.report)
"""


def test_a_model_runs_on_an_own_context() -> None:
    result = run_python(BLOCKED + RUN)
    # The last line gets as far as a check that takes moderngl's buffers for what they are.
    assert "ValueError: expected a buffer of the delegate's context" in result.stderr
    assert "2 of 2 nodes run on the GPU" in result.stdout


def test_the_current_egl_context_is_adopted() -> None:
    result = run_python(BLOCKED + ADOPT)
    assert result.returncode == 0, result.stderr
    assert "2 of 2 nodes run on the GPU" in result.stdout


def test_the_doctor_finds_the_machine_healthy() -> None:
    result = run_python(BLOCKED + "from gles_delegate.cli import main; main()", "doctor")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "passed" in result.stdout
