"""The cells of recurrent layers in a subgraph: LSTMs and GRUs of Keras and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gles_delegate.model.graph import Array, Graph, Node, Tensor
from gles_delegate.ops.cells import GRU_CELLS, LSTM_CELLS, RESET_FIRST_CELLS
from gles_delegate.ops.lib.node import Unsupported
from gles_delegate.ops.lib.recurrence import whole
from gles_delegate.planning.folding import folded
from gles_delegate.planning.patterns import Pattern, Subgraph
from gles_delegate.shaders.dispatch import Shape

MAX_TERMS = 32
"""Maximum number of nodes whose results a gate adds up."""

LSTM: Pattern = ("MUL", ("LOGISTIC", "output"), ("TANH", "cell"))
FIRST_CELL: Pattern = ("MUL", ("LOGISTIC", "input"), ("TANH", "new"))
CELL: Pattern = ("ADD", ("MUL", ("LOGISTIC", "forget"), "kept"), FIRST_CELL)
LSTM_GATES = ("input", "forget", "new", "output")

UPDATE: Pattern = ("LOGISTIC", "update")
GRU_GATES = ("update", "reset", "of input")
GRU: Pattern = ("ADD", ("MUL", UPDATE, "state"), ("MUL", ("SUB", 1.0, UPDATE), ("TANH", "new")))
GRU_OF_DIFFERENCE: Pattern = (
    "ADD", ("MUL", UPDATE, ("SUB", "state", ("TANH", "new"))), ("TANH", "new"),
)  # fmt: skip
RESET_SUM: Pattern = ("ADD", "of input", ("MUL", ("LOGISTIC", "reset"), "of state"))
RESET_STATE: Pattern = ("MUL", ("LOGISTIC", "reset"), "state")

EVERY_CELL = frozenset({"LOGISTIC", "TANH"})
"""Ops of all these patterns."""

NO_CELL = "its body computes no LSTM or GRU as Keras has them"
PREMULTIPLIED = -1
"""Stands for a gate's input weights when the graph has multiplied by them before the loop."""
NO_PRODUCTS = "its gates do not add one product of the input and one of the state"


@dataclass(frozen=True)
class GateWeights:
    """The weights of a gate in a matrix: from a row on, and columns from one on.

    With PREMULTIPLIED weights, the gate is `columns` channels of the input, from a row on.
    """

    weights: int
    row: int
    column: int
    columns: int


@dataclass
class GateTerms:
    """What a gate adds up: products, by what is multiplied; biases, each with its first row."""

    products: dict[int, GateWeights] = field(default_factory=dict)
    biases: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Cell:
    """The cell of a recurrent layer, as tensors of a subgraph.

    Attributes:
        state: The shape of a state: [batch, units].
        after: The output state and, of an LSTM, the cell state.
        before: The tensors that have these before the step; (): zeros, which have no tensor.
        x: The input.
        of_input: For each gate, the sum of the products with the input, and of biases.
        of_state: For each gate, the sum of the products with the output state.
        scaled: Of a GRU, the biases of the product that the reset gate scales.
    """

    op: str
    state: Shape
    after: tuple[int, ...]
    before: tuple[int, ...]
    x: int
    of_input: tuple[GateTerms, ...]
    of_state: tuple[GateTerms, ...]
    scaled: GateTerms | None = None

    @property
    def parameters(self) -> object:
        """Equal for cells with the same weights and biases."""
        scaled = () if self.scaled is None else self.scaled.biases
        of_state = [s.products[self.before[0]] for s in self.of_state]
        of_input = [(s.products[self.x], sorted(s.biases)) for s in self.of_input]
        return self.op, self.state, of_input, of_state, scaled


