"""Element-wise dispatches that start from one tensor and end in one, as a single expression.

Converters write SILU, HARD_SWISH, GELU and PRELU in pieces, which read a tensor several times. As
one expression they join the epilogue of the dispatch that produces the tensor.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

from gles_delegate.ops.lib.elementwise import Elementwise, combination
from gles_delegate.planning.fusion import MOST_CALLS, Scope, operand_call
from gles_delegate.shaders.dispatch import Call, Dispatch, Operand, every_call


def contract(dispatches: list[Dispatch], scope: Scope) -> list[Dispatch]:
    """Replace each group of element-wise dispatches that reads one tensor several times."""
    return _Contraction(dispatches, scope).run()


class _Contraction:
    def __init__(self, dispatches: list[Dispatch], scope: Scope) -> None:
        self._scope = scope
        self._result = dict(enumerate(dispatches))
        self._reads: Counter[Operand] = Counter(o for d in dispatches for o in d.operands)
        self._writes: defaultdict[Operand, list[int]] = defaultdict(list)
        for i, dispatch in enumerate(dispatches):
            self._writes[dispatch.output].append(i)
        self._makers: dict[Operand, Elementwise] = {}

    def run(self) -> list[Dispatch]:
        for i, dispatch in list(self._result.items()):
            if isinstance(dispatch, Elementwise) and _is_plain(dispatch):
                self._contract(i, dispatch)
        return list(self._result.values())

    def _contract(self, i: int, dispatch: Elementwise) -> None:
        made, parts = _Tree(dispatch, self._makers, self._scope).contracted()
        first = min((self._writes[part.output][0] for part in parts), default=i)
        # The parts' operands are read later than before.
        if all(max(self._writes[operand], default=-1) < first for operand in made.operands):
            for part in parts:
                del self._result[self._writes[part.output][0]]
            for part in (dispatch, *parts):
                self._reads.subtract(part.operands)
            self._reads.update(made.operands)
            self._result[i] = dispatch = made
        output = dispatch.output
        is_read_once = self._reads[output] == len(self._writes[output]) == 1
        if is_read_once and output not in self._scope.kept:
            self._makers[output] = dispatch


def _is_plain(dispatch: Elementwise) -> bool:
    """Whether its function takes the elements as they are, without loops."""
    units = any(name.endswith("_UNIT") for name in dispatch.defines)
    return not (dispatch.partial or dispatch.passes or units)


class _Tree:
    """An element-wise dispatch, and at most `MOST_CALLS` before it that only these read."""

    def __init__(
        self, last: Elementwise, makers: Mapping[Operand, Elementwise], scope: Scope
    ) -> None:
        self._last = last
        self._tensors = scope.tensors
        self._limits = scope.limits
        self._makers: dict[Operand, Elementwise] = {}
        self._leaves: Counter[Operand] = Counter()
        sizes = (last.output.channels, last.output.pixels)
        parts = [last]
        for part in parts:
            for read in part.operands:
                maker = makers.get(read)
                if maker and (read.channels, read.pixels) == sizes and len(parts) <= MOST_CALLS:
                    self._makers[read] = maker
                    parts.append(maker)
                else:
                    self._leaves[read] += 1

    def contracted(self) -> tuple[Elementwise, Sequence[Elementwise]]:
        """The tree as an expression of a tensor that it reads several times, or its last dispatch.

        Returns:
            The dispatch to run, and the others that it replaces.
        """
        last = self._last
        for root, count in self._leaves.items():
            if count == 1 or {root.kind, last.output.kind} != {"float"}:
                continue
            calls = self._calls(last, root)
            if calls is None or sum(1 for _ in every_call(calls)) > MOST_CALLS:
                continue
            x = replace(root, shape=last.output.shape)
            made = combination(last.node, self._limits, (x,), last.output, "", calls)
            made = replace(made, reads=(root,))
            if len(made.operands) <= self._limits.reads_for(made.output.nbytes):
                parts = [*self._below(last, {*made.operands})]
                return made.joined(last, *parts), parts
        return last, ()

    def _calls(self, dispatch: Elementwise, root: Operand) -> tuple[Call, ...] | None:
        """The calls that compute the dispatch's results from the elements of `root`, or None."""
        calls = self._function(dispatch, root)
        for call in dispatch.epilogue if calls is not None else ():
            path = None if call.operand is None or call.rows else self._path(call.operand, root)
            if path is None or calls is None:
                calls = (*(calls or ()), call)
            else:
                branches = (path, calls) if call.operand_first else (calls, path)
                calls = (Call(call.function, branches=branches),)
        return calls

    def _function(self, dispatch: Elementwise, root: Operand) -> tuple[Call, ...] | None:
        """Likewise, without the epilogue."""
        paths = [self._path(read, root) for read in dispatch.reads]
        known = [path for path in paths if path is not None]
        if len(known) == len(paths) > 1:
            return (Call(dispatch.function, branches=tuple(known), kind=dispatch.output.kind),)
        if len(known) != 1:
            return None
        source = dispatch.reads[paths.index(known[0])]
        call = operand_call(dispatch, source, self._tensors)
        return None if call is None else (*known[0], *call)

    def _path(self, operand: Operand, root: Operand) -> tuple[Call, ...] | None:
        if operand == root:
            return ()
        return self._calls(self._makers[operand], root) if operand in self._makers else None

    def _below(self, dispatch: Elementwise, read: Set[Operand]) -> Iterator[Elementwise]:
        """The dispatches before it, up to the tensors `read`."""
        for operand in dispatch.operands:
            if operand not in read and operand in self._makers:
                yield self._makers[operand]
                yield from self._below(self._makers[operand], read)
