"""The op table itself, without LiteRT."""

from collections import Counter
from collections.abc import Hashable

import pytest

from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from tests.op_table import CASES, LEFT_TO_THE_DRIVER, OPS, sample
from tests.op_table.cover import features, places
from tests.op_table.sampling import rows_of
from tests.support import sampling
from tests.support.sampling import ROOT
from tests.unit.test_plan import FLOOR


def test_case_ids_are_unique() -> None:
    assert not [case for case, count in Counter(case.id for case in CASES).items() if count > 1]


def test_the_cases_left_to_the_driver_are_in_the_table() -> None:
    assert {case.id for case in CASES} >= LEFT_TO_THE_DRIVER


@pytest.fixture(autouse=True)
def nothing_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "changed", [])


def test_a_sample_has_every_row() -> None:
    for most in (len(OPS), 1000):
        some = sample(CASES, most)
        assert {case.op for case in some} == set(OPS)
        assert len(some) == most


@pytest.mark.source
def test_a_change_chooses_rows_where_a_sample_has_not_every_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampling, "changed", ["glsl/cumsum.glsl"])
    assert "CUMSUM" in {case.op for case in sample(CASES, 20)}


@pytest.mark.source
def test_changes_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    files = ["README.md", "gone.py", "glsl/cumsum.glsl", "tests/op_table/fourier.py"]
    monkeypatch.setattr(sampling, "changed", files)
    rows = {row for file in files[2:] for row in rows_of(file, OPS)}
    whole = sum(case.op in rows for case in CASES)
    some = Counter(case.op for case in sample(CASES, len(OPS) + whole - len(rows)))
    assert sum(some[row] for row in rows) == whole
    assert some["CONV_2D"] == 1


def test_a_sample_begins_with_the_cover() -> None:
    """Which no longer fits if it names cases that are gone; `tools/op-table-cover`."""
    assert places().keys() <= {case.id for case in CASES}
    some = {case.id for case in sample(CASES, 1000)}
    covered = sum(case in some for case in places())
    assert covered > 550
    assert {case.op for case in CASES if case.id in places()} == OPS.keys()


@pytest.mark.slow
def test_the_cover_has_all_that_plans_have() -> None:
    have: set[Hashable] = set()
    for case in CASES:
        if case.id in places():
            have |= features(case)
    missing = [case.id for case in CASES if features(case) - have]
    assert not missing


def test_another_seed_draws_other_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "seed", 1)
    some, same = sample(CASES, 1000), sample(CASES, 1000, seed=0)
    monkeypatch.setattr(sampling, "seed", 2)
    both = {case.id for case in some} & {case.id for case in sample(CASES, 1000)}
    assert len(OPS) < len(both) < 900  # rows, and those whose plans have the most
    assert sample(CASES, 1000, seed=0) == same


@pytest.mark.source
@pytest.mark.parametrize(
    ("file", "row"),
    [
        ("gles_delegate/ops/conv.py", "CONV_2D (8-bit)"),
        ("gles_delegate/ops/lib/product.py", "CONV_2D"),
        ("gles_delegate/kernels/winograd.py", "CONV_2D"),
        ("glsl/conv_2d.glsl", "CONV_2D"),
        ("glsl/lib/product.glsl", "CONV_2D"),
        ("tests/op_table/axes.py", "CUMSUM"),
        ("tests/op_table/graphs.py", "GRAPH"),
    ],
)
def test_a_file_concerns_a_row(file: str, row: str) -> None:
    assert (ROOT / file).exists()
    rows = rows_of(file, OPS)
    assert row in rows
    assert len(rows) < len(OPS) / 2


@pytest.mark.source
def test_files_that_import_each_other() -> None:
    for path in (ROOT / "gles_delegate/ops/lib").glob("*.py"):
        assert rows_of(str(path.relative_to(ROOT)), OPS) <= OPS.keys()


def test_a_change_that_concerns_most_rows_chooses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = sample(CASES, 1000)
    monkeypatch.setattr(sampling, "changed", ["glsl/lib/tensor.glsl", "glsl/lib/elementwise.glsl"])
    assert sample(CASES, 1000) == plain


def test_every_case_of_a_sample_is_lowered() -> None:
    """Without the shapes that LiteRT infers, but for cases whose runs decide sizes."""
    for case in (case for case in sample(CASES, 300) if "runtime" not in case.id):
        sketch, outputs = case.sketch()
        reasons = lower_graph(read_model(sketch.build(outputs)), FLOOR).reasons
        assert not reasons, f"{case.id}: {reasons}"
