"""Ops in shapes and with attributes drawn at random, against LiteRT's CPU kernels."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, note

import gles_delegate as gd
from tests.op_table import OPS
from tests.op_table.case import make_case
from tests.support.fuzz import fuzz
from tests.support.oracle import assert_close, run_gles, run_litert


@pytest.mark.parametrize("op", [op for op, row in OPS.items() if row.draw])
@fuzz(examples=5)
def test_op(op: str, choose: random.Random, context: gd.EglContext) -> None:
    draw = OPS[op].draw
    assert draw
    case = make_case(op, OPS[op], draw(choose))
    note(case.id)
    try:
        content, inputs = case.build()
        reference = run_litert(content, inputs)
    except (RuntimeError, ValueError):
        reference = []
    assume(all(output.size for output in reference) and reference)
    ours = run_gles(content, inputs, context)
    assert_close(ours, reference, special=case.special, steps=case.steps, inputs=inputs)
