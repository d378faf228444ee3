"""The region of a texture from a buffer: crops that another model chooses, without a read-back."""

from collections.abc import Iterator
from typing import Any

import moderngl
import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.runtime.commands import Recorder
from tests.gl.test_binding import PICTURE, ends, negated
from tests.support.app import App
from tests.support.tflite_builder import ModelBuilder
from tests.support.trace import traced

SIZE = (9, 11)
MATRICES = np.array(
    [
        [[1.2, 0.3, -4], [-0.2, 0.9, 6]],
        [[0.5, 0, 3.25], [0, -0.75, 20]],
        [[4.1, 0, 0.3], [0, 3.2, -0.6]],
        [[2.7, 1.9, -8], [-2.2, 2.4, 11]],
    ],
    np.float32,
)


@pytest.fixture(params=[False, True], ids=["here", "own thread"])
def app(request: pytest.FixtureRequest) -> Iterator[App]:
    app = App(gd.GpuDelegateOptions(own_thread=request.param))
    yield app
    app.close()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"antialias": True, "padding": 90},
        {"mean": 120, "std": 60, "channels": "bgr"},
        {"border": "replicate", "antialias": True},
    ],
    ids=str,
)
def test_a_region_in_a_buffer_is_a_matrix(options: dict[str, Any], app: App) -> None:
    interpreter = app.interpreter(negated((1, *SIZE, 3)))
    x, y = ends(interpreter)
    texture = app.texture(PICTURE)
    region = app.buffer(np.concatenate([[np.nan] * 3, MATRICES.ravel()]).astype(np.float32))
    transform = gd.ImageTransform(**options)
    for i, matrix in enumerate(MATRICES):
        app.delegate.bind_texture_to_tensor(
            x, texture, transform=transform, region=region, region_offset=12 + 24 * i
        )
        interpreter.invoke()
        same = gd.ImageTransform(matrix=matrix.tolist(), **options)
        half_a_step = 0.5 / (same.std or 255)
        np.testing.assert_allclose(
            -interpreter.get_tensor(y), same.apply(PICTURE, SIZE), atol=half_a_step / 50
        )


