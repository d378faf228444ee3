"""Standard streams that are closed or full, or that lack characters."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.example import EXAMPLES

DIGIT = str(EXAMPLES / "models" / "digit_classifier.tflite")
PICTURE = str(EXAMPLES / "digit.png")
PROGRAM = (sys.executable, "-m", "gles_delegate")
COMMANDS = {
    "inspect": ["inspect", DIGIT],
    "models": ["models"],
    "run": ["run", DIGIT, "--input", PICTURE],
    "run as JSON": ["run", DIGIT, "--input", PICTURE, "--json"],
    "watch": ["watch", DIGIT, "--picture", PICTURE, "--headless"],
    "batch": ["batch", DIGIT, PICTURE, "--output", "r.csv"],
    "benchmark": ["benchmark", DIGIT, "--runs", "1"],
    "compare": ["compare", DIGIT],
    "doctor": ["doctor"],
    "help": ["--help"],
    "version": ["--version"],
    "wrong": ["run"],
    "failing": ["run", "no.tflite"],
}
FAILING = {"wrong": 2, "failing": 1}
CLOSED = ">&-"
OTHERS = ("2>&-", "<&- >&- 2>&-", ">/dev/full")


def shell(command: list[str], redirection: str, folder: Path) -> tuple[int, str, str]:
    """Status and both outputs of the command line, with redirections of the shell."""
    done = subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *PROGRAM, *command],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)},
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.usefixtures("gl")
@pytest.mark.parametrize(
    ("name", "redirection"),
    [(name, CLOSED) for name in COMMANDS]
    + [
        (name, other)
        for name in ("inspect", "models", "run", "version", "failing")
        for other in OTHERS
    ],
)
def test_streams_that_take_nothing(name: str, redirection: str, tmp_path: Path) -> None:
    status, out, errors = shell(COMMANDS[name], redirection, tmp_path)
    is_full = "full" in redirection and name not in FAILING
    assert status == (1 if is_full else FAILING.get(name, 0)), errors
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors
    assert bool(out) == (redirection == "2>&-" and name not in FAILING)
    if is_full:
        assert errors.endswith("gles-delegate: No space left on device\n")
    elif "2>&-" not in redirection and name not in (
        "doctor",
        "batch",
    ):  # they say what they wait for
        assert bool(errors) == (name in FAILING)  # others say what they wait for


@pytest.mark.usefixtures("gl")
@pytest.mark.parametrize(
    ("name", "encoding"),
    [("run", "latin-1"), ("run", "ascii"), ("watch", "latin-1"), ("batch", "latin-1")],
)
def test_characters_that_the_terminal_lacks(
    name: str, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(["0", "1", "2", "猫", "4", "5", "6", "7", "8", "9"]), "utf-8")
    photo = tmp_path / "猫.png"
    photo.write_bytes(Path(PICTURE).read_bytes())
    broken = tmp_path / "犬.png"
    broken.touch()
    inputs = {
        "run": ["--input", str(photo), "--output", "猫.jpg"],
        "watch": ["--picture", str(photo), "--headless", "--output", "猫.jpg"],
        "batch": [str(photo), str(broken), "--output", "r.csv", "--skip-errors"],
    }
    status, out, errors = shell([name, DIGIT, *inputs[name], "--labels", str(labels)], "", tmp_path)
    assert status == 0, errors
    assert r"\u732b" in out or name == "batch"
    assert name != "batch" or r"\u72ac.png: expected a picture, found no bytes" in errors
    assert name == "batch" or (tmp_path / "猫.jpg").exists()


@pytest.mark.usefixtures("gl")
@pytest.mark.parametrize("redirection", [CLOSED, "<&- >&- 2>&-"])
def test_examples_whose_output_is_closed(redirection: str) -> None:
    example = [str(EXAMPLES / "classify.py"), DIGIT, PICTURE]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", sys.executable, *example],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_that_has_the_number_of_a_closed_stream_is_left_alone(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\n"
        "assert (file, sys.stdout) == (1, None)\n"
        "from gles_delegate.support.streams import prepare_streams\n"
        "prepare_streams()\n"
        "print('猫', flush=True)\n"
    )
    command = ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-c", code, str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "file").read_bytes() == b""
