"""Values that depend only on constants and shapes are computed while planning, as by LiteRT."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.model.dtypes import SCHEMA_NUMBERS
from gles_delegate.model.graph import Graph
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from tests.op_table import CASES, Case
from tests.support.hosts import Host, both_hosts, run_resized
from tests.support.oracle import in_litert, in_ours, run, run_litert
from tests.support.sketch import Sketch
from tests.support.tflite_builder import ModelBuilder

Arrays = Sequence[NDArray[Any]]
FOLDED = """
ABS ADD ADD_N BITCAST BROADCAST_TO CAST CEIL CONCATENATION CUMSUM DIV EQUAL EXPAND_DIMS FILL
FLOOR FLOOR_DIV FLOOR_MOD GATHER GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_NOT
LOGICAL_OR MAXIMUM MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL PACK PAD PADV2 POW REDUCE_ALL REDUCE_ANY
REDUCE_MAX REDUCE_MIN REDUCE_PROD RESHAPE REVERSE_V2 ROUND SEGMENT_SUM SELECT SELECT_V2 SIGN
SLICE SPLIT SPLIT_V SQUARE SQUARED_DIFFERENCE SQUEEZE STABLEHLO_ADD STABLEHLO_MAXIMUM
STABLEHLO_MINIMUM STABLEHLO_MULTIPLY STRIDED_SLICE SUB SUM TILE TRANSPOSE UNPACK
UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM ZEROS_LIKE
"""
"""Ops that LiteRT's converter writes into the arithmetic of shapes, and others."""


def with_constants(graph: Graph, inputs: Arrays) -> Graph:
    """The graph with these arrays instead of its inputs."""
    tensors = list(graph.tensors)
    for index, array in zip(graph.inputs, inputs, strict=True):
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        tensors[index] = replace(tensors[index], shape=array.shape, data=data)
    return replace(graph, tensors=tuple(tensors), inputs=())


@pytest.mark.parametrize("op", [*FOLDED.split(), "CAST (complex)"])
def test_numpy_computes_what_litert_does(op: str) -> None:
    folded = 0
    for case in (case for case in CASES if case.op == op and not case.special):
        folded += check(case)
    assert folded


def check(case: Case) -> bool:
    """Whether a case is folded if its inputs are constants; then it is what LiteRT computes."""
    content, inputs = case.build()
    graph = lower_graph(with_constants(read_model(content), inputs), Limits()).graph
    outputs = [graph.tensors[index] for index in graph.outputs]
    if not all(tensor.is_constant for tensor in outputs):
        return False
    for tensor, expected in zip(outputs, run_litert(content, inputs), strict=True):
        actual = tensor.array()
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=0)
    return True


@both_hosts
@pytest.mark.parametrize("op", ["WHERE", "BROADCAST_ARGS"])
def test_sizes_that_depend_on_constants(op: str, host: Host) -> None:
    """The rows of a picture that a constant mask picks; a row, as wide as two shapes need."""
    s = Sketch(np.random.default_rng(0))
    if op == "WHERE":
        x, actual = s.feed((5, 7)), s.tensor(None, "int64")
        s.op(op, [s.constant(np.array([True, False, True, True, False]))], [actual])
        result = s.op("GATHER_ND", [x, actual])
    else:
        x, actual = s.feed((1, 7)), s.tensor(None, "int32")
        s.op(op, [s.constant(np.int32([1, 7])), s.constant(np.int32([4, 1, 1]))], [actual])
        result = s.op("BROADCAST_TO", [x, actual], version=2)
    content = s.build([result])
    options = gd.GpuDelegateOptions(require_full_delegation=True)
    with gd.GpuDelegate(options, model=content) as delegate:
        ours = run(host(delegate, content), s.feeds)
    np.testing.assert_array_equal(ours, run_litert(content, s.feeds))


