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
    in_litert,
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
    interpreter = in_litert(app.delegate, small_model())
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
    interpreter = in_litert(app.delegate, content)
    interpreter.invoke()
    expected = -gd.ImageTransform(matrix=matrix.tolist()).apply(PICTURE, (9, 11))
    np.testing.assert_allclose(interpreter.get_tensor(1), expected, atol=1e-4)


def test_litert_never_shows_an_earlier_result(app: App) -> None:
    closed(app, gd.GpuDelegate(context=app.egl, model=small_model()))
    interpreter = in_litert(app.delegate, small_model())
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


PIXELS = (1, 2, 2, 4)
ONE, TWO = np.full(PIXELS, 1, np.float32), np.full(PIXELS, 2, np.float32)


def two_results(shape: tuple[int, ...] = PIXELS, detour: bool = False) -> tuple[bytes, list[int]]:
    """x + z and x - z, and a third result that the CPU computes; the indices of these."""
    b = ModelBuilder()
    x, z = b.input(shape, name="x"), b.input(shape, name="z")
    results = [b.op(op, [x, z], [b.tensor(shape, name=op)]) for op in ("ADD", "SUB")]
    if detour:
        whole = b.op("CAST", [z], [b.tensor(shape, "float64")])
        results.append(b.op("CAST", [whole], [b.tensor(shape)]))
    return b.build(results), [x, z, *results[:2]]


@pytest.fixture(params=["alone", "with LiteRT", "in LiteRT"])
def two(request: pytest.FixtureRequest, app: App) -> tuple[Any, list[int]]:
    """An interpreter of `two_results` in each host, and the indices of its ends."""
    content, indices = two_results(detour=request.param == "with LiteRT")
    if request.param != "in LiteRT":
        return app.interpreter(content), indices
    closed(app, gd.GpuDelegate(context=app.egl, model=content))
    return in_litert(app.delegate, content), indices


def feed_two(interpreter: Any, indices: list[int]) -> None:
    for index, array in zip(indices[:2], (ONE, TWO), strict=True):
        interpreter.set_tensor(index, array)


