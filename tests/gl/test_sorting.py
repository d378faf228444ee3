"""STABLEHLO_SORT, for which LiteRT has no kernel; numpy is the oracle."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from tests.support.tflite_builder import ModelBuilder

WHOLE = gd.GpuDelegateOptions(require_full_delegation=True)
Array = NDArray[Any]
Comparator = Callable[[ModelBuilder, Sequence[int]], int]
DIRECTIONS = {"EQUAL": 0, "NOT_EQUAL": 1, "GREATER": 3, "LESS": 5}
TOTAL = 2
SPECIAL = np.float32([0.0, -0.0, 1.5, -1.5, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan, -np.nan])


def compared(b: ModelBuilder, op: str, x: int, y: int, stablehlo: bool, kind: int = 1) -> int:
    result = b.tensor((), np.bool_)
    if not stablehlo:
        return b.op(op, [x, y], [result])
    fields = {"comparison_direction": DIRECTIONS[op], "compare_type": kind}
    return b.op("STABLEHLO_COMPARE", [x, y], [result], **fields)


def by(op: str, operand: int = 0, turned: bool = False) -> Comparator:
    """The comparison of two elements of an operand; ``turned``: of the second with the first."""

    def compare(b: ModelBuilder, elements: Sequence[int]) -> int:
        x, y = elements[2 * operand : 2 * operand + 2]
        return compared(b, op, *((y, x) if turned else (x, y)), stablehlo=False)

    return compare


def by_stablehlo(op: str, kind: int) -> Comparator:
    return lambda b, elements: compared(b, op, *elements[:2], stablehlo=True, kind=kind)


def as_jax_writes(op: str, stablehlo: bool, kind: int = TOTAL) -> Comparator:
    """Zeros of both signs become one before, and NaNs, too."""

    def compare(b: ModelBuilder, elements: Sequence[int]) -> int:
        zero, nan = b.constant(np.float32(0)), b.constant(np.float32(np.nan))
        select = "STABLEHLO_SELECT" if stablehlo else "SELECT_V2"
        wrapped = []
        for x in elements[:2]:
            is_zero = compared(b, "EQUAL", x, zero, stablehlo)
            is_nan = compared(b, "NOT_EQUAL", x, x, stablehlo)
            y = b.op(select, [is_zero, zero, x], [b.tensor(())])
            wrapped.append(b.op(select, [is_nan, nan, y], [b.tensor(())]))
        return compared(b, op, *wrapped, stablehlo=stablehlo, kind=kind)

    return compare


def sorting(
    arrays: Sequence[Array], compare: Comparator, axis: int = -1, constants: Sequence[int] = ()
) -> bytes:
    """A model that sorts arrays, of which some are constants."""
    b = ModelBuilder()
    operands = [
        b.constant(array) if i in constants else b.input(array.shape, array.dtype)
        for i, array in enumerate(arrays)
    ]

    def region(inner: ModelBuilder) -> list[int]:
        return [compare(inner, [inner.input((), array.dtype) for array in arrays for _ in "ab"])]

    results = [b.tensor(array.shape, array.dtype) for array in arrays]
    b.op(
        "STABLEHLO_SORT", operands, results, dimension=axis, is_stable=True,
        comparator_subgraph_index=b.subgraph(region),
    )  # fmt: skip
    return b.build(results)


def run(content: bytes, *feeds: Array) -> list[Array]:
    with gd.GpuDelegate(WHOLE) as delegate:
        interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        results = [*interpreter.run(dict(enumerate(feeds))).values()]
        assert [*map(str, delegate.bound.sanitize())] == []
    return results


def order(keys: Array, axis: int = -1, descending: bool = False) -> Array:
    """As numpy's stable sort, in which NaN is the largest number; the reverse order is stable."""
    if not descending:
        return np.argsort(keys, axis, kind="stable")
    turned = np.argsort(np.flip(keys, axis), axis, kind="stable")
    return keys.shape[axis] - 1 - np.flip(turned, axis)


