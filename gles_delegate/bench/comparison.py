"""Comparison of the GPU's results with LiteRT's CPU kernels, by output or by node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from gles_delegate.device.limits import Limits
from gles_delegate.errors import LiteRtError, ModelError
from gles_delegate.hosts.delegate import GpuDelegate
from gles_delegate.hosts.interpreter import Interpreter as GpuInterpreter
from gles_delegate.litert.kernels import litert_cpu, litert_errors, without_notices
from gles_delegate.model.graph import Array, Graph, Node, Signature, Tensor
from gles_delegate.model.reader import ModelFile
from gles_delegate.ops.lib.registry import op_of
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.planning.lowering import MAX_DECIDING, Lowerings
from gles_delegate.runtime.delegation import Delegation
from gles_delegate.runtime.programs import Progress
from gles_delegate.runtime.sanitizer import StrayAccess
from gles_delegate.shaders.dispatch import Shape
from gles_delegate.verification.deviation import allowed_error, largest_error, scale_of

MARGIN = 2
"""A tensor's allowed distance from LiteRT, in distances between LiteRT's two sets of kernels."""

CEILING = 0.25
"""The limit of what `MARGIN` allows, as a share of the tensor's span."""

DYNAMIC_RANGE = 0.02
"""Allowed difference, as a share of the scale, where LiteRT quantizes activations to 8 bits."""


@dataclass(frozen=True)
class Difference:
    """The difference between the GPU's and LiteRT's values of a tensor.

    Attributes:
        node, op: The node that computes it.
        error: The largest difference; in steps for 8-bit tensors.
        scale: The largest finite magnitude in LiteRT's tensor; 1 for integers, and if all are 0.
        allowed: The largest ``error / scale`` that passes.
        apart: The largest difference between XNNPACK's and LiteRT's own kernels; 0 if it was not
            measured because all outputs pass.
        span: The largest distance from zero in LiteRT's tensor, in the units of `error`.
        same_maximum: Whether both have their maximum at the same index (top-1).
        is_rounded: Whether LiteRT quantizes activations to 8 bits, in this node or, for a network's
            output, in any.
    """

    tensor: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    node: int
    op: str
    error: float
    scale: float
    allowed: float
    same_maximum: bool
    span: float
    is_rounded: bool
    apart: float = 0

    @property
    def ceiling(self) -> float:
        """The largest `error` that rounding explains; halves of all numbers are further off."""
        return max(self.allowed * self.scale, CEILING * self.span)

    @property
    def most(self) -> float:
        """The largest `error` that passes."""
        return max(self.allowed * self.scale, min(MARGIN * self.apart, self.ceiling))

    @property
    def passed(self) -> bool:
        return self.error <= self.most


def compare_outputs(
    model: ModelFile,
    feeds: Mapping[int, Array],
    options: GpuDelegateOptions | None = None,
    tolerance: float = 1e-4,
    steps: int = 1,
    progress: Progress | None = None,
) -> list[Difference]:
    """Run a model on the GPU and on LiteRT's CPU, and compare the outputs.

    Signatures of other subgraphs are run too, on random inputs. Rounding accumulates in deep
    networks, especially of 8-bit tensors, and LiteRT's kernels differ from each other, too. So an
    output that differs by more than is allowed is judged by their difference, up to `CEILING`.
    Raises `LiteRtError` if LiteRT does not run the model, and what `Interpreter` raises.

    Args:
        feeds: The inputs by tensor index, in any shape that the model can be resized to.
        tolerance: Allowed difference of real numbers, as a share of their scale.
        steps: Allowed difference of 8-bit numbers.
        progress: See `GpuDelegate`.
    """
    with GpuDelegate(options, progress=progress) as delegate:
        ours = GpuInterpreter(model, experimental_delegates=[delegate])
        return compare_with(ours, model, feeds, tolerance, steps)


