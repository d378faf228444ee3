"""Models on many rows: batches, process pools, and files of results."""

from gles_delegate.batch.predictor import Predictor
from gles_delegate.batch.tasks import TaskPredictor

__all__ = ["Predictor", "TaskPredictor"]
