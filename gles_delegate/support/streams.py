"""The standard streams of a program."""

from __future__ import annotations

import io
import os
import sys


def prepare_streams() -> None:
    """Make standard output and error accept every text, and exist.

    Characters that the terminal's encoding lacks are written as escapes, such as ``\\u732b``. A
    stream that was closed as Python started discards what is written; files that are opened later
    do not get its number.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "w" if descriptor else "r"
            _occupy(descriptor)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _occupy(descriptor: int) -> None:
    """Open a number that is closed on a file that discards everything, for child processes, too."""
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)
        os.dup2(opened, descriptor)
        if opened != descriptor:
            os.close(opened)
        os.set_inheritable(descriptor, True)
