"""Locks and identities of threads as the operating system has them, without gevent or eventlet."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def original(module: str, name: str) -> Any:
    """A function as it was before gevent or eventlet replaced it."""
    if gevent := sys.modules.get("gevent.monkey"):
        return gevent.get_original(module, name)
    eventlet = sys.modules.get("eventlet.patcher")
    return getattr(eventlet.original(module) if eventlet else import_module(module), name)


Lock: Callable[[], Any] = original("_thread", "allocate_lock")
RLock: Callable[[], Any] = original("_thread", "RLock")
get_ident: Callable[[], int] = original("_thread", "get_ident")
