"""Damaged models: some values of a valid model's tables, or some of its bytes, are changed."""

from __future__ import annotations

import copy
import random
import struct
from collections.abc import Iterator
from typing import Any, TypeAlias

from tests.op_table import CASES
from tests.support.oracle import complete
from tests.support.schema import Values, pack_model

Path: TypeAlias = tuple[str | int, ...]
"""The way from a model's tables to a value: names of fields, and indices."""

INTEGERS = (0, 1, -1, 2, 3, 7, 8, 127, 128, 255, 256, 65535, 1 << 20, 2**31 - 1, -(2**31))
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"))


def damaged(seed: int) -> tuple[str, bytes]:
    """A name that says what was done, and the model; the same for the same seed."""
    choose = random.Random(seed)
    while True:
        case = choose.choice(CASES)
        sketch, outputs = case.sketch()
        complete(sketch, outputs)
        if choose.random() < 0.25:
            content = bytearray(sketch.build(outputs))
            done = [_change_bytes(content, choose) for _ in range(choose.randint(1, 4))]
            return f"{case.id}: {', '.join(done)}", bytes(content)
        model = copy.deepcopy(sketch.model(outputs))
        done = [_change_value(model, choose) for _ in range(choose.randint(1, 3))]
        try:
            return f"{case.id}: {', '.join(done)}", pack_model(model)
        except (TypeError, ValueError, OverflowError, struct.error, AssertionError, KeyError):
            continue  # the file cannot say that


def _change_bytes(content: bytearray, choose: random.Random) -> str:
    at = choose.randrange(8, len(content))  # the rest is only the identifier
    what = choose.choice(("flip", "set", "cut"))
    if what == "cut" and choose.random() < 0.1:
        del content[at:]
        content += bytes(8)
    elif what == "set":
        content[at] = choose.choice((0, 1, 127, 128, 255))
    else:
        content[at] ^= 1 << choose.randrange(8)
    return f"{what} at byte {at}"


def _change_value(model: Values, choose: random.Random) -> str:
    path = choose.choice([*_paths(model)])
    holder: Any = model
    for step in path[:-1]:
        holder = holder[step]
    if isinstance(holder, tuple):  # a union: its type is not changed
        return "nothing"
    key, old = path[-1], holder[path[-1]]
    if isinstance(holder, list) and choose.random() < 0.2:
        if choose.random() < 0.5:
            del holder[key]
            return f"{_spelt(path)} removed"
        holder.insert(key, copy.deepcopy(old))
        return f"{_spelt(path)} doubled"
    if isinstance(holder, dict) and choose.random() < 0.1:
        del holder[key]
        return f"{_spelt(path)} removed"
    new = _changed(old, choose)
    holder[key] = new
    return f"{_spelt(path)} = {new!r:.40}"


def _changed(old: Any, choose: random.Random) -> Any:
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return choose.choice((old + 1, old - 1, *INTEGERS))
    if isinstance(old, float):
        return choose.choice((2 * old, *FLOATS))
    if isinstance(old, bytes) and old:
        at = choose.randrange(len(old))
        return choose.choice((b"", old[:at], old + old[:4], old[:at] + b"\xff" + old[at + 1 :]))
    if isinstance(old, list):
        return choose.choice(([], old * 2, old[::-1]))
    return old


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    for key, item in items:
        yield from _paths(item, (*path, key))


def _spelt(path: Path) -> str:
    return ".".join(map(str, path))
