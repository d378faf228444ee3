"""Resource variables: state that nodes read and assign to, shared by all subgraphs of a model."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt

import gles_delegate as gd
from tests.support.hosts import Host, both_hosts
from tests.support.oracle import assert_close, in_litert, in_ours, litert_interpreter, run
from tests.support.sketch import Sketch
from tests.support.tflite_builder import ModelBuilder

SHAPE = (1, 4, 6)
FRAME = (1, 1, 6)


def sketch() -> Sketch:
    return Sketch(np.random.default_rng(0))


def handle(b: ModelBuilder, name: str = "state") -> int:
    return b.op("VAR_HANDLE", [], [b.tensor((), "resource")], shared_name=name)


def read(b: ModelBuilder, name: str = "state", shape: Sequence[int] = SHAPE) -> int:
    return b.op("READ_VARIABLE", [handle(b, name)], [b.tensor(shape)])


def assign(b: ModelBuilder, value: int, name: str = "state") -> None:
    b.op("ASSIGN_VARIABLE", [handle(b, name), value], [])


def first_value(name: str = "state", shape: Sequence[int] = SHAPE) -> Callable[..., list[int]]:
    def build(b: ModelBuilder) -> list[int]:
        values = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        assign(b, b.constant(values), name)
        return []

    return build


def stream(b: ModelBuilder, x: int, name: str = "state") -> int:
    """Append a frame to the last ones, forget the first, and return the mean of all five."""
    window = b.op("CONCATENATION", [read(b, name), x], [(1, 5, 6)], axis=1)
    begin, size = (b.constant(np.array(v, np.int32)) for v in ((0, 1, 0), SHAPE))
    assign(b, b.op("SLICE", [window, begin, size], [SHAPE]), name)
    axes = b.constant(np.array([1], np.int32))
    return b.op("MEAN", [window, axes], [(1, 6)])


def streaming(names: Sequence[str] = ("state",)) -> tuple[Sketch, bytes]:
    s = sketch()
    x = s.feed(FRAME)
    for name in names:
        s.op("CALL_ONCE", [], [], init_subgraph_index=s.subgraph(first_value(name)))
    outputs = [stream(s, x, name) for name in names]
    return s, s.build(outputs)


def whole(host: Host, content: bytes) -> gd.GpuDelegate:
    options = gd.GpuDelegateOptions(require_full_delegation=True)
    return gd.GpuDelegate(options, model=content if host is in_litert else None)


@both_hosts
@pytest.mark.parametrize("names", [("state",), ("one", "other")])
def test_a_state_lasts_from_run_to_run(host: Host, names: Sequence[str]) -> None:
    s, content = streaming(names)
    theirs = litert_interpreter(content)
    with whole(host, content) as delegate:
        ours = host(delegate, content)
        for _ in range(7):
            feed = [s.normal(FRAME)]
            assert_close(run(ours, feed), run(theirs, feed))
        for interpreter in (ours, theirs):
            interpreter.reset_all_variables()
        feed = [s.normal(FRAME)]
        assert_close(run(ours, feed), run(theirs, feed))


def test_runs_without_waiting_and_with_bound_buffers() -> None:
    s, content = streaming()
    theirs = litert_interpreter(content)
    with whole(in_ours, content) as delegate:
        ours = in_ours(delegate, content)
        (out,) = (detail["index"] for detail in ours.get_output_details())
        for _ in range(4):
            feed = s.normal(FRAME)
            ours.set_tensor(0, feed)
            actual = ours.invoke_async().get_tensor(out)
            assert_close([actual], run(theirs, [feed]))
        assert delegate.memory().inputs >= 4 * int(np.prod(SHAPE))


@both_hosts
def test_two_variables_change_places(host: Host) -> None:
    s = sketch()
    for name in ("a", "b"):
        body = s.subgraph(first_value(name, (2, 3)))
        s.op("CALL_ONCE", [], [], init_subgraph_index=body)
    x = s.feed((2, 3))
    a, b = (read(s, name, (2, 3)) for name in ("a", "b"))
    assign(s, b, "a")
    assign(s, s.op("ADD", [a, x], [(2, 3)]), "b")
    again = read(s, "b", (2, 3))
    content = s.build([a, b, again])
    theirs = litert_interpreter(content)
    with whole(host, content) as delegate:
        ours = host(delegate, content)
        for _ in range(3):
            assert_close(run(ours, s.feeds), run(theirs, s.feeds))


def with_two_signatures(initial: bool = True) -> bytes:
    """``push`` appends a frame to a state that ``last`` returns."""
    s = sketch()

    def last(b: ModelBuilder) -> list[int]:
        return [b.op("MUL", [read(b), b.input((1,))], [SHAPE])]

    index = s.subgraph(last)
    x = s.input(FRAME)
    if initial:
        s.op("CALL_ONCE", [], [], init_subgraph_index=s.subgraph(first_value()))
        y = stream(s, x)
    else:
        ones = s.constant(np.ones(SHAPE, np.float32))
        filled = s.op("MUL", [x, ones], [SHAPE])
        assign(s, filled)
        y = s.op("ABS", [filled], [SHAPE])
    return s.build([y], {"push": ({"x": x}, {"y": y}), "last": ({"x": 2}, {"y": 3}, index)})


@pytest.mark.parametrize("partly", [False, True])
def test_two_signatures_share_a_variable(partly: bool) -> None:
    content = with_two_signatures()
    theirs = LiteRt(model_content=content)
    options = gd.GpuDelegateOptions(last_delegate_node_index=1 if partly else None)
    with gd.GpuDelegate(options) as delegate:
        ours = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        assert delegate.report.fully_delegated != partly
        rng = np.random.default_rng(0)
        two = np.array([2], np.float32)
        for _ in range(3):
            frame = rng.standard_normal(FRAME).astype(np.float32)
            for key, feed in (("push", frame), ("last", two)):
                actual, expected = (
                    i.get_signature_runner(key)(x=feed)["y"] for i in (ours, theirs)
                )
                assert_close([actual], [expected])


def test_a_variable_that_nothing_was_assigned_to() -> None:
    content = with_two_signatures(initial=False)
    two = np.array([2], np.float32)
    with gd.Interpreter(model_content=content) as ours:
        with pytest.raises(gd.DelegateError, match="'state' is read before anything is assigned"):
            ours.get_signature_runner("last")(x=two)
        frame = np.ones(FRAME, np.float32)
        ours.get_signature_runner("push")(x=frame)
        actual = ours.get_signature_runner("last")(x=two)["y"]
    assert (actual == 2).all()


@both_hosts
def test_a_user_on_the_cpu_takes_the_variable_there(host: Host) -> None:
    """A whole number that passes through a type which the GPU lacks is appended to the state."""
    s = sketch()
    x = s.feed(FRAME)
    s.op("CALL_ONCE", [], [], init_subgraph_index=s.subgraph(first_value()))
    before = read(s)
    wide = s.op("CAST", [before], [s.tensor(SHAPE, np.float64)])
    window = s.op(
        "CONCATENATION", [s.op("CAST", [wide], [s.tensor(SHAPE)]), x], [(1, 5, 6)], axis=1
    )
    begin, size = (s.constant(np.array(v, np.int32)) for v in ((0, 1, 0), SHAPE))
    assign(s, s.op("SLICE", [window, begin, size], [SHAPE]))
    content = s.build([s.op("TANH", [window], [(1, 5, 6)])])
    theirs = litert_interpreter(content)
    options = gd.GpuDelegateOptions(max_delegated_partitions=9)
    with gd.GpuDelegate(options, model=content if host is in_litert else None) as delegate:
        ours = host(delegate, content)
        reasons = {op: why for _, op, why in delegate.report.not_delegated}
        assert reasons["READ_VARIABLE"].startswith("other nodes that use the variable 'state'")
        assert reasons["CALL_ONCE"] == "the variable 'state' is on the CPU"
        for _ in range(4):
            feed = [s.normal(FRAME)]
            assert_close(run(ours, feed), run(theirs, feed))


def refused(s: Sketch, outputs: Sequence[int]) -> str:
    content = s.build(outputs)
    with whole(in_ours, content) as delegate, pytest.raises(gd.UnsupportedModelError) as caught:
        in_ours(delegate, content)
    return str(caught.value)


def test_values_of_another_shape_are_refused() -> None:
    s = sketch()
    s.op("CALL_ONCE", [], [], init_subgraph_index=s.subgraph(first_value(shape=(1, 6))))
    assign(s, s.feed(SHAPE))
    assert "for a variable of float32 [1, 6]" in refused(s, [read(s)])


def test_a_variable_without_a_value_is_refused() -> None:
    s = sketch()
    y = s.op("ADD", [read(s), s.feed(SHAPE)], [SHAPE])
    assert "'state': no node assigns to it" in refused(s, [y])


def test_a_first_value_that_is_computed_is_refused() -> None:
    def build(b: ModelBuilder) -> list[int]:
        assign(b, b.op("EXP", [b.constant(np.ones(SHAPE, np.float32))], [SHAPE]))
        return []

    s = sketch()
    s.op("CALL_ONCE", [], [], init_subgraph_index=s.subgraph(build))
    y = s.op("ADD", [read(s), s.feed(SHAPE)], [SHAPE])
    assert "its first value is computed" in refused(s, [y])


@both_hosts
@pytest.mark.parametrize("place", ["before", "between", "after"])
@pytest.mark.parametrize("options", [{}, {"first_delegate_node_index": 2}])
def test_a_loop_on_the_cpu_keeps_its_order(host: Host, place: str, options: dict[str, int]) -> None:
    """LiteRT keeps the order of nodes with side effects, and so splits a variable's nodes."""
    s = sketch()
    x, decides = s.feed(SHAPE), s.feed(values=True, dtype="bool")
    s.op("CALL_ONCE", [], [], init_subgraph_index=s.subgraph(first_value()))

    def going_on(b: ModelBuilder) -> list[int]:
        flag, _ = b.input((), "bool"), b.input(SHAPE)
        return [b.op("LOGICAL_AND", [flag, flag], [()])]

    def negated_once(b: ModelBuilder) -> list[int]:
        flag, y = b.input((), "bool"), b.input(SHAPE)
        other = b.op("LOGICAL_NOT", [flag], [()])
        return [b.op("LOGICAL_AND", [flag, other], [()]), b.op("NEG", [y], [SHAPE])]

    def loop() -> int:
        indices = {
            "cond_subgraph_index": s.subgraph(going_on),
            "body_subgraph_index": s.subgraph(negated_once),
        }
        results = [s.tensor((), np.bool_), s.tensor(SHAPE)]
        s.op("WHILE", [decides, s.op("RELU", [x], [SHAPE])], results, **indices)
        return results[1]

    outputs = [loop()] if place == "before" else []
    variable = handle(s)
    outputs += [loop()] if place == "between" else []
    y = s.op("READ_VARIABLE", [variable], [s.tensor(SHAPE)])
    outputs += [loop()] if place == "after" else []
    y = s.op("ADD", [y, x], [SHAPE])
    s.op("ASSIGN_VARIABLE", [variable, y], [])
    content = s.build([s.op("TANH", [y], [SHAPE]), *outputs])
    theirs = litert_interpreter(content)
    chosen = gd.GpuDelegateOptions(max_delegated_partitions=9, **options)
    with gd.GpuDelegate(chosen, model=content) as delegate:
        ours = host(delegate, content)
        assert not delegate.report.fully_delegated
        for decision in (True, False, True):
            feeds = [s.normal(SHAPE), np.array(decision)]
            assert_close(run(ours, feeds), run(theirs, feeds))
