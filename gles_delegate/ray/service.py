"""Ray Serve: a model over HTTP."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import numpy as np

from gles_delegate.batch.http import Handler
from gles_delegate.batch.predictor import Batch, ModelSource
from gles_delegate.ray.predictor import Predictor


def deployment(
    model: ModelSource,
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
    """A service of a model over HTTP, for ``serve.run``.

    GET lists the inputs and outputs. POST takes one row: a picture as the body, of the content type
    image/..., or JSON with the inputs by name, ``{"x": [[1, 2], [3, 4]]}``. It answers
    with JSON: the results of `Predictor` for that row, by name. What is wrong with a request is
    said in ``{"error": ...}``, with the status 400, 405, 413 or 415.

    Rows that come at about the same time are computed together, where no op combines them.

    Args:
        batch_size: The most rows that are computed together.
        wait: The seconds for which a row waits for others.
        replicas: How many actors Ray has.
        num_cpus: The processors that each of them gets.
        num_gpus: The GPUs, likewise.
        max_body: The most bytes of a request.
        max_pixels: The most pixels of a picture; a larger one is not decoded.
        **arguments: See `Predictor`.

    Returns:
        A `ray.serve.Application`.
    """
    from ray import serve

    class Service:
        def __init__(self) -> None:
            self._predictor = Predictor(model, **arguments)
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
        max_ongoing_requests=2 * batch_size,  # one batch is computed while another one fills
        ray_actor_options={"num_cpus": num_cpus, "num_gpus": num_gpus},
    ).bind()
