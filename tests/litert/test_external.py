"""The library by which programs load this package as TFLite's external delegate."""

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, load_delegate

from gles_delegate.hosts import external
from gles_delegate.litert.plugin import plugin_library
from tests.support.command import call, saved
from tests.support.hosts import run_resized
from tests.support.oracle import assert_close, run, run_litert
from tests.support.process import run_python
from tests.support.sampling import ROOT
from tests.support.small import INPUT, expected, small_model, with_a_detour
from tests.support.tflite_builder import ModelBuilder

ASSEMBLY = ROOT / "tests" / "support" / "assembly"
MACHINES = ("x86_64", "aarch64")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("library") / "libgles_delegate.so"
    call("library", file)
    yield str(file)
    assert not external._delegates


def interpreter_of(library: str, content: bytes, **options: object) -> Any:
    delegate = load_delegate(library, options)
    interpreter = Interpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    return interpreter


def kinds(interpreter: Any) -> list[str]:
    return [node["op_name"] for node in interpreter._get_ops_details()]


def test_a_model_from_memory_or_a_file(library: str, tmp_path: Path) -> None:
    file = saved(tmp_path / "model.tflite", small_model())
    for model in ({"model_content": small_model()}, {"model_path": str(file)}):
        interpreter = Interpreter(**model, experimental_delegates=[load_delegate(library)])
        interpreter.allocate_tensors()
        assert "DELEGATE" in kinds(interpreter)
        assert_close(run(interpreter, [INPUT]), [expected(INPUT)])
        larger = np.concatenate([INPUT, -INPUT])
        assert_close(run_resized(interpreter, [larger]), [expected(larger)])


def test_nodes_on_the_cpu(library: str) -> None:
    s, content = with_a_detour()
    interpreter = interpreter_of(library, content, max_delegated_partitions=9)
    assert kinds(interpreter).count("DELEGATE") == 2
    assert_close(run(interpreter, s.feeds), run_litert(content, s.feeds))


@pytest.mark.parametrize("has_name", [False, True])
def test_a_model_without_constants(has_name: bool, library: str) -> None:
    b = ModelBuilder()
    x = b.input((2, 3), name="x" if has_name else "")
    content = b.build([b.op("NEG", [x], [(2, 3)])])
    interpreter = interpreter_of(library, content)
    assert "DELEGATE" in kinds(interpreter)
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert_close(run(interpreter, [value]), [-value])


def test_several_at_once_on_any_thread(library: str) -> None:
    both = [interpreter_of(library, small_model()) for _ in range(2)]
    with ThreadPoolExecutor(1) as pool:
        for number, interpreter in enumerate(both * 3):
            value = INPUT * number
            assert_close(pool.submit(run, interpreter, [value]).result(), [expected(value)])
            assert_close(run(interpreter, [value]), [expected(value)])


def test_options_are_texts(library: str) -> None:
    interpreter = interpreter_of(
        library, small_model(), precision_loss_allowed="1", own_thread="false"
    )
    made = [*external._delegates.values()][-1]
    assert run(interpreter, [INPUT])
    assert made._delegate.options.half_allowed
    assert not made._delegate.options.own_thread
    for name, value, reason in (
        ("nothing", "1", "expected options of .* found nothing"),
        ("own_thread", "perhaps", "own_thread must be bool, not 'perhaps'"),
        ("max_delegated_partitions", "0", "must be 1 or more"),
    ):
        with pytest.raises(ValueError, match=reason):
            load_delegate(library, {name: value})


def test_a_failure_has_its_reason(library: str) -> None:
    _, content = with_a_detour()
    with pytest.raises(RuntimeError, match="require_full_delegation"):
        interpreter_of(library, content, require_full_delegation="true")


PROGRAM = """
import sys
from ai_edge_litert.interpreter import Interpreter, load_delegate
{before}
try:
    interpreter = Interpreter(sys.argv[1], experimental_delegates=[load_delegate(sys.argv[2])])
    interpreter.allocate_tensors()
    interpreter.invoke()
    print(interpreter._get_ops_details()[-1]["op_name"])
except ValueError as error:
    print(error)
{after}
"""


