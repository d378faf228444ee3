"""The GL calls of a delegate and of moderngl, written down while they are made."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import moderngl
import pytest

from gles_delegate.gl.functions import Functions

_CLASSES = (moderngl.Buffer, moderngl.Texture, moderngl.Framebuffer, moderngl.Context)


@contextmanager
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yields the list of calls, by the GL function's name or moderngl's class and method.

    Delegates made inside are seen, and every use of moderngl's buffers, textures and contexts.
    """
    calls: list[str] = []

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            calls.append(name)
            return function(*arguments, **named)

        return call

    unchecked = Functions.unchecked
    with monkeypatch.context() as patch:
        patch.setattr(Functions, "unchecked", lambda gl, n: noted(n, unchecked(gl, n)))
        patch.setattr(Functions, "prepared", lambda gl, n, *a: (gl.unchecked(n), a))
        for kind in _CLASSES:
            for name, method in vars(kind).items():
                if callable(method) and not name.startswith("_"):
                    patch.setattr(kind, name, noted(f"{kind.__name__}.{name}", method))
        yield calls
