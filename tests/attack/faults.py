"""Have one GL or EGL call of a delegate's life fail, for every call and every way to fail.

A life makes a delegate, binds buffers and textures, runs, resizes, runs again and closes. The call
that fails may only lead to a documented error, never to wrong results. Afterwards the delegate is
closed, the app's state and objects, EGL contexts, threads and open files are as before, and a new
delegate runs. Only what the failed call itself should have restored or deleted is excused.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from ctypes import c_char_p, c_void_p
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from ai_edge_litert.interpreter import Interpreter

import gles_delegate as gd
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl import libegl as egl_names
from gles_delegate.gl import llvmpipe
from gles_delegate.gl.context import MAX_TEXTURES
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import EglBinding, EglError, libegl
from gles_delegate.runtime import upgrade
from gles_delegate.support import collector
from gles_delegate.support.threads import Thread
from tests.attack.workers import Outcome
from tests.gl.test_delegate import desktop_app, es_app, stir
from tests.support.small import allocated, check
from tests.support.state import State
from tests.support.tflite_builder import ModelBuilder

HOSTS = ("standalone", "ours", "LiteRT's")
"""The interpreter: ours without LiteRT, ours with LiteRT for some nodes, and LiteRT's."""
CONTEXTS = ("own", "own thread", "given", "adopted", "adopted desktop")

_LINES = 8
"""Calls of a function with the same innermost lines, up to this number, count as one."""
_PACKAGE = str(Path(gd.__file__).parent)
_PICTURE, _NUMBERS, _SOURCE = 0, 1, 2
_CODES = {
    "GL_OUT_OF_MEMORY": gl_names.OUT_OF_MEMORY,
    "GL_CONTEXT_LOST": gl_names.LOST,
    "GL_GUILTY_CONTEXT_RESET": 0x8253,
    "GL_WAIT_FAILED": 0x911D,
    "GL_TIMEOUT_EXPIRED": gl_names.TIMEOUT_EXPIRED,
    "EGL_BAD_ALLOC": 0x3003,
    "EGL_BAD_ACCESS": egl_names.BAD_ACCESS,
    "EGL_CONTEXT_LOST": egl_names.CONTEXT_LOST,
}
_LATE = "gl(Bind|UseProgram|PixelStore|Delete)"
"""Functions that restore or delete."""
_RESULTS = ("GL_GUILTY_CONTEXT_RESET", "GL_WAIT_FAILED", "GL_TIMEOUT_EXPIRED")
_LOSSES = ("GL_CONTEXT_LOST", "EGL_CONTEXT_LOST", "GL_GUILTY_CONTEXT_RESET")
_WAYS: tuple[tuple[str, tuple[str, ...]], ...] = (  # the first pattern that matches
    ("eglGetError|eglQueryAPI|eglGetCurrent.*|glIs.*|glActiveTexture", ()),
    ("eglGetProcAddress", ("missing",)),
    ("eglMakeCurrent", ("EGL_BAD_ALLOC", "EGL_BAD_ACCESS", "EGL_CONTEXT_LOST")),
    ("egl.*", ("EGL_BAD_ALLOC",)),
    ("glGetError", ("GL_CONTEXT_LOST",)),
    ("glGetGraphicsResetStatus.*", ("GL_GUILTY_CONTEXT_RESET",)),
    ("glClientWaitSync", ("GL_OUT_OF_MEMORY", "GL_WAIT_FAILED", "GL_TIMEOUT_EXPIRED")),
    (
        "gl(CompileShader|LinkProgram|MapBuffer|UnmapBuffer|FenceSync|Gen|Create).*",
        ("GL_OUT_OF_MEMORY", "zero"),  # zero: no error, but a result or status of 0
    ),
    ("gl.*", ("GL_OUT_OF_MEMORY",)),
)


@dataclass(frozen=True)
class Case:
    """In a life, the call of number `at` fails in this way; -1: none does."""

    host: str
    where: str
    at: int
    name: str
    way: str

    def __str__(self) -> str:
        return f"{self.host}, {self.where}: call {self.at}, {self.name}, {self.way}"


