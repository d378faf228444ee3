"""Results of tasks, and options that tasks share."""

from gles_delegate.tasks.components import containers, processors

__all__ = ["containers", "processors"]
