"""LiteRT's other arguments of the interpreter, with the meaning that they have there."""

import enum
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import interpreter as litert

import gles_delegate as gd
from gles_delegate.runtime import litert_host
from tests.support.oracle import litert_interpreter
from tests.support.sketch import Sketch
from tests.support.small import INPUT, check, expected, small_model

Resolver = litert.OpResolverType

TWO = gd.GpuDelegateOptions(last_delegate_node_index=1)
"""LiteRT runs what follows."""


def test_the_arguments_are_those_of_litert() -> None:
    ours = inspect.signature(gd.Interpreter).parameters
    theirs = inspect.signature(litert.Interpreter).parameters
    assert list(ours) == [*theirs, "member"]
    defaults = {name: p.default for name, p in ours.items() if name != "member"}
    defaults["experimental_op_resolver_type"] = Resolver.AUTO
    assert defaults == {name: p.default for name, p in theirs.items()}


def layers() -> tuple[Sketch, bytes]:
    """RELU and EXP of one shape, then a size that is known, then NEG and TANH."""
    s = Sketch(np.random.default_rng(0))
    x = s.op("EXP", [s.op("RELU", [s.feed((2, 6))], [(2, 6)])], [(2, 6)])
    shape = s.op("SHAPE", [x], [s.tensor((2,), np.int32)], out_type=2)
    y = s.op("NEG", [s.op("SQUARE", [x], [(2, 6)])], [(2, 6)])
    return s, s.build([s.op("TANH", [y], [(2, 6)]), shape])


@pytest.mark.parametrize("options", [gd.GpuDelegateOptions(), TWO])
@pytest.mark.parametrize("start", [lambda i: i.invoke(), lambda i: i.invoke_async().wait()])
def test_all_tensors_can_be_preserved(
    options: gd.GpuDelegateOptions, start: Callable[[gd.Interpreter], None]
) -> None:
    s, content = layers()
    theirs = litert_interpreter(content, apart=True)
    with gd.GpuDelegate(options) as delegate:
        ours = gd.Interpreter(
            model_content=content,
            experimental_delegates=[delegate],
            experimental_op_resolver_type=Resolver.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            experimental_preserve_all_tensors=True,
        )
        assert delegate.report.fully_delegated is (options is not TWO)
        for shape in ((2, 6), (3, 6)):
            x = np.resize(s.feeds[0], shape)
            for interpreter in (ours, theirs):
                interpreter.resize_tensor_input(0, shape)
                interpreter.allocate_tensors()
                interpreter.set_tensor(0, x)
            start(ours)
            theirs.invoke()
            outputs = [[d["index"] for d in i.get_output_details()] for i in (ours, theirs)]
            assert outputs[0] == outputs[1]
            for index in range(len(s.tensors)):
                actual, wanted = ours.get_tensor(index), theirs.get_tensor(index)
                assert actual.dtype == wanted.dtype
                np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-4)


def test_all_tensors_of_a_signature_s_subgraph() -> None:
    b = Sketch(np.random.default_rng(0))
    b.subgraph(lambda inner: [inner.op("EXP", [inner.op("ABS", [inner.input((3,))])])])
    content = b.build([b.op("NEG", [b.input((3,))])], signatures={"s": ({"x": 0}, {"y": 2}, 1)})
    x = np.array([-1, 0, 2], np.float32)
    with gd.Interpreter(
        model_content=content, experimental_preserve_all_tensors=True
    ) as interpreter:
        (y,) = interpreter.get_signature_runner()(x=x).values()
        assert np.array_equal(interpreter.get_tensor(1, 1), np.abs(x))
    np.testing.assert_allclose(y, np.exp(np.abs(x)), rtol=1e-5)


def test_other_tensors_are_not_preserved() -> None:
    with gd.Interpreter(model_content=small_model()) as interpreter:
        interpreter.allocate_tensors()
        check(interpreter)
        index = interpreter._get_ops_details()[0]["outputs"][0]
        with pytest.raises(ValueError, match="with experimental_preserve_all_tensors=True, all"):
            interpreter.get_tensor(index)


LATEST = "experimental_default_delegate_latest_features"
FLAGS = [name for name in inspect.signature(litert.Interpreter).parameters if "delegate_" in name]


def test_litert_gets_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    make = litert.Interpreter

    def made(**arguments: Any) -> Any:
        given.update(arguments)
        return make(**arguments)

    monkeypatch.setattr(litert_host, "litert_interpreter", lambda: made)
    monkeypatch.setattr(litert_host, "signature", lambda _: inspect.signature(make))
    _, content = layers()
    wanted = {
        **{name: True for name in FLAGS if name != LATEST},
        "num_threads": 2,
        "experimental_op_resolver_type": Resolver.BUILTIN_REF,
        "experimental_compress_quantization_zero_points": True,
    }
    with gd.GpuDelegate(TWO) as delegate:
        ours = gd.Interpreter(model_content=content, experimental_delegates=[delegate], **wanted)
        ours.allocate_tensors()
        ours.invoke()
        assert ours.experimental_compress_quantization_zero_points
    assert {name: given[name] for name in wanted} == wanted


def test_xnnpack_must_not_be_first() -> None:
    _, content = layers()
    with (
        gd.GpuDelegate(TWO) as delegate,
        pytest.raises(gd.UnsupportedModelError, match=f"{LATEST} LiteRT gives nodes to XNNPACK"),
    ):
        gd.Interpreter(model_content=content, experimental_delegates=[delegate], **{LATEST: True})


def test_where_the_gpu_runs_all_they_change_nothing() -> None:
    with gd.Interpreter(
        model_content=small_model(),
        experimental_op_resolver_type=Resolver.BUILTIN_REF,
        **dict.fromkeys(FLAGS, True),
    ) as interpreter:
        assert np.allclose(next(iter(interpreter.run({"x": INPUT}).values())), expected())


def test_an_older_litert_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litert_host, "signature", lambda _: inspect.signature(lambda model_path: 0))
    _, content = layers()
    with (
        gd.GpuDelegate(TWO) as delegate,
        pytest.raises(gd.LiteRtError, match="not accept the argument num_threads: leave it out"),
    ):
        gd.Interpreter(
            model_content=content,
            experimental_delegates=[delegate],
            num_threads=3,
            experimental_op_resolver_type=Resolver.AUTO,
        )


class Another(enum.Enum):
    FAST = 1


@pytest.mark.parametrize("value", ["BUILTIN", 1, Another.FAST])
def test_no_op_resolver(value: Any) -> None:
    with pytest.raises(
        ValueError, match=r"Unrecognized passed in op resolver type: .*, one of AUTO"
    ):
        gd.Interpreter(model_content=small_model(), experimental_op_resolver_type=value)


def test_the_ops_are_described_as_by_litert(real_model: Callable[[str], bytes]) -> None:
    for content in (layers()[1], real_model("hair_segmentation")):
        theirs = litert.Interpreter(
            model_content=content,
            experimental_op_resolver_type=Resolver.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )._get_ops_details()
        with gd.Interpreter(model_content=content) as ours:
            actual = ours._get_ops_details()
        assert len(actual) == len(theirs)
        for one, other in zip(actual, theirs, strict=True):
            for key in other:
                assert type(one[key]) is type(other[key])
                assert np.array_equal(one[key], other[key]), key
