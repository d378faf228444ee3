"""LiteRT's interpreter as the host of models of which some nodes run on the CPU."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from gles_delegate.errors import DelegateError, LiteRtError
from gles_delegate.gl.sync import Fence, wait_on_gpu
from gles_delegate.litert.check import require_known_layout
from gles_delegate.litert.native import NativeDelegate
from gles_delegate.model.graph import Array
from gles_delegate.runtime.delegation import Delegation
from gles_delegate.runtime.invocation import Invocation

_FAILURES = (RuntimeError, IndexError)
"""What LiteRT's errors, and exceptions of C++, are in Python."""

_NOT_READY = "Invoke called on model that is not ready."
"""What LiteRT reports where `allocate_tensors` is due."""


class LiteRtHost:
    """LiteRT's interpreter. The delegate's own errors are raised, not LiteRT's quotes of them.

    `Interpreter` documents the methods.

    Raises:
        UnsupportedModelError: LiteRT is not installed, or refuses the model.
        LiteRtError: The installed LiteRT has another binary interface.
    """

    def __init__(
        self,
        delegation: Delegation,
        content: bytes | bytearray | memoryview,
        num_threads: int | None,
    ) -> None:
        self.delegation = delegation
        self._native = NativeDelegate(delegation, reads_back=False)
        self._reported = self._fresh = ""
        try:
            from ai_edge_litert import interpreter
        except ImportError:
            delegation.require_all(
                "LiteRT, which would run them on the CPU, is not installed "
                "(pip install ai-edge-litert)"
            )
        require_known_layout()
        try:
            self._interpreter = self._call(
                interpreter.Interpreter,
                model_content=bytes(content),
                experimental_delegates=[self._native],
                num_threads=num_threads,
            )
        except ValueError as error:
            delegation.require_all(f"LiteRT refuses the model ({error})")
        except _FAILURES as error:
            if isinstance(error, DelegateError):
                raise
            raise LiteRtError(f"expected LiteRT to take the delegate, found: {error}") from error

    def allocate_tensors(self) -> None:
        self._run(self._interpreter.allocate_tensors)

    def invoke(self) -> None:
        with _uninterrupted():
            self._run(self._interpreter.invoke)

    def invoke_async(self, wait_for: Fence | int | None = None) -> Invocation:
        if wait_for is not None:
            thread, fence = self.delegation.thread, wait_for
            thread.run(lambda: wait_on_gpu(thread.gpu.gl, fence))
        self.invoke()
        return self.delegation.finished(self.get_tensor)

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int], strict: bool = False
    ) -> None:
        self._call(self._interpreter.resize_tensor_input, input_index, tensor_size, strict)

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        self._call(self._interpreter.set_tensor, tensor_index, value)

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Array:
        bound = None if subgraph_index else self.delegation.read_result(tensor_index)
        if bound is not None:
            return bound
        array: Array = self._call(self._interpreter.get_tensor, tensor_index, subgraph_index)
        return array

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        view: Callable[[], Array] = self._call(self._interpreter.tensor, tensor_index)
        # LiteRT's own memory of a bound output is never written.
        return lambda: (
            self.get_tensor(tensor_index) if tensor_index in self.delegation.bindings else view()
        )

    def get_input_details(self) -> list[dict[str, Any]]:
        details: list[dict[str, Any]] = self._call(self._interpreter.get_input_details)
        return details

    def get_output_details(self) -> list[dict[str, Any]]:
        details: list[dict[str, Any]] = self._call(self._interpreter.get_output_details)
        return details

    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        details: list[dict[str, Any]] = self._call(
            self._interpreter.get_tensor_details, subgraph_index
        )
        return details

    def num_subgraphs(self) -> int:
        return int(self._call(self._interpreter.num_subgraphs))

    def reset_all_variables(self) -> None:
        self._call(self._interpreter.reset_all_variables)

    def _call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self._native.failure = None
        try:
            return function(*arguments, **named)
        except _FAILURES as error:
            if self._native.failure is not None:
                raise self._native.failure from error
            # LiteRT appends what it reports to what it reported before.
            self._fresh = str(error).removeprefix(self._reported)
            self._reported = str(error)
            raise

    def _run(self, function: Callable[[], Any]) -> None:
        """Have LiteRT prepare or run the nodes.

        Raises:
            LiteRtError: A node on the CPU failed.
            RuntimeError: `allocate_tensors` was not called.
        """
        try:
            self._call(function)
        except DelegateError:
            raise
        except _FAILURES as error:
            if self._fresh.endswith(_NOT_READY):
                raise
            text = re.sub(r"\s*(Node number \d+ \(\w+\) failed)", r"; \1", self._fresh).strip("; ")
            raise LiteRtError(
                "expected LiteRT to run its nodes on the CPU, found that it failed: "
                + (text or "it gives no reason; try the model in LiteRT without the delegate")
            ) from error


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put Ctrl-C off to the end: what it raises as a callback begins, ctypes drops.

    LiteRT calls back between nodes on the CPU, so it would be the rule there.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    calls: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *arguments: calls.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if calls:
            handler(*calls[0])
