"""Results for pictures: an SQLite database, and the CSV or Parquet file that is made of it.

A run opens and locks the database, and adds rows. Rows of earlier runs stay, identified by path.
The database names the model and its options, and each row has a digest of the picture's content.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gles_delegate import DelegateError
from gles_delegate.errors import reason_of
from gles_delegate.report import without_nan
from gles_delegate.support.closing import on_error

Row: TypeAlias = "dict[str, Any]"
"""A picture: its "path", the digest of its content in "picture", the reason it cannot be read
or None in "error", and the outputs by name, each a one-dimensional array, or a task's "results", a
list of dicts."""

ABOUT = ("path", "picture", "error")
MAX_CSV_COLUMNS = 16384
"""Maximum number of columns of a CSV file: the limit of spreadsheets."""
MAX_GROUP_BYTES = 64 << 20
"""Limit for the numbers of the rows that a Parquet file has in a group."""
FIELDS = {
    "class": "number", "label": "text", "side": "text", "gesture": "text", "score": "real",
    "share": "real",
    **dict.fromkeys(("left", "top", "right", "bottom", "rotation"), "real"),
    "corners": "points", "key_points": "points", "key_point_scores": "reals", "points": "points",
}  # fmt: skip
"""The columns of a task's results, and their types; "box" becomes four."""
PROGRAM = 0x474C6573
"""The number by which SQLite's databases tell their programs."""
LOCK_TIMEOUT_S = 60
"""Seconds to wait for other programs that read the database."""


@dataclass(frozen=True)
class Column:
    """The type of one result.

    Attributes:
        dtype: The numbers' type.
        count: Numbers per picture.
    """

    dtype: str
    count: int


Columns: TypeAlias = "Mapping[str, Column] | None"
"""The outputs in a table; None: the results of a task."""


def columns_of(outputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Column]:
    """The columns of the outputs' numbers.

    Args:
        outputs: "dtype" and "shape" of each output by its name.
    """
    return {
        column_name(name): Column(np.dtype(each["dtype"]).name, prod(map(int, each["shape"])))
        for name, each in outputs.items()
    }


def column_name(output: str) -> str:
    """The column of an output's results."""
    return f"{output} (output)" if output in (*ABOUT, "row") else output


def digest(*contents: bytes | memoryview | str) -> str:
    """32 hexadecimal digits for contents, each with its length."""
    hashed = blake2b(digest_size=16)
    for content in contents:
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        hashed.update(len(data).to_bytes(8, "little"))
        hashed.update(data)
    return hashed.hexdigest()


