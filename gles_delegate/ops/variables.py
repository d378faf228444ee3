"""Resource variables, which last from one run to the next, and IDENTITY.

Planning gives the tensor that stands for a variable as the last input; see planning/variables.py.
"""

from __future__ import annotations

from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Options
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import View, meaning, moved_output, reshaped, viewed
from gles_delegate.shaders.dispatch import Alias, Operand, Step, Value

HANDLE, READ, ASSIGN = "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"
CALL_ONCE = "CALL_ONCE"
IDENTITY = "(identity)"
"""The op of nodes that planning adds; TFLite has none of that kind."""


@op(HANDLE)
def handle(node: NodeView, options: Options) -> list[Step]:
    if (dtype := node.graph.tensors[node.outputs[0]].dtype) != "resource":
        raise Unsupported(f"output 0 is {dtype}; expected resource")
    return []


@op(CALL_ONCE, has_outputs=False, runs_subgraphs=True)
def nothing(node: NodeView, options: Options) -> list[Step]:
    return []


@op(READ, sized_by=(0,))
def read_variable(node: NodeView, options: Options) -> list[Step]:
    """A copy: nodes may assign to the variable before the result is read."""
    variable = node.input(len(node.inputs) - 1, None)
    output = moved_output(node, variable, variable.shape)
    return [_copy(node, variable, output)]


@op(ASSIGN, has_outputs=False)
def assign_variable(node: NodeView, options: Options) -> list[Step]:
    value, variable = node.input(1, None), node.input(len(node.inputs) - 1, None)
    assert isinstance(variable, Value)
    now, before = (node.graph.tensors[i] for i in (node.inputs[1], variable.tensor))
    if value.shape != variable.shape or meaning(now) != meaning(before):
        raise Unsupported(
            f"a value of {now.dtype} {list(value.shape)} for a variable of {before.dtype} "
            f"{list(variable.shape)}; expected the same type, quantization and shape"
        )
    if isinstance(value, Value):
        return [Alias(node.index, variable, value)]
    copied = Value(variable.tensor, variable.shape, f"value{node.index}", variable.kind)
    return [_copy(node, value, copied), Alias(node.index, variable, copied)]


@op(IDENTITY)
def identity(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0, None)
    return reshaped(node, x, x.shape)


def _copy(node: NodeView, source: Operand, output: Value) -> Step:
    return viewed(node, source, output, View((output.elements,), (1,)))
