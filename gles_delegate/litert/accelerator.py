"""LiteRT 2's GPU accelerator: what it does to LiteRT, tried with ai-edge-litert 2.2 and 2.3.

- It writes the library that `Environment.create(runtime_path=...)` loads, an ELF file of nothing
  but data, filled with Python callbacks. With LiteRT's wheel for Python there is no other way to
  add an accelerator. A program in C can also set `LiteRtStaticLinkedAcceleratorGpuDef`, or call
  `LiteRtRegisterAccelerator`; but a second copy of LiteRT, which exports nothing, makes Python's
  environments, and these are C++ objects of a private layout.
- It reads a model's address from LiteRT's options for accelerators: no function returns it.
- It wraps two functions of LiteRT's module, so that one thread at a time creates models: in LiteRT,
  two would wait for each other forever.
- It keeps LiteRT's own WebGPU accelerator from being loaded: 17 MB that nothing uses, with
  instructions that processors before ARMv8.1 lack.
"""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import sys
from _ctypes import dlclose
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_int, c_void_p, sizeof
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, ParamSpec, Protocol, TypeVar

from gles_delegate.errors import LiteRtError
from gles_delegate.litert.elf import data_library

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger("gles_delegate")

LIBRARY, SYMBOL = "libLiteRtGpuAccelerator.so", "LiteRtAcceleratorImpl"

WEBGPU_LIBRARY = "libLiteRtWebGpuAccelerator.so"

_GPU = 2  # its bit in LiteRtHwAcceleratorSet
_DISPATCH = b"dispatch_delegate"  # identifier of the options that hold the model's address
_OK, _RUNTIME_FAILURE = 0, 3

_Name = CFUNCTYPE(c_int)
_Version = CFUNCTYPE(c_int, c_void_p, POINTER(c_int * 3))
_Hardware = CFUNCTYPE(c_int, c_void_p, POINTER(c_int))
_Compiles = CFUNCTYPE(c_int, c_void_p, POINTER(ctypes.c_bool))
_Create = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p, POINTER(c_void_p))
_Delete = CFUNCTYPE(None, c_void_p)

_SHORTS = ("struct_size", "major_version", "minor_version", "reserved")


class _Definition(Structure):
    """LiteRtAcceleratorDefV1 of litert/c/internal/litert_accelerator_def.h."""

    _fields_ = (
        *((name, ctypes.c_uint16) for name in _SHORTS),
        ("get_name", _Name),
        ("get_version", _Version),
        ("get_hardware_support", _Hardware),
        ("compiles_at_run_time", _Compiles),
        ("create_delegate", _Create),
        ("start_metrics", c_void_p),
        ("stop_metrics", c_void_p),
        ("buffer_handlers", ctypes.c_ubyte * 136),
    )


class Delegate(Protocol):
    """The delegate that LiteRT gets for one compiled model."""

    @property
    def pointer(self) -> int: ...
    def close(self) -> None: ...


class Accelerator:
    """The accelerator of one LiteRT environment; `failure` is the last exception of `make`.

    `make` gets the address of a model's bytes, and returns its delegate, which LiteRT closes.
    """

    def __init__(self, make: Callable[[int], Delegate]) -> None:
        self.failure: BaseException | None = None
        self._make = make
        self._definition = _Definition(
            struct_size=sizeof(_Definition),
            major_version=1,
            get_name=_NO_NAME,
            get_version=_GET_VERSION,
            get_hardware_support=_GET_HARDWARE,
            compiles_at_run_time=_COMPILES,
            create_delegate=_Create(self._create),
        )
        _accelerators.append(self)

    def install(self, folder: Path) -> ctypes.CDLL:
        """Write the library into a folder, which may be deleted once the environment exists.

        LiteRT copies the structure at the library's symbol.
        """
        create_in_turn()
        _keep_webgpu_away()
        file = folder / LIBRARY
        file.write_bytes(data_library(platform.machine(), SYMBOL, sizeof(_Definition)))
        # LiteRT opens the same library, and sees this data.
        library = ctypes.CDLL(str(file))
        data = _Definition.in_dll(library, SYMBOL)
        ctypes.memmove(byref(data), byref(self._definition), sizeof(_Definition))
        return library

    def _create(
        self, runtime: int, environment: int, accelerator: int, options: int, wrapper: Any
    ) -> int:
        try:
            delegate = self._make(_address_of_model(options))
            _delegates[delegate.pointer] = delegate
            wrap = _runtime().LiteRtWrapDelegate
            wrap.argtypes = [c_void_p, _Delete, POINTER(c_void_p)]
            return int(wrap(delegate.pointer, _DELETE, wrapper))
        except BaseException as error:  # LiteRT only understands statuses
            self.failure = error
            log.error("LiteRT gets no delegate: %s: %s", type(error).__name__, error)
            return _RUNTIME_FAILURE


