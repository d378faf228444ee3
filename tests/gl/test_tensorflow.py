"""TensorFlow and Mesa in one process, each with its own LLVM."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.process import ROOT, run_python

pytestmark = pytest.mark.mesa

START = """
import os, sys
from tests.support.small import small_model, check
from gles_delegate.gl import tensorflow as apart
import gles_delegate as gd

loaded, load = [], apart._load
apart._load = lambda library: (loaded.append(os.path.basename(library)), load(library))

def run():
    with gd.Interpreter(model_content=small_model()) as interpreter:
        interpreter.allocate_tensors()
        check(interpreter)

def finders():
    finders = (f for f in sys.meta_path if type(f).__module__.startswith("gles_delegate.gl"))
    return [type(finder).__name__ for finder in finders].count("_Finder")
"""
FIRST = "import tensorflow; run(); print(loaded[0], finders())"
AFTERWARDS = """
run()
before = sys.getdlopenflags()
print(loaded, finders(), end=" ")
import tensorflow, tensorflow.later
print(tensorflow.flags == before | os.RTLD_DEEPBIND, tensorflow.later.flags == before, finders())
assert sys.getdlopenflags() == before
run()
"""
ANOTHER = "run(); import colorsys; print(finders())"
FLAGS = "import sys\nflags = sys.getdlopenflags()\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a package named tensorflow, which notes how its libraries are loaded."""
    package = tmp_path / "tensorflow"
    package.mkdir()
    for name in ("__init__", "later"):
        (package / f"{name}.py").write_text(FLAGS)
    return tmp_path


def output(script: str, folder: Path | None = None, **variables: str) -> str:
    path = os.pathsep.join(map(str, (ROOT, folder) if folder else (ROOT,)))
    ended = run_python(START + script, timeout=300, PYTHONPATH=path, **variables)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_mesa_is_loaded_apart_from_a_tensorflow_that_is_there(folder: Path) -> None:
    assert output(FIRST, folder) == "libEGL_mesa.so.0 0\n"


def test_a_tensorflow_that_comes_later_is_loaded_apart(folder: Path) -> None:
    assert output(AFTERWARDS, folder) == "[] 1 True True 0\n"


def test_a_program_that_asks_for_tensorflow_first(folder: Path) -> None:
    script = AFTERWARDS.replace("import tensorflow,", "find_spec('tensorflow'); import tensorflow,")
    assert output(f"from importlib.util import find_spec\n{script}", folder) == "[] 1 True True 0\n"


def test_other_imports_are_left_alone(folder: Path) -> None:
    assert output(ANOTHER, folder) == "1\n"


@pytest.mark.skipif(find_spec("tensorflow") is not None, reason="TensorFlow is installed")
def test_without_tensorflow_no_import_is_watched() -> None:
    assert output(ANOTHER) == "0\n"


def test_nothing_is_loaded_apart_from_an_allocator(folder: Path) -> None:
    """With another allocator, memory from the one would be freed by the other."""
    script = "import tensorflow; run(); print(loaded, finders())"
    assert output(script, folder, LD_PRELOAD="libm.so.6") == "[] 0\n"


@pytest.mark.skipif(find_spec("tensorflow") is None, reason="TensorFlow is not installed")
@pytest.mark.parametrize(
    "script", ["import tensorflow as t; run()", "run(); import tensorflow as t; run()"]
)
def test_the_real_one(script: str) -> None:
    assert output(f"{script}; print(float(t.reduce_sum(t.ones(3))))") == "3.0\n"
