"""Models on Ray: batch inference with Ray Data, and a service with Ray Serve.

Needs the extra ``ray``. Ray schedules, retries, moves data and shuts down; this package is the
actors' work.
"""

from gles_delegate.support.optional import needs

with needs("gles_apps.ray", "ray", "ray"):
    from gles_apps.ray.predictor import Predictor, TaskPredictor
    from gles_apps.ray.service import deployment

__all__ = ["Predictor", "TaskPredictor", "deployment"]
