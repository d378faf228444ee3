"""Every public method of the interpreter in every way to run it, beside LiteRT's own."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType
from ai_edge_litert.interpreter import SignatureRunner as LiteRtRunner

import gles_delegate as gd
from gles_delegate.gl.functions import SHADER_STORAGE_BUFFER, STATIC_DRAW
from gles_delegate.hosts.interpreter import SignatureRunner
from gles_delegate.runtime.invocation import Invocation
from tests.support.process import run_python
from tests.support.same import assert_same
from tests.support.tflite_builder import ModelBuilder

same = partial(assert_same, rtol=1e-4, atol=1e-5)

A, B = (np.linspace(start, 2, 8, dtype=np.float32).reshape(2, 4) for start in (-1, 0))
ROW = A[:1]
X, CONSTANT, RAISED, BENT, Y = 0, 1, 2, 3, 5


def model() -> bytes:
    """y = relu(tanh(x + 1) * (x + 1)); and another subgraph."""
    builder = ModelBuilder()
    x = builder.input((2, 4), name="x")
    raised = builder.op("ADD", [x, builder.constant(np.ones(4, np.float32))], [(2, 4)])
    bent = builder.op("TANH", [raised], [(2, 4)])
    y = builder.op("RELU", [builder.op("MUL", [bent, raised], [(2, 4)])], [(2, 4)])

    def doubled(inner: ModelBuilder) -> list[int]:
        half = inner.op("TANH", [inner.input((2, 4), name="z")], [(2, 4)])
        return [inner.op("RELU", [inner.op("ADD", [half, half], [(2, 4)])], [(2, 4)])]

    other = builder.subgraph(doubled)
    signatures = {"first": ({"x": x}, {"y": y, "bent": bent}), "other": ({"z": 0}, {"w": 3}, other)}
    return builder.build([y, bent], signatures=signatures)


def stateful() -> bytes:
    """The same tensors in front and at the end of a cell with a state."""
    builder = ModelBuilder()
    x = builder.input((2, 4), name="x")
    half = np.eye(4, dtype=np.float32) / 2
    weights = [builder.constant(array) for array in (half, half, np.zeros(4, np.float32))]
    state = builder.variable((2, 4), name="state")
    raised = builder.op("ADD", [x, x], [(2, 4)])
    cell = builder.op("RNN", [raised, *weights, state], [(2, 4)], fused_activation_function="TANH")
    y = builder.op("MUL", [cell, cell], [(2, 4)])
    return builder.build([builder.op("RELU", [y], [(2, 4)])])


WAYS: dict[str, dict[str, Any]] = {
    "whole": {},
    "CPU first": {"first_delegate_node_index": 1},
    "CPU last": {"last_delegate_node_index": 2},
    "own thread": {"own_thread": True},
    "own thread, CPU first": {"own_thread": True, "first_delegate_node_index": 1},
    "adopted": {"context": "current"},
    "adopted, CPU last": {"context": "current", "last_delegate_node_index": 2},
    "its own delegate": {},
    "the delegate in LiteRT": {},
    "LiteRT": {},
}


class Way:
    """An interpreter in one of the ways, closed at the end of ``with``."""

    def __init__(self, name: str, content: bytes, keeps: bool) -> None:
        self.is_litert, self.has_thread = name.endswith("LiteRT"), name.startswith("own thread")
        self._stack = ExitStack()
        options = dict(WAYS[name])
        context = options.pop("context", None)
        if context is not None:
            egl = gd.EglContext()
            self._stack.callback(egl.release)
            self._stack.enter_context(egl)
        self._delegate: gd.GpuDelegate | None = None
        if name not in ("LiteRT", "its own delegate"):
            self._delegate = self._stack.enter_context(
                gd.GpuDelegate(
                    gd.GpuDelegateOptions(**options),
                    context=context,
                    model=content if self.is_litert else None,
                )
            )
        kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self.interpreter: Any = (LiteRt if self.is_litert else gd.Interpreter)(
            model_content=content,
            experimental_delegates=[self._delegate] if self._delegate else None,
            experimental_preserve_all_tensors=keeps,
            experimental_op_resolver_type=kernels,
        )
        if not self.is_litert:
            self._stack.callback(self.interpreter.close)

    def close_delegate(self) -> None:
        (self._delegate or self.interpreter).close()

    def __enter__(self) -> Way:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()


Case = Callable[[Way], Any]
CASES: dict[str, list[Case]] = defaultdict(list)
"""Cases by the method that they call; what they return is compared."""


def case(*methods: str) -> Callable[[Case], Case]:
    def add(function: Case) -> Case:
        for method in methods:
            CASES[method].append(function)
        return function

    return add


def error(call: Callable[[], Any]) -> type[BaseException] | None:
    """The class of the error that a call raises; None if it returns."""
    try:
        call()
    except Exception as raised:
        return type(raised) if str(raised) else None
    return None


def errors(method: Callable[..., Any], calls: list[Any]) -> list[Any]:
    return [error(partial(method, *arguments)) for arguments in calls]


def ready(way: Way, array: Any = A) -> Any:
    interpreter = way.interpreter
    interpreter.allocate_tensors()
    interpreter.set_tensor(X, array)
    return interpreter


def ran(way: Way, array: Any = A) -> Any:
    interpreter = ready(way, array)
    interpreter.invoke()
    return interpreter


def results(interpreter: Any) -> list[Any]:
    return [interpreter.get_tensor(index) for index in (Y, BENT)]


@case("Interpreter.allocate_tensors", "Interpreter.invoke", "Interpreter.get_tensor")
def runs(way: Way) -> Any:
    found = [results(ran(way)), results(ran(way, B))]
    i = way.interpreter
    i.allocate_tensors()
    found += [results(i), i.get_tensor(X)]
    i.invoke()
    return found, results(i)


@case("Interpreter.invoke", "Interpreter.set_tensor", "Interpreter.get_tensor")
def not_allocated(way: Way) -> Any:
    i = way.interpreter
    found = [error(i.invoke), error(lambda: i.get_tensor(X)), error(lambda: i.set_tensor(X, A))]
    ran(way).resize_tensor_input(X, (1, 4))
    return found, error(i.invoke), i.get_tensor(CONSTANT)


@case("Interpreter.set_tensor")
def wrong_values(way: Way) -> Any:
    i = ready(way)
    wrong = [(X, A.astype(np.float64)), (X, ROW), (X, A[0]), (99, A), (-1, A), (X, A.tolist())]
    return [
        error(lambda index=index, value=value: i.set_tensor(index, value)) for index, value in wrong
    ]


@case("Interpreter.set_tensor")
def what_is_not_set(way: Way) -> Any:
    """LiteRT writes a constant, and a node's result, in its own memory only."""
    i = ready(way)
    calls = [(CONSTANT, np.ones(4, np.float32)), (RAISED, A)]
    wrong = (
        [] if way.is_litert else [error(lambda call=call: i.set_tensor(*call)) for call in calls]
    )
    return wrong or [ValueError] * 2, i.get_tensor(CONSTANT)


