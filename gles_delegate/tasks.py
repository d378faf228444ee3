"""Moved to gles_apps.tasks."""

raise ModuleNotFoundError("gles_delegate.tasks is gles_apps.tasks since 1.1.0", name="tasks")
