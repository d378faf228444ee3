"""Models on Ray: batch inference with Ray Data, and a service with Ray Serve.

Needs the extra ``ray``. Ray schedules, retries, moves data and shuts down; this package is the
actors' work.
"""

try:
    import ray  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "gles_apps.ray needs Ray: pip install 'gles_delegate[ray]'", name=error.name
    ) from error

from gles_apps.ray.predictor import Predictor, TaskPredictor
from gles_apps.ray.service import deployment

__all__ = ["Predictor", "TaskPredictor", "deployment"]