class Calls:
    """Counts the package's GL and EGL calls inside ``with``, and has one of them fail.

    Attributes:
        names: Of all calls, in their order.
        places: The lines of the package that each came from, if none is to fail.
        failed: Function and arguments of the call that failed.
        error: The pending GL error.
        contexts, fences: EGL contexts and GL fences that were made, and not to be deleted.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self._patches = ExitStack()
        self._lost, self._missing = False, b""
        self.names: list[str] = []
        self.places: list[tuple[tuple[str, int], ...]] = []
        self.failed: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
        self.error, self.contexts, self.fences = 0, 0, 0

    def __enter__(self) -> Calls:
        unchecked, egl = Functions.unchecked, libegl()

        def hooked(gl: Functions, name: str) -> Callable[..., Any]:
            if name not in gl._unchecked:
                gl._unchecked[name] = partial(self._gl, name, unchecked(gl, name))
            return gl._unchecked[name]

        replace = lambda *arguments: self._patches.enter_context(patch.object(*arguments))  # noqa: E731
        replace(Functions, "unchecked", hooked)
        replace(Functions, "prepared", lambda gl, name, *given: (hooked(gl, name), given))
        for name in egl_names._PROTOTYPES:
            with suppress(gd.GLError):
                replace(egl, name, partial(self._egl, name, getattr(egl, name)))

        def run_at_once(compiler: upgrade._Compiler, job: upgrade._Job) -> bool:
            thread = Thread(job.run, "gles_delegate upgrade")
            thread.start()
            thread.join()
            return True

        # Calls of other threads come in no order.
        replace(upgrade._Compiler, "add", run_at_once)
        replace(upgrade, "_BUDGET", 60.0)
        replace(llvmpipe, "_PATIENCE", 60.0)
        replace(collector, "is_due", lambda: False)
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    @property
    def is_lost(self) -> bool:
        """Whether the fault is such that nothing can be restored or deleted afterwards."""
        return self.case.way in (*_LOSSES, "missing")

    def names_the_fault(self, text: str) -> bool:
        """Whether the text of an error names the function, or the error; true for results of 0."""
        if self.case.way in ("", "zero"):
            return True
        name = self._missing.decode() or self.case.name
        return name in text or self.case.way in text

    def _next(self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
        """The way in which this call fails; empty if it does not."""
        self.names.append(name)
        if self.case.at < 0:
            self.places.append(_place())
        if (len(self.names) - 1, name) == (self.case.at, self.case.name):
            self.failed = function, arguments
            return self.case.way
        return ""

    def _gl(self, name: str, function: Any, *arguments: Any) -> Any:
        way = self._next(name, function, arguments)
        self.fences += (name == "glFenceSync" and not way) - (name == "glDeleteSync")
        if name == "glGetError":
            self._lost |= bool(way)
            error, self.error = self.error, 0
            return gl_names.LOST if self._lost else error or function()
        if not way:
            return function(*arguments)
        if way in _RESULTS:
            return _CODES[way]
        self.error = _CODES.get(way, 0)
        return None if function.restype in (c_char_p, c_void_p) else 0

    def _egl(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        way = self._next(name, function, arguments)
        self.contexts -= name == "eglDestroyContext"
        if way == "missing":
            self._missing = arguments[0]
        elif way:
            raise EglError(name, _CODES[way])
        names = {self._missing + suffix for suffix in (b"", b"EXT", b"OES")}
        if self._missing and name == "eglGetProcAddress" and arguments[0] in names:
            return 0
        result = function(*arguments)
        self.contexts += name == "eglCreateContext"  # unless it raises an error
        return result


def _place() -> tuple[tuple[str, int], ...]:
    """The innermost lines of the package from which a hooked function is called."""
    lines: list[tuple[str, int]] = []
    frame = sys._getframe(3)
    while frame is not None and len(lines) < _LINES:
        file = frame.f_code.co_filename
        if file.startswith(_PACKAGE) and not file.endswith("gl/functions.py"):
            lines.append((file, frame.f_lineno))
        frame = frame.f_back
    return tuple(lines)


@cache
def model(split: bool) -> bytes:
    """-(_PICTURE + _NUMBERS) and its square, and -_SOURCE; `split`: part of it is the CPU's."""
    builder, shape = ModelBuilder(), (1, 4, 4, 4)
    picture, numbers, source = (builder.input(s) for s in (shape, shape, (1, 2, 2, 4)))
    weights = builder.constant(np.full((1, 1, 1, 4), -1, np.float32))
    total = builder.op("ADD", [picture, numbers], [shape])
    turned = other = builder.op("MUL", [total, weights], [shape])
    if split:
        whole = builder.op("CAST", [total], [builder.tensor(shape, np.int64)])
        other = builder.op("CAST", [whole], [builder.tensor(shape)])
    square = builder.op("MUL", [total, other], [shape])
    return builder.build([square, turned, builder.op("NEG", [source], [(1, 2, 2, 4)])])


@cache
def _state(desktop: bool) -> State:
    return State(lambda name: libegl().eglGetProcAddress(name.encode()))


