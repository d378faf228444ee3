"""Moved to gles_apps.batch."""

raise ModuleNotFoundError("gles_delegate.batch is gles_apps.batch since 1.1.0", name="batch")
