"""Requests to a model over HTTP, without a server."""

import asyncio
import io
import json
import struct
import threading
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gles_apps.batch import Predictor
from gles_apps.batch.http import Handler
from tests.support.http import JSON, Asked, ask
from tests.support.small import means
from tests.support.tflite_builder import ModelBuilder

pytest.importorskip("starlette")
MOST_BYTES, MOST_PIXELS = 1 << 20, 1 << 20


def two_inputs() -> bytes:
    b = ModelBuilder()
    x, z = b.input((1, 2), name="x"), b.input((1, 2), name="z")
    return b.build([b.op("ADD", [x, z], [b.tensor((1, 2), name="y")])])


@pytest.fixture(scope="module")
def sums() -> Iterator[Handler]:
    predictor = Predictor(two_inputs())
    yield Handler(predictor, MOST_BYTES, MOST_PIXELS)
    predictor.close()


@pytest.fixture(scope="module")
def colors() -> Iterator[Handler]:
    predictor = Predictor(means())
    yield Handler(predictor, MOST_BYTES, MOST_PIXELS)
    predictor.close()


def png(width: int, height: int, rows: int | None = None) -> bytes:
    """A red picture; its file is small, however large it is, and may end after some `rows`."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    compressor = zlib.compressobj(9)
    row = b"\0" + b"\xff\0\0" * width
    compressed = [compressor.compress(row) for _ in range(rows or height)]
    body = b"".join([*compressed, compressor.flush()])
    parts = chunk(b"IHDR", header), chunk(b"IDAT", body), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_answers(sums: Handler, colors: Handler) -> None:
    assert ask(sums, b'{"x": [1, 2], "z": [10, 20]}') == (200, {"y": [11, 22]})
    assert ask(sums, method="GET")[1]["inputs"] == {
        name: {"dtype": "float32", "shape": [2]} for name in ("x", "z")
    }
    status, answer = ask(colors, png(9, 7), "image/png")
    assert status == 200
    np.testing.assert_allclose(answer["color"], [1, 0, 0], atol=1e-6)


def test_numbers_that_json_lacks_are_null(sums: Handler) -> None:
    assert ask(sums, b'{"x": [3e38, 2], "z": [3e38, 20]}') == (200, {"y": [None, 22]})


def test_another_method(sums: Handler) -> None:
    assert ask(sums, method="PUT") == (405, {"error": "expected GET or POST, found PUT"})


DEEP = b'{"x": ' + b"[" * 200_000 + b"]" * 200_000 + b', "z": [1, 2]}'


@pytest.mark.parametrize(
    ("body", "kind", "status", "message"),
    [
        (b"text", "text/plain", 415, "image/... or application/json"),
        (b"text", "", 415, "image/... or application/json"),
        (b"text", "image/png", 415, "found a picture"),
        (b"", JSON, 400, "expected JSON"),
        (b"{", JSON, 400, "expected JSON"),
        (b"\xff\xfe{", JSON, 400, "expected JSON"),
        (b"[1]", JSON, 400, "expected an object"),
        (DEEP, JSON, 400, "deeper nesting"),
        (DEEP[:100_000], JSON, 400, "deeper nesting"),
        (b'{"x": ' + b"[" * 500 + b"]" * 500 + b', "z": [1, 2]}', JSON, 400, "float32 numbers"),
        (b'{"x": [1, 2]}', JSON, 400, "inputs ['x', 'z'], found ['x']"),
        (b'{"x": [1], "z": [1, 2]}', JSON, 400, "the shape [2] of"),
        (b'{"x": [[1, 2]], "z": [1, 2]}', JSON, 400, "found float32 [1, 2]"),
        (b'{"x": [1, [2]], "z": [1, 2]}', JSON, 400, "float32 numbers"),
        (b'{"x": ["a", "b"], "z": [1, 2]}', JSON, 400, "float32 numbers"),
        (b'{"x": [null, 1], "z": [1, 2]}', JSON, 400, "float32 numbers"),
        (b'{"x": {"y": 1}, "z": [1, 2]}', JSON, 400, "float32 numbers"),
        (b'{"x": [NaN, 1], "z": [1, 2]}', JSON, 400, "NaN, which JSON does not allow"),
        (b'{"x": [1e999, 1], "z": [1, 2]}', JSON, 400, "numbers outside its range"),
        (b'{"x": [1e39, 1], "z": [1, 2]}', JSON, 400, "numbers outside its range"),
        (b'{"x": [1%s, 1], "z": [1, 2]}' % (b"0" * 5000), JSON, 400, "expected JSON"),
        (b'{"x": [1%s, 1], "z": [1, 2]}' % (b"0" * 400), JSON, 400, "float32 numbers"),
        (b'{"x": [1, 2], "z": [1, 2], "w": 1}', JSON, 400, "found ['w'] as well"),
        (b" " * (MOST_BYTES + 1), JSON, 413, "a body of at most 1048576 bytes"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_is_said(
    body: bytes, kind: str, status: int, message: str, sums: Handler
) -> None:
    actual, answer = ask(sums, body, kind)
    assert (actual, message in answer["error"]) == (status, True), answer
    assert len(answer["error"]) < 500
    assert " at 0x" not in answer["error"]


def truncated(suffix: str) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(file, suffix)
    return file.getvalue()[: len(file.getvalue()) * 2 // 3]


def floats() -> bytes:
    file = io.BytesIO()
    Image.new("F", (4, 4)).save(file, "tiff")
    return file.getvalue()


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"text", 400, "found bytes of another kind"),
        (b"", 400, "found no bytes: "),
        (
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n",
            400,
            "another kind, EPS: ",
        ),
        (truncated("png"), 400, "expected a picture"),
        (truncated("jpeg"), 400, "expected a picture"),
        (truncated("webp"), 400, "expected a picture"),
        (truncated("tiff"), 400, "expected a picture"),
        (truncated("gif"), 400, "expected a picture"),
        (floats(), 400, "expected a picture with 8 or 16 bits per channel, found floats"),
        (png(1024, 1024), 200, ""),
        (png(1200, 1000), 413, "a picture of at most 1048576 pixels"),
        (png(13_000, 10), 200, ""),
        (png(13_000, 13_000, rows=10)[:300], 413, "a picture of at most 1048576 pixels"),
        (b"\xff" * (MOST_BYTES + 1), 413, "a body of at most 1048576 bytes"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_picture_is_said(
    body: bytes, status: int, message: str, colors: Handler
) -> None:
    actual, answer = ask(colors, body, "image/png")
    assert (actual, message in answer.get("error", "")) == (status, True), answer
    assert " at 0x" not in str(answer)


def test_a_body_is_not_read_beyond_the_limit(sums: Handler) -> None:
    read: list[int] = []

    async def endless() -> AsyncIterator[bytes]:
        while True:
            read.append(1 << 18)
            yield bytes(1 << 18)

    assert ask(sums, endless())[0] == 413
    assert sum(read) <= MOST_BYTES + (1 << 19)
    read.clear()
    assert ask(sums, endless(), length=1 << 40)[0] == 413
    assert not read


@pytest.mark.parametrize(
    ("length", "status"),
    [
        ("9" * 5000, 413),
        ("9" * 4000, 413),
        (MOST_BYTES + 1, 413),
        (MOST_BYTES, 200),
        ("0" * 5000 + "16", 200),
        (" 16 ", 200),
        ("", 400),
        ("-1", 400),
        ("+16", 400),
        ("1_0", 400),
        ("0x10", 400),
        ("16, 16", 400),
        ("1e9", 400),
        ("\xb2\xb3", 400),
        ("x" * 5000, 400),
    ],
    ids=lambda value: str(value)[:10],
)
def test_the_header_that_says_how_long_it_is(length: int | str, status: int, sums: Handler) -> None:
    actual, answer = ask(sums, b'{"x": [1, 2], "z": [1, 2]}', length=length)
    assert actual == status, answer
    message = {413: "a body of at most", 400: "expected Content-Length in bytes, found "}
    assert message.get(status, "") in answer.get("error", "")
    assert len(str(answer)) < 500


def test_a_connection_that_ends_is_no_fault(sums: Handler) -> None:
    async def begun() -> AsyncIterator[bytes]:
        yield b'{"x": '

    status, answer = ask(sums, begun(), ends=False)
    assert (status, "the client disconnected" in answer["error"]) == (400, True)


def test_pictures_are_decoded_beside_the_event_loop(
    colors: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    prepare = Predictor.prepare

    def noted(self: Predictor, batch: Any) -> Any:
        threads.append(threading.current_thread())
        return prepare(self, batch)

    monkeypatch.setattr(Predictor, "prepare", noted)
    assert ask(colors, png(9, 7), "image/png")[0] == 200
    assert threads
    assert threading.main_thread() not in threads


def test_an_error_of_the_driver_is_an_answer(sums: Handler) -> None:
    import gles_delegate as gd

    async def lost(row: Any) -> Any:
        raise gd.ContextLostError("the driver reset the context")

    body = json.dumps({"x": [1, 2], "z": [1, 2]}).encode()
    status, answer = asyncio.run(Asked(sums, lost).answer(body))
    assert (status, answer) == (500, {"error": "the driver reset the context"})