def sized_by_shapes(dtype: str) -> tuple[Sketch, bytes]:
    """Pooled to half and back to its own size, then one row for each pixel."""
    s = Sketch(np.random.default_rng(0))

    def of(*shape: int) -> int:
        return s.tensor(shape, dtype)

    x = s.feed((1, 6, 8, 3))
    half = s.op(
        *("AVERAGE_POOL_2D", [x], [(1, 3, 4, 3)]),
        **dict(padding="VALID", stride_w=2, stride_h=2, filter_width=2, filter_height=2),
    )
    shape = s.op("SHAPE", [x], [of(4)], out_type=SCHEMA_NUMBERS[dtype])
    one = s.constant(np.array([1], np.int32))
    sides = s.op("STRIDED_SLICE", [shape, one, s.constant(np.array([3], np.int32)), one], [of(2)])
    if dtype == "int64":
        sides = s.op("CAST", [sides], [s.tensor((2,), "int32")])
    y = s.op("RESIZE_NEAREST_NEIGHBOR", [half, sides], [(1, 6, 8, 3)])
    parts = [
        s.op(
            *(
                "STRIDED_SLICE",
                [shape, *(s.constant(np.array([n], np.int32)) for n in (i, i + 1, 1))],
            ),
            [of()],
            shrink_axis_mask=1,
        )
        for i in range(3)
    ]
    rows = s.op("MUL", parts[:2], [of()])
    rows = s.op("MUL", [rows, parts[2]], [of()])
    three = s.constant(np.array(3, dtype))
    new = s.op("PACK", [rows, three], [of(2)], values_count=2, axis=0)
    if dtype == "int64":
        new = s.op("CAST", [new], [s.tensor((2,), "int32")])
    y = s.op("RESHAPE", [y, new], [(48, 3)])
    return s, s.build([y])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@both_hosts
def test_sizes_that_shapes_give(dtype: str, host: Host) -> None:
    s, content = sized_by_shapes(dtype)
    with gd.GpuDelegate(model=content if host is in_litert else None) as delegate:
        interpreter = host(delegate, content)
        report = delegate.report
        assert report.fully_delegated
        assert report.segments == 1
        assert [node.op for node in report.nodes if not node.folded] == [
            *("AVERAGE_POOL_2D", "RESIZE_NEAREST_NEIGHBOR", "RESHAPE")
        ]
        for height, width in ((6, 8), (4, 2), (10, 6), (6, 8)):
            inputs = [s.normal((1, height, width, 3))]
            reference = LiteRt(model_content=content)
            (actual,) = run_resized(interpreter, inputs)
            (expected,) = run_resized(reference, inputs)
            assert actual.shape == expected.shape == (height * width, 3)
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("between", ["FILL", "ABS", "RANGE", "BROADCAST_ARGS", "TILE"])
@both_hosts
def test_the_shape_of_what_is_folded(between: str, host: Host) -> None:
    """The shape of a tensor that the shape of the input gives, for other shapes, too."""
    s = Sketch(np.random.default_rng(0))
    number = SCHEMA_NUMBERS["int32"]
    x = s.feed((2, 4))
    shape = s.op("SHAPE", [x], [s.tensor((2,), "int32")], out_type=number)
    one = s.constant(np.array(1, np.float32))
    if between == "RANGE":
        first, step = s.constant(np.array(0, np.int32)), s.constant(np.array(1, np.int32))
        cut = [shape, *(s.constant(np.array([n], np.int32)) for n in (0, 1, 1))]
        rows = s.op("STRIDED_SLICE", cut, [s.tensor((), "int32")], shrink_axis_mask=1)
        middle = s.op("RANGE", [first, rows, step], [s.tensor((2,), "int32")])
    elif between == "BROADCAST_ARGS":
        ones = s.constant(np.array([1, 1], np.int32))
        middle = s.op("BROADCAST_ARGS", [shape, ones], [s.tensor((2,), "int32")])
        middle = s.op("FILL", [middle, one], [s.tensor((2, 4))])
    elif between == "TILE":
        middle = s.op("TILE", [s.constant(np.ones((1, 1), np.float32)), shape], [(2, 4)])
    else:
        middle = s.op("FILL", [shape, one], [s.tensor((2, 4))])
        if between == "ABS":
            middle = s.op("ABS", [middle], [(2, 4)])
    rank = 1 if between == "RANGE" else 2
    again = s.op("SHAPE", [middle], [s.tensor((rank,), "int32")], out_type=number)
    filled = s.op("FILL", [again, one], [s.tensor((2, 4)[:rank])])
    if rank == 1:
        filled = s.op("RESHAPE", [filled, s.constant(np.array([-1, 1], np.int32))], [(2, 1)])
    content = s.build([s.op("ADD", [x, filled], [(2, 4)])])
    reference = LiteRt(model_content=content)
    with gd.GpuDelegate(model=content if host is in_litert else None) as delegate:
        interpreter = host(delegate, content)
        assert delegate.report.fully_delegated
        for rows in (2, 5, 1, 3):
            inputs = [s.normal((rows, 4))]
            (actual,) = run_resized(interpreter, inputs)
            (expected,) = run_resized(reference, inputs)
            assert actual.shape == expected.shape == (rows, 4)
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


