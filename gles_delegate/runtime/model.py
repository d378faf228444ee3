"""A model bound to a delegate: its subgraphs on the GPU, and what they share."""

from __future__ import annotations

from dataclasses import replace

from gles_delegate.device.limits import Limits
from gles_delegate.gl.functions import NUM_PROGRAM_BINARY_FORMATS
from gles_delegate.gl.thread import GlThread
from gles_delegate.model.graph import Graph
from gles_delegate.options import GpuDelegateOptions, InferencePreference
from gles_delegate.planning.lowering import Lowered, Lowerings
from gles_delegate.planning.partition import choose_partitions
from gles_delegate.report import DelegationReport, MemoryReport, ProfileReport
from gles_delegate.runtime.binding import Binding
from gles_delegate.runtime.constants import Constants
from gles_delegate.runtime.delegation import Delegation
from gles_delegate.runtime.programs import Programs, Progress
from gles_delegate.runtime.sanitizer import StrayAccess
from gles_delegate.runtime.segment import SegmentContext
from gles_delegate.runtime.shared import Shared
from gles_delegate.runtime.store import Store, fingerprint
from gles_delegate.runtime.tuning import Tuner
from gles_delegate.runtime.variables import Variables
from gles_delegate.support.closing import in_any_case
from gles_delegate.version import __version__


class BoundModel:
    """A model on a delegate's thread and context.

    Raises `UnsupportedModelError` if it must run entirely on the GPU and cannot, and `ValueError`
    if a tensor cannot be bound.

    Args:
        bindings: Bindings of inputs and outputs of the first subgraph, by tensor index.
        keep_all: Keep all nodes' results for `Delegation.read_result`.

    Attributes:
        subgraphs: The subgraphs that an app can run, by index, `graph` first.
    """

    def __init__(
        self,
        graph: Graph,
        thread: GlThread,
        options: GpuDelegateOptions,
        bindings: dict[int, Binding] | None = None,
        progress: Progress | None = None,
        keep_all: bool = False,
    ) -> None:
        self.thread = thread
        gpu = thread.gpu
        first, final = _tiers(thread, options)
        graphs = [graph, *(graph.subgraphs[i] for i in graph.entries if i != graph.index)]
        if keep_all:
            graphs = [with_all_outputs(each) for each in graphs]
        lowerings = [Lowerings(each, first, options.quantized_models_allowed) for each in graphs]
        partitions = choose_partitions(
            [each.default for each in lowerings],
            options.max_delegated_partitions,
            options.first_delegate_node_index,
            options.last_delegate_node_index,
        )
        halves = [_stores_half(each.default, gpu.limits, options) for each in lowerings]
        self._shared = Shared(
            gpu, Constants(gpu), Programs(gpu), _store(graph, thread, options, halves[0]), progress
        )
        self._variables = Variables(graph, thread)
        self.subgraphs: dict[int, Delegation] = {}
        for each, partition, half in zip(lowerings, partitions, halves, strict=True):
            is_first = not self.subgraphs
            context = SegmentContext(
                thread=thread,
                lowerings=each,
                half=half,
                bindings=bindings if is_first and bindings is not None else {},
                variables=self._variables,
                shared=self._shared,
                limits=first,
                final_limits=final,
                choices=Tuner(self._shared, half).choices if _is_tuned(options) else None,
            )
            index = each.graph.index
            own = graph if is_first else graph.subgraphs[index]
            delegation = Delegation(own, context, partition, keep_all)
            if options.require_full_delegation:
                delegation.require_all("require_full_delegation is set")
            for tensor in delegation.bindings:
                delegation.require_bindable(tensor)
            self.subgraphs[index] = delegation
        thread.own(self._shared.programs)

    @property
    def first(self) -> Delegation:
        """The subgraph that runs without a signature."""
        return next(iter(self.subgraphs.values()))

    @property
    def report(self) -> DelegationReport:
        """Which nodes run on the GPU, in all subgraphs."""
        return sum((each.report for each in self.subgraphs.values()), DelegationReport())

    @property
    def is_final(self) -> bool:
        """Whether the prepared segments run with the programs that they will keep."""
        return all(
            segment.upgrade.is_final for d in self.subgraphs.values() for segment in d.prepared
        )

    def memory(self) -> MemoryReport:
        """The GPU memory of all segments that are prepared."""
        prepared = [segment for each in self.subgraphs.values() for segment in each.prepared]
        if not prepared:
            return MemoryReport()

        def total() -> MemoryReport:
            shared = MemoryReport(
                inputs=self._variables.nbytes,
                constants=self._shared.constants.nbytes,
                programs=self._shared.programs.nbytes,
            )
            return sum((segment.require().session.memory() for segment in prepared), shared)

        return self.thread.run(total)

    def profile(self) -> ProfileReport:
        """Run every prepared segment once more, each dispatch separately; one must be prepared."""
        prepared = [each for each in self.subgraphs.values() if each.prepared]
        times = tuple(time for each in prepared or [self.first] for time in each.times())
        gpu = self.thread.gpu
        return ProfileReport(gpu.driver.renderer, gpu.driver.timers, times)

    def sanitize(self) -> list[StrayAccess]:
        """Run every prepared segment again, each dispatch separately; see `Session.sanitize`."""
        prepared = [segment for each in self.subgraphs.values() for segment in each.prepared]
        return self.thread.run(
            lambda: [t for each in prepared for t in each.require().session.sanitize()]
        )

    def release(self) -> None:
        """Delete the GL objects; on the delegate's thread, inside the guard."""
        self.thread.disown(self._shared.programs)
        deletions = [each.release for each in reversed(self.subgraphs.values())]
        in_any_case([*deletions, self._variables.release, self._shared.programs.release])


