"""LiteRT 2's CompiledModel with this package as its GPU."""

from __future__ import annotations

import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from gles_delegate.errors import LiteRtError
from gles_delegate.gl.egl import EglContext
from gles_delegate.gl.mesa import processor_has
from gles_delegate.hosts.delegate import GpuDelegate
from gles_delegate.litert.accelerator import Accelerator, was_taken
from gles_delegate.litert.check import TESTED, require_known_layout, trial_model
from gles_delegate.litert.native import FixedModel, LateDelegate
from gles_delegate.model.graph import Array, Graph
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.planning.inlining import called_by
from gles_delegate.runtime.programs import Progress
from gles_delegate.support.closing import in_any_case

_TRIAL = """
from gles_delegate.hosts.environment import try_accelerator
try:
    try_accelerator()
except Exception as error:
    raise SystemExit(print(error) or 1)
"""

FIRST = "2.2"  # LiteRT's first version that accepts such an accelerator


@contextmanager
def litert_environment(
    options: GpuDelegateOptions | None = None,
    *,
    share: EglContext | None = None,
    progress: Progress | None = None,
) -> Iterator[Any]:
    """An environment in which LiteRT's `CompiledModel` runs models on this package's GPU.

    ```python
    with litert_environment() as environment:
        model = CompiledModel.from_file(
            path, hardware_accel=HardwareAccelerator.GPU, environment=environment
        )
    ```

    Each compiled model has a `GpuDelegate` with its own thread, so any thread may compile, run
    and release models. The list `environment.delegates` has one for each living model, in the
    order of compilation. A model may outlive the with block.

    LiteRT's TensorBuffers are in CPU memory: its Linux wheels cannot wrap GL buffers or textures.
    Use `bind_buffer_to_tensor` and `bind_texture_to_tensor` of these delegates for them.

    Args:
        options: See `GpuDelegateOptions`; `own_thread` is always set.
        share: A context to share buffers and textures with.
        progress: See `GpuDelegate`.

    Yields:
        An `ai_edge_litert.environment.Environment`.

    Raises:
        LiteRtError: LiteRT is not installed, is too old or has another binary interface; or a
            delegate's failure ended the with block with LiteRT's RuntimeError.

    Examples:
        >>> from ai_edge_litert.compiled_model import CompiledModel
        >>> from ai_edge_litert.hardware_accelerator import HardwareAccelerator
        >>> with gd.litert_environment() as environment:
        ...     model = CompiledModel.from_file(
        ...         "segmenter.tflite",
        ...         hardware_accel=HardwareAccelerator.GPU,
        ...         environment=environment,
        ...     )
        ...     environment.delegates[0].report.fully_delegated
        True
    """
    if not isinstance(options, GpuDelegateOptions | None):
        raise TypeError(f"options must be a GpuDelegateOptions, not a {type(options).__name__}")
    if not isinstance(share, EglContext | None):
        raise TypeError(f"share must be an EglContext, not a {type(share).__name__}")
    require_accelerator()
    models = _Models(replace(options or GpuDelegateOptions(), own_thread=True), share, progress)
    with _environment(models) as environment:
        yield environment


@cache
def require_accelerator() -> None:
    """Check that the installed LiteRT takes an accelerator; raises LiteRtError.

    Versions newer than the tested ones are tried in a separate process.
    """
    require_known_layout()
    from importlib import metadata

    version = metadata.version("ai-edge-litert")
    first, newest, found = (tuple(map(int, v.split(".")[:2])) for v in (FIRST, TESTED[1], version))
    if found < first or find_spec("ai_edge_litert.compiled_model") is None:
        raise LiteRtError(
            f"ai-edge-litert {version} does not accept a GPU accelerator: "
            f"install {FIRST} or a newer one"
        )
    if found > newest and (reason := tried_apart()):
        raise LiteRtError(
            f"ai-edge-litert {version} does not run the accelerator as the tested versions {FIRST} "
            f"to {TESTED[1]} do ({reason}): install one of these"
        )


