"""Ray Serve: a model over HTTP."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import numpy as np

from gles_apps.batch.http import Handler
from gles_apps.batch.pool import make_predictor
from gles_apps.batch.predictor import Batch
from gles_apps.ray.predictor import ActorSource, for_actor


def deployment(
    model: ActorSource,
    *,
    batch_size: int = 8,
    wait: float = 0.01,
    replicas: int = 1,
    num_cpus: float = 1,
    num_gpus: float = 0,
    max_body: int = 16 << 20,
    max_pixels: int = 50_000_000,
    **arguments: Any,
) -> Any:
    """An HTTP service for a model, for ``serve.run``.

    GET lists the inputs and outputs. POST accepts one row: a picture, with the content type
    image/..., or JSON with the inputs by name, ``{"x": [[1, 2], [3, 4]]}``. The response
    is JSON: the results of `Predictor` for that row, by name. If a request is wrong, it
    is ``{"error": ...}``, with the status 400, 405, 413 or 415.

    Rows that arrive at about the same time are computed together, unless an op combines them.

    Args:
        batch_size: Maximum number of rows that are computed together.
        wait: Seconds that a row waits for others.
        replicas: The number of actors.
        num_cpus: Processors for each actor.
        num_gpus: GPUs for each actor.
        max_body: The largest request, in bytes.
        max_pixels: The largest picture; a larger one is not decoded.
        **arguments: See `Predictor`; or, with "settings", `TaskPredictor`.

    Returns:
        A `ray.serve.Application`.
    """
    from ray import serve

    class Service:
        def __init__(self) -> None:
            content, options = for_actor(model, arguments.get("options"))
            self._predictor = make_predictor(content, **{**arguments, "options": options})
            self._handler = Handler(self._predictor, max_body, max_pixels)

        def check_health(self) -> None:
            self._predictor.check()

        async def __call__(self, request: Any) -> Any:
            return await self._handler.answer(request, self._compute)

        @serve.batch(max_batch_size=batch_size, batch_wait_timeout_s=wait)  # type: ignore[untyped-decorator]
        async def _compute(self, rows: list[Batch]) -> list[Batch]:
            together = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
            results = await asyncio.to_thread(self._predictor.compute, together)
            return [{n: array[i] for n, array in results.items()} for i in range(len(rows))]

    return serve.deployment(
        Service,
        name=Path(os.fspath(model)).stem if isinstance(model, str | os.PathLike) else "model",
        num_replicas=replicas,
        max_ongoing_requests=2 * batch_size,  # one batch runs while the next one fills
        ray_actor_options={"num_cpus": num_cpus, "num_gpus": num_gpus},
    ).bind()
