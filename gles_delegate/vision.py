"""Moved to gles_apps.vision."""

raise ModuleNotFoundError("gles_delegate.vision is gles_apps.vision since 1.1.0", name="vision")