def _answering(prototype: Any, answer: Any) -> Any:
    """A callback that writes an answer to its last argument."""

    def callback(accelerator: int, target: Any) -> int:
        target[0] = answer
        return _OK

    return prototype(callback)


def _delete(pointer: int) -> None:
    delegate = _delegates.pop(pointer, None)
    if delegate is None or sys.is_finalizing():  # the end of the process frees everything
        return
    try:
        delegate.close()
    except Exception as error:
        log.error("a compiled model's delegate did not close: %s", error)


def was_taken(library: ctypes.CDLL) -> bool:
    """Close an installed library; whether LiteRT has registered it, and so keeps it open."""
    dlclose(library._handle)
    try:
        again = ctypes.CDLL(library._name, mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    dlclose(again._handle)
    return True


def _address_of_model(options: int) -> int:
    """The address of the model that LiteRT compiles with these options.

    It is the first field of the structure in litert/runtime/dispatch/dispatch_opaque_options.cc.
    """
    runtime = _runtime()
    opaque = c_void_p()
    address = POINTER(c_void_p)()
    runtime.LiteRtGetOpaqueOptions.argtypes = [c_void_p, POINTER(c_void_p)]
    runtime.LiteRtFindOpaqueOptionsData.argtypes = [c_void_p, ctypes.c_char_p, c_void_p]
    if (
        runtime.LiteRtGetOpaqueOptions(options, byref(opaque)) != _OK
        or runtime.LiteRtFindOpaqueOptionsData(opaque, _DISPATCH, byref(address)) != _OK
        or not (address and address[0])
    ):
        raise LiteRtError("LiteRT does not give its accelerator the address of the model")
    return int(address[0] or 0)


def _runtime() -> ctypes.CDLL:
    package = find_spec("ai_edge_litert")
    folder = Path(package.origin).parent if package and package.origin else Path()
    return ctypes.CDLL(str(folder / "libLiteRt.so"))


@cache
def create_in_turn() -> None:
    """Make LiteRT create one model at a time in this process.

    LiteRT creates a model while it holds a process-wide mutex and Python's GIL, which the
    accelerator's callbacks release. A second thread inside LiteRT would wait for the mutex forever
    while it holds the GIL, so it has to wait in Python instead. Raises LiteRtError if LiteRT's
    functions have moved.
    """
    lock = Lock()
    module = import_module("ai_edge_litert._pywrap_litert_compiled_model_wrapper")
    for name in ("CreateCompiledModelFromFile", "CreateCompiledModelFromBuffer"):
        if not hasattr(module, name):
            raise LiteRtError(f"expected {name} in LiteRT's {module.__name__}, found none")
        setattr(module, name, _in_turn(lock, getattr(module, name)))


def _in_turn(lock: Lock, function: Callable[P, T]) -> Callable[P, T]:
    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        with lock:
            return function(*arguments, **named)

    return call


@cache
def _keep_webgpu_away() -> None:
    """Load an empty library named like LiteRT's WebGPU accelerator.

    While it compiles, LiteRT creates a second environment, without a folder, which loads its own.
    The dynamic linker reuses a loaded library of the same DT_SONAME. Environments that name
    LiteRT's folder still load LiteRT's.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder, WEBGPU_LIBRARY)
        file.write_bytes(data_library(platform.machine(), "nothing", 8, WEBGPU_LIBRARY))
        ctypes.CDLL(str(file))


# Never freed: LiteRT may call them as long as an environment lives.
_accelerators: list[Accelerator] = []
_delegates: dict[int, Delegate] = {}
# LiteRT gets the name, only to log it, while it holds a mutex that every run takes with Python's
# GIL held. So this callback must not need the GIL: it is a C function without arguments that
# returns 0, and the name stays null.
_NO_NAME = _Name(("sched_yield", ctypes.CDLL(None)))
_GET_VERSION = _answering(_Version, (c_int * 3)(1, 0, 0))
_GET_HARDWARE = _answering(_Hardware, _GPU)
_COMPILES = _answering(_Compiles, True)
_DELETE = _Delete(_delete)
