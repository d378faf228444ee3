"""The delegate: a context, the thread it belongs to, and the model it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import NoReturn, TypeVar

import moderngl

from gles_delegate.dispatch import Shape
from gles_delegate.errors import DelegateError, UnsupportedModelError
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.egl import EglContext
from gles_delegate.graph import Array, Graph
from gles_delegate.partition import Lowered, lower_graph
from gles_delegate.plan import Plan, make_plan
from gles_delegate.session import Session

T = TypeVar("T")


@dataclass(frozen=True)
class GpuDelegateOptions:
    """Options of a `GpuDelegate`.

    Attributes:
        precision_loss_allowed: Store tensors and weights as float16 where that is faster, which
            it is on GPUs; results are right to about a hundredth of their scale then.
        quantized_models_allowed: Take 8-bit tensors, as the real numbers they stand for;
            otherwise nodes with such tensors stay off the GPU.
        own_thread: Keep a thread for the GL calls, so that any thread may call the
            interpreter. Otherwise the thread that bound the model must.
        device_index: The device of `list_devices` to make the context on; None for the best.
        pin_software_threads: On Mesa's software rasteriser, give each of its threads a processor
            of its own: up to twice as fast, unless other programs keep those processors busy.
    """

    precision_loss_allowed: bool = False
    quantized_models_allowed: bool = True
    own_thread: bool = False
    device_index: int | None = None
    pin_software_threads: bool = True

    def __post_init__(self) -> None:
        if self.device_index is not None and self.device_index < 0:
            raise ValueError(f"device_index must be 0 or more, not {self.device_index}")


@dataclass(frozen=True)
class NodeReport:
    """What became of a node: on the GPU, or the reason why not."""

    index: int
    op: str
    version: int
    delegated: bool
    reason: str = ""


@dataclass(frozen=True)
class DelegationReport:
    """Node by node, what runs on the GPU; ``str()`` is a table.

    Attributes:
        storage: How the GPU stores real numbers, float32 or float16; it adds up in float32.
    """

    nodes: tuple[NodeReport, ...] = ()
    storage: str = "float32"

    @property
    def fully_delegated(self) -> bool:
        return all(node.delegated for node in self.nodes)

    def __str__(self) -> str:
        rows = [("node", "op", "version", "runs on", "why")]
        for n in self.nodes:
            place = "GPU" if n.delegated else "CPU"
            rows.append((str(n.index), n.op, str(n.version), place, n.reason))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        taken = sum(node.delegated for node in self.nodes)
        summary = f"{taken} of {len(self.nodes)} nodes run on the GPU, stored as {self.storage}"
        return "\n".join([*lines, summary])

    def to_json(self) -> str:
        """The same as JSON: an object with the list ``nodes`` and the word ``storage``."""
        return json.dumps(asdict(self))


class GpuDelegate:
    """Runs a model's graph in OpenGL ES compute shaders.

    A delegate runs one model. The thread that binds the model, by giving the delegate to an
    `Interpreter`, is the one that must call it afterwards.

    Args:
        options: See `GpuDelegateOptions`.
        context: None for an EGL context of its own, made when a model is bound; an
            `EglContext`, which stays the caller's; or the app's `moderngl.Context`, which is
            adopted and must be current at every call.

    Raises:
        ValueError: The options and the context exclude each other.
        TypeError: `context` is something else.
    """

    def __init__(
        self,
        options: GpuDelegateOptions | None = None,
        *,
        context: EglContext | moderngl.Context | None = None,
    ) -> None:
        self.options = options or GpuDelegateOptions()
        if not isinstance(context, EglContext | moderngl.Context | None):
            raise TypeError(
                "context must be None, a gles_delegate.EglContext or a moderngl.Context, not "
                f"{type(context).__name__}"
            )
        if context is not None and self.options.device_index is not None:
            raise ValueError("device_index chooses the device of an own context: leave out context")
        if isinstance(context, moderngl.Context) and self.options.own_thread:
            raise ValueError("an adopted context stays on its own thread: own_thread cannot be set")
        self._context = context
        self._gpu: GpuContext | None = None
        self._worker: ThreadPoolExecutor | None = None
        self._delegation: Delegation | None = None
        self._closed = False

    @property
    def report(self) -> DelegationReport:
        """Which nodes of the bound model run on the GPU; empty before a model is bound."""
        return self._delegation.report if self._delegation else DelegationReport()

    def bind(self, graph: Graph) -> Delegation:
        """Take a model: fixes the thread and the context, and lowers the graph.

        Raises:
            ContextError: No usable context.
            UnsupportedModelError: Some nodes do not run on the GPU.
            DelegateError: The delegate is closed, or runs a model already.
        """
        self._require_open()
        if self._delegation is not None:
            raise DelegateError(
                "this delegate runs a model already: make one GpuDelegate for each interpreter; "
                "they can share a context with GpuDelegate(context=EglContext())"
            )
        if self.options.own_thread and self._worker is None:
            self._worker = ThreadPoolExecutor(1, "gles_delegate")
        if self._gpu is None:
            self._gpu = self._on_thread(
                lambda: GpuContext(
                    self._context, self.options.device_index, self.options.pin_software_threads
                )
            )
        self._delegation = delegation = Delegation(self, graph)
        delegation.require_supported()
        return delegation

    def close(self) -> None:
        """Free every GL object, and the context if it is the delegate's own.

        Must come from the thread that bound the model. A second call does nothing.

        Raises:
            WrongThreadError, WrongContextError: As for any call.
        """
        if self._closed:
            return
        if self._gpu is not None:
            self._run(self._release)
        self._closed = True
        if self._worker is not None:
            self._worker.shutdown()

    def __enter__(self) -> GpuDelegate:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a GpuDelegate holds a GL context and cannot be pickled: send its options and the "
            "model's path, and make the delegate there"
        )

    @property
    def gpu(self) -> GpuContext:
        """The bound context.

        Raises:
            DelegateError: The delegate is closed, or no model was bound yet.
        """
        self._require_open()
        if self._gpu is None:
            raise DelegateError("the delegate has no context before a model is bound to it")
        return self._gpu

    def _run(self, function: Callable[[], T]) -> T:
        """Call `function` on the delegate's thread, with its context current."""
        gpu = self.gpu
        gpu.refuse_fork()  # the delegate's own thread is not there to do it

        def guarded() -> T:
            with gpu.guard():
                return function()

        return self._on_thread(guarded)

    def _on_thread(self, function: Callable[[], T]) -> T:
        return function() if self._worker is None else self._worker.submit(function).result()

    def _require_open(self) -> None:
        if self._closed:
            raise DelegateError("the delegate is closed: make a new one")

    def _release(self) -> None:
        if self._delegation is not None:
            self._delegation.release()
        self.gpu.release()


