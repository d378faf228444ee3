"""The standard streams of a program."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress


def prepare_streams() -> None:
    """Make standard output and error exist, and accept every text.

    A stream that was closed as Python started discards what is written, and files that are opened
    later do not get its number. Characters that the terminal's encoding lacks are written as
    escapes, such as ``\\u732b``, unless PYTHONIOENCODING says what to do with them.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)  # has the lowest number that is free
            if nothing == descriptor:
                os.set_inheritable(nothing, True)
            mode = "w" if descriptor else "r"
            setattr(sys, name, os.fdopen(nothing, mode, encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        fails = getattr(stream, "errors", None) in ("strict", "surrogateescape")
        if fails and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def end_output() -> None:
    """Write what is left for standard output, or discard it if that fails.

    Otherwise Python tries once more as it ends, and changes the status of the process.
    """
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):  # it has no descriptor, or is closed
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, sys.stdout.fileno())
            os.close(nothing)
