"""Resource variables: what VAR_HANDLE names, READ_VARIABLE reads and ASSIGN_VARIABLE assigns to.

They belong to the model: nodes of all its subgraphs share them by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property

from gles_delegate.model.graph import Array, Graph, Node, Tensor
from gles_delegate.ops.lib.node import Unsupported
from gles_delegate.ops.tensor_lists import LIST
from gles_delegate.ops.variables import ASSIGN, CALL_ONCE, HANDLE, READ
from gles_delegate.planning.inlining import called_by

USERS = (READ, ASSIGN)


@dataclass(frozen=True)
class Variable:
    """A resource variable.

    Attributes:
        tensor: The first tensor assigned to it, which has its type and shape.
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
        tensors: Each variable's name, by the index of its tensor.
        users: The nodes that use a variable, which must run together.
        called: The variables that a CALL_ONCE initializes, by its index.
        read_first: The variables that nodes read before they assign to them.
    """

    tensors: Mapping[int, str]
    users: Mapping[str, Set[int]]
    called: Mapping[int, Set[str]]
    read_first: Set[str]


def find_variables(graph: Graph) -> dict[str, Variable]:
    """Every variable of a model to which a node assigns, by its name."""
    nodes = [node for subgraph in graph.subgraphs for node in subgraph.nodes]
    once = {node.subgraphs[0] for node in nodes if node.op == CALL_ONCE and node.subgraphs}
    variables: dict[str, Variable] = {}
    for subgraph in sorted(graph.subgraphs, key=lambda each: each.index not in once):
        handles = {n.outputs[0]: _name(n) for n in subgraph.nodes if n.op == HANDLE}
        for node in subgraph.nodes:
            if node.op != ASSIGN or node.inputs[0] not in handles:
                continue
            name, value = handles[node.inputs[0]], subgraph.tensors[node.inputs[1]]
            if subgraph.index not in once:
                variables.setdefault(name, Variable(value))
            elif name in variables:
                variables[name] = Variable(value, reason="it is initialized more than once")
            elif not value.is_constant:
                variables[name] = Variable(value, reason="its first value is computed")
            else:
                variables[name] = Variable(value, value.data)
    return variables


class UseCounter:
    """Finds the `Uses` of a graph as its nodes are lowered, one after the other.

    Args:
        tensors: The graph's tensors, to which it adds one for each variable.
    """

    def __init__(self, graph: Graph, tensors: list[Tensor]) -> None:
        self._graph = graph
        self._tensors = tensors
        self._lists = {tensor.index for tensor in graph.tensors if tensor.dtype == LIST}
        self._handles: dict[int, str] = {}
        self._variables: Mapping[str, Variable] | None = None
        self._latest: dict[str, int] = {}
        self._assigned: set[str] = set()
        self._variable_tensors: dict[str, int] = {}
        self._users: dict[str, set[int]] = {}
        self._called: dict[int, set[str]] = {}
        self._read_first: set[str] = set()

    @property
    def uses(self) -> Uses:
        """The uses found so far."""
        tensors = {index: name for name, index in self._variable_tensors.items()}
        return Uses(tensors, self._users, self._called, self._read_first)

    def note(self, node: Node) -> None:
        """Record the variables that a node uses, and the one that its result is a handle of."""
        names = {self._handles[i] for i in node.inputs if i in self._handles}
        if node.op == HANDLE and node.outputs:
            name = self._handles[node.outputs[0]] = _name(node)
            names = {name}
        elif node.op == CALL_ONCE:
            self._called[node.index] = self._inside(node)
        elif node.subgraphs:
            names |= self._inside(node)
        # Nodes that share a variable tensor run together: each reads the other's last value.
        subgraph = self._graph.index
        states = {i for i in node.inputs if i >= 0 and self._tensors[i].is_variable}
        # Nodes that share a list, too, which no host could hand over.
        states |= self._lists.intersection((*node.inputs, *node.outputs))
        for name in names | {f"tensor {i} of subgraph {subgraph}" for i in states}:
            self._users.setdefault(name, set()).add(node.index)

    def variable_of(self, node: Node) -> int:
        """The tensor of the variable that a READ_VARIABLE or ASSIGN_VARIABLE names."""
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
        if name not in self._variable_tensors:
            index, value = len(self._tensors), variable.tensor
            self._variable_tensors[name] = index
            made = Tensor(index, name, value.dtype, value.shape, (), value.quantization, True)
            self._tensors.append(made)
        return self._variable_tensors[name]

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
        if not self._named:
            return set()
        called = called_by(self._graph, [node])
        return set().union(*(names for index, names in self._named.items() if index in called))

    @cached_property
    def _named(self) -> Mapping[int, Set[str]]:
        """The variables that each subgraph names which a node of the graph runs."""
        subgraphs = {index: self._graph.subgraphs[index] for index in called_by(self._graph)}
        names = {
            index: {_name(node) for node in subgraph.nodes if node.op == HANDLE}
            for index, subgraph in subgraphs.items()
        }
        return {index: named for index, named in names.items() if named}


def _name(handle: Node) -> str:
    if handle.options is None:
        return ""
    return "/".join(filter(None, map(handle.options.string, (0, 1))))
