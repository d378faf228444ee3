"""A model bound to a delegate: which nodes run on the GPU, and the segments that hosts feed."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np

from gles_delegate.gl.sync import delete_fence
from gles_delegate.model.graph import Array, Graph
from gles_delegate.model.schema import TENSORFLOW
from gles_delegate.planning.inlining import called_by
from gles_delegate.planning.lowering import unsupported
from gles_delegate.planning.partition import Partition
from gles_delegate.planning.rows import rows_are_independent
from gles_delegate.report import DelegationReport, DispatchTime, count, list_nodes
from gles_delegate.runtime.binding import Binding, TextureBinding
from gles_delegate.runtime.invocation import Invocation, QueuedInvocation, not_kept
from gles_delegate.runtime.naming import name_dispatch
from gles_delegate.runtime.segment import Segment, SegmentContext
from gles_delegate.shaders.dispatch import Shape
from gles_delegate.support.closing import in_any_case

log = logging.getLogger("gles_delegate")


class Delegation:
    """A subgraph of a bound model, and its segments that run on the GPU.

    With `keep_all`, `read_result` reads the results of all nodes: the context's graph then has more
    outputs than `graph`.

    Attributes:
        before_binding: A weak reference to what is called before a binding changes.
    """

    def __init__(
        self, graph: Graph, context: SegmentContext, partition: Partition, keep_all: bool = False
    ) -> None:
        self.graph = graph
        self.thread = context.thread
        self.bindings = context.bindings
        self._context = context
        self._partition = partition
        self._keep_all = keep_all
        default = context.lowerings.default
        self._reasons = default.reasons
        self._segments: list[Segment] = []
        self._finished: list[Invocation] = []
        self._latest: deque[dict[int, Array]] = deque(maxlen=2)  # outputs of finished runs
        self.before_binding: Callable[[], Callable[[], None] | None] = lambda: None

    @property
    def report(self) -> DelegationReport:
        """Which nodes of this subgraph run on the GPU."""
        return self._partition.report(self.graph, "float16" if self._context.half else "float32")

    def set_shapes(self, details: Iterable[dict[str, Any]]) -> None:
        """Set tensors' shapes by shape inference, for inputs of the model's own shapes."""
        for each in details:
            shape = self._context.lowerings.default.shapes[each["index"]]
            each["shape"] = np.array(shape, np.int32)

    @property
    def delegated(self) -> list[int]:
        return [index for segment in self._partition.segments for index in segment]

    def require_all(self, why: str) -> None:
        """Raise `UnsupportedModelError`, with `why`, if any node would run on the CPU."""
        # List only the nodes that the GPU cannot run, not those that must follow them to the CPU.
        reasons = self._reasons or self._partition.reasons
        if reasons:
            raise unsupported(self.graph, reasons, f"cannot run on the GPU, and {why}")

    @property
    def needs_tensorflow(self) -> bool:
        """Whether nodes on the CPU, or in subgraphs that these run, are TensorFlow's ops."""
        nodes = [self.graph.nodes[index] for index in self._partition.reasons]
        inner = [self.graph.subgraphs[index].nodes for index in called_by(self.graph, nodes)]
        return any(node.op.startswith(TENSORFLOW) for part in (nodes, *inner) for node in part)

    def warn_of_split(self) -> None:
        """Log a warning that names the nodes on the CPU, if there are any."""
        report = self.report
        if report.not_delegated:
            log.warning(
                "%d of %d nodes run on the GPU in %s; these run on the CPU, and a split graph can "
                "be slower than the CPU alone:\n%s",
                len(report.nodes) - len(report.not_delegated),
                len(report.nodes),
                count(report.segments),
                list_nodes(report.not_delegated),
            )

    def rows_are_independent(self, shapes: Mapping[int, Shape]) -> bool:
        """Whether no row of a batch changes another's results; see `planning.rows`."""
        return rows_are_independent(self._context.lowerings, shapes)

    def segment(self, nodes: Sequence[int]) -> Segment:
        """Make a segment of these nodes; release it with `drop`."""
        segment = Segment(self._context, nodes)
        self._segments.append(segment)
        return segment

    def drop(self, segment: Segment) -> None:
        """Release a segment. Does nothing if it was released before."""
        if segment in self._segments:
            if not self.thread.is_closed:  # else it was freed with the context
                self.thread.run(segment.release)
            self._segments.remove(segment)

    def bind(self, index: int, binding: Binding | None) -> None:
        """Bind a buffer or textures to an input or output; None unbinds it.

        After an error, every segment runs with the old binding. Binding the same textures with
        another region is almost free. Raises `ValueError` if the tensor cannot be bound, or not to
        this object.
        """
        self.thread.gpu.refuse_fork()
        if (
            isinstance(binding, TextureBinding)
            and binding.differs_in_parameters_only(self.bindings.get(index))
            and self.thread.may_call
        ):
            for segment in self._segments:
                segment.set_transform(index, binding)
            self.bindings[index] = binding
            return
        bindings = {i: bound for i, bound in self.bindings.items() if i != index}
        if binding is not None:
            self.require_bindable(index)
            bindings[index] = binding

        keep = self.before_binding()
        if keep is not None:
            keep()

        def bind() -> None:
            # Check and create everything before changing anything.
            prepared = self.prepared
            resolved = [segment.resolve_with(index, binding) for segment in prepared]
            with ExitStack() as undo:
                commits = [
                    segment.replan(ports, resources, undo)
                    for segment, (ports, resources) in zip(prepared, resolved, strict=True)
                ]
                undo.pop_all()
            self.bindings.clear()
            self.bindings.update(bindings)
            in_any_case(commits)

        self.thread.run(bind)

    @property
    def prepared(self) -> list[Segment]:
        return [segment for segment in self._segments if segment.current is not None]

    def times(self) -> Iterator[DispatchTime]:
        """Run every segment once more, each dispatch separately; all must be prepared."""
        ops = {node.index: node.op for node in self.graph.nodes}
        graph = self._context.lowerings.default.graph
        for segment in self._segments:
            for d, seconds in self.thread.run(segment.require().session.profile):
                op = ops.get(d.node, "(input)")
                name = name_dispatch(d, graph)
                if d.shader == "chain" and d.fused:
                    op += f" and {len(d.fused)} more"
                yield DispatchTime(d.node, op, d.shader, str(d), seconds, d.flops, name)

    @contextmanager
    def idle(self) -> Iterator[None]:
        with ExitStack() as stack:
            for segment in self._segments:
                stack.enter_context(segment.require().session.idle())
            yield

    def read_result(self, index: int) -> Array | None:
        """The last result of a bound output, or a tensor that it keeps; None for any other."""
        for segment in self._segments:
            if index in self.bindings and index in segment.computed:
                return segment.read_result(index)
            inside = self._keep_all and index not in self.graph.outputs
            if inside and segment.current is not None and index in segment.current.outputs:
                return segment.read_output(index)
        return None

    def finished(self, read: Callable[[int], Array]) -> Invocation:
        """The invocation that has just finished; `read` reads its outputs, before the next run."""
        outputs = self._context.lowerings.graph.outputs
        results = {i: read(i) for i in outputs if i not in self.bindings}
        self._latest.append(results)
        self._finished = [i for i in self._finished if not i.done()]

        def get(index: int) -> Array:
            self.thread.require()
            if index not in results or not any(each is results for each in self._latest):
                raise not_kept(index, results)
            return np.array(results[index])

        def finish() -> Invocation:
            self._finished.append(Invocation(self.thread, get))
            return self._finished[-1]

        thread = self.thread
        return QueuedInvocation(thread, finish) if thread.is_own else thread.run(finish)

    def release(self) -> None:
        """Delete the GL objects; on the delegate's thread, inside the guard."""
        segments, self._segments = self._segments, []
        fences, self._finished = self._finished, []
        releases = [segment.release for segment in segments]
        in_any_case([*releases, *(partial(delete_fence, fence) for fence in fences)])

    def require_bindable(self, index: int) -> None:
        """Raise ValueError if no buffer or texture can be bound to a tensor."""
        graph = self.graph
        segments = self._partition.segments
        if index in self._context.lowerings.shape_inputs:
            raise ValueError(
                f"cannot bind tensor {index}: its value determines sizes of tensors, so the CPU "
                "needs it; use set_tensor"
            )
        if index not in (*graph.inputs, *graph.outputs):
            raise ValueError(
                f"cannot bind tensor {index}: expected an input, one of {list(graph.inputs)}, or "
                f"an output, one of {list(graph.outputs)}"
            )
        users = {n.index for n in graph.nodes if index in (*n.inputs, *n.outputs)}
        if not users and index not in graph.outputs:
            return  # nothing reads it
        is_computed = any(index in n.outputs for n in graph.nodes)
        # An output in a bound buffer is not available to other segments.
        groups = [set(nodes) for nodes in segments] if is_computed else [{*sum(segments, ())}]
        if not users or not any(users <= group for group in groups):
            raise ValueError(
                f"cannot bind tensor {index}: nodes {sorted(users)} use it, and the GPU runs "
                f"{[list(nodes) for nodes in segments]}"
            )
