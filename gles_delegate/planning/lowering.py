"""Graph to lowered nodes: the steps that compute each node, or why the GPU cannot."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod

import numpy as np

from gles_delegate import ops
from gles_delegate.device.limits import Limits
from gles_delegate.errors import ModelError, UnsupportedModelError
from gles_delegate.model.graph import Array, Graph, Node, Quantization, Tensor
from gles_delegate.ops.lib.registry import op_of
from gles_delegate.ops.planned import INLINED, WHILE
from gles_delegate.ops.tensor_lists import with_lists
from gles_delegate.ops.variables import CALL_ONCE
from gles_delegate.planning.cells import EVERY_CELL, EnclosingGraph
from gles_delegate.planning.checks import checked_steps
from gles_delegate.planning.folding import Folds, fold, folded, require_foldable
from gles_delegate.planning.inlining import Inliner, initial_tensors
from gles_delegate.planning.unrolled import UnrolledLayer, UnrolledLayers, in_order
from gles_delegate.planning.variables import USERS, UseCounter, Uses
from gles_delegate.report import list_nodes
from gles_delegate.shaders.dispatch import Shape, Step

MAX_DECIDING = 16
"""Maximum elements of an input whose values may give sizes: each value needs its own plan."""


@dataclass(frozen=True)
class Lowered:
    """A graph whose nodes were lowered one by one.

    Attributes:
        graph: With folded constants. The tensors of its subgraphs and those that stand for
            variables follow its own tensors; nodes have the latter as inputs.
        shapes: The shape of every tensor, by shape inference from the inputs.
        steps: By node index, the steps of each node that the GPU can run.
        reasons: By node index, why the GPU cannot run the others.
        unfit: By node index, why nodes without steps need other sizes than the file's, which leaves
            sizes open. LiteRT refuses these, too: other ones will be given.
        uses: Which nodes use which variables.
        values: By tensor index, the inputs that are constants of the graph.
        parameters: Tensors that a run computes but that must be constants, each with a node that
            needs it.
        unrolled: By node index, why a WHILE is not one recurrent layer.
        layers: Recurrent layers that were found among several nodes.
        origins: The graph's tensors whose shapes decide folded constants, by these.
    """

    graph: Graph
    shapes: Mapping[int, Shape]
    steps: Mapping[int, tuple[Step, ...]] = field(repr=False)
    reasons: Mapping[int, str]
    uses: Uses
    values: Mapping[int, Array] = field(default_factory=dict)
    parameters: Mapping[int, Node] = field(default_factory=dict)
    unrolled: Mapping[int, str] = field(default_factory=dict)
    layers: Sequence[UnrolledLayer] = ()
    origins: Mapping[int, Set[int]] = field(default_factory=dict)
    unfit: Mapping[int, str] = field(default_factory=dict)

    def chosen_steps(self, wanted: Set[int]) -> list[Step]:
        """The steps of nodes, with layers for the nodes in which they were found."""
        nodes: Sequence[Node] = [node for node in self.graph.in_order if node.index in wanted]
        layers = {id(x.node): x for x in self.layers if x.members <= wanted}
        if layers:
            nodes = in_order(nodes, [*layers.values()], self.graph)
        return [
            step
            for node in nodes
            for step in (layers[id(node)].steps if id(node) in layers else self.steps[node.index])
        ]


def lower_graph(
    graph: Graph,
    limits: Limits,
    shapes: Mapping[int, Shape] | None = None,
    only: Collection[int] | None = None,
    values: Mapping[int, Array] | None = None,
    quantized: bool = True,
    folds: Folds | None = None,
) -> Lowered:
    """Lower every node, in order, for tensors of these shapes (by default, the model's).

    Args:
        only: Lower only these nodes.
        values: By tensor index, the values of inputs that become constants.
        quantized: Run nodes with 8-bit tensors on the GPU.
        folds: Of earlier calls for this graph, with the same `limits` and `quantized`.
    """
    folds = folds or Folds()
    return _Lowerer(graph, limits, shapes or {}, quantized, only, values or {}, folds).run()


class _Shapes(dict[int, Shape]):
    """The shapes that are known, by tensor index; of other tensors, the one in the file."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        super().__init__()
        self._tensors = tensors

    def __missing__(self, index: int) -> Shape:
        return self._tensors[index].shape


@dataclass
class _Lowerer:
    """Lowers the nodes of a graph in order; see `lower_graph`.

    Inlining, variables and biases append tensors to `_tensors`, which `_graph` shares.
    """

    graph: Graph
    limits: Limits
    shapes: Mapping[int, Shape]
    quantized: bool
    only: Collection[int] | None
    values: Mapping[int, Array]
    folds: Folds

    def __post_init__(self) -> None:
        graph, values = self.graph, self.values
        constants = [index for index in graph.inputs if graph.tensors[index].is_constant]
        if constants:
            raise ModelError(
                f"damaged model: its input, tensor {constants[0]}, has the data of a constant; "
                "expected none"
            )
        self._examples = {*values}  # and constants that depend on these
        self._own = graph.nodes
        self._nodes = list(graph.nodes)
        real = with_lists(graph)
        self._tensors = list(real.tensors)
        self._inliner = Inliner(real, self._tensors)
        self._counter = UseCounter(graph, self._tensors)
        for index, value in values.items():
            self._tensors[index] = folded(self._tensors[index], value)
        self._graph = replace(real, tensors=self._tensors)
        self._shown = {i for i in graph.outputs if graph.tensors[i].is_variable}
        self._shapes = _Shapes(self._tensors)
        # For other shapes than the model's, sizes of results of nodes outside `only` are unknown.
        known = initial_tensors(graph) if self.only is not None else range(len(self._tensors))
        self._shapes |= {i: self._tensors[i].shape for i in known} | dict(self.shapes)
        self._noted = len(self._tensors)
        # The sizes in the file may stand for others.
        signatures = (graph.tensors[i].shape_signature or () for i in graph.inputs)
        is_open = any(size < 0 for sizes in signatures for size in sizes)
        self._is_open = is_open and self.only is None and not self.shapes
        self._unsized: set[int] = set()
        self._pending = deque(graph.in_order)
        self._steps: dict[int, tuple[Step, ...]] = {}
        self._reasons: dict[int, str] = {}
        self._unfit: dict[int, str] = {}
        self._parameters: dict[int, Node] = {}
        self._loops: set[tuple[int, ...]] = set()
        self._unrolled: dict[int, str] = {}
        self._origins: dict[int, Set[int]] = {}

    def run(self) -> Lowered:
        while self._pending:
            node = self._pending.popleft()
            self._counter.note(node)
            self._note_added_tensors()
            try:
                _require_dense(node, self._tensors)
                if self._fold(node) or not (self._is_wanted(node) or node.op in INLINED):
                    continue
                if late := self._unsized.intersection(node.inputs):
                    raise ops.Unsupported(f"tensor {min(late)} has a size known only at run time")
                if node.op in INLINED:
                    self._pending.extendleft(reversed(self._expanded(node)))
                else:
                    self._keep(node, self._lower(node))
            except ops.Unsupported as error:
                self._refuse(node, error)
        layers = self._unrolled_layers()
        unfit = {i: why for i, why in self._unfit.items() if i not in self._reasons}
        steps = {i: steps for i, steps in self._steps.items() if i not in self._reasons}
        steps |= dict.fromkeys(unfit, ())
        graph = replace(self._graph, tensors=tuple(self._tensors), nodes=tuple(self._nodes))
        uses, values, parameters = self._counter.uses, self.values, self._parameters
        shapes = {tensor.index: self._shapes[tensor.index] for tensor in self._tensors}
        return Lowered(
            graph, shapes, steps, self._reasons, uses, values, parameters, self._unrolled,
            tuple(layers), self._origins, unfit,
        )  # fmt: skip

    def _unrolled_layers(self) -> list[UnrolledLayer]:
        """The recurrent layers among the nodes, unless variables need the nodes' own order."""
        if self._counter.uses.tensors or any(t.is_variable for t in self._tensors):
            return []
        if not {node.op for node in self._graph.nodes} >= EVERY_CELL:
            return []
        around = EnclosingGraph((), self._tensors, self._shapes, lambda _, tensor: tensor.index)
        layers: list[UnrolledLayer] = []
        for layer, nodes in UnrolledLayers(self._graph, around).found():
            refused = self._reasons.keys() | self._unfit.keys()
            is_lowered = layer.members <= self._steps.keys() - refused
            both = [*layers, layer]
            if not is_lowered or not in_order(self._graph.in_order, both, self._graph):
                continue
            steps: list[Step] = []
            with suppress(ops.Unsupported):
                for node in nodes:
                    self._note_added_tensors()
                    steps += self._lower(node)
                layers.append(replace(layer, steps=steps))
        return layers

    def _expanded(self, node: Node) -> list[Node]:
        if node.op != WHILE or node.subgraphs in self._loops or not self._is_wanted(node):
            return self._inliner.expand(node, self._shapes)
        try:
            layer, *results = self._inliner.layer(node, self._shapes)
            self._note_added_tensors()
            self._keep(layer, self._lower(layer))
            return results
        except ops.Unsupported as error:
            self._loops.add(node.subgraphs)
            self._unrolled.setdefault(node.index, str(error))
            return self._inliner.expand(node, self._shapes)

    def _view(self, node: Node) -> ops.NodeView:
        return ops.NodeView(self._graph, node, self._shapes, self.limits, self.quantized)

    def _is_wanted(self, node: Node) -> bool:
        return self.only is None or node.index in self.only

    def _is_inner(self, node: Node) -> bool:
        return node is not self._own[node.index]

    def _note_added_tensors(self) -> None:
        for tensor in self._tensors[self._noted :]:
            if self.only is None or tensor.is_constant or tensor.is_variable:
                self._shapes[tensor.index] = tensor.shape
        self._noted = len(self._tensors)

    def _fold(self, node: Node) -> bool:
        """Replace the results of a node that depends only on constants and shapes by constants."""
        make = fold if self._is_inner(node) else self.folds.fold
        results = make(self._view(node), self._shapes.__contains__)
        if results is None:
            return False
        for result in results:
            self._tensors[result.index] = result
        # Whose shapes decide the results; hosts know only the graph's own tensors.
        inputs = [i for i in self._own[node.index].inputs if i >= 0]
        known = ({i} for i in inputs if not self._tensors[i].is_constant)
        more = (self._origins[i] for i in inputs if i in self._origins)
        self._origins |= dict.fromkeys(node.outputs, frozenset().union(*known, *more))
        if not self._examples.isdisjoint(node.inputs) and not op_of(node.op).folds_shapes:
            self._examples.update(node.outputs)
        self._shapes |= {i: self._tensors[i].shape for i in node.outputs}
        self._steps.setdefault(node.index, ())
        return True

    def _lower(self, node: Node) -> list[Step]:
        view = self._view(node)
        if node.op in USERS:
            # Its variable's tensor is its last input.
            variable = self._counter.variable_of(node)
            self._shapes[variable] = self._tensors[variable].shape
            own = self._nodes[node.index]
            self._nodes[node.index] = replace(own, inputs=(*own.inputs, variable))
            view = replace(view, node=replace(node, inputs=(*node.inputs, variable)))
        if node.op == CALL_ONCE:
            self._counter.check_call(node)
        self._require_constants(view)
        steps = checked_steps(_with_scaled_biases(view, self._tensors))
        if self._is_inner(node) and any(step.output.tensor in node.inputs for step in steps):
            raise ops.Unsupported("it assigns to an input; expected a variable")
        # LiteRT's host returns its own array for an output that no node writes.
        if shown := self._shown.intersection(node.inputs):
            raise ops.Unsupported(f"its variable, tensor {min(shown)}, is an output of the model")
        return steps

    def _require_constants(self, view: ops.NodeView) -> None:
        """Raise `RunTimeParameter` if inputs must be constant whose lowering does not say so."""
        late = [i for i, t in enumerate(view.inputs) if not self._tensors[t].is_constant]
        if op_of(view.op).is_planned:
            if not late:
                require_foldable(view)
            raise ops.RunTimeParameter("its numbers are computed at run time", *late)
        sizing = _sizing(view.node)
        late = [i for i in late if i in sizing]
        if late and not self._examples.isdisjoint(sizing.values()):
            raise ops.RunTimeParameter("its sizes are computed at run time", *late)

    def _keep(self, node: Node, steps: Sequence[Step]) -> None:
        self._steps[node.index] = (*self._steps.get(node.index, ()), *steps)
        for output in (step.output for step in steps):
            if output.tensor_shape is not None:
                self._shapes[output.tensor] = output.tensor_shape

    def _refuse(self, node: Node, error: ops.Unsupported) -> None:
        is_named = self._is_inner(node) and not node.op.startswith("(")
        reason = f"{node.op} of its subgraph: {error}" if is_named else str(error)
        may_fit = self._is_open and isinstance(error, ops.UnfitSizes)
        if self._is_wanted(node):
            (self._unfit if may_fit else self._reasons).setdefault(node.index, reason)
        if may_fit:
            return  # its outputs have the sizes in the file, like its inputs
        if isinstance(error, ops.RunTimeParameter):
            self._parameters |= {node.inputs[i]: node for i in error.inputs}
        if self._unsized.intersection(node.inputs) or self._is_sized_by_data(node, error):
            self._unsized.update(node.outputs)
            for index in node.outputs:
                self._shapes.pop(index, None)

    def _is_sized_by_data(self, node: Node, error: ops.Unsupported) -> bool:
        """Whether data, or sizes that are not those in the file, decide those of its outputs."""
        return (
            isinstance(error, ops.RunTimeParameter)
            or not self._examples.isdisjoint(node.inputs)
            or any(not self._tensors[i].is_constant for i in _sizing(node).values())
            or (
                self.only is None
                and any(self._shapes[i] != self._tensors[i].shape for i in node.inputs if i >= 0)
            )
        )


class Lowerings:
    """A graph lowered on demand, for any shapes of its inputs.

    Args:
        quantized: Run nodes with 8-bit tensors on the GPU.

    Attributes:
        lower: `lower_graph` for this graph and device.
        default: Every node, for the model's own shapes of inputs. Small inputs whose values give
            sizes of tensors are constants in it, with example values.
    """

    def __init__(self, graph: Graph, limits: Limits, quantized: bool = True) -> None:
        self.graph = graph
        self._quantized = quantized
        self.lower = partial(lower_graph, graph, limits, quantized=quantized, folds=Folds())
        first = self.default = self.lower()
        while examples := _examples(self.default):
            self.default = self.lower(values={**self.default.values, **examples})
        self.default = min(first, self.default, key=lambda lowered: len(lowered.reasons))

    def with_limits(self, limits: Limits) -> Lowerings:
        """The same for a device with other limits."""
        return Lowerings(self.graph, limits, self._quantized)

    @property
    def shape_inputs(self) -> Collection[int]:
        """The inputs whose values decide sizes of tensors."""
        return self.default.values.keys()


def unsupported(graph: Graph, reasons: Mapping[int, str], problem: str) -> UnsupportedModelError:
    """The error that lists nodes with their reasons."""
    nodes = [(index, graph.nodes[index].op, why) for index, why in sorted(reasons.items())]
    where = f"nodes of subgraph {graph.index}" if graph.index else "nodes"
    message = f"{len(nodes)} of {len(graph.nodes)} {where} {problem}:\n{list_nodes(nodes)}"
    return UnsupportedModelError(message, nodes)


def is_folded(graph: Graph, node: Node) -> bool:
    """Whether the node's results are constants of a folded graph."""
    return bool(node.outputs) and all(graph.tensors[i].is_constant for i in node.outputs)


def _examples(lowered: Lowered) -> dict[int, Array]:
    graph = lowered.graph
    # The small inputs that decide each tensor that depends on nothing else but constants and shapes
    deciding: dict[int, set[int]] = {-1: set()}
    for tensor in graph.tensors:
        is_small = tensor.type.array is not None and prod(tensor.shape) <= MAX_DECIDING
        if tensor.is_constant:
            deciding[tensor.index] = set()
        elif tensor.index in graph.inputs and is_small:
            deciding[tensor.index] = {tensor.index}
    for node in graph.in_order if lowered.parameters else ():
        if op_of(node.op).folds_shapes:
            sources: set[int] = set()
        elif node.op not in USERS and deciding.keys() >= {*node.inputs}:
            sources = set().union(*(deciding[index] for index in node.inputs))
        else:
            continue
        for index in node.outputs:
            deciding.setdefault(index, sources)
    inputs = set().union(*(deciding.get(index, ()) for index in lowered.parameters))
    return {index: _example(lowered, index) for index in inputs}


def _example(lowered: Lowered, index: int) -> Array:
    ones = np.ones(lowered.shapes[index], lowered.graph.tensors[index].dtype)
    node = lowered.parameters.get(index)
    make = op_of(node.op).example if node else None
    if node is None or make is None or ones.ndim != 1:
        return ones
    stored = lowered.graph.tensors[node.outputs[0]].shape
    example = make(lowered.shapes[node.inputs[0]], ones.size, stored)
    return np.array(example, ones.dtype) if len(example) == ones.size else ones


def _require_dense(node: Node, tensors: Sequence[Tensor]) -> None:
    """Raise `Unsupported` for a sparse constant where LiteRT takes its bytes for all elements."""
    for i, tensor in ((i, tensors[t]) for i, t in enumerate(node.inputs) if t >= 0):
        if tensor.sparsity and tensor.is_constant and i not in op_of(node.op).expands:
            raise ops.Unsupported(f"input {i} is sparse; expected DENSIFY in front of it")


def _sizing(node: Node) -> dict[int, int]:
    """The inputs whose values decide the shapes of a node's outputs: tensors by position."""
    return {i: node.inputs[i] for i in op_of(node.op).sized_by if i < len(node.inputs)}


def _with_scaled_biases(view: ops.NodeView, tensors: list[Tensor]) -> ops.NodeView:
    """The node with biases in the scale of its products, which LiteRT adds them to.

    Converters let layers share biases of equal integers, so their scale is right for one layer.
    """
    positions = op_of(view.op).biases
    if positions is None or not all(map(view.has_input, positions)):
        return view
    source, weights, biases = (tensors[view.inputs[i]] for i in positions)
    is_sum = source.is_quantized and weights.is_quantized and biases.dtype in ("int32", "int64")
    if not (is_sum and biases.is_constant and len(source.quantization.scales) == 1):
        return view
    scales = np.multiply(source.quantization.scales, weights.quantization.scales, dtype=np.float64)
    q = biases.quantization
    if q.scales and np.allclose(q.scales, scales, 1e-6, 0) and not any(q.zero_points):
        return view
    scaled = replace(biases, index=len(tensors), quantization=Quantization(tuple(scales.tolist())))
    tensors.append(scaled)
    inputs = list(view.inputs)
    inputs[positions[2]] = scaled.index
    return replace(view, node=replace(view.node, inputs=tuple(inputs)))
