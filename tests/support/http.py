"""Requests to a `Handler` in this process, as starlette gives them."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from gles_apps.batch.http import Handler

JSON = "application/json"


@dataclass(frozen=True)
class Asked:
    """A handler, and what computes rows for it."""

    handler: Handler
    compute: Callable[[Any], Awaitable[Any]]

    async def answer(
        self,
        body: bytes | AsyncIterator[bytes] = b"",
        kind: str = JSON,
        method: str = "POST",
        length: int | str | None = None,
        ends: bool = True,
    ) -> tuple[int, Any]:
        """The status and the JSON of an answer.

        Args:
            body: All of it, or its parts, with which the connection ends unless `ends`.
            length: What the header says of its size.
        """
        from starlette.requests import Request

        parts = _one(body) if isinstance(body, bytes) else body
        headers = [(b"content-type", kind.encode())]
        if length is not None:
            headers.append((b"content-length", str(length).encode("latin-1")))

        async def receive() -> dict[str, Any]:
            async for part in parts:
                return {"type": "http.request", "body": part, "more_body": True}
            if ends:
                return {"type": "http.request", "body": b"", "more_body": False}
            return {"type": "http.disconnect"}

        scope = {"type": "http", "method": method, "headers": headers, "path": "/"}
        response = await self.handler.answer(Request(scope, receive), self.compute)
        return response.status_code, json.loads(response.body)


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body


def ask(handler: Handler, body: Any = b"", kind: str = JSON, **how: Any) -> tuple[int, Any]:
    """The answer to one request, whose row is computed alone."""

    async def alone(row: Any) -> Any:
        results = await asyncio.to_thread(handler.predictor.compute, row)
        return {name: array[0] for name, array in results.items()}

    return asyncio.run(Asked(handler, alone).answer(body, kind, **how))
