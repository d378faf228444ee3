"""Recurrent layers: a WHILE whose body is a step of an LSTM or GRU becomes one node for all steps.

A matched node must have been checked completely: another body is unrolled, and gives its own
results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gles_delegate.model.graph import Array, Node, Tensor
from gles_delegate.ops.lib.node import Unsupported
from gles_delegate.ops.lib.views import meaning
from gles_delegate.ops.tensor_lists import GET, SET
from gles_delegate.ops.variables import IDENTITY
from gles_delegate.planning.cells import NO_CELL, Cell, CellReader, EnclosingGraph
from gles_delegate.planning.folding import folded
from gles_delegate.planning.patterns import Index, Subgraph
from gles_delegate.shaders.dispatch import Shape

ELEMENT = ("EXPAND_DIMS", "item", 0)
UPDATED = ("DYNAMIC_UPDATE_SLICE", "list", ELEMENT, "start")
BEFORE, AFTER = ("SLICE", "list", "begin", "size"), ("SLICE", "list", "next", "rest")
JOINED = ("CONCATENATION", BEFORE, ELEMENT, AFTER)

MAX_TESTS = 4
"""Maximum number of comparisons in the condition of a loop."""


class CountedLoop:
    """A WHILE that runs a constant number of iterations; raises `Unsupported` if it does not."""

    def __init__(self, node: Node, around: EnclosingGraph) -> None:
        self._node = node
        self._around = around
        condition, body = node.subgraphs
        self._condition = Subgraph(around.subgraphs[condition])
        self._body = Subgraph(around.subgraphs[body])
        self._body_index = body
        graphs = self._condition.graph, self._body.graph
        ends = (node.inputs, node.outputs, self._body.graph.outputs, *(g.inputs for g in graphs))
        unused = -1 in {*graphs[0].inputs, *graphs[1].inputs}
        if len({*map(len, ends)}) > 1 or min(node.inputs, default=-1) < 0 or unused:
            raise Unsupported(NO_CELL)
        self._iterations = self._count()

    def lists(self) -> list[tuple[int, int]]:
        """Loop variables that act as output lists, each with the tensor that is written to it.

        Iteration i writes element i, and nothing else reads the list.
        """
        found = []
        for number in range(len(self._node.inputs)):
            written = self._written(number)
            if written and self._is_time(written[0]) and self._is_list(number, written[1]):
                found.append((number, written[1]))
        return found

    def _count(self) -> int:
        counts: list[int] = []
        pending = [*self._condition.graph.outputs]
        while pending and len(counts) < MAX_TESTS:
            tensor = pending.pop()
            both = self._condition.maker(tensor, "LOGICAL_AND")
            less = self._condition.maker(tensor, "LESS")
            if both:
                pending += both.inputs
            elif less and len(less.inputs) == 2:
                counts.append(self._iterations_of(*less.inputs))
            else:
                break
        else:
            if counts and min(counts) > 0 and not pending:
                return min(counts)
        raise Unsupported("its condition does not count iterations; expected LESS of a counter")

    def _iterations_of(self, counter: int, limit: int) -> int:
        """Number of iterations until a counter that starts at a constant reaches a limit."""
        condition = self._condition
        number = condition.numbers.get(counter, -1)
        if number < 0 or not self._is_counter(number):
            return 0
        known = condition.array(limit)
        if known is None:
            known = self._integer(condition.numbers.get(limit, -1))
        start = self._integer(number)
        return 0 if known is None or start is None or known.size != 1 else int(known - start)

    def _is_counter(self, number: int) -> bool:
        return self._body.counted(self._body.graph.outputs[number]) == Index(number, 1)

    def _is_unchanged(self, number: int) -> bool:
        return self._body.graph.outputs[number] == self._body.graph.inputs[number]

    def _integer(self, number: int) -> Array | None:
        """The constant value that an integer variable of the loop has first, of rank 0."""
        if number < 0 or not (self._is_unchanged(number) or self._is_counter(number)):
            return None
        tensor = self._around.tensors[self._node.inputs[number]]
        is_known = tensor.is_constant and tensor.dtype == "int32" and not tensor.shape
        return tensor.array() if is_known else None

    def _is_time(self, index: Index | None, more: int = 0) -> bool:
        """Whether an index is the number of iterations before this one, plus `more`."""
        if index is None or index.number != more or index.variable is None:
            return False
        start = self._integer(index.variable)
        return self._is_counter(index.variable) and start is not None and not start.item()

    def _is_list(self, number: int, item: int) -> bool:
        """Whether a list has an element for each iteration, and only the assignments read it."""
        graph, outer = self._body.graph, self._node.inputs[number]
        like = meaning(graph.tensors[item]) == meaning(self._around.tensors[outer])
        if not like or self._around.shapes[outer][:1] != (self._iterations,):
            return False
        results = [t for node in graph.nodes for t in node.inputs] + [*graph.outputs]
        output = graph.outputs[number]
        cast = self._body.maker(output, "CAST")
        whole = {output, *(cast.inputs if cast else ())}
        reads = results.count(graph.inputs[number])
        return reads <= 2 and sum(map(results.count, whole)) == len(whole)

    def _written(self, number: int) -> tuple[Index, int] | None:
        """The position and the tensor that an iteration assigns to a list, if it does only that."""
        body, output = self._body, self._body.graph.outputs[number]
        before = body.graph.inputs[number]
        cast = body.maker(output, "CAST")
        inner = cast.inputs[0] if cast else output
        if len({body.graph.tensors[i].dtype for i in (inner, output, before)}) > 1:
            return None
        bound = {"list": before}
        for names in body.matches((SET, "list", "at", "item"), inner, bound):
            at = body.counted(names["at"])
            return (at, names["item"]) if at else None
        for names in body.matches(UPDATED, inner, bound):
            start = body.vector(names["start"]) or []
            is_whole = start[1:] == [Index(None, 0)] * (len(start) - 1)
            return (start[0], names["item"]) if start and is_whole else None
        for names in body.matches(JOINED, inner, bound):
            return self._joined(inner, names)
        return None

    def _joined(self, output: int, names: Mapping[str, int]) -> tuple[Index, int] | None:
        """The same for a list that is cut and joined with the new element."""
        join = self._body.maker(output, "CONCATENATION")
        ends = tuple(self._body.vector(names[end]) for end in ("begin", "size", "next", "rest"))
        size = ends[1]
        if not size or join is None or not self._body.axis_zero(join):
            return None
        at, zeros = size[0], [Index(None, 0)] * (len(size) - 1)
        all_of_it = [Index(None, -1)] * len(size)
        next_one = Index(at.variable, at.number + 1)
        wanted = ([Index(None, 0), *zeros], [at, *all_of_it[1:]], [next_one, *zeros], all_of_it)
        return (at, names["item"]) if wanted == ends else None


class RecurrentLoop(CountedLoop):
    """A WHILE whose body is a step of a recurrent layer; raises `Unsupported` if it is not."""

    def __init__(self, node: Node, around: EnclosingGraph) -> None:
        super().__init__(node, around)
        self._wide: dict[int, int] = {}
        self._cell = self._match()

    def nodes(self) -> list[Node]:
        """The layer, and a copy for each result of the WHILE."""
        node, body, around, cell = self._node, self._body, self._around, self._cell
        states = tuple(node.inputs[body.numbers[tensor]] for tensor in cell.before)
        inputs = around.layer_inputs(cell, self._sequence(cell.x), states)
        around.check_sizes(cell, inputs, self._iterations)
        lengths = {
            number: self._list_length(number)
            for number, output in enumerate(body.graph.outputs)
            if not self._is_unchanged(number)
            and self._integer(number) is None
            and output not in cell.after
        }
        if len(lengths) > 1:
            raise Unsupported("it has several lists of results")
        shapes = (sum(lengths.values()) or 1, *cell.state), *(cell.state for _ in cell.before)
        outputs = tuple(around.tensor(node.op, shape) for shape in shapes)
        nodes = [Node(node.index, cell.op, 1, inputs, outputs)]
        for number, (source, result) in enumerate(zip(node.inputs, node.outputs, strict=True)):
            after = body.graph.outputs[number]
            if number in lengths:
                source = outputs[0]
            elif after in cell.after:
                source = outputs[1 + cell.after.index(after)]
            elif not self._is_unchanged(number):
                start = around.tensors[source]
                end = start.array() + np.asarray(self._iterations, start.dtype)
                source = len(around.tensors)
                around.tensors.append(replace(folded(start, end), index=source))
            nodes.append(Node(node.index, IDENTITY, 1, (source,), (result,)))
        return nodes

    def _match(self) -> Cell:
        body = self._body
        reader = CellReader(body, self._constant, self._shape)
        reasons: list[str] = []
        for result in dict.fromkeys(body.graph.outputs):
            try:
                for cell in reader.cells(result):
                    if all(map(self._is_state, cell.before, cell.after)):
                        return cell
            except Unsupported as error:
                reasons.append(str(error))
        raise Unsupported(*reasons[:1] or [NO_CELL])

    def _shape(self, tensor: int) -> Shape:
        number = self._body.numbers.get(tensor, -1)
        return () if number < 0 else self._around.shapes[self._node.inputs[number]]

    def _is_state(self, before: int, after: int) -> bool:
        """Whether a loop variable, a matrix, is `before` in an iteration, `after` in the next."""
        number, is_matrix = self._body.numbers.get(before, -1), len(self._shape(before)) == 2
        return is_matrix and number >= 0 and self._body.graph.outputs[number] == after

    def _constant(self, tensor: int) -> Tensor:
        """A constant that the body reads, among the tensors outside."""
        body, tensors = self._body, self._around.tensors
        number = body.numbers.get(tensor, -1)
        if tensor >= 0 and body.graph.tensors[tensor].is_constant:
            return tensors[self._around.added(self._body_index, body.graph.tensors[tensor])]
        if number >= 0 and self._is_unchanged(number):
            outer = tensors[self._node.inputs[number]]
            if outer.is_constant:
                return outer
        widened = body.maker(tensor, "DEQUANTIZE")
        source = body.graph.tensors[widened.inputs[0]] if widened else None
        if source is None or not source.is_constant:
            raise Unsupported("weights or biases that are computed in the loop")
        if source.dtype != "float16":
            raise Unsupported(f"weights of {source.dtype}; expected float32, float16 or int8")
        if tensor not in self._wide:
            index = self._around.constant(source.name, source.array().astype(np.float32))
            tensors[index] = replace(tensors[index], is_half=True)
            self._wide[tensor] = index
        return tensors[self._wide[tensor]]

    def _sequence(self, x: int) -> int:
        """The sequence outside whose elements the steps read."""
        gather, body = self._body.maker(x, "GATHER", GET), self._body
        if gather is None or not body.axis_zero(gather):
            raise Unsupported("its input is not an element of a sequence")
        number = body.numbers.get(gather.inputs[0], -1)
        is_time = self._is_time(body.counted(gather.inputs[1]))
        if number < 0 or not self._is_unchanged(number) or not is_time:
            raise Unsupported("the input of a step is not the element of that number")
        return self._node.inputs[number]

    def _list_length(self, number: int) -> int:
        """The length of a list, to which each iteration assigns the output state."""
        length, *state = self._around.shapes[self._node.inputs[number]] or (0,)
        at, item = self._written(number) or (Index(None, -1), -1)
        is_last = length == 1 and at == Index(None, 0)
        is_all = length == self._iterations and self._is_time(at)
        is_sized = state == [*self._cell.state] or 0 in state
        is_list = (is_last or is_all) and is_sized
        if not is_list or item != self._cell.after[0]:
            raise Unsupported(f"it changes value {number} in another way than a recurrent layer")
        return length
