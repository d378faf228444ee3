"""The command line as a user sees it, and models to give to it."""

import inspect
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

from gles_delegate.cli.group import gles_delegate
from tests.support.sketch import Sketch


class Runner(CliRunner):
    """Keeps standard error apart from standard output, and whole, in click 8.1, too."""

    def __init__(self) -> None:
        mixes = "mix_stderr" in inspect.signature(CliRunner).parameters
        apart: dict[str, Any] = {"mix_stderr": False} if mixes else {}
        super().__init__(**apart)

    @contextmanager
    def isolation(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        with super().isolation(*arguments, **options) as streams:
            sys.stderr.reconfigure(write_through=True)  # type: ignore[union-attr]
            yield streams


def call(*arguments: object, status: int = 0, errors_at: str = "stderr") -> str:
    """A command's output, or its standard error if it fails, or on `errors_at`."""
    result = Runner().invoke(gles_delegate, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else str(getattr(result, errors_at))


def call_json(*arguments: object) -> Any:
    return json.loads(call(*arguments, "--json"))


def bars(*arguments: object) -> str:
    """Standard error of a command, a terminal, in another process."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal, os.fdopen(theirs, "wb") as errors:
        subprocess.run(
            [sys.executable, "-m", "gles_delegate", *map(str, arguments)],
            env={**os.environ, "TERM": "xterm"}, stdout=subprocess.DEVNULL, stderr=errors,
            check=True, timeout=120,
        )  # fmt: skip
        os.set_blocking(ours, False)
        return (terminal.read() or b"").decode()  # None where nothing was written


def saved(path: Path, content: bytes) -> Path:
    """The path, of a file that holds the content."""
    path.write_bytes(content)
    return path


def picture_model() -> bytes:
    """NEG of a picture, and the picture in uint8 as it is."""
    s = Sketch(np.random.default_rng(0))
    x, y = s.input((1, 4, 6, 3), name="real"), s.input((1, 4, 6, 1), np.uint8, name="bytes")
    outputs = [
        s.op("NEG", [x], [(1, 4, 6, 3)]),
        s.op("RESHAPE", [y, s.constant(np.array((1, 4, 6, 1), np.int32))], [(1, 4, 6, 1)]),
    ]
    return s.build(outputs)
