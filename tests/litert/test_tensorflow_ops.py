"""TensorFlow's ops, which a converter with SELECT_TF_OPS writes and LiteRT for Python lacks."""

import sys
from pathlib import Path

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.model.schema import TENSORFLOW_OP
from tests.support.command import call
from tests.support.tflite_builder import ModelBuilder


def model(inside: bool) -> bytes:
    """FlexErf between two ops, or in the body of a WHILE whose turns a run decides."""

    def erf(b: ModelBuilder, x: int) -> int:
        return b.op("FlexErf", [x], [(1, 4)])

    b = ModelBuilder()
    x = b.op("NEG", [b.input((1, 4))], [(1, 4)])
    if not inside:
        return b.build([b.op("ABS", [erf(b, x)], [(1, 4)])])

    def condition(b: ModelBuilder) -> list[int]:
        x = b.input((1, 4))
        largest = b.op("REDUCE_MAX", [x, b.constant(np.array([0, 1], np.int32))], [()])
        return [b.op("LESS", [largest, b.constant(np.float32(1))], [b.tensor((), np.bool_)])]

    subgraphs = b.subgraph(condition), b.subgraph(lambda b: [erf(b, b.input((1, 4)))])
    names = ("cond_subgraph_index", "body_subgraph_index")
    y = b.op("WHILE", [x], [(1, 4)], **dict(zip(names, subgraphs, strict=True)))
    return b.build([y])


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("installed", [True, False])
def test_no_host_runs_them(inside: bool, installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not installed:
        monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    with gd.GpuDelegate() as delegate, pytest.raises(gd.UnsupportedModelError) as caught:
        gd.Interpreter(model_content=model(inside), experimental_delegates=[delegate])
    ((_, op, reason),) = caught.value.nodes
    assert op == ("WHILE" if inside else "FlexErf")
    assert inside or reason == TENSORFLOW_OP
    assert "LiteRT for Python cannot run TensorFlow ops" in str(caught.value)


@pytest.mark.parametrize("command", ["inspect", "compare", "benchmark --against litert", "run"])
def test_commands_say_so(command: str, tmp_path: Path) -> None:
    path = tmp_path / "flex.tflite"
    path.write_bytes(model(inside=False))
    arguments = command.split()
    if command == "run":
        np.save(tmp_path / "x.npy", np.zeros((1, 4), np.float32))
        arguments += ["--input", f"tensor_0={tmp_path / 'x.npy'}"]
    text = call(*arguments, path, status=0 if "inspect" in command else 1)
    assert TENSORFLOW_OP in text
    assert "Android" not in text