def draw(shape: Sequence[int], dtype: str, special: bool = False) -> Array:
    """Numbers of which many are equal."""
    rng = np.random.default_rng(0)
    if special and dtype == "float32":
        return rng.choice(SPECIAL, shape)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if special:
        limits = np.iinfo("int32" if dtype == "int64" else dtype)
        extremes = (limits.min, limits.min + 1, 0, limits.max - 1, limits.max)
        return rng.choice(extremes, shape).astype(dtype)
    numbers = rng.integers(0, 9, shape).astype(dtype)
    return np.asarray(numbers * (0.3 if dtype == "float32" else 1), dtype)


def assert_same(actual: Array, expected: Array) -> None:
    """Equal, with the same signs of zeros and NaNs."""
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(actual, expected)
    if actual.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))


SHAPES = [(1,), (2,), (7,), (1000,), (3, 5), (4, 300), (2, 3, 9, 5), (3, 1, 4, 3, 2), (0, 3)]


@pytest.mark.parametrize(
    ("shape", "axis"), [(shape, axis) for shape in SHAPES for axis in range(len(shape))]
)
@pytest.mark.parametrize("op", ["LESS", "GREATER"])
def test_each_axis(shape: tuple[int, ...], axis: int, op: str) -> None:
    """Two operands: the second has the place of each element, which shows where equal ones go."""
    x = draw(shape, "float32")
    places = np.arange(x.size, dtype=np.int32).reshape(shape)
    actual = run(sorting([x, places], by(op), axis), x, places)
    expected = order(x, axis, op == "GREATER")
    for result, array in zip(actual, (x, places), strict=True):
        assert_same(result, np.take_along_axis(array, expected, axis))


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "int16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("n", [5, 16, 17, 1001])
@pytest.mark.parametrize("op", ["LESS_EQUAL", "GREATER_EQUAL"])
def test_each_type(dtype: str, special: bool, n: int, op: str) -> None:
    x = draw((2, n), dtype, special)
    (actual,) = run(sorting([x], by(op)), x)
    expected = np.take_along_axis(x, order(x, descending=op == "GREATER_EQUAL"), -1)
    assert_same(actual, expected)


@pytest.mark.parametrize("op", ["LESS", "GREATER"])
@pytest.mark.parametrize("n", [10, 50])
@pytest.mark.parametrize(
    "comparator",
    [
        lambda op: as_jax_writes(op, stablehlo=True),
        lambda op: as_jax_writes(op, stablehlo=False),
        lambda op: by_stablehlo(op, 1),
        lambda op: by("GREATER" if op == "LESS" else "LESS", turned=True),
    ],
    ids=["JAX's", "JAX's in TFLite's ops", "STABLEHLO_COMPARE", "the second and the first"],
)
def test_zeros_are_equal_and_nan_is_the_largest(comparator: Any, op: str, n: int) -> None:
    x = draw((3, n), "float32", special=True)
    (actual,) = run(sorting([x], comparator(op)), x)
    assert_same(actual, np.take_along_axis(x, order(x, descending=op == "GREATER"), -1))


@pytest.mark.parametrize("op", ["LESS", "GREATER"])
@pytest.mark.parametrize("n", [10, 50])
def test_the_total_order(op: str, n: int) -> None:
    """-NaN comes before all, and -0 before 0."""
    x = draw((3, n), "float32", special=True)
    (actual,) = run(sorting([x], by_stablehlo(op, TOTAL)), x)
    bits = x.view(np.int32)
    keys = bits ^ (bits >> 31 & 0x7FFFFFFF)
    assert_same(actual, np.take_along_axis(x, order(keys, descending=op == "GREATER"), -1))


def test_the_total_order_of_integers() -> None:
    x = draw((3, 20), "int32", special=True)
    (actual,) = run(sorting([x], by_stablehlo("LESS", TOTAL)), x)
    assert_same(actual, np.sort(x))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("operand", [0, 1, 2])
