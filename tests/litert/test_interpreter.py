"""The interpreter beside LiteRT's own: the same calls, the same dictionaries, the same errors."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType

import gles_delegate as gd
from gles_delegate.gl.egl import EglContext
from gles_delegate.model.dtypes import SCHEMA_NUMBERS
from tests.support.models import REAL_MODELS
from tests.support.same import assert_same
from tests.support.state import State, objects_in
from tests.support.tflite_builder import ModelBuilder, quantization

X = np.array([[-1.0, 0.0, 2.0, 3.5]], np.float32)


def small_model() -> bytes:
    """y = relu(a + b), with two signatures, a variable, and tensors of all kinds."""
    builder = ModelBuilder()
    a = builder.input((1, 4), name="a", quantization=quantization(0.5, 3))
    b = builder.input((1, 4), name="b")
    total = builder.op("ADD", [a, b], [(1, 4)])
    y = builder.op("RELU", [total], [(1, 4)])
    z = builder.op("TANH", [y], [(1, 4)])
    builder.constant(np.arange(6, dtype=np.int32).reshape(2, 3), name="unused")
    scales = quantization([0.5, 0.25, 2.0], [0, 0, 0], dimension=1)
    builder.constant(np.zeros((2, 3), np.int8), quantization=scales)
    for dtype in (np.float16, np.float64, np.int64, np.uint8, np.bool_, np.complex64, np.uint32):
        builder.tensor((2,), dtype)
    builder.tensor(())
    signatures = {
        "second": ({"right": b, "left": a}, {"y": y, "again": y}),
        "first": ({"b": b, "a": a}, {"z": z}),
    }
    return builder.build([y, z], signatures=signatures)


def litert(content: bytes) -> LiteRt:
    return LiteRt(
        model_content=content,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )


Pair = tuple[Any, Any]
Outcome = tuple[str, Any]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Ours and LiteRT's interpreter of the small model."""
    content = small_model()
    with gd.Interpreter(model_content=content) as ours:
        yield ours, litert(content)


def outcome(call: Callable[[Any], Any], interpreter: Any) -> Outcome:
    try:
        return "returned", call(interpreter)
    except Exception as error:
        return "raised", error


def both(pair: Pair, call: Callable[[Any], Any]) -> Outcome:
    """The outcome of a call, which is the same for both: value, or type of the error."""
    ours, theirs = (outcome(call, interpreter) for interpreter in pair)
    assert ours[0] == theirs[0], f"{ours} but LiteRT {theirs}"
    if ours[0] == "raised":
        assert isinstance(ours[1], type(theirs[1])), f"{ours[1]!r} but LiteRT {theirs[1]!r}"
        assert str(ours[1])
    else:
        assert_same(ours[1], theirs[1])
    return ours


def details(interpreter: Any) -> list[Any]:
    """All details, less the temporary tensors that LiteRT adds behind the model's own."""
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    tensors = [d for d in interpreter.get_tensor_details() if d["name"]]
    runners = [interpreter.get_signature_runner(key) for key in interpreter.get_signature_list()]
    named = [(r.get_input_details(), r.get_output_details()) for r in runners]
    return [inputs, outputs, tensors, named, interpreter.get_signature_list()]


def feed(interpreter: Any, a: Any, b: Any) -> None:
    interpreter.set_tensor(0, np.asarray(a, np.float32))
    interpreter.set_tensor(1, np.asarray(b, np.float32))


def results(interpreter: Any) -> list[Any]:
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def test_details_before_and_after_everything(pair: Pair) -> None:
    def work(i: Any) -> list[Any]:
        seen = [details(i)]
        i.allocate_tensors()
        seen.append(details(i))
        i.resize_tensor_input(0, (3, 4))
        seen.append(details(i))
        i.resize_tensor_input(1, (3, 4))
        i.allocate_tensors()
        return [*seen, details(i)]

    both(pair, work)


