"""TensorFlow's lists of tensors; LiteRT runs the same models without them."""

from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.partition import choose_partitions
from tests.litert.test_recurrent_loops import CELLS, HOSTS, SIZES
from tests.support.hosts import run_resized
from tests.support.keras import KerasLayer, keras_model
from tests.support.oracle import assert_close, run, run_gles, run_litert
from tests.support.pairwise import pairwise
from tests.support.sketch import Sketch


def both_models(cell: str, **attributes: Any) -> tuple[Sketch, bytes, bytes]:
    """A layer with lists, and without."""
    s, content = keras_model(KerasLayer(cell, lists=True, **attributes))
    return s, content, keras_model(KerasLayer(cell, **attributes))[1]


@pairwise(sizes=SIZES, cell=CELLS, host=HOSTS)
def test_a_recurrent_layer(host: Any, cell: str, sizes: dict[str, Any]) -> None:
    s, content, plain = both_models(cell, **sizes)
    lowered = lower_graph(read_model(content), Limits())
    assert not lowered.reasons
    assert not lowered.unrolled
    with host(content) as interpreter:
        for feeds in (s.feeds, [2 * array for array in s.feeds]):
            assert_close(run(interpreter, feeds), run_litert(plain, feeds))


@pytest.mark.parametrize("all_results", [True, False])
@pytest.mark.parametrize(
    ("cell", "damage"), [("lstm", "old cell"), ("lstm", "activation"), ("gru", "one")]
)
def test_another_loop(cell: str, damage: str, all_results: bool) -> None:
    s, content, plain = both_models(cell, damage=damage, batch=2, all_results=all_results)
    assert lower_graph(read_model(content), Limits()).unrolled
    assert_close(run_gles(content, s.feeds), run_litert(plain, s.feeds))


def test_another_batch() -> None:
    s, _, plain = both_models("gru", batch=3)
    narrow = keras_model(KerasLayer("gru", lists=True))[1]
    with gd.GpuDelegate() as delegate:
        interpreter = gd.Interpreter(model_content=narrow, experimental_delegates=[delegate])
        assert_close(run_resized(interpreter, s.feeds), run_litert(plain, s.feeds))


SHAPE = (2, 6)


class Lists(Sketch):
    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))

    def number(self, value: Any) -> int:
        return self.constant(np.array(value, np.int32))

    def made(self, name: str, *inputs: int) -> int:
        return self.op(f"FlexTensorList{name}", list(inputs), [self.tensor((), "variant")])

    def reserved(self, count: int, *sizes: int) -> int:
        return self.made("Reserve", self.number(sizes or (-1, SHAPE[1])), self.number(count))

    def stacked(self, values: int, count: int) -> int:
        output = self.tensor((count, *SHAPE))
        return self.op("FlexTensorListStack", [values, self.number((-1, 6))], [output])


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_elements(host: Any, position: int) -> None:
    """A list from a tensor, one of its elements set, and both read; and one of zeros."""
    s = Lists()
    first = s.made("FromTensor", s.feed((3, *SHAPE)), s.number(SHAPE))
    item = s.feed(SHAPE)
    second = s.made("SetItem", first, s.number(position), item)
    inputs = [first, s.number(position), s.number(SHAPE)]
    element = s.op("FlexTensorListGetItem", inputs, [s.tensor(SHAPE)])
    zeros = s.made("SetItem", s.reserved(2, *SHAPE), s.number(1), item)
    content = s.build([s.stacked(second, 3), s.stacked(first, 3), element, s.stacked(zeros, 2)])
    before, value = s.feeds
    after = before.copy()
    after[position] = value
    expected = [after, before, before[position], np.stack([0 * value, value])]
    with host(content) as interpreter:
        assert_close(run(interpreter, s.feeds), expected)


@pytest.mark.parametrize(
    ("count", "position", "reason"),
    [(2, 0, "elements of the list are not set"), (2, 2, "element 2 of a list of 2")],
)
def test_elements_that_are_missing(count: int, position: int, reason: str) -> None:
    s = Lists()
    values = s.made("SetItem", s.reserved(count), s.number(position), s.feed(SHAPE))
    reasons = lower_graph(read_model(s.build([s.stacked(values, count)])), Limits()).reasons
    assert reasons[1].startswith(reason)


@pytest.mark.parametrize("name", ["Reserve", "SetItem", "GetItem", "Stack", "FromTensor"])
def test_ops_without_inputs(name: str) -> None:
    s = Lists()
    assert len(lower_graph(read_model(s.build([s.made(name)])), Limits()).reasons) == 1


def test_an_element_of_integers() -> None:
    s = Lists()
    item = s.feed(SHAPE, values=np.zeros(SHAPE), dtype="int32")
    values = s.made("SetItem", s.reserved(1), s.number(0), item)
    reasons = lower_graph(read_model(s.build([s.stacked(values, 1)])), Limits()).reasons
    assert reasons[1].startswith("input 2 is int32")


def test_nodes_of_a_list_run_together() -> None:
    lowered = lower_graph(read_model(keras_model(KerasLayer(lists=True))[1]), Limits())
    loop = next(node.index for node in lowered.graph.nodes if node.op == "WHILE")
    (partition,) = choose_partitions([lowered], first=loop)
    reasons = partition.reasons
    assert {n.op for n in lowered.graph.nodes if n.index not in reasons} == {"ABS"}
