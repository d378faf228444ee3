"""Results for pictures: a folder of Parquet files, or a CSV file.

A run opens and locks the results, and adds rows. Rows of earlier runs stay, identified by path.
Results name their model and its options, and each row has a digest of the picture's content.
"""

from __future__ import annotations

import csv
import fcntl
import io
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from gles_delegate.errors import DelegateError, reason_of

Row: TypeAlias = "dict[str, Any]"
"""A picture: its "path", the digest of its content in "picture", the reason it cannot be read
or None in "error", and the results by name, each a one-dimensional array or a list of labels."""

ABOUT = ("path", "picture", "error")
MOST_ROWS, MOST_BYTES, MOST_SECONDS = 256, 64 << 20, 20
"""Limits for rows that are written together: number, bytes, and time since the first."""
MOST_CELLS = 16384
"""Most columns of a CSV file: the limit of spreadsheets."""


@dataclass(frozen=True)
class Column:
    """The type of one result.

    Attributes:
        dtype: The numbers' type, or "str".
        count: Numbers or strings per picture.
    """

    dtype: str
    count: int


def columns_of(outputs: Mapping[str, Mapping[str, Any]], top: int | None) -> dict[str, Column]:
    """The columns of results: the outputs' numbers or, with `top`, labels and scores.

    Args:
        outputs: "dtype" and "shape" of each output by its name.
    """
    if not top:
        return {
            column_name(name): Column(np.dtype(each["dtype"]).name, prod(map(int, each["shape"])))
            for name, each in outputs.items()
        }
    count = min(top, max((int(each["shape"][-1]) for each in outputs.values()), default=0))
    return {"labels": Column("str", count), "scores": Column("float32", count)}


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