@case("Interpreter.set_tensor")
def an_output_is_set(way: Way) -> Any:
    i = ran(way)
    i.set_tensor(Y, B)
    before = i.get_tensor(Y)
    i.invoke()
    return before, i.get_tensor(Y)


@case("Interpreter.get_tensor")
def wrong_indices(way: Way) -> Any:
    i = ran(way)
    return errors(i.get_tensor, [(99,), (-1,), ("x",), (None,)])


@case("Interpreter.get_tensor")
def copies(way: Way) -> Any:
    i = ran(way)
    found = []
    for index in (X, Y):
        one, other = i.get_tensor(index), i.get_tensor(index)
        one[:] = 7
        found += [other, i.get_tensor(index), np.shares_memory(one, other)]
    return found


@case("Interpreter.resize_tensor_input")
def resized(way: Way) -> Any:
    i = ran(way)
    found = []
    for rows in (1, 3, 3, 0, 2):
        i.resize_tensor_input(X, np.array((rows, 4)))
        i.allocate_tensors()
        i.set_tensor(X, np.resize(B, (rows, 4)))
        i.invoke()
        found.append(results(i))
    return found


@case("Interpreter.resize_tensor_input")
def wrong_sizes(way: Way) -> Any:
    i = way.interpreter
    calls = [(99, (2, 4)), (X, (-1, 4)), (X, (3, 4), True), (X, (2, 4, 1), True), (X, (2, 4), True)]
    return errors(i.resize_tensor_input, calls)


