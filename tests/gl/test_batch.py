"""``gles-delegate batch``: a run that is stopped or killed loses nothing, and no row is stale."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from gles_apps.batch import Predictor, files
from gles_apps.cli import batch as batch_command
from gles_delegate.cli.group import gles_delegate
from tests.support.command import Runner, call
from tests.support.example import EXAMPLES
from tests.support.sketch import Sketch
from tests.support.small import picture_classifier
from tests.support.waiting import wait_until
from tests.support.yolo import found_in, yolo_model

pytestmark = pytest.mark.usefixtures("gl")

PATIENCE = 120
"""Seconds that a process may take."""
SLOW = "gles-delegate: no rows yet: each process compiles the network's shaders first\n"
"""A notice of processes that this module starts on a busy machine."""
ANY_FILE = str(Path(__file__).parents[1] / "support" / "any_file")


def save(path: Path, seed: int) -> NDArray[np.uint8]:
    picture = np.random.default_rng(seed).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    Image.fromarray(picture).save(path, "png")
    return picture


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long for the first rows."""
    monkeypatch.setattr(batch_command, "NOTICE_AFTER_S", 600.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model and three pictures, 0.png to 2.png."""
    (tmp_path / "model.tflite").write_bytes(picture_classifier())
    for i in range(3):
        save(tmp_path / f"{i}.png", i)
    return tmp_path


def start(*arguments: Any, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gles_delegate", "batch", *map(str, arguments)]
    pipe = subprocess.PIPE
    options: dict[str, Any] = {"env": os.environ | environment, "start_new_session": True}
    return subprocess.Popen(command, text=True, stdout=pipe, stderr=pipe, **options)


def batch(*arguments: Any, status: int = 0, prints: bool = False, results: bool = False) -> str:
    """Its standard output; its standard error if it is to fail, unless it `prints`. The table has
    the outputs' numbers, or the `results` of the task.
    """
    with start(*arguments, *([] if results else ["--outputs"])) as process:
        out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == status, errors
    assert "Traceback" not in errors
    return out if prints or not status else errors


def read(output: Path) -> dict[str, dict[str, Any]]:
    """Rows by the names of their files."""
    if output.suffix != ".csv":
        parquet = pytest.importorskip("pyarrow.parquet")
        rows = parquet.read_table(output).to_pylist()
        return {Path(row["path"]).name: row for row in rows}
    with output.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        cells = [row[f"scores_{i}"] for i in range(5)]
        row |= {"scores": [*map(float, cells)] if all(cells) else None}
        row |= {"error": row["error"] or None}
    assert len({row["path"] for row in rows}) == len(rows)
    return {Path(row["path"]).name: row for row in rows}


def scores(pictures: list[NDArray[np.uint8]], content: bytes) -> NDArray[Any]:
    predictor = Predictor(content)
    actual = predictor({"image": np.stack(pictures)})["scores"]
    predictor.close()
    return actual


@pytest.mark.parametrize("name", ["results.csv", "results"])
def test_pictures_are_computed_once_and_again_when_they_change(name: str, folder: Path) -> None:
    if name == "results":
        pytest.importorskip("pyarrow")
    model, output = folder / "model.tflite", folder / name
    (folder / "3.png").write_bytes(b"no picture")
    text = batch(model, folder / "[01].png", "--output", output)
    assert text == "2 pictures: 2 with results, 0 unreadable\n"
    every = (model, folder / "*.png", "--output", output)
    text = batch(*every, "--json", status=1, prints=True)
    reason = "expected a picture, found bytes of another kind"
    assert json.loads(text) == {
        "pictures": 4, "with_results": 3, "unreadable": 1, "computed": 1, "kept": 2, "skipped": 0,
        "output": str(output), "errors": {str(folder / "3.png"): reason},
    }  # fmt: skip
    assert batch(*every, status=1) == f"{folder / '3.png'}: {reason}\n"
    rows = read(output)
    assert sorted(rows) == [f"{i}.png" for i in range(4)]
    assert rows["3.png"]["error"] == reason
    assert rows["3.png"]["scores"] is None
    pictures = [save(folder / f"{i}.png", i + 9 * (i == 1)) for i in range(4)]
    text = batch(model, folder / "*.png", "--output", output)
    assert text == "4 pictures: 4 with results, 0 unreadable; 2 kept from earlier runs\n"
    rows = read(output)
    for i, expected in enumerate(scores(pictures, picture_classifier())):
        assert rows[f"{i}.png"]["error"] is None
        np.testing.assert_array_equal(np.float32(rows[f"{i}.png"]["scores"]), expected)


@pytest.mark.parametrize("kind", ["pipe", "/dev/zero"])
def test_what_is_no_regular_file_is_unreadable(kind: str, folder: Path) -> None:
    model, output, endless = folder / "model.tflite", folder / "r.csv", folder / "3.png"
    for _ in range(2):
        endless.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(endless)
        else:
            endless.symlink_to(kind)
        text = batch(model, folder / "*.png", "--output", output, status=1)
        assert f"{endless}: cannot be read: it is not a regular file, but a pipe" in text
        assert read(output)["3.png"]["scores"] is None
        endless.unlink()
        save(endless, 3)
        batch(model, folder / "*.png", "--output", output)


def test_unreadable_pictures_are_named_up_to_ten(folder: Path) -> None:
    for i in range(12):
        (folder / f"bad{i:02}.png").write_bytes(b"no picture")
    every = (folder / "model.tflite", folder / "*.png", "--output", folder / "r.csv")
    *named, last = batch(*every, status=1).splitlines()
    assert [Path(line.split(": ")[0]).name for line in named] == [
        f"bad{i:02}.png" for i in range(10)
    ]
    assert last == "and 2 more, which the table names"
    text = batch(*every, "--skip-errors")
    assert text == "15 pictures: 3 with results, 12 unreadable; 3 kept from earlier runs\n"


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_it_says_what_the_first_rows_wait_for(
    flags: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_command, "NOTICE_AFTER_S", 0.0)
    arguments = ["batch", folder / "model.tflite", folder / "0.png", "--output", folder / "r.csv"]
    ended = Runner().invoke(gles_delegate, [*map(str, arguments), *flags])
    assert ended.exit_code == 0
    assert ended.stderr == ("" if flags else SLOW)


def test_another_model_and_other_options_are_refused(folder: Path) -> None:
    model, other, output = folder / "model.tflite", folder / "other.tflite", folder / "r.csv"
    other.write_bytes(picture_classifier(1))
    batch(model, folder / "0.png", "--output", output)
    before = output.read_bytes()
    for arguments in ((other,), (model, "--mean", 1, "--std", 2), (model, "--no-antialias")):
        text = batch(*arguments, folder / "*.png", "--output", output, status=1)
        assert "use another --output" in text
        assert text.count("\n") == 1
    text = batch(model, folder / "*.png", "--output", output, status=1, results=True)
    assert "use another --output" in text
    assert output.read_bytes() == before


@dataclass
class Waiting:
    """A run that has computed 0.png and 1.png, and waits for what a fifo, 2.png, gives it."""

    process: subprocess.Popen[str]
    fifo: Path
    writer: int

    @property
    def worker(self) -> int | None:
        """The process that reads the fifo."""
        for tasks in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            for child in tasks.read_text().split():
                with suppress(OSError):
                    files = [link.readlink() for link in Path(f"/proc/{child}/fd").iterdir()]
                    if self.fifo in files:
                        return int(child)
        return None

    def kill_worker(self) -> None:
        worker = self.worker
        assert worker is not None
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: self.process.poll() is not None or self.worker not in (worker, None))

    def feed(self) -> None:
        """Give it a picture, which the fifo is from then on."""
        picture = self.fifo.with_suffix(".new")
        save(picture, 2)
        os.write(self.writer, picture.read_bytes())
        os.close(self.writer)
        self.writer = -1
        picture.replace(self.fifo)

    def end(self) -> tuple[str, str]:
        return self.process.communicate(timeout=PATIENCE)


@pytest.fixture
def waiting(folder: Path) -> Iterator[Waiting]:
    (folder / "2.png").unlink()
    os.mkfifo(folder / "2.png")
    writer = os.open(folder / "2.png", os.O_RDWR)
    process = start(
        *(folder / "model.tflite", folder / "*.png", "--output", folder / "r.csv"),
        *("--batch-size", 1, "--workers", 1, "--outputs"),
        PYTHONPATH=os.pathsep.join((ANY_FILE, os.environ.get("PYTHONPATH", ""))),
    )
    run = Waiting(process, folder / "2.png", writer)
    with process:
        wait_until(lambda: run.worker is not None or process.poll() is not None)
        yield run
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if run.writer >= 0:
        os.close(run.writer)


def assert_complete(folder: Path) -> None:
    rows = read(folder / "r.csv")
    pictures = [np.asarray(Image.open(folder / f"{i}.png")) for i in range(3)]
    for i, expected in enumerate(scores(pictures, picture_classifier())):
        np.testing.assert_array_equal(np.float32(rows[f"{i}.png"]["scores"]), expected)


def test_ctrl_c_keeps_what_is_computed(waiting: Waiting, folder: Path) -> None:
    waiting.process.send_signal(signal.SIGINT)
    _, errors = waiting.end()
    assert waiting.process.returncode == 130
    stopped = "stopped: 2 of 3 pictures are done; the same command computes the others\n"
    assert errors.replace(SLOW, "") == stopped
    assert sorted(read(folder / "r.csv")) == ["0.png", "1.png"]
    waiting.fifo.unlink()
    save(waiting.fifo, 2)
    text = batch(folder / "model.tflite", folder / "*.png", "--output", folder / "r.csv")
    assert text == "3 pictures: 3 with results, 0 unreadable; 2 kept from earlier runs\n"
    assert_complete(folder)


def test_a_worker_that_is_killed_is_replaced(waiting: Waiting, folder: Path) -> None:
    waiting.kill_worker()
    waiting.feed()
    out, errors = waiting.end()
    assert out == "3 pictures: 3 with results, 0 unreadable\n"
    assert "a worker ended with SIGKILL on " in errors
    assert errors.replace(SLOW, "").count("\n") == 1
    assert_complete(folder)


def test_a_picture_that_kills_its_workers_is_named(waiting: Waiting, folder: Path) -> None:
    waiting.kill_worker()
    waiting.kill_worker()
    _, errors = waiting.end()
    assert waiting.process.returncode == 1
    _, error = errors.splitlines()
    assert f"SIGKILL on {waiting.fifo} or a later picture of its batch, twice" in error
    assert "2 of 3 pictures are done; the same command computes the others" in error
    assert sorted(read(folder / "r.csv")) == ["0.png", "1.png"]


def test_a_run_that_is_killed_leaves_no_worker_and_can_be_repeated(
    waiting: Waiting, folder: Path
) -> None:
    worker = waiting.worker
    waiting.process.kill()
    waiting.process.wait()
    waiting.feed()
    wait_until(lambda: has_ended(worker))
    text = batch(folder / "model.tflite", folder / "*.png", "--output", folder / "r.csv")
    assert text == "3 pictures: 3 with results, 0 unreadable; 2 kept from earlier runs\n"
    assert_complete(folder)


def has_ended(process: int | None) -> bool:
    """Whether it is gone, or only waits for being reaped."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_of_two_runs_at_once_the_second_is_refused(waiting: Waiting, folder: Path) -> None:
    arguments = (folder / "model.tflite", folder / "0.png", "--output", folder / "r.csv")
    assert "another run writes to" in batch(*arguments, status=1)
    waiting.feed()
    waiting.end()
    assert waiting.process.returncode == 0
    assert_complete(folder)


def test_odd_names_have_a_row(folder: Path) -> None:
    names = [
        b"caf\xe9.png",
        b"two\nlines.png",
        b"-x.png",
        b'it\'s "1".png',
        b"[a]*.png",
        "ä→.png".encode(),
    ]
    content = (folder / "0.png").read_bytes()
    for name in names:
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(content)
    arguments = (
        folder / "model.tflite",
        folder / "*.png",
        "--output",
        folder / "r.csv",
        "--skip-errors",
    )
    for kept in ("", "; 7 kept from earlier runs"):
        out = batch(*arguments)
        assert out == f"9 pictures: 7 with results, 2 unreadable{kept}\n"
    rows = read(folder / "r.csv")
    reason = "expected a file name of one line of UTF-8: rename the file"
    failed = {name: row["error"] for name, row in rows.items() if row["error"]}
    assert failed == {r"caf\udce9.png'": reason, r"two\nlines.png'": reason}
    assert len({tuple(row["scores"]) for row in rows.values() if row["scores"]}) == 3
    assert "1 with results" in batch(
        folder / "model.tflite", folder / "[a]*.png", "--output", folder / "s.csv"
    )


@pytest.mark.parametrize("locale", ["utf-8", "latin-1"])
def test_names_in_tables_are_those_of_every_locale(
    locale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encoded(name: str | Path) -> bytes:
        return os.fspath(name).encode(locale, "surrogateescape")

    def decoded(name: bytes | str) -> str:
        return name.decode(locale, "surrogateescape") if isinstance(name, bytes) else name

    names = {
        "grün.png".encode(): "grün.png",
        "猫.png".encode(): "猫.png",
        b"a\nb": "'a\\nb'",
        "alt_grün.png".encode("latin-1"): {
            "utf-8": r"'alt_gr\udcfcn.png'",
            "latin-1": "alt_grün.png",
        }[locale],
    }
    exists = os.path.lexists
    existing = {decoded(each) for each in names}
    monkeypatch.setattr(files.os, "fsencode", encoded)
    monkeypatch.setattr(files.os, "fsdecode", decoded)
    monkeypatch.setattr(files.os.path, "lexists", lambda file: file in existing or exists(file))
    for content, name in names.items():
        assert files.name_of(decoded(content)) == name
        if not name.startswith("'"):
            assert files.file_of(name) == decoded(content)


def test_pictures_with_umlauts_in_an_old_locale(folder: Path) -> None:
    made = ["localedef", "-i", "de_DE", "-f", "ISO-8859-1", str(folder / "de_DE.ISO-8859-1")]
    if shutil.which("localedef") is None or subprocess.run(made, check=False).returncode:
        pytest.skip("localedef makes the locale, from the files of the package locales")
    (folder / "in").mkdir()
    for name in ("grün.png".encode(), "alt_grün.png".encode("latin-1")):
        shutil.copy(folder / "0.png", os.fsencode(folder) + b"/in/" + name)
    old = {"LOCPATH": str(folder), "LC_ALL": "de_DE.ISO-8859-1", "PYTHONIOENCODING": "utf-8"}
    arguments = (folder / "model.tflite", folder / "in", "--output", folder / "r.csv", "--outputs")
    with start(*arguments, **old) as process:
        out, errors = process.communicate(timeout=PATIENCE)
    assert out == "2 pictures: 2 with results, 0 unreadable\n", errors
    assert sorted(read(folder / "r.csv")) == ["alt_grün.png", "grün.png"]


def test_a_folder_stands_for_its_pictures(folder: Path) -> None:
    save(folder / "3.JPG", 3)
    (folder / "notes.txt").write_text("no picture")
    (folder / "4.png").mkdir()
    out = batch(folder / "model.tflite", folder, "--output", folder / "r.csv", "--skip-errors")
    skipped = "2 other files (.tflite, .txt) skipped"
    assert out == f"4 pictures: 4 with results, 0 unreadable; {skipped}\n"
    twice = (folder, folder / "[0-2].png", folder / "notes.txt", "--output", folder / "s.csv")
    counts = json.loads(batch(folder / "model.tflite", *twice, "--json", status=1, prints=True))
    del counts["errors"], counts["output"]
    assert counts == {
        "pictures": 5, "with_results": 4, "unreadable": 1, "computed": 4, "kept": 0, "skipped": 3,
    }  # fmt: skip
    (folder / "empty").mkdir()
    text = batch(folder / "model.tflite", folder / "empty", "--output", folder / "r.csv", status=2)
    assert "the folder has no picture: " in text
    assert "it has" not in text
    (folder / "empty" / "a.tga").touch()
    text = call("batch", folder / "model.tflite", folder / "empty", "--output", "r.csv", status=2)
    assert text.endswith("empty'; it has 1 other file (.tga)\n")


@pytest.mark.parametrize(
    ("model", "pattern", "message"),
    [(b"nothing", "*.png", "expected a .tflite model"), (None, "*.jpg", "no file matches")],
)
def test_wrong_files_end_before_workers_begin(
    model: bytes | None, pattern: str, message: str, folder: Path
) -> None:
    if model is not None:
        (folder / "model.tflite").write_bytes(model)
    status = 2 if model is None else 1
    output = folder / "r.csv"
    text = batch(folder / "model.tflite", folder / pattern, "--output", output, status=status)
    assert message in text
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "message", "status"),
    [
        (("--labels", "labels.txt"), "expected a network with results for --task, ", 2),
        (("--masks", "masks"), "expected a segmenter for --masks, found the task None", 2),
        (("--output", "r.xlsx"), "results.csv or a folder for a Parquet file", 1),
        (("--output", "r.json"), "found r.json, a file of another format", 1),
    ],
)
def test_wrong_options_end_before_workers_begin(
    arguments: tuple[Any, ...],
    message: str,
    status: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    Path("labels.txt").write_text("a\nb\nc\n", "utf-8")
    before = sorted(folder.iterdir())
    text = batch("model.tflite", "0.png", "--output", "r.csv", *arguments, status=status)
    assert message in text
    assert sorted(folder.iterdir()) == before


def results_of(output: Path) -> list[dict[str, str]]:
    with output.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_classes_of_pictures(folder: Path) -> None:
    model, output = folder / "model.tflite", folder / "r.csv"
    (folder / "labels.txt").write_text("a\nb\nc\nd\ne\n", "utf-8")
    command = (model, folder / "*.png", "--output", output, "--labels", folder / "labels.txt")
    assert "3 with results" in batch(*command, "--top", 2, results=True)
    rows = results_of(output)
    assert [Path(row["path"]).name for row in rows] == [f"{i}.png" for i in (0, 0, 1, 1, 2, 2)]
    pictures = [np.asarray(Image.open(folder / f"{i}.png")) for i in range(3)]
    for i, expected in enumerate(scores(pictures, picture_classifier())):
        best = np.argsort(-expected)[:2]
        assert [row["label"] for row in rows[2 * i : 2 * i + 2]] == ["abcde"[j] for j in best]
        shares = [float(row["score"]) for row in rows[2 * i : 2 * i + 2]]
        np.testing.assert_allclose(shares, expected[best], atol=1e-4)
    assert "3 kept" in batch(*command, "--top", 2, results=True)
    (folder / "labels.txt").write_text("a\nb\nc\n", "utf-8")
    command = (model, folder / "*.png", "--output", folder / "s.csv", *command[-2:])
    text = batch(*command, status=1, results=True)
    assert "expected a label for each of 5 classes, found 3" in text


@pytest.mark.parametrize("name", ["r.csv", "r"])
def test_the_objects_of_pictures(name: str, tmp_path: Path) -> None:
    """A row for each; a picture without objects, and one that cannot be read, have a row too."""
    found = found_in()
    path = yolo_model(tmp_path / "m.tflite", found, task="detect", names=["cat", "dog"])
    for i in range(2):
        Image.fromarray(np.full((96, 128, 3), 90, np.uint8)).save(tmp_path / f"{i}.png")
    (tmp_path / "2.png").write_bytes(b"no picture")
    command = (path, tmp_path / "*.png", "--output", tmp_path / name)
    batch(*command, status=1, results=True)
    if name == "r.csv":
        rows: Any = results_of(tmp_path / name)
    else:
        rows = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / name).to_pylist()
    assert [row["label"] or None for row in rows] == ["dog", "dog", None]
    box = [float(rows[0][side]) for side in ("left", "top", "right", "bottom")]
    assert box == [20, 12, 100, 72]
    assert "expected a picture" in rows[2]["error"]
    high = (path, tmp_path / "[01].png", "--output", tmp_path / "high.csv", "--threshold", 0.9)
    batch(*high, results=True)
    assert [row.get("label", "") for row in results_of(tmp_path / "high.csv")] == ["", ""]


