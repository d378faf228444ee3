"""The errors of the package.

Invalid arguments (a shape, a dtype, an index) raise plain ``ValueError``, ``TypeError`` or
``IndexError``, as in numpy and LiteRT.
"""

from __future__ import annotations

from collections.abc import Sequence


class DelegateError(RuntimeError):
    """Base of the package's errors."""


class ModelError(DelegateError, ValueError):
    """The bytes are not a .tflite model, are cut off, or are damaged."""


class UnsupportedModelError(DelegateError):
    """Some nodes do not run on the GPU.

    Attributes:
        nodes: ``(index, op, reason)`` of each such node.
    """

    def __init__(self, message: str, nodes: Sequence[tuple[int, str, str]] = ()) -> None:
        super().__init__(message)
        self.nodes = tuple(nodes)


class ContextError(DelegateError):
    """There is no usable OpenGL ES context, or it cannot be used here."""


class WrongThreadError(ContextError):
    """The call came from a different thread than the one that the delegate is bound to."""


class WrongContextError(ContextError):
    """The context that the delegate adopted is not current, or an object belongs to another one."""


class ContextLostError(ContextError):
    """The driver reset the context, and its objects are lost.

    Close the delegate, and give the interpreter another one with `modify_graph_with_delegate`.
    """


class GLError(DelegateError):
    """OpenGL ES or EGL refused a call; the message names the call and the constant."""


class ShaderError(GLError):
    """A shader did not compile or link; the message names the GLSL file and line."""


class OutOfGpuMemoryError(GLError, MemoryError):
    """A buffer exceeds the device's memory or limits."""


class LiteRtError(DelegateError):
    """LiteRT refused the delegate, disagrees with the model's bytes, or failed to run its nodes."""


def reason_of(error: Exception) -> str:
    """The text of an error, for an OSError without its number and file."""
    return str(getattr(error, "strerror", None) or error)


def sentence_of(error: Exception) -> str:
    """The text of an error for users; for an OSError, the file and the reason."""
    if isinstance(error, OSError) and error.strerror:
        file = "" if error.filename is None else f"cannot open {error.filename}: "
        return file + error.strerror
    return str(error)