class App:
    """A context with state, and what an app binds to the tensors of `model`."""

    def __init__(self, desktop: bool) -> None:
        self.glcontext, self.ctx = desktop_app() if desktop else es_app()
        gl = Functions(self.glcontext.load)
        with self.glcontext:
            self._error = gl.unchecked("glGetError")
            self._activate = gl.unchecked("glActiveTexture")
            self._state = _state(desktop)
            self.pictures = [self.ctx.texture((n, 3), 4, bytes(range(12 * n))) for n in (5, 7)]
            self.sources = [self.ctx.buffer(np.full(16, i, np.float32)) for i in (1, 2)]
            self.target = self.ctx.texture((2, 2), 4, dtype="f2")
            self.result = self.ctx.buffer(reserve=1024)
            self._alive = stir(self.ctx, gl)
            self._before = self._read()

    def _changes(self) -> dict[Any, tuple[Any, Any]]:
        after, before = self._read(), self._before
        return {k: (before[k], after[k]) for k in after if after[k] != before[k]}

    def _read(self) -> dict[Any, Any]:
        return {**self._state.read(), **self._state.objects()}

    def changes(self, calls: Calls) -> dict[Any, tuple[Any, Any]]:
        """State and objects that are not as at the start: what they were, and are.

        Not what the call that failed should have restored or deleted.
        """
        with self.glcontext:
            calls.error = calls.error or self._error()
            changes = self._changes()
            if changes and calls.failed and re.match(_LATE, calls.case.name):
                function, arguments = calls.failed
                for unit in range(MAX_TEXTURES):
                    self._activate(gl_names.TEXTURE0 + unit)
                    function(*arguments)
                again = self._changes()
                if calls.case.name == "glBindBufferRange":
                    # Mesa resets it with the block of a buffer that is deleted while bound.
                    again.pop(hex(gl_names.SHADER_STORAGE_BUFFER_BINDING), None)
                changes = {k: v for k, v in changes.items() if k in again}
        return changes

    def close(self) -> None:
        self.ctx.release()
        if isinstance(self.glcontext, gd.EglContext):
            self.glcontext.release()


