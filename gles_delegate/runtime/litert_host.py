"""LiteRT's interpreter as the host of models with nodes on the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, TypeVar

import numpy as np

from gles_delegate.errors import DelegateError, LiteRtError
from gles_delegate.gl.sync import Fence, wait_on_gpu
from gles_delegate.litert.check import how_to_install, litert_interpreter, require_known_layout
from gles_delegate.litert.native import NativeDelegate
from gles_delegate.model.graph import Array
from gles_delegate.model.reader import ModelFile
from gles_delegate.runtime.delegation import Delegation
from gles_delegate.runtime.invocation import Invocation
from gles_delegate.runtime.standalone import bound, describe, require_shape, settable
from gles_delegate.shaders.dispatch import Shape
from gles_delegate.support.signals import SignalsDeferred

_FAILURES = (RuntimeError, IndexError)  # Python's types of LiteRT's errors and of C++ exceptions

OP_RESOLVERS = ("AUTO", "BUILTIN", "BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
"""Names of LiteRT's OpResolverType."""

T = TypeVar("T")


class LiteRt:
    """LiteRT's interpreter with a delegate, whose own errors replace LiteRT's quotes of them.

    The delegate takes nodes from the subgraphs of `delegations`. `options` are arguments of
    LiteRT's interpreter, with the op resolver's type by its name.
    """

    def __init__(
        self, delegations: Sequence[Delegation], file: ModelFile, options: Mapping[str, Any]
    ) -> None:
        models = {each.graph.index: each for each in delegations}
        first = delegations[0]
        self._native = NativeDelegate(first.graph.subgraphs[0], models, reads_back=False)
        self._reported = self._fresh = ""
        for each in delegations:
            if each.needs_tensorflow:
                each.require_all("LiteRT for Python cannot run TensorFlow ops on the CPU")
        try:
            interpreter = litert_interpreter()
        except ImportError:
            first.require_all(
                f"LiteRT, which would run them on the CPU, is not installed ({how_to_install()})"
            )
        from ai_edge_litert.interpreter import OpResolverType

        require_known_layout()
        resolver = options["experimental_op_resolver_type"]
        kernels = None if resolver == "AUTO" else OpResolverType[resolver]
        named = {**options, "experimental_op_resolver_type": kernels}
        # Older versions have fewer arguments.
        chosen = {name: value for name, value in named.items() if value}
        if "experimental_default_delegate_latest_features" in chosen:
            first.require_all(
                "with experimental_default_delegate_latest_features LiteRT gives nodes to XNNPACK "
                "before any other delegate: leave it out"
            )
        unknown = chosen.keys() - signature(interpreter).parameters
        if unknown:
            raise LiteRtError(
                f"the installed LiteRT does not accept the argument {min(unknown)}: leave it out"
            )
        try:
            self.interpreter = self.call(
                interpreter, **file.arguments, **chosen, experimental_delegates=[self._native]
            )
        except ValueError as error:
            first.require_all(f"LiteRT refuses the model ({error})")
        except _FAILURES as error:
            if isinstance(error, DelegateError):
                raise
            raise LiteRtError(f"expected LiteRT to take the delegate, found: {error}") from error

    def call(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a function of LiteRT's; raise the delegate's error if it has one."""
        self._native.failure = None
        try:
            return function(*arguments, **named)
        except _FAILURES as error:
            failure, self._native.failure = self._native.failure, None
            if failure is not None:
                try:
                    raise failure from error
                finally:
                    del failure  # its traceback has this frame
            # LiteRT appends each report to the previous ones.
            self._fresh = str(error).removeprefix(self._reported)
            self._reported = str(error)
            raise

    def run(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have LiteRT prepare or run the nodes; raises LiteRtError if a node on the CPU fails."""
        try:
            self.call(function, *arguments)
        except DelegateError:
            raise
        except _FAILURES as error:
            if self._fresh.endswith("Invoke called on model that is not ready."):
                raise
            text = re.sub(r"\s*(Node number \d+ \(\w+\) failed)", r"; \1", self._fresh).strip("; ")
            raise LiteRtError(
                "expected LiteRT to run its nodes on the CPU, found that it failed: "
                + (text or "it gives no reason; try the model in LiteRT without the delegate")
            ) from error


class LiteRtHost:
    """LiteRT as the host of a subgraph. `Interpreter` documents the methods, and guards views."""

    def __init__(self, delegation: Delegation, litert: LiteRt) -> None:
        self.delegation = delegation
        self._litert = litert
        self._interpreter = litert.interpreter
        self._subgraph = delegation.graph.index
        self._shapes = {i: delegation.graph.tensors[i].shape for i in delegation.graph.inputs}
        self.is_ready = False

    def shape_of(self, index: int) -> Shape:
        return self._shapes[index]

    def held(self, index: int) -> Array | None:
        """The value of an input or output in LiteRT's memory, without a GL call."""
        value: Array = self._litert.call(self._interpreter.get_tensor, index, self._subgraph)
        return value

    @property
    def _wrapper(self) -> Any:
        """LiteRT's C++ object, whose calls take a subgraph; LiteRT must be the last to hold it."""
        return self._interpreter._interpreter

    def allocate_tensors(self) -> None:
        self.is_ready = False
        self._litert.run(self._wrapper.AllocateTensors, self._subgraph or -1)
        self.is_ready = True

    def invoke(self, targets: Mapping[int, Array] | None = None) -> None:
        # ctypes drops what a handler raises as a callback begins, and LiteRT calls back between
        # nodes on the CPU.
        with SignalsDeferred(interrupts=True):
            self._litert.run(self._wrapper.Invoke, self._subgraph)
        for index, array in (targets or {}).items():
            result = self.get_tensor(index)
            require_shape(self.delegation.graph.tensors[index], array, result.shape)
            np.copyto(array, result)

    def invoke_async(self, wait_for: Fence | int | None = None) -> Invocation:
        if wait_for is not None:
            thread = self.delegation.thread
            fence = wait_for
            thread.run(lambda: wait_on_gpu(thread.gpu.gl, fence))
        self.invoke()
        return self.delegation.finished(self.get_tensor)

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int], strict: bool = False
    ) -> None:
        sizes = np.array(tensor_size, np.int32)
        resize = self._wrapper.ResizeInputTensor
        self._litert.call(resize, input_index, sizes, strict, self._subgraph)
        shape = tuple(sizes.tolist())
        if input_index in self._shapes and self._shapes[input_index] != shape:
            self._shapes[input_index] = shape
            self.is_ready = False

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        settable(self.delegation, tensor_index)
        self._litert.call(self._wrapper.SetTensor, tensor_index, value, self._subgraph)

    def get_tensor(self, tensor_index: int) -> Array:
        result = self.delegation.read_result(tensor_index)
        if result is not None:
            return result
        if tensor_index in self.delegation.bindings:
            raise bound(self.delegation.graph.tensors[tensor_index])
        return self._litert.call(self._interpreter.get_tensor, tensor_index, self._subgraph)

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        view: Callable[[], Array] = self._litert.call(self._interpreter.tensor, tensor_index)
        # LiteRT's own memory of a bound output is never written.
        return lambda: (
            self.get_tensor(tensor_index) if tensor_index in self.delegation.bindings else view()
        )

    def get_input_details(self) -> list[dict[str, Any]]:
        return self._litert.call(self._interpreter.get_input_details)

    def get_output_details(self) -> list[dict[str, Any]]:
        return self._litert.call(self._interpreter.get_output_details)

    def get_tensor_details(self) -> list[dict[str, Any]]:
        details = self._litert.call(self._interpreter.get_tensor_details, self._subgraph)
        tensors = self.delegation.graph.tensors
        segments = self.delegation.prepared
        inner = {i: describe(tensors[i], s.shape_of(i)) for s in segments for i in s.computed}
        return [inner.get(each["index"], each) for each in details]

    def reset_all_variables(self) -> None:
        self._litert.call(self._interpreter.reset_all_variables)
