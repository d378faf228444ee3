"""Names of dispatches, programs and buffers, for graphics debuggers and profiles."""

from __future__ import annotations

from collections.abc import Sequence

from gles_delegate.model.graph import Graph
from gles_delegate.planning.plan import Plan
from gles_delegate.shaders.dispatch import Const, Dispatch

_MAX_NODES = 8


def name_dispatch(dispatch: Dispatch, graph: Graph) -> str:
    """Its nodes and the tensor it computes: "12 CONV_2D + 13 ADD MobilenetV1/Conv2d_0"."""
    nodes = sorted({dispatch.node, *dispatch.fused} - {-1})
    ops = " + ".join(f"{index} {graph.nodes[index].op}" for index in nodes[:_MAX_NODES])
    more = f" and {len(nodes) - _MAX_NODES} more" if len(nodes) > _MAX_NODES else ""
    return f"{ops or dispatch.shader}{more} {name_tensor(dispatch.output.tensor, graph)}"


def name_program(names: Sequence[str], file: str) -> str:
    """A program's file, and the names of the dispatches that run it."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{file}: {names[0]}{more}"


def name_constant(constant: Const, graph: Graph) -> str:
    """The tensors it is packed from."""
    names = ", ".join(name_tensor(index, graph) for index in constant.tensors if index >= 0)
    return f"{constant.pack.__name__}: {names}"


def name_buffer(buffer: int, plan: Plan, graph: Graph) -> str:
    """The tensor that has the buffer to itself, or "arena"."""
    owner = plan.owners.get(buffer)
    return "arena" if owner is None else name_tensor(owner.tensor, graph)


def name_tensor(index: int, graph: Graph) -> str:
    """Its name in the file, or its index; all inputs of the session have one name."""
    return (graph.tensors[index].name or f"tensor {index}") if index >= 0 else "session input"
