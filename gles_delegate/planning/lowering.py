"""Graph to lowered nodes: the steps that compute each node, or why the GPU cannot."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from gles_delegate import ops
from gles_delegate.dispatch import COMPLEX, Alias, Call, Define, Dispatch, Shape, Step
from gles_delegate.errors import ModelError, UnsupportedModelError
from gles_delegate.limits import Limits
from gles_delegate.model.graph import Array, Graph, Node, Quantization, Tensor
from gles_delegate.model.schema import BUILTIN_OPERATORS
from gles_delegate.ops.control_flow import INLINED
from gles_delegate.ops.lib.registry import op_of
from gles_delegate.ops.variables import CALL_ONCE
from gles_delegate.planning.folding import fold, folded, set_constants
from gles_delegate.planning.inlining import Inliner, given_tensors
from gles_delegate.planning.variables import USERS, UseCounter, Uses
from gles_delegate.report import list_nodes

MOST_DECIDING = 16
"""Elements of an input whose value may give sizes: each value is planned for by itself."""
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Lowered:
    """A graph whose nodes were lowered one by one.

    Attributes:
        graph: With folded constants. The tensors of its subgraphs and those that stand for
            variables are past the end of its own; nodes have the latter as inputs.
        shapes: The shape of every tensor, by shape inference from the inputs.
        steps: By node index, the steps of each node that the GPU can run.
        reasons: By node index, why it cannot run the others.
        uses: Which nodes use which variables.
        values: By tensor index, the inputs that are constants of the graph.
        parameters: The tensors that others need as constants, and a run computes; and by which
            node each is needed.
    """

    graph: Graph
    shapes: Mapping[int, Shape]
    steps: Mapping[int, tuple[Step, ...]] = field(repr=False)
    reasons: Mapping[int, str]
    uses: Uses
    values: Mapping[int, Array] = field(default_factory=dict)
    parameters: Mapping[int, Node] = field(default_factory=dict)


def lower_graph(
    graph: Graph,
    limits: Limits,
    given_shapes: Mapping[int, Shape] | None = None,
    quantized: bool = True,
    only: Collection[int] | None = None,
    choices: Mapping[int, int] | None = None,
    values: Mapping[int, Array] | None = None,
) -> Lowered:
    """Lower every node, in order, for tensors of the given shapes (the model's by default).

    Args:
        quantized: Run nodes with 8-bit tensors on the GPU.
        only: Lower these nodes and no others.
        choices: By node index, which way to choose register tiles; see `ops.lib.tiles`.
        values: By tensor index, what inputs hold that are to be constants.

    Raises:
        ModelError: The model is damaged, or its nodes wait for each other.
    """
    for tensor in (graph.tensors[index] for index in graph.inputs):
        if tensor.is_constant:
            raise ModelError(
                f"damaged model: its input, tensor {tensor.index}, has the data of a constant; "
                "expected none"
            )
    given = given_tensors(graph)
    tensors, nodes = list(graph.tensors), list(graph.nodes)
    inliner, counter = Inliner(graph, tensors), UseCounter(graph, tensors)
    own = graph.nodes
    graph = replace(graph, tensors=tensors)  # sees what is added and folded
    values = values or {}
    for index, value in values.items():
        tensors[index] = folded(tensors[index], value)
    shapes = {tensor.index: tensor.shape for tensor in graph.tensors} | dict(given_shapes or {})
    # For other shapes than the model's, no more is known of what the other nodes make.
    sized = set(shapes) if only is None else given | set(given_shapes or {})
    unsized: set[int] = set()
    parameters: dict[int, Node] = {}
    steps: dict[int, tuple[Step, ...]] = {}
    reasons: dict[int, str] = {}
    pending = deque(graph.in_order)
    while pending:
        node = pending.popleft()
        counter.note(node)
        is_inner = node is not own[node.index]
        for tensor in tensors[len(shapes) :]:
            shapes[tensor.index] = tensor.shape
            if only is None or tensor.is_constant or tensor.is_variable:
                sized.add(tensor.index)
        choice = (choices or {}).get(node.index, 0)
        view = ops.NodeView(graph, node, shapes, limits, quantized, choice)
        results = fold(view, sized.__contains__)
        if results is not None:
            set_constants(tensors, view, results)
            shapes |= {i: tensors[i].shape for i in node.outputs}
            steps.setdefault(node.index, ())
            continue
        wanted = only is None or node.index in only
        if not wanted and node.op not in INLINED:
            continue
        late = unsized.intersection(node.inputs)
        try:
            if late:
                raise ops.Unsupported(f"tensor {min(late)} has a size known only at run time")
            if node.op in INLINED:
                pending.extendleft(reversed(inliner.expand(node)))
                continue
            if node.op in USERS:
                variable = counter.place(node)
                shapes[variable] = tensors[variable].shape
                sized.add(variable)
                before = nodes[node.index]
                nodes[node.index] = replace(before, inputs=(*before.inputs, variable))
                view = replace(view, node=replace(node, inputs=(*node.inputs, variable)))
            if node.op == CALL_ONCE:
                counter.check_call(node)
            if op_of(node.op).is_planned:
                which = [i for i, t in enumerate(node.inputs) if not tensors[t].is_constant]
                raise ops.RunTimeParameter("its numbers are computed at run time", *which)
            view = _with_scaled_biases(view, tensors)
            lowered = _lowered(view)
            _check_types(view)
            _check_limits(lowered, limits)
            _check_numbers(lowered)
            if is_inner and any(step.output.tensor in node.inputs for step in lowered):
                raise ops.Unsupported("it assigns to an input; expected a variable")
        except ops.Unsupported as error:
            named = is_inner and node.op in BUILTIN_OPERATORS
            reason = f"{node.op} of its subgraph: {error}" if named else str(error)
            if wanted:
                reasons.setdefault(node.index, reason)
            if isinstance(error, ops.RunTimeParameter):
                parameters |= {node.inputs[i]: node for i in error.inputs}
            if late or _is_sized_by_data(graph, node, error):
                unsized.update(node.outputs)
                sized.difference_update(node.outputs)
            continue
        steps[node.index] = (*steps.get(node.index, ()), *lowered)
        for step in lowered:
            shape = step.output.shape
            if step.output.part in ("", COMPLEX):
                shapes[step.output.tensor] = shape[1:] if step.output.part else shape
                sized.add(step.output.tensor)
    steps = {index: found for index, found in steps.items() if index not in reasons}
    graph = replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))
    return Lowered(graph, shapes, steps, reasons, counter.uses, values, parameters)


class Lowerings:
    """A graph lowered on demand, for any shapes of its inputs.

    Args:
        quantized: Run nodes with 8-bit tensors on the GPU.

    Attributes:
        default: Every node, for the model's own shapes. Where values of small inputs give sizes
            of tensors, they are constants of it, with examples as values.
    """

    def __init__(self, graph: Graph, limits: Limits, quantized: bool = True) -> None:
        self.graph = graph
        self._limits = limits
        self._quantized = quantized
        self.default = first = self.lower({})
        while found := _examples(self.default):
            self.default = self.lower({}, values={**self.default.values, **found})
        if len(self.default.reasons) >= len(first.reasons):
            self.default = first

    @property
    def deciding(self) -> Collection[int]:
        """The inputs whose values give sizes."""
        return self.default.values.keys()

    def lower(
        self,
        shapes: Mapping[int, Shape],
        only: Collection[int] | None = None,
        choices: Mapping[int, int] | None = None,
        values: Mapping[int, Array] | None = None,
    ) -> Lowered:
        """The graph lowered for tensors of these shapes; see `lower_graph`."""
        return lower_graph(
            *(self.graph, self._limits, shapes, self._quantized, only, choices, values)
        )

    def at(
        self,
        shapes: Mapping[int, Shape],
        nodes: Collection[int],
        values: Mapping[int, Array] | None = None,
    ) -> Lowered:
        """The nodes `nodes`, and perhaps others, lowered for these shapes.

        Args:
            values: Those of the inputs `deciding`.

        Raises:
            UnsupportedModelError: One of them cannot run with these shapes and values.
        """
        known = self.default.shapes
        if not values and all(known[index] == shape for index, shape in shapes.items()):
            return self.default
        lowered = self.lower(shapes, nodes, values=values)
        if lowered.reasons:
            what = "cannot run on the GPU with the present shapes" + (
                f" and values of inputs {sorted(values)}" if values else " of inputs"
            )
            raise unsupported(self.graph, lowered.reasons, what)
        return lowered


def unsupported(graph: Graph, reasons: Mapping[int, str], what: str) -> UnsupportedModelError:
    """The error that names nodes and the reason of each."""
    nodes = [(index, graph.nodes[index].op, why) for index, why in sorted(reasons.items())]
    where = f"nodes of subgraph {graph.index}" if graph.index else "nodes"
    message = f"{len(nodes)} of {len(graph.nodes)} {where} {what}:\n{list_nodes(nodes)}"
    return UnsupportedModelError(message, nodes)


def is_folded(graph: Graph, node: Node) -> bool:
    """Whether the node's results are constants of a folded graph."""
    return bool(node.outputs) and all(graph.tensors[i].is_constant for i in node.outputs)


def _examples(lowered: Lowered) -> dict[int, Array]:
    """The inputs whose values give what some nodes need as constants, with such values."""
    graph = lowered.graph
    # For each tensor that is made of constants, shapes and small inputs alone: these inputs.
    behind: dict[int, set[int]] = {-1: set()}
    for tensor in graph.tensors:
        is_small = tensor.type.array is not None and prod(tensor.shape) <= MOST_DECIDING
        if tensor.is_constant:
            behind[tensor.index] = set()
        elif tensor.index in graph.inputs and is_small:
            behind[tensor.index] = {tensor.index}
    for node in graph.in_order if lowered.parameters else ():
        if op_of(node.op).folds_shapes:
            made: set[int] = set()
        elif node.op not in USERS and behind.keys() >= {*node.inputs}:
            made = set().union(*(behind[index] for index in node.inputs))
        else:
            continue
        for index in node.outputs:
            behind.setdefault(index, made)
    found = set().union(*(behind.get(index, ()) for index in lowered.parameters))
    return {index: _example(lowered, index) for index in found}


def _example(lowered: Lowered, index: int) -> Array:
    """A value of an input that gives sizes."""
    ones = np.ones(lowered.shapes[index], lowered.graph.tensors[index].dtype)
    node = lowered.parameters.get(index)
    if node is None or ones.ndim != 1:
        return ones
    make = op_of(node.op).example
    if make is None:
        return ones
    stored = lowered.graph.tensors[node.outputs[0]].shape
    example = make(lowered.shapes[node.inputs[0]], ones.size, stored)
    return np.array(example, ones.dtype) if len(example) == ones.size else ones


def _is_sized_by_data(graph: Graph, node: Node, error: ops.Unsupported) -> bool:
    """Whether the output sizes of an unsupported node depend on data."""
    return isinstance(error, ops.RunTimeParameter) or any(
        i < len(node.inputs) and not graph.tensors[node.inputs[i]].is_constant
        for i in op_of(node.op).sized_by
    )


def _with_scaled_biases(view: ops.NodeView, tensors: list[Tensor]) -> ops.NodeView:
    """The node with biases that have the scale of its products, which is what LiteRT adds them to.

    Converters let layers share biases of equal integers, so the scale is that of one of them.
    """
    positions = op_of(view.op).biases
    if positions is None or not all(map(view.has_input, positions)):
        return view
    source, weights, biases = (tensors[view.inputs[i]] for i in positions)
    is_sum = source.is_quantized and weights.is_quantized and biases.dtype in ("int32", "int64")
    if not (is_sum and biases.is_constant and len(source.quantization.scales) == 1):
        return view
    scales = np.multiply(source.quantization.scales, weights.quantization.scales, dtype=np.float64)
    found = biases.quantization.scales
    if found and np.allclose(found, scales, 1e-6, 0) and not any(biases.quantization.zero_points):
        return view
    scaled = replace(biases, index=len(tensors), quantization=Quantization(tuple(scales.tolist())))
    tensors.append(scaled)
    inputs = list(view.inputs)
    inputs[positions[2]] = scaled.index
    return replace(view, node=replace(view.node, inputs=tuple(inputs)))


def _lowered(node: ops.NodeView) -> list[Step]:
    """The steps of a node.

    Raises:
        Unsupported: The node cannot run, or is so odd that its lowering failed.
        ModelError: The model's bytes are damaged.
    """
    try:
        return [_rounded(step, node.graph) for step in ops.lower(node)]
    except ModelError:
        raise
    except (ArithmeticError, LookupError, ValueError) as error:
        shapes = [list(node.shapes[i]) for i in node.inputs if i >= 0]
        raise ops.Unsupported(
            f"inputs of shapes {shapes} and {len(node.outputs)} outputs, of which {node.op} cannot "
            f"be lowered ({type(error).__name__}: {error}); expected those of a converter"
        ) from error


def _rounded(step: Step, graph: Graph) -> Step:
    """Append the rounding of the output's type to the epilogue, if it is none of the GPU's."""
    tensor = graph.tensors[step.output.tensor]
    if isinstance(step, Alias) or step.output.part:
        return step
    if tensor.dtype == "float16":
        return replace(step, epilogue=(*step.epilogue, Call("CAST_TO_FLOAT16")))
    if not tensor.is_quantized:
        return step
    low, high = tensor.limits
    scale, zero = tensor.quantization.pair
    rounding = Call("QUANTIZED", (scale, float(low - zero), float(high - zero)))
    return replace(step, epilogue=(*step.epilogue, rounding))


def _check_types(node: ops.NodeView) -> None:
    """Raise `Unsupported` if real numbers of several types go through a node that converts none.

    LiteRT's kernels go by the type of one tensor, and take the bytes of the others for that.
    """
    if op_of(node.op).checks_types or node.op not in BUILTIN_OPERATORS:
        return
    indices = [i for i in (*node.inputs, *node.outputs) if i >= 0]
    tensors = [t for i in indices if not (t := node.graph.tensors[i]).is_constant]
    types = sorted({tensor.dtype for tensor in tensors if tensor.lanes == "float"})
    if len(types) > 1:
        raise ops.Unsupported(f"real numbers of the types {' and '.join(types)}; expected one")


def _check_limits(steps: list[Step], limits: Limits) -> None:
    """Raise `Unsupported` where a dispatch exceeds the device."""
    for step in steps:
        if not isinstance(step, Dispatch):
            continue
        for operand in (*step.reads, step.output):
            if limits.is_large(operand.nbytes) and operand.texels > limits.large_texels:
                most = max(limits.block_bytes, 16 * limits.large_texels)
                raise ops.Unsupported(
                    f"a tensor of shape {list(operand.shape)} needs {operand.nbytes} bytes; the "
                    f"device's shaders reach {most} of one"
                )
        most_reads = limits.reads_for(step.output.nbytes)
        if len(step.reads) > most_reads:
            raise ops.Unsupported(
                f"an output of {step.output.nbytes} bytes of {len(step.reads)} inputs; the device "
                f"reads at most {most_reads} for one so large"
            )
        groups = step.grid.within(limits.groups).groups
        if any(n > most for n, most in zip(groups, limits.groups, strict=True)):
            raise ops.Unsupported(
                f"{list(groups)} work groups; the device allows {list(limits.groups)}"
            )
        if step.passes > limits.loop_passes:
            raise ops.Unsupported(
                f"{step.passes} passes through the loops of {step.shader}.glsl; the device ends "
                f"them after {limits.loop_passes}"
            )


def _check_numbers(steps: list[Step]) -> None:
    """Raise `Unsupported` where a shader would be given a number that no float32 holds.

    GLSL ES has no literal for infinity or NaN.
    """
    for step in steps:
        if not isinstance(step, Dispatch):
            continue
        numbers: list[tuple[str, Define]] = [*step.defines.items()]
        numbers += [(f"a parameter of {c.function}", n) for c in step.epilogue for n in c.args]
        for name, number in numbers:
            if isinstance(number, float) and not abs(number) <= LARGEST:
                raise ops.Unsupported(f"{name} is {number}; expected a finite float32")
