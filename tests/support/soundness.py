"""Plans, checked without GL: each tensor is read with its size, and before others write over it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from gles_delegate.model.graph import Array
from gles_delegate.planning import plan as planning
from gles_delegate.planning.plan import Plan
from gles_delegate.planning.rewriting import reads_true_sizes
from gles_delegate.shaders.dispatch import Dispatch, Value


def check_buffers(plan: Plan) -> None:
    """Play a plan: whoever reads a value finds it in its place, not another's remains."""
    assert plan.peak_bytes <= sum(plan.buffers)
    outermost = {v: plan.inside.get(v, (v, 0))[0] for v in plan.allocations}
    ids = {value: i for i, value in enumerate(dict.fromkeys(outermost.values()))}
    memory = [np.full(size // 8, -1) for size in plan.buffers]

    def words(value: Value) -> Array:
        allocation = plan.allocations[value]
        assert allocation.size >= value.nbytes
        assert allocation.end <= plan.buffers[allocation.buffer]
        first = allocation.offset // 8
        return memory[allocation.buffer][first : first + value.nbytes // 8]

    # What no dispatch writes is not read either: a gate's place that an LSTM lacks.
    ever = {host: np.zeros(host.nbytes // 8, np.bool_) for host in ids}

    def part(value: Value) -> slice:
        first = plan.inside.get(value, (value, 0))[1] // 8
        return slice(first, first + value.nbytes // 8)

    for dispatch in plan.dispatches:
        assert reads_true_sizes(dispatch), f"{dispatch} reads a tensor as one of another size"
        ever[outermost[dispatch.output]][part(dispatch.output)] |= words_written(dispatch)

    def require(value: Value, reader: object) -> None:
        host = outermost[value]
        others = (words(value) != ids[host]) & ever[host][part(value)]
        assert not others.any(), f"{reader} reads others' remains"

    def write(value: Value, written: Array | bool = True) -> None:
        words(value)[written] = ids[outermost[value]]

    for values in (plan.inputs, plan.variables, plan.results):
        for value in values.values():
            write(value)
    for value in plan.session_inputs:
        write(value)
    for dispatch in plan.dispatches:
        written = words_written(dispatch) if dispatch.writes_all else True
        for value in {v for v in dispatch.operands if isinstance(v, Value)}:
            require(value, dispatch)
            check_apart(plan, dispatch, value)
        write(dispatch.output, written)
    for value in (*plan.inputs.values(), *plan.outputs.values()):
        require(value, "the host")
    check_parts(plan)


def words_written(dispatch: Dispatch) -> Array:
    """The words of 8 bytes of its output that a dispatch may write."""
    texels = dispatch.written.any(axis=2).reshape(-1)
    return texels.repeat(dispatch.output.texel_bytes // 8)


def check_apart(plan: Plan, dispatch: Dispatch, value: Value) -> None:
    """A dispatch does not write over what it reads."""
    one, other = plan.allocations[value], plan.allocations[dispatch.output]
    if one.buffer != other.buffer or one.end <= other.offset or other.end <= one.offset:
        return
    if value == dispatch.output:
        assert dispatch.partial, f"{dispatch} overwrites its input"
        return
    first, last = ((at - other.offset) // 8 for at in (one.offset, one.end))
    overlap = words_written(dispatch)[max(first, 0) : max(last, 0)]
    assert not overlap.any(), f"{dispatch} overwrites its input {value}"


def check_parts(plan: Plan) -> None:
    """Parts of a tensor that are computed inside it, or copied to it, have their own bytes."""
    owners: dict[Value, Array] = {}
    numbers = {value: i for i, value in enumerate(plan.allocations)}
    for dispatch in plan.dispatches:
        value, written = dispatch.output, words_written(dispatch)
        host, offset = plan.inside.get(value, (value, 0))
        owner = owners.setdefault(host, np.full(host.nbytes // 8, -1))
        part = owner[offset // 8 :][: value.nbytes // 8]
        taken = part[written]
        assert np.isin(taken, (-1, numbers[value])).all(), f"{dispatch} writes to another part"
        part[written] = numbers[value]


@contextmanager
def every_plan_checked() -> Iterator[None]:
    """Inside, `check_buffers` checks every plan that this process makes."""
    allocated = planning._allocated
    unsound: list[str] = []

    def checked(*arguments: Any) -> Plan:
        plan = allocated(*arguments)
        try:
            check_buffers(plan)
        except AssertionError as error:  # also in threads that continue without the plan
            unsound.append(str(error))
            raise
        return plan

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "_allocated", checked)
        yield
    assert not unsound
