"""Results for pictures from the actors of a cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ray
from ray.util import ActorPool

from gles_apps.batch.pool import make_predictor, picture_rows
from gles_apps.batch.predictor import Predictor
from gles_apps.batch.results import Row
from gles_apps.batch.tasks import TaskPredictor
from gles_apps.ray.predictor import for_actor
from gles_delegate import DelegateError


class _Pictures:
    """An actor that computes the results of a model for lists of paths.

    Each call passes the model, because Ray warns about large arguments of actors' constructors.
    """

    def __init__(self) -> None:
        self._predictor: Predictor | TaskPredictor | None = None

    def rows(self, model: Any, arguments: Mapping[str, Any], paths: list[str]) -> list[Row]:
        """The results; `model` is a list with a reference, which Ray does not resolve."""
        if self._predictor is None:
            content, options = for_actor(model[0], None)
            self._predictor = make_predictor(content, options=options, **arguments)
        return picture_rows(self._predictor, paths)


def compute(
    model: bytes,
    arguments: Mapping[str, Any],
    chunks: Sequence[list[str]],
    workers: int | None,
    address: str,
) -> Iterator[list[Row]]:
    """See `gles_apps.batch.pool.compute`; Ray replaces actors that die.

    Args:
        workers: Maximum number of actors; None: one for each processor of the cluster.
        address: The address for `ray.init`.
    """
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
        most = max(int(ray.cluster_resources().get("CPU", 1)), 1)
        actor = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=3)(_Pictures)
        shared = [ray.put(model)]
        count = min(workers or most, most, len(chunks))
        pool = ActorPool([actor.remote() for _ in range(count)])

        def rows(actor: Any, paths: list[str]) -> Any:
            return actor.rows.remote(shared, arguments, paths)

        yield from pool.map_unordered(rows, chunks)
    except (ray.exceptions.RayError, ConnectionError) as error:
        cause: BaseException = error
        while (deeper := getattr(cause, "cause", None) or cause.__cause__) is not None:
            cause = deeper
        raise DelegateError(f"Ray: {type(cause).__name__}: {cause}") from error
    finally:
        ray.shutdown()