class Life:
    """The life of a delegate, again and again.

    Args:
        host: One of `HOSTS`.
        where: One of `CONTEXTS`.
    """

    def __init__(self, host: str, where: str) -> None:
        self._host, self._where = host, where
        self._binds = not where.startswith("own")
        self._temporary = TemporaryDirectory()  # stays, for Mesa's cache is in it
        self._app: App | None = None
        self._expected: dict[str, Any] = {}
        for _ in range(2):  # a process makes some calls, and opens some files, only once
            finding = self.run(Case(host, where, -1, "", ""))
        assert not finding, finding

    def cases(self, lines: int = _LINES) -> list[Case]:
        """The cases of each call, or of the first and the last from the same lines.

        Args:
            lines: How many lines are compared; 0: every call counts.
        """
        names, places = self.calls.names, self.calls.places
        keys = [
            (name, p[:lines] if lines else at)
            for at, (name, p) in enumerate(zip(names, places, strict=True))
        ]
        first = {key: at for at, key in reversed([*enumerate(keys)])}
        last = {key: at for at, key in enumerate(keys)}
        chosen = sorted({*first.values(), *last.values()})
        return [
            Case(self._host, self._where, at, names[at], way)
            for at in chosen
            for way in next(ways for pattern, ways in _WAYS if re.fullmatch(pattern, names[at]))
        ]

    def run(self, case: Case) -> str:
        """Live once, and say what is wrong with it."""
        app = self._app = self._app or App("desktop" in self._where)
        for file in Path(self._temporary.name).glob("*.gles"):
            file.unlink()
        results: dict[str, Any] = {}
        errors: list[Exception] = []
        before = _of_process()
        with app.glcontext if self._where != "given" else nullcontext():
            binding = EglBinding.of_this_thread(libegl())
            with Calls(case) as calls:
                delegate = self._delegate(app, Path(self._temporary.name))
                live = partial(self._live, delegate, app, results)
                for step in (live, delegate.close, delegate.close):
                    try:
                        step()
                    except Exception as error:
                        errors.append(error)
            current = EglBinding.of_this_thread(libegl())
            binding.restore()
        after = _of_process()
        if after != before:  # Mesa writes its cache on a thread
            time.sleep(0.1)
            after = _of_process()
        if case.at < 0:
            self._expected, self.calls = results, calls
        wrong = [
            f"wrong results: {k}" for k, v in results.items() if np.any(v != self._expected[k])
        ]
        wrong += [f"{k}: {after[k]}, were {before[k]}" for k in after if after[k] > before[k]]
        wrong += [f"not documented: {error!r}" for error in errors if not _is_documented(error)]
        if not errors and len(results) < len(self._expected):
            wrong.append("it ended early")
        if len(errors) > 2:
            wrong.append("it is not closed")
        if errors and not calls.names_the_fault(str(errors[0])):
            wrong.append(f"the error does not name what failed: {errors[0]}")
        if case.at >= 0 and not calls.failed:
            wrong.append(f"there is no such call now, but {calls.names[case.at : case.at + 1]}")
        is_switch = case.name in ("eglMakeCurrent", "eglBindAPI")
        if current != binding and not (is_switch and current.context in (0, binding.context)):
            wrong.append(f"current: {current}, was {binding}")
        if calls.contexts:
            wrong.append(f"{calls.contexts} EGL contexts are left")
        changes = app.changes(calls)
        if calls.fences and self._binds:
            changes["fences"] = 0, calls.fences
        if calls.error and self._binds:
            wrong.append(f"the app finds a GL error: {calls.error:#x}")
        # Nothing can be deleted where the context is lost, or cannot be entered to close.
        if changes and not (calls.is_lost or (is_switch and len(results) == len(self._expected))):
            wrong.append(f"what the app sees changed: {changes}")
        try:
            entered = nullcontext() if self._where == "given" else app.glcontext
            with entered, self._delegate(app, None) as another:
                check(allocated(another))
        except Exception as error:
            wrong.append(f"a new delegate: {error!r}")
        # A buffer may still be mapped, or what is written go to another one.
        if wrong or changes or re.match(_LATE + "|glUnmap", case.name):
            app.close()
            self._app = None
        return "\n    ".join([str(case), *wrong]) if wrong else ""

    def _delegate(self, app: App, folder: Path | None) -> gd.GpuDelegate:
        context: Any = None
        if self._binds:
            context = app.glcontext if self._where == "given" else app.ctx
        options = gd.GpuDelegateOptions(
            serialization_dir=folder,
            own_thread=self._where == "own thread",
            max_delegated_partitions=2,
        )
        content = model(True) if self._host == "LiteRT's" and folder else None
        return gd.GpuDelegate(options, context=context, model=content)

    def _live(self, delegate: gd.GpuDelegate, app: App, results: dict[str, Any]) -> None:
        content, rgba = model(self._host != "standalone"), gd.ImageTransform(channels="rgba")
        if self._binds:
            delegate.bind_buffer_to_tensor(_SOURCE, app.sources[0])
            delegate.bind_texture_to_tensor(_PICTURE, app.pictures[0], transform=rgba)
        make: Any = Interpreter if self._host == "LiteRT's" else gd.Interpreter
        interpreter = make(model_content=content, experimental_delegates=[delegate])
        square, turned, negative = (d["index"] for d in interpreter.get_output_details())
        if self._binds:
            delegate.bind_buffer_to_tensor(turned, app.result)
            delegate.bind_texture_to_tensor(negative, app.target)

        def feed(step: int, rows: int) -> None:
            for index in (_PICTURE, _NUMBERS):
                interpreter.resize_tensor_input(index, (1, rows, 4, 4))
            interpreter.allocate_tensors()
            x = np.arange(rows * 16, dtype=np.float32).reshape(1, rows, 4, 4) - step
            interpreter.set_tensor(_NUMBERS, x)
            if not self._binds:
                interpreter.set_tensor(_PICTURE, x + 1)
                interpreter.set_tensor(_SOURCE, x[:, :2, :2])

        def invoke(step: str) -> None:
            interpreter.invoke()
            for index in (square, turned, negative):
                results[f"{step} {index}"] = interpreter.get_tensor(index)

        feed(1, 4)
        invoke("first")
        if self._host != "LiteRT's":
            feed(2, 4)
            first = interpreter.invoke_async()
            first.wait()
            results["async"] = interpreter.invoke_async(first).get_tensor(square)
        if self._binds:
            delegate.bind_buffer_to_tensor(_SOURCE, app.sources[1])
            delegate.bind_texture_to_tensor(_PICTURE, app.pictures[1], transform=rgba)
            invoke("rebind")
        feed(3, 2)
        invoke("resize")
        if self._binds:
            results["read"] = delegate.read_tensor(turned)
            delegate.unbind(turned)
        delegate.profile()
        delegate.memory()
        feed(4, 4)
        invoke("again")


def _of_process() -> dict[str, int]:
    return {"threads": threading.active_count(), "files": len(os.listdir("/proc/self/fd"))}


def _is_documented(error: Exception) -> bool:
    """Whether it is of the package's tree, or quoted by LiteRT's interpreter."""
    return isinstance(error, gd.DelegateError) or bool(
        type(error) in (RuntimeError, ValueError)
        and re.search(r"(GL|Memory|Context|Lost|Shader|Egl)Error: ", str(error))
    )


life = cache(Life)


@cache
def cases() -> list[Case]:
    """The cases of all lives, in their order; see `Life.cases`."""
    return [case for host in HOSTS for where in CONTEXTS for case in life(host, where).cases()]


def run_case(case: Case) -> str:
    """The faults of any process."""
    return life(case.host, case.where).run(case)


def run_fault(_: bytes, seed: int) -> Outcome:
    """One of `cases`."""
    finding = run_case(cases()[seed])
    return Outcome("finding", text=finding) if finding else Outcome("result")