class Delegation:
    """A model bound to a delegate, for the hosts that feed it."""

    def __init__(self, delegate: GpuDelegate, graph: Graph) -> None:
        self._delegate = delegate
        self._graph = graph
        self._lowered = self._lower({})
        self._session: Session | None = None

    @property
    def report(self) -> DelegationReport:
        reasons = self._lowered.reasons
        return DelegationReport(
            tuple(
                NodeReport(n.index, n.op, n.version, reason is None, reason or "")
                for n in self._graph.nodes
                for reason in [reasons.get(n.index)]
            ),
            "float16" if self._half else "float32",
        )

    @property
    def _half(self) -> bool:
        delegate = self._delegate
        return delegate.options.precision_loss_allowed and delegate.gpu.limits.half_storage

    def require_supported(self) -> None:
        """Raise `UnsupportedModelError` if some node does not run on the GPU."""
        nodes = [(n.index, n.op, n.reason) for n in self.report.nodes if not n.delegated]
        if nodes:
            lines = "\n".join(f"  node {index} {op}: {reason}" for index, op, reason in nodes)
            raise UnsupportedModelError(
                f"{len(nodes)} of {len(self._graph.nodes)} nodes cannot run on the GPU:\n{lines}",
                nodes,
            )

    def prepare(self, input_shapes: Mapping[int, Shape]) -> Mapping[int, Shape]:
        """Plan and compile for inputs of these shapes; returns every tensor's shape.

        Raises:
            UnsupportedModelError: A node cannot run with these shapes.
            ShaderError, OutOfGpuMemoryError: The driver cannot run it.
        """
        gpu = self._delegate.gpu
        if any(self._lowered.shapes[i] != shape for i, shape in input_shapes.items()):
            self._lowered = self._lower(input_shapes)
        self.require_supported()
        plan = make_plan(self._lowered, self._lowered.steps, gpu.limits, self._half)
        self._delegate._run(lambda: self._replace_session(plan))
        return self._lowered.shapes

    def invoke(self, inputs: Mapping[int, Array], outputs: Mapping[int, Array]) -> None:
        """Run once: arrays by tensor index, of the tensors' types and the prepared shapes."""
        self._delegate._run(lambda: self._require_session().run(inputs, outputs))

    def read_variable(self, index: int, array: Array) -> None:
        """Fill `array` with a variable tensor, if the GPU has it."""
        self._delegate._run(lambda: self._require_session().read_variable(index, array))

    def write_variable(self, index: int, array: Array) -> None:
        """Copy `array` into a variable tensor, if the GPU has it."""
        self._delegate._run(lambda: self._require_session().write_variable(index, array))

    def release(self) -> None:
        """Delete the GL objects; on the delegate's thread, inside the guard."""
        if self._session is not None:
            self._session.release()
            self._session = None

    def _lower(self, input_shapes: Mapping[int, Shape]) -> Lowered:
        delegate = self._delegate
        quantized = delegate.options.quantized_models_allowed
        return lower_graph(self._graph, delegate.gpu.limits, input_shapes, quantized)

    def _require_session(self) -> Session:
        if self._session is None:
            raise DelegateError("the model is not prepared: call allocate_tensors() first")
        return self._session

    def _replace_session(self, plan: Plan) -> None:
        self.release()
        self._session = Session(plan, self._lowered.graph, self._delegate.gpu)
