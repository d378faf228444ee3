"""Resource variables: what VAR_HANDLE names, READ_VARIABLE reads and ASSIGN_VARIABLE assigns to.

They belong to the model: nodes of all its subgraphs share them by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from gles_delegate.model.graph import Array, Graph, Node, Tensor
from gles_delegate.ops.lib.node import Unsupported
from gles_delegate.ops.variables import ASSIGN, CALL_ONCE, HANDLE, IDENTITY, READ
from gles_delegate.planning.inlining import called_by

USERS = (READ, ASSIGN)


@dataclass(frozen=True)
class Variable:
    """A resource variable.

    Attributes:
        tensor: The first that is assigned to it, whose type and shape are its own.
        initial: The bytes that CALL_ONCE assigns to it; None: nodes assign before they read.
        reason: Why the GPU cannot keep it; "" if it can.
    """

    tensor: Tensor
    initial: Array | None = None
    reason: str = ""


@dataclass(frozen=True)
class Uses:
    """Which nodes of a graph use which variables, by their names.

    Attributes:
        tensors: The variables by the index of the tensor that stands for each.
        users: The nodes that use a variable, which must run together.
        called: By the index of a CALL_ONCE, the variables that it initializes.
        read_first: The variables that are read before they are assigned to.
    """

    tensors: Mapping[int, str]
    users: Mapping[str, Set[int]]
    called: Mapping[int, Set[str]]
    read_first: Set[str]


def find_variables(graph: Graph) -> dict[str, Variable]:
    """Every variable of a model to which a node assigns, by its name."""
    once = {n.subgraphs[0] for part in graph.subgraphs for n in part.nodes if _calls_once(n)}
    found: dict[str, Variable] = {}
    for part in sorted(graph.subgraphs, key=lambda part: part.index not in once):
        handles = {n.outputs[0]: _name(n) for n in part.nodes if n.op == HANDLE}
        for node in part.nodes:
            if node.op != ASSIGN or node.inputs[0] not in handles:
                continue
            name, value = handles[node.inputs[0]], part.tensors[node.inputs[1]]
            if part.index not in once:
                found.setdefault(name, Variable(value))
            elif name in found:
                found[name] = Variable(value, reason="it is initialized more than once")
            elif not value.is_constant:
                found[name] = Variable(value, reason="its first value is computed")
            else:
                found[name] = Variable(value, value.data)
    return found


class UseCounter:
    """Finds the `Uses` of a graph as its nodes are lowered, one after the other.

    Args:
        tensors: The graph's tensors, to which it adds one for each variable.
    """

    def __init__(self, graph: Graph, tensors: list[Tensor]) -> None:
        self._graph = graph
        self._tensors = tensors
        self._handles: dict[int, str] = {}
        self._variables: Mapping[str, Variable] | None = None
        self._latest: dict[str, int] = {}
        self._assigned: set[str] = set()
        self._places: dict[str, int] = {}
        self._users: dict[str, set[int]] = {}
        self._called: dict[int, set[str]] = {}
        self._read_first: set[str] = set()

    @property
    def uses(self) -> Uses:
        """The uses found so far."""
        tensors = {index: name for name, index in self._places.items()}
        return Uses(tensors, self._users, self._called, self._read_first)

    def note(self, node: Node) -> None:
        """Remember what a node uses, and which variable its result stands for."""
        names = {self._handles[i] for i in node.inputs if i in self._handles}
        if node.op == HANDLE and node.outputs:
            name = self._handles[node.outputs[0]] = _name(node)
            names = {name}
        elif node.op == IDENTITY and names:
            (self._handles[node.outputs[0]],) = names
        elif node.op == CALL_ONCE:
            self._called[node.index] = self._inside(node)
        elif node.subgraphs:
            names |= self._inside(node)
        # Of nodes that share a variable tensor, each starts with what the one before has left.
        where = f"of subgraph {self._graph.index}"
        states = {i for i in node.inputs if i >= 0 and self._tensors[i].is_variable}
        for name in names | {f"tensor {i} {where}" for i in states}:
            self._users.setdefault(name, set()).add(node.index)

    def place(self, node: Node) -> int:
        """The tensor that stands for the variable of a READ_VARIABLE or ASSIGN_VARIABLE.

        Raises:
            Unsupported: The GPU cannot keep the variable.
        """
        name = self._handles.get(node.inputs[0]) if node.inputs else None
        if name is None:
            raise Unsupported("input 0 is not the result of a VAR_HANDLE")
        variable = self._variable(name)
        if node.index < self._latest.get(name, 0):
            raise Unsupported(f"nodes that use the variable {name!r} stand out of order")
        self._latest[name] = node.index
        if node.op == ASSIGN:
            self._assigned.add(name)
        elif name not in self._assigned:
            self._read_first.add(name)
        if name not in self._places:
            self._places[name] = len(self._tensors)
            value = variable.tensor
            self._tensors.append(
                Tensor(
                    len(self._tensors), name, value.dtype, value.shape, (), value.quantization, True
                )
            )
        return self._places[name]

    def check_call(self, node: Node) -> None:
        """Raise `Unsupported` unless a CALL_ONCE only gives variables their first values."""
        others = {
            inner.op
            for index in node.subgraphs
            for inner in self._graph.subgraphs[index].nodes
            if inner.op not in (HANDLE, ASSIGN)
        }
        if others or not node.subgraphs:
            raise Unsupported(
                f"its subgraph has {' and '.join(sorted(others)) or 'no nodes'}; expected only "
                "constants assigned to variables"
            )
        for name in self._called[node.index]:
            self._variable(name)

    def _variable(self, name: str) -> Variable:
        if self._variables is None:
            self._variables = find_variables(self._graph)
        variable = self._variables.get(name)
        reason = "no node assigns to it" if variable is None else variable.reason
        if variable is None or reason:
            raise Unsupported(f"the GPU cannot keep the variable {name!r}: {reason}")
        return variable

    def _inside(self, node: Node) -> set[str]:
        """The variables that the subgraphs of a node use, and those that they call."""
        return {
            _name(inner)
            for index in called_by(self._graph, [node])
            for inner in self._graph.subgraphs[index].nodes
            if inner.op == HANDLE
        }


def _name(handle: Node) -> str:
    """The name of the variable of a VAR_HANDLE."""
    if handle.options is None:
        return ""
    return "/".join(part for slot in (0, 1) if (part := handle.options.string(slot)))


def _calls_once(node: Node) -> bool:
    return node.op == CALL_ONCE and bool(node.subgraphs)
