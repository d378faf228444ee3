"""Files of results: whose they are, what a killed run leaves, and what is said of all else."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gles_delegate.batch import results as module
from gles_delegate.batch.results import Column, Results, Row, columns_of, digest, open_results
from gles_delegate.errors import DelegateError

COLUMNS = {"labels": Column("str", 2), "scores": Column("float32", 2)}
MODEL = "model 0123, top 2"


@pytest.fixture(params=["csv", "parquet"])
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "csv":
        return tmp_path / "results.csv"
    pytest.importorskip("pyarrow")
    return tmp_path / "results"


def row(name: str, error: str | None = None, content: str = "") -> Row:
    about = {"path": f"/pictures/{name}.jpg", "picture": digest(content or name), "error": error}
    if error:
        return about
    scores = np.float32([0.75, len(name) / 3])
    return {**about, "labels": np.array(['"a", b', f"{name} ü"]), "scores": scores}


@contextmanager
def opened(
    output: Path, model: str = MODEL, columns: dict[str, Column] = COLUMNS
) -> Iterator[Results]:
    results = open_results(output, model, columns)
    try:
        yield results
    finally:
        results.close()


def written(output: Path, *rows: Row) -> None:
    with opened(output) as results:
        results.add(rows)
        results.flush()


def table(output: Path) -> list[dict[str, Any]]:
    """All rows as a reader finds them, by path."""
    if output.suffix == ".csv":
        import csv

        with output.open(newline="", encoding="utf-8") as file:
            actual = list(csv.DictReader(file))
        return sorted(
            (
                {
                    "path": each["path"],
                    "picture": each["picture"],
                    "error": each["error"] or None,
                    "labels": [each["labels_0"], each["labels_1"]] if each["labels_0"] else None,
                    "scores": [float(each[f"scores_{i}"]) for i in (0, 1)]
                    if each["scores_0"]
                    else None,
                }
                for each in actual
            ),
            key=lambda each: str(each["path"]),
        )
    import pyarrow.parquet as pq

    actual = pq.read_table(output).to_pylist()
    return sorted(actual, key=lambda each: str(each["path"]))


def assert_has(output: Path, *rows: Row) -> None:
    actual = table(output)
    assert [each["path"] for each in actual] == [each["path"] for each in rows]
    for one, other in zip(actual, rows, strict=True):
        assert (one["picture"], one["error"]) == (other["picture"], other["error"])
        assert one["labels"] == (list(other["labels"]) if "labels" in other else None)
        scores = None if one["scores"] is None else np.float32(one["scores"]).tolist()
        assert scores == (other["scores"].tolist() if "scores" in other else None)


def test_rows_stay_and_are_known(output: Path) -> None:
    rows = [row("a"), row("bb"), row("c", error='no picture, "found" text')]
    written(output, *rows[:1])
    written(output, *rows[1:])
    with opened(output) as results:
        assert results.rows == {each["path"]: (each["picture"], each["error"]) for each in rows}
    assert_has(output, *rows)


def test_rows_can_be_replaced(output: Path) -> None:
    written(output, row("a"), row("b"))
    written(output, row("c", error="cannot be read"))
    with opened(output) as results:
        results.forget({row("b")["path"], row("c")["path"], "/never/seen"})
        assert results.rows.keys() == {row("a")["path"]}
        results.add([row("b", content="another picture"), row("c")])
        results.flush()
    assert_has(output, row("a"), row("b", content="another picture"), row("c"))


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    pq.write_table(pa.table({"theirs": [1, 2]}), tmp_path / "theirs.parquet")
    data = (tmp_path / "theirs.parquet").read_bytes()
    (tmp_path / "half.parquet").write_bytes(data[:100])
    (tmp_path / f"results-{digest(data)}.parquet").write_bytes(data)
    (tmp_path / "results-1.parquet").write_bytes(b"text")
    (tmp_path / "folder.parquet").mkdir()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    written(tmp_path, row("a"))
    with opened(tmp_path) as results:
        results.forget({row("a")["path"]})
    for name, content in before.items():
        assert (tmp_path / name).read_bytes() == content
    assert not [file for file in tmp_path.glob("results-*.parquet") if file.name not in before]


def test_a_table_of_others_is_left_alone(tmp_path: Path) -> None:
    output = tmp_path / "results.csv"
    for text in ("path,error\na.jpg,\n", "no table at all", "\n", '"', "a\0b\n", "\xff"):
        output.write_text(text, "latin-1")
        with pytest.raises(DelegateError, match="results"):
            open_results(output, MODEL, COLUMNS)
        assert output.read_text("latin-1") == text


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        ("model 4567, top 2", COLUMNS),
        ("model 0123, top 1", {name: Column(c.dtype, 1) for name, c in COLUMNS.items()}),
        ("model 0123", {"scores": Column("float32", 1000)}),
    ],
)
def test_other_models_and_options_are_refused(
    output: Path, model: str, columns: dict[str, Column]
) -> None:
    written(output, row("a"))
    with pytest.raises(DelegateError, match="use another --output"):
        open_results(output, model, columns)
    assert_has(output, row("a"))


def test_of_two_runs_the_second_is_refused(output: Path) -> None:
    with opened(output) as results:
        results.add([row("a")])
        with pytest.raises(DelegateError, match="another run writes to"):
            open_results(output, MODEL, COLUMNS)
        results.forget({"/never/seen"})
        with pytest.raises(DelegateError, match="another run writes to"):
            open_results(output, MODEL, COLUMNS)
        results.flush()
        results.forget({row("b")["path"]})
        with pytest.raises(DelegateError, match="another run writes to"):
            open_results(output, MODEL, COLUMNS)
    written(output, row("b"))
    assert_has(output, row("a"), row("b"))


def test_damage_is_named_or_does_not_matter(output: Path) -> None:
    rows = [row("a"), row("b"), row("c", error="no picture")]
    written(output, *rows)
    file = output if output.suffix == ".csv" else next(output.glob("*.parquet"))
    data = file.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(data)
        for place in rng.integers(len(data), size=rng.integers(1, 4)):
            damaged[place] ^= int(rng.integers(1, 256))
        file.write_bytes(damaged[: rng.integers(len(data))] if rng.random() < 0.3 else damaged)
        with suppress(DelegateError), opened(output) as results:
            kept = [each for each in rows if each["path"] in results.rows]
            assert_has(output, *kept)  # a line that is cut off is computed again


def test_a_run_that_was_killed_as_it_wrote_leaves_its_whole_rows(tmp_path: Path) -> None:
    output = tmp_path / "results.csv"
    written(output, row("a"), row("b"))
    data = output.read_bytes()
    start = data.index(b"/pictures/b")
    for end in range(len(data)):
        output.write_bytes(data[:end])
        with opened(output) as results:
            expected = [row("a")] if end >= start else []
            assert [*results.rows] == [each["path"] for each in expected]
    written(output, row("b"))
    assert_has(output, row("a"), row("b"))


def test_a_run_that_was_killed_between_two_files_leaves_no_row_twice(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    written(tmp_path, row("a"), row("b"))
    (before,) = tmp_path.glob("*.parquet")
    data = before.read_bytes()
    with opened(tmp_path) as results:
        results.forget({row("b")["path"]})
    before.write_bytes(data)
    (tmp_path / ".gles_delegate.tmp").write_bytes(b"half a file")
    with opened(tmp_path) as results:
        assert results.rows.keys() == {row("a")["path"], row("b")["path"]}
    assert_has(tmp_path, row("a"), row("b"))


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """As a disk that is full from there on: Python ignores the signal, and a write fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_loses_nothing(output: Path) -> None:
    written(output, row("a"))
    room = output.stat().st_size + 150 if output.suffix == ".csv" else 100
    with files_of_at_most(room), opened(output) as results:
        results.add([row("b"), row("c")])
        with pytest.raises(DelegateError, match=f"cannot write the results {output}: File too lar"):
            results.flush()
    assert_has(output, row("a"))
    written(output, row("b"))
    failing = pytest.raises(DelegateError, match="cannot write the results")
    with failing, files_of_at_most(100), opened(output) as results:
        results.forget({row("a")["path"]})
        results.forget({row("b")["path"]})
        results.add([row("a"), row("b")])
        results.flush()
    written(output, row("c"))
    assert row("c")["path"] in [each["path"] for each in table(output)]
    folder = output.parent if output.suffix == ".csv" else output
    assert not [file for file in folder.iterdir() if file.name.endswith(".tmp")]


