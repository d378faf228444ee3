"""`Interpreter.run` into arrays of the caller's, in both hosts."""

from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from tests.support.oracle import assert_close, run_litert
from tests.support.small import INPUT, expected, small_model, with_a_detour
from tests.support.tflite_builder import ModelBuilder

LARGE = (2, 512, 512, 3)  # more than what is pooled


def two_outputs(shape: tuple[int, ...]) -> bytes:
    """The negative and the square of x; x and a constant are outputs, too."""
    b = ModelBuilder()
    x = b.input(shape, name="x")
    negative = b.tensor(shape, name="negative")
    square = b.tensor(shape, name="square")
    b.op("NEG", [x], [negative])
    b.op("SQUARE", [x], [square])
    constant = b.constant(np.float32([1, 2, 3]))
    return b.build([negative, square, x, constant])


@pytest.mark.parametrize("shape", [(3, 5), LARGE], ids=["small", "large"])
def test_results_are_in_the_arrays_given(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    with gd.Interpreter(model_content=two_outputs(shape)) as interpreter:
        (negative_at, square_at, *_) = [each["index"] for each in interpreter.get_output_details()]
        negative = np.full(shape, 7, np.float32)
        for _ in range(5):
            x = rng.standard_normal(shape).astype(np.float32)
            kept = interpreter.run({"x": x})
            results = interpreter.run({"x": x}, out={"negative": negative})
            assert results["negative"] is negative
            assert_close([negative, results["square"]], [-x, x * x])
            assert_close([kept["negative"]], [-x])
            # What the caller writes there is not the interpreter's.
            negative.fill(5)
            assert_close([interpreter.get_tensor(negative_at)], [-x])
            interpreter.invoke()
            assert (negative == 5).all()
            assert_close([interpreter.get_tensor(negative_at)], [-x])
            assert_close([interpreter.get_tensor(square_at)], [x * x])


def test_inputs_and_constants_as_outputs() -> None:
    with gd.Interpreter(model_content=two_outputs((3, 5))) as interpreter:
        same_at, constant_at = (each["index"] for each in interpreter.get_output_details()[2:])
        x = np.arange(15, dtype=np.float32).reshape(3, 5)
        targets = {same_at: np.empty_like(x), constant_at: np.empty(3, np.float32)}
        interpreter.run({"x": x}, out=targets)
        assert_close([*targets.values()], [x, np.float32([1, 2, 3])])
        interpreter.run({"x": x}, out={same_at: x})
        assert_close([x], [np.arange(15, dtype=np.float32).reshape(3, 5)])


@pytest.mark.parametrize("make", [np.empty, lambda *a: np.empty(*a).T, np.zeros])
def test_any_memory(make: Any) -> None:
    """Transposed and with gaps, also the memory of the input."""
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    content = two_outputs((3, 3))
    target = make((3, 3), np.float32)
    with_gaps = np.zeros((3, 9), np.float32)[:, ::3]
    with gd.Interpreter(model_content=content) as interpreter:
        interpreter.run({"x": x}, out={"negative": target, "square": with_gaps})
        assert_close([target, with_gaps], [-x, x * x])
        interpreter.run({"x": x}, out={"negative": x})
        assert_close([x], [target])


def test_nodes_on_the_cpu() -> None:
    s, content = with_a_detour()
    with gd.Interpreter(model_content=content) as interpreter:
        (index,) = (each["index"] for each in interpreter.get_output_details())
        wanted = run_litert(content, s.feeds)
        target = np.empty_like(wanted[0])
        inputs = {each["index"]: x for each, x in
                  zip(interpreter.get_input_details(), s.feeds, strict=True)}  # fmt: skip
        (result,) = interpreter.run(inputs, out={index: target}).values()
        assert result is target
        assert_close([target], wanted)
        with pytest.raises(ValueError, match="expected an array of"):
            interpreter.run(inputs, out={index: np.empty(3, target.dtype)})


def test_another_size() -> None:
    with gd.Interpreter(model_content=small_model()) as interpreter:
        (index,) = (each["index"] for each in interpreter.get_output_details())
        larger = np.concatenate([INPUT, -INPUT])
        target = np.empty((6, 7), np.float32)
        interpreter.run({"x": larger}, out={index: target})
        assert_close([target], [expected(larger)])
        with pytest.raises(ValueError, match=r"expected an array of \[3, 7\] .*, found \[6, 7\]"):
            interpreter.run({"x": INPUT}, out={index: target})
        assert interpreter.get_input_details()[0]["shape"].tolist() == [6, 5]  # as before


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        ({"nothing": np.empty(1)}, ValueError, "found one for 'nothing': no output has that name"),
        ({"x": np.empty(1)}, ValueError, "found one for 'x'|expected a writable array"),
        ([np.empty(1)], TypeError, "expected a dict of arrays by the names of the outputs"),
        ({"square": [1.0]}, TypeError, "expected a numpy array for output .* found list"),
        ({"square": np.empty((3, 5))}, ValueError, "array of float32 .* found float64"),
        (
            {"square": np.broadcast_to(np.float32(1), (3, 5))},
            ValueError,
            "expected a writable array of float32 .* read-only",
        ),
    ],
)
def test_arrays_that_cannot_take_a_result(out: Any, error: type[Exception], message: str) -> None:
    with gd.Interpreter(model_content=two_outputs((3, 5))) as interpreter:
        with pytest.raises(error, match=message):
            interpreter.run({"x": np.zeros((3, 5), np.float32)}, out=out)
        assert len(interpreter.run({"x": np.zeros((3, 5), np.float32)})) == 4


def test_arrays_that_overlap() -> None:
    both = np.empty((4, 5), np.float32)
    with (
        gd.Interpreter(model_content=two_outputs((3, 5))) as interpreter,
        pytest.raises(ValueError, match="two that overlap: one result would be lost"),
    ):
        interpreter.run(
            {"x": np.zeros((3, 5), np.float32)}, out={"negative": both[:3], "square": both[1:]}
        )


def test_a_bound_output_is_not_given(app: Any) -> None:
    with app.ctx, gd.GpuDelegate(context=app.ctx) as delegate:
        interpreter = gd.Interpreter(
            model_content=two_outputs((3, 5)), experimental_delegates=[delegate]
        )
        index = interpreter.get_output_details()[1]["index"]
        delegate.bind_buffer_to_tensor(index, app.ctx.buffer(reserve=60))
        with pytest.raises(ValueError, match="expected arrays for outputs that are not bound"):
            interpreter.run(
                {"x": np.zeros((3, 5), np.float32)}, out={index: np.empty((3, 5), np.float32)}
            )
