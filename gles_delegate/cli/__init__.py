"""The command line; it needs the packages of the extra ``cli``."""

from __future__ import annotations

import sys

from gles_delegate.support.optional import lacks_extra


def main() -> None:
    """Run the command ``gles-delegate``."""
    try:
        from gles_delegate.cli.group import gles_delegate
    except ImportError as error:
        if (error.name or "").startswith("gles_delegate"):
            raise
        sys.exit(f"gles-delegate: {lacks_extra('the command line', 'cli', error)}")
    gles_delegate(prog_name="gles-delegate")