def test_free_sizes() -> None:
    builder = ModelBuilder()
    x, y = builder.input((1, 4)), builder.input((1, 4))
    builder.tensors[x]["shape_signature"] = [-1, 4]
    content = builder.build([builder.op("ADD", [x, y], [(1, 4)])])

    def work(i: Any) -> list[Any]:
        i.resize_tensor_input(x, (3, 4), strict=True)
        for size in ((3, 5), (3, 4, 1)):
            with pytest.raises(RuntimeError):
                i.resize_tensor_input(x, size, strict=True)
        i.resize_tensor_input(y, (3, 4))
        with pytest.raises(RuntimeError):
            i.resize_tensor_input(y, (1, 4), strict=True)
        i.allocate_tensors()
        feed(i, np.ones((3, 4)), np.ones((3, 4)))
        return [details(i), results(i)]

    with gd.Interpreter(model_content=content) as ours:
        both((ours, litert(content)), work)


@pytest.mark.parametrize("name", REAL_MODELS)
def test_details_of_real_models(name: str, real_model: Callable[[str], bytes]) -> None:
    content = real_model(name)
    with gd.Interpreter(model_content=content) as ours:
        assert_same(details(ours), details(litert(content)))


def test_types_that_numpy_lacks() -> None:
    builder = ModelBuilder()
    y = builder.op("RELU", [builder.input((1, 4))], [(1, 4)])
    # LiteRT shows bfloat16 from when on something imports ml_dtypes.
    for number in {*range(20)} - {SCHEMA_NUMBERS["bfloat16"]}:
        index = builder.tensor((2,), np.int8)
        builder.tensors[index]["type"] = number
    content = builder.build([y])
    with gd.Interpreter(model_content=content) as ours:
        assert_same(ours.get_tensor_details(), litert(content).get_tensor_details())


def test_a_failed_resize_can_be_taken_back(pair: Pair) -> None:
    def work(i: Any) -> list[Any]:
        i.resize_tensor_input(0, (3, 5))
        with pytest.raises(RuntimeError):
            i.allocate_tensors()
        with pytest.raises(RuntimeError):
            i.invoke()
        i.resize_tensor_input(0, (1, 4))
        i.allocate_tensors()
        feed(i, X, X)
        return results(i)

    both(pair, work)