class Results(ABC):
    """Open results, and rows that are not yet written.

    Attributes:
        rows: Picture digest and error of each written row, by path.
    """

    _locked: IO[bytes]

    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, str | None]] = {}
        self._waiting: list[Row] = []
        self._bytes, self._since = 0, 0.0

    @abstractmethod
    def forget(self, paths: Set[str]) -> None:
        """Remove rows."""

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows, which may be written later."""
        if not self._waiting:
            self._since = time.monotonic()
        for row in rows:
            self._waiting.append(row)
            self._bytes += sum(value.nbytes for value in row.values() if hasattr(value, "nbytes"))
        if (
            len(self._waiting) >= MOST_ROWS
            or self._bytes >= MOST_BYTES
            or time.monotonic() - self._since > MOST_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        """Write all added rows."""
        if self._waiting:
            self._write_rows(self._waiting)
            self.rows |= {row["path"]: (row["picture"], row["error"]) for row in self._waiting}
            self._waiting, self._bytes = [], 0

    @abstractmethod
    def _write_rows(self, rows: Sequence[Row]) -> None: ...

    def close(self) -> None:
        """Unlock the results; rows that are not flushed are lost."""
        self._locked.close()


def open_results(output: Path, model: str, columns: Mapping[str, Column]) -> Results:
    """Open the results in a ``.csv`` file, or else in a folder; `model` includes the options.

    Raises `DelegateError` if they are in use, damaged, not writable or from another model, if
    pyarrow is not installed, or if a new folder would have a file's suffix.
    """
    suffix = output.suffix.lower()
    if suffix[1:2].isalpha() and suffix != ".csv" and not output.is_dir():
        raise DelegateError(
            f"expected a file results.csv or a folder for Parquet files as the output, found "
            f"{output}, a file of another format"
        )
    kind = CsvFile if suffix == ".csv" else ParquetFolder
    return kind(output, model, columns)


class ParquetFolder(Results):
    """Parquet files, named after the digest of their bytes.

    No file is changed in place, and other files in the folder are not touched.
    """

    KEY = b"gles_delegate"
    NAME = re.compile(r"results-[0-9a-f]{32}\.parquet")

    def __init__(self, folder: Path, model: str, columns: Mapping[str, Column]) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise DelegateError(
                f"Parquet files need pyarrow ({error}): pip install pyarrow, or name a file "
                "results.csv as the output"
            ) from error
        super().__init__()
        self._pa, self._pq = pa, pq
        self._folder, self._model = folder, model
        fields = [(name, pa.string()) for name in ABOUT]
        for name, column in columns.items():
            try:
                kind = pa.from_numpy_dtype(np.dtype(column.dtype))
            except pa.ArrowException as error:
                raise DelegateError(f"Parquet files cannot have {column.dtype} numbers") from error
            fields.append((name, pa.list_(kind)))
        self._schema = pa.schema(fields, {self.KEY: model.encode()})
        self._files: dict[Path, list[str]] = {}
        with ExitStack() as undo:
            with _naming(folder):
                folder.mkdir(parents=True, exist_ok=True)
                self._locked = undo.enter_context((folder / ".gles_delegate.lock").open("ab"))
                _lock(self._locked, folder)
                files = sorted(f for f in folder.iterdir() if self.NAME.fullmatch(f.name))
            doubled = {file: self._read(file) for file in files}
            for file, paths in doubled.items():
                if paths:  # a run was killed while it rewrote a file
                    self._rewrite(file, paths)
            undo.pop_all()

    def _read(self, file: Path) -> set[str]:
        """Add a file's rows to `rows`; the paths that an earlier file has, too."""
        with _naming(self._folder, reads=True):
            data = file.read_bytes()
        damaged = DelegateError(
            f"the results {file} were changed or damaged: move the file away, and the same command "
            "computes its pictures again"
        )
        if file.name != _file_name(data):
            raise damaged
        try:
            table = self._pq.ParquetFile(io.BytesIO(data))
            model = (table.schema_arrow.metadata or {}).get(self.KEY)
            if model is None:
                return set()  # another program's file
            if model.decode() != self._model:
                raise DelegateError(_of_another(self._folder, model.decode(), self._model))
            columns = [table.read(ABOUT)[name].to_pylist() for name in ABOUT]
        except (self._pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise damaged from error
        self._files[file] = columns[0]
        rows = {path: (picture, error) for path, picture, error in zip(*columns, strict=True)}
        doubled = rows.keys() & self.rows.keys()
        self.rows = rows | self.rows
        return doubled

    def forget(self, paths: Set[str]) -> None:
        for file, contents in list(self._files.items()):
            if not paths.isdisjoint(contents):
                self._rewrite(file, paths)
        for path in paths:
            self.rows.pop(path, None)

    def _rewrite(self, file: Path, without: Set[str]) -> None:
        """Replace a file by one without these paths."""
        kept = [path not in without for path in self._files.pop(file)]
        if any(kept):
            with _naming(self._folder, reads=True):
                table = self._pq.ParquetFile(io.BytesIO(file.read_bytes())).read()
            self._write(table.filter(self._pa.array(kept)))
        with _naming(self._folder):
            file.unlink()

    def _write_rows(self, rows: Sequence[Row]) -> None:
        data = [
            self._pa.array([row.get(field.name) for row in rows], field.type)
            for field in self._schema
        ]
        self._write(self._pa.table(data, schema=self._schema))

    def _write(self, table: Any) -> None:
        buffer = io.BytesIO()
        self._pq.write_table(table, buffer)
        data = buffer.getvalue()
        file = self._folder / _file_name(data)
        with _naming(self._folder):
            _replace(file, self._folder / ".gles_delegate.tmp", data).close()
        self._files[file] = table["path"].to_pylist()


class CsvFile(Results):
    """A line for each picture, with its numbers in columns.

    The last cell of each line is a digest of the other cells, the model and the options.
    """

    def __init__(self, file: Path, model: str, columns: Mapping[str, Column]) -> None:
        super().__init__()
        self._file, self._model, self._columns = file, model, columns
        cells = sum(column.count for column in columns.values())
        if cells > MOST_CELLS:
            raise DelegateError(
                f"a CSV file has at most {MOST_CELLS} columns, but the model has {cells} output "
                "numbers: name a folder as the output, for Parquet files; for a classifier, use "
                "--top"
            )
        names = [
            f"{name}_{i}" if column.count > 1 else name
            for name, column in columns.items()
            for i in range(column.count)
        ]
        self._header = ["path", "error", *names, "picture", "row"]
        with ExitStack() as undo:
            with _naming(file):
                file.parent.mkdir(parents=True, exist_ok=True)
                self._locked = undo.enter_context(file.open("a+b", buffering=0))
                _lock(self._locked, file)
                if not os.path.samestat(os.fstat(self._locked.fileno()), file.stat()):
                    raise _in_use(file)  # another run has just replaced it
                self._locked.seek(0)
                data = self._locked.read()
            self._lines: dict[str, bytes] = {}
            self._read(data)
            whole = b"".join([_line(self._header), *self._lines.values()])
            with _naming(file):
                if data != whole:  # new, or a run was killed while it wrote
                    self._replace(whole)
            undo.pop_all()

    def _read(self, data: bytes) -> None:
        *lines, _ = data.split(b"\n")  # the rest is an incomplete line
        try:
            texts = [line.decode("utf-8") for line in lines]
            rows = [next(csv.reader([text], strict=True), []) for text in texts]
        except (csv.Error, UnicodeDecodeError) as error:
            raise self._damaged(str(error)) from error
        if not rows and _line(self._header).startswith(data):
            return
        if not rows or (*rows[0][:2], *rows[0][-2:]) != ("path", "error", "picture", "row"):
            raise DelegateError(f"{self._file} is not a results file: use another --output")
        if rows[0] != self._header:
            few = ", ".join(self._header[:8])
            raise DelegateError(
                _of_another(self._file, "other columns", f"a table with {few}, ...")
            )
        for number, cells in enumerate(rows[1:], 2):
            if len(cells) != len(self._header) or cells[-1] != self._check(cells[:-1]):
                raise self._damaged(f"row {number}")
            self.rows[cells[0]] = cells[-2], cells[1] or None
            self._lines[cells[0]] = _line(cells)

    def _damaged(self, where: str) -> DelegateError:
        return DelegateError(
            f"the results {self._file} are from another model or other options, or were changed "
            f"({where}): use another --output, or move the file away"
        )

    def _check(self, cells: Sequence[str]) -> str:
        return digest(self._model, *cells)[:16]

    def forget(self, paths: Set[str]) -> None:
        if paths.isdisjoint(self.rows):
            return
        for path in paths & self.rows.keys():
            del self.rows[path], self._lines[path]
        with _naming(self._file):
            self._replace(b"".join([_line(self._header), *self._lines.values()]))

    def _replace(self, data: bytes) -> None:
        temporary = self._file.with_name(f".{self._file.name}.tmp")
        old, self._locked = self._locked, _replace(self._file, temporary, data)
        old.close()

    def _write_rows(self, rows: Sequence[Row]) -> None:
        lines = {row["path"]: self._line_of(row) for row in rows}
        with _naming(self._file):
            size = os.fstat(self._locked.fileno()).st_size
            try:
                _write(self._locked, b"".join(lines.values()))
            except OSError:
                with suppress(OSError):
                    self._locked.truncate(size)
                self._locked.seek(size)
                raise
        self._lines |= lines

    def _line_of(self, row: Row) -> bytes:
        cells = [row["path"], row["error"] or ""]
        for name, column in self._columns.items():
            values = row.get(name, [""] * column.count)
            if len(values) != column.count:
                raise DelegateError(
                    f"expected {column.count} numbers from the model, for the columns of the CSV "
                    f"file, found {len(values)}: name a folder as the output, for Parquet files"
                )
            cells += map(str, values)
        cells = [cell.replace("\n", " ") for cell in (*cells, row["picture"])]
        return _line([*cells, self._check(cells)])


def _file_name(data: bytes) -> str:
    return f"results-{digest(data)}.parquet"


def _line(cells: Sequence[str]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode("utf-8")


def _of_another(output: Path, other: str, expected: str) -> str:
    return (
        f"expected results of {expected} in {output}, found {other}: use another --output, or the "
        "same model and options"
    )


@contextmanager
def _naming(output: Path, reads: bool = False) -> Iterator[None]:
    """Raise the system's errors as DelegateErrors that name the results."""
    try:
        yield
    except OSError as error:
        if reads:
            raise DelegateError(f"cannot read the results {output}: {reason_of(error)}") from error
        raise DelegateError(f"cannot write the results {output}: {reason_of(error)}") from error


def _lock(file: IO[bytes], output: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _in_use(output) from error


def _in_use(output: Path) -> DelegateError:
    return DelegateError(
        f"another run writes to {output}: wait for its end, or use another --output"
    )


def _write(file: IO[bytes], data: bytes) -> None:
    """Write all bytes to the disk."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]
    os.fsync(file.fileno())


def _replace(file: Path, temporary: Path, data: bytes) -> IO[bytes]:
    """Write a file under a temporary name, and rename it when it is complete; it is locked."""
    with ExitStack() as undo:
        opened = undo.enter_context(temporary.open("w+b", buffering=0))
        undo.callback(temporary.unlink, missing_ok=True)
        _lock(opened, file)
        _write(opened, data)
        os.replace(temporary, file)
        undo.pop_all()
        return opened