def test_each_run_reads_it_anew(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = app.interpreter(negated((1, *SIZE, 3)))
    x, y = ends(interpreter)
    texture, region = app.texture(PICTURE), app.buffer(MATRICES[0])
    app.delegate.bind_texture_to_tensor(x, texture, region=region.glo)
    interpreter.invoke()
    recorded: list[Any] = []
    monkeypatch.setattr(Recorder, "record", lambda *arguments: recorded.append(arguments))
    for padding, matrix in zip((0, 7, 9, 200), MATRICES, strict=True):
        with app.egl:
            region.write(matrix.tobytes())
            app.ctx.finish()
        app.delegate.bind_texture_to_tensor(
            x, texture, transform=gd.ImageTransform(padding=padding), region=region.glo
        )
        for _ in range(2):
            interpreter.invoke()
            same = gd.ImageTransform(matrix=matrix.tolist(), padding=padding)
            expected = same.apply(PICTURE, SIZE)
            np.testing.assert_allclose(-interpreter.get_tensor(y), expected, atol=1e-4)
    assert not recorded
    monkeypatch.undo()
    app.delegate.bind_texture_to_tensor(x, texture)  # the whole picture again
    interpreter.invoke()
    expected = gd.ImageTransform().apply(PICTURE, SIZE)
    np.testing.assert_allclose(-interpreter.get_tensor(y), expected, atol=1e-4)


@pytest.mark.parametrize("border", ["padding", "replicate"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("number", [np.nan, np.inf, -1e38, 1e30])
def test_no_region_is_padding(number: float, antialias: bool, border: Any, app: App) -> None:
    interpreter = app.interpreter(negated((1, *SIZE, 3)))
    x, y = ends(interpreter)
    region = app.buffer(np.full(6, number, np.float32))
    transform = gd.ImageTransform(padding=51, antialias=antialias, border=border)
    app.delegate.bind_texture_to_tensor(x, app.texture(PICTURE), transform=transform, region=region)
    interpreter.invoke()
    np.testing.assert_allclose(-interpreter.get_tensor(y), 0.2, atol=1e-6)


def detector() -> bytes:
    """A matrix from a picture [1, 4, 6, 3], which moves with its brightness."""
    b = ModelBuilder()
    axes = b.constant(np.array([1, 2, 3], np.int32))
    mean = b.op("MEAN", [b.input((1, 4, 6, 3)), axes], [(1,)])
    factor = b.constant(np.array([0, 0, 30, 0, 0, 5], np.float32))
    shift = b.constant(np.array([0.8, 0.1, 1.5, -0.1, 0.7, 2.25], np.float32))
    moved = b.op("MUL", [mean, factor], [(6,)])
    return b.build([b.op("ADD", [moved, shift], [(6,)])])


@pytest.mark.parametrize("adopted", [False, True])
def test_a_crop_that_another_model_chooses(adopted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with traced(monkeypatch) as calls, gd.EglContext() as egl:
        ctx = moderngl.create_context(context=egl, require=310)
        context = ctx if adopted else egl
        region = ctx.buffer(reserve=24)
        frame = ctx.texture(PICTURE.shape[1::-1], 4, PICTURE.tobytes())
        with gd.GpuDelegate(context=context) as one, gd.GpuDelegate(context=context) as other:
            first = gd.Interpreter(model_content=detector(), experimental_delegates=[one])
            second = gd.Interpreter(
                model_content=negated((1, *SIZE, 3)), experimental_delegates=[other]
            )
            (seen, matrix), (crop, result) = ends(first), ends(second)
            one.bind_texture_to_tensor(seen, frame)
            one.bind_buffer_to_tensor(matrix, region)
            other.bind_texture_to_tensor(crop, frame, region=region)
            other.bind_buffer_to_tensor(result, ctx.buffer(reserve=4 * 3 * SIZE[0] * SIZE[1]))
            first.allocate_tensors()
            second.allocate_tensors()
            for picture in (PICTURE, 255 - PICTURE // 3):
                frame.write(picture.tobytes())
                calls.clear()
                first.invoke()
                second.invoke()
                assert not {"glMapBufferRange", "glReadPixels", "glFinish"}.intersection(calls)
                assert (
                    calls.count("glCopyBufferSubData") == 4
                )  # the matrix, its two rows, the result
                mean = gd.ImageTransform().apply(picture, (4, 6)).mean()
                rows = ((0.8, 0.1, 1.5 + 30 * mean), (-0.1, 0.7, 2.25 + 5 * mean))
                expected = gd.ImageTransform(matrix=rows).apply(picture, SIZE)
                np.testing.assert_allclose(-other.read_tensor(result), expected, atol=1e-4)


@pytest.mark.parametrize(
    "transform",
    [
        gd.ImageTransform(roi=(0, 0, 5, 5)),
        gd.ImageTransform(rotation=3),
        gd.ImageTransform(fit="crop"),
        gd.ImageTransform(matrix=((1, 0, 0), (0, 1, 0))),
        gd.ImageTransform(flip_x=True),
        gd.ImageTransform(flip_y=True),
        gd.ImageOutput(),
    ],
)
def test_two_regions_are_refused(transform: gd.ImageTransform, app: App) -> None:
    region = app.buffer(MATRICES[0])
    with pytest.raises(ValueError, match="region"):
        app.delegate.bind_texture_to_tensor(
            0, app.texture(PICTURE), transform=transform, region=region
        )


def test_regions_that_do_not_fit(app: App) -> None:
    interpreter = app.interpreter(negated((1, *SIZE, 3)))
    x, y = ends(interpreter)
    texture, region = app.texture(PICTURE), app.buffer(MATRICES[0])

    def bind(index: int, **options: Any) -> None:
        app.delegate.bind_texture_to_tensor(index, texture, **options)

    with pytest.raises(ValueError, match=r"expected 24 bytes .* from byte 4 on, found 20"):
        bind(x, region=region, region_offset=4)
    for options in ({"region": region, "region_offset": 2}, {"region_offset": 4}):
        with pytest.raises(ValueError, match="region_offset must be a multiple of 4"):
            bind(x, **options)
    with pytest.raises(ValueError, match="expected a buffer of the delegate's context"):
        bind(x, region=12345)
    with pytest.raises(ValueError, match="a region is for an input"):
        bind(y, region=region)
    bind(x, region=region)
    assert f"24 bytes of the buffer {region.glo}" in str(app.delegate.memory())
    region.release()
    with pytest.raises(ValueError, match=r"the region of tensor .* found that it was released"):
        interpreter.invoke()
