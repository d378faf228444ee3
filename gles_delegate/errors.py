"""The errors of the package.

::

    DelegateError (RuntimeError)
    ├── ModelError (also ValueError)      the bytes are not a usable .tflite model
    ├── UnsupportedModelError             nodes that the GPU does not take
    ├── ContextError                      no EGL, no device, no usable context
    │   ├── WrongThreadError              called from another thread than the delegate's
    │   ├── WrongContextError             another context is current than the adopted one
    │   └── ContextLostError              the driver reset the context
    ├── GLError                           OpenGL ES or EGL refused a call
    │   ├── ShaderError                   a shader did not compile or link
    │   └── OutOfGpuMemoryError (also MemoryError)
    └── LiteRtError                       LiteRT refused, disagreed, or failed on the CPU

Arguments that are wrong in themselves (a shape, a dtype, an index) are plain
``ValueError``, ``TypeError`` or ``IndexError``, as numpy and LiteRT raise them.
"""

from __future__ import annotations

from collections.abc import Sequence


class DelegateError(RuntimeError):
    """Base of every error that this package raises on its own account."""


class ModelError(DelegateError, ValueError):
    """The bytes are no .tflite model, are cut off, or are damaged."""


class UnsupportedModelError(DelegateError):
    """Some nodes do not run on the GPU.

    Attributes:
        nodes: ``(index, op, reason)`` of each such node.
    """

    def __init__(self, message: str, nodes: Sequence[tuple[int, str, str]] = ()) -> None:
        super().__init__(message)
        self.nodes = tuple(nodes)


class ContextError(DelegateError):
    """No usable OpenGL ES context could be had, or it cannot be used here."""


class WrongThreadError(ContextError):
    """The call came from another thread than the one the delegate was bound to."""


class WrongContextError(ContextError):
    """Another context is current than the one the delegate adopted."""


class ContextLostError(ContextError):
    """The driver reset the context: its objects are gone.

    Close the delegate, and give the interpreter another one with `modify_graph_with_delegate`.
    """


class GLError(DelegateError):
    """OpenGL ES or EGL refused a call; the message names the call and the constant."""


class ShaderError(GLError):
    """A shader did not compile or link; the message names our file and line."""


class OutOfGpuMemoryError(GLError, MemoryError):
    """A buffer did not fit into the memory or the limits of the device."""


class LiteRtError(DelegateError):
    """LiteRT refused the delegate, disagrees with the model's bytes, or failed to run its nodes."""


def reason_of(error: Exception) -> str:
    """The text of an error, without the number and the file that an OSError's has."""
    return str(getattr(error, "strerror", None) or error)


def sentence_of(error: Exception) -> str:
    """The text of an error for people: of an OSError, which file cannot be used, and why."""
    if isinstance(error, OSError) and error.strerror:
        file = "" if error.filename is None else f"cannot open {error.filename}: "
        return file + error.strerror
    return str(error)