@dataclass(frozen=True)
class EnclosingGraph:
    """The graph of a recurrent layer, to which its replacement adds tensors.

    Attributes:
        shapes: The shapes of all tensors.
        added: Returns the index in the graph of a constant of a subgraph.
    """

    subgraphs: Sequence[Graph]
    tensors: list[Tensor]
    shapes: Mapping[int, Shape]
    added: Callable[[int, Tensor], int]

    def tensor(self, name: str, shape: Shape, dtype: str = "float32") -> int:
        """A new tensor."""
        index = len(self.tensors)
        self.tensors.append(Tensor(index, name, dtype, shape, (), is_derived=True))
        return index

    def constant(self, name: str, array: Array) -> int:
        """A new constant."""
        index = self.tensor(name, array.shape, str(array.dtype))
        self.tensors[index] = folded(self.tensors[index], array)
        return index

    def layer_inputs(self, cell: Cell, sequence: int, states: Sequence[int]) -> tuple[int, ...]:
        """The inputs of the node that stands for a layer; see gles_delegate/ops/cells.py."""
        units = cell.state[-1]
        of_input = [s.products[cell.x] for s in cell.of_input]
        if all(block.weights == PREMULTIPLIED for block in of_input):
            weights = self.constant("gates", np.array([b.row for b in of_input], np.int32))
        else:
            weights = self._matrix(cell.of_input, cell.x, units, whole(units))
        recurrent = self._matrix(cell.of_state, cell.before[0], units, units)
        biases = self._biases(cell.of_input, units)
        scaled = () if cell.scaled is None else (self._biases([cell.scaled], units),)
        return sequence, weights, biases, recurrent, *states, *scaled

    def check_sizes(self, cell: Cell, inputs: Sequence[int], steps: int) -> None:
        """Raise `Unsupported` unless a layer's inputs fit each other."""
        x, _, _, recurrent, *others = inputs
        sequence, depth = self.shapes[x], cell.of_input[0].products[cell.x].columns
        batch, units = cell.state
        if sequence != (steps, batch, depth) or self.tensors[recurrent].shape[-1] != units:
            raise Unsupported(
                f"an input of shape {list(sequence)} and weights for {depth} channels, for "
                f"{steps} steps of a state of shape {[batch, units]}"
            )
        types = {self.tensors[i].dtype for i in (x, *others)}
        if types != {"float32"}:
            raise Unsupported(f"inputs of {' and '.join(sorted(types))}; expected float32")

    def _matrix(self, sums: Sequence[GateTerms], source: int, units: int, rows: int) -> int:
        """The weights of all gates, `rows` for each; the model's own if in the same order."""
        blocks = [s.products[source] for s in sums]
        if any(block.weights == PREMULTIPLIED for block in blocks):
            raise Unsupported(NO_PRODUCTS)
        tensors = {block.weights: self.tensors[block.weights] for block in blocks}
        types = {tensor.dtype for tensor in tensors.values()}
        if types - {"float32", "int8"}:
            raise Unsupported(f"weights of {' and '.join(sorted(types))}; expected float32 or int8")
        steps = [tensor.quantization for tensor in tensors.values()]
        if any(any(q.zero_points) or q.axis or q.block for q in steps):
            raise Unsupported("weights with zero points, or scales that are not of rows")
        first = blocks[0]
        depth, shape = first.columns, tensors[first.weights].shape
        in_order = [
            GateWeights(first.weights, gate * units, 0, shape[1]) for gate in range(len(sums))
        ]
        if blocks == in_order and shape[0] == len(sums) * rows:
            return first.weights
        if any(block.columns != depth for block in blocks):
            raise Unsupported("weights for different inputs")
        arrays = {i: tensor.values() for i, tensor in tensors.items()}
        joined = np.zeros((len(sums), rows, depth), np.float32)
        for gate, block in enumerate(blocks):
            array = arrays[block.weights][block.row : block.row + units]
            joined[gate, :units] = array[:, block.column : block.column + depth]
        return self.constant(tensors[first.weights].name, joined.reshape(-1, depth))

    def _biases(self, sums: Sequence[GateTerms], units: int) -> int:
        rows = np.zeros((len(sums), whole(units)), np.float32)
        for gate, s in enumerate(sums):
            rows[gate, :units] = self.bias(s, units)
        return self.constant("biases", rows.ravel())

    def bias(self, terms: GateTerms, units: int) -> Array:
        """The biases of a gate, added up."""
        total = np.zeros(units, np.float32)
        for i, row in terms.biases:
            values = self.tensors[i].array().ravel()
            total += values if row < 0 else values[row : row + units]
        return total


