"""Models on many rows: batches, process pools, and files of results."""

from gles_delegate.support.optional import needs

with needs("gles_apps.batch", "cli", "PIL"):
    from gles_apps.batch.predictor import Predictor
    from gles_apps.batch.tasks import TaskPredictor

__all__ = ["Predictor", "TaskPredictor"]