class Results:
    """The rows of a database, which this run alone may change, and the table that is made of them.

    Attributes:
        rows: Picture digest and error of each row, by path.
    """

    def __init__(self, table: Path, database: Path, model: str, columns: Columns) -> None:
        self._table = table
        self._path = database
        self._columns = columns
        self._is_csv = table.suffix.lower() == ".csv"
        self.rows: dict[str, tuple[str, str | None]] = {}
        self._exit = ExitStack()
        with on_error(self.close), self._naming():
            database.parent.mkdir(parents=True, exist_ok=True)
            if table.exists() and not database.exists():
                raise self._of_others()
            file = self._exit.enter_context(database.open("ab"))
            try:  # SQLite's own locks let others read
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DelegateError(
                    f"another run writes to {database}: wait for its end, or use another --output"
                ) from error
            self._database = sqlite3.connect(database, timeout=LOCK_TIMEOUT_S, isolation_level=None)
            self._exit.callback(self._database.close)
            self._begin()
            self._read(model)

    def _begin(self) -> None:
        """Make the tables of a new database; raises DelegateError for one of another program."""
        ((program,),) = self._database.execute("PRAGMA application_id")
        if program == PROGRAM:
            return
        if program or self._database.execute("SELECT 1 FROM sqlite_master").fetchall():
            raise DelegateError(
                f"{self._path} is a database of another program: use another --output"
            )
        with self._transaction():
            self._database.execute(f"PRAGMA application_id = {PROGRAM}")
            self._database.execute("CREATE TABLE about (model TEXT, columns TEXT, tables TEXT)")
            self._database.execute("INSERT INTO about VALUES ('', '', '[]')")
            self._database.execute(
                "CREATE TABLE rows (path TEXT PRIMARY KEY, picture TEXT, error TEXT, results BLOB, "
                "digest TEXT)"
            )

    def _read(self, model: str) -> None:
        """Fill `rows`; raises DelegateError if they are damaged, or another model's."""
        columns = repr(self._columns)
        try:
            ((state,), *_) = self._database.execute("PRAGMA integrity_check")
            if state != "ok":
                raise ValueError(" ".join(state.split()))
            ((other, others, tables),) = self._database.execute("SELECT * FROM about")
            for path, picture, error, results, check in self._database.execute(
                "SELECT path, picture, error, results, digest FROM rows"
            ):
                if check != _check(path, picture, error, results):
                    raise ValueError(f"the row of {path} has another digest")
                self.rows[path] = picture, error
            known = list(json.loads(tables))
        except (sqlite3.Error, TypeError, ValueError) as error:
            raise self._damaged(error) from error
        if (other, others) != (model, columns):
            if self.rows:
                found = other if other != model else "other columns"
                raise DelegateError(
                    f"expected results of {model} in {self._path}, found {found}: use another "
                    "--output, or the same model and options"
                )
            with self._transaction():
                self._database.execute("UPDATE about SET model = ?, columns = ?", (model, columns))
        self._written = _digest_of(self._table) if self._table.exists() else None
        if self._written and self._written not in known:
            raise self._of_others()

    def _damaged(self, cause: Exception) -> DelegateError:
        return DelegateError(
            f"{self._path} was modified or is corrupt ({cause}); move it and {self._table} away, "
            "and rerun the command to recompute its rows"
        )

    def _of_others(self) -> DelegateError:
        return DelegateError(
            f"{self._table} was modified, or is not a table of {self._path}; move it away and "
            "rerun the command to write it again, or use another --output"
        )

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows, or replace them; when it returns, they are on the disk."""
        lines = [self._line(row) for row in rows]
        with self._naming(), self._transaction():
            self._database.executemany("REPLACE INTO rows VALUES (?, ?, ?, ?, ?)", lines)
        self.rows |= {row["path"]: (row["picture"], row["error"]) for row in rows}

    def _line(self, row: Row) -> tuple[str, str, str | None, bytes, str]:
        """A row of the database; the results are JSON, or arrays in numpy's format in a row."""
        about = row["path"], row["picture"], row["error"]
        data = io.BytesIO()
        if self._columns is None:
            text = json.dumps(without_nan(row.get("results", []))).encode()
            return *about, text, _check(*about, text)
        for name, column in self._columns.items() if row["error"] is None else ():
            values = np.asarray(row[name], column.dtype)
            if len(values) != column.count and self._is_csv:
                raise DelegateError(
                    f"expected {column.count} numbers from the model, for the columns of the CSV "
                    f"file, found {len(values)}: name a folder as the output, for a Parquet file"
                )
            np.save(data, values, allow_pickle=False)
        results = data.getvalue()
        return *about, results, _check(*about, results)

    def forget(self, paths: Set[str]) -> None:
        """Remove rows."""
        known = paths & self.rows.keys()
        if known:
            with self._naming(), self._transaction():
                self._database.executemany(
                    "DELETE FROM rows WHERE path = ?", [(path,) for path in known]
                )
        for path in known:
            del self.rows[path]

    def write_table(self) -> None:
        """Write all rows into the table, in the order of their paths."""
        temporary = self._table.with_name(f".{self._table.name}.tmp")
        with self._naming():
            try:
                self._write(temporary)
                written = _digest_of(temporary)
                tables = json.dumps([self._written, written])
                with self._transaction():  # both are right if the run is killed at the next line
                    self._database.execute("UPDATE about SET tables = ?", (tables,))
                os.replace(temporary, self._table)
            finally:
                temporary.unlink(missing_ok=True)
        self._written = written

    def _write(self, path: Path) -> None:
        columns = self._columns or {}
        fields = list[str]()
        if self._columns is None:
            with self._all() as rows:
                seen = {name for row in rows for line in flat(row) for name in line}
            fields = [name for name in FIELDS if name in seen]
        with self._all() as rows:
            lines = (line for row in rows for line in flat(row))
            if self._is_csv:
                numbers = [
                    cell for name, each in columns.items() for cell in _cells(name, each.count)
                ]
                with path.open("w", newline="", encoding="utf-8") as file:
                    header = ["path", "error", *numbers, *fields, "picture"]
                    writer = csv.DictWriter(file, header, lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(map(_csv_line, lines))
                return
            import pyarrow as pa
            import pyarrow.parquet as pq

            schema = _schema(columns, fields)
            size = sum(np.dtype(each.dtype).itemsize * each.count for each in columns.values())
            most = max(min(MAX_GROUP_BYTES // max(size, 1), 1024), 1)
            with pq.ParquetWriter(path, schema) as writer:
                while group := list(islice(lines, most)):
                    arrays = [
                        pa.array([line.get(f.name) for line in group], f.type) for f in schema
                    ]
                    writer.write_table(pa.table(arrays, schema=schema))

    @contextmanager
    def _all(self) -> Iterator[Iterator[Row]]:
        """All rows; a cursor that is left open would keep the database locked for reading."""
        query = "SELECT path, picture, error, results FROM rows ORDER BY path"
        with closing(self._database.execute(query)) as cursor:
            yield (self._row(*cells) for cells in cursor)

    def _row(self, path: str, picture: str, error: str | None, results: bytes) -> Row:
        row: Row = {"path": path, "picture": picture, "error": error}
        if self._columns is None:
            row["results"] = json.loads(results)
        elif error is None:
            data = io.BytesIO(results)
            row |= {name: np.load(data) for name in self._columns}
        return row

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            yield
            self._database.execute("COMMIT")
        finally:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Raise the errors of the system and of SQLite as DelegateErrors that name the file."""
        try:
            yield
        except (OSError, sqlite3.OperationalError) as error:
            message = f"cannot write the results {self._path}: {reason_of(error)}"
            raise DelegateError(message) from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    def close(self) -> None:
        """Close and unlock the database."""
        self._exit.close()


def files_of(output: Path) -> tuple[Path, Path]:
    """The table and the database of results: those of a ``.csv`` file, or else of a folder.

    The database is "results.csv.sqlite" beside the file, or "_results.sqlite" in the folder, whose
    name has readers of folders of Parquet files skip it.
    """
    if output.suffix.lower() == ".csv":
        return output, output.with_name(f"{output.name}.sqlite")
    return output / "results.parquet", output / "_results.sqlite"


def open_results(output: Path, model: str, columns: Columns) -> Results:
    """Open the results in `files_of` an output; `model` includes the options.

    Raises `DelegateError` if they are in use, damaged, not writable or from another model, if
    pyarrow is not installed, or if a new folder would have a file's suffix.
    """
    suffix = output.suffix.lower()
    if suffix == ".csv":
        cells = sum(column.count for column in (columns or {}).values())
        if cells > MAX_CSV_COLUMNS:
            raise DelegateError(
                f"a CSV file has at most {MAX_CSV_COLUMNS} columns, but the model has {cells} "
                "output numbers: name a folder as the output, for a Parquet file"
            )
        return Results(*files_of(output), model, columns)
    if suffix[1:2].isalpha() and not output.is_dir():
        raise DelegateError(
            f"expected a file results.csv or a folder for a Parquet file as the output, found "
            f"{output}, a file of another format"
        )
    _schema(columns or {})
    old = next(iter(output.glob("results-*.parquet")), None) if output.is_dir() else None
    if old is not None:
        raise DelegateError(
            f"{old} has results of another program, or of an earlier version, which readers of the "
            f"folder would add: move it away, or use another --output"
        )
    return Results(*files_of(output), model, columns)


def flat(row: Row) -> list[dict[str, Any]]:
    """A line for each result of a picture, or else one of the picture and its outputs."""
    about = {name: value for name, value in row.items() if name != "results"}
    lines = []
    for result in row.get("results") or [{}]:
        cells = about | {name: value for name, value in result.items() if name != "box"}
        if "box" in result:
            cells |= zip(("left", "top", "right", "bottom"), result["box"], strict=True)
        lines.append(cells)
    return lines


def _cells(name: str, count: int) -> list[str]:
    return [f"{name}_{i}" for i in range(count)] if count > 1 else [name] * count


def _csv_line(line: dict[str, Any]) -> dict[str, Any]:
    """A cell for each number of an output; a list of points is JSON in one."""
    cells: dict[str, Any] = {}
    for name, value in line.items():
        if isinstance(value, np.ndarray):
            cells |= zip(_cells(name, len(value)), value, strict=True)
        else:
            cells[name] = json.dumps(value) if isinstance(value, list) else value
    return cells


def _schema(columns: Mapping[str, Column], fields: Sequence[str] = ()) -> Any:
    """The types of a Parquet file; raises DelegateError if it cannot be written."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise DelegateError(
            f"Parquet files need pyarrow ({error}): pip install pyarrow, or name a file "
            "results.csv as the output"
        ) from error
    reals = pa.list_(pa.float64())
    types = {
        "number": pa.int64(), "text": pa.string(), "real": pa.float64(), "reals": reals,
        "points": pa.list_(reals),
    }  # fmt: skip
    named = [(name, pa.string()) for name in ABOUT]
    named += [(name, types[FIELDS[name]]) for name in fields]
    for name, column in columns.items():
        try:
            named.append((name, pa.list_(pa.from_numpy_dtype(np.dtype(column.dtype)))))
        except pa.ArrowException as error:
            raise DelegateError(f"Parquet files cannot have {column.dtype} numbers") from error
    return pa.schema(named)


def _check(path: str, picture: str, error: str | None, results: bytes) -> str:
    return digest(repr((path, picture, error)), results)


def _digest_of(path: Path) -> str:
    hashed = blake2b(digest_size=16)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        while data := file.read(1 << 20):
            hashed.update(data)
    return hashed.hexdigest()