@case("Interpreter.tensor")
def views(way: Way) -> Any:
    i = ran(way)
    read, write = i.tensor(Y), i.tensor(X)
    first = read().copy()
    write()[:] = B
    i.invoke()
    second = read().copy()
    i.resize_tensor_input(X, (1, 4))
    i.allocate_tensors()
    write()[:] = ROW
    i.invoke()
    return first, second, read().copy(), error(lambda: i.tensor(99)())


@case("Interpreter.tensor", "Interpreter.invoke", "Interpreter.allocate_tensors")
@case("Interpreter.resize_tensor_input")
def a_view_is_held(way: Way) -> Any:
    i = ran(way)
    view = i.tensor(Y)()
    part, found = view[:1], []
    calls = [i.invoke, i.allocate_tensors, lambda: i.resize_tensor_input(X, (1, 4))]
    found += [error(call) for call in calls]
    del view
    found += [error(call) for call in calls]
    found += [error(lambda: i.set_tensor(X, B)), i.get_tensor(X), part.copy()]
    del part
    return found, [error(call) for call in calls]


@case("Interpreter.run", "SignatureRunner.__call__", "Interpreter.tensor")
def a_view_is_held_in_a_whole_call(way: Way) -> Any:
    """LiteRT's signature runners would move the memory under it."""
    i = ran(way)
    if way.is_litert:
        return [RuntimeError] * 3, None
    runners = [i.get_signature_runner(key) for key in ("first", "other")]
    view = i.tensor(Y)()
    calls = [lambda: i.run({"x": B}), lambda: runners[0](x=B), lambda: runners[1](z=B)]
    found = [error(call) for call in calls]
    del view
    return found, error(calls[0])


@case("Interpreter.get_input_details", "Interpreter.get_output_details")
@case("Interpreter.get_tensor_details")
def details(way: Way) -> Any:
    i = way.interpreter

    def all_of_them() -> Any:
        named = [each for each in i.get_tensor_details() if each["name"]]
        return i.get_input_details(), i.get_output_details(), named

    found = [all_of_them()]
    i.resize_tensor_input(X, (3, 4))
    found.append(i.get_input_details())
    i.allocate_tensors()
    return found, all_of_them(), error(lambda: i.get_tensor_details(7))


@case("Interpreter.get_signature_list", "Interpreter.get_signature_runner")
@case("Interpreter.num_subgraphs")
def signatures(way: Way) -> Any:
    i = way.interpreter
    wrong = errors(i.get_signature_runner, [(None,), ("no",)])
    return i.get_signature_list(), i.num_subgraphs(), wrong


@case("SignatureRunner.__call__", "SignatureRunner.get_input_details")
@case("SignatureRunner.get_output_details")
def runners(way: Way) -> Any:
    i = way.interpreter
    first, other = (i.get_signature_runner(key) for key in ("first", "other"))
    found = [first(x=A), other(z=A), first(x=B), other(z=ROW)]
    described = first.get_input_details(), other.get_input_details(), other.get_output_details()
    calls = (first, lambda: first(z=A), lambda: first(x=A, z=A), lambda: first(x=A.astype(int)))
    return found, described, [error(call) for call in calls]


@case("Interpreter.reset_all_variables")
def states(way: Way) -> Any:
    i = ready(way)
    found = []
    for reset in (False, False, True, False):
        if reset:
            i.reset_all_variables()
        i.invoke()
        found.append([i.get_tensor(8), i.get_tensor(4)])
    i.set_tensor(4, B)
    i.invoke()
    return found, i.get_tensor(8)


@case("Interpreter.run")
def whole_runs(way: Way) -> Any:
    i = way.interpreter
    wrong: list[Any] = [{}, {"no": A}, {"x": A, 0: A}, {"x": A.astype(int)}, {"x": A, "y": A}, A]
    found = [i.run({"x": each}) for each in (A, ROW, B)]
    return found, i.run({0: A}), errors(i.run, [(each,) for each in wrong])


