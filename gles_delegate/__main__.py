"""``python -m gles_delegate``: the command line."""

from gles_delegate.cli import main

main()
