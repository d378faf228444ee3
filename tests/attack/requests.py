"""Requests over HTTP that nobody should send: each gets an answer of the status that fits."""

import io
import json
import random
import re
from collections.abc import AsyncIterator, Callable
from functools import cache

import numpy as np
from PIL import Image

from gles_apps.batch import Predictor
from gles_apps.batch.http import Handler
from tests.attack.workers import Outcome
from tests.support.http import JSON, ask
from tests.support.tflite_builder import ModelBuilder

MOST_BYTES, MOST_PIXELS = 1 << 18, 1 << 16
STATUSES = (200, 400, 405, 413, 415)


@cache
def handler(kind: str) -> Handler:
    """The handler of a model that sums two inputs of a type, or averages colors of pictures."""
    b = ModelBuilder()
    if kind == "pictures":
        x, y = b.input((1, 8, 8, 3), name="picture"), b.tensor((1, 3), name="y")
        b.op("MEAN", [x, b.constant(np.int32([1, 2]))], [y])
    else:
        dtype = np.dtype(kind)
        x, z = (b.input((1, 2), dtype, name=name) for name in "xz")
        y = b.tensor((1, 2), dtype, name="y")
        b.op("ADD", [x, z], [y])
    return Handler(Predictor(b.build([y])), MOST_BYTES, MOST_PIXELS)


def run_requests(_: bytes, seed: int) -> Outcome:
    """A request that is drawn, and a good one after it."""
    choose = random.Random(seed)
    kind = choose.choice(("float32", "int32", "pictures"))
    name = f"seed {seed}, {kind}"
    try:
        body = _picture(choose) if kind == "pictures" else _json(choose)
        content = choose.choice(("image/png", "image/*")) if kind == "pictures" else JSON
        if choose.random() < 0.05:
            content = choose.choice(("", "text/plain", "image/png", JSON, "IMAGE/PNG; q=1", "\xff"))
        method = choose.choice(("POST",) * 20 + ("GET", "PUT", "DELETE"))
        ends = choose.random() < 0.95
        length = choose.choice((None, None, None, len(body), 0, 1 << 62))
        status, answer = ask(
            handler(kind), _parts(body, choose), content, method=method, ends=ends, length=length
        )
        text = json.dumps(answer, allow_nan=False)
        assert status in STATUSES, f"status {status}"
        assert (status == 200) == ("error" not in answer), answer
        assert not re.search(r" at 0x|Traceback", text), text[:300]
        if status != 200:
            assert len(text) < 1000, "a long answer"
        good = _png(8, 8) if kind == "pictures" else b'{"x": [1, 2], "z": [10, 20]}'
        status, answer = ask(handler(kind), good, "image/png" if kind == "pictures" else JSON)
        assert status == 200, answer
        assert kind == "pictures" or answer == {"y": [11, 22]}, answer
    except Exception as error:
        return Outcome("foreign error", text=f"{name}: {error!r:.500}")
    return Outcome("result")


async def _parts(body: bytes, choose: random.Random) -> AsyncIterator[bytes]:
    while body:
        size = choose.choice((1 << 10, 1 << 16, 1 << 20))
        yield body[:size]
        body = body[size:]


def _json(choose: random.Random) -> bytes:
    values: tuple[Callable[[], str], ...] = (
        lambda: "[1, 2]",
        lambda: "[1.5, -0.0]",
        lambda: "[" * (n := choose.choice((2, 40, 70, 900, 5000, 60_000))) + "]" * n,
        lambda: "[" * choose.choice((2, 40, 5000, 60_000)),
        lambda: '{"a":' * choose.choice((1, 900, 20_000)),
        lambda: choose.choice(("NaN", "[NaN, 1]", "[Infinity, 1]", "[-Infinity, 1]", "[1e999, 1]")),
        lambda: choose.choice(("[1e39, 1]", "[2147483648, 1]", "[1" + "0" * 400 + ", 1]")),
        lambda: "[1" + "0" * 5000 + ", 1]",
        lambda: choose.choice(("null", "[null, 1]", "true", "[true, false]", '"x"', '["1", "2"]')),
        lambda: choose.choice(("[]", "[[], []]", "[1]", "[1, 2, 3]", "[[1, 2]]", "[1, [2]]", "{}")),
        lambda: "[" + "1," * choose.choice((1000, 100_000)) + "1]",
        lambda: '["' + "x" * choose.choice((10, 200_000, 300_000)) + '"]',
        lambda: choose.choice(('["\\ud800", 1]', "[1,, 2]", "[1 2]", "\0", "[1, 2]x", "")),
    )
    parts = [f'"{name}": {choose.choice(values)()}' for name in "xz"]
    if choose.random() < 0.1:
        parts.append(choose.choice(('"x": [3, 4]', '"w": 1', f'"{"w" * 2000}": 1', '"": 1')))
    text = "{" + ", ".join(parts) + choose.choice(("}", "}", "}", "", "}}"))
    return _changed(text.encode("utf-8", "surrogatepass"), choose, 0.2)


def _picture(choose: random.Random) -> bytes:
    sizes = ((8, 8), (1, 1), (300, 2), (255, 255), (256, 257), (5000, 5000))
    width, height = choose.choice(sizes)
    if width == 5000:
        return _png(width, height)[: choose.choice((100, 1 << 20))]
    mode = choose.choice(("1", "L", "RGB", "RGBA", "P", "I;16", "I", "F", "CMYK", "LA"))
    noise = random.Random(0).randbytes(len(Image.new(mode, (width, height)).tobytes()))
    picture = Image.frombytes(mode, (width, height), noise)
    format_ = choose.choice(("png", "jpeg", "gif", "bmp", "tiff", "webp", "ppm", "jpeg2000"))
    file = io.BytesIO()
    try:
        picture.save(file, format_)
    except (OSError, ValueError, KeyError):  # no such mode in such a file
        return choose.randbytes(choose.choice((0, 1, 100)))
    return _changed(file.getvalue(), choose, 0.7)


def _png(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, "png")
    return file.getvalue()


def _changed(data: bytes, choose: random.Random, share: float) -> bytes:
    """Some bytes of it changed, or the end cut off."""
    if choose.random() > share or not data:
        return data
    changed = bytearray(data)
    if choose.random() < 0.3:
        del changed[choose.randrange(len(changed)) :]
    for _ in range(choose.randint(1, 6)):
        if changed:
            place = choose.randrange(min(len(changed), choose.choice((64, 1 << 20))))
            changed[place] = choose.choice((0, 1, 127, 128, 255, choose.randrange(256)))
    return bytes(changed)
