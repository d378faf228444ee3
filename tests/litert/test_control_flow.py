"""IF, STABLEHLO_CASE and WHILE, whose subgraphs take their place."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning import inlining
from gles_delegate.planning.lowering import lower_graph
from tests.support.hosts import HOSTS, Host, both_hosts, run_resized
from tests.support.oracle import (
    assert_close,
    in_litert,
    in_ours,
    litert_interpreter,
    run,
    run_litert,
)
from tests.support.pairwise import pairwise
from tests.support.sketch import Sketch
from tests.support.tflite_builder import NO_INPUT, ModelBuilder

SHAPE = (2, 5, 6)


def sketch() -> Sketch:
    return Sketch(np.random.default_rng(0))


def check(host: Host, content: bytes, s: Sketch, whole: bool = True) -> None:
    options = gd.GpuDelegateOptions(require_full_delegation=whole, max_delegated_partitions=9)
    with gd.GpuDelegate(options, model=content if host is in_litert else None) as delegate:
        interpreter = host(delegate, content)
        assert delegate.report.fully_delegated == whole
        for feeds in (s.feeds, [-2 * array for array in s.feeds]):
            assert_close(run(interpreter, feeds), run_litert(content, feeds))


def loop(s: Sketch, condition: Any, body: Any, values: list[int], outputs: list[int]) -> None:
    options = {
        "cond_subgraph_index": s.subgraph(condition),
        "body_subgraph_index": s.subgraph(body),
    }
    s.op("WHILE", values, outputs, **options)


def below(last: int) -> Callable[[ModelBuilder], list[int]]:
    """Counts from input 0."""

    def condition(b: ModelBuilder) -> list[int]:
        count, _, _ = b.input((), np.int32), b.input(SHAPE), b.input(SHAPE)
        end = b.constant(np.array(last, np.int32))
        return [b.op("LESS", [count, end], [b.tensor((), np.bool_)])]

    return condition


def step(b: ModelBuilder) -> list[int]:
    """The count, TANH of the product with weights, and a value that stays as it is."""
    count, x, kept = b.input((), np.int32), b.input(SHAPE), b.input(SHAPE)
    weights = b.constant(np.random.default_rng(1).standard_normal((6, 6)).astype(np.float32))
    bias = b.constant(np.zeros(6, np.float32))
    y = b.op("FULLY_CONNECTED", [x, weights, bias], [SHAPE], keep_num_dims=True)
    more = b.op("ADD", [count, b.constant(np.array(1, np.int32))], [()])
    return [more, b.op("TANH", [b.op("ADD", [y, kept], [SHAPE])], [SHAPE]), kept]


def counting(last: int) -> tuple[Sketch, bytes]:
    s = sketch()
    zero = s.constant(np.array(0, np.int32))
    outputs = [s.tensor((), np.int32), s.tensor(SHAPE), s.tensor(SHAPE)]
    x = s.op("NEG", [s.feed(SHAPE)], [SHAPE])
    loop(s, below(last), step, [zero, x, x], outputs)
    return s, s.build([*outputs, s.op("ABS", [outputs[1]], [SHAPE])])


@both_hosts
@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_loop_that_counts(host: Host, trips: int) -> None:
    s, content = counting(trips)
    check(host, content, s)


def test_weights_in_a_loop_are_packed_once() -> None:
    graph = read_model(counting(7)[1])
    lowered = lower_graph(graph, Limits())
    weights = [t for t in lowered.graph.tensors if t.is_constant and t.shape == (6, 6)]
    assert len(weights) == 1


@both_hosts
@pytest.mark.parametrize("rows", [2, 3])
def test_a_loop_as_long_as_a_shape(host: Host, rows: int) -> None:
    s = sketch()
    x = s.feed(SHAPE)
    shape = s.op("SHAPE", [x], [s.tensor((3,), np.int32)], out_type=2)
    at = s.constant(np.array(0, np.int32))
    count = s.op("GATHER", [shape, at], [s.tensor((), np.int32)])
    outputs = [s.tensor((), np.int32), s.tensor(SHAPE), s.tensor(SHAPE)]
    loop(s, below(3), step, [count, x, x], outputs)
    content = s.build(outputs[1:2])
    with gd.GpuDelegate(model=content if host is in_litert else None) as delegate:
        interpreter = host(delegate, content)
        feed = s.normal((rows, *SHAPE[1:]))
        (actual,) = run_resized(interpreter, [feed])
        assert actual.shape == feed.shape
        assert delegate.report.fully_delegated
    assert (actual == feed).all() == (rows == 3)


def branches(s: Sketch, condition: int, x: int) -> int:
    def branch(op: str) -> Callable[[ModelBuilder], list[int]]:
        return lambda b: [b.op(op, [b.input(SHAPE)], [SHAPE])]

    options = {
        "then_subgraph_index": s.subgraph(branch("EXP")),
        "else_subgraph_index": s.subgraph(branch("TANH")),
    }
    return s.op("IF", [condition, x], [s.tensor(SHAPE)], **options)


@both_hosts
@pytest.mark.parametrize("condition", [False, True])
def test_a_constant_chooses_a_branch(host: Host, condition: bool) -> None:
    s = sketch()
    y = branches(s, s.constant(np.array(condition)), s.feed(SHAPE))
    check(host, s.build([s.op("ABS", [y], [SHAPE])]), s)


def signed(s: Sketch, x: int) -> int:
    """Whether the sum of `x` is positive."""
    total = s.op("SUM", [x, s.constant(np.array([0, 1, 2], np.int32))], [()])
    return s.op("GREATER", [total, s.constant(np.float32(0))], [s.tensor((), np.bool_)])


@both_hosts
def test_a_run_chooses_a_branch(host: Host) -> None:
    s = sketch()
    x = s.feed(SHAPE)
    y = branches(s, signed(s, x), s.op("NEG", [x], [SHAPE]))
    check(host, s.build([s.op("ABS", [y], [SHAPE])]), s)


def case(s: Sketch, index: int, values: list[int], outputs: int = 1) -> list[int]:
    """STABLEHLO_CASE with three branches, one of which itself chooses one."""

    def branch(*ops: str) -> Callable[[ModelBuilder], list[int]]:
        def build(b: ModelBuilder) -> list[int]:
            x, y = b.input(SHAPE), b.input(SHAPE)
            return [b.op(op, [z], [SHAPE]) for op, z in zip(ops, (x, y), strict=False)]

        return build

    def choosing(b: ModelBuilder) -> list[int]:
        x, y = b.input(SHAPE), b.input(SHAPE)
        condition = b.op("GREATER", [b.op("SUM", [y, axes(b)], [()]), zero(b)], [flag(b)])
        chosen = [b.tensor(SHAPE) for _ in range(outputs)]
        b.op("IF", [condition, x, y], chosen, then_subgraph_index=1, else_subgraph_index=2)
        return chosen

    def axes(b: ModelBuilder) -> int:
        return b.constant(np.array([0, 1, 2], np.int32))

    def zero(b: ModelBuilder) -> int:
        return b.constant(np.float32(0))

    def flag(b: ModelBuilder) -> int:
        return b.tensor((), np.bool_)

    names = ("EXP", "TANH", "NEG", "ABS", "LOGISTIC", "SQUARE")
    parts = [names[2 * i : 2 * i + outputs] for i in range(3)]
    found = [s.subgraph(branch(*part)) for part in parts[:2]]
    assert found == [1, 2]
    found.append(s.subgraph(choosing))
    results = [s.tensor(SHAPE) for _ in range(outputs)]
    s.op("STABLEHLO_CASE", [index, *values], results, branch_subgraph_indices=found)
    return results


@pairwise(at_run_time=[False, True], number=[-1, 0, 1, 2, 3], outputs=[1, 2], host=HOSTS)
def test_a_number_chooses_a_branch(
    host: Host, at_run_time: bool, number: int, outputs: int
) -> None:
    """The last, if there is none with it."""
    s = sketch()
    values = [s.feed(SHAPE), s.feed(SHAPE)]
    index = s.constant(np.array(number, np.int32))
    if at_run_time:
        shown = s.op("CAST", [signed(s, values[0])], [s.tensor((), np.int32)])
        index = s.op("ADD", [index, shown], [s.tensor((), np.int32)])
    content = s.build(case(s, index, values, outputs))
    check(host, content, s)


@pytest.mark.parametrize(
    ("op", "found"),
    [("RANDOM_UNIFORM", "RANDOM_UNIFORM changes what comes later"), ("ABS", "another type")],
)
def test_a_run_does_not_choose_among_such_branches(op: str, found: str) -> None:
    s = sketch()
    x = s.feed(SHAPE)

    def branch(b: ModelBuilder) -> list[int]:
        y = b.input(SHAPE)
        if op == "ABS":
            return [b.op("CAST", [y], [b.tensor(SHAPE, np.int32)])]
        shape = b.constant(np.array(SHAPE, np.int32))
        return [b.op(op, [shape], [b.tensor(SHAPE)])]

    options = {
        "then_subgraph_index": s.subgraph(branch),
        "else_subgraph_index": s.subgraph(lambda b: [b.op("TANH", [b.input(SHAPE)], [SHAPE])]),
    }
    y = s.op("IF", [signed(s, x), x], [s.tensor(SHAPE)], **options)
    lowered = lower_graph(read_model(s.build([y])), Limits())
    assert found in lowered.reasons[2]


def rows_of(b: ModelBuilder, shape: tuple[int, ...], rows: int) -> int:
    """The first rows of an input."""
    x = b.input(shape)
    begin, size = [0] * len(shape), [rows, *(-1 for _ in shape[1:])]
    cut = [x, b.constant(np.array(begin, np.int32)), b.constant(np.array(size, np.int32))]
    return b.op("SLICE", cut, [(rows if rows >= 0 else shape[0], *shape[1:])])


def flat(b: ModelBuilder, shape: tuple[int, ...]) -> int:
    new = b.constant(np.array([-1], np.int32))
    return b.op("RESHAPE", [b.input(shape), new], [(int(np.prod(shape)),)])


def total(b: ModelBuilder, shape: tuple[int, ...], keep_dims: bool) -> int:
    axes = b.constant(np.arange(len(shape), dtype=np.int32))
    result = tuple(1 for _ in shape) if keep_dims else ()
    return b.op("SUM", [b.input(shape), axes], [result], keep_dims=keep_dims)


def constant(b: ModelBuilder, shape: tuple[int, ...]) -> int:
    """Of the size that the input has in the file."""
    b.input(shape)
    return b.constant(np.full(shape, 7, np.float32))


BRANCHES: dict[str, Callable[[ModelBuilder, tuple[int, ...]], int]] = {
    "all": lambda b, shape: b.op("TANH", [b.input(shape)], [shape]),
    "the input": lambda b, shape: b.input(shape),
    "a row": lambda b, shape: rows_of(b, shape, 1),
    "a constant": constant,
    "no rows": lambda b, shape: rows_of(b, shape, 0),
    "all rows": lambda b, shape: rows_of(b, shape, -1),
    "flat": flat,
    "a number": lambda b, shape: total(b, shape, keep_dims=False),
    "a sum": lambda b, shape: total(b, shape, keep_dims=True),
}


def choosing(
    op: str, first: str, second: str, shape: tuple[int, ...] = (3, 4), is_open: bool = False
) -> bytes:
    """A model that returns what one of two branches makes of its second input.

    The first branch runs if its first input is true. `is_open`: the file leaves the rows open.
    """
    s = sketch()

    def opened(b: ModelBuilder, tensor: int) -> None:
        if is_open:
            b.tensors[tensor]["shape_signature"] = [-1, *shape[1:]]

    def made(name: str, b: ModelBuilder) -> list[int]:
        result = BRANCHES[name](b, shape)
        if name != "a row":
            opened(b, result)
        return [result]

    condition, x = s.input((), np.bool_), s.input(shape)
    opened(s, x)
    chosen, result = [condition], [s.tensor(None)]
    found = [s.subgraph(partial(made, name)) for name in (first, second)]
    if op == "STABLEHLO_CASE":
        options: dict[str, Any] = {"branch_subgraph_indices": found[::-1]}
        chosen = [s.op("CAST", chosen, [s.tensor((), np.int32)])]
    else:
        options = {"then_subgraph_index": found[0], "else_subgraph_index": found[1]}
    s.op(op, [*chosen, x], result, **options)
    return s.build([*result, s.op("ABS", [x], [shape])])


def chosen_by(interpreter: Any, condition: bool, x: np.ndarray[Any, Any]) -> Any:
    return run_resized(interpreter, [np.array(condition), x])[0]


def assert_chosen_alike(interpreter: Any, reference: Any, condition: bool, x: Any) -> None:
    actual = chosen_by(interpreter, condition, x)
    expected = chosen_by(reference, condition, x)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


@both_hosts
@pytest.mark.parametrize("op", ["IF", "STABLEHLO_CASE"])
@pytest.mark.parametrize(
    ("first", "second"),
    [("all", name) for name in BRANCHES] + [("a row", "all"), ("a number", "a sum")],
)
def test_the_size_of_a_result_is_that_of_its_branch(
    host: Host, op: str, first: str, second: str
) -> None:
    """A selection would broadcast both results to one size."""
    content = choosing(op, first, second)
    x = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
    with gd.GpuDelegate(model=content) as delegate:
        interpreter, reference = host(delegate, content), litert_interpreter(content)
        nodes = [node for node in delegate.report.nodes if node.op == op]
        are_equal = {first, second} <= {"all", "the input", "all rows", "a constant"}
        assert [node.delegated for node in nodes] == [are_equal]
        assert are_equal or "expected equal shapes" in nodes[0].reason
        # LiteRT returns no tensor without elements whose size a run decides.
        for condition in (True, True) if second == "no rows" else (True, False, True):
            assert_chosen_alike(interpreter, reference, condition, x)
        del interpreter


@both_hosts
@pytest.mark.parametrize("op", ["IF", "STABLEHLO_CASE"])
@pytest.mark.parametrize(
    ("second", "shapes"),
    [
        ("a row", ((1, 4), (3, 4))),
        ("a row", ((1, 1), (2, 1))),
        ("a constant", ((1, 4), (3, 4))),
        ("a constant", ((2, 4), (3, 4))),
    ],
)
def test_branches_whose_sizes_differ_after_a_resize(
    host: Host, op: str, second: str, shapes: list[tuple[int, ...]]
) -> None:
    """The sizes in the file are equal; other ones need not broadcast."""
    content = choosing(op, "all", second, shapes[0])
    with gd.GpuDelegate(model=content) as delegate:
        interpreter, reference = host(delegate, content), litert_interpreter(content)
        assert delegate.report.fully_delegated
        for shape in (*shapes, shapes[0]):
            x = np.linspace(-2, 3, int(np.prod(shape)), dtype=np.float32).reshape(shape)
            if shape == shapes[1]:
                named = rf"node \d {op}: a run chooses a branch, .*; expected equal shapes"
                interpreter.resize_tensor_input(interpreter.get_input_details()[1]["index"], shape)
                with pytest.raises((gd.UnsupportedModelError, RuntimeError), match=named):
                    interpreter.allocate_tensors()
                continue
            for condition in (True, False):
                assert_chosen_alike(interpreter, reference, condition, x)
        del interpreter


@both_hosts
def test_branches_whose_sizes_differ_for_a_value(host: Host) -> None:
    """A run gives the size of one branch's result; the other's is that of the file."""
    s = sketch()
    count, condition = s.input((1,), np.int32), s.input((), np.bool_)
    x = s.op("FILL", [count, s.constant(np.float32(2))], [s.tensor((1,))])
    options = {
        "then_subgraph_index": s.subgraph(lambda b: [b.op("NEG", [b.input((1,))], [(1,)])]),
        "else_subgraph_index": s.subgraph(lambda b: [constant(b, (1,))]),
    }
    content = s.build([s.op("IF", [condition, x], [s.tensor(None)], **options)])
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = host(delegate, content)
        assert delegate.report.fully_delegated
        for number in (1, 3, 1):
            for chosen in (True, False):
                feeds = [np.int32([number]), np.array(chosen)]
                if number == 3:
                    named = "node 1 IF: a run chooses a branch, .*; expected equal shapes"
                    with pytest.raises((gd.UnsupportedModelError, RuntimeError), match=named):
                        run(interpreter, feeds)
                    continue
                np.testing.assert_array_equal(*run(interpreter, feeds), *run_litert(content, feeds))
        del interpreter


@both_hosts
@pytest.mark.parametrize("other", ["a row", "all"])
def test_branches_of_a_size_that_the_file_leaves_open(host: Host, other: str) -> None:
    """The file gives it as 1, as many as a branch of one row has."""
    content = choosing("IF", "the input", other, (1, 4), is_open=True)
    with gd.GpuDelegate(model=content) as delegate:
        interpreter, reference = host(delegate, content), litert_interpreter(content)
        assert delegate.report.fully_delegated == (other == "all")
        for rows in (1, 3, 2):
            x = np.linspace(-2, 3, 4 * rows, dtype=np.float32).reshape(rows, 4)
            for condition in (True, False):
                assert_chosen_alike(interpreter, reference, condition, x)
        del interpreter


@pairwise(condition=[(), (1,), (1, 1, 1)], shape=[(), (1,), (5,), (2, 3)], host=HOSTS)
def test_a_condition_of_a_higher_rank(
    host: Host, shape: tuple[int, ...], condition: tuple[int, ...]
) -> None:
    s = sketch()
    chosen, x = s.feed(values=np.ones(condition), dtype="bool"), s.feed(shape)
    options = {
        "then_subgraph_index": s.subgraph(lambda b: [b.op("NEG", [b.input(shape)], [shape])]),
        "else_subgraph_index": s.subgraph(lambda b: [b.op("ABS", [b.input(shape)], [shape])]),
    }
    y = s.op("IF", [chosen, x], [s.tensor(shape)], **options)
    content = s.build([y])
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = host(delegate, content)
        assert delegate.report.fully_delegated
        for feeds in (s.feeds, [~s.feeds[0], s.feeds[1]]):
            (actual,), (expected,) = run(interpreter, feeds), run_litert(content, feeds)
            assert actual.shape == expected.shape == shape
            assert_close([actual], [expected])


@both_hosts
@pytest.mark.parametrize("at_run_time", [False, True])
def test_a_branch_without_one_of_the_inputs(host: Host, at_run_time: bool) -> None:
    """Converters write tensor -1 for an input that a branch does not use."""
    s = sketch()

    def branch(used: int) -> Callable[[ModelBuilder], list[int]]:
        def build(b: ModelBuilder) -> list[int]:
            x = b.input(SHAPE)
            b._inputs.insert(1 - used, NO_INPUT)
            return [b.op("TANH", [x], [SHAPE])]

        return build

    options = {
        "then_subgraph_index": s.subgraph(branch(0)),
        "else_subgraph_index": s.subgraph(branch(1)),
    }
    x, y = s.feed(SHAPE), s.feed(SHAPE)
    if at_run_time:
        total = s.op("SUM", [x, s.constant(np.int32([0, 1, 2]))], [()])
        condition = s.op("LESS", [total, s.constant(np.float32(0))], [s.tensor((), np.bool_)])
    else:
        condition = s.constant(np.array(False))
    z = s.op("IF", [condition, x, y], [s.tensor(SHAPE)], **options)
    check(host, s.build([s.op("ABS", [z], [SHAPE])]), s)


@both_hosts
def test_a_loop_whose_condition_has_only_the_count(host: Host) -> None:
    s = sketch()

    def condition(b: ModelBuilder) -> list[int]:
        count = b.input((), np.int32)
        b._inputs += [NO_INPUT, NO_INPUT]
        return [b.op("LESS", [count, b.constant(np.int32(3))], [b.tensor((), np.bool_)])]

    x = s.feed(SHAPE)
    outputs = [s.tensor((), np.int32), s.tensor(SHAPE), s.tensor(SHAPE)]
    loop(s, condition, step, [s.constant(np.array(0, np.int32)), x, x], outputs)
    check(host, s.build(outputs[1:]), s)


def test_a_loop_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inlining, "MAX_ADDED", 500)
    lowered = lower_graph(read_model(counting(2**31 - 1)[1]), Limits())
    assert "runs too often" in lowered.reasons[1]


def test_the_model_of_a_loop_in_a_loop() -> None:
    def inner(b: ModelBuilder) -> list[int]:
        count, x, kept = b.input((), np.int32), b.input(SHAPE), b.input(SHAPE)
        zero = b.constant(np.array(0, np.int32))
        outputs = [b.tensor((), np.int32), b.tensor(SHAPE), b.tensor(SHAPE)]
        options = {
            "cond_subgraph_index": b.subgraph(below(3)),
            "body_subgraph_index": b.subgraph(step),
        }
        b.op("WHILE", [zero, x, kept], outputs, **options)
        more = b.op("ADD", [count, b.constant(np.array(1, np.int32))], [()])
        return [more, *outputs[1:]]

    s = sketch()
    outputs = [s.tensor((), np.int32), s.tensor(SHAPE), s.tensor(SHAPE)]
    x = s.feed(SHAPE)
    loop(s, below(2), inner, [s.constant(np.array(0, np.int32)), x, x], outputs)
    check(in_ours, s.build(outputs), s)
