"""An app with objects of its own in OpenGL, and what Python runs between two bytecodes.

    python -m tests.support.surroundings LIBRARY CONTEXT COLLECTOR HOST

The app drops objects in reference cycles in each frame, so Python's collector deletes them. Or a
timer's handler writes into its buffer. Prints what went wrong, a line each.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import signal
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import gles_delegate as gd
from gles_delegate.gl.current import current_handle
from tests.support.small import INPUT, small_model, with_a_detour

LIBRARIES = ("moderngl", "pyglet", "PyOpenGL", "finalizer", "timer")
CONTEXTS = ("private", "shared", "adopted", "own_thread")
"""Of the delegate; a compiled model always has a thread of its own."""
COLLECTORS = ("on", "off", "always")
HOSTS = ("standalone", "litert", "compiled")
FRAMES = 40
_ARRAY_BUFFER = 0x8892


class Node:
    """What an app keeps of a scene, with a reference to itself."""

    def __init__(self, **parts: object) -> None:
        self.me = self
        self.__dict__.update(parts)


class App:
    """A context that is current on this thread, and makes buffers of a byte's content."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.names: list[int] = []
        self.thread = threading.get_ident()

    def start(self) -> None:
        self.handle = current_handle()
        assert self.handle

    def drop_some(self) -> None:
        """Make three buffers that only the collector deletes."""
        raise NotImplementedError

    def check(self) -> None:
        """Note if this runs elsewhere than where the app works."""
        if current_handle() != self.handle:
            self.seen["a finalizer or handler in another context"] += 1
        if threading.get_ident() != self.thread:
            self.seen["a finalizer or handler on another thread"] += 1

    def counted(self, name: int) -> int:
        self.names.append(name)
        return name


class Moderngl(App):
    def __init__(self) -> None:
        import moderngl

        super().__init__()
        self.ctx = moderngl.create_context(standalone=True, backend="egl", require=430)
        self.ctx.gc_mode = "auto"
        self.kept = self.ctx.buffer(bytes(64))
        self.start()

    def drop_some(self) -> None:
        for _ in range(3):
            buffer = self.ctx.buffer(b"\7" * 64)
            self.counted(buffer.glo)
            Node(buffer=buffer, texture=self.ctx.texture((4, 4), 4))


class Timer(Moderngl):
    """Its handler draws and writes a buffer, at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.ctx.gc_mode = None
        self.count = 0
        self.is_drawing = False
        self.target = self.ctx.framebuffer([self.ctx.texture((4, 4), 4)])
        signal.signal(signal.SIGALRM, self.tick)
        signal.siginterrupt(signal.SIGALRM, False)
        signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)

    def tick(self, *_: object) -> None:
        if self.is_drawing:  # Python calls it again while it runs
            return
        self.is_drawing = True
        self.check()
        self.count += 1
        self.kept.write(np.full(16, self.count, np.uint32).tobytes())
        self.target.clear(self.count % 256 / 255)
        self.is_drawing = False

    def drop_some(self) -> None:
        count = self.count
        written = int(np.frombuffer(self.kept.read(), np.uint32)[5])
        drawn = self.target.read()[0]
        if not count or count != self.count:  # the handler ran in between
            return
        if written != count:
            self.seen["a write of the handler's is lost"] += 1
        if abs(drawn - count % 256) > 1:
            self.seen["a drawing of the handler's is lost"] += 1


class Pyglet(App):
    """With pyglet's own settings, its objects delete themselves."""

    def __init__(self) -> None:
        import pyglet

        super().__init__()
        pyglet.options["headless"] = True
        self.window = pyglet.window.Window(16, 16, visible=False)
        self.start()

    def drop_some(self) -> None:
        from pyglet.graphics.vertexbuffer import BufferObject

        for _ in range(3):
            buffer = BufferObject(64)
            self.counted(buffer.id)
            Node(buffer=buffer)


class Plain(App):
    """Functions of OpenGL in ctypes, and finalizers that call them."""

    def __init__(self) -> None:
        super().__init__()
        self.egl = gd.EglContext()
        self.egl.__enter__()
        self.start()
        self.generate = self.function("glGenBuffers")
        self.bind = self.function("glBindBuffer")
        self.fill = self.function("glBufferData")
        self.delete = self.function("glDeleteBuffers")

    def function(self, name: str) -> Callable[..., Any]:
        return ctypes.CFUNCTYPE(None)(self.egl.load(name))

    def made(self) -> int:
        name = ctypes.c_uint()
        self.generate(1, ctypes.byref(name))
        self.bind(_ARRAY_BUFFER, name)
        self.fill(_ARRAY_BUFFER, ctypes.c_ssize_t(64), None, 0x88E8)
        return self.counted(name.value)

    def deleted(self, name: int) -> None:
        self.check()
        self.delete(1, ctypes.byref(ctypes.c_uint(name)))

    def drop_some(self) -> None:
        for _ in range(3):
            weakref.finalize(Node(), self.deleted, self.made())


