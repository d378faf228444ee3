"""What all that must be closed has in common."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

T = TypeVar("T", bound="Closing")


class Closing:
    """Closed by ``with`` at its end."""

    def close(self) -> None:
        """Free what it holds; a second call does nothing."""
        raise NotImplementedError

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