@pytest.mark.parametrize("name", ["results.csv", "results"])
def test_a_place_that_cannot_be_written_is_named(name: str, tmp_path: Path) -> None:
    if name == "results":
        pytest.importorskip("pyarrow")
    (tmp_path / "file").touch()
    with pytest.raises(DelegateError, match=f"cannot write the results .*{name}: "):
        open_results(tmp_path / "file" / name, MODEL, COLUMNS)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(DelegateError, match=r"pip install pyarrow, or name a file results\.csv"):
        open_results(tmp_path / "results", MODEL, COLUMNS)


def test_columns() -> None:
    outputs = {
        "scores": {"dtype": np.float32, "shape": (1, 5)},
        "path": {"dtype": np.uint8, "shape": (1, 2, 3)},
    }
    assert columns_of(outputs, None) == {
        "scores": Column("float32", 5),
        "path (output)": Column("uint8", 6),
    }
    assert columns_of({"scores": outputs["scores"]}, 9) == {
        "labels": Column("str", 5),
        "scores": Column("float32", 5),
    }


def test_a_csv_file_has_no_room_for_pictures(tmp_path: Path) -> None:
    with pytest.raises(DelegateError, match="name a folder as the output"):
        open_results(tmp_path / "r.csv", MODEL, {"mask": Column("float32", 257 * 257)})
    assert not (tmp_path / "r.csv").exists()


def test_rows_are_written_in_parts(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    with opened(output) as results:
        results.add([row("a"), row("b"), row("c")])
        assert len(results.rows) == 3
        results.add([row("d")])
        assert len(results.rows) == 3
    assert_has(output, row("a"), row("b"), row("c"))