@case("Interpreter.run", "SignatureRunner.__call__", "Interpreter.invoke")
def runs_that_fail(way: Way) -> Any:
    """Inputs have their shapes before, and are allocated if they were."""
    i = way.interpreter
    bad = np.zeros((2, 3), np.float32)
    runner = i.get_signature_runner("first")
    calls = [lambda: i.run({"x": bad}), lambda: runner(x=bad)]
    assert None not in [error(call) for call in calls]
    shapes, wrong = [i.get_input_details()[0]["shape"]], error(i.invoke)
    found = [results(ran(way))]
    for call in calls:
        assert error(call) is not None
        shapes.append(i.get_input_details()[0]["shape"])
        i.set_tensor(X, B)
        i.invoke()
        found.append(results(i))
    found.append(runner(x=ROW))
    assert error(calls[0]) is not None
    i.set_tensor(X, ROW)
    i.invoke()
    return shapes, wrong, found, results(i)


@case("Interpreter.exclusive", "Interpreter.tensor")
def another_threads_view_waits(way: Way) -> Any:
    i = ran(way)
    took: list[Any] = []
    viewer = threading.Thread(target=lambda: took.append(error(lambda: i.tensor(Y)()[0, 0])))
    with i.exclusive(), i.exclusive():
        viewer.start()
        viewer.join(0.2)
        waited = viewer.is_alive()
        i.invoke()
    viewer.join()
    return waited, results(i), len(took)


@case("Interpreter.close")
def closed(way: Way) -> Any:
    i = ran(way)
    started = i.invoke_async()
    started.wait()
    way.close_delegate()
    way.close_delegate()
    i.close()
    calls: list[Callable[[], Any]] = [
        i.allocate_tensors,
        i.invoke,
        i.invoke_async,
        lambda: i.run({"x": A}),
        lambda: started.get_tensor(Y),
        i.get_input_details,
        i.num_subgraphs,
    ]
    return [error(call) for call in calls], "closed" in repr(i)


@case("Interpreter.modify_graph_with_delegate")
def another_delegate(way: Way) -> Any:
    i = ran(way)
    wrong = [error(lambda: i.modify_graph_with_delegate(gd.GpuDelegate()))]
    wrong += [error(lambda: i.modify_graph_with_delegate("x"))]
    i.resize_tensor_input(X, (1, 4))
    way.close_delegate()
    with gd.GpuDelegate() as delegate:
        i.modify_graph_with_delegate(delegate)
        return wrong, results(ran(way, ROW)), error(i.invoke)


@case("Interpreter.metadata")
def metadata(way: Way) -> Any:
    return way.interpreter.metadata.name


@case("Interpreter.__enter__", "Interpreter.__exit__", "Interpreter.__reduce__")
def is_entered(way: Way) -> Any:
    with way.interpreter as i:
        shown = [isinstance(text, str) for text in (repr(i), i._repr_html_())]
        return (
            shown,
            i is way.interpreter,
            error(lambda: pickle.dumps(i)),
            error(lambda: copy.copy(i)),
        )


@case("Interpreter.invoke_async", "Invocation.get_tensor")
def the_last_two_runs(way: Way) -> Any:
    i = ready(way)
    started = []
    for array in (A, B, A + B):
        i.set_tensor(X, array)
        started.append(i.invoke_async())
        found = [run.get_tensor(Y) for run in started[-2:]]
    i.set_tensor(X, -A)
    i.invoke()
    found += [i.get_tensor(Y), started[1].get_tensor(BENT), started[2].get_tensor(BENT)]
    return found, [error(partial(run.get_tensor, Y)) for run in started]


