"""Subgraphs of a model: signatures, and the ops that run them."""

from collections.abc import Callable
from typing import Any

import pytest

from gles_delegate.errors import ModelError
from gles_delegate.model.reader import read_model
from tests.support.schema import pack_model
from tests.support.tflite_builder import ModelBuilder

SHAPE = (1, 4)


def one_op(op: str) -> Callable[[ModelBuilder], list[int]]:
    return lambda b: [b.op(op, [b.input(SHAPE)], [SHAPE])]


def with_signatures(*ops: str) -> ModelBuilder:
    b = ModelBuilder()
    for op in ops:
        b.subgraph(one_op(op))
    return b


def test_signatures_have_their_subgraphs() -> None:
    b = with_signatures("EXP", "NEG")
    (y,) = one_op("ABS")(b)
    names = {"x": 0}, {"y": y}
    signatures = {"decode": (*names, 2), "main": names, "encode": (*names, 2)}
    graph = read_model(b.build([y], signatures=signatures))
    assert {s.key: s.subgraph for s in graph.signatures} == {"main": 0, "encode": 2, "decode": 2}
    assert graph.entries == (0, 2)
    assert [g.nodes[0].op for g in graph.subgraphs] == ["ABS", "EXP", "NEG"]
    assert [g.index for g in graph.subgraphs] == [0, 1, 2]
    assert graph.subgraphs[2] is graph.subgraphs[2].subgraphs[2]
    assert graph.subgraphs[2].signatures == graph.signatures


@pytest.mark.parametrize(
    ("op", "options", "subgraphs"),
    [
        ("IF", {"then_subgraph_index": 2, "else_subgraph_index": 1}, (2, 1)),
        ("WHILE", {"cond_subgraph_index": 1, "body_subgraph_index": 2}, (1, 2)),
        ("CALL_ONCE", {"init_subgraph_index": 1}, (1,)),
        ("CALL", {"subgraph": 2}, (2,)),
    ],
)
def test_ops_that_run_subgraphs(op: str, options: Any, subgraphs: tuple[int, ...]) -> None:
    b = with_signatures("EXP", "NEG")
    b.op(op, [b.input(SHAPE)], [SHAPE], **options)
    assert read_model(b.build([0])).nodes[0].subgraphs == subgraphs
    tables = b.model([0])
    tables["subgraphs"].pop()
    if 2 in subgraphs:
        with pytest.raises(ModelError, match="subgraph 2 does not exist; there are 2"):
            read_model(pack_model(tables))


def test_a_subgraph_that_nothing_runs_is_not_read() -> None:
    b = with_signatures("EXP")
    tables = b.model(one_op("ABS")(b))
    tables["subgraphs"][1]["outputs"] = [9]
    graph = read_model(pack_model(tables))
    with pytest.raises(ModelError, match="in subgraph 1, the graph's outputs name tensor 9"):
        graph.subgraphs[1]
