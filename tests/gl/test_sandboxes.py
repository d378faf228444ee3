"""Systems that refuse what is only for speed: processors, priorities and limits."""

import os
import platform
import resource
from pathlib import Path
from typing import Any

import pytest

import gles_delegate as gd
from gles_apps.batch import machine, pool
from gles_delegate.gl import llvmpipe
from gles_delegate.support.threads import processor_count, processors
from tests.support.example import EXAMPLES
from tests.support.process import run_python
from tests.support.small import allocated, check

CALLS = {
    "sched_setaffinity": 203, "sched_getaffinity": 204, "setpriority": 141, "getpriority": 140,
    "getrlimit": 97, "prlimit64": 302,
}  # fmt: skip
"""System calls of x86-64, by name."""

REFUSING = """
import ctypes, struct, sys

def refuse(numbers):
    step = struct.Struct("HBBI")
    steps = [step.pack(0x20, 0, 0, 0)]
    for number in numbers:
        steps += [step.pack(0x15, 0, 1, number), step.pack(0x06, 0, 0, 0x00050001)]
    steps.append(step.pack(0x06, 0, 0, 0x7FFF0000))
    filters = ctypes.create_string_buffer(b"".join(steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(filters))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0

refuse(map(int, sys.argv.pop(1).split(",")))
"""


def refused(*arguments: Any) -> Any:
    raise PermissionError(1, "Operation not permitted")


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        *((os, name) for name in ("sched_getaffinity", "sched_setaffinity", "setpriority")),
        (resource, "getrlimit"),
    ):
        monkeypatch.setattr(module, name, refused)


@pytest.mark.usefixtures("sandbox", "gl")
def test_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert processors() == []
    assert processor_count() == 6
    assert llvmpipe.threads_with_room() == 0
    llvmpipe.pin_workers()
    monkeypatch.setattr(machine, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(machine, "_held", [])
    monkeypatch.setenv("LP_NUM_THREADS", "1")
    machine.take_processors(2)
    assert pool.workers_for(100) in (2, 6)
    with gd.GpuDelegate() as delegate:
        check(allocated(delegate))


def test_a_worker_whose_processors_are_not_its_to_choose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", refused)
    monkeypatch.setattr(machine, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(machine, "_held", [])
    monkeypatch.setenv("LP_NUM_THREADS", "1")
    machine.take_processors(1)
    for file in machine._held:
        file.close()


@pytest.mark.usefixtures("gl")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are x86-64's")
@pytest.mark.parametrize("numbers", [[number] for number in CALLS.values()] + [[*CALLS.values()]])
def test_the_kernel_refuses(numbers: list[int], tmp_path: Path) -> None:
    code = REFUSING + (
        "if sys.argv[1] == 'batch':\n"
        "    from gles_delegate.cli import main\n"
        "    main()\n"
        "import gles_delegate as gd\n"
        "from tests.support.small import allocated, check\n"
        "with gd.GpuDelegate() as delegate:\n"
        "    check(allocated(delegate))\n"
    )
    refusing = ",".join(map(str, numbers))
    done = run_python(code, refusing, "small")
    assert (done.returncode, done.stderr) == (0, "")
    if len(numbers) > 1:
        model, picture = EXAMPLES / "models" / "digit_classifier.tflite", EXAMPLES / "digit.png"
        done = run_python(code, refusing, "batch", model, picture, "--output", tmp_path / "r.csv")
        assert done.stdout == "1 picture: 1 with results, 0 unreadable\n", done.stderr