def compare_with(
    ours: Any, model: ModelFile, feeds: Mapping[int, Array], tolerance: float, steps: int
) -> list[Difference]:
    """See `compare_outputs`; `ours` is an interpreter with a delegate, ours or LiteRT's."""
    graph = model.graph()
    main = partial(_run, feeds=feeds, outputs=graph.outputs)
    # Subgraphs that apps run, their outputs, and functions that compute these in an interpreter.
    entries: list[tuple[Graph, Sequence[int], Callable[[Any], list[Array]]]]
    entries = [(graph, graph.outputs, main)]
    for signature in graph.signatures:
        if signature.subgraph:
            subgraph = graph.subgraphs[signature.subgraph]
            named = partial(_run_signature, signature=signature, graph=subgraph)
            entries.append((subgraph, tuple(signature.outputs.values()), named))
    differences: list[Difference] = []
    theirs: list[Array] = []
    cpu = litert_cpu(model)
    for subgraph, outputs, run in entries:
        try:
            with litert_errors(model), without_notices():
                expected = run(cpu)
        except LiteRtError:  # XNNPACK does not accept sizes that depend on values
            with litert_errors(model):
                expected = run(litert_cpu(model, builtin=True))
        theirs += expected
        makers = {index: node for node in subgraph.nodes for index in node.outputs}
        is_rounded = any(has_dynamic_range(subgraph, node) for node in subgraph.nodes)
        for index, one, other in zip(outputs, run(ours), expected, strict=True):
            tensor = subgraph.tensors[index]
            node = makers.get(index)
            differences.append(_difference(tensor, node, one, other, tolerance, steps, is_rounded))
    if all(difference.passed for difference in differences):
        return differences
    try:
        plain = litert_cpu(model, builtin=True)
        with litert_errors(model):
            others = [array for *_, run in entries for array in run(plain)]
    except LiteRtError:  # only XNNPACK has some op
        return differences
    return [
        replace(difference, apart=largest_error(one, other))
        for difference, one, other in zip(differences, others, theirs, strict=True)
    ]


def _run(interpreter: Any, feeds: Mapping[int, Array], outputs: Sequence[int]) -> list[Array]:
    prepare(interpreter, feeds)
    interpreter.invoke()
    return [interpreter.get_tensor(index) for index in outputs]


def _run_signature(interpreter: Any, signature: Signature, graph: Graph) -> list[Array]:
    feeds = draw_inputs(graph, signature.inputs.values())
    named = {name: feeds[index] for name, index in signature.inputs.items()}
    results = interpreter.get_signature_runner(signature.key)(**named)
    return [results[name] for name in signature.outputs]


def stray_accesses(
    model: ModelFile, feeds: Mapping[int, Array], options: GpuDelegateOptions | None = None
) -> Iterator[StrayAccess]:
    """Run each dispatch separately, in a delegate's first and final programs; see `Sanitizer`.

    Arguments and errors are as for `compare_outputs`.
    """
    for background in (True, False):
        chosen = replace(options or GpuDelegateOptions(), background_compilation=background)
        with GpuDelegate(chosen) as delegate:
            ours = GpuInterpreter(model, experimental_delegates=[delegate])
            _run(ours, feeds, ())
            yield from delegate.bound.sanitize()


def compare_nodes(
    model: ModelFile,
    feeds: Mapping[int, Array],
    options: GpuDelegateOptions | None = None,
    tolerance: float = 1e-5,
    steps: int = 1,
) -> Iterator[Difference]:
    """Run each of the GPU's nodes on LiteRT's tensors, and compare its results with LiteRT's.

    Arguments and errors are as for `compare_outputs`, except `progress`. LiteRT uses its
    builtin kernels, and XNNPACK only for models with an op that they lack. The indices that
    MaxPoolingWithArgmax2D passes to MaxUnpooling2D differ in LiteRT: only the maxima of the
    former are compared, and the latter is left to `compare_outputs`.
    """

    def run_litert(builtin: bool) -> Any:
        interpreter = litert_cpu(model, builtin, keep=True)
        with litert_errors(model), without_notices():
            _run(interpreter, feeds, ())
        return interpreter

    graph = model.graph()
    try:
        theirs = run_litert(builtin=True)
    except LiteRtError:
        theirs = run_litert(builtin=False)
    details = theirs.get_tensor_details()
    shapes = {d["index"]: tuple(map(int, d["shape"])) for d in details[: len(graph.tensors)]}
    opaque = {
        index
        for node in graph.nodes
        for position, index in enumerate(node.outputs)
        if position in op_of(node.op).opaque_outputs
    }
    options = replace(options or GpuDelegateOptions(), max_delegated_partitions=len(graph.nodes))
    with GpuDelegate(options) as delegate:
        delegation = delegate.bind(graph, keep_all=True).first
        nodes = delegation.report.nodes
        for node in [graph.nodes[n.index] for n in nodes if n.delegated and not n.folded]:
            if opaque.intersection(node.inputs):
                continue
            is_rounded = has_dynamic_range(graph, node)
            for index, result in _run_node(delegation, node, shapes, theirs).items():
                if index not in opaque:
                    tensor = graph.tensors[index]
                    expected = theirs.get_tensor(index)
                    yield _difference(tensor, node, result, expected, tolerance, steps, is_rounded)


def _run_node(
    delegation: Delegation, node: Node, shapes: Mapping[int, Shape], theirs: Any
) -> dict[int, Array]:
    """The outputs of a node on the GPU, from the tensors of an interpreter."""
    segment = delegation.segment([node.index])
    new_shapes = segment.prepare(shapes, {i: theirs.get_tensor(i) for i in segment.shape_inputs})
    prepared = segment.require()
    results = {
        index: np.zeros(new_shapes[index], delegation.graph.tensors[index].dtype)
        for index in prepared.outputs
    }
    segment.invoke({i: theirs.get_tensor(i) for i in prepared.session.inputs}, results)
    delegation.drop(segment)
    return results


