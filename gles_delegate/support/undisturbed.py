"""Blocks in which Python runs nothing of an app's in between."""

from __future__ import annotations

from gles_delegate.support import collector
from gles_delegate.support.collector import CollectorOff
from gles_delegate.support.signals import SignalsDeferred


class Undisturbed:
    """In a ``with`` block neither the collector nor handlers of signals run on this thread."""

    def __init__(self) -> None:
        self._off = CollectorOff()
        self._deferred = SignalsDeferred()

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *raised: object) -> None:
        self.end()

    @property
    def is_due(self) -> bool:
        """Whether a handler or the collector waits for the end."""
        return self._deferred.is_due or collector.is_due()

    def begin(self) -> None:
        self._deferred.begin()
        self._off.begin()

    def end(self) -> None:
        self._off.end()
        self._deferred.end()
