"""``python -m gles_delegate``: the command line."""

from gles_delegate.cli import main

if __name__ == "__main__":  # processes that it spawns import it, too
    main()
