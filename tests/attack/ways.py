"""The ways in which a model runs: LiteRT's CPU kernels, and the delegate with its hosts."""

import random
import re
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, TypeAlias

import numpy as np
from ai_edge_litert.interpreter import OpResolverType

import gles_delegate as gd
from gles_delegate.bench.comparison import has_dynamic_range
from gles_delegate.errors import DelegateError
from gles_delegate.model.reader import read_model
from gles_delegate.options import InferencePriority
from tests.attack.workers import Outcome
from tests.support import oracle
from tests.support.app import App

Host: TypeAlias = Callable[[gd.GpuDelegate, bytes], Any]

RANDOM = {"RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"}
STATEFUL = {"ASSIGN_VARIABLE", "CALL_ONCE", *RANDOM}
"""Ops by which a run changes the results of the next one."""
FILL = b"\xa5"
MARGIN = 256
"""Bytes behind a tensor in a buffer, and their maximum number in front of it."""

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
    kernels = OpResolverType.AUTO
    return _run_cpu(lambda: oracle.litert_interpreter(content, kernels=kernels), seed)


def run_resized(content: bytes, seed: int) -> Outcome:
    """LiteRT's CPU kernels in the shapes in between of `_resized_and_back`."""
    try:
        interpreter = oracle.litert_interpreter(content)
        resize(interpreter, seed)
        _resize_and_run(interpreter, seed)
    except (RuntimeError, ValueError) as error:
        return Outcome("refused", text=str(error))
    return Outcome("result")


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
    """In our interpreter or in LiteRT's, in one of `WAYS`."""
    choose = random.Random(seed)
    host = choose.choice((oracle.in_ours, oracle.in_litert))
    way = WAYS[choose.choice(tuple(WAYS))]
    try:
        return way(host, content, seed)
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


def _in_an_app(host: Host, content: bytes, seed: int) -> Outcome:
    with closing(App(model=content)) as app:
        interpreter = host(app.delegate, content)
        resize(interpreter, seed)
        return _outcome(app.delegate, oracle.run(interpreter, feeds(interpreter, seed)))


def _bound(host: Host, content: bytes, seed: int) -> Outcome:
    with closing(App(model=content)) as app:
        interpreter = host(app.delegate, content)
        resize(interpreter, seed)
        return _outcome(app.delegate, _run_bound(app, interpreter, seed))


def _alone(host: Host, content: bytes, seed: int, runs: int = 1, **options: Any) -> Outcome:
    """In the delegate's own context, `runs` times with the same result."""
    with gd.GpuDelegate(gd.GpuDelegateOptions(**options), model=content) as delegate:
        interpreter = host(delegate, content)
        resize(interpreter, seed)
        runs = 1 if _has_states(content) else runs
        results = [oracle.run(interpreter, feeds(interpreter, seed)) for _ in range(runs)]
        for result in results:
            oracle.assert_close(result, results[0], special=True, steps=5, tolerance=1e-4)
        return _outcome(delegate, results[-1])


def _has_states(content: bytes) -> bool:
    """Whether a run may change the next one's results."""
    try:
        graph = read_model(content)
        graphs = [graph, *graph.subgraphs]
    except DelegateError:
        return True
    return any(
        any(tensor.is_variable for tensor in each.tensors)
        or not STATEFUL.isdisjoint(node.op for node in each.nodes)
        for each in graphs
    )


def _in_final_programs(host: Host, content: bytes, seed: int) -> Outcome:
    return _alone(host, content, seed, background_compilation=False)


def _while_programs_are_exchanged(host: Host, content: bytes, seed: int) -> Outcome:
    return _alone(host, content, seed, runs=25)


def _in_little_memory(host: Host, content: bytes, seed: int) -> Outcome:
    return _alone(host, content, seed, inference_priority1=InferencePriority.MIN_MEMORY_USAGE)


def _in_parts(host: Host, content: bytes, seed: int) -> Outcome:
    """With nodes at the beginning, at the end, or both left to LiteRT.

    Not if LiteRT would quantize their inputs, for whose results it does not stand then.
    """
    graph = read_model(content)
    if any(has_dynamic_range(graph, node) for node in graph.nodes):
        return _alone(host, content, seed)
    nodes = max(len(graph.nodes), 1)
    first, last = sorted(random.Random(seed).randrange(nodes) for _ in range(2))
    ends = {"first_delegate_node_index": first, "last_delegate_node_index": last}
    return _alone(host, content, seed, max_delegated_partitions=nodes, **ends)


def _resized_and_back(host: Host, content: bytes, seed: int) -> Outcome:
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = host(delegate, content)
        resize(interpreter, seed)
        shapes = {d["index"]: tuple(d["shape"]) for d in interpreter.get_input_details()}
        with suppress(DelegateError, RuntimeError, ValueError):
            _resize_and_run(interpreter, seed)
        for index, shape in shapes.items():
            interpreter.resize_tensor_input(index, shape)
        interpreter.allocate_tensors()
        interpreter.reset_all_variables()
        return _outcome(delegate, oracle.run(interpreter, feeds(interpreter, seed)))


def _resize_and_run(interpreter: Any, seed: int) -> None:
    """Run in other shapes than the present ones."""
    shapes = {d["index"]: (*map(int, d["shape"]),) for d in interpreter.get_input_details()}
    for index, shape in other_shapes(shapes, 16 * seed + 15).items():
        interpreter.resize_tensor_input(index, shape)
    interpreter.allocate_tensors()
    interpreter.invoke()


def _asynchronously(host: Host, content: bytes, seed: int) -> Outcome:
    """Two runs that overlap, on the delegate's own thread for every second seed."""
    options = gd.GpuDelegateOptions(own_thread=seed % 2 > 0)
    with gd.GpuDelegate(options, model=content) as delegate:
        interpreter = oracle.in_ours(delegate, content)
        resize(interpreter, seed)
        for detail, array in zip(
            interpreter.get_input_details(), feeds(interpreter, seed), strict=True
        ):
            interpreter.set_tensor(detail["index"], array)
        runs = [interpreter.invoke_async() for _ in range(1 if _has_states(content) else 2)]
        details = interpreter.get_output_details()
        results = [[run.get_tensor(detail["index"]) for detail in details] for run in runs]
        return _outcome(delegate, results[-1])


WAYS: dict[str, Callable[[Host, bytes, int], Outcome]] = {
    "in an app's context": _in_an_app,
    "with bound buffers and textures": _bound,
    "in final programs, with chains": _in_final_programs,
    "while programs are exchanged": _while_programs_are_exchanged,
    "in little memory": _in_little_memory,
    "in parts": _in_parts,
    "resized and back": _resized_and_back,
    "asynchronously": _asynchronously,
}


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
