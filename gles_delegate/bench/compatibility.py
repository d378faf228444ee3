"""A self-test: whether the delegate runs on a device and computes correctly."""

from __future__ import annotations

from contextlib import suppress

from gles_delegate.bench.kernels import half_slowdown
from gles_delegate.device.limits import Limits
from gles_delegate.errors import DelegateError
from gles_delegate.gl.context import GpuContext
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.runtime.programs import Progress
from gles_delegate.verification.cases import load_cases
from gles_delegate.verification.check import CaseResult, forms_of, verified

_MAX_NAMED = 3
"""Wrong results that the reason names."""


class CompatibilityList:
    """Whether the delegate runs on a device, and the best options for it.

    TFLite's class of this name looks up the device in a list. This one runs the models of
    ``gles-delegate verify --quick``, and compares their results with LiteRT's.

    Args:
        device_index: One of `list_devices`; None for the best.
        progress: Called with the number of models that have run, and of all.

    Attributes:
        vendor: The driver's vendor string; empty if there is no device.
        renderer: The driver's name of the device; empty if there is none.
        version: The driver's version string; empty if there is no device.
        limits: The limits of its compute shaders; None if there is no device.
        checks: The results of the models, with float32 and, if the device has it, float16 storage.
        reason: The reason why the delegate is not supported; empty if it is.

    Examples:
        >>> device = gd.CompatibilityList()
        >>> device.is_delegate_supported_on_this_device, device.reason
        (True, '')
        >>> delegate = gd.GpuDelegate(device.best_options_for_this_device())
    """

    def __repr__(self) -> str:
        return f"<CompatibilityList: {self.reason or f'{self.renderer} is supported'}>"

    def __init__(
        self, device_index: int | None = None, progress: Progress = lambda done, total: None
    ) -> None:
        self._device_index = device_index
        self.vendor = self.renderer = self.version = self.reason = ""
        self.limits: Limits | None = None
        self.checks: tuple[CaseResult, ...] = ()
        try:
            gpu = GpuContext(None, device_index)
        except DelegateError as error:
            self.reason = str(error)
            return
        self.vendor, self.renderer, self.version = gpu.driver.identity
        self.limits = gpu.limits
        forms = forms_of(gpu.limits, gpu.limits.profile.half_storage, tuned=False)
        try:
            with gpu.guard():
                self.checks = tuple(verified(gpu, load_cases(quick=True), forms, progress))
        except DelegateError as error:
            self.reason = str(error)
            return
        finally:
            gpu.release()
        wrong = [f"{c.name}: {c.wrong}" for c in self._with("float32") if not c.passed]
        if wrong:
            more = f"; {len(wrong) - _MAX_NAMED} more" if len(wrong) > _MAX_NAMED else ""
            self.reason = (
                f"{self.renderer}, {self.version}, computes wrong results "
                f"({'; '.join(wrong[:_MAX_NAMED])}{more}): try another version of the driver, "
                "another device, or GpuDelegateOptions(verify=True), which leaves these ops to the "
                "CPU"
            )

    def _with(self, storage: str) -> list[CaseResult]:
        return [check for check in self.checks if check.storage == storage]

    @property
    def is_delegate_supported_on_this_device(self) -> bool:
        return not self.reason

    def best_options_for_this_device(self) -> GpuDelegateOptions:
        """Options for a `GpuDelegate`: float16 storage if all its results are right, and faster.

        If it passed, each call measures two convolutions in a new context.
        """
        index = self._device_index
        halves = self._with("float16")
        is_better = False
        if halves and all(check.passed for check in halves):
            with suppress(DelegateError):
                gpu = GpuContext(None, index)
                try:
                    is_better = half_slowdown(gpu) < 1
                finally:
                    gpu.release()
        return GpuDelegateOptions(precision_loss_allowed=is_better, device_index=index)
