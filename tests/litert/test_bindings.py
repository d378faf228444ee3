"""GPU data bound to models that LiteRT's interpreter runs, wholly or in part, and to variables."""

from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt

import gles_delegate as gd
from tests.gl.test_binding import PICTURE, negated
from tests.litert.test_mixed import ALL
from tests.litert.test_variables import cells
from tests.support.app import App
from tests.support.oracle import (
    assert_close,
    complete,
    in_ours,
    litert_interpreter,
    run,
    run_litert,
)
from tests.support.sketch import Sketch
from tests.support.small import INPUT, expected, small_model, with_a_detour
from tests.support.tflite_builder import ModelBuilder


def closed(app: App, delegate: gd.GpuDelegate) -> None:
    app.delegate.close()
    app.delegate = delegate


def test_in_litert_s_own_interpreter(app: App) -> None:
    closed(app, gd.GpuDelegate(context=app.egl, model=small_model()))
    source, target = app.buffer(INPUT), app.buffer(3 * 7 * 4)
    app.delegate.bind_buffer_to_tensor(0, source)
    interpreter = LiteRt(model_content=small_model(), experimental_delegates=[app.delegate])
    interpreter.allocate_tensors()
    y = interpreter.get_output_details()[0]["index"]
    interpreter.invoke()
    np.testing.assert_allclose(interpreter.get_tensor(y), expected(), rtol=1e-5, atol=1e-5)
    app.delegate.bind_buffer_to_tensor(y, target)
    interpreter.invoke()
    actual = app.read(target, "f4").reshape(3, 7)
    np.testing.assert_allclose(actual, expected(), rtol=1e-5, atol=1e-5)
    interpreter.resize_tensor_input(0, (4, 5))
    with pytest.raises(RuntimeError, match=r"expected 80 bytes .* found 60"):
        interpreter.allocate_tensors()


def test_a_region_from_a_buffer_in_litert(app: App) -> None:
    content = negated((1, 9, 11, 3))
    closed(app, gd.GpuDelegate(context=app.egl, model=content))
    matrix = np.array([[1.2, 0.3, -4], [-0.2, 0.9, 6]], np.float32)
    texture, region = app.texture(PICTURE), app.buffer(matrix)
    app.delegate.bind_texture_to_tensor(0, texture, region=region)
    interpreter = LiteRt(model_content=content, experimental_delegates=[app.delegate])
    interpreter.allocate_tensors()
    interpreter.invoke()
    expected = -gd.ImageTransform(matrix=matrix.tolist()).apply(PICTURE, (9, 11))
    np.testing.assert_allclose(interpreter.get_tensor(1), expected, atol=1e-4)