class CellReader:
    """Finds cells of recurrent layers in a subgraph.

    Args:
        read: Returns a constant that nodes read; raises `Unsupported` if it is computed.
        shape: Returns the shape of a tensor, () if it is not known.
    """

    def __init__(
        self, body: Subgraph, read: Callable[[int], Tensor], shape: Callable[[int], Shape]
    ) -> None:
        self._body = body
        self._read = read
        self._shape = shape
        self._batch = self._units = 0

    def cells(self, result: int) -> Iterator[Cell]:
        """The cells whose output state a tensor may be."""
        if self._body.graph.tensors[result].dtype != "float32":
            return
        for names in self._body.matches(LSTM, result, {}):
            for found in self._body.matches(CELL, names["cell"], names):
                cell = found["kept"]
                shape = self._measured(cell)
                if not shape:
                    continue
                sums = tuple(self._sum(found[gate]) for gate in LSTM_GATES)
                # Either of the two tensors that the gates multiply may be the state.
                for state in dict.fromkeys(i for s in sums for i in s.products):
                    if self._matrix(state) == shape:
                        x, ends = self._input(sums, state=state), (result, found["cell"])
                        yield Cell(LSTM_CELLS, shape, ends, (state, cell), x, sums, sums)
        for pattern in (GRU, GRU_OF_DIFFERENCE):
            for found in self._body.matches(pattern, result, {}):
                yield self._gru(result, found)

    def cell_before_zeros(self, later: Cell) -> Cell | None:
        """The cell before `later`, if its states are zeros, whose terms a converter leaves out.

        It has the weights of `later`; its biases are still to be compared.
        """
        (self._batch, self._units), result = later.state, later.before[0]
        if later.op == LSTM_CELLS:
            for names in self._body.matches(LSTM, result, {"cell": later.before[1]}):
                for found in self._body.matches(FIRST_CELL, names["cell"], names):
                    gates = [self._sum(found[gate]) for gate in LSTM_GATES if gate != "forget"]
                    x, forget = self._input((), gates), later.of_input[1]
                    kept = GateTerms({x: forget.products[later.x]}, forget.biases)
                    return self._with_weights_of(later, x, (gates[0], kept, *gates[1:]))
        for found in self._body.matches(GRU_OF_DIFFERENCE, result, {}):
            for names in self._body.matches(RESET_SUM, found["new"], {}):
                gates = [self._sum({**found, **names}[gate]) for gate in GRU_GATES]
                x, scaled = self._input((), gates), self._sum(names["of state"])
                if self._body.is_filled(found["state"], 0.0) and not scaled.products:
                    return self._with_weights_of(later, x, tuple(gates), scaled)
        return None

    @staticmethod
    def _with_weights_of(
        later: Cell, x: int, of_input: tuple[GateTerms, ...], scaled: GateTerms | None = None
    ) -> Cell | None:
        """The cell with these sums before a later one, if it has the same weights."""
        pairs = zip(of_input, later.of_input, strict=True)
        if any(one.products[x] != other.products[later.x] for one, other in pairs):
            return None
        return Cell(later.op, later.state, later.before, (), x, of_input, (), scaled)

    def _gru(self, result: int, found: Mapping[str, int]) -> Cell:
        state = found["state"]
        shape = self._measured(state)
        if not shape:
            raise Unsupported(NO_CELL)
        ends = (result,), (state,)
        update = self._sum(found["update"])
        for names in self._body.matches(RESET_SUM, found["new"], {}):
            of_state, reset = self._sum(names["of state"]), self._sum(names["reset"])
            if {*of_state.products} == {state}:
                of_input = self._sum(names["of input"])
                x = self._input((update, reset), (of_input,), state)
                both = (update, reset, of_input), (update, reset, of_state)
                return Cell(GRU_CELLS, shape, *ends, x, *both, of_state)
        new = self._sum(found["new"])
        for scaled in {*new.products} if state not in new.products else ():
            for names in self._body.matches(RESET_STATE, scaled, {"state": state}):
                new.products[state] = new.products.pop(scaled)
                sums = update, self._sum(names["reset"]), new
                x = self._input(sums, state=state)
                return Cell(RESET_FIRST_CELLS, shape, *ends, x, sums, sums, GateTerms())
        raise Unsupported(NO_CELL)

    def _measured(self, state: int) -> Shape:
        """The shape of a state, which sets the number of units; () if it is not a matrix."""
        shape = self._matrix(state)
        self._batch, self._units = shape or (0, 0)
        return shape if self._units else ()

    def _matrix(self, tensor: int) -> Shape:
        """The shape [batch, channels] of a tensor, which may have a first dimension of 1, or ()."""
        shape = self._shape(tensor)
        shape = shape[1:] if len(shape) == 3 and shape[0] == 1 else shape
        return shape if len(shape) == 2 else ()

    @staticmethod
    def _input(
        with_state: Sequence[GateTerms], others: Sequence[GateTerms] = (), state: int = -1
    ) -> int:
        """The input of a step: each gate adds one product of it, and some add one of the state."""
        inputs = {i for s in (*with_state, *others) for i in s.products} - {state}
        if (
            len(inputs) != 1
            or any({*s.products} != {*inputs, state} for s in with_state)
            or any({*s.products} != inputs for s in others)
        ):
            raise Unsupported(NO_PRODUCTS)
        return inputs.pop()

    def _sum(self, gate: int) -> GateTerms:
        """The terms that add up to a gate; those that one node cuts have the same rows."""
        result, body = GateTerms(), self._body
        rows = {gate: self._units}
        pending = [(gate, 0, gate)]
        for _ in range(MAX_TERMS):
            if not pending:
                return result
            tensor, first, level = pending.pop()
            part, add = self._part(tensor), body.maker(tensor, "ADD")
            if part and level == gate:
                source, start, count = part
                rows[source] = count
                pending.append((source, first + start, source))
            elif add and len(add.inputs) == 2:
                pending += [(i, first, level) for i in add.inputs]
            else:
                self._note_term(result, tensor, first, rows[level])
        raise Unsupported(f"a gate of more than {MAX_TERMS} terms")

    def _part(self, tensor: int) -> tuple[int, int, int] | None:
        """The tensor of which it is the channels of a gate, the first one, and its channels."""
        if part := self._body.part(tensor, "SPLIT", "SPLIT_V"):
            return self._split(*part)
        cut = self._body.maker(tensor, "SLICE")
        if cut is None:
            columns = self._body.channels(tensor)
            if columns is None:
                return None
            source, start, end, count = columns
            is_gate = 0 <= start == end - self._units and end <= count
            return (source, start, count) if is_gate else None
        source, begin, size = cut.inputs[0], *map(self._body.array, cut.inputs[1:])
        shape, whole_source = self._shape(source), self._matrix(source)
        if begin is None or begin.size != len(shape) or size is None or not whole_source:
            return None
        *others, first = begin.ravel().tolist()
        is_gate = size.ravel().tolist() == [*shape[:-1], self._units] and not any(others)
        return (source, first, shape[-1]) if is_gate else None

    def _split(self, node: Node, position: int) -> tuple[int, int, int]:
        """The source of a SPLIT, the first of an output's channels, and the source's number."""
        source, at = (1, 0) if node.op == "SPLIT" else (0, 2)
        axis = self._body.array(node.inputs[at])
        lengths: Array | None = np.full(len(node.outputs), self._units)
        if node.op != "SPLIT":
            lengths = self._body.array(node.inputs[1])
        is_along = axis is not None and axis.size == 1 and axis.item() in (1, -1)
        if not is_along or lengths is None or lengths.size != len(node.outputs):
            raise Unsupported("its gates are not cut along the channels")
        sizes = np.where(lengths < 0, self._units, lengths).ravel()
        if sizes[position] != self._units:
            raise Unsupported("its gates have other channels than its states")
        return node.inputs[source], int(sizes[:position].sum()), int(sizes.sum())

    def _note_term(self, result: GateTerms, tensor: int, first: int, rows: int) -> None:
        """Add the product, the biases or the input that a tensor is to a sum."""
        node = self._body.maker(tensor, "FULLY_CONNECTED")
        biases = [tensor] if node is None else [i for i in node.inputs[2:3] if i >= 0]
        products: dict[int, GateWeights] = {}
        is_computed = tensor >= 0 and not self._body.graph.tensors[tensor].is_constant
        if node:
            weights = self._read(node.inputs[1])
            if len(weights.shape) != 2 or weights.shape[0] != rows:
                raise Unsupported(NO_PRODUCTS)
            sources = self._columns(node.inputs[0], weights.shape[1])
            if len({source for source, _, _ in sources}) < len(sources):
                raise Unsupported(NO_PRODUCTS)
            products = {
                source: GateWeights(weights.index, first, *columns) for source, *columns in sources
            }
        elif is_computed and self._matrix(tensor) == (self._batch, rows):
            products, biases = {tensor: GateWeights(PREMULTIPLIED, first, 0, rows)}, []
        if products.keys() & result.products.keys():
            raise Unsupported(NO_PRODUCTS)
        result.products |= products
        for bias in biases:
            values = self._read(bias)
            is_row = self._is_row(values, rows)
            if values.dtype != "float32" or not (is_row or values.shape in ((), (1,))):
                raise Unsupported(f"biases of shape {list(values.shape)} for {rows} channels")
            result.biases.append((values.index, first if is_row else -1))

    def _is_row(self, biases: Tensor, rows: int) -> bool:
        """Whether it has one row, or equal ones for all of a batch."""
        *batch, last = biases.shape or (0,)
        if last != rows or batch not in ([], [1], [1, 1], [self._batch], [1, self._batch]):
            return False
        values = biases.array().reshape(-1, rows)
        return bool((values == values[0]).all())

    def _columns(self, source: int, count: int) -> list[tuple[int, int, int]]:
        """The tensors that a matrix with `count` columns multiplies, and the columns of each."""
        join = self._body.maker(source, "CONCATENATION")
        if join is None or len(join.inputs) != 2 or not self._body.joins_channels(join):
            return [(source, 0, count)]
        first, second = join.inputs
        sizes = [shape[-1] if (shape := self._shape(i)) else 0 for i in join.inputs]
        split = sizes[0] or count - sizes[1]
        if not 0 < split < count or sizes[1] not in (0, count - split):
            raise Unsupported(NO_PRODUCTS)
        return [(first, 0, split), (second, split, count - split)]