def test_masks_of_pictures(tmp_path: Path) -> None:
    for i in range(2):
        ball = Image.open(EXAMPLES / "ball.jpg").crop((0, 0, 600 + i, 600))
        ball.save(tmp_path / f"{i}.png")
    masks, model = tmp_path / "masks", EXAMPLES / "models" / "ball_segmenter.tflite"
    command = (model, tmp_path / "*.png", "--output", tmp_path / "r.csv")
    batch(*command, "--masks", masks, results=True)
    rows = results_of(tmp_path / "r.csv")
    for i in range(2):
        with Image.open(masks / f"{i}.png") as mask, Image.open(tmp_path / f"{i}.png") as picture:
            assert mask.size == picture.size
            numbers = np.asarray(mask)
        shares = [float(row["share"]) for row in rows if row["path"].endswith(f"{i}.png")]
        assert shares == ([(numbers == 0).mean()] if (numbers == 0).any() else [])
    (tmp_path / "more").mkdir()
    (tmp_path / "0.png").rename(tmp_path / "more" / "1.png")
    twice = (model, tmp_path / "**" / "1.png", "--output", tmp_path / "s.csv", "--masks", masks)
    assert "expected pictures of different names" in batch(*twice, status=1, results=True)


def test_masks_have_a_folder_of_their_own(tmp_path: Path) -> None:
    """One that the same run made before, whatever has happened to its rows, or an empty one."""
    photos, masks = tmp_path / "photos", tmp_path / "masks"
    photos.mkdir()
    for name in ("0.png", "1.png"):
        Image.open(EXAMPLES / "ball.jpg").resize((64, 48)).save(photos / name)
    model, output = EXAMPLES / "models" / "ball_segmenter.tflite", tmp_path / "r.csv"
    command = ("batch", model, photos, "--output", output, "--masks")
    refused = "expected a folder for --masks without other files, found "
    masks.mkdir()
    Image.open(photos / "0.png").save(masks / "other.jpg")
    assert f"{refused}other.jpg in {masks}" in call(*command, masks, status=1)
    Image.open(photos / "0.png").save(masks / "0.png")
    assert f"{refused}0.png and 1 more in " in call(*command, masks, status=1)
    assert not output.exists()
    for file in masks.iterdir():
        file.unlink()
    (masks / "sub").mkdir()
    (masks / ".0.png.99.tmp").write_bytes(b"of a run that was killed")
    descriptor = os.open(masks, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert f"another run writes masks to {masks}: wait for " in call(*command, masks, status=1)
    os.close(descriptor)
    assert "2 with results" in call(*command, masks)
    made = (masks / "1.png").read_bytes()
    assert "2 kept from earlier runs" in call(*command, masks)
    (masks / "0.png").unlink()
    for file in tmp_path.glob("r.csv*"):
        file.unlink()
    (tmp_path / "link").symlink_to("masks")  # the run that was killed wrote 1.png, but no row
    assert call(*command, masks) == "2 pictures: 2 with results, 0 unreadable\n"
    assert (masks / "0.png").read_bytes() == (masks / "1.png").read_bytes() == made
    (masks / "1.png").replace(tmp_path / "1.png")
    together = ("batch", model, photos, "--output", tmp_path / "link" / "t.csv", "--masks", masks)
    assert "2 with results" in call(*together)  # another output, another spelling of the folder
    (masks / "t.csv.sqlite-journal").touch()
    assert "2 kept from earlier runs" in call(*together)
    for file in masks.glob("t.csv*"):
        file.unlink()
    other = ("batch", model, photos, "--output", tmp_path / "s.csv", "--threshold", 0.9, "--masks")
    for folder in (masks, tmp_path / "link"):
        assert f"{refused}0.png and 1 more in {folder}" in call(*other, folder, status=1)
    assert "2 with results" in call(*other, tmp_path / "link", "--overwrite")
    text = call(*command[:-1], "--overwrite", "--masks", photos, status=2)
    assert "would be overwritten; name another file" in text


def test_results_of_what_has_none(folder: Path) -> None:
    s = Sketch(np.random.default_rng(0))
    x = s.input((1, 8, 8, 3), name="picture")
    (folder / "model.tflite").write_bytes(s.build([s.op("NEG", [x], [(1, 8, 8, 3)])]))
    output = folder / "r.csv"
    command = (folder / "model.tflite", folder / "*.png", "--output", output)
    text = batch(*command, "--top", 1, status=2, results=True)
    assert "expected a network with results for --task" in text
    assert not output.exists()
    batch(*command, results=True)
    assert len(results_of(output)) == 3
