"""The options of a delegate: TfLiteGpuDelegateOptionsV2's, and additional ones."""

from __future__ import annotations

import os
import reprlib
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import IntEnum
from types import NoneType
from typing import TYPE_CHECKING, Any, SupportsIndex


class InferencePreference(IntEnum):
    """How a model is used (TfLiteGpuInferenceUsage)."""

    FAST_SINGLE_ANSWER = 0
    SUSTAINED_SPEED = 1
    BALANCED = 2


class InferencePriority(IntEnum):
    """An aim of the optimization (TfLiteGpuInferencePriority)."""

    AUTO = 0
    MAX_PRECISION = 1
    MIN_LATENCY = 2
    MIN_MEMORY_USAGE = 3


@dataclass(frozen=True)
class GpuDelegateOptions:
    """Options of a `GpuDelegate`.

    Options shared with TFLite's GPU delegate have the same names, meanings and defaults.

    Attributes:
        precision_loss_allowed: A shorthand for the priorities: True puts MIN_LATENCY first, False
            MAX_PRECISION. None: see the priorities.
        inference_preference: FAST_SINGLE_ANSWER and BALANCED give the first answer soonest: layers
            share few small programs. SUSTAINED_SPEED chooses register tiles by autotuning, so
            preparing a model takes several times as long. `serialization_dir` stores the choice.
        inference_priority1: The top priority. Unless it is MAX_PRECISION, tensors and weights are
            stored as float16 where that is faster, as on GPUs. Results are then accurate to about
            a hundredth of their scale.
        inference_priority2: The second priority. AUTO: MIN_LATENCY after MAX_PRECISION,
            MIN_MEMORY_USAGE after MIN_LATENCY, MAX_PRECISION after MIN_MEMORY_USAGE. If
            MIN_MEMORY_USAGE comes before MIN_LATENCY, int8 and int4 weights take no more memory
            than in the model; on GPUs, runs then take up to 1.5 times as long.
        inference_priority3: The lowest priority. AUTO: the remaining one.
        quantized_models_allowed: Run nodes with quantized tensors on the GPU. They are dequantized,
            computed in float, and each result is requantized.
        max_delegated_partitions: Maximum number of graph segments delegated to the GPU, the largest
            first.
        first_delegate_node_index: Run no node before this one on the GPU. Together with the next
            option, it helps to find the node that makes a result wrong.
        last_delegate_node_index: Run no node after this one on the GPU.
        require_full_delegation: Raise an error if any node would run on the CPU.
        verify: Before the first use of a driver, run a case of each op, which takes some seconds.
            Ops that the driver computes wrong run on the CPU, and the report names them.
            `serialization_dir` stores the verdict.
        serialization_dir: Store packed weights and compiled programs in this folder for the next
            start; also Mesa's shader cache, if the context is the delegate's own. A relative path
            becomes absolute when the options are made.
        model_token: The name of the model's file in that folder; None: a hash of the model.
        own_thread: Start a thread for the GL calls, so that any thread may call the interpreter.
            Otherwise only the thread that bound the model may.
        device_index: Create the context on this device of `list_devices`; None: the best.
        pin_software_threads: On Mesa's software rasterizer, pin each of its threads to its own
            processor. This is up to twice as fast, unless other programs use the processors.
        background_compilation: On Mesa's software rasterizer, in the delegate's own context, run
            small programs first: the first answer comes in half the time. After the second run, a
            thread of low priority compiles programs that are 1.05 to 1.5 times as fast, and a
            later run switches to them. The results are the same.
        winograd: On GPUs where it is faster, compute convolutions with 3 x 3 windows by Winograd's
            algorithm, with a quarter of the multiplications. Errors are up to twice as large,
            relative to the largest input of a tile of 6 x 6 pixels, and what is not finite spreads
            over its tile. Also off with ``precision_loss_allowed=False``, and if MIN_MEMORY_USAGE
            comes before MIN_LATENCY. float16 storage does without it, too.
        software_vector_bits: Vector width of that rasterizer, for the whole process: 128, 256 or
            512. None: Mesa's default, at most 256. If the processor's vectors are shorter, the
            default stays and a warning is logged. Set it before the process first uses EGL. With
            512, Mesa 25 may crash as the process draws.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is out of range, or values contradict each other.

    Examples:
        >>> options = gd.GpuDelegateOptions(serialization_dir="cache", own_thread=True)
        >>> with gd.GpuDelegate(options) as delegate:
        ...     interpreter = gd.Interpreter("segmenter.tflite", experimental_delegates=[delegate])
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
    verify: bool = False
    serialization_dir: str | os.PathLike[str] | None = None
    model_token: str | None = None
    own_thread: bool = False
    device_index: int | None = None
    pin_software_threads: bool = True
    background_compilation: bool = True
    winograd: bool = True
    software_vector_bits: int | None = None

    if not TYPE_CHECKING:

        def __new__(cls, *values, **named):
            names = [field.name for field in fields(cls)]
            for name in named.keys() - names:
                similar = get_close_matches(name, names, n=1)
                hint = f"; did you mean {similar[0]}?" if similar else ""
                raise TypeError(f"{cls.__name__} has no option {name!r}{hint}")
            return super().__new__(cls)

    def __post_init__(self) -> None:
        for field in fields(self):
            _require_type(field.name, getattr(self, field.name), str(field.type).split(" | "))
        _convert(self, InferencePreference, "inference_preference")
        for name in _PRIORITIES:
            _convert(self, InferencePriority, name)
        priorities = tuple(getattr(self, name) for name in _PRIORITIES)
        auto = InferencePriority.AUTO
        named = [priority for priority in priorities if priority != auto]
        if priorities[0] == auto:
            raise ValueError("inference_priority1 cannot be AUTO: choose the top priority")
        if priorities[1] == auto != priorities[2]:
            raise ValueError("inference_priority3 must be AUTO if inference_priority2 is")
        if len(set(named)) < len(named):
            raise ValueError(
                "expected three different inference priorities, found "
                + ", ".join(priority.name for priority in priorities)
            )
        if self.precision_loss_allowed is not None and priorities != _DEFAULT_PRIORITIES:
            raise ValueError(
                "precision_loss_allowed is a shorthand for the inference priorities: give one or "
                "the other"
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
        if self.serialization_dir is not None:
            object.__setattr__(self, "serialization_dir", _absolute(self.serialization_dir))
        if self.model_token is not None and self.serialization_dir is None:
            raise ValueError("model_token names a file in serialization_dir: set that, too")
        if self.software_vector_bits not in (None, 128, 256, 512):
            raise ValueError(
                f"software_vector_bits must be 128, 256 or 512, not {self.software_vector_bits!r}"
            )
        if self.device_index is not None and self.device_index < 0:
            raise ValueError(f"device_index must be 0 or more, not {self.device_index}")

    @property
    def priorities(self) -> tuple[InferencePriority, InferencePriority, InferencePriority]:
        """The three priorities, with AUTO resolved."""
        first = InferencePriority(self.inference_priority1)
        if self.precision_loss_allowed is not None:
            speed, precision = InferencePriority.MIN_LATENCY, InferencePriority.MAX_PRECISION
            first = speed if self.precision_loss_allowed else precision
        second = self.inference_priority2 or _SECOND[first]
        (third,) = {*_SECOND} - {first, second}
        return first, second, third

    @property
    def half_allowed(self) -> bool:
        """Whether tensors may be stored as float16."""
        return self.priorities[0] != InferencePriority.MAX_PRECISION

    @property
    def saves_memory(self) -> bool:
        """Whether memory comes before speed."""
        least, fast = InferencePriority.MIN_MEMORY_USAGE, InferencePriority.MIN_LATENCY
        return self.priorities.index(least) < self.priorities.index(fast)

    @property
    def winograd_allowed(self) -> bool:
        """Whether convolutions may take more memory, and larger errors, to be faster."""
        return self.winograd and self.precision_loss_allowed is not False and not self.saves_memory


_PRIORITIES = ("inference_priority1", "inference_priority2", "inference_priority3")
_DEFAULT_PRIORITIES = tuple(getattr(GpuDelegateOptions, name) for name in _PRIORITIES)
_SECOND = {
    InferencePriority.MAX_PRECISION: InferencePriority.MIN_LATENCY,
    InferencePriority.MIN_LATENCY: InferencePriority.MIN_MEMORY_USAGE,
    InferencePriority.MIN_MEMORY_USAGE: InferencePriority.MAX_PRECISION,
}
"""The second priority, if it is AUTO, by the first; ResolveAutoPriority in TFLite's
delegates/gpu/api.cc."""

_TYPES: dict[str, tuple[Any, str]] = {
    "bool": (bool, "True or False"),
    "int": (SupportsIndex, "an int"),
    "str": (str, "a str"),
    "os.PathLike[str]": (os.PathLike, "a Path"),
    "None": (NoneType, "None"),
}
"""The type, and its name in messages, by annotation."""


def _require_type(name: str, value: object, annotations: list[str]) -> None:
    kinds = [_TYPES[text] for text in annotations if text in _TYPES]
    if not kinds:  # an enumeration
        return
    is_bool = isinstance(value, bool)  # bool is a subclass of int
    if any(isinstance(value, kind) for kind, _ in kinds if (kind is bool) or not is_bool):
        return
    expected = " or ".join(words for _, words in kinds)
    raise TypeError(f"{name} must be {expected}, not {reprlib.repr(value)}")


def _absolute(folder: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The folder as it is, or else in the current folder, whatever that is later."""
    path = os.fsdecode(folder)
    try:
        if b"\0" in os.fsencode(path):
            raise ValueError("it has a null character")
        return folder if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    except OSError as error:
        raise ValueError(
            f"serialization_dir {path!r} is relative, but the current folder is gone: give an "
            "absolute path"
        ) from error
    except ValueError as error:  # characters that no file name has
        raise ValueError(
            f"serialization_dir must be the path of a folder, not {path!r}: {error}"
        ) from error


def _convert(options: GpuDelegateOptions, kind: type[IntEnum], name: str) -> None:
    """Convert TFLite's number to a member of an enumeration."""
    value = getattr(options, name)
    try:
        if isinstance(value, bool):
            raise ValueError
        object.__setattr__(options, name, kind(value))
    except ValueError:
        members = ", ".join(f"{member.name} ({member.value})" for member in kind)
        raise ValueError(f"{name} must be one of {members}; not {value!r}") from None
