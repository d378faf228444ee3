"""Moved to gles_apps.live."""

raise ModuleNotFoundError("gles_delegate.live is gles_apps.live since 1.1.0", name="live")
