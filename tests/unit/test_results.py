"""Results: whose they are, what a killed run leaves, and what is said of all else."""

from __future__ import annotations

import io
import os
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gles_apps.batch import results as module
from gles_apps.batch.results import Column, Results, Row, columns_of, digest, open_results
from gles_delegate.errors import DelegateError
from tests.support.disks import files_of_at_most
from tests.support.tables import read_table

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


def opened(
    output: Path, model: str = MODEL, columns: dict[str, Column] = COLUMNS
) -> closing[Results]:
    return closing(open_results(output, model, columns))


def written(output: Path, *rows: Row) -> None:
    with opened(output) as results:
        results.add(rows)
        results.write_table()


def database(output: Path) -> Path:
    if output.suffix == ".csv":
        return output.with_name(f"{output.name}.sqlite")
    return output / "_results.sqlite"


def table(output: Path) -> list[dict[str, Any]]:
    """All rows, by path; texts of a CSV file as what they stand for."""
    rows = read_table(output)
    for each in rows if output.suffix == ".csv" else ():
        each["error"] = each["error"] or None
        labels, scores = ([each[f"{name}_{i}"] for i in (0, 1)] for name in ("labels", "scores"))
        each["labels"] = labels if labels[0] else None
        each["scores"] = [*map(float, scores)] if scores[0] else None
    return sorted(rows, key=lambda each: str(each["path"]))


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
        results.write_table()
    assert_has(output, row("a"), row("b", content="another picture"), row("c"))


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    pq.write_table(pa.table({"theirs": [1, 2]}), tmp_path / "theirs.parquet")
    data = (tmp_path / "theirs.parquet").read_bytes()
    (tmp_path / "half.parquet").write_bytes(data[:100])
    (tmp_path / "results-1.csv").write_bytes(b"text")
    (tmp_path / "folder.parquet").mkdir()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    written(tmp_path, row("a"))
    with opened(tmp_path) as results:
        results.forget({row("a")["path"]})
    for name, content in before.items():
        assert (tmp_path / name).read_bytes() == content


def test_a_folder_with_results_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / f"results-{digest('1.0')}.parquet").touch()
    with pytest.raises(DelegateError, match="an earlier version, which readers of the folder"):
        open_results(tmp_path, MODEL, COLUMNS)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_table_of_others_is_left_alone(output: Path) -> None:
    file = output if output.suffix == ".csv" else output / "results.parquet"
    file.parent.mkdir(exist_ok=True)
    file.write_text("path,error\na.jpg,\n")
    with pytest.raises(DelegateError, match="move it away and rerun the command"):
        open_results(output, MODEL, COLUMNS)
    assert file.read_text() == "path,error\na.jpg,\n"
    assert not database(output).exists()
    file.unlink()
    written(output, row("a"))
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(DelegateError, match="move it away and rerun the command to write it again"):
        open_results(output, MODEL, COLUMNS)
    file.unlink()
    written(output)
    assert_has(output, row("a"))


def test_a_database_of_others_is_left_alone(output: Path) -> None:
    database(output).parent.mkdir(exist_ok=True)
    for text in ("no database", "SQLite format 3\0"):
        database(output).write_text(text)
        with pytest.raises(DelegateError, match=r"was modified or is corrupt \(.*\); move it and "):
            open_results(output, MODEL, COLUMNS)
        assert database(output).read_text() == text
    database(output).unlink()
    with sqlite3.connect(database(output)) as theirs:
        theirs.execute("CREATE TABLE rows (path TEXT)")
    theirs.close()
    before = database(output).read_bytes()
    with pytest.raises(DelegateError, match="is a database of another program: use another --o"):
        open_results(output, MODEL, COLUMNS)
    assert database(output).read_bytes() == before


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
        results.write_table()
        results.forget({row("b")["path"]})
        with pytest.raises(DelegateError, match="another run writes to"):
            open_results(output, MODEL, COLUMNS)
    written(output, row("b"))
    assert_has(output, row("a"), row("b"))


def test_results_without_rows_can_be_another_model_s(output: Path) -> None:
    with opened(output) as results:
        results.write_table()
    with opened(output, "model 4567") as results:
        results.add([row("a")])
        results.write_table()
    with pytest.raises(DelegateError, match="found model 4567: use another --output"):
        open_results(output, MODEL, COLUMNS)
    assert_has(output, row("a"))


@pytest.mark.parametrize("of", ["database", "table"])
def test_damage_is_named_or_does_not_matter(of: str, output: Path) -> None:
    rows = [row("a"), row("b"), row("c", error="no picture")]
    written(output, *rows)
    table = output if output.suffix == ".csv" else output / "results.parquet"
    file, other = (database(output), table) if of == "database" else (table, database(output))
    data, others = file.read_bytes(), other.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(100):
        damaged = bytearray(data)
        for place in rng.integers(len(data), size=rng.integers(1, 40)):
            damaged[place] ^= int(rng.integers(1, 256))
        file.write_bytes(damaged[: rng.integers(len(data))] if rng.random() < 0.3 else damaged)
        other.write_bytes(others)
        reason = ""
        try:
            with opened(output) as results:
                assert len(results.rows) == 3 or not file.stat().st_size
                results.write_table()
            assert_has(output, *rows)
        except DelegateError as error:
            reason = str(error)
            refused += 1
        assert not reason or "move it " in reason or "use another --output" in reason
    assert refused > 50