def test_two_results_in_the_same_bytes_are_refused(app: App, two: tuple[Any, list[int]]) -> None:
    interpreter, indices = two
    _, _, first, second = indices
    bind, target, other = app.delegate.bind_buffer_to_tensor, app.buffer(256), app.buffer(256)
    bind(first, target, offset=64)
    for offset in (64, 32, 96, 4, 124):
        with pytest.raises(
            ValueError,
            match=rf"cannot bind the output {first} 'ADD' and the output {second} 'SUB' to the "
            r"same bytes of a buffer: a run would lose one of the results; unbind one",
        ):
            bind(second, target, offset=offset)
    feed_two(interpreter, indices)
    interpreter.invoke()
    assert (app.read(target, "f4")[16:32] == 3).all()
    assert (interpreter.get_tensor(second) == -1).all()
    for buffer, offset in ((target, 0), (target, 128), (other, 64)):
        bind(second, buffer, offset=offset)
        interpreter.invoke()
        assert (app.read(target, "f4")[16:32] == 3).all()
        assert (app.read(buffer, "f4")[offset // 4 : offset // 4 + 16] == -1).all()
    with pytest.raises(ValueError, match="same bytes of a buffer"):
        bind(first, other, offset=64)
    app.delegate.unbind(second)
    bind(first, other, offset=64)
    interpreter.invoke()
    assert (app.read(other, "f4")[16:32] == 3).all()


def test_two_results_in_the_same_texture_are_refused(app: App, two: tuple[Any, list[int]]) -> None:
    interpreter, indices = two
    _, _, first, second = indices
    bind = app.delegate.bind_texture_to_tensor
    targets = [app.texture(np.zeros((2, 2, 4), np.uint8)) for _ in range(2)]
    bind(first, targets[0])
    with pytest.raises(ValueError, match="to the same texture: a run would lose one"):
        bind(second, targets[0])
    bind(second, targets[1])
    feed_two(interpreter, indices)
    interpreter.invoke()
    assert (app.read(targets[0], "u1") == 255).all()
    assert (app.read(targets[1], "u1") == 0).all()


def test_results_in_the_same_bytes_before_there_is_a_model(app: App) -> None:
    """Their sizes are known in `allocate_tensors`."""
    content, (x, z, first, second) = two_results()
    target = app.buffer(256)
    app.delegate.bind_buffer_to_tensor(first, target)
    app.delegate.bind_buffer_to_tensor(second, target, offset=60)
    interpreter = gd.Interpreter(model_content=content, experimental_delegates=[app.delegate])
    with pytest.raises(ValueError, match="same bytes of a buffer"):
        interpreter.allocate_tensors()
    app.delegate.bind_buffer_to_tensor(second, target, offset=64)
    interpreter.allocate_tensors()
    feed_two(interpreter, [x, z])
    interpreter.invoke()
    assert app.read(target, "f4")[:32].tolist() == [3] * 16 + [-1] * 16


@pytest.mark.parametrize("detour", [False, True])
def test_results_that_grow_into_each_other(app: App, detour: bool) -> None:
    content, (x, z, first, second) = two_results((2, 4), detour)
    interpreter, target = app.interpreter(content), app.buffer(256)
    app.delegate.bind_buffer_to_tensor(first, target)
    app.delegate.bind_buffer_to_tensor(second, target, offset=32)
    for index in (x, z):
        interpreter.resize_tensor_input(index, (3, 4))
    with pytest.raises(ValueError, match="same bytes of a buffer"):
        interpreter.allocate_tensors()
    for index in (x, z):  # no bytes at all
        interpreter.resize_tensor_input(index, (0, 4))
    app.delegate.unbind(second)
    interpreter.allocate_tensors()
    app.delegate.bind_buffer_to_tensor(second, target)
    interpreter.invoke()


def test_inputs_and_results_may_share_bytes(app: App, two: tuple[Any, list[int]]) -> None:
    """Inputs that overlap, and a result in the place of an input: they are read before."""
    interpreter, (x, z, first, second) = two
    source, target = app.buffer(np.arange(20, dtype=np.float32)), app.buffer(64)
    bind = app.delegate.bind_buffer_to_tensor
    bind(x, source)
    if isinstance(interpreter, LiteRt) or interpreter._host.delegation.report.fully_delegated:
        bind(z, source, offset=16)
    else:  # the CPU reads it, too
        interpreter.set_tensor(z, np.arange(4, 20, dtype=np.float32).reshape(PIXELS))
    bind(first, source)
    bind(second, target)
    interpreter.invoke()
    assert (app.read(target, "f4") == -4).all()
    assert app.read(source, "f4").tolist() == [*np.arange(16) * 2 + 4, *range(16, 20)]


def test_a_result_in_an_input_that_is_read_later_is_refused(app: App) -> None:
    """In a split graph, whose second part reads the input after the first has written."""
    b = ModelBuilder()
    x = b.input(PIXELS, name="x")
    early = b.op("NEG", [x], [b.tensor(PIXELS, name="early")])
    whole = b.op("CAST", [b.op("ABS", [x], [PIXELS])], [b.tensor(PIXELS, "float64")])
    late = b.op("ADD", [b.op("CAST", [whole], [b.tensor(PIXELS)]), x], [PIXELS])
    content = b.build([early, late])
    interpreter = split(app, content, max_delegated_partitions=ALL)
    source, target = app.buffer(ONE), app.buffer(64)
    bind = app.delegate.bind_buffer_to_tensor
    bind(x, source)
    message = rf"output {early} 'early' and the input {x} 'x' .* node 4 reads the input after"
    with pytest.raises(ValueError, match=message):
        bind(early, source)
    bind(late, source)  # the last to be computed
    bind(early, target)
    interpreter.invoke()
    assert (app.read(target, "f4") == -1).all()
    assert (app.read(source, "f4") == 2).all()
    with pytest.raises(ValueError, match=message):
        bind(x, target)


def test_a_result_in_the_texture_or_region_of_an_input(app: App) -> None:
    """Both are read before the result is written."""
    b = ModelBuilder()
    x = b.input((1, 2, 2, 4), name="x")
    interpreter = app.interpreter(b.build([b.op("NEG", [x], [(1, 2, 2, 4)])]))
    picture = app.texture(np.full((2, 2, 4), 255, np.uint8))
    region = app.buffer(np.float32([1, 0, 0, 0, 1, 0, *range(10)]))
    app.delegate.bind_texture_to_tensor(
        x, picture, transform=gd.ImageTransform(channels="rgba"), region=region
    )
    app.delegate.bind_buffer_to_tensor(1, region)
    interpreter.invoke()
    assert (app.read(region, "f4") == -1).all()
    app.delegate.bind_texture_to_tensor(x, picture, transform=gd.ImageTransform(channels="rgba"))
    app.delegate.bind_texture_to_tensor(1, picture)
    interpreter.invoke()
    assert (app.read(picture, "u1") == 0).all()
