"""Running cases on a device, in the forms that its profile has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gles_delegate.device.limits import Limits
from gles_delegate.errors import GLError, OutOfGpuMemoryError
from gles_delegate.gl.context import GpuContext
from gles_delegate.kernels.setting import option_of
from gles_delegate.model.graph import Array
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import Lowered, Lowerings
from gles_delegate.planning.plan import Plan, make_plan
from gles_delegate.planning.resizing import SHARED, numbers_of
from gles_delegate.runtime.constants import Constants
from gles_delegate.runtime.programs import Programs, Progress
from gles_delegate.runtime.sanitizer import StrayAccess
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.shared import Shared
from gles_delegate.verification.cases import VerificationCase
from gles_delegate.verification.deviation import ratio


@dataclass(frozen=True)
class Form:
    """A way to run a case.

    Attributes:
        half: Whether tensors are stored as float16.
        choice: An index among `Profile.choices`.
        constant: Whether sizes are constants instead of uniforms, and small dispatches in a row are
            one on llvmpipe; of quick cases only, as no two of these share programs.
    """

    limits: Limits
    half: bool = False
    choice: int = 0
    constant: bool = False

    @property
    def storage(self) -> str:
        return "float16" if self.half else "float32"

    @property
    def is_default(self) -> bool:
        """Whether a delegate uses it for its first runs on a GPU, without autotuning."""
        return not (self.choice or self.constant)


@dataclass(frozen=True)
class CaseResult:
    """The result of a case in one form.

    Attributes:
        error: The largest difference to LiteRT: of real numbers, relative to the largest one of the
            result; of quantized numbers, in steps.
        allowed: The largest difference that is right.
        failure: The reason why it did not run; empty if it did.
    """

    op: str
    name: str
    storage: str
    choice: int
    error: float
    allowed: float
    failure: str = ""

    @property
    def passed(self) -> bool:
        return not self.failure and self.error <= self.allowed

    @property
    def ratio(self) -> float:
        """The share of the allowed error."""
        return np.inf if self.failure else ratio(self.error, self.allowed)

    @property
    def wrong(self) -> str:
        """How it is wrong, for messages."""
        return self.failure or f"wrong by {self.error:.0e}"


def every_form(limits: Limits) -> list[Form]:
    """The forms that the device's profile has."""
    forms = forms_of(limits, limits.profile.half_storage, tuned=True)
    return [*forms, Form(limits, constant=True)]


def forms_of(limits: Limits, half: bool, tuned: bool) -> list[Form]:
    """The forms of delegates that may store float16, and that may tune themselves."""
    choices = range(limits.profile.choices if tuned else 1)
    halves = (False, True) if half else (False,)
    forms = [Form(limits, half, choice) for half in halves for choice in choices]
    profile = limits.profile
    if profile.first is not None:
        forms.append(Form(replace(limits, profile=profile.first)))
    # The cases are small: those that may go through Winograd's transforms do.
    everywhere = replace(profile, winograd=(1,), winograd_pixels=1)
    users = [choice for choice in choices if option_of(profile.winograd, choice)]
    forms += [Form(replace(limits, profile=everywhere), choice=choice) for choice in users[:1]]
    return forms


def verified(
    gpu: GpuContext,
    cases: Sequence[VerificationCase],
    forms: Sequence[Form],
    progress: Progress = lambda done, total: None,
) -> Iterator[CaseResult]:
    """Run cases in these forms, each distinct plan once; inside the guard of the context.

    Raises `ContextLostError` or `OutOfGpuMemoryError`, which say nothing about the kernels.
    """
    shared = Shared(gpu, Constants(gpu), Programs(gpu))
    try:
        for done, case in enumerate(cases):
            progress(done, len(cases))
            yield from _checked(case, shared, forms)
    finally:
        shared.programs.release()


def _checked(case: VerificationCase, shared: Shared, forms: Iterable[Form]) -> Iterator[CaseResult]:
    graph = read_model(case.model)
    inputs = dict(zip(graph.inputs, case.inputs, strict=True))
    done: list[object] = []
    lowered_for: dict[Limits, Lowered] = {}
    for form in forms:
        if (form.half and not case.half) or (form.constant and not case.quick):
            continue
        if form.limits not in lowered_for:
            lowerings = Lowerings(graph, form.limits)
            values = {index: inputs[index] for index in lowerings.shape_inputs}
            lowered_for[form.limits] = lowerings.lower({}, values=values)
        lowered = lowered_for[form.limits]
        choices = dict.fromkeys(range(len(graph.nodes)), form.choice)
        if lowered.reasons:  # the device lacks something that this op needs
            continue
        plan = make_plan(lowered, lowered.steps, form.limits, form.half, choices=choices)
        plan = plan.chained(form.limits) if form.constant else _with_uniforms(plan, form.limits)
        if (key := (plan.dispatches, plan.chains, plan.sources(form.limits))) in done:
            continue
        done.append(key)
        error, allowed, failure = 0.0, 0.0, ""
        try:
            results, stray_accesses = _results(
                plan, lowered, inputs, replace(shared, gpu=shared.gpu.with_limits(form.limits))
            )
            error, allowed = case.deviation(results, form.half)
            failure = str(stray_accesses[0]) if stray_accesses else ""
        except OutOfGpuMemoryError:
            raise
        except GLError as refusal:
            failure = " ".join(str(refusal).splitlines()[:2])
        yield CaseResult(case.op, case.name, form.storage, form.choice, error, allowed, failure)


def _with_uniforms(plan: Plan, limits: Limits) -> Plan:
    """The plan with uniforms for the numbers of conversions and `SHARED` shaders, as models have.

    The cases then share programs: compiling takes most of the time. Conversions that do no more
    have one work group's size.
    """
    if not limits.size_uniforms:
        return plan
    dispatches = []
    for d in plan.dispatches:
        if d.node < 0 or d.shader in SHARED:
            d = replace(d, uniforms=frozenset(numbers_of(d)))
        if d.node < 0 and not d.epilogue:
            lanes = min(d.grid.slices, 2)
            d = replace(d, grid=replace(d.grid, pixel_lanes=8, slice_lanes=lanes))
        dispatches.append(d)
    return replace(plan, dispatches=tuple(dispatches))


def _results(
    plan: Plan, lowered: Lowered, inputs: dict[int, Array], shared: Shared
) -> tuple[list[Array], list[StrayAccess]]:
    """The outputs of a run, and what its dispatches do to bytes that are not theirs."""
    session = Session(plan, lowered.graph, shared)
    try:
        for index in session.variables:
            tensor = lowered.graph.tensors[index]
            zeros = np.full(lowered.shapes[index], tensor.reset_value, tensor.dtype)
            session.write_variable(index, zeros)
        session.run(inputs)
        results = []
        for index in lowered.graph.outputs:
            tensor = lowered.graph.tensors[index]
            if index in session.outputs:
                array = np.empty(lowered.shapes[index], tensor.dtype)
                session.read(index, array)
            else:
                array = tensor.array()
            results.append(array)
        return results, session.sanitize()
    finally:
        session.release()