def test_a_cut_database_is_never_taken_for_fewer_rows(output: Path) -> None:
    written(output, row("a"), row("b"))
    data = database(output).read_bytes()
    for size in range(2, len(data), 97):
        database(output).write_bytes(data[:size])
        with pytest.raises(DelegateError, match=r"was modified or is corrupt \(.*\); move it and "):
            open_results(output, MODEL, COLUMNS)


@pytest.mark.parametrize("at", ["fsync", "replace", "BEGIN", "UPDATE", "COMMIT"])
def test_a_run_that_is_killed_as_it_writes_the_table(at: str, output: Path) -> None:
    written(output, row("a"), row("b"))
    child = os.fork()
    if not child:
        with suppress(BaseException):
            results = open_results(output, MODEL, COLUMNS)
            results.add([row("c")])
            results._database.set_trace_callback(
                lambda statement: os._exit(9) if statement.startswith(at) else None
            )
            setattr(os, at, lambda *_: os._exit(9))
            results.write_table()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with opened(output) as results:
        assert len(results.rows) == 3
        results.write_table()
    assert_has(output, row("a"), row("b"), row("c"))
    folder = output.parent if output.suffix == ".csv" else output
    assert len(list(folder.iterdir())) == 2


def test_rows_can_be_read_while_a_run_adds_them(output: Path) -> None:
    with opened(output) as results:
        results.add([row("a")])
        with sqlite3.connect(database(output)) as reader:
            ((path, data),) = reader.execute("SELECT path, results FROM rows")
            results.add([row("b")])
        reader.close()
    arrays = io.BytesIO(data)
    assert path == row("a")["path"]
    assert np.load(arrays).tolist() == list(row("a")["labels"])
    np.testing.assert_array_equal(np.load(arrays), row("a")["scores"])


def test_a_full_disk_loses_nothing(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gles_apps.batch.results.LOCK_TIMEOUT_S", 1)
    written(output, row("a"))
    many = [row(f"b{i}" * 20) for i in range(200)]
    size = database(output).stat().st_size
    for room in (100, size, size + 5000):
        with files_of_at_most(room), opened(output) as results:
            with pytest.raises(DelegateError, match=f"cannot write the results {output}"):
                results.add(many)
            assert results.rows.keys() == {row("a")["path"]}
        written(output)
        assert_has(output, row("a"))
    with opened(output) as results:
        results.add(many)
        with (
            files_of_at_most(1000),
            pytest.raises(
                DelegateError, match=r"cannot write the results .*File too large$"
            ) as kept,
        ):
            results.write_table()
    written(output)
    assert len(table(output)) == 201
    assert kept.traceback  # an error that is kept must not keep the database locked
    folder = output.parent if output.suffix == ".csv" else output
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("name", ["results.csv", "results"])
def test_a_place_that_cannot_be_written_is_named(name: str, tmp_path: Path) -> None:
    if name == "results":
        pytest.importorskip("pyarrow")
    (tmp_path / "file").touch()
    with pytest.raises(DelegateError, match=f"cannot write the results .*{name}.*: "):
        open_results(tmp_path / "file" / name, MODEL, COLUMNS)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DelegateError, match=r"pip install pyarrow, or name a file results\.csv"):
        open_results(tmp_path / "results", MODEL, COLUMNS)


def test_columns() -> None:
    outputs = {
        "scores": {"dtype": np.float32, "shape": (1, 5)},
        "path": {"dtype": np.uint8, "shape": (1, 2, 3)},
    }
    assert columns_of(outputs) == {
        "scores": Column("float32", 5),
        "path (output)": Column("uint8", 6),
    }


def test_results_of_a_task(output: Path) -> None:
    """A row for each result, NaN as an empty cell, and one for a picture that has none."""
    cat = {"class": 3, "label": "cat", "score": 0.5, "box": [1.0, 2.0, 3.5, 4.0]}
    results = open_results(output, MODEL, None)
    about = {"picture": digest("x"), "error": None}
    results.add(
        [
            {"path": "/a", **about, "results": [cat, cat | {"score": float("nan")}]},
            {"path": "/b", **about, "results": []},
            {"path": "/c", **about, "error": "no picture"},
        ]
    )
    results.write_table()
    results.close()
    lines = read_table(output)
    assert [line["path"] for line in lines] == ["/a", "/a", "/b", "/c"]
    assert [line["label"] or None for line in lines] == ["cat", "cat", None, None]
    assert [line["score"] in ("", None) for line in lines] == [False, True, True, True]
    assert [float(lines[0][side]) for side in ("left", "bottom")] == [1, 4]
    again = open_results(output, MODEL, None)
    assert again.rows["/c"] == (about["picture"], "no picture")
    again.close()


def test_a_csv_file_has_no_room_for_pictures(tmp_path: Path) -> None:
    with pytest.raises(DelegateError, match="name a folder as the output"):
        open_results(tmp_path / "r.csv", MODEL, {"mask": Column("float32", 257 * 257)})
    assert not list(tmp_path.iterdir())
    open_results(tmp_path / "r.csv", MODEL, {"mask": Column("float32", 16384)}).close()


def test_a_parquet_file_has_rows_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(module, "MAX_GROUP_BYTES", 20)
    written(tmp_path, row("a"), row("b"), row("c"))
    assert_has(tmp_path, row("a"), row("b"), row("c"))
