"""The command line; it needs the packages of the extra ``cli``."""

from __future__ import annotations

import sys

from gles_delegate.errors import sentence_of
from gles_delegate.support.optional import lacks_extra
from gles_delegate.support.streams import end_output, prepare_streams


def main() -> None:
    """Run the command ``gles-delegate``."""
    prepare_streams()
    try:
        from gles_delegate.cli.group import gles_delegate
    except ImportError as error:
        if (error.name or "").startswith("gles_delegate"):
            raise
        sys.exit(f"gles-delegate: {lacks_extra('the command line', 'cli', error)}")
    try:
        gles_delegate(prog_name="gles-delegate")
    except OSError as error:  # standard output is full
        sys.exit(f"gles-delegate: {sentence_of(error)}")
    finally:
        end_output()
