"""A program ends with status 0 and without a word, whatever it keeps and in whatever state."""

import gc
import weakref
from itertools import product
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.model.dtypes import SCHEMA_NUMBERS
from tests.support.ends import HOLDERS, HOSTS, OF_ONE_HOST, STATES
from tests.support.process import run_python
from tests.support.sampling import choose, drawn
from tests.support.tflite_builder import ModelBuilder

EVERY = [
    case
    for case in product(STATES, HOLDERS, HOSTS)
    if case[0] not in OF_ONE_HOST or case[2] == HOSTS[0]
]
NAMED = [
    ("run twice", "finalizer", "standalone"),
    ("run", "cache", "litert"),
    ("run", "cycle", "litert"),
    ("an error caught", "global", "litert"),
]
ENDS = "import sys; from tests.support.ends import main; main(*sys.argv[1:])"


@pytest.mark.parametrize("case", choose("ends of programs", EVERY, NAMED + drawn(EVERY, 8)))
def test_a_program_ends(case: tuple[str, ...]) -> None:
    run = run_python(ENDS, *case, timeout=60)
    said = [line for line in run.stderr.splitlines() if not line.startswith("INFO: ")]  # LiteRT's
    assert (run.stdout, run.returncode, said) == ("done\n", 0, [])


def model(dtype: str) -> bytes:
    """ADD on the GPU, and a CAST to float64 and back on the CPU."""
    builder = ModelBuilder()
    x = builder.input((1, 8), dtype, name="x")
    y = builder.op("ADD", [x, x], [(1, 8)])
    types = {"in_data_type": SCHEMA_NUMBERS[dtype], "out_data_type": SCHEMA_NUMBERS["float64"]}
    wide = builder.op("CAST", [y], [builder.tensor((1, 8), "float64")], **types)
    types = {"in_data_type": SCHEMA_NUMBERS["float64"], "out_data_type": SCHEMA_NUMBERS["float32"]}
    return builder.build([builder.op("CAST", [wide], [builder.tensor((1, 8))], **types)])


def too_large() -> gd.Interpreter:
    """An interpreter whose next run meets numbers that the GPU cannot have."""
    interpreter = gd.Interpreter(model_content=model("int64"))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.full((1, 8), 2**40, np.int64))
    return interpreter


def closed() -> gd.Interpreter:
    interpreter = gd.Interpreter(model_content=model("float32"))
    interpreter.allocate_tensors()
    interpreter.close()
    return interpreter


@pytest.mark.parametrize("make", [too_large, closed])
def test_a_caught_error_keeps_nothing_alive(make: Any) -> None:
    interpreter = make()
    litert = weakref.ref(interpreter._litert.interpreter)
    for _ in range(2):
        with pytest.raises((gd.DelegateError, ValueError)):
            interpreter.invoke()
    interpreter.close()
    del interpreter
    gc.collect()
    assert litert() is None
