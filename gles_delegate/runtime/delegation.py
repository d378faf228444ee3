"""A model bound to a delegate: which nodes run on the GPU, and the segments that hosts feed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from gles_delegate.closing import in_any_case
from gles_delegate.dispatch import Shape
from gles_delegate.gl.sync import delete_fence
from gles_delegate.gl.thread import GlThread
from gles_delegate.image.transform import ImageTransform
from gles_delegate.model.graph import Array, Graph
from gles_delegate.options import GpuDelegateOptions, InferencePreference
from gles_delegate.planning.lowering import Lowerings, unsupported
from gles_delegate.planning.partition import Partition, choose_partitions
from gles_delegate.planning.rows import rows_are_independent
from gles_delegate.report import (
    DelegationReport,
    DispatchTime,
    MemoryReport,
    ProfileReport,
    count,
    list_nodes,
)
from gles_delegate.runtime.binding import Binding, TextureBinding
from gles_delegate.runtime.constants import Constants
from gles_delegate.runtime.invocation import Invocation
from gles_delegate.runtime.naming import name_dispatch
from gles_delegate.runtime.programs import Programs, Progress
from gles_delegate.runtime.segment import Segment, SegmentContext
from gles_delegate.runtime.store import Store, fingerprint
from gles_delegate.runtime.tuning import Tuner
from gles_delegate.runtime.variables import Variables
from gles_delegate.version import __version__

log = logging.getLogger("gles_delegate")


@dataclass(frozen=True)
class _Part:
    """A subgraph that is an entry point, as the delegation of the first one plans it."""

    first: Delegation
    lowerings: Lowerings
    partition: Partition


class Delegation:
    """A subgraph of a model, and the segments of it that run on the GPU.

    The one of the first subgraph has those of the other entry points.

    Args:
        bindings: What is bound to inputs and outputs, by tensor index; `rebind` changes it.
        part: What the delegation of the model's first subgraph gives to another; None: this is
            the first.
        keep: Keep what every node computes, for `read_result`, not the outputs only.

    Attributes:
        others: By index, the delegations of the other subgraphs that are entry points.

    Raises:
        UnsupportedModelError: `require_full_delegation` is set, and some nodes cannot run there.
        ValueError: A tensor cannot be bound.
    """

    def __init__(
        self,
        graph: Graph,
        thread: GlThread,
        options: GpuDelegateOptions,
        bindings: dict[int, Binding] | None = None,
        progress: Progress | None = None,
        part: _Part | None = None,
        keep: bool = False,
    ) -> None:
        self.graph = graph
        self.thread = thread
        self.bindings = {} if bindings is None else bindings
        limits = thread.gpu.limits
        self._keep = keep
        own, *rest = [part] if part else _parts(self, options)
        first, lowerings, self._partition = own.first, own.lowerings, own.partition
        self._reasons, self._deciding = lowerings.default.reasons, lowerings.deciding
        large = any(
            limits.is_large(step.output.nbytes)
            for steps in lowerings.default.steps.values()
            for step in steps
        )
        # Buffer textures, through which large tensors go, have no float16.
        self._half = options.half_allowed and limits.profile.half_storage and not large
        if options.require_full_delegation:
            self.require_all("require_full_delegation is set")
        for index in self.bindings:
            self._require_bindable(index)
        self._store: Store | None = (
            first._store if part else _store(graph, thread, options, self._half)
        )
        self._variables: Variables = first._variables if part else Variables(graph, thread)
        self._constants: Constants = first._constants if part else Constants(thread.gpu)
        self._programs: Programs = first._programs if part else Programs(thread.gpu)
        thread.own(self._programs)
        tuner = None
        if options.inference_preference == InferencePreference.SUSTAINED_SPEED:
            tuner = Tuner(lowerings, thread.gpu, self._half, self._store, progress)
        self._context = SegmentContext(
            *(thread, lowerings, self._half, self.bindings, self._variables, self._constants),
            *(self._programs, tuner, self._store, progress),
        )
        self._segments: list[Segment] = []
        self._finished: list[Invocation] = []
        self.others: dict[int, Delegation] = {
            other.lowerings.graph.index: Delegation(
                graph.subgraphs[other.lowerings.graph.index],
                *(thread, options, None, progress, other, keep),
            )
            for other in rest
        }

    @property
    def all(self) -> tuple[Delegation, ...]:
        """Itself and `others`."""
        return self, *self.others.values()

    @property
    def report(self) -> DelegationReport:
        """Which nodes of this subgraph run on the GPU."""
        return self._partition.report(self.graph, "float16" if self._half else "float32")

    @property
    def delegated(self) -> list[int]:
        """The nodes that run on the GPU."""
        return [index for segment in self._partition.segments for index in segment]

    def require_all(self, why: str) -> None:
        """Raise `UnsupportedModelError`, with `why`, if any node would run on the CPU."""
        # Name the nodes that cannot run there, not those that follow them to the CPU.
        reasons = self._reasons or self._partition.reasons
        if reasons:
            raise unsupported(self.graph, reasons, f"cannot run on the GPU, and {why}")

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
            if not self.thread.is_closed:  # else it went with the context
                self.thread.run(segment.release)
            self._segments.remove(segment)

    def rebind(self, index: int, binding: Binding | None) -> None:
        """Bind a buffer or textures to an input or output; None unbinds it.

        Raises:
            ValueError: The tensor cannot be bound, or not to this.
            OutOfGpuMemoryError, ShaderError: The driver cannot run it.

        After an error, every segment runs with the old binding. Another region of the same textures
        costs next to nothing.
        """
        if (
            isinstance(binding, TextureBinding)
            and binding.shows_the_same(self.bindings.get(index))
            and self.thread.may_call
        ):
            transform = binding.transform or ImageTransform()
            assert isinstance(transform, ImageTransform)
            for segment in self._segments:
                segment.show(index, transform)
            self.bindings[index] = binding
            return
        bindings = {i: bound for i, bound in self.bindings.items() if i != index}
        if binding is not None:
            self._require_bindable(index)
            bindings[index] = binding

        def rebind() -> None:
            # Check and make everything before changing anything.
            prepared = [segment for segment in self._segments if segment.is_prepared]
            resolved = [segment.resolve_with(index, binding) for segment in prepared]
            with ExitStack() as undo:
                commits = [
                    segment.rebind(ports, resources, undo)
                    for segment, (ports, resources) in zip(prepared, resolved, strict=True)
                ]
                undo.pop_all()
            self.bindings.clear()
            self.bindings.update(bindings)
            in_any_case(commits)

        self.thread.run(rebind)

    def memory(self) -> MemoryReport:
        """What its prepared segments hold."""
        prepared = [s for part in self.all for s in part._segments if s.is_prepared]
        if not prepared:
            return MemoryReport()
        parts = self.thread.run(lambda: [segment.memory() for segment in prepared])
        return sum(
            parts,
            MemoryReport(
                inputs=self._variables.nbytes,
                constants=self._constants.nbytes,
                programs=self.thread.run(lambda: self._programs.nbytes),
            ),
        )

    def profile(self) -> ProfileReport:
        """Run every prepared segment once more, each dispatch by itself.

        Raises:
            DelegateError: None is prepared.
        """
        parts = [part for part in self.all if any(s.is_prepared for s in part._segments)]
        times = tuple(time for part in parts or [self] for time in part._times())
        return ProfileReport(self.thread.gpu.renderer, self.thread.gpu.timers, times)

    def _times(self) -> Iterator[DispatchTime]:
        ops = {node.index: node.op for node in self.graph.nodes}
        graph = self._context.lowerings.default.graph
        for segment in self._segments:
            for d, seconds in self.thread.run(segment.profile):
                op, name = ops.get(d.node, ""), name_dispatch(d, graph)
                yield DispatchTime(d.node, op, d.shader, str(d), seconds, d.flops, name)

    @contextmanager
    def idle(self) -> Iterator[None]:
        """See `Session.idle`."""
        with ExitStack() as stack:
            for segment in self._segments:
                stack.enter_context(segment.idle())
            yield

    def read_result(self, index: int) -> Array | None:
        """The last result of a bound output, or a tensor that it keeps; None for any other."""
        for segment in self._segments:
            if index in self.bindings and index in segment.made:
                return segment.read_result(index)
            if self._keep and segment.is_prepared and index in segment.outputs:
                return segment.read_output(index)
        return None

    def finished(self, read: Callable[[int], Array]) -> Invocation:
        """The invocation that has just finished; `read` reads its outputs."""
        self._finished = [i for i in self._finished if not i.done()]

        def finish() -> Invocation:
            invocation = Invocation(self.thread.gpu.gl, self.thread.run, read)
            self._finished.append(invocation)
            return invocation

        return self.thread.run(finish)

    def release(self) -> None:
        """Delete the GL objects; on the delegate's thread, inside the guard."""
        deletions = [other.release for other in self.others.values()]
        deletions += [partial(delete_fence, invocation) for invocation in self._finished]
        deletions += [segment.release for segment in self._segments]
        deletions += [self._variables.release, self._programs.release]
        self.thread.disown(self._programs)
        self._finished, self._segments = [], []
        in_any_case(deletions)

    def _require_bindable(self, index: int) -> None:
        graph, segments = self.graph, self._partition.segments
        if index in self._deciding:
            raise ValueError(
                f"cannot bind tensor {index}: its value gives sizes of tensors, so the CPU must "
                "have it; use set_tensor"
            )
        if index not in (*graph.inputs, *graph.outputs):
            raise ValueError(
                f"cannot bind tensor {index}: expected an input, one of {list(graph.inputs)}, or "
                f"an output, one of {list(graph.outputs)}"
            )
        users = {n.index for n in graph.nodes if index in (*n.inputs, *n.outputs)}
        makers = {n.index for n in graph.nodes if index in n.outputs}
        # An output in a bound buffer is not available to other segments.
        places = [set(nodes) for nodes in segments] if makers else [{*sum(segments, ())}]
        if not users or not any(users <= place for place in places):
            raise ValueError(
                f"cannot bind tensor {index}: nodes {sorted(users)} use it, and the GPU runs "
                f"{[list(nodes) for nodes in segments]}"
            )