def tried_apart() -> str:
    """The reason why LiteRT fails to run the accelerator in another process; "" if it works."""
    command = [sys.executable, "-c", _TRIAL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    status = done.returncode
    text = " ".join(done.stdout.split())
    if not status:
        return ""
    if text:
        return text
    if status == -signal.SIGILL:
        lse = platform.machine() == "aarch64" and not processor_has("atomics")
        lacking = "ARMv8.1's atomic instructions (LSE)" if lse else "an instruction"
        return f"this processor lacks {lacking} that LiteRT was built with: use Interpreter instead"
    if status < 0:
        return f"it ended with {signal.Signals(-status).name}"
    return f"it ended with status {status}"


def try_accelerator() -> None:
    """Compile a model of one node with the accelerator, run it, and check its result."""
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator

    values = np.arange(6, dtype=np.float32)
    with _environment(_Models(GpuDelegateOptions(own_thread=True))) as environment:
        model = CompiledModel.from_buffer(
            trial_model(), hardware_accel=HardwareAccelerator.GPU, environment=environment
        )
        inputs = model.create_input_buffers(0)
        outputs = model.create_output_buffers(0)
        inputs[0].write(values)
        model.run_by_index(0, inputs, outputs)
        if not np.array_equal(outputs[0].read(values.size, np.float32), -values):
            raise LiteRtError("a compiled model's result was lost")


@contextmanager
def _environment(models: _Models) -> Iterator[Any]:
    from ai_edge_litert.environment import Environment

    accelerator = Accelerator(lambda address: _Compiled(models, address))
    with TemporaryDirectory() as folder:
        library = accelerator.install(Path(folder))
        environment = Environment.create(runtime_path=folder)
        if not was_taken(library):
            raise LiteRtError(f"LiteRT did not load the GPU accelerator from its folder {folder}")
    environment.delegates = models.delegates
    try:
        yield environment
    except RuntimeError as error:
        failure = accelerator.failure or models.failure
        if failure is None or failure is error:
            raise
        if not isinstance(failure, Exception):
            raise failure from error
        reason = f"{type(failure).__name__}: {failure}"
        raise LiteRtError(f"LiteRT's GPU accelerator failed: {reason}") from failure


@dataclass
class _Models:
    """The options and delegates of an environment's compiled models."""

    options: GpuDelegateOptions
    share: EglContext | None = None
    progress: Progress | None = None
    delegates: list[GpuDelegate] = field(default_factory=list)
    natives: list[LateDelegate] = field(default_factory=list)
    earlier_failure: BaseException | None = None

    @property
    def failure(self) -> BaseException | None:
        """The last exception of a callback."""
        failures = (native.failure for native in reversed(self.natives) if native.failure)
        return next(failures, self.earlier_failure)

    def remove(self, delegate: GpuDelegate, native: LateDelegate) -> None:
        self.earlier_failure = native.failure or self.earlier_failure
        self.delegates.remove(delegate)
        self.natives.remove(native)


class _Compiled:
    """The delegate of a compiled model, which LiteRT closes."""

    def __init__(self, models: _Models, address: int) -> None:
        self._models = models
        self._context = context = EglContext(share=models.share) if models.share else None
        self._delegate = GpuDelegate(models.options, context=context, progress=models.progress)
        self._native = LateDelegate(address, self._bind)
        models.delegates.append(self._delegate)
        models.natives.append(self._native)

    @property
    def pointer(self) -> int:
        return self._native._get_native_delegate_pointer()

    def close(self) -> None:
        self._models.remove(self._delegate, self._native)
        release = [self._context.release] if self._context else []
        in_any_case([self._delegate.close, *release])

    def _bind(self, graph: Graph) -> dict[int, Any]:
        bound = self._delegate.bind(graph)
        bound.thread.need_not_be_closed()
        subgraphs: dict[int, Any] = dict(bound.subgraphs)
        on_cpu = [
            called_by(each.graph, [n for n in each.graph.nodes if n.index not in each.delegated])
            for each in bound.subgraphs.values()
        ]
        unused = set(range(len(graph.subgraphs))).difference(subgraphs, *on_cpu)
        return subgraphs | {index: _Unused(graph.subgraphs[index]) for index in unused}


class _Unused(FixedModel):
    """A subgraph that no node on the CPU runs, because the GPU's plan inlines it.

    LiteRT counts its nodes as not accelerated unless a delegate takes them.
    """

    def __init__(self, graph: Graph) -> None:
        shapes = {tensor.index: tensor.shape for tensor in graph.tensors}
        super().__init__([node.index for node in graph.nodes], shapes)

    def invoke_on(
        self, array: Callable[[int], Array], allocated: Collection[int], reads_bound: bool
    ) -> None:
        raise LiteRtError("expected LiteRT to leave this subgraph to the node that runs it")