@pytest.mark.parametrize(
    "after", ["", "del interpreter", "sys.held = interpreter", "interpreter.me = interpreter"]
)
def test_the_end_of_a_program(after: str, library: str, tmp_path: Path) -> None:
    """Which does not import the package itself."""
    file = saved(tmp_path / "model.tflite", small_model())
    ran = run_python(PROGRAM.format(before="", after=after), file, library)
    assert (ran.returncode, ran.stdout) == (0, "DELEGATE\n"), ran.stderr


def test_a_python_without_the_package(library: str, tmp_path: Path) -> None:
    file = saved(tmp_path / "model.tflite", small_model())
    absent = "sys.modules['gles_delegate'] = None"
    ran = run_python(PROGRAM.format(before=absent, after=""), file, library)
    assert ran.returncode == 0
    assert "gles_delegate could not be imported" in ran.stdout
    assert "ModuleNotFoundError" in ran.stderr


def test_the_file_of_another_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "lib.so"
    call("library", file)
    call("library", "--machine", "aarch64", file)
    assert file.read_bytes() == plugin_library("aarch64")
    file.write_text("another")
    assert "expected a new file" in call("library", file, status=1)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["another"]


def tools(machine: str) -> tuple[str, list[str]]:
    """The prefix of a machine's compiler, and what runs its programs; skips where they lack."""
    prefix = "" if machine == platform.machine() else f"{machine}-linux-gnu-"
    runner = [] if not prefix else [f"qemu-{machine}-static", "-L", f"/usr/{machine}-linux-gnu"]
    for program in (f"{prefix}gcc", *runner[:1]):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    return prefix, runner


@pytest.mark.parametrize("machine", MACHINES)
def test_the_code_is_what_the_assembler_makes(machine: str, tmp_path: Path) -> None:
    prefix, _ = tools(machine)
    made, code = tmp_path / "code.o", tmp_path / "code"
    subprocess.run([f"{prefix}as", "-o", made, ASSEMBLY / f"{machine}.s"], check=True)
    copy = [f"{prefix}objcopy", "-O", "binary", "-j", ".text", made, code]
    subprocess.run(copy, check=True)
    assert code.read_bytes() in plugin_library(machine)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("macros", "lines"),
    [
        ([], ["report .* found none", "delegate .nil.", "delegate .nil."]),
        (
            ["-DSTUBS=0", "-DIMPORTS=1"],
            ["report .* found none", "delegate .nil.", "delegate .nil.", "depth 0"],
        ),
        (
            ["-DSTUBS=1", "-DIMPORTS=0"],
            [
                "import gles_delegate.hosts.external", "error", "report .* install it .*",
                "delegate .nil.", "import .*", "error", "delegate .nil.", "import .*", "error",
                "depth 0",
            ],
        ),
        (
            ["-DSTUBS=1", "-DIMPORTS=1"],
            [
                "import gles_delegate.hosts.external",
                "call 0x1234 create aaaa1111bbbb cccc2222dddd 3 [0-9a-f]+",
                "release 0x5678", "delegate 0x5679", "import gles_delegate.hosts.external",
                "call 0x1234 create 1 2 -4 0", "release 0x5678", "delegate 0x5679",
                "import gles_delegate.hosts.external", "call 0x1234 destroy 99990000aaaa",
                "release 0x5678", "depth 0",
            ],
        ),
    ],
)  # fmt: skip
def test_the_code_in_a_program(
    machine: str, macros: list[str], lines: list[str], tmp_path: Path
) -> None:
    """A program without Python, without the package, and with both."""
    prefix, runner = tools(machine)
    program, library = tmp_path / "program", tmp_path / "library.so"
    library.write_bytes(plugin_library(machine))
    source = ASSEMBLY / "host.c"
    subprocess.run(
        [f"{prefix}gcc", *macros, "-rdynamic", source, "-o", program, "-ldl"], check=True
    )
    ran = subprocess.run([*runner, program, library], capture_output=True, text=True, check=True)
    assert re.fullmatch("\n".join(lines) + "\n", ran.stdout), ran.stdout


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="tflite_runtime has no wheel for it")
def test_the_interpreter_of_tflite_runtime(library: str, tmp_path: Path) -> None:
    pytest.importorskip("tflite_runtime")
    file = saved(tmp_path / "model.tflite", small_model())
    program = PROGRAM.replace("ai_edge_litert", "tflite_runtime").format(before="", after="")
    ran = run_python(program, file, library)
    assert (ran.returncode, ran.stdout) == (0, "DELEGATE\n"), ran.stderr
