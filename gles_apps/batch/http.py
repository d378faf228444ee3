"""HTTP requests to rows of a model, and results to responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from gles_apps.batch.predictor import Batch, Predictor
from gles_apps.batch.tasks import TaskPredictor
from gles_delegate import DelegateError
from gles_delegate.image.pictures import opened as opened_picture
from gles_delegate.model.graph import Array
from gles_delegate.report import without_nan

Compute = Callable[[Batch], Awaitable[Batch]]


@dataclass(frozen=True)
class Handler:
    """A handler of requests for a model; see `gles_apps.ray.deployment`.

    Attributes:
        predictor: The model.
        max_bytes: The largest request body.
        max_pixels: The largest picture; its pixels are counted before it is decoded.
    """

    predictor: Predictor | TaskPredictor
    max_bytes: int
    max_pixels: int

    async def answer(self, request: Any, compute: Compute) -> Any:
        """The response to a request, both of starlette.

        Args:
            compute: Maps one row, [1, ...] of each input, to its results without that axis.
        """
        from starlette.responses import JSONResponse

        if request.method == "GET":
            return JSONResponse(self._outline())
        try:
            if request.method != "POST":
                raise _Refused(405, f"expected GET or POST, found {request.method}")
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            body = await self._body(request)
            results = await compute(await asyncio.to_thread(self._row, kind, body))
        except _Refused as error:
            status, message = error.args
            return JSONResponse({"error": message}, status)
        except DelegateError as error:
            return JSONResponse({"error": str(error)}, 500)
        return JSONResponse({name: _plain(array) for name, array in results.items()})

    async def _body(self, request: Any) -> bytes:
        """A request's body; raises _Refused before a body that is too large is read completely."""
        from starlette.requests import ClientDisconnect

        too_large = _Refused(413, f"expected a body of at most {self.max_bytes} bytes")
        length = request.headers.get("content-length", "0").strip()
        if not (length.isascii() and length.isdecimal()):
            raise _Refused(400, f"expected Content-Length in bytes, found {length[:80]!r}")
        digits = length.lstrip("0") or "0"
        # Python does not convert thousands of digits.
        if len(digits) > len(str(self.max_bytes)) or int(digits) > self.max_bytes:
            raise too_large
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > self.max_bytes:
                    raise too_large
        except ClientDisconnect as error:
            raise _Refused(400, "the client disconnected before sending the whole body") from error
        return bytes(body)

    def _row(self, kind: str, body: bytes) -> Batch:
        """The inputs of a request's row; raises _Refused if it does not have a valid one."""
        names = sorted(self.predictor.inputs)
        if kind.startswith("image/"):
            if len(names) != 1:
                raise _Refused(415, f"expected JSON with the inputs {names}, found a picture")
            self._check_picture(body)
            batch: dict[str, Any] = {"image": [body]}
        elif kind == "application/json":
            values = _parsed(body)
            if not isinstance(values, dict):
                raise _Refused(400, f"expected an object with the inputs {names}")
            unknown = [name[:80] for name in sorted(values.keys() - names)[:5]]
            if unknown:
                raise _Refused(400, f"expected the inputs {names}, found {unknown} as well")
            batch = {
                name: [_typed(name, value, self.predictor.inputs[name]["dtype"])]
                for name, value in values.items()
            }
        else:
            raise _Refused(415, f"expected image/... or application/json, found {kind[:80]!r}")
        try:
            feeds = self.predictor.prepare(batch)
        except ValueError as error:
            raise _Refused(400, str(error)) from error
        for name, array in feeds.items():
            expected = list(self.predictor.row_shape(name))
            shape = list(array.shape[1:])
            if shape != expected:
                raise _Refused(
                    400, f"expected the shape {expected} of the input {name!r}, found {shape}"
                )
        return feeds

    def _check_picture(self, body: bytes) -> None:
        """Raise _Refused if a picture's header is damaged or has too many pixels."""
        try:
            with opened_picture(body) as picture:
                fits = picture.width * picture.height <= self.max_pixels
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            fits = False
        except Exception as error:  # decoders raise any error
            reason = str(error)
            if not reason.startswith("expected"):
                reason = f"expected a picture, found a damaged one: {error}"
            raise _Refused(400, reason) from error
        if not fits:
            raise _Refused(413, f"expected a picture of at most {self.max_pixels} pixels")

    def _outline(self) -> dict[str, Any]:
        """Names, types and shapes of a row's inputs and outputs."""
        inputs = self.predictor.inputs
        outputs = self.predictor.outputs
        rows = {name: list(self.predictor.row_shape(name)) for name in inputs}
        whole = any(len(rows[name]) == len(d["shape"]) for name, d in inputs.items())
        results = {n: d["shape"].tolist()[0 if whole else 1 :] for n, d in outputs.items()}
        return {
            kind: {
                name: {"dtype": np.dtype(details[name]["dtype"]).name, "shape": shape}
                for name, shape in shapes.items()
            }
            for kind, details, shapes in (("inputs", inputs, rows), ("outputs", outputs, results))
        }


class _Refused(Exception):
    """An HTTP status and a message, for a request that cannot be answered."""


def _parsed(body: bytes) -> Any:
    """The content of a JSON body; raises _Refused if it is not JSON."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word}, which JSON does not allow")

    try:
        return json.loads(body, parse_constant=refuse)
    except ValueError as error:
        raise _Refused(400, f"expected JSON, found invalid JSON: {error}") from error
    except RecursionError as error:
        raise _Refused(400, "expected arrays in a JSON object, found deeper nesting") from error


def _typed(name: str, value: Any, dtype: Any) -> Array:
    """A JSON value as an array; raises _Refused if the type cannot represent its numbers."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"elements of {array.dtype}")
        with np.errstate(all="ignore"):
            typed = array.astype(dtype)
        holds = np.isfinite(typed) if typed.dtype.kind == "f" else typed == array
        if not holds.all():
            raise ValueError("numbers outside its range")
        return typed
    except (ValueError, OverflowError, RecursionError) as error:
        message = f"expected {np.dtype(dtype).name} numbers for the input {name!r}, found {error}"
        raise _Refused(400, message) from error


def _plain(array: Any) -> Any:
    """A result as JSON, with null for NaN and infinity."""
    if not isinstance(array, np.ndarray):  # the rows of a task
        return without_nan(array)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        finite = array.astype(object)
        finite[~np.isfinite(array)] = None
        return finite.tolist()
    return array.tolist()
