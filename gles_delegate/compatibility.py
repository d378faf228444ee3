"""A self-test: whether the delegate runs on a device and computes correctly."""

from __future__ import annotations

from dataclasses import dataclass

from gles_delegate.bench.device import half_slowdown
from gles_delegate.errors import DelegateError
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.thread import GlThread
from gles_delegate.limits import Limits
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.verification.cases import VerificationCase, load_cases
from gles_delegate.verification.check import CaseResult, Form, verified

_OPS = (
    *("CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "EXP", "FULLY_CONNECTED", "LOG"),
    *("LOGISTIC", "LOG_SOFTMAX", "RSQRT", "SQRT", "TANH"),
)
_OP_IN_HALF = "FULLY_CONNECTED"


@dataclass(frozen=True)
class Check:
    """The result of a small model on the device.

    Attributes:
        error: The largest difference from LiteRT's result: of real numbers, relative to the largest
            one of the result; of quantized numbers, in steps.
        allowed: The largest difference that passes.
        failure: The reason why it did not run, or what it wrote elsewhere; empty if it did.
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

    TFLite's class of this name looks up the device in a list. This one runs a few of the models of
    ``gles-delegate verify``, and compares their results with LiteRT's.

    Args:
        device_index: One of `list_devices`; None for the best.

    Attributes:
        vendor: The driver's vendor string; empty if there is no device.
        renderer: The driver's name of the device; empty if there is none.
        version: The driver's version string; empty if there is no device.
        limits: The limits of its compute shaders; None if there is no device.
        checks: The results of the models.
        reason: The reason why the delegate is not supported; empty if it is.

    Examples:
        >>> device = gd.CompatibilityList()
        >>> device.is_delegate_supported_on_this_device, device.reason
        (True, '')
        >>> delegate = gd.GpuDelegate(device.best_options_for_this_device())
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
            cases = [case for case in load_cases() if case.quick]
            self.checks = _checks(thread, [case for case in cases if case.op in _OPS], half=False)
            failed = "; ".join(str(check) for check in self.checks if not check.passed)
            if thread.gpu.limits.profile.half_storage:
                halves = _checks(
                    thread, [case for case in cases if case.op == _OP_IN_HALF], half=True
                )
                self._half = all(check.passed for check in halves)
                self.checks += halves
        except DelegateError as error:
            self.reason = str(error)
            return
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

    def best_options_for_this_device(self) -> GpuDelegateOptions:
        """Options for a `GpuDelegate`: float16 storage if it passed its check and is faster.

        If it passed, each call measures two convolutions in a new context.
        """
        return GpuDelegateOptions(
            precision_loss_allowed=self._half and self._half_is_faster(),
            device_index=self._device_index,
        )

    def _half_is_faster(self) -> bool:
        try:
            gpu = GpuContext(None, self._device_index)
            try:
                return half_slowdown(gpu) < 1
            finally:
                gpu.release()
        except DelegateError:
            return False


def _checks(thread: GlThread, cases: list[VerificationCase], half: bool) -> tuple[Check, ...]:
    """The results of these cases, in the form of a delegate's first run."""
    form = Form(thread.gpu.limits, half)
    results = thread.run(lambda: [*verified(thread.gpu, cases, [form])])
    return tuple(
        Check(_name(result), result.error, result.allowed, result.failure) for result in results
    )


def _name(result: CaseResult) -> str:
    """The op, and the kind of its numbers if they are not float32: "CONV_2D (8-bit)"."""
    op, *details = result.name.split()
    kind = f" {details[0]}" if details and details[0].startswith("(") else ""
    storage = " with float16 storage" if result.storage == "float16" else ""
    return f"{op}{kind}{storage}"
