"""Results of pictures: what several runs, kills, full disks and damage make of them.

Each case is a life of a folder or a file: runs that add rows, end early or are killed in the
middle, beside files of others and other runs. Afterwards no row may be lost that was written,
doubled or changed, no file of others touched, and every error must be the package's.
The table must have all rows after each run that is not killed.
"""

import os
import random
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from gles_apps.batch.results import Column, Columns, Results, Row, digest, open_results
from gles_delegate.errors import DelegateError
from tests.attack.workers import Outcome
from tests.support.disks import files_of_at_most
from tests.support.tables import read_table

COLUMNS = {"scores": Column("float32", 2)}
KINDS = (COLUMNS, None)
"""Outputs of a model, and results of a task."""
MODEL = "model 0123"
TABLE = "results.parquet"
FOREIGN = {
    "theirs.parquet": b"PAR1 half a file",
    "notes.txt": b"keep",
    ".hidden.tmp": b"",
    "t.csv": b"a,b\n",
}


def run_results(_: bytes, seed: int) -> Outcome:
    """A life of a folder or, of odd seeds, of a CSV file; of outputs or of results."""
    choose = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        output = Path(name, "results.csv" if seed % 2 else "results")
        life = _Life(output, choose, KINDS[seed // 2 % 2])
        steps = [choose.choice(STEPS) for _ in range(choose.randint(2, 8))]
        done: list[str] = []
        try:
            for step in steps:
                done.append(step.__name__.strip("_"))
                step(life)
                life.check()
        except Exception as error:
            return Outcome("foreign error", text=f"{', '.join(done)}: {error!r:.500}")
    return Outcome("result")


class _Life:
    """A folder, and the rows that it should hold.

    Attributes:
        columns: See `open_results`.
        rows: The digest of the picture and the error of each path that is written.
        damaged: Whether it was changed by others since, so that only its errors count.
    """

    def __init__(self, output: Path, choose: random.Random, columns: Columns) -> None:
        self.output, self.choose, self.columns = output, choose, columns
        self.rows: dict[str, tuple[str, str | None]] = {}
        self.damaged = False
        self.folder = output.parent if output.suffix else output
        self.folder.mkdir(exist_ok=True)
        for name, content in FOREIGN.items():
            (self.folder / name).write_bytes(content)

    def some(self) -> list[Row]:
        """Rows that are not there yet."""
        return [
            self.row(f"/p/{self.choose.getrandbits(32)}", self.choose.getrandbits(8))
            for _ in range(self.choose.randint(1, 5))
        ]

    def row(self, path: str, seed: int) -> Row:
        row = {"path": path, "picture": digest(path, str(seed)), "error": None}
        return row | ({"scores": _scores(seed)} if self.columns else {"results": _results(seed)})

    def opened(self) -> closing[Results]:
        return closing(open_results(self.output, MODEL, self.columns))

    def may_be_refused(self) -> AbstractContextManager[None]:
        return suppress(DelegateError) if self.damaged else nullcontext()

    def add(self, results: Results, rows: list[Row]) -> None:
        results.add(rows)
        self.rows |= {row["path"]: (row["picture"], row["error"]) for row in rows}
        results.write_table()

    def files(self) -> list[Path]:
        """The database and the table, as far as they are there."""
        here = self.output.suffix
        names = ("results.csv.sqlite", "results.csv") if here else ("_results.sqlite", TABLE)
        return [file for name in names if (file := self.folder / name).is_file()]

    def check(self) -> None:
        """The rows are there, once, as a reader finds them; others' files are as they were."""
        for name, content in FOREIGN.items():
            assert (self.folder / name).read_bytes() == content, f"{name} was touched"
        if self.damaged:
            with suppress(DelegateError), self.opened():
                pass
            return
        with self.opened() as results:
            assert results.rows == self.rows, "other rows"
            results.write_table()
        rows = read_table(self.output if self.output.suffix else self.output / TABLE)
        if self.columns is None:
            self._check_results(rows)
            return
        assert sorted(each["path"] for each in rows) == sorted(self.rows), "other paths"
        for each in rows:
            seed = _seed_of(each["path"], each["picture"])
            scores = each.get("scores") or [each["scores_0"], each["scores_1"]]
            assert np.float32(scores).tolist() == _scores(seed).tolist(), "other scores"

    def _check_results(self, rows: list[dict[str, Any]]) -> None:
        """Each picture's lines, in the order of its results."""
        assert {each["path"] for each in rows} == self.rows.keys(), "other paths"
        for path in self.rows:
            lines = [each for each in rows if each["path"] == path]
            numbers = [int(each["class"]) for each in lines if each.get("class") not in ("", None)]
            expected = [each["class"] for each in _results(_seed_of(path, lines[0]["picture"]))]
            assert numbers == expected, "other results"
            assert len(lines) == max(len(expected), 1), "other lines"


def _results(seed: int) -> list[dict[str, Any]]:
    return [{"class": seed + i, "label": "é,\n", "score": 0.5} for i in range(seed % 4)]


def _scores(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(2).astype(np.float32)


def _seed_of(path: str, picture: str) -> int:
    return next(seed for seed in range(256) if digest(path, str(seed)) == picture)


def _run(life: _Life) -> None:
    with life.may_be_refused(), life.opened() as results:
        life.add(results, life.some())


def _run_again(life: _Life) -> None:
    """Some pictures have changed."""
    with life.may_be_refused(), life.opened() as results:
        paths = [path for path in life.rows if life.choose.random() < 0.5]
        results.forget({*paths, "/never/seen"})
        for path in paths:
            del life.rows[path]
        if paths:
            life.add(results, [life.row(path, life.choose.getrandbits(8)) for path in paths])


def _two_runs(life: _Life) -> None:
    with life.may_be_refused(), life.opened() as results:
        try:
            open_results(life.output, MODEL, life.columns).close()
        except DelegateError:
            life.add(results, life.some())
        else:
            raise AssertionError("two runs write at once")


def _other_model(life: _Life) -> None:
    with suppress(DelegateError):
        open_results(life.output, "model 4567", life.columns).close()
        assert not life.rows or life.damaged, "another model's results were taken"
        for file in life.files():
            file.unlink()  # they are of that model now
        life.rows.clear()
        life.damaged = False


def _killed(life: _Life) -> None:
    """A process writes rows, and ends in the middle of a statement of SQLite, or of the table."""
    rows, kills = [life.some() for _ in range(3)], life.choose.randint(0, 1500)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        with suppress(BaseException):
            results = open_results(life.output, MODEL, life.columns)
            _die_after(kills, results)
            for i, some in enumerate(rows):
                results.add(some)
                os.write(writer, bytes([i]))
                results.write_table()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        written = len(pipe.read())
    os.waitpid(child, 0)
    if life.damaged:
        return
    sure = [row for some in rows[:written] for row in some]
    life.rows |= {row["path"]: (row["picture"], row["error"]) for row in sure}
    maybe = {row["path"]: (row["picture"], None) for some in rows[written:] for row in some}
    with life.opened() as results:  # what was being written may be there, in part or as a whole
        life.rows |= {path: maybe[path] for path in results.rows if path in maybe}


def _die_after(calls: int, results: Results) -> None:
    """End this process, as a signal would, after `calls` steps of SQLite, or calls that name files.

    A step is an instruction of its virtual machine, of which a statement has many.
    """
    left = [calls]

    def step() -> int:
        if not left[0]:
            os._exit(1)
        left[0] -= 1
        return 0

    def mortal(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            left[0] = max(left[0] - 30, 0)
            step()
            return function(*arguments, **named)

        return call

    for name in ("replace", "fsync", "unlink"):
        setattr(os, name, mortal(getattr(os, name)))
    results._database.set_progress_handler(step, 1)


def _full_disk(life: _Life) -> None:
    sizes = [file.stat().st_size for file in life.files()]
    room = max(sizes, default=0) + life.choose.randint(0, 20_000)
    rows = life.some()
    text = ""
    try:
        with files_of_at_most(room), life.opened() as results:
            life.add(results, rows)
    except DelegateError as error:
        text = str(error)
    assert not text or life.damaged or "cannot write the results" in text, text


def _damage(life: _Life) -> None:
    """Bytes change, or the end is cut off."""
    files = [file for file in life.files() if file.stat().st_size]
    if not files:
        return
    life.damaged = True
    file = life.choose.choice(files)
    data = bytearray(file.read_bytes())
    if life.choose.random() < 0.3:
        del data[life.choose.randrange(len(data)) :]
    else:
        for _ in range(life.choose.randint(1, 4)):
            data[life.choose.randrange(len(data))] ^= 1 << life.choose.randrange(8)
    file.write_bytes(data)


STEPS: tuple[Callable[[_Life], None], ...] = (
    *(_run, _run, _run_again, _run_again, _two_runs, _other_model, _killed, _killed, _full_disk),
    _damage,
)
