"""The op table itself, without LiteRT."""

from __future__ import annotations

from collections import Counter

from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from tests.op_table import CASES, LEFT_TO_THE_DRIVER, OPS, sample
from tests.unit.test_plan import FLOOR


def test_case_ids_are_unique() -> None:
    assert not [case for case, count in Counter(case.id for case in CASES).items() if count > 1]


def test_the_cases_left_to_the_driver_are_in_the_table() -> None:
    assert {case.id for case in CASES} >= LEFT_TO_THE_DRIVER


def test_a_sample_is_a_tenth_with_every_op_in_it() -> None:
    tenth = sample(CASES, one_in=10)
    assert {case.op for case in tenth} == set(OPS)
    assert 0.08 < len(tenth) / len(CASES) < 0.13


def test_a_sample_does_not_depend_on_the_other_ops() -> None:
    tenth = sample(CASES, one_in=10)
    for op in OPS:
        alone = sample([case for case in CASES if case.op == op], one_in=10)
        assert alone == [case for case in tenth if case.op == op]


def test_every_case_of_a_sample_is_lowered() -> None:
    for case in sample(CASES, one_in=40):
        sketch, outputs = case.sketch()
        reasons = lower_graph(read_model(sketch.build(outputs)), FLOOR).reasons
        assert not reasons, f"{case.id}: {reasons}"
