"""The command line; it needs the packages of the extra ``cli``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command ``gles-delegate``."""
    try:
        from gles_delegate.cli.group import gles_delegate
    except ImportError as error:
        if (error.name or "").startswith("gles_delegate"):
            raise
        sys.exit(
            f"gles-delegate: the command line needs the extra cli ({error}): "
            "pip install 'gles_delegate[cli]'"
        )
    gles_delegate(prog_name="gles-delegate")