@case("Interpreter.invoke_async", "Invocation.get_tensor", "Interpreter.resize_tensor_input")
def results_after_a_resize(way: Way) -> Any:
    """Of the last two runs, in their own shapes, until two others were started."""
    i = ready(way)
    started, found = [], []
    for array in (A, B, ROW):
        i.resize_tensor_input(X, array.shape)
        i.allocate_tensors()
        i.set_tensor(X, array)
        started.append(i.invoke_async())
        found += [run.get_tensor(index) for run in started[-2:] for index in (Y, BENT)]
    i.resize_tensor_input(X, (3, 4))
    i.allocate_tensors()
    found += [run.get_tensor(Y) for run in started[-2:]]
    found[-1][:] = 7
    i.invoke()
    found += [started[2].get_tensor(Y)]
    wrong = [error(partial(run.get_tensor, Y)) for run in started]
    wrong += errors(started[2].get_tensor, [(X,), (CONSTANT,), (99,)])
    i.invoke_async()
    found += [started[2].get_tensor(Y)]
    i.invoke_async()
    return found, wrong, [error(partial(run.get_tensor, Y)) for run in started]


@case("Interpreter.invoke_async", "Invocation.get_tensor")
def runs_that_nobody_waits_for(way: Way) -> Any:
    """With its own thread, all are queued before the first result is read."""
    i = ready(way)
    found, wrong = [], []
    for _ in range(10):
        started = []
        for array in (A, B, A + B):
            i.set_tensor(X, array)
            started.append(i.invoke_async())
        wrong.append(error(partial(started[0].get_tensor, Y)))
        found += [run.get_tensor(Y) for run in started[1:]]
    return wrong, found


@case("Interpreter.invoke_async")
def it_waits_for(way: Way) -> Any:
    i = ready(way)

    def wrong(fence: Any) -> Any:
        return error(lambda: i.invoke_async(fence).wait())

    found = [wrong(fence) for fence in (i.invoke_async(), "x", 1 << 40)]
    i.invoke()
    return found, results(i)


@case("Interpreter.invoke_async", "Invocation.get_tensor")
def a_run_that_does_not_start(way: Way) -> Any:
    """The results of the run before stay."""
    i = ready(way)
    run = i.invoke_async()
    wrong = [error(lambda: i.invoke_async("x").wait()) for _ in range(2)]
    return wrong, run.get_tensor(Y)


@case("Invocation.done", "Invocation.wait", "Invocation.close", "Invocation.wait_on_gpu")
@case("Invocation.__enter__", "Invocation.__exit__")
def waits(way: Way) -> Any:
    i = ready(way)
    with i.invoke_async() as run:
        found = [run.wait(60), run.wait(), run.done(), run.wait_on_gpu()]
    run.close()
    return found, run.done(), run.get_tensor(Y)


@case("Invocation.of_current_context")
def fences(way: Way) -> Any:
    with gd.EglContext() as egl:
        reached = Invocation.of_current_context().wait(60)
    egl.release()
    return reached


@case("Invocation.__await__")
def is_awaited(way: Way) -> Any:
    i = ready(way)

    async def run() -> Any:
        return (await i.invoke_async()).get_tensor(Y)

    return asyncio.run(run())


@case("Invocation.add_done_callback")
def callbacks(way: Way) -> Any:
    run = ready(way).invoke_async()
    called: list[Any] = []
    done = threading.Event()

    def when_done(invocation: Any) -> None:
        called.append(invocation is run)
        done.set()

    raised = error(lambda: run.add_done_callback(when_done))
    if not way.has_thread:
        return raised is gd.DelegateError
    assert done.wait(60)
    return called == [True]


def methods() -> list[str]:
    """The public methods, and the special ones that a program uses without their names."""
    special = {"__call__", "__enter__", "__exit__", "__await__", "__reduce__"}
    return [
        f"{kind.__name__}.{name}"
        for kind in (gd.Interpreter, SignatureRunner, Invocation)
        for name, value in inspect.getmembers(kind)
        if not name.startswith("_") or (name in special and value is not getattr(object, name, 0))
    ]


def test_every_method_has_a_case() -> None:
    assert set(methods()) == CASES.keys()


def is_litert(method: str) -> bool:
    kind, name = method.split(".")
    return kind != "Invocation" and hasattr({"Interpreter": LiteRt}.get(kind, LiteRtRunner), name)


FUNCTIONS = list(dict.fromkeys(each for cases in CASES.values() for each in cases))
LEFT_OUT = {(details, "the delegate in LiteRT")}
"""LiteRT does not ask a delegate for the shapes of what stays inside."""


