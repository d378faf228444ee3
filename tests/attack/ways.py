"""The ways in which a model runs: LiteRT's CPU kernels, and the delegate with its hosts."""

from __future__ import annotations

import random
import re
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

import gles_delegate as gd
from gles_delegate.errors import DelegateError
from tests.attack.workers import Outcome
from tests.support import oracle
from tests.support.app import App

FILL = b"\xa5"
MARGIN = 256
"""Bytes behind a tensor in a buffer, and the most in front of it."""

_FOREIGN = re.compile(
    r"\b(Assertion|Attribute|Index|Key|Name|Overflow|Recursion|Type|UnboundLocal|ZeroDivision|struct\.)"
    r"[Ee]rror: "
)


def feeds(interpreter: Any, seed: int) -> list[Any]:
    """An array for each input, of its type and shape."""
    rng = np.random.default_rng(seed)
    arrays = []
    for detail in interpreter.get_input_details():
        shape, dtype = tuple(detail["shape"]), np.dtype(detail["dtype"])
        if dtype.kind == "f":
            arrays.append(rng.standard_normal(shape).astype(dtype))
        elif dtype.itemsize == 1 and dtype.kind in "iu":
            limits = np.iinfo(dtype)
            arrays.append(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))
        else:
            arrays.append(rng.integers(0, 2, shape).astype(dtype))
    return arrays


def other_shapes(shapes: dict[int, tuple[int, ...]], seed: int) -> dict[int, tuple[int, ...]]:
    """New shapes of inputs, by index: another size of one axis, or none."""
    choose = random.Random(seed)
    axes = [(axis, size) for shape in shapes.values() for axis, size in enumerate(shape)]
    if seed % 16 < 12 or not axes:
        return {}
    axis, old = choose.choice(axes)
    new = choose.choice((0, 0, 1, old + 1, 2 * old))
    same = {i: shape for i, shape in shapes.items() if shape[axis : axis + 1] == (old,)}
    return {i: (*shape[:axis], new, *shape[axis + 1 :]) for i, shape in same.items()}


def resize(interpreter: Any, seed: int) -> None:
    """Give the inputs, which have been allocated, other shapes, for one seed of four."""
    shapes = {d["index"]: (*map(int, d["shape"]),) for d in interpreter.get_input_details()}
    others = other_shapes(shapes, seed)
    for index, shape in others.items():
        interpreter.resize_tensor_input(index, shape)
    if others:
        interpreter.allocate_tensors()


def run_litert(content: bytes, seed: int) -> Outcome:
    return _run_cpu(lambda: oracle.litert_interpreter(content, apart=True), seed)


def run_xnnpack(content: bytes, seed: int) -> Outcome:
    """LiteRT as our interpreter uses it: with XNNPACK, which may crash where the kernels do not."""

    def make() -> Any:
        interpreter = Interpreter(model_content=content)
        interpreter.allocate_tensors()
        return interpreter

    return _run_cpu(make, seed)


def _run_cpu(make: Callable[[], Any], seed: int) -> Outcome:
    try:
        interpreter = make()
        resize(interpreter, seed)
        return Outcome("result", tuple(oracle.run(interpreter, feeds(interpreter, seed))))
    except (RuntimeError, ValueError, TypeError, MemoryError) as error:
        return Outcome("refused", text=str(error))
    except Exception as error:
        return Outcome("foreign error", text=repr(error))


def run_ours(content: bytes, seed: int) -> Outcome:
    """In our interpreter or, for odd seeds, in LiteRT's.

    Half of both with bound tensors, and a quarter in the delegate's own context, with chains.
    """
    host = oracle.in_litert if seed % 2 else oracle.in_ours
    try:
        if seed // 2 % 4 == 2:
            options = gd.GpuDelegateOptions(background_compilation=False)
            with gd.GpuDelegate(options, model=content) as delegate:
                interpreter = host(delegate, content)
                resize(interpreter, seed)
                return _outcome(delegate, oracle.run(interpreter, feeds(interpreter, seed)))
        with closing(App(model=content)) as app:
            interpreter = host(app.delegate, content)
            resize(interpreter, seed)
            if seed // 2 % 2:
                return _outcome(app.delegate, _run_bound(app, interpreter, seed))
            return _outcome(app.delegate, oracle.run(interpreter, feeds(interpreter, seed)))
    except (DelegateError, MemoryError) as error:
        return Outcome("refused", text=str(error))
    except (RuntimeError, ValueError, TypeError) as error:
        # LiteRT's own words, which may quote one of our errors.
        text = str(error)
        kind = "refused" if "cannot bind" in text else "refused by LiteRT"
        kind = "foreign error" if _FOREIGN.search(text) else kind
        return Outcome(kind, text="".join(traceback.format_exception(error)[-3:]))
    except Exception as error:
        return Outcome("foreign error", text="".join(traceback.format_exception(error)[-3:]))


def _outcome(delegate: gd.GpuDelegate, arrays: list[Any]) -> Outcome:
    delegated = sum(node.delegated for node in delegate.report.nodes)
    return Outcome("result", tuple(arrays), delegated=delegated)


def _run_bound(app: App, interpreter: Any, seed: int) -> list[Any]:
    """Run with pictures of floats in textures, and all else that can be bound in buffers."""
    choose = np.random.default_rng(seed)
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    both = {d["index"] for d in inputs} & {d["index"] for d in outputs}
    for detail, array in zip(inputs, feeds(interpreter, seed), strict=True):
        index, offset = detail["index"], int(choose.integers(1, 65)) * 4
        if index in both or not _bind_input(app, index, array, offset):
            interpreter.set_tensor(index, array)
    bound: dict[int, tuple[Any, int]] = {}
    for detail in outputs:
        if detail["index"] in both:
            continue
        size = int(np.prod(detail["shape"])) * np.dtype(detail["dtype"]).itemsize
        offset = int(choose.integers(1, 65)) * 4
        buffer = app.buffer(FILL * (offset + size + MARGIN))
        with suppress(ValueError, DelegateError):
            app.delegate.bind_buffer_to_tensor(detail["index"], buffer, offset=offset)
            bound[detail["index"]] = buffer, offset
    interpreter.invoke()
    arrays = []
    for detail in outputs:
        array = interpreter.get_tensor(detail["index"])
        if detail["index"] in bound:
            buffer, offset = bound[detail["index"]]
            content = app.read(buffer, "uint8").tobytes()
            end = offset + array.nbytes  # not that of `size` where values give the shape
            assert content[offset:end] == array.tobytes(), "the buffer holds something else"
            assert not (content[:offset] + content[end:]).strip(FILL), "written beside it"
        arrays.append(array)
    return arrays


def _bind_input(app: App, index: int, array: Any, offset: int) -> bool:
    """Whether the delegate takes this from the GPU."""
    try:
        is_picture = array.dtype == np.float32 and array.ndim == 4 and array.shape[0] == 1
        if is_picture and 4 in (array.shape[1], array.shape[3]):
            transform = gd.ImageTransform(channels="rgba")
            picture = array[0] if array.shape[3] == 4 else np.moveaxis(array[0], 0, 2)
            app.delegate.bind_texture_to_tensor(index, app.texture(picture), transform=transform)
        else:
            buffer = app.buffer(FILL * offset + array.tobytes() + FILL * MARGIN)
            app.delegate.bind_buffer_to_tensor(index, buffer, offset=offset)
    except (ValueError, DelegateError):
        return False
    return True
