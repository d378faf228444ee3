"""Apps of the delegate: tasks in the shape of MediaPipe's, decoders, live apps, batches and Ray.

Its version is 0.x: public names, which the pages of the documentation show, may change.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.1"

if not TYPE_CHECKING:

    def __getattr__(name):
        hint = ": MediaPipe's names are in gles_apps.tasks" if name[:1].isupper() else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
