"""TFLite's external delegate: what the library of `gles-delegate library` calls."""

from __future__ import annotations

import ctypes
import sys

from gles_delegate.errors import sentence_of
from gles_delegate.hosts.delegate import GpuDelegate
from gles_delegate.hosts.loading import load_delegate
from gles_delegate.litert.check import OWN_MODULE, require_layout_of
from gles_delegate.litert.native import LateDelegate, Model
from gles_delegate.model.graph import Graph

_Report = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_Texts = ctypes.POINTER(ctypes.c_char_p)


class _External:
    """A delegate that LiteRT's interpreter gives its model, and which LiteRT destroys."""

    def __init__(self, options: dict[str, object]) -> None:
        require_layout_of(_interpreter_module())
        # Such programs know nothing of our threads: any of theirs may call the interpreter.
        delegate = load_delegate(options={"own_thread": True, **options})
        self._delegate: GpuDelegate = delegate
        self.native = LateDelegate(None, self._bind)

    def _bind(self, graph: Graph) -> dict[int, Model]:
        bound = self._delegate.bind(graph)
        bound.thread.need_not_be_closed()
        return dict(bound.subgraphs)

    def close(self) -> None:
        self._delegate.close()


_delegates: dict[int, _External] = {}
"""By the address of the structure that LiteRT has."""


def create(keys: int, values: int, count: int, report: int) -> int:
    """Make a delegate: ``tflite_plugin_create_delegate``.

    Args:
        keys: The address of the options' names, as C strings; see `load_delegate`.
        values: The address of their values.
        count: Their number.
        report: The address of a function that takes a message; 0 if there is none.

    Returns:
        The address of a TfLiteDelegate, or 0 after the reason was reported.
    """
    try:
        texts = [ctypes.cast(each, _Texts)[:count] if count else [] for each in (keys, values)]
        names, settings = ([_text(item) for item in each] for each in texts)
        delegate = _External(dict(zip(names, settings, strict=True)))
        pointer = delegate.native._get_native_delegate_pointer()
        _delegates[pointer] = delegate
        return pointer
    except Exception as error:
        if report:
            _Report(report)(sentence_of(error).encode())
        return 0


def destroy(pointer: int) -> None:
    """Close a delegate of `create`: ``tflite_plugin_destroy_delegate``."""
    delegate = _delegates.pop(pointer, None)
    if delegate is not None and not sys.is_finalizing():  # the end of the process frees everything
        delegate.close()


def _interpreter_module() -> str:
    """The module of the interpreter whose `load_delegate` is running."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        name = str(frame.f_globals.get("__name__", ""))
        if frame.f_code.co_name == "load_delegate" and name.endswith(".interpreter"):
            return name
    return OWN_MODULE


def _text(item: bytes | None) -> str:
    return (item or b"").decode("utf-8", "replace")