class PyOpenGL(Plain):
    def __init__(self) -> None:
        import os

        os.environ["PYOPENGL_PLATFORM"] = "egl"
        super().__init__()

    def made(self) -> int:
        from OpenGL import GL

        name = int(GL.glGenBuffers(1))
        GL.glBindBuffer(GL.GL_ARRAY_BUFFER, name)
        GL.glBufferData(GL.GL_ARRAY_BUFFER, 64, None, GL.GL_DYNAMIC_DRAW)
        return self.counted(name)

    def deleted(self, name: int) -> None:
        from OpenGL import GL

        self.check()
        GL.glDeleteBuffers(1, [name])


APPS = {
    "moderngl": Moderngl,
    "pyglet": Pyglet,
    "PyOpenGL": PyOpenGL,
    "finalizer": Plain,
    "timer": Timer,
}


def delegate_of(kind: str, model: bytes | None) -> gd.GpuDelegate:
    if kind == "own_thread":
        return gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True), model=model)
    context = {"private": None, "shared": None, "adopted": "current"}[kind]
    if kind == "shared":
        return gd.GpuDelegate(context=gd.EglContext(share="current"), model=model)
    return gd.GpuDelegate(context=context, model=model)  # type: ignore[arg-type]


def runner(host: str, context: str) -> Callable[[], np.ndarray[Any, Any]]:
    if host == "compiled":
        return compiled(small_model())
    sketch, content = with_a_detour()
    x = INPUT if host == "standalone" else sketch.feeds[0]
    content = small_model() if host == "standalone" else content
    interpreter = gd.Interpreter(
        model_content=content, experimental_delegates=[delegate_of(context, None)]
    )
    interpreter.allocate_tensors()
    first = interpreter.get_input_details()[0]["index"]
    last = interpreter.get_output_details()[0]["index"]

    def run() -> np.ndarray[Any, Any]:
        interpreter.allocate_tensors()
        interpreter.set_tensor(first, x)
        interpreter.invoke()
        return interpreter.get_tensor(last).copy()

    return run


def compiled(content: bytes) -> Callable[[], np.ndarray[Any, Any]]:
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator

    environment = gd.litert_environment()
    model = CompiledModel.from_buffer(
        content, hardware_accel=HardwareAccelerator.GPU, environment=environment.__enter__()
    )
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)

    def run(keep: object = environment) -> np.ndarray[Any, Any]:
        inputs[0].write(INPUT)
        model.run_by_index(0, inputs, outputs)
        return outputs[0].read(21, np.float32)

    return run


def main(library: str, context: str, collector: str, host: str) -> None:
    logging.disable(logging.WARNING)
    app = APPS[library]()
    run = runner(host, context)
    expected = run()
    if collector == "off":
        gc.disable()
    if collector == "always":
        gc.set_threshold(1)
    for _ in range(FRAMES):
        app.drop_some()
        try:
            if not np.array_equal(run(), expected):
                app.seen["a wrong result"] += 1
        except Exception as error:
            app.seen[f"{type(error).__name__}: {error}"] += 1
    end = time.monotonic() + 20
    while gc.isenabled() is (collector == "off") and time.monotonic() < end:
        time.sleep(0.01)  # faster programs may be compiled in the background
    if gc.isenabled() is (collector == "off"):
        app.seen["the collector is left as it was not"] += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    if signal.getsignal(signal.SIGALRM) not in (signal.SIG_DFL, getattr(app, "tick", None)):
        app.seen["the handler is another one"] += 1
    if current_handle() != app.handle:
        app.seen["another context is current"] += 1
    gc.enable()
    gc.set_threshold(700, 10, 10)
    gc.collect()
    is_buffer = partial(gd.gl.current.current_functions().unchecked, "glIsBuffer")()
    left = sum(bool(is_buffer(name)) for name in {*app.names})
    if left:
        app.seen[f"{left} of the app's dropped buffers are left"] += 1
    for what, count in app.seen.items():
        print(f"{what} ({count} times)")


if __name__ == "__main__":
    main(*sys.argv[1:])
