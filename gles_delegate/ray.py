"""Moved to gles_apps.ray."""

raise ModuleNotFoundError("gles_delegate.ray is gles_apps.ray since 1.1.0", name="ray")
