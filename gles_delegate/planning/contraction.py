"""Element-wise dispatches that start from one tensor and end in one, as a single expression.

Converters write SILU, HARD_SWISH, GELU and PRELU in pieces, which read a tensor several times. As
one expression they join the epilogue of the dispatch that produces the tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gles_delegate.model.graph import Tensor
from gles_delegate.ops.lib.elementwise import DIFFERENCES, Elementwise, combination
from gles_delegate.planning.fusion import operand_call
from gles_delegate.planning.rewriting import Edit, Is, Listing, Tree, has_texels_of, rule
from gles_delegate.shaders.dispatch import Call, Operand


def _is_plain(dispatch: Elementwise) -> bool:
    """Whether its function takes the elements as they are, without loops."""
    units = any(name.endswith("_UNIT") for name in dispatch.defines)
    return not (dispatch.partial or dispatch.passes or units)


@rule(Tree(Is(Elementwise, where=_is_plain)))
def contract(listing: Listing, last: Elementwise, *parts: Elementwise) -> Iterator[Edit]:
    """Replace each group of element-wise dispatches that reads one tensor of its size several times
    by one expression of that tensor.
    """
    makers: dict[Operand, Elementwise] = {part.output: part for part in parts}
    limits, tensors = listing.scope.limits, listing.scope.tensors
    reads = Counter(o for part in (last, *parts) for o in part.operands if o not in makers)
    for root, count in reads.items():
        is_real = root.kind == last.output.kind == "float"
        if count == 1 or not is_real or not has_texels_of(root, last.output):
            continue
        calls = _Tree(makers, root, tensors).calls(last)
        if calls is not None:
            x = replace(root, shape=last.output.shape)
            made = combination(last.node, limits, (x,), last.output, "", calls)
            yield Edit(replace(made, reads=(root,)), last, *parts)


def _is_lost(function: str, branches: Sequence[tuple[Call, ...]]) -> bool:
    """Whether a compiler makes 0 of it, which is NaN for infinities and NaN."""
    return function in DIFFERENCES and len(branches) == 2 != len({*branches})


@dataclass(frozen=True)
class _Tree:
    """Element-wise dispatches by their results, as functions of `root`."""

    makers: Mapping[Operand, Elementwise]
    root: Operand
    tensors: Sequence[Tensor]

    def calls(self, dispatch: Elementwise) -> tuple[Call, ...] | None:
        """The calls that compute the dispatch's results from the elements of `root`, or None."""
        calls = self._function(dispatch)
        for call in dispatch.epilogue if calls is not None else ():
            other = None if call.rows or call.spread else call.operand
            path = None if other is None else self._path(other)
            if path is None or calls is None:
                calls = (*(calls or ()), call)
            else:
                branches = (path, calls) if call.operand_first else (calls, path)
                if _is_lost(call.function, branches):
                    return None
                calls = (Call(call.function, branches=branches),)
        return calls

    def _function(self, dispatch: Elementwise) -> tuple[Call, ...] | None:
        """Likewise, without the epilogue."""
        paths = [self._path(read) for read in dispatch.reads]
        known = [path for path in paths if path is not None]
        if _is_lost(dispatch.function, known):
            return None
        if len(known) == len(paths) > 1:
            return (Call(dispatch.function, branches=tuple(known), kind=dispatch.output.kind),)
        if len(known) != 1:
            return None
        source = dispatch.reads[paths.index(known[0])]
        call = operand_call(dispatch, source, self.tensors)
        return None if call is None else (*known[0], *call)

    def _path(self, operand: Operand) -> tuple[Call, ...] | None:
        if operand == self.root:
            return ()
        return self.calls(self.makers[operand]) if operand in self.makers else None