def may_be_rounding(graph: Graph, outputs: Sequence[Difference]) -> bool:
    """Whether outputs may differ by rounding that accumulates, so that nodes must be compared:
    nodes compute quantized tensors, or LiteRT's kernels are as far apart.
    """
    # Nodes whose activations LiteRT rounds are not exact enough to judge others.
    within = [each.most if each.is_rounded else each.allowed * each.scale for each in outputs]
    off = [each for each, most in zip(outputs, within, strict=True) if each.error > most]
    if off and all(each.error <= MARGIN * each.apart for each in off):
        return True
    tensors = (graph.tensors[index] for node in graph.nodes for index in node.outputs)
    return bool(off) and any(t.is_quantized and t.type.may_be_steps for t in tensors)


def agreement(outputs: Sequence[Difference], nodes: Sequence[Difference]) -> bool | None:
    """Whether nodes, if there are any, or else outputs agree; None: nothing shows it, as an output
    is too far off, or nodes are off by no more than LiteRT's rounding of activations may explain.
    """
    failed = [each for each in nodes or outputs if not each.passed]
    if any(each.error > each.ceiling or not (nodes and each.is_rounded) for each in failed):
        return False
    return None if failed or (nodes and any(e.error > e.ceiling for e in outputs)) else True


def random_feeds(model: ModelFile, seed: int = 0) -> dict[int, Array]:
    """An array for each input: real numbers in -1 to 1, integers 0 and 1.

    Inputs of 8 and 16 bits get their whole range, and inputs that determine sizes an example.
    Raises `ModelError` if numpy lacks an input's type.
    """
    graph = model.graph()
    return draw_inputs(graph, graph.inputs, seed)


def draw_inputs(graph: Graph, indices: Collection[int], seed: int = 0) -> dict[int, Array]:
    """See `random_feeds`."""
    rng = np.random.default_rng(seed)
    small = any(prod(graph.tensors[index].shape) <= MAX_DECIDING for index in indices)
    examples = Lowerings(graph, Limits()).default.values if small else {}

    def draw(tensor: Tensor) -> Array:
        if tensor.type.array is None or tensor.dtype != np.dtype(tensor.type.array).name:
            raise ModelError(f"no random {tensor.dtype} for input {tensor.index} {tensor.name!r}")
        if tensor.dtype.startswith("float"):
            return rng.uniform(-1, 1, tensor.shape).astype(tensor.dtype)
        low, high = tensor.limits if tensor.type.may_be_steps else (0, 1)
        return rng.integers(low, high, tensor.shape, endpoint=True).astype(tensor.dtype)

    return {index: draw(graph.tensors[index]) for index in indices} | {
        index: example for index, example in examples.items() if index in indices
    }


def _difference(
    tensor: Tensor,
    node: Node | None,
    ours: Array,
    theirs: Array,
    tolerance: float,
    steps: int,
    is_rounded: bool,
) -> Difference:
    if ours.shape != theirs.shape:
        raise LiteRtError(
            f"tensor {tensor.index} has the shape {list(ours.shape)} here, and "
            f"{list(theirs.shape)} in LiteRT"
        )
    if is_rounded:
        tolerance = max(tolerance, DYNAMIC_RANGE)
    is_real = theirs.dtype.kind in "fc"
    zero = (tensor.quantization.zero_points or (0,))[0]
    return Difference(
        tensor.index,
        tensor.name,
        tensor.dtype,
        ours.shape,
        node.index if node else -1,
        node.op if node else "input",
        error=largest_error(ours, theirs),
        scale=scale_of(theirs),
        allowed=allowed_error(theirs, tensor.is_quantized, tolerance, steps),
        same_maximum=bool(ours.size == 0 or np.argmax(ours) == np.argmax(theirs)),
        span=scale_of(theirs) if is_real else largest_error(theirs, np.full_like(theirs, zero)),
        is_rounded=is_rounded,
    )


def has_dynamic_range(graph: Graph, node: Node) -> bool:
    """Whether LiteRT quantizes a node's real inputs, because its weights are quantized."""
    inputs = [graph.tensors[index] for index in node.inputs if index >= 0]
    return any(t.dtype == "float32" and not t.is_constant for t in inputs) and any(
        t.is_constant and t.is_quantized and t.type.bits <= 8 for t in inputs
    )


def prepare(interpreter: Any, feeds: Mapping[int, Array]) -> None:
    """Resize an interpreter, ours or LiteRT's, for arrays by tensor index, and set them."""
    for index, array in feeds.items():
        interpreter.resize_tensor_input(index, array.shape)
    interpreter.allocate_tensors()
    for index, array in feeds.items():
        interpreter.set_tensor(index, array)
