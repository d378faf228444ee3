"""Apps of the delegate: tasks in the shape of MediaPipe's, decoders, live apps, batches and Ray.

It is released with the delegate, and has its version.
"""

from typing import TYPE_CHECKING

from gles_delegate.version import __version__ as __version__

if not TYPE_CHECKING:

    def __getattr__(name):
        hint = ": MediaPipe's names are in gles_apps.tasks" if name[:1].isupper() else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
