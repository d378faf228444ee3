"""Ray Serve: a model over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gles_delegate.batch.predictor import Batch, Model
from gles_delegate.model.graph import Array
from gles_delegate.ray.predictor import Predictor


def deployment(
    model: Model,
    *,
    batch_size: int = 8,
    wait: float = 0.01,
    replicas: int = 1,
    num_cpus: float = 1,
    num_gpus: float = 0,
    **arguments: Any,
) -> Any:
    """A service of a model over HTTP, for ``serve.run``.

    GET tells the inputs and outputs. POST takes one row: a picture as the body, of the content type
    image/..., or JSON with the inputs by name, ``{"x": [[1, 2], [3, 4]]}``. It answers
    with JSON: the results of `Predictor` for that row, by name. What is wrong with a request is
    said in ``{"error": ...}``, with the status 400, 405 or 415.

    Rows that come at about the same time are computed together.

    Args:
        batch_size: The most rows that are computed together.
        wait: The seconds for which a row waits for others.
        replicas, num_cpus, num_gpus: How many actors Ray has, and what each of them gets.
        **arguments: See `Predictor`.

    Returns:
        A `ray.serve.Application`.
    """
    from ray import serve

    class Service:
        def __init__(self) -> None:
            self._predictor = Predictor(model, **arguments)

        def check_health(self) -> None:
            self._predictor.check()

        async def __call__(self, request: Any) -> Any:
            from starlette.responses import JSONResponse

            if request.method == "GET":
                both = {"inputs": self._predictor.inputs, "outputs": self._predictor.outputs}
                return JSONResponse({k: _outline(details) for k, details in both.items()})
            try:
                if request.method != "POST":
                    raise _Refused(405, f"expected GET or POST, found {request.method}")
                kind = request.headers.get("content-type", "")
                feeds = _row(self._predictor, kind, await request.body())
            except _Refused as error:
                return JSONResponse({"error": str(error)}, error.status)
            results = await self._compute(feeds)
            return JSONResponse({name: _plain(array) for name, array in results.items()})

        @serve.batch(max_batch_size=batch_size, batch_wait_timeout_s=wait)  # type: ignore[untyped-decorator]
        async def _compute(self, rows: list[Batch]) -> list[Batch]:
            together = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
            results = await asyncio.to_thread(self._predictor.compute, together)
            return [{n: array[i] for n, array in results.items()} for i in range(len(rows))]

    return serve.deployment(
        Service,
        name=Path(os.fspath(model)).stem if isinstance(model, str | os.PathLike) else "model",
        num_replicas=replicas,
        ray_actor_options={"num_cpus": num_cpus, "num_gpus": num_gpus},
    ).bind()


class _Refused(Exception):
    """A request that cannot be answered, and the status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _row(predictor: Predictor, kind: str, body: bytes) -> Batch:
    """The inputs of a request's one row.

    Raises:
        _Refused: There is none.
    """
    kind = kind.partition(";")[0].strip().lower()
    if kind.startswith("image/"):
        if len(predictor.inputs) != 1:
            names = sorted(predictor.inputs)
            raise _Refused(415, f"expected JSON with the inputs {names}, found a picture")
        batch: dict[str, Any] = {"image": [body]}
    elif kind == "application/json":
        try:
            given = json.loads(body)
        except ValueError as error:
            raise _Refused(400, f"expected JSON, found what is none: {error}") from error
        if not isinstance(given, dict):
            names = sorted(predictor.inputs)
            raise _Refused(400, f"expected an object with the inputs {names}")
        batch = {
            name: [_typed(name, value, predictor.inputs[name]["dtype"])]
            for name, value in given.items()
            if name in predictor.inputs
        }
        unknown = given.keys() - batch.keys()
        if unknown:
            names = sorted(predictor.inputs)
            raise _Refused(400, f"expected the inputs {names}, found {sorted(unknown)} as well")
    else:
        raise _Refused(415, f"expected image/... or application/json, found {kind!r}")
    try:
        feeds = predictor.prepare(batch)
    except ValueError as error:
        raise _Refused(400, str(error)) from error
    for name, array in feeds.items():
        wanted = predictor.inputs[name]["shape"][1:].tolist()
        if list(array.shape[1:]) != wanted:
            found = list(array.shape[1:])
            raise _Refused(400, f"expected the shape {wanted} of the input {name!r}, found {found}")
    return feeds


def _typed(name: str, value: Any, dtype: Any) -> Array:
    """A value of JSON as an array of a type that holds it."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"elements of {array.dtype}")
        typed = array.astype(dtype)
        if np.dtype(dtype).kind in "biu" and (typed != array).any():
            raise ValueError("numbers out of its range")
        return typed
    except (ValueError, OverflowError) as error:
        what = f"numbers of {np.dtype(dtype).name} for the input {name!r}"
        raise _Refused(400, f"expected {what}, found {error}") from error


def _outline(details: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Names, types and shapes of rows."""
    return {
        name: {"dtype": np.dtype(d["dtype"]).name, "shape": d["shape"][1:].tolist()}
        for name, d in details.items()
    }


def _plain(array: Array) -> Any:
    """A result as JSON, which has no NaN and infinity."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        finite = array.astype(object)
        finite[~np.isfinite(array)] = None
        return finite.tolist()
    return array.tolist()
