"""Models on Ray: batch inference with Ray Data, and a service with Ray Serve.

Needs the extra ``ray``. Scheduling, retries, data and shutdown are Ray's; here is what actors do.
"""

from gles_delegate.ray.predictor import Predictor
from gles_delegate.ray.service import deployment

__all__ = ["Predictor", "deployment"]
