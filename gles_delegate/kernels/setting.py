"""The facts that decide between kernels, apart from the product itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import Profile
from gles_delegate.model.graph import Tensor

Option = TypeVar("Option")


@dataclass(frozen=True)
class Setting:
    """What a kernel is chosen for.

    Attributes:
        tensors: The tensors of the graph, of which constants are packed.
        half: Tensors and weights are stored as float16.
        choice: Index among `Profile.choices`.
    """

    limits: Limits
    tensors: Sequence[Tensor]
    half: bool = False
    choice: int = 0

    @property
    def profile(self) -> Profile:
        return self.limits.profile

    def option(self, options: Sequence[Option]) -> Option:
        """The option for `choice`; see `option_of`."""
        return option_of(options, self.choice)


def option_of(options: Sequence[Option], choice: int) -> Option:
    """The option at index `choice`, or the last one."""
    return options[min(choice, len(options) - 1)]
