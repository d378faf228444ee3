"""Models on many rows: batches, process pools, and files of results."""

from gles_delegate.batch.predictor import Predictor

__all__ = ["Predictor"]