def test_operands_in_the_order_of_one(operand: int, axis: int) -> None:
    """The last one is a constant."""
    arrays = [draw((6, 9, 5), dtype) for dtype in ("float32", "int32", "float32")]
    arrays[operand] = np.random.default_rng(1).permutation(arrays[operand].ravel()).reshape(6, 9, 5)
    content = sorting(arrays, by("LESS", operand), axis, constants=[2])
    expected = order(arrays[operand], axis)
    for actual, array in zip(run(content, *arrays[:2]), arrays, strict=True):
        assert_same(actual, np.take_along_axis(array, expected, axis))


def test_after_a_resize() -> None:
    """The largest three, as converters write them: the order of all, then slices."""
    b = ModelBuilder()
    x = b.input((1, 4))
    b.tensors[x]["shape_signature"] = [-1, -1]
    values = b.tensor((1, 4))
    compare = by("GREATER")

    def region(inner: ModelBuilder) -> list[int]:
        return [compare(inner, [inner.input(()), inner.input(())])]

    b.op("STABLEHLO_SORT", [x], [values], dimension=1, comparator_subgraph_index=b.subgraph(region))
    begin, size = (b.constant(np.int32(numbers)) for numbers in ((0, 0), (-1, 3)))
    content = b.build([b.op("SLICE", [values, begin, size], [(1, 3)])])
    with gd.GpuDelegate(WHOLE) as delegate:
        interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        for shape in ((1, 4), (3, 700), (2, 17), (5, 3)):
            array = draw(shape, "float32")
            interpreter.resize_tensor_input(x, shape)
            (actual,) = interpreter.run({0: array}).values()
            assert_same(actual, -np.sort(-array)[:, :3])


def of_two_operands(b: ModelBuilder, elements: Sequence[int]) -> int:
    return compared(b, "LESS", elements[0], elements[3], stablehlo=False)


def of_neighbors(b: ModelBuilder, elements: Sequence[int]) -> int:
    """The second element of one operand, and the first of the next."""
    return compared(b, "LESS", elements[1], elements[2], stablehlo=False)


def of_one_element(b: ModelBuilder, elements: Sequence[int]) -> int:
    return compared(b, "LESS", elements[0], elements[0], stablehlo=False)


def with_a_constant(b: ModelBuilder, elements: Sequence[int]) -> int:
    return compared(b, "LESS", elements[0], b.constant(np.float32(0)), stablehlo=False)


def of_magnitudes(b: ModelBuilder, elements: Sequence[int]) -> int:
    x, y = (b.op("ABS", [element], [b.tensor(())]) for element in elements[:2])
    return compared(b, "LESS", x, y, stablehlo=False)


def of_selections_of_nothing(b: ModelBuilder, elements: Sequence[int]) -> int:
    x, y = (b.op("SELECT_V2", [], [()]) for _ in "ab")
    return compared(b, "LESS", x, y, stablehlo=False)


def with_replaced(number: float, test: str, other: float | None, both: bool = True) -> Comparator:
    """Elements that equal ``other``, or with None themselves, are replaced by ``number``."""

    def compare(b: ModelBuilder, elements: Sequence[int]) -> int:
        x, y = elements[:2]
        constant = b.constant(np.float32(number))
        wrapped = []
        for element in (x, y):
            against = element if other is None else b.constant(np.float32(other))
            condition = compared(b, test, element, against, stablehlo=False)
            wrapped.append(b.op("SELECT_V2", [condition, constant, element], [b.tensor(())]))
        return compared(b, "LESS", wrapped[0], wrapped[1] if both else y, stablehlo=False)

    return compare


def half_of_jax(b: ModelBuilder, elements: Sequence[int]) -> int:
    """Zeros become one, but a NaN of each sign stays, in a total order."""
    zero, wrapped = b.constant(np.float32(0)), []
    for x in elements[:2]:
        condition = compared(b, "EQUAL", x, zero, stablehlo=True)
        wrapped.append(b.op("STABLEHLO_SELECT", [condition, zero, x], [b.tensor(())]))
    return compared(b, "LESS", *wrapped, stablehlo=True, kind=TOTAL)