def test_a_shape_that_is_a_result() -> None:
    s = Sketch(np.random.default_rng(0))
    x = s.feed((2, 3, 5))
    number = SCHEMA_NUMBERS["int32"]
    shape = s.op("SHAPE", [x], [s.tensor((3,), "int32")], out_type=number)
    rank = s.op("RANK", [x], [s.tensor((), "int32")])
    y = s.op("RELU", [x], [(2, 3, 5)])
    content = s.build([shape, y, rank])
    with gd.GpuDelegate() as delegate:
        interpreter = in_ours(delegate, content)
        results = run(interpreter, s.feeds)
    for actual, expected in zip(results, run_litert(content, s.feeds), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("op", ["SHAPE", "RANK"])
def test_a_shape_of_another_type_than_litert_gives_it(op: str) -> None:
    s = Sketch(np.random.default_rng(0))
    options = {"out_type": SCHEMA_NUMBERS["int64"]} if op == "SHAPE" else {}
    dtype = "int32" if op == "SHAPE" else "int64"
    y = s.op(op, [s.feed((2, 3))], [s.tensor((2,) if op == "SHAPE" else (), dtype)], **options)
    (reason,) = lower_graph(read_model(s.build([y])), Limits()).reasons.values()
    assert "outputs of these types" in reason


def test_why_planning_does_not_compute_it() -> None:
    """These ops have an implementation."""
    s = Sketch(np.random.default_rng(0))
    number = SCHEMA_NUMBERS["int32"]
    unknown = s.op("Mystery", [s.feed((2, 3))], [(2, 3)])
    shape = s.op("SHAPE", [unknown], [s.tensor((2,), "int32")], out_type=number)
    ends = [s.constant(np.array(n, np.int32)) for n in (0, 1 << 20, 1)]
    many = s.op("RANGE", ends, [s.tensor((1 << 20,), "int32")])
    graph = read_model(s.build([shape, many]))
    assert "1048576 elements; expected at most 65536" in lower_graph(graph, Limits()).reasons[2]
    reasons = lower_graph(graph, Limits(), {graph.inputs[0]: (4, 3)}, only=[1]).reasons
    assert reasons == {1: f"tensor {unknown} has a size known only at run time"}


def test_what_litert_refuses_is_left_to_it() -> None:
    """Divisions by zero, and numbers that no integer holds."""
    for op, dtype, values in (
        *((op, "int32", (7, 0)) for op in ("DIV", "FLOOR_DIV", "FLOOR_MOD")),
        ("POW", "int32", (2, -1)),
        ("CAST", "int32", (3e9,)),
    ):
        s = Sketch(np.random.default_rng(0))
        kind = "float32" if op == "CAST" else dtype
        constants = [s.constant(np.array([value], kind)) for value in values]
        y = s.op(op, constants, [s.tensor((1,), dtype)])
        graph = lower_graph(read_model(s.build([y])), Limits()).graph
        assert not graph.tensors[y].is_constant


@pytest.mark.parametrize("name", ["nmp", "style_transfer_quantized_dynamic"])
def test_published_models_run_wholly(name: str, real_model: Callable[[str], bytes]) -> None:
    with gd.GpuDelegate() as delegate:
        gd.Interpreter(model_content=real_model(name), experimental_delegates=[delegate])
        assert delegate.report.fully_delegated
        assert sum(node.folded for node in delegate.report.nodes) >= 12


@pytest.mark.parametrize("read_by_cpu", [False, True])
def test_the_shape_of_what_the_cpu_makes(read_by_cpu: bool) -> None:
    """A node on the CPU may read the shape as well; it then computes that itself."""
    s = Sketch(np.random.default_rng(0))
    x = s.op("EXP", [s.feed((2, 6))], [(2, 6)])
    whole = s.op("CAST", [x], [s.tensor((2, 6), "float64")])
    y = s.op("CAST", [whole], [s.tensor((2, 6))])
    number = SCHEMA_NUMBERS["int32"]
    shape = s.op("SHAPE", [y], [s.tensor((2,), "int32")], out_type=number)
    axis = s.constant(np.array([0], np.int32))
    turned = s.op("REVERSE_V2", [shape, axis], [s.tensor((2,), "int32")])
    outputs = [s.op("TANH", [s.op("RESHAPE", [y, turned], [(6, 2)])], [(6, 2)])]
    if read_by_cpu:
        outputs.append(s.op("RESHAPE", [whole, turned], [s.tensor((6, 2), "float64")]))
    content = s.build(outputs)
    options = gd.GpuDelegateOptions(max_delegated_partitions=9)
    with gd.GpuDelegate(options) as delegate:
        interpreter = in_ours(delegate, content)
        assert any(node.folded for node in delegate.report.nodes) != read_by_cpu
        for sides in ((2, 6), (3, 4), (5, 2), (2, 6)):
            inputs = [s.normal(sides)]
            reference = LiteRt(model_content=content)
            for actual, expected in zip(
                run_resized(interpreter, inputs), run_resized(reference, inputs), strict=True
            ):
                assert actual.shape == expected.shape == sides[::-1]
                np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


def scaled_by_rows(s: Sketch, x: int, y: int, *, inside: bool) -> list[int]:
    """y times the rows of x, which a node on the CPU reads, too; perhaps in a branch of an IF."""
    number = SCHEMA_NUMBERS["int32"]
    shape = s.op("SHAPE", [x], [s.tensor((2,), "int32")], out_type=number)
    unique = [s.tensor(None, "int32"), s.tensor((2,), "int32")]
    s.op("UNIQUE", [shape], unique)
    if not inside:
        first = s.op("GATHER", [shape, s.constant(np.int32([0]))], [s.tensor((1,), "int32")])
        return [s.op("MUL", [y, s.op("CAST", [first], [s.tensor((1,))])], [(3, 1)]), unique[0]]

    def build(b: ModelBuilder) -> list[int]:
        inner, values = b.input((2,), "int32"), b.input((3, 1))
        first = b.op("GATHER", [inner, b.constant(np.int32([0]))], [b.tensor((1,), "int32")])
        return [b.op("MUL", [values, b.op("CAST", [first], [b.tensor((1,))])], [(3, 1)])]

    two = [s.subgraph(build), s.subgraph(build)]
    options = dict(zip(("then_subgraph_index", "else_subgraph_index"), two, strict=True))
    condition = s.constant(np.array(True))
    return [s.op("IF", [condition, shape, y], [s.tensor((3, 1))], **options), unique[0]]


@pytest.mark.parametrize("inside", [False, True])
@both_hosts
def test_numbers_of_the_shape_of_what_a_segment_does_not_read(host: Host, inside: bool) -> None:
    s = Sketch(np.random.default_rng(0))
    content = s.build(scaled_by_rows(s, s.feed((2, 8)), s.feed((3, 1)), inside=inside))
    options = gd.GpuDelegateOptions(max_delegated_partitions=9)
    with gd.GpuDelegate(options, model=content) as delegate:
        interpreter, reference = host(delegate, content), LiteRt(model_content=content)
        assert delegate.report.segments == 1
        for rows in (2, 7, 5, 2):
            inputs = [s.normal((rows, 8)), s.feeds[1]]
            for actual, expected in zip(
                run_resized(interpreter, inputs), run_resized(reference, inputs), strict=True
            ):
                np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)
