"""A self-test: whether the delegate runs on a device and computes correctly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gles_delegate.bench.device import half_slowdown
from gles_delegate.errors import DelegateError
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.thread import GlThread
from gles_delegate.limits import Limits
from gles_delegate.model.graph import Array, Graph, Quantization, one_node_graph
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.runtime.model import BoundModel


@dataclass(frozen=True)
class Check:
    """The result of a small program on the device.

    Attributes:
        error: The largest difference from numpy's result, relative to max(result, 1).
        allowed: The largest difference that passes.
        failure: The reason why it did not run; empty if it did.
    """

    name: str
    error: float
    allowed: float
    failure: str = ""

    @property
    def passed(self) -> bool:
        return not self.failure and self.error <= self.allowed

    def __str__(self) -> str:
        result = self.failure or f"off by {self.error:.1e}"
        return f"{'passed' if self.passed else 'FAILED'}: {self.name}, {result}"


class CompatibilityList:
    """Whether the delegate runs on a device, and the best options for it.

    TFLite's class of this name looks up the device in a list. This one runs a few small programs
    and compares their results with numpy's.

    Args:
        device_index: One of `list_devices`; None for the best.

    Attributes:
        vendor: The driver's vendor string; empty if there is no device.
        renderer: The driver's name of the device; empty if there is none.
        version: The driver's version string; empty if there is no device.
        limits: The limits of its compute shaders; None if there is no device.
        checks: The results of the programs.
        reason: The reason why the delegate is not supported; empty if it is.

    Examples:
        >>> device = gd.CompatibilityList()
        >>> device.is_delegate_supported_on_this_device, device.reason
        (True, '')
        >>> delegate = gd.GpuDelegate(device.best_options_for_this_device)
    """

    def __init__(self, device_index: int | None = None) -> None:
        self._device_index = device_index
        self._half = False
        self.vendor = self.renderer = self.version = self.reason = ""
        self.limits: Limits | None = None
        self.checks: tuple[Check, ...] = ()
        try:
            thread = GlThread(lambda: GpuContext(None, device_index), own=False)
        except DelegateError as error:
            self.reason = str(error)
            return
        self.vendor, self.renderer, self.version = thread.gpu.driver.identity
        self.limits = thread.gpu.limits
        try:
            self.checks = tuple(_run(trial, thread) for trial in _trials())
            failed = "; ".join(str(check) for check in self.checks if not check.passed)
            if thread.gpu.limits.profile.half_storage:
                half = _run(_matrix_product("matrix product of float16", 1e-2), thread, half=True)
                self._half = half.passed
                self.checks += (half,)
        finally:
            thread.close(lambda: None)
        if failed:
            self.reason = (
                f"{self.renderer}, {self.version}, computes wrong results ({failed}): "
                "try another version of the driver, or another device"
            )

    @property
    def is_delegate_supported_on_this_device(self) -> bool:
        return not self.reason

    @property
    def best_options_for_this_device(self) -> GpuDelegateOptions:
        """Options for a `GpuDelegate`: float16 storage if it passed its check and is faster.

        The first call measures that, by two convolutions in a new context.
        """
        return GpuDelegateOptions(
            precision_loss_allowed=self._half and self._half_is_faster,
            device_index=self._device_index,
        )

    @cached_property
    def _half_is_faster(self) -> bool:
        try:
            gpu = GpuContext(None, self._device_index)
            try:
                return half_slowdown(gpu) < 1
            finally:
                gpu.release()
        except DelegateError:
            return False


@dataclass(frozen=True)
class _Trial:
    """A graph of one node, its input, and its output."""

    name: str
    graph: Graph
    x: Array
    expected: Array
    allowed: float


def _run(trial: _Trial, thread: GlThread, half: bool = False) -> Check:
    options = GpuDelegateOptions(precision_loss_allowed=half, background_compilation=False)
    result = np.zeros_like(trial.expected)
    try:
        delegation = BoundModel(trial.graph, thread, options).first
        segment = delegation.segment([0])
        segment.prepare({})
        (x,), (y,) = trial.graph.inputs, trial.graph.outputs
        segment.invoke({x: trial.x}, {y: result})
        delegation.drop(segment)
    except DelegateError as error:
        return Check(trial.name, np.inf, trial.allowed, str(error).splitlines()[0])
    with np.errstate(invalid="ignore"):
        off = np.abs(result.astype(np.float64) - trial.expected)
        off /= np.maximum(np.abs(trial.expected), 1)
    off[result == trial.expected] = 0  # infinities
    return Check(trial.name, float(np.nan_to_num(off, nan=np.inf).max()), trial.allowed)


def _trials() -> Iterator[_Trial]:
    yield _matrix_product("matrix product", 1e-5)
    values = np.array([[-90, -3.5, -1e-3, 0, 1e-3, 0.5, 20, 80]], np.float32)
    logarithms = np.array([[0, 1e-30, 0.25, 1, 7, 1e30]], np.float32)
    with np.errstate(divide="ignore"):
        for op, x, expected in (
            ("EXP", values, np.exp(values)),
            ("TANH", values, np.tanh(values)),
            ("LOGISTIC", values, 1 / (1 + np.exp(-values.astype(np.float64)))),
            ("LOG", logarithms, np.log(logarithms)),
            ("SQRT", logarithms, np.sqrt(logarithms)),
            ("RSQRT", logarithms, 1 / np.sqrt(logarithms)),
        ):
            yield _unary(op, x, expected.astype(np.float32), 1e-5)
    x = np.random.default_rng(1).standard_normal((7, 37)).astype(np.float32)
    shifted = x - x.max(1, keepdims=True)
    sums = np.log(np.exp(shifted).sum(1, keepdims=True))
    yield _unary("LOG_SOFTMAX", x, shifted - sums, 1e-5)
    every_byte = np.arange(256, dtype=np.uint8).reshape(4, 64)
    yield _unary("RELU", every_byte, np.maximum(every_byte, 100), 0)


def _matrix_product(name: str, allowed: float) -> _Trial:
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 67), (19, 67), 19))
    graph = one_node_graph("FULLY_CONNECTED", (x, w, b, x @ w.T))
    return _Trial(name, graph, x, x @ w.T + b, allowed)


def _unary(op: str, x: Array, expected: Array, allowed: float) -> _Trial:
    graph = one_node_graph(op, (x, expected))
    if x.dtype == np.uint8:  # 100 stands for 0
        steps = Quantization((0.5,), (100,))
        graph = replace(graph, tensors=[replace(t, quantization=steps) for t in graph.tensors])
    return _Trial(f"{op} of {x.dtype}", graph, x, expected, allowed)
