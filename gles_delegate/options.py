"""What a user may ask of a delegate: the options of TfLiteGpuDelegateOptionsV2, and our own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import IntEnum


class InferencePreference(IntEnum):
    """How a model is used (TfLiteGpuInferenceUsage)."""

    FAST_SINGLE_ANSWER = 0
    SUSTAINED_SPEED = 1
    BALANCED = 2


class InferencePriority(IntEnum):
    """What matters in a run (TfLiteGpuInferencePriority)."""

    AUTO = 0
    MAX_PRECISION = 1
    MIN_LATENCY = 2
    MIN_MEMORY_USAGE = 3


@dataclass(frozen=True)
class GpuDelegateOptions:
    """Options of a `GpuDelegate`; names, meaning and defaults are those of TFLite's, where it has
    the option.

    Attributes:
        precision_loss_allowed: Short for the priorities: True puts MIN_LATENCY first, False
            MAX_PRECISION; None leaves it to them.
        inference_preference: With FAST_SINGLE_ANSWER and BALANCED, the first answer comes soonest:
            layers share few, small programs. SUSTAINED_SPEED measures a few tiles for each
            kernel when a model is prepared and takes the fastest, which multiplies the time of
            preparation; the choice is kept with `serialization_dir`.
        inference_priority1, inference_priority2, inference_priority3: What matters most, second
            and least. Unless MAX_PRECISION is first, tensors and weights are stored as float16
            where that is faster, which it is on GPUs; results are right to about a hundredth of
            their scale then. AUTO, in the second and third or only in the third place, stands
            for what is left, as `priorities` says.
        quantized_models_allowed: Take 8-bit tensors, as the real numbers they stand for;
            otherwise nodes with such tensors stay off the GPU.
        max_delegated_partitions: Segments of a split graph that run on the GPU, the largest.
        first_delegate_node_index, last_delegate_node_index: Only nodes from the one to the other,
            both included, run on the GPU; to find the node that spoils a result.
        require_full_delegation: Refuse a model of which some nodes would stay on the CPU.
        serialization_dir: Keep packed weights, compiled programs and, if the context is the
            delegate's own, Mesa's shader cache in this folder, so that the next start is quicker.
        model_token: Names the model's file in that folder; None takes a hash of the model.
        own_thread: Keep a thread for the GL calls, so that any thread may call the
            interpreter. Otherwise the thread that bound the model must.
        device_index: The device of `list_devices` to make the context on; None for the best.
        pin_software_threads: On Mesa's software rasteriser, give each of its threads a processor
            of its own: up to twice as fast, unless other programs keep those processors busy.
        software_vector_bits: The width of that rasteriser's vectors, 128, 256 or 512, for the
            whole process; None leaves it to Mesa, which takes 256 at most. Only before anything
            else in the process has used EGL.

    Raises:
        ValueError: A value is out of its range, or values exclude each other.
    """

    precision_loss_allowed: bool | None = None
    inference_preference: InferencePreference = InferencePreference.FAST_SINGLE_ANSWER
    inference_priority1: InferencePriority = InferencePriority.MAX_PRECISION
    inference_priority2: InferencePriority = InferencePriority.AUTO
    inference_priority3: InferencePriority = InferencePriority.AUTO
    quantized_models_allowed: bool = True
    max_delegated_partitions: int = 1
    first_delegate_node_index: int = 0
    last_delegate_node_index: int | None = None
    require_full_delegation: bool = False
    serialization_dir: str | os.PathLike[str] | None = None
    model_token: str | None = None
    own_thread: bool = False
    device_index: int | None = None
    pin_software_threads: bool = True
    software_vector_bits: int | None = None

    def __post_init__(self) -> None:
        _convert(self, InferencePreference, "inference_preference")
        for name in _PRIORITIES:
            _convert(self, InferencePriority, name)
        given = tuple(getattr(self, name) for name in _PRIORITIES)
        auto = InferencePriority.AUTO
        named = [priority for priority in given if priority != auto]
        if given[0] == auto:
            raise ValueError("inference_priority1 cannot be AUTO: say what matters most")
        if given[1] == auto != given[2]:
            raise ValueError("inference_priority3 must be AUTO where inference_priority2 is")
        if len(set(named)) < len(named):
            raise ValueError(
                "expected three different inference priorities, found "
                + ", ".join(priority.name for priority in given)
            )
        if self.precision_loss_allowed is not None and given != _DEFAULT_PRIORITIES:
            raise ValueError(
                "precision_loss_allowed stands for the inference priorities: give it or them"
            )
        if self.max_delegated_partitions < 1:
            raise ValueError(
                f"max_delegated_partitions must be 1 or more, not {self.max_delegated_partitions}"
            )
        first, last = self.first_delegate_node_index, self.last_delegate_node_index
        if first < 0 or (last is not None and last < first):
            raise ValueError(
                "expected 0 <= first_delegate_node_index <= last_delegate_node_index, found "
                f"{first} and {last}"
            )
        if self.model_token is not None and self.serialization_dir is None:
            raise ValueError("model_token names a file in serialization_dir: give that as well")
        if self.software_vector_bits not in (None, 128, 256, 512):
            raise ValueError(
                f"software_vector_bits must be 128, 256 or 512, not {self.software_vector_bits!r}"
            )
        if self.device_index is not None and self.device_index < 0:
            raise ValueError(f"device_index must be 0 or more, not {self.device_index}")

    @property
    def priorities(self) -> tuple[InferencePriority, InferencePriority, InferencePriority]:
        """The three priorities, with what AUTO stands for put in its place."""
        first = InferencePriority(self.inference_priority1)
        if self.precision_loss_allowed is not None:
            first = (
                InferencePriority.MIN_LATENCY
                if self.precision_loss_allowed
                else InferencePriority.MAX_PRECISION
            )
        second = self.inference_priority2 or _SECOND[first]
        (third,) = {*_SECOND} - {first, second}
        return first, second, third

    @property
    def half_allowed(self) -> bool:
        """Whether tensors may be stored as float16."""
        return self.priorities[0] != InferencePriority.MAX_PRECISION


_PRIORITIES = ("inference_priority1", "inference_priority2", "inference_priority3")
_DEFAULT_PRIORITIES = tuple(getattr(GpuDelegateOptions, name) for name in _PRIORITIES)
_SECOND = {
    InferencePriority.MAX_PRECISION: InferencePriority.MIN_LATENCY,
    InferencePriority.MIN_LATENCY: InferencePriority.MIN_MEMORY_USAGE,
    InferencePriority.MIN_MEMORY_USAGE: InferencePriority.MAX_PRECISION,
}
"""What comes after the first priority where the second is AUTO, as TFLite's
delegates/gpu/api.cc (ResolveAutoPriority) has it."""


def _convert(options: GpuDelegateOptions, kind: type[IntEnum], name: str) -> None:
    """Take TFLite's numbers for the members of an enumeration."""
    value = getattr(options, name)
    try:
        object.__setattr__(options, name, kind(value))
    except ValueError:
        members = ", ".join(f"{member.name} ({member.value})" for member in kind)
        raise ValueError(f"{name} must be one of {members}; not {value!r}") from None