def _parts(first: Delegation, options: GpuDelegateOptions) -> list[_Part]:
    """The entry points of a model, its first subgraph before the others."""
    graph, limits = first.graph, first.thread.gpu.limits
    graphs = [graph, *(graph.subgraphs[i] for i in graph.entries if i != graph.index)]
    if first._keep:
        graphs = [with_all_outputs(part) for part in graphs]
    lowerings = [Lowerings(part, limits, options.quantized_models_allowed) for part in graphs]
    partitions = choose_partitions(
        [each.default for each in lowerings],
        options.max_delegated_partitions,
        options.first_delegate_node_index,
        options.last_delegate_node_index,
    )
    return [
        _Part(first, each, partition) for each, partition in zip(lowerings, partitions, strict=True)
    ]


def with_all_outputs(graph: Graph) -> Graph:
    """The graph with all tensors that nodes compute, and the GPU can hold, among its outputs."""
    computed = (index for node in graph.nodes for index in node.outputs)
    held = (index for index in computed if graph.tensors[index].lanes)
    return replace(graph, outputs=tuple(dict.fromkeys((*graph.outputs, *held))))


def _store(graph: Graph, thread: GlThread, options: GpuDelegateOptions, half: bool) -> Store | None:
    """The on-disk cache of this model on this device, if the options name a folder."""
    folder, gpu = options.serialization_dir, thread.gpu
    if folder is None:
        return None
    content = fingerprint(graph.content, *graph.weights)
    model = options.model_token or content
    device = (gpu.identity, gpu.limits)
    return Store(folder, fingerprint(model, __version__, *device, half), content)