def test_litert_never_shows_an_earlier_result(app: App) -> None:
    closed(app, gd.GpuDelegate(context=app.egl, model=small_model()))
    interpreter = LiteRt(model_content=small_model(), experimental_delegates=[app.delegate])
    interpreter.allocate_tensors()
    y = interpreter.get_output_details()[0]["index"]
    with pytest.raises(ValueError, match=rf"tensor {y} is not a bound output; bound .*: \[\]"):
        app.delegate.read_tensor(y)
    interpreter.set_tensor(0, INPUT)
    interpreter.invoke()
    app.delegate.bind_buffer_to_tensor(y, app.buffer(3 * 7 * 4))
    for factor in (2, -3):
        interpreter.set_tensor(0, factor * INPUT)
        interpreter.invoke()
        actual = interpreter.get_tensor(y)
        np.testing.assert_allclose(actual, expected(factor * INPUT), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(app.delegate.read_tensor(y), actual)


def split(app: App, content: bytes, **options: Any) -> gd.Interpreter:
    closed(app, gd.GpuDelegate(gd.GpuDelegateOptions(**options), context=app.egl))
    return app.interpreter(content)


def test_the_ends_of_a_split_graph(app: App) -> None:
    s, content = with_a_detour()
    interpreter = split(app, content, max_delegated_partitions=ALL)
    x, y = (
        d[0]["index"] for d in (interpreter.get_input_details(), interpreter.get_output_details())
    )
    target = app.buffer(2 * 5 * 3 * 4)
    app.delegate.bind_buffer_to_tensor(x, app.buffer(s.feeds[0]))
    app.delegate.bind_buffer_to_tensor(y, target)
    interpreter.invoke()
    wanted = run_litert(content, s.feeds)
    assert_close([app.read(target, "f4").reshape(2, 5, 3)], wanted)
    assert_close([interpreter.get_tensor(y)], wanted)
    assert_close([interpreter.tensor(y)()], wanted)
    app.delegate.unbind(y)
    invocation = interpreter.invoke_async()
    assert invocation.done()
    assert_close([invocation.get_tensor(y)], wanted)


def test_what_nodes_on_the_cpu_use_cannot_be_bound(app: App) -> None:
    _, content = with_a_detour()
    interpreter = split(app, content)
    y = interpreter.get_output_details()[0]["index"]
    with pytest.raises(ValueError, match=rf"cannot bind tensor {y}: nodes \[5\] use it"):
        app.delegate.bind_buffer_to_tensor(y, app.buffer(120))


def test_an_output_that_another_segment_reads_cannot_be_bound(app: App) -> None:
    s = Sketch(np.random.default_rng(3))
    x = s.op("EXP", [s.feed((2, 3))])
    whole = s.op("CAST", [x], [s.tensor(dtype=np.float64)])
    y = s.op("SUB", [x, s.op("CAST", [whole], [s.tensor()])])
    interpreter = split(app, complete(s, [x, y]), max_delegated_partitions=ALL)
    assert interpreter
    with pytest.raises(ValueError, match=f"cannot bind tensor {x}: nodes"):
        app.delegate.bind_buffer_to_tensor(x, app.buffer(24))


def test_a_constant_output_cannot_be_bound(app: App) -> None:
    builder = ModelBuilder()
    x = builder.input((2,))
    half = builder.constant(np.full(2, -1, np.float16))
    constant = builder.op("DEQUANTIZE", [half], [builder.tensor((2,))])
    y = builder.op("NEG", [x], [(2,)])
    interpreter = app.interpreter(builder.build([y, constant]))
    with pytest.raises(ValueError, match=f"cannot bind tensor {constant}: .* a constant"):
        app.delegate.bind_buffer_to_tensor(constant, app.buffer(8))
    interpreter.set_tensor(x, np.ones(2, np.float32))
    invocation = interpreter.invoke_async()
    assert (invocation.get_tensor(constant) == -1).all()
    assert (invocation.get_tensor(y) == -1).all()


def test_variables_outlive_a_new_binding(app: App) -> None:
    s, content, state = cells(batch=2, depth=7, units=4, nodes=1)
    feeds = [s.normal((2, 7)) for _ in range(4)]
    ours, theirs = app.interpreter(content), litert_interpreter(content)
    x = ours.get_input_details()[0]["index"]
    for feed in feeds[:2]:
        assert_close(run(ours, [feed]), run(theirs, [feed]))
    for feed in feeds[2:]:
        wanted = run(theirs, [feed])
        app.delegate.bind_buffer_to_tensor(x, app.buffer(feed))
        ours.invoke()
        assert_close([ours.get_tensor(ours.get_output_details()[0]["index"])], wanted)
        for index in state:
            assert_close([ours.get_tensor(index)], [theirs.get_tensor(index)])


def test_complex_numbers_are_not_bound(app: App) -> None:
    s = Sketch(np.random.default_rng(0))
    x = s.feed((1, 8))
    y = s.op("RFFT2D", [x, s.constant(np.int32([1, 8]))], [s.tensor((1, 5), "complex64")])
    in_ours(app.delegate, s.build([y]))
    with pytest.raises(ValueError, match="expected a tensor of real numbers"):
        app.delegate.bind_buffer_to_tensor(y, app.buffer(40))