def allocated(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(i: Any) -> Any:
        i.allocate_tensors()
        return call(i)

    return run


def resized(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(i: Any) -> Any:
        i.allocate_tensors()
        i.resize_tensor_input(0, (2, 4))
        i.resize_tensor_input(1, (2, 4))
        return call(i)

    return run


def viewed(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A call while a slice of an input's memory is held, and after that."""

    def run(i: Any) -> Any:
        i.allocate_tensors()
        feed(i, X, X)
        assert i._safe_to_run()
        part = i.tensor(0)()[0, 1:]
        assert not i._safe_to_run()
        try:
            call(i)
        finally:
            del part
            assert i._safe_to_run()
            i.allocate_tensors()

    return run


ERRORS: dict[str, Callable[[Any], Any]] = {
    "invoke with a view": viewed(lambda i: i.invoke()),
    "allocate_tensors with a view": viewed(lambda i: i.allocate_tensors()),
    "details of no op": lambda i: i._get_op_details(99),
    "details of no tensor": lambda i: i._get_tensor_details(99, 0),
    "get_tensor before allocation": lambda i: i.get_tensor(3),
    "get_tensor of an input before allocation": lambda i: i.get_tensor(0),
    "set_tensor before allocation": lambda i: i.set_tensor(0, X),
    "tensor before allocation": lambda i: i.tensor(0)(),
    "invoke before allocation": lambda i: i.invoke(),
    "get_tensor after a resize": resized(lambda i: i.get_tensor(0)),
    "set_tensor after a resize": resized(lambda i: i.set_tensor(0, np.tile(X, (2, 1)))),
    "invoke after a resize": resized(lambda i: i.invoke()),
    "float64": allocated(lambda i: i.set_tensor(0, X.astype(np.float64))),
    "int32": allocated(lambda i: i.set_tensor(0, X.astype(np.int32))),
    "another size": allocated(lambda i: i.set_tensor(0, np.tile(X, (2, 1)))),
    "another rank": allocated(lambda i: i.set_tensor(0, X[0])),
    "a broadcastable shape": allocated(lambda i: i.set_tensor(0, X[:, :1])),
    "set_tensor of no tensor": allocated(lambda i: i.set_tensor(99, X)),
    "set_tensor of index 0.0": allocated(lambda i: i.set_tensor(0.0, X)),
    "get_tensor of index -1": allocated(lambda i: i.get_tensor(-1)),
    "get_tensor of another subgraph": allocated(lambda i: i.get_tensor(0, 1)),
    "details of another subgraph": lambda i: i.get_tensor_details(1),
    "resize of a constant": lambda i: i.resize_tensor_input(5, (9, 9)),
    "invoke after a resize of an output": allocated(
        lambda i: [i.resize_tensor_input(3, (5, 4)), i.invoke()]
    ),
    "strict resize of the rank": lambda i: i.resize_tensor_input(0, (4,), strict=True),
    "one of two signatures": lambda i: i.get_signature_runner(),
    "no such signature": lambda i: i.get_signature_runner("third"),
    "a signature's input is missing": lambda i: i.get_signature_runner("first")(a=X),
    "a signature's input is unknown": lambda i: i.get_signature_runner("first")(a=X, c=X),
    "one input too many": lambda i: i.get_signature_runner("first")(a=X, b=X, c=X),
    "a signature's positional input": lambda i: i.get_signature_runner("first")(X, X),
    "a signature's float64": lambda i: i.get_signature_runner("first")(a=X, b=X.astype(float)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_of_litert_s_type(name: str, pair: Pair) -> None:
    kind, _ = both(pair, ERRORS[name])
    assert kind == "raised"


TEXTS = {
    "invoke with a view": "There is at least 1 reference to internal data",
    "allocate_tensors with a view": "There is at least 1 reference to internal data",
    "details of no op": "Invalid node index",
    "details of another subgraph": "subgraph_index is out of range",
    "invoke before allocation": "Invoke called on model that is not ready",
    "invoke after a resize": "Invoke called on model that is not ready",
    "set_tensor before allocation": "allocate_tensors() first",
    "get_tensor before allocation": "allocate_tensors() first",
    "float64": "Cannot set tensor: Got value of type FLOAT64 but expected type FLOAT32 for input 0",
    "another size": "Cannot set tensor: Dimension mismatch. Got ",
    "another rank": "Cannot set tensor: Dimension mismatch. Got ",
    "set_tensor of no tensor": "Invalid tensor index 99",
    "get_tensor of index -1": "Invalid tensor index -1",
    "one of two signatures": "None is only allowed when the model has 1 SignatureDef",
    "no such signature": 'Invalid signature_key provided: "third"',
    "one input too many": "for running a SignatureDef, expected 2 vs provided 3",
    "a signature's input is unknown": "Invalid Input name (c) for SignatureDef",
}
"""Parts of LiteRT's texts for which programs, and its own tests, look."""


@pytest.mark.parametrize("name", TEXTS)
def test_texts_contain_litert_s(name: str, pair: Pair) -> None:
    for interpreter in pair:
        assert TEXTS[name] in str(outcome(ERRORS[name], interpreter)[1])


CALLS: dict[str, Callable[[Any], Any]] = {
    "an op's details": lambda i: i._get_op_details(0),
    "a tensor's details": lambda i: i._get_tensor_details(0, 0),
    "strict resize to the same": lambda i: i.resize_tensor_input(0, [1, 4], strict=True),
    "resize of an output": allocated(
        lambda i: [
            feed(i, X, X),
            i.resize_tensor_input(3, (5, 4)),
            i.allocate_tensors(),
            results(i),
        ]
    ),
    "resize to the same keeps it ready": allocated(
        lambda i: [feed(i, X, X), i.resize_tensor_input(0, (1, 4)), results(i)]
    ),
    "numpy's index": allocated(lambda i: i.set_tensor(np.int64(0), X)),
    "other memory orders": allocated(
        lambda i: [i.set_tensor(0, np.asfortranarray(X)), i.set_tensor(1, X[:, ::-1]), results(i)]
    ),
    "a signature at batch 2": lambda i: i.get_signature_runner("second")(
        left=np.tile(X, (2, 1)), right=np.ones((2, 4), np.float32)
    ),
    "two signatures alternately": lambda i: [
        i.get_signature_runner(key)(**inputs)
        for key, inputs in (
            ("first", {"a": X, "b": X}),
            ("second", {"left": -X, "right": X * 3}),
            ("first", {"b": X, "a": -X}),
        )
    ],
    "reset_all_variables": allocated(lambda i: i.reset_all_variables()),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_do_what_litert_s_do(name: str, pair: Pair) -> None:
    kind, _ = both(pair, CALLS[name])
    assert kind == "returned"


def test_a_tensor_inside_the_graph_is_refused(pair: Pair) -> None:
    ours, _ = pair
    ours.allocate_tensors()
    with pytest.raises(ValueError, match="stays on the GPU"):
        ours.get_tensor(2)
    with pytest.raises(ValueError, match="is not an input"):
        ours.set_tensor(2, X)


def test_variables() -> None:
    builder = ModelBuilder()
    x, state = builder.input((1, 4)), builder.variable((1, 4))
    y = builder.op("ADD", [x, state], [(1, 4)])
    content = builder.build([y])

    def work(i: Any) -> list[Any]:
        i.allocate_tensors()
        i.set_tensor(x, X)
        collected = [*results(i), i.get_tensor(state)]
        i.set_tensor(state, X)
        collected += results(i)
        i.reset_all_variables()
        return [*collected, *results(i)]

    with gd.Interpreter(model_content=content) as ours:
        both((ours, litert(content)), work)


@pytest.mark.parametrize("has_nodes", [True, False])
def test_outputs_that_are_inputs_constants_or_twice(has_nodes: bool) -> None:
    builder = ModelBuilder()
    x = builder.input((1, 4))
    content = builder.build([x])
    if has_nodes:
        builder.input((2,), np.int32)
        y = builder.op("RELU", [x], [(1, 4)])
        content = builder.build([y, x, builder.constant(np.ones((2, 2), np.float32)), y])

    def work(i: Any) -> list[Any]:
        i.allocate_tensors()
        i.set_tensor(x, X)
        return results(i)

    with gd.Interpreter(model_content=content) as ours:
        both((ours, litert(content)), work)


@pytest.mark.parametrize("form", [str, Path, os.fsencode])
def test_path_forms(form: Callable[[Any], Any], tmp_path: Path) -> None:
    path = tmp_path / "mödel 1.tflite"
    path.write_bytes(small_model())
    with gd.Interpreter(model_path=form(path)) as ours:
        assert_same(details(ours), details(LiteRt(model_path=form(path))))


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_content_forms(form: Callable[[bytes], Any]) -> None:
    with gd.Interpreter(None, form(small_model())) as ours:
        assert len(ours.get_input_details()) == 2


@pytest.mark.parametrize("content", ["text", 5, 10**15, [1, 2], object()])
def test_content_that_is_no_bytes(content: Any) -> None:
    with pytest.raises(TypeError):
        gd.Interpreter(model_content=content)


@pytest.mark.parametrize(
    ("name", "message"), [("missing", "No such file"), ("nul\0", "null (byte|character)")]
)
def test_files_that_are_not_there(name: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(gd.ModelError, match=message) as caught:
        gd.Interpreter(path)
    assert isinstance(caught.value, ValueError)
    assert repr(str(path)) in str(caught.value)


def test_an_address_is_no_file() -> None:
    with pytest.raises(gd.ModelError, match=r"'https://x\.org/m\.tflite': it is an address: down"):
        gd.Interpreter("https://x.org/m.tflite")


@pytest.mark.parametrize("arguments", [{}, {"model_path": "m.tflite", "model_content": b"TFL3"}])
def test_one_of_path_and_content(arguments: dict[str, Any]) -> None:
    for make in (gd.Interpreter, LiteRt):
        text = "Can't both provide" if arguments else "`model_content` must be specified"
        with pytest.raises(ValueError, match=text):
            make(**arguments)


@pytest.mark.parametrize("count", [0, -2, "2", 1.5, np.int32(2)])
def test_a_wrong_number_of_threads(count: Any) -> None:
    text = "num_threads should >= 1" if isinstance(count, int) else "type of num_threads should be"
    for make in (gd.Interpreter, LiteRt):
        with pytest.raises(ValueError, match=text):
            make(model_content=small_model(), num_threads=count)


def test_arguments_by_place() -> None:
    with gd.GpuDelegate() as delegate:
        interpreter = gd.Interpreter(None, small_model(), [delegate], 2)
        interpreter.allocate_tensors()
        with pytest.raises(ValueError, match="a delegate that is open: close it first"):
            interpreter.modify_graph_with_delegate(gd.GpuDelegate())
    with pytest.raises(ValueError, match="one delegate, found 2"):
        gd.Interpreter(None, small_model(), [gd.GpuDelegate(), gd.GpuDelegate()])


def partly_unsupported() -> bytes:
    builder = ModelBuilder()
    x = builder.input((1, 4))
    y = builder.op("RELU", [x], [(1, 4)])
    z = builder.op("Mystery", [y], [(1, 4)], custom_options=b"\1")
    scores = builder.op("TANH", [z], [(1, 4)], version=99)
    whole = builder.op("RELU6", [builder.input((1, 4), np.int8)], [(1, 4)])
    return builder.build([scores, whole])


def test_unsupported_nodes_are_all_named(egl: EglContext) -> None:
    state = State(egl.load)
    before = objects_in(egl, state)
    with gd.GpuDelegate(context=egl) as delegate:
        with pytest.raises(gd.UnsupportedModelError) as caught:
            gd.Interpreter(model_content=partly_unsupported(), experimental_delegates=[delegate])
        assert [node[:2] for node in caught.value.nodes] == [
            (1, "Mystery"),
            (2, "TANH"),
            (3, "RELU6"),
        ]
        reasons = [reason for _, _, reason in caught.value.nodes]
        assert "no GPU implementation" in reasons[0]
        assert "version 99" in reasons[1]
        assert "int8" in reasons[2]
        for index, op, reason in caught.value.nodes:
            assert f"node {index} {op}: {reason}" in str(caught.value)
        assert str(caught.value).startswith("3 of 4 nodes")
        assert objects_in(egl, state) == before
        check_report(delegate.report)


def check_report(report: gd.DelegationReport) -> None:
    assert not report.fully_delegated
    header, *rows, total = str(report).splitlines()
    assert header.split() == ["node", "op", "version", "runs", "on", "why"]
    assert [row.split()[:4] for row in rows] == [
        ["0", "RELU", "1", "GPU"],
        ["1", "Mystery", "1", "CPU"],
        ["2", "TANH", "99", "CPU"],
        ["3", "RELU6", "1", "CPU"],
    ]
    assert total == "1 of 4 nodes run on the GPU in 1 segment, stored as float32"
    restored = json.loads(report.to_json())["nodes"]
    assert [tuple(node.values()) for node in restored] == [
        (n.index, n.op, n.version, n.delegated, n.reason, n.folded, n.subgraph)
        for n in report.nodes
    ]
    names = {"index", "op", "version", "delegated", "reason", "folded", "subgraph"}
    assert set(restored[0]) == names


def test_the_report_of_a_whole_model() -> None:
    with gd.GpuDelegate() as delegate:
        assert delegate.report == gd.DelegationReport()
        gd.Interpreter(model_content=small_model(), experimental_delegates=[delegate])
        assert delegate.report.fully_delegated
        assert [node.op for node in delegate.report.nodes] == ["ADD", "RELU", "TANH"]
        assert str(delegate.report).endswith("3 of 3 nodes run on the GPU, stored as float32")


def test_a_model_that_fails_leaves_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[EglContext] = []
    release = EglContext.release
    monkeypatch.setattr(EglContext, "release", lambda e: [released.append(e), release(e)][1])
    with pytest.raises(gd.UnsupportedModelError):
        gd.Interpreter(model_content=partly_unsupported())
    assert len(released) == 1


@pytest.mark.parametrize(("dtype", "is_a_picture"), [("uint8", True), ("int32", False)])
def test_a_picture_for_an_input_of_floats(dtype: str, is_a_picture: bool) -> None:
    with gd.Interpreter(model_content=small_model()) as interpreter:
        details = interpreter.get_input_details()
        with pytest.raises(ValueError, match="convert the array with astype") as caught:
            interpreter.run({each["index"]: np.zeros(each["shape"], dtype) for each in details})
        advice = "scale a picture as ImageTransform.for_input does"
        assert (advice in str(caught.value)) == is_a_picture
