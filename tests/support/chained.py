"""Models whose rows reach others: by an op along the batch, or by what a run leaves behind."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.op_table.recurrent import full_lstm
from tests.support import oracle
from tests.support.sketch import Sketch
from tests.support.tflite_builder import ModelBuilder

Array = NDArray[Any]

KINDS = ("sum", "reverse", "difference", "LSTM", "one step of an LSTM", "states", "variables")


def chained(kind: str) -> bytes:
    """A model of one input; a row of it has 3 numbers, of "LSTM" 4 steps of a batch of 1."""
    s = Sketch(np.random.default_rng(0))
    if "LSTM" in kind or kind == "states":
        shape, name = (4 if kind == "LSTM" else 1, 1, 3), "UNIDIRECTIONAL_SEQUENCE_LSTM"
        return oracle.complete(s, [full_lstm(s, name, x=shape, time_major=kind != "states")])
    x = s.input((1, 3), name="x")
    if kind == "variables":
        s.op("CALL_ONCE", [], [], init_subgraph_index=s.subgraph(_first))
        y = s.op("ADD", [x, s.op("READ_VARIABLE", [_handle(s)], [s.tensor((1, 3))])], [(1, 3)])
        s.op("ASSIGN_VARIABLE", [_handle(s), y], [])
    elif kind == "difference":  # of each row to the one above, and of the first to zero
        above = s.op("PAD", [x, s.constant(np.int32([[1, 0], [0, 0]]))], [(2, 3)])
        bounds = [s.constant(np.int32(v)) for v in ([0, 0], [-1, 3], [1, 1])]
        kept = s.op("STRIDED_SLICE", [above, *bounds], [(1, 3)], begin_mask=3, end_mask=2)
        y = s.op("SUB", [x, kept], [(1, 3)])
    else:
        op = {"sum": "CUMSUM", "reverse": "REVERSE_V2"}[kind]
        axis = s.constant(np.int32(0 if kind == "sum" else [0]))
        y = s.op(op, [x, axis], [(1, 3)])
    return s.build([y])


def row_of(kind: str, number: int) -> Array:
    """A row that differs from the rows of other numbers."""
    shape = {"LSTM": (4, 1, 3), "one step of an LSTM": (1, 3), "states": (1, 3)}.get(kind, (3,))
    return np.random.default_rng(number).standard_normal(shape).astype(np.float32)


def expected_of(kind: str, row: Array) -> Array:
    """LiteRT's output for a row, in an interpreter that has run nothing else."""
    interpreter = oracle.litert_interpreter(chained(kind))
    (output,) = oracle.run(interpreter, [row if kind == "LSTM" else row[np.newaxis]])
    return output if kind == "LSTM" else output[0]


def _handle(b: ModelBuilder) -> int:
    return b.op("VAR_HANDLE", [], [b.tensor((), "resource")], shared_name="sum")


def _first(b: ModelBuilder) -> list[int]:
    b.op("ASSIGN_VARIABLE", [_handle(b), b.constant(np.full((1, 3), 0.5, np.float32))], [])
    return []
