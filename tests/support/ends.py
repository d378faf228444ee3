"""A program that ends with an interpreter in some state, which something keeps.

    python -m tests.support.ends STATE HOLDER HOST

Prints "done" as its last act, and what is alive that should not be.
"""

from __future__ import annotations

import atexit
import functools
import logging
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

import gles_delegate as gd
from tests.support.small import INPUT, small_model, with_a_detour

DIGITS = "examples/models/digit_classifier.tflite"
HOSTS = ("standalone", "litert", "stock")
"""Ours alone, ours with LiteRT for nodes on the CPU, and the delegate in LiteRT's interpreter."""
STATES = (
    "loaded", "run", "run twice", "run thrice", "an error caught", "own thread", "async open",
    "closed", "background", "a task", "a stream", "a pool",
)  # fmt: skip
OF_ONE_HOST = STATES[-4:]
HOLDERS = (
    "global", "module", "class", "cycle", "closure", "cache", "thread local", "generator", "atexit",
    "finalizer",
)  # fmt: skip


def interpreter_of(host: str, options: gd.GpuDelegateOptions | None = None) -> tuple[Any, Any]:
    """An interpreter, and an input for it."""
    sketch, mixed = with_a_detour()
    content = mixed if host != "standalone" else small_model()
    x = INPUT if host == "standalone" else sketch.feeds[0]
    if host == "stock":
        from ai_edge_litert.interpreter import Interpreter

        delegate = gd.GpuDelegate(options, model=content)
        made = Interpreter(model_content=content, experimental_delegates=[delegate])
    else:
        delegates = None if options is None else [gd.GpuDelegate(options)]
        made = gd.Interpreter(model_content=content, experimental_delegates=delegates)
    made.allocate_tensors()
    return made, x


def run(interpreter: Any, x: Any, times: int) -> None:
    for _ in range(times):
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
        interpreter.invoke()


def in_state(state: str, host: str) -> object:
    """What a program keeps, in a state."""
    if state in ("a task", "a stream", "a pool"):
        return of_an_app(state)
    if state == "background":  # it compiles for a while
        interpreter = gd.Interpreter(DIGITS)
        interpreter.allocate_tensors()
        run(interpreter, np.zeros((1, 64, 64, 3), np.float32), 2)
        return interpreter
    if state == "own thread":
        interpreter, x = interpreter_of(host, gd.GpuDelegateOptions(own_thread=True))
        run(interpreter, x, 2)
        return interpreter
    interpreter, x = interpreter_of(host)
    runs = {"loaded": 0, "run": 1, "run twice": 2, "run thrice": 3}
    run(interpreter, x, runs.get(state, 1))
    if state == "an error caught":
        try:
            interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
            if host == "stock":
                interpreter.set_tensor(0, np.zeros(3, np.int8))
            interpreter.close()
            interpreter.invoke()
        except (AttributeError, ValueError, gd.DelegateError):
            pass
    if state == "async open" and host != "stock":
        return interpreter, interpreter.invoke_async()
    if state == "closed" and host != "stock":
        interpreter.close()
    return interpreter


def of_an_app(state: str) -> object:
    import gles_apps.tasks as mp
    from gles_apps.batch.pool import compute
    from gles_apps.tasks.assets import Assets

    base = mp.BaseOptions(DIGITS)
    vision = mp.vision
    picture = mp.Image(mp.ImageFormat.SRGB, np.zeros((64, 64, 3), np.uint8))
    if state == "a task":
        task = vision.ImageClassifier.create_from_options(
            vision.ImageClassifierOptions(base_options=base)
        )
        task.classify(picture)
        return task
    if state == "a stream":
        options = vision.ImageClassifierOptions(
            base_options=base,
            running_mode=vision.RunningMode.LIVE_STREAM,
            result_callback=lambda *_: None,
        )
        stream = vision.ImageClassifier.create_from_options(options)
        stream.classify_async(picture, 1)
        stream.classify_async(picture, 2)
        return stream
    chunks = [["examples/digit.png"]] * 2
    rows = compute(Assets(DIGITS), {}, chunks, workers=1, notice=print)
    assert next(rows)
    return rows


def hold(what: object, holder: str) -> None:
    module = types.ModuleType("app")
    sys.modules["app"] = module
    if holder == "global":
        sys.modules["__main__"].kept = what  # type: ignore[attr-defined]
    elif holder == "module":
        module.kept = what  # type: ignore[attr-defined]
    elif holder == "class":
        module.Kept = type("Kept", (), {"kept": what})  # type: ignore[attr-defined]
    elif holder == "cycle":
        node = types.SimpleNamespace(kept=what)
        node.me = node
        node.use = lambda: node.kept
    elif holder == "closure":
        module.use = lambda: what  # type: ignore[attr-defined]
    elif holder == "cache":
        module.use = functools.cache(lambda: what)  # type: ignore[attr-defined]
        module.use()
    elif holder == "thread local":
        module.local = threading.local()  # type: ignore[attr-defined]
        module.local.kept = what
    elif holder == "generator":
        module.use = generator(what)  # type: ignore[attr-defined]
        next(module.use)
    elif holder == "atexit":
        atexit.register(lambda: what)
    elif holder == "finalizer":
        module.kept = Flushing(what)  # type: ignore[attr-defined]


def generator(what: object) -> Iterator[object]:
    try:
        yield what
    finally:
        use(what)


class Flushing:
    """It runs the interpreter once more as it is deleted."""

    def __init__(self, what: object) -> None:
        self.what = what

    def __del__(self) -> None:
        use(self.what)


def use(what: object) -> None:
    invoke: Callable[[], object] | None = getattr(what, "invoke", None)
    if invoke is not None:
        with suppress(gd.DelegateError, RuntimeError):  # it is closed, or LiteRT says so
            invoke()


def main(state: str, holder: str, host: str) -> None:
    logging.disable(logging.WARNING)
    hold(in_state(state, host), holder)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
