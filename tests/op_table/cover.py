"""Cases that together have all that the plans of the op table have, the most telling first.

python -m tests.op_table.cover     writes cover.txt; run it when the table or a lowering changes
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator
from functools import cache
from pathlib import Path

from gles_delegate.device.limits import Limits
from gles_delegate.errors import DelegateError
from gles_delegate.model.reader import read_model
from tests.op_table.case import Case
from tests.support.lowered import lowered_dispatches

FILE = Path(__file__).with_name("cover.txt")


@cache
def places() -> dict[str, int]:
    """The place of each case in cover.txt, by its id."""
    lines = FILE.read_text("utf-8").splitlines() if FILE.is_file() else []
    return {line: place for place, line in enumerate(lines)}


def features(case: Case) -> set[Hashable]:
    """What a case tests: of each dispatch its shader, macros, operands, epilogue and last slice.

    Numbers count by their class: 0 to 4; above, whether they are multiples of 4, and large.
    """
    sketch, outputs = case.sketch()
    types = [str(feed.dtype) for feed in sketch.feeds]
    types += [sketch.tensors[i]["type"] for i in outputs]
    is_empty = any(feed.size == 0 for feed in sketch.feeds)
    found: set[Hashable] = {("types", case.op, is_empty, *types)}
    try:
        dispatches = lowered_dispatches(read_model(sketch.build(outputs)), Limits())
    except (DelegateError, ValueError) as error:  # runs decide its sizes, for example
        return found | {("not lowered", case.op, type(error).__name__)}
    found.add(("dispatches", case.op, len(dispatches)))
    for each in dispatches:
        name, output = each.shader, each.output
        if not output.elements:  # nothing is computed
            found.add((name, "empty"))
            continue
        found.update((name, macro, _class_of(value)) for macro, value in each.numbers.items())
        kinds = tuple(str(getattr(operand, "kind", "")) for operand in each.reads)
        found.add((name, "kinds", kinds, str(output.kind)))
        found.add((name, "epilogue", tuple(_name_of(call) for call in each.epilogue)))
        is_large = output.pixels > 64
        shares = each.grid.reduction_lanes > 1
        found.add((name, "edges", output.channels % 4, is_large, shares, each.partial))
    return found


def _class_of(value: object) -> Hashable:
    if isinstance(value, tuple):
        return tuple(map(_class_of, value))
    if isinstance(value, bool | str):
        return value
    if isinstance(value, float):
        return "0.0" if value == 0 else "1.0" if value == 1 else "float"
    if isinstance(value, int):
        return value if value <= 4 else (value % 4 == 0, value > 64)
    return str(value)


def _name_of(call: object) -> str:
    return str(getattr(call, "function", getattr(call, "name", "")))


def covering(cases: Iterable[Case]) -> Iterator[Case]:
    """Cases in an order in which each adds the most features, until there are no more."""
    by_id = {case.id: case for case in cases}
    have = {name: features(case) for name, case in by_id.items()}
    left = set().union(*have.values())
    queue = [(-len(found), name) for name, found in have.items()]
    heapq.heapify(queue)
    while left:
        _, name = heapq.heappop(queue)
        now = len(have[name] & left)
        if queue and -now > queue[0][0]:  # another one adds more
            heapq.heappush(queue, (-now, name))
            continue
        left -= have[name]
        yield by_id[name]
