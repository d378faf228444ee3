"""Results of tasks, and options that tasks share."""

from gles_apps.tasks.components import containers, processors

__all__ = ["containers", "processors"]
