"""Models on many rows: batches, a pool of processes, and files of results."""

from gles_delegate.batch.predictor import Predictor

__all__ = ["Predictor"]