@pytest.mark.parametrize("keeps", [False, True], ids=["", "keeps all"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_way_is_the_same(function: Case, keeps: bool) -> None:
    content = stateful() if function is states else model()
    called = [method for method, cases in CASES.items() if function in cases]
    with_litert = all(map(is_litert, called))

    def found(name: str) -> Any:
        with Way(name, content, keeps) as way:
            return function(way)

    expected = found("LiteRT" if with_litert else "whole")
    for name in WAYS:
        is_ours = not name.endswith("LiteRT")
        if is_ours or (with_litert and (function, name) not in LEFT_OUT):
            same(found(name), expected, name)


@pytest.mark.parametrize(
    "method", ["resize_tensor_input", "allocate_tensors", "set_tensor", "invoke"]
)
@pytest.mark.parametrize("name", ["whole", "CPU first", "own thread, CPU first"])
def test_a_run_that_fails_anywhere(name: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of the host's fails, before or after it does what it does."""
    for comes_first in (False, True):
        with Way(name, model(), keeps=False) as way:
            i = way.interpreter
            expected = results(ran(way))
            host = i._host
            original = getattr(host, method)

            def fail(
                *arguments: Any, original: Any = original, comes_first: bool = comes_first
            ) -> None:
                monkeypatch.undo()
                if not comes_first:
                    original(*arguments)
                raise gd.LiteRtError("it failed")

            monkeypatch.setattr(host, method, fail)
            with pytest.raises(gd.LiteRtError, match="it failed"):
                i.run({"x": ROW})
            assert i.get_input_details()[0]["shape"].tolist() == [2, 4]
            i.set_tensor(X, A)
            i.invoke()
            same(results(i), expected)


@pytest.mark.parametrize("name", ["whole", "CPU last"])
def test_a_run_that_fails_after_an_input(name: str) -> None:
    """The first of two inputs was resized."""
    b = ModelBuilder()
    x, z = b.input((2, 4), name="x"), b.input((2, 4), name="z")
    total = b.op("ADD", [b.op("TANH", [x], [(2, 4)]), z], [(2, 4)])
    y = b.op("RELU", [b.op("MUL", [total, total], [(2, 4)])], [(2, 4)])
    with Way(name, b.build([y]), keeps=False) as way:
        i = way.interpreter
        expected = i.run({"x": A, "z": B})
        for feeds in ({"x": np.ones((3, 4), np.float32), "z": B}, {"x": A, "z": A[:, :3]}):
            with pytest.raises((ValueError, RuntimeError)):
                i.run(feeds)
            shapes = [each["shape"].tolist() for each in i.get_input_details()]
            assert shapes == [[2, 4], [2, 4]]
            i.set_tensor(x, A)
            i.set_tensor(z, B)
            i.invoke()
            same(i.get_tensor(y), next(iter(expected.values())))


@pytest.mark.parametrize("name", [name for name in WAYS if not name.endswith("LiteRT")])
def test_what_nodes_compute_is_kept(name: str) -> None:
    with Way(name, model(), keeps=True) as way:
        run = ready(way).invoke_async()
        for found in (run.get_tensor(RAISED), way.interpreter.get_tensor(RAISED)):
            np.testing.assert_allclose(found, A + 1, atol=1e-6)


def buffer_of(delegate: gd.GpuDelegate, array: Any) -> int:
    """A buffer of the delegate's context with this content."""

    def make() -> int:
        gl = delegate.gpu.gl
        name = gl.generate("Buffers")
        gl.glBindBuffer(SHADER_STORAGE_BUFFER, name)
        gl.glBufferData(SHADER_STORAGE_BUFFER, array.nbytes, array.ctypes.data, STATIC_DRAW)
        gl.glBindBuffer(SHADER_STORAGE_BUFFER, 0)
        return name

    assert delegate._thread is not None
    return delegate._thread.run(make)


BINDABLE = {"": (X, BENT, Y), "CPU first": (BENT, Y), "CPU last": (X,)}
"""An input that node 0 reads, and outputs of nodes 1 and 3, where these are on the GPU."""


@pytest.mark.parametrize(
    ("name", "index"),
    [
        (name, index)
        for name in WAYS
        if not name.endswith(("LiteRT", "its own delegate"))
        for index in BINDABLE[name[name.find("CPU") :] if "CPU" in name else ""]
    ],
)
def test_bound_tensors(name: str, index: int) -> None:
    with Way(name, model(), keeps=False) as way:
        i, delegate = way.interpreter, way._delegate
        assert delegate is not None
        before = results(ran(way))
        delegate.bind_buffer_to_tensor(index, buffer_of(delegate, A))
        i.allocate_tensors()
        fed = {} if index == X else {"x": A}
        found = i.run(fed)
        run = i.invoke_async()
        assert run.wait(60)
        named = dict(zip((Y, BENT), before, strict=True))
        same({*found}, {*("tensor_3", "tensor_5")} - {f"tensor_{index}"})
        for key, each in found.items():
            same(each, named[int(key[-1])])
        assert error(lambda: i.set_tensor(index, A)) is ValueError
        if index == X:
            assert error(lambda: i.get_tensor(X)) is ValueError
            assert error(lambda: i.tensor(X)()) is ValueError
            assert error(lambda: i.run({"x": A})) is ValueError
        else:
            same(i.get_tensor(index), named[index])
            same(i.tensor(index)().copy(), named[index])
            assert error(lambda: run.get_tensor(index)) is ValueError
        for other in {Y, BENT} - {index}:
            same(run.get_tensor(other), named[other])
        delegate.unbind(index)
        for other in {Y, BENT} - {index}:
            same(run.get_tensor(other), named[other])
        if index != X:
            assert error(lambda: run.get_tensor(index)) is ValueError
        unbound = ready(way).invoke_async()
        delegate.bind_buffer_to_tensor(index, buffer_of(delegate, A))
        same([unbound.get_tensor(each) for each in (Y, BENT)], before)
        delegate.unbind(index)
        same(results(ran(way)), before)


IN_A_CHILD = """
import os, signal, sys, threading
from functools import partial
from tests.litert.test_hosts import A, BENT, X, Y, Way, model, ready

with Way(sys.argv[1], model(), keeps=False) as way:
    i = ready(way)
    run, runner, view = i.invoke_async(), i.get_signature_runner("other"), i.tensor(Y)
    run.wait()
    thread, held, ended = i._bound.thread, threading.Barrier(2), threading.Event()
    def hold():
        with i.exclusive(), thread._turn:
            if thread.is_own:
                thread.start(ended.wait)
            held.wait()
            ended.wait()
    threading.Thread(target=hold, daemon=True).start()
    held.wait()
    queued = type(run)(thread, lambda: run) if thread.is_own else run
    child = os.fork()
    if not child:
        signal.alarm(60)
        calls = [
            i.allocate_tensors, i.invoke, i.invoke_async, i.reset_all_variables,
            i.exclusive().__enter__,
            i.get_input_details, i.get_output_details, i.get_tensor_details,
            partial(i.set_tensor, X, A), partial(i.get_tensor, Y), partial(i.tensor, Y), view,
            partial(i.resize_tensor_input, X, A.shape), partial(i.run, {"x": A}),
            partial(runner, z=A), runner.get_output_details,
            partial(i.get_signature_runner, "other"), runner.get_input_details,
            partial(run.get_tensor, Y), run.wait_on_gpu, partial(queued.get_tensor, Y),
        ]
        calls += [queued.wait, queued.done, queued.close] if thread.is_own else []
        for call in calls:
            try:
                call()
            except Exception as error:
                print(type(error).__name__, "fork" in str(error), flush=True)
            else:
                print(call, "returned", flush=True)
        i.close(), i.num_subgraphs(), i.metadata, i.get_signature_list(), repr(i)
        print("end", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    ended.set()
"""


@pytest.mark.parametrize("name", ["whole", "CPU last", "own thread", "own thread, CPU first"])
def test_a_child_forked_while_a_call_runs_is_told(name: str) -> None:
    result = run_python(IN_A_CHILD, name, PYTHONWARNINGS="ignore::DeprecationWarning")
    *told, end = result.stdout.splitlines()
    assert end == "end", result
    assert {*told} == {"ContextError True"}, result
    assert len(told) > 20