@pytest.mark.parametrize(
    ("compare", "names"),
    [
        (by("EQUAL"), "EQUAL"),
        (lambda b, elements: elements[0], "no nodes"),
        (of_two_operands, "LESS"),
        (of_neighbors, "LESS"),
        (of_one_element, "LESS"),
        (with_a_constant, "LESS"),
        (of_magnitudes, "ABS, ABS, LESS"),
        (of_selections_of_nothing, "SELECT_V2, SELECT_V2, LESS"),
        (by_stablehlo("NOT_EQUAL", 1), "STABLEHLO_COMPARE"),
        (with_replaced(1, "EQUAL", 0), "EQUAL, SELECT_V2, EQUAL, SELECT_V2, LESS"),
        (with_replaced(0, "EQUAL", 1), "EQUAL, SELECT_V2, EQUAL, SELECT_V2, LESS"),
        (with_replaced(0, "EQUAL", None), "EQUAL, SELECT_V2, EQUAL, SELECT_V2, LESS"),
        (with_replaced(np.nan, "NOT_EQUAL", 0), "NOT_EQUAL, SELECT_V2, NOT_EQUAL"),
        (with_replaced(0, "EQUAL", 0, both=False), "EQUAL, SELECT_V2, EQUAL, SELECT_V2, LESS"),
        (half_of_jax, "STABLEHLO_COMPARE, STABLEHLO_SELECT, STABLEHLO_COMPARE"),
    ],
)
def test_other_comparators_are_refused_by_name(compare: Comparator, names: str) -> None:
    arrays = [draw((2, 5), "float32")] * 2
    reason = lower_graph(read_model(sorting(arrays, compare)), Limits()).reasons[0]
    assert f"a comparator of {names}" in reason
    assert "expected LESS or GREATER of two elements of one operand" in reason


@pytest.mark.parametrize(
    ("shapes", "axis", "results", "problem"),
    [
        ([(2, 3), (2, 4)], 0, 2, "operands of the shapes [[2, 3], [2, 4]]"),
        ([(2, 3)], 2, 1, "the axis 2 of a tensor of rank 2"),
        ([()], 0, 1, "the axis 0 of a tensor of rank 0"),
        ([(2, 3), (2, 3)], 0, 1, "and 1 results; expected operands of one shape"),
        ([], 0, 1, "operands of the shapes []"),
    ],
)
def test_damaged_nodes_are_refused(
    shapes: Sequence[tuple[int, ...]], axis: int, results: int, problem: str
) -> None:
    b = ModelBuilder()
    operands = [b.input(shape) for shape in shapes]

    def region(inner: ModelBuilder) -> list[int]:
        return [by("LESS")(inner, [inner.input(()) for _ in (*shapes, *shapes)] or [0, 0])]

    outputs = [b.tensor((2, 3)) for _ in range(results)]
    options = dict(dimension=axis, comparator_subgraph_index=b.subgraph(region) if shapes else 0)
    b.op("STABLEHLO_SORT", operands, outputs, **options)
    assert problem in lower_graph(read_model(b.build(outputs)), Limits()).reasons[0]


def test_a_comparator_that_is_missing_or_too_short() -> None:
    for index, problem in ((7, "no subgraph 7"), (1, "a comparator of LESS")):
        b = ModelBuilder()
        b.subgraph(lambda inner: [by("LESS")(inner, [inner.input(()), inner.input(())])])
        outputs = [b.tensor((5,)), b.tensor((5,))]
        operands = [b.input((5,)), b.input((5,))]
        b.op("STABLEHLO_SORT", operands, outputs, comparator_subgraph_index=index)
        assert problem in lower_graph(read_model(b.build(outputs)), Limits()).reasons[0]
