"""Damaged models: some values of a valid model's tables, or some of its bytes, are changed."""

import copy
import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from tests.attack.trial import Trial
from tests.op_table import CASES
from tests.op_table.case import Case
from tests.support.oracle import complete
from tests.support.schema import Values, pack_model

Path: TypeAlias = tuple[str | int, ...]
"""The way from a model's tables to a value: names of fields, and indices."""

INTEGERS = (0, 1, -1, 2, 3, 7, 8, 127, 128, 255, 256, 65535, 1 << 20, 2**31 - 1, -(2**31))
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"))


def damaged(seed: int) -> Trial:
    """A damaged model, the same for the same seed; smaller ones have fewer of its changes."""
    choose = random.Random(seed)
    while True:
        case = choose.choice(CASES)
        bytewise = choose.random() < 0.25
        changes = [choose.getrandbits(32) for _ in range(choose.randint(1, 4 if bytewise else 3))]
        for trial in _trials(seed, case, bytewise, changes):
            return trial


def _trials(seed: int, case: Case, bytewise: bool, changes: Sequence[int]) -> Iterator[Trial]:
    """The model after these changes, each drawn by its own seed; empty if no file fits."""

    def smaller() -> Iterator[Trial]:
        for i in range(len(changes)):
            fewer = [*changes[:i], *changes[i + 1 :]]
            if fewer:
                yield from _trials(seed, case, bytewise, fewer)

    sketch, outputs = case.sketch()
    complete(sketch, outputs)
    draws = [random.Random(change) for change in changes]
    if bytewise:
        content = bytearray(sketch.build(outputs))
        done = [_change_bytes(content, draw) for draw in draws]
    else:
        model = copy.deepcopy(sketch.model(outputs))
        try:
            done = [_change_value(model, draw) for draw in draws]
            content = bytearray(pack_model(model))
        except (TypeError, ValueError, OverflowError, struct.error, AssertionError, KeyError):
            return
    yield Trial(seed, f"{case.id}: {', '.join(done)}", bytes(content), smaller)


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