def _tiers(thread: GlThread, options: GpuDelegateOptions) -> tuple[Limits, Limits | None]:
    """The limits for the first runs, and for the later ones if these are others.

    A thread compiles for another context by way of Mesa's shader cache; an app's context may be
    current on any thread.
    """
    gpu = thread.gpu
    limits = _limits(gpu.limits, options)
    first = limits.profile.first
    if first is None or not options.background_compilation or _is_tuned(options):
        return limits, None
    if not (gpu.is_private and gpu.driver.is_llvmpipe):
        return limits, None
    has_cache = thread.run(lambda: gpu.gl.integer(NUM_PROGRAM_BINARY_FORMATS)) > 0
    return (replace(limits, profile=first), limits) if has_cache else (limits, None)


def _limits(limits: Limits, options: GpuDelegateOptions) -> Limits:
    profile = limits.profile
    if options.saves_memory:
        profile = profile.with_small_weights
    if not options.winograd_allowed:
        profile = replace(profile, winograd=(0,))
    return replace(limits, profile=profile)


def _is_tuned(options: GpuDelegateOptions) -> bool:
    return options.inference_preference == InferencePreference.SUSTAINED_SPEED


def _stores_half(lowered: Lowered, limits: Limits, options: GpuDelegateOptions) -> bool:
    """Whether tensors are float16; never with large tensors, whose buffer textures are float32."""
    outputs = (step.output for steps in lowered.steps.values() for step in steps)
    has_large = any(limits.is_large(output.nbytes) for output in outputs)
    return options.half_allowed and limits.profile.half_storage and not has_large


def with_all_outputs(graph: Graph) -> Graph:
    """The graph with all computed tensors of types that the GPU supports among its outputs."""
    computed = (index for node in graph.nodes for index in node.outputs)
    supported = (index for index in computed if graph.tensors[index].lanes)
    return replace(graph, outputs=tuple(dict.fromkeys((*graph.outputs, *supported))))


def _store(graph: Graph, thread: GlThread, options: GpuDelegateOptions, half: bool) -> Store | None:
    """The on-disk cache of this model on this device, if the options name a folder."""
    folder = options.serialization_dir
    gpu = thread.gpu
    if folder is None:
        return None
    content = fingerprint(graph.content, *graph.weights)
    model = options.model_token or content
    device = (gpu.driver.identity, _limits(gpu.limits, options))
    return Store(folder, fingerprint(model, __version__, *device, half), content)
