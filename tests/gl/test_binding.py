"""Buffers and textures of an app as inputs and outputs, against the same data through numpy."""

import ctypes
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from ctypes import c_int, c_uint, c_void_p
from typing import Any

import moderngl
import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.device.profiles import Profile
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions
from gles_delegate.model.reader import read_model
from gles_delegate.planning import plans
from gles_delegate.runtime import buffers, segment
from gles_delegate.runtime.commands import Recorder
from gles_delegate.runtime.delegation import Delegation
from gles_delegate.runtime.segment import Segment
from tests.gl.test_delegate import fail_at
from tests.support.app import App
from tests.support.force import force_limits
from tests.support.small import allocated
from tests.support.state import State, objects_in
from tests.support.tflite_builder import ModelBuilder, quantization
from tests.support.trace import traced

RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 256, (30, 44, 4), np.uint8)


def negated(shape: Sequence[int], dtype: str = "float32", scale: float = 0) -> bytes:
    """-x, of real numbers; the number of 8-bit ones is turned round too."""
    builder = ModelBuilder()
    q = quantization(scale, 128 if dtype == "uint8" else 0) if scale else None
    x = builder.input(shape, dtype, quantization=q)
    if dtype == "float32":
        return builder.build([builder.op("NEG", [x], [shape])])
    y = builder.tensor(shape, dtype, quantization=q)
    return builder.build([builder.op("RESHAPE", [x], [y], new_shape=list(shape))])


def ends(interpreter: gd.Interpreter) -> tuple[int, int]:
    x, y = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    return x["index"], y["index"]


def sampled(
    app: App, model: bytes, texture: Any, transform: gd.ImageTransform | None = None
) -> gd.Interpreter:
    """The interpreter of a model that has run with a texture as its input."""
    interpreter = app.interpreter(model)
    app.delegate.bind_texture_to_tensor(0, texture, transform=transform)
    interpreter.invoke()
    return interpreter


TRANSFORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "normalized": {"mean": (120.0, 110.0, 100.0), "std": (60.0, 50.0, 40.0)},
    "region": {"roi": (3.5, 4.25, 20, 11), "mean": 127.5, "std": 127.5},
    "turned": {"rotation": 33.0, "padding": 114},
    "quarter turn in a letterbox": {"rotation": 90.0, "fit": "letterbox"},
    "letterbox": {"fit": "letterbox", "padding": 255},
    "letterbox at the corner": {"fit": "letterbox", "align": "corner", "padding": 114},
    "letterbox of whole pixels": {"fit": "letterbox", "align": "pixels", "padding": 114},
    "crop": {"fit": "crop", "flip_x": True},
    "lowest row first": {"flip_y": True},
    "matrix": {"matrix": ((1.2, 0.3, -4), (-0.2, 0.9, 6))},
    "bgr": {"channels": "bgr"},
    "gray": {"channels": "gray", "mean": 10, "std": 3},
    "rgba": {"channels": "rgba"},
    "rgb0": {"channels": "rgb0", "mean": 10, "std": 3},
    "replicated": {"roi": (-9.5, 4.25, 20, 60), "border": "replicate", "padding": 9},
    "replicated turned": {"rotation": 33.0, "border": "replicate"},
    "replicated far away": {"roi": (3000, -5000, 20, 4000), "border": "replicate"},
    "replicated antialias": {"fit": "letterbox", "border": "replicate", "antialias": True},
    "antialias": {"antialias": True},
    "antialias turned": {"antialias": True, "rotation": 30, "padding": 90, "fit": "letterbox"},
    "OpenCV": {"opencv": True, "antialias": False, "fit": "letterbox", "padding": 30},
    "OpenCV turned": {
        "opencv": True, "antialias": False, "rotation": 33.1, "roi": (-7, 3, 30, 41), "mean": 9,
        "std": 60.0,
    },
    "OpenCV replicated": {
        "opencv": True, "antialias": False, "border": "replicate", "roi": (-9.3, 4.1, 31, 60),
        "rotation": 12,
    },
    "OpenCV flipped": {
        "opencv": True, "antialias": False, "flip_x": True, "flip_y": True, "rotation": 3.1,
    },
    "OpenCV gray": {"opencv": True, "antialias": False, "channels": "gray", "padding": 255},
}  # fmt: skip


@pytest.mark.parametrize("options", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("size", [(13, 17), (40, 60)])
def test_a_sampled_texture_is_what_numpy_makes_of_it(
    options: dict[str, Any], size: tuple[int, int], app: App
) -> None:
    transform = gd.ImageTransform(**options)
    model = negated((1, *size, transform.depth))
    interpreter = sampled(app, model, app.texture(PICTURE), transform)
    expected = transform.apply(PICTURE, size)
    half_a_step = 0.5 / np.min(transform.std or 255)
    np.testing.assert_allclose(-interpreter.get_tensor(1), expected, atol=half_a_step / 50)


@pytest.mark.parametrize("options", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("size", [(16, 21), (5, 8)])
def test_a_tensor_with_channels_first(options: dict[str, Any], size: tuple[int, int]) -> None:
    """The same numbers as with channels last."""
    transform = gd.ImageTransform(**options)
    results = []
    for shape in ((1, *size, transform.depth), (1, transform.depth, *size)):
        with closing(App()) as app:
            interpreter = sampled(app, negated(shape), app.texture(PICTURE), transform)
            results.append(interpreter.get_tensor(1))
    np.testing.assert_array_equal(results[1], np.moveaxis(results[0], 3, 1))


@pytest.mark.parametrize("handle", ["object", "name"])
def test_another_region_of_a_texture_changes_parameters_alone(
    handle: str, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = app.interpreter(negated((1, 9, 11, 3)))
    x, y = ends(interpreter)
    texture = app.texture(PICTURE)
    bound = texture if handle == "object" else texture.glo + 0
    app.delegate.bind_texture_to_tensor(x, bound, transform=gd.ImageTransform())
    interpreter.invoke()
    recorded: list[Any] = []
    monkeypatch.setattr(Recorder, "record", lambda *arguments: recorded.append(arguments))
    for region in ((0, 0, 20, 20), (5, 3, 12, 8), (-4, -4, 60, 40)):
        transform = gd.ImageTransform(roi=region, rotation=region[0], padding=50, mean=9, std=40)
        app.delegate.bind_texture_to_tensor(x, bound, transform=transform)
        interpreter.invoke()
        expected = transform.apply(PICTURE, (9, 11))
        np.testing.assert_allclose(-interpreter.get_tensor(y), expected, atol=1e-3)
    assert not recorded
    with ThreadPoolExecutor(1) as pool, pytest.raises(gd.WrongThreadError):
        pool.submit(
            app.delegate.bind_texture_to_tensor, x, bound, transform=gd.ImageTransform()
        ).result()


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_formats_of_textures(dtype: str, channels: int, app: App) -> None:
    picture = PICTURE[..., :channels]
    if dtype != "uint8":
        picture = RNG.uniform(-1, 1, picture.shape).astype(dtype)
    transform = gd.ImageTransform(channels="rgba", rotation=20, roi=(2, 3, 30, 20))
    interpreter = sampled(app, negated((1, 9, 11, 4)), app.texture(picture).glo, transform)
    expected = transform.apply(picture, (9, 11))
    np.testing.assert_allclose(-interpreter.get_tensor(1), expected, atol=1e-4)


def test_floats_of_a_texture_pass_unchanged(app: App) -> None:
    picture = RNG.standard_normal(PICTURE.shape).astype(np.float32)
    transform = gd.ImageTransform(channels="rgba")
    interpreter = sampled(app, negated((1, *PICTURE.shape)), app.texture(picture), transform)
    np.testing.assert_array_equal(-interpreter.get_tensor(1)[0], picture)


def test_the_textures_own_filter_does_not_matter(app: App) -> None:
    """One that asks for mipmaps and has none would be black to its own sampler."""
    texture = app.texture(PICTURE)
    texture.filter = moderngl.LINEAR_MIPMAP_LINEAR, moderngl.LINEAR
    interpreter = sampled(app, negated((1, 9, 11, 3)), texture)
    expected = gd.ImageTransform().apply(PICTURE, (9, 11))
    np.testing.assert_allclose(-interpreter.get_tensor(1), expected, atol=1e-5)


def assert_sampled(
    ours: NDArray[Any], expected: NDArray[np.float32], transform: gd.ImageTransform
) -> None:
    """OpenCV's pixels are whole steps, of which some lie at a half before."""
    is_off = np.abs(ours - expected) > 1e-3
    if transform.opencv:
        assert np.abs(ours - expected).max() < 1.01 / 255
        assert np.count_nonzero(is_off) <= 0.01 * is_off.size
    else:
        assert not is_off.any()


@pytest.mark.parametrize("layout", ["NV12", "NV16", "I420"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"yuv": "bt709", "mean": 127.5, "std": 127.5, "rotation": 12, "padding": 9},
        {"full_range": True, "channels": "gray"},
        {"yuv": "bt2020", "siting": "left"},
        {"roi": (-9, 5, 50, 30), "border": "replicate"},
        {"roi": (-9.3, 5.1, 50, 31), "opencv": True, "antialias": False, "padding": 77},
    ],
)
@pytest.mark.parametrize("size", [(20, 30), (21, 31)])
def test_planes_of_video(
    layout: str, options: dict[str, Any], size: tuple[int, int], app: App
) -> None:
    luma = RNG.integers(0, 256, size, np.uint8)
    height = size[0] if layout == "NV16" else (size[0] + 1) // 2
    chroma = RNG.integers(0, 256, (height, (size[1] + 1) // 2, 2), np.uint8)
    planes = [luma, chroma[..., 0], chroma[..., 1]] if layout == "I420" else [luma, chroma]
    transform = gd.ImageTransform(**options)
    textures = [app.texture(plane) for plane in planes]
    interpreter = sampled(app, negated((1, 16, 16, transform.depth)), textures, transform)
    assert_sampled(-interpreter.get_tensor(1), transform.apply(planes, (16, 16)), transform)


@pytest.mark.parametrize("packed", ["yuyv", "uyvy"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"yuv": "bt709", "siting": "left", "rotation": 12, "padding": 9, "flip_x": True},
        {"antialias": False, "channels": "gray", "roi": (-9, 5, 50, 30), "border": "replicate"},
        {"roi": (-9.3, 5.1, 50, 31), "opencv": True, "antialias": False, "padding": 77},
    ],
)
def test_packed_pixels_of_webcams(packed: Any, options: dict[str, Any], app: App) -> None:
    frame = RNG.integers(0, 256, (21, 30, 2), np.uint8)
    transform = gd.ImageTransform(packed=packed, **options)
    texture = app.texture(frame.reshape(21, 15, 4))
    interpreter = sampled(app, negated((1, 16, 16, transform.depth)), texture, transform)
    assert_sampled(-interpreter.get_tensor(1), transform.apply(frame, (16, 16)), transform)


@pytest.mark.parametrize("channels", [2, 3])
def test_packed_pixels_have_four_channels(channels: int, app: App) -> None:
    interpreter = app.interpreter(negated((1, 4, 4, 3)))
    x, _ = ends(interpreter)
    texture = app.texture(np.zeros((8, 8, channels), np.uint8))
    with pytest.raises(ValueError, match=f"four channels for yuyv, found 8x8.* with {channels}"):
        app.delegate.bind_texture_to_tensor(x, texture, transform=gd.ImageTransform(packed="yuyv"))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("scale", [0.0, 1 / 64])
@pytest.mark.parametrize(
    "options", [{}, {"mean": 127.5, "std": 60}, {"channels": "rgba"}, {"channels": "rgb0"}]
)
@pytest.mark.parametrize("channels_first", [False, True])
def test_8_bit_inputs(
    dtype: str, scale: float, options: dict[str, Any], channels_first: bool, app: App
) -> None:
    transform = gd.ImageTransform(**options)
    shape = (1, transform.depth, 7, 11) if channels_first else (1, 7, 11, transform.depth)
    interpreter = sampled(app, negated(shape, dtype, scale), app.texture(PICTURE), transform)
    detail = interpreter.get_input_details()[0]
    expected = transform.apply(
        PICTURE, (7, 11), dtype=dtype, quantization=detail["quantization"]
    ).astype(int)
    actual = interpreter.get_tensor(1)
    if channels_first:
        actual = np.moveaxis(actual, 1, 3)
    assert actual.dtype == dtype
    assert len(np.unique(actual)) > 1
    assert np.abs(actual - expected).max() <= 1
    assert (actual == expected).mean() > 0.98  # where a half is rounded may differ


SCORES = RNG.standard_normal((1, 6, 10, 5)).astype(np.float32)
PALETTE = [(0, 0, 0, 0), (255, 0, 0, 255), (0, 255, 0, 128), (1, 2, 3, 4), (9, 9, 200, 255)]


@pytest.mark.parametrize(
    ("channels", "dtype", "options"),
    [
        *((c, d, {"scale": -0.5, "offset": 0.3}) for c in (1, 3, 4) for d in ("uint8", "float16")),
        (2, "uint8", {"flip_y": True}),
        (1, "float32", {"scale": 3, "flip_y": True}),
        (5, "uint8", {"palette": PALETTE}),
        (5, "float16", {"palette": PALETTE, "flip_y": True}),
        (1, "uint8", {"palette": PALETTE[:2], "threshold": -0.25}),
    ],
)
@pytest.mark.parametrize("width", [10, 7])
def test_an_output_into_a_texture(
    channels: int, dtype: str, options: dict[str, Any], width: int, app: App
) -> None:
    scores = np.ascontiguousarray(SCORES[:, :, :width, :channels])
    output = gd.ImageOutput(**options)
    parts = 1 if dtype == "float32" else 4
    texture = app.texture(np.full((6, width, parts), 77, dtype))
    interpreter = app.interpreter(negated(scores.shape))
    x, y = ends(interpreter)
    app.delegate.bind_texture_to_tensor(y, texture, transform=output)
    interpreter.set_tensor(x, -scores)
    interpreter.invoke()
    actual = app.read(texture, dtype).reshape(6, width, parts).astype(np.float32)
    expected = output.apply(scores)[..., :parts]
    if dtype == "uint8":
        actual, expected = actual / 255, expected.clip(0, 1)
    np.testing.assert_allclose(actual, expected, atol={"uint8": 0.51 / 255}.get(dtype, 2e-3))
    np.testing.assert_array_equal(interpreter.get_tensor(y), scores)


def test_classes_into_a_texture(app: App) -> None:
    """An integer tensor, as ARG_MAX returns it."""
    builder = ModelBuilder()
    x = builder.input((1, 6, 10, 1), np.int32)
    y = builder.op("ABS", [x], [(1, 6, 10, 1)])
    interpreter = app.interpreter(builder.build([y]))
    classes = RNG.integers(0, 7, (1, 6, 10, 1)).astype(np.int32)
    texture = app.texture(np.zeros((6, 10, 4), np.uint8))
    output = gd.ImageOutput(palette=PALETTE)
    app.delegate.bind_texture_to_tensor(y, texture, transform=output)
    interpreter.set_tensor(x, -classes)
    interpreter.invoke()
    actual = app.read(texture, "uint8").reshape(6, 10, 4)
    np.testing.assert_array_equal(actual, output.apply(classes) * 255)


def packed(array: NDArray[Any]) -> NDArray[Any]:
    """PHWC4 texels, by its definition."""
    rows = array.reshape(-1, array.shape[-1])
    slices = -(-rows.shape[1] // 4)
    texels = np.zeros((slices, len(rows), 4), array.dtype)
    for channel in range(rows.shape[1]):
        texels[channel // 4, :, channel % 4] = rows[:, channel]
    return texels


def laid_out(array: NDArray[Any], layout: str, dtype: str) -> NDArray[Any]:
    return (packed(array) if layout == "phwc4" else array).astype(dtype)


SHAPES = [
    (1, 3, 5, 3), (1, 3, 5, 4), (1, 2, 3, 7), (1, 1, 1, 5), (1, 1, 1, 8), (3, 5), (2, 2, 2, 8),
]  # fmt: skip


def through_buffers(
    app: App, interpreter: gd.Interpreter, given: NDArray[Any], layout: Any, offset: int
) -> NDArray[Any]:
    """The output, of the input's size, in a buffer whose other bytes stay; both begin at an offset
    in their buffers.
    """
    margins = b"\xff" * offset, b"\xff" * 64
    source = app.buffer(margins[0] + given.tobytes() + margins[1])
    target = app.buffer(offset + given.nbytes + 64)
    dtype: Any = given.dtype.name
    for index, buffer in zip(ends(interpreter), (source, target), strict=True):
        app.delegate.bind_buffer_to_tensor(index, buffer, offset=offset, layout=layout, dtype=dtype)
    for _ in range(2):
        interpreter.invoke()
    actual = app.read(target, "u1").tobytes()
    assert (actual[:offset], actual[-64:]) == margins
    return np.frombuffer(actual[offset:-64], given.dtype).reshape(given.shape)


@pytest.mark.parametrize("offset", [0, 4, 256])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["bhwc", "phwc4"])
@pytest.mark.parametrize("shape", [*SHAPES, (2, 0, 3)], ids=str)
def test_buffers_in_and_out(
    shape: tuple[int, ...], layout: Any, dtype: str, offset: int, app: App
) -> None:
    interpreter = app.interpreter(negated(shape))
    value = RNG.standard_normal(shape).astype(np.float32)
    given = laid_out(value, layout, dtype)
    lanes = through_buffers(app, interpreter, given, layout, offset)
    expected = laid_out(-value.astype(dtype).astype(np.float32), layout, dtype)
    np.testing.assert_array_equal(lanes, expected)
    np.testing.assert_array_equal(interpreter.get_tensor(1), -value.astype(dtype))


@pytest.mark.parametrize("layout", ["bhwc", "phwc4"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
@pytest.mark.parametrize("shape", [(1, 3, 5, 3), (1, 4, 4, 4), (1, 1, 1, 5)], ids=str)
def test_buffers_of_integers(shape: tuple[int, ...], dtype: str, layout: Any, app: App) -> None:
    """Buffers of 8-bit tensors hold bytes in rows, and real numbers in texels."""
    scale = 0 if dtype == "int32" else 0.25
    interpreter = app.interpreter(negated(shape, dtype, scale))
    x, y = ends(interpreter)
    info = np.iinfo(dtype)
    value = RNG.integers(max(info.min, -999), min(info.max, 999), shape).astype(dtype)
    given = value
    if layout == "phwc4":
        zero = 128 if dtype == "uint8" else 0
        given = packed(((value.astype(int) - zero) * 0.25).astype(np.float32) if scale else value)
    target = app.buffer(given.nbytes)
    app.delegate.bind_buffer_to_tensor(x, app.buffer(given), layout=layout)
    app.delegate.bind_buffer_to_tensor(y, target, layout=layout)
    interpreter.invoke()
    actual = app.read(target, given.dtype.name).reshape(given.shape)
    np.testing.assert_array_equal(actual, given)
    np.testing.assert_array_equal(interpreter.get_tensor(y), value)


@pytest.mark.parametrize("offset", [0, 4, 256])
@pytest.mark.parametrize("outside", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["bhwc", "phwc4"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("shape", [(1, 3, 5, 3), (1, 4, 4, 4), (1, 1, 1, 5), (2, 0, 3)], ids=str)
def test_quantized_tensors_as_real_numbers(
    shape: tuple[int, ...], dtype: str, layout: Any, outside: str, offset: int, app: App
) -> None:
    interpreter = app.interpreter(negated(shape, dtype, 0.25))
    value = RNG.integers(0, 120, shape).astype(dtype)
    zero = 128 if dtype == "uint8" else 0
    given = laid_out((value.astype(int) - zero) * 0.25, layout, outside)
    lanes = through_buffers(app, interpreter, given, layout, offset)
    np.testing.assert_array_equal(lanes, given)
    np.testing.assert_array_equal(interpreter.get_tensor(1), value)


@pytest.mark.usefixtures("floor")
@pytest.mark.parametrize("half", [False, True])
def test_on_devices_that_have_no_more_than_they_must(
    half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors are read through storage blocks and, with `half`, stored as float16."""
    force_limits(monkeypatch, profile=Profile(half_storage=half))
    if half:
        force_limits(monkeypatch, offset_alignment=256)
    options = gd.GpuDelegateOptions(precision_loss_allowed=True)
    step = 1e-3 if half else 1e-6
    for shape in SHAPES:
        value = RNG.standard_normal(shape).astype(np.float32)
        for layout, dtype in itertools.product(("bhwc", "phwc4"), ("float32", "float16")):
            app = App(options)
            given = laid_out(value, layout, dtype)
            interpreter, target = app.interpreter(negated(shape)), app.buffer(given.nbytes)
            assert app.delegate.report.storage == ("float16" if half else "float32")
            bind = app.delegate.bind_buffer_to_tensor
            bind(0, app.buffer(given), layout=layout, dtype=dtype)  # type: ignore[arg-type]
            bind(1, target, layout=layout, dtype=dtype)  # type: ignore[arg-type]
            interpreter.invoke()
            actual = app.read(target, dtype).reshape(given.shape)
            np.testing.assert_allclose(-actual, given, rtol=step)
            expected = -value.astype(dtype)
            np.testing.assert_allclose(interpreter.get_tensor(1), expected, rtol=step)
            app.close()
    app = App(options)
    interpreter = app.interpreter(negated((1, 9, 13, 3)))
    transform = gd.ImageTransform(rotation=40, fit="crop")
    target = app.texture(np.zeros((9, 13, 4), np.uint8))
    app.delegate.bind_texture_to_tensor(0, app.texture(PICTURE), transform=transform)
    app.delegate.bind_texture_to_tensor(1, target, transform=gd.ImageOutput(scale=-1))
    interpreter.invoke()
    actual = app.read(target, "u1").reshape(9, 13, 4)[..., :3]
    expected = transform.apply(PICTURE, (9, 13))[0] * 255
    np.testing.assert_allclose(actual, expected, atol=0.51 + 255 * step)
    app.close()


def bound(app: App, layout: str = "bhwc") -> tuple[gd.Interpreter, moderngl.Buffer]:
    """The negation of four pixels of four channels, out of and into a buffer."""
    interpreter = app.interpreter(negated((1, 2, 2, 4)))
    x, y = ends(interpreter)
    target = app.buffer(64)
    app.delegate.bind_buffer_to_tensor(x, app.buffer(ONES), layout=layout)  # type: ignore[arg-type]
    app.delegate.bind_buffer_to_tensor(y, target, layout=layout)  # type: ignore[arg-type]
    return interpreter, target


ONES = np.ones(16, np.float32)
POOL = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "filter_width": 1, "filter_height": 1}
WORK = ("glDispatchCompute", "glCopyBufferSubData", "glTexSubImage2D")


@pytest.mark.parametrize(
    ("shape", "layout", "offset", "work"),
    [
        ((1, 2, 2, 4), "phwc4", 0, ["glDispatchCompute"]),
        ((1, 2, 2, 4), "phwc4", 256, ["glDispatchCompute"]),
        ((1, 2, 2, 4), "bhwc", 0, ["glDispatchCompute"]),
        ((1, 1, 1, 8), "bhwc", 0, ["glDispatchCompute"]),
        ((1, 2, 2, 7), "phwc4", 0, ["glDispatchCompute"]),
        ((1, 2, 2, 7), "bhwc", 0, ["glDispatchCompute"] * 2),
        (
            (1, 2, 2, 4),
            "phwc4",
            4,
            ["glCopyBufferSubData", "glDispatchCompute", "glCopyBufferSubData"],
        ),
    ],
)
def test_what_buffers_cost(
    shape: Any, layout: Any, offset: int, work: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texels as they are cost nothing, rows a pass each, and an odd place a copy each."""
    with traced(monkeypatch) as calls:
        app = App()
        app.delegate.bind_buffer_to_tensor(0, app.buffer(2048), layout=layout, offset=offset)
        app.delegate.bind_buffer_to_tensor(1, app.buffer(2048), layout=layout, offset=offset)
        interpreter = app.interpreter(negated(shape))
        calls.clear()
        interpreter.invoke()
        assert [call for call in calls if call in WORK] == work
        app.close()


def test_texture_to_texture_makes_no_upload_no_read_back_and_no_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with traced(monkeypatch) as calls:
        app = App()
        interpreter = app.interpreter(negated((1, 30, 44, 4)))
        target = app.texture(np.zeros_like(PICTURE))
        transform = gd.ImageTransform(channels="rgba", mean=0, std=-255)
        app.delegate.bind_texture_to_tensor(0, app.texture(PICTURE), transform=transform)
        app.delegate.bind_texture_to_tensor(1, target)
        calls.clear()
        interpreter.invoke()
        invoked = [call for call in calls if not call.startswith("glGet")]
        np.testing.assert_array_equal(app.read(target, "u1"), PICTURE.ravel())
        app.close()
    assert not [call for call in invoked if not call.startswith("gl")], "moderngl was used"
    data = ("glBufferData", "glBufferSubData", "glMapBufferRange", "glReadPixels")
    assert not {*data, "glFinish", "glFlush", "glClientWaitSync"}.intersection(invoked)
    assert [call for call in invoked if call in WORK] == ["glDispatchCompute"] * 2 + [
        "glTexSubImage2D"
    ]
    assert "glBindFramebuffer" not in invoked
    assert "glBindSampler" in invoked  # Mesa would not need it, other drivers may


def test_an_input_that_no_node_reads(app: App) -> None:
    b = ModelBuilder()
    x, unread = b.input((1, 4)), b.input((1, 3))
    interpreter = app.interpreter(b.build([b.op("NEG", [x], [(1, 4)])]))
    app.delegate.bind_buffer_to_tensor(unread, app.buffer(np.zeros(3, np.float32)))
    (result,) = interpreter.run({x: np.ones((1, 4), np.float32)}).values()
    np.testing.assert_array_equal(result, -np.ones((1, 4)))


def test_bound_before_the_interpreter_is_made(app: App) -> None:
    target = app.buffer(64)
    app.delegate.bind_buffer_to_tensor(0, app.buffer(ONES))
    app.delegate.bind_buffer_to_tensor(1, target)
    interpreter = app.interpreter(negated((1, 2, 2, 4)))
    interpreter.invoke()
    assert (app.read(target, "f4") == -1).all()


def test_a_tensor_bound_too_early_is_found_out_later(app: App) -> None:
    app.delegate.bind_buffer_to_tensor(5, app.buffer(ONES))
    with pytest.raises(ValueError, match="cannot bind tensor 5"):
        app.interpreter(negated((1, 2, 2, 4)))


def test_sizes_are_checked_again_after_a_resize(app: App) -> None:
    interpreter, target = bound(app)
    interpreter.resize_tensor_input(0, (1, 3, 2, 4))
    with pytest.raises(ValueError, match=r"expected 96 bytes .* found 64"):
        interpreter.allocate_tensors()
    interpreter.resize_tensor_input(0, (1, 1, 2, 4))
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert (app.read(target, "f4")[:8] == -1).all()
    assert np.isnan(app.read(target, "f4")[8:]).all()


def test_a_buffer_in_the_place_of_another(app: App) -> None:
    interpreter, target = bound(app)
    interpreter.invoke()
    other = app.buffer(64)
    app.delegate.bind_buffer_to_tensor(0, app.buffer(5 * ONES))
    app.delegate.bind_buffer_to_tensor(1, other)
    interpreter.invoke()
    assert (app.read(target, "f4") == -1).all()
    assert (app.read(other, "f4") == -5).all()


def test_unbound_again(app: App) -> None:
    interpreter, target = bound(app)
    interpreter.invoke()
    app.delegate.unbind(0)
    app.delegate.unbind(1)
    interpreter.set_tensor(0, np.full((1, 2, 2, 4), 3, np.float32))
    interpreter.invoke()
    assert (interpreter.get_tensor(1) == -3).all()
    assert (app.read(target, "f4") == -1).all()
    with pytest.raises(ValueError, match="nothing is bound to tensor 0"):
        app.delegate.unbind(0)


def test_a_bound_input_is_not_set_or_read_by_the_cpu(app: App) -> None:
    interpreter, _ = bound(app)
    for call in (
        lambda: interpreter.set_tensor(0, np.zeros((1, 2, 2, 4), np.float32)),
        lambda: interpreter.get_tensor(0),
    ):
        with pytest.raises(ValueError, match=r"tensor 0 .* is bound .* unbind\(0\)"):
            call()


def test_another_picture_or_region_needs_no_new_plan(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = app.interpreter(negated((1, 5, 6, 3)))
    bind = app.delegate.bind_texture_to_tensor
    bind(0, app.texture(PICTURE), transform=gd.ImageTransform())
    monkeypatch.setattr(plans, "make_plan", lambda *_: pytest.fail("a new plan"))
    wide = RNG.integers(0, 256, (9, 70, 3), np.uint8)
    transform = gd.ImageTransform(roi=(1, 2, 30, 5), mean=3, std=9, padding=4, rotation=5)
    bind(0, app.texture(wide), transform=transform)
    interpreter.invoke()
    expected = transform.apply(wide, (5, 6))
    np.testing.assert_allclose(-interpreter.get_tensor(1), expected, atol=1e-3)


def test_unbinding_after_another_transform(app: App) -> None:
    interpreter = app.interpreter(negated((1, 5, 6, 3)))
    texture = app.texture(PICTURE)
    for mean in (1, 3):
        app.delegate.bind_texture_to_tensor(
            0, texture, transform=gd.ImageTransform(mean=mean, std=2)
        )
    value = RNG.random((1, 5, 6, 3), np.float32)
    app.delegate.unbind(0)
    interpreter.set_tensor(0, value)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(1), -value)


def test_an_output_that_is_the_input(app: App) -> None:
    """A plan without a dispatch: one value enters and leaves."""
    builder = ModelBuilder()
    x = builder.input((1, 4, 4))
    shape = builder.constant(np.array([1, 2, 2, 4], np.int32))
    y = builder.op("RESHAPE", [x, shape], [(1, 2, 2, 4)])
    interpreter = app.interpreter(builder.build([y]))
    source, target = app.buffer(np.arange(16, dtype=np.float32)), app.buffer(64)
    app.delegate.bind_buffer_to_tensor(x, source)
    app.delegate.bind_buffer_to_tensor(y, target)
    interpreter.invoke()
    np.testing.assert_array_equal(app.read(target, "f4"), np.arange(16))
    app.delegate.unbind(x)
    interpreter.set_tensor(x, np.ones((1, 4, 4), np.float32))
    interpreter.invoke()
    assert (app.read(target, "f4") == 1).all()
    np.testing.assert_array_equal(app.read(source, "f4"), np.arange(16))


@pytest.mark.parametrize("layout", ["bhwc", "phwc4"])
def test_an_output_in_the_place_of_the_input(layout: Any, app: App) -> None:
    """The state of a network, in one buffer: read to the end, then written."""
    builder = ModelBuilder()
    x = builder.input((1, 2, 2, 4))
    first = builder.op("NEG", [x], [(1, 2, 2, 4)])
    kept = builder.op("MAX_POOL_2D", [first], [(1, 2, 2, 4)], **POOL)
    y = builder.op("SUB", [x, kept], [(1, 2, 2, 4)])
    interpreter = app.interpreter(builder.build([kept, y]))
    state, value = app.buffer(ONES), app.buffer(64)
    app.delegate.bind_buffer_to_tensor(x, state, layout=layout)
    app.delegate.bind_buffer_to_tensor(kept, state, layout=layout)
    app.delegate.bind_buffer_to_tensor(y, value, layout=layout)
    for expected in (2, -2, 2):
        interpreter.invoke()
        assert (app.read(value, "f4") == expected).all()
        assert (app.read(state, "f4") == -expected / 2).all()


def test_another_thread_binds_nothing(app: App) -> None:
    interpreter, target = bound(app)
    with ThreadPoolExecutor(1) as pool, pytest.raises(gd.WrongThreadError):
        pool.submit(app.delegate.bind_buffer_to_tensor, 1, app.buffer(64)).result()
    interpreter.invoke()
    assert (app.read(target, "f4") == -1).all()


@pytest.mark.parametrize(
    ("index", "what", "options", "message"),
    [
        (
            7,
            64,
            {},
            "cannot bind tensor 7: expected an input, one of .0., or an output, one of .1.",
        ),
        (
            0,
            60,
            {},
            r"tensor 0 'tensor_0' of float32 \[1, 2, 2, 4\]: expected 64 bytes .* found 60",
        ),
        (1, 64, {"offset": 4}, "expected 64 bytes .* from byte 4 on, found 60"),
        (0, 64, {"dtype": "uint8"}, "expected the dtype float32 or float16, found uint8"),
        (0, 64, {"offset": -4}, "offset must be a multiple of 4"),
        (0, 64, {"offset": 3}, "offset must be a multiple of 4"),
        (0, 64, {"layout": "bchw"}, "layout must be one of"),
        (0, 0, {}, "expected a buffer of the delegate's context, found the name 999"),
    ],
)
def test_buffers_that_do_not_fit(
    index: int, what: int, options: dict[str, Any], message: str, app: App
) -> None:
    interpreter, _ = bound(app)
    buffer = app.buffer(what) if what else 999
    with pytest.raises(ValueError, match=message):
        app.delegate.bind_buffer_to_tensor(index, buffer, **options)
    interpreter.invoke()
    assert (interpreter.get_tensor(1) == -1).all()


IMAGE, OUTPUT = gd.ImageTransform, gd.ImageOutput
RGBA, GRAY_FLOAT = np.zeros((5, 6, 4), "u1"), np.zeros((5, 6, 1), "f4")


@pytest.mark.parametrize(
    ("index", "pictures", "transform", "message"),
    [
        (0, [RGBA], IMAGE(channels="gray"), "expected a tensor of 1 channels"),
        (0, [RGBA] * 4, IMAGE(), "two or three planes, found 4"),
        (0, [RGBA, RGBA[:2, :2]], IMAGE(), "chroma planes of 3x3"),
        (1, [RGBA[:4]], OUTPUT(), "expected a texture of 6x5 .* found 6x4"),
        (1, [np.zeros((5, 6, 2), "u1")], OUTPUT(), r"one of \['RGBA8', 'R32F', 'RGBA16F'\]"),
        (1, [GRAY_FLOAT], OUTPUT(), "more channels than R32F"),
        (1, [RGBA], OUTPUT(palette=PALETTE[:2]), "expected 3 or more colors"),
        (1, [GRAY_FLOAT], OUTPUT(palette=PALETTE), "RGBA8 or RGBA16F"),
        (1, [RGBA, RGBA], OUTPUT(), "expected one texture"),
        (0, 999, IMAGE(), "expected a texture of the delegate's context, found the name 999"),
    ],
)
def test_textures_that_do_not_fit(
    index: int, pictures: Any, transform: Any, message: str, app: App
) -> None:
    app.interpreter(negated((1, 5, 6, 3)))
    texture = pictures if pictures == 999 else [app.texture(picture) for picture in pictures]
    with pytest.raises(ValueError, match=message):
        app.delegate.bind_texture_to_tensor(index, texture, transform=transform)


def test_a_texture_for_what_is_no_picture(app: App) -> None:
    app.interpreter(negated((2, 5, 6, 3)))
    with pytest.raises(ValueError, match=r"belongs to a tensor \[1, height, width, channels\]"):
        app.delegate.bind_texture_to_tensor(0, app.texture(RGBA))


def test_textures_of_integers_and_of_no_size(app: App) -> None:
    app.interpreter(negated((1, 5, 6, 3)))
    with app.egl:
        integers = app.ctx.texture((6, 5), 4, dtype="u1")
        cube = app.ctx.texture_cube((4, 4), 4)
    with pytest.raises(ValueError, match="texture of a float or normalized format, found 6x5"):
        app.delegate.bind_texture_to_tensor(0, integers)
    with pytest.raises(ValueError, match="expected a 2D texture"):
        app.delegate.bind_texture_to_tensor(0, cube)


def test_the_wrong_kinds_of_things(app: App) -> None:
    app.interpreter(negated((1, 5, 6, 3)))
    bind = app.delegate.bind_texture_to_tensor
    for thing in ("texture", 1.5, None, True):
        with pytest.raises(TypeError, match=rf"moderngl\.Texture or a .* name, found {thing!r}"):
            bind(0, [thing])
        with pytest.raises(TypeError, match=r"expected a moderngl\.Buffer"):
            app.delegate.bind_buffer_to_tensor(0, thing)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected an ImageTransform, for an input"):
        bind(0, app.texture(RGBA), transform=gd.ImageOutput())
    with pytest.raises(TypeError, match="expected an ImageOutput, for an output"):
        bind(1, app.texture(RGBA), transform=gd.ImageTransform())
    with pytest.raises(TypeError, match="expected an ImageTransform or ImageOutput"):
        bind(0, app.texture(RGBA), transform=3)  # type: ignore[arg-type]


def test_an_apps_texture_and_a_delegate_with_a_context_of_its_own(app: App) -> None:
    with gd.GpuDelegate() as delegate:
        allocated(delegate, negated((1, 5, 6, 3)))
        with pytest.raises(gd.WrongContextError, match=r"GpuDelegate\(context=ctx\).* GLX"):
            delegate.bind_texture_to_tensor(0, app.texture(RGBA))
        with pytest.raises(gd.WrongContextError, match=r"GpuDelegate\(context=ctx\).* GLX"):
            delegate.bind_buffer_to_tensor(0, app.buffer(400))


def test_a_closed_delegate_binds_nothing() -> None:
    delegate = gd.GpuDelegate()
    delegate.close()
    with pytest.raises(gd.DelegateError, match="closed"):
        delegate.bind_buffer_to_tensor(0, 1)


def two_segments(app: App) -> tuple[Delegation, list[Segment]]:
    """Nodes that read the same input: NEG and ABS of it, in a segment each."""
    builder, shape = ModelBuilder(), (1, 2, 2, 4)
    x = builder.input(shape)
    outputs = [builder.op(name, [x], [shape]) for name in ("NEG", "ABS")]
    delegation = app.delegate.bind(read_model(builder.build(outputs))).first
    segments = [delegation.segment([index]) for index in (0, 1)]
    for each in segments:
        each.prepare({x: shape})
    return delegation, segments


def results(segments: Sequence[Segment], value: float | None) -> list[float]:
    """The result of each segment for an input of equal numbers, or for the bound one."""
    inputs = {} if value is None else {0: np.full((1, 2, 2, 4), value, np.float32)}
    actual = []
    for each in segments:
        (index,) = each.require().outputs
        array = np.zeros((1, 2, 2, 4), np.float32)
        each.invoke(inputs, {index: array})
        actual.append(array.flat[0])
    return actual


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("layout", ["bhwc", "phwc4"])
def test_a_bind_that_fails_leaves_every_segment_as_it_was(
    layout: Any, count: int, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first bind needs new sessions, a second one new views; each can fail in each segment."""
    delegation, segments = two_segments(app)
    bind, state = app.delegate.bind_buffer_to_tensor, State(app.egl.load)
    no_room = gd.OutOfGpuMemoryError("no room")

    def refuse(buffer: moderngl.Buffer, module: Any, name: str) -> None:
        before = objects_in(app.egl, state)
        with monkeypatch.context() as patch:
            patch.setattr(module, name, fail_at(count, getattr(module, name), no_room))
            with pytest.raises(gd.OutOfGpuMemoryError):
                bind(0, buffer, layout=layout)
        assert objects_in(app.egl, state) == before

    refuse(app.buffer(5 * ONES), segment, "Session")
    assert results(segments, 3) == [-3, 3]
    assert not delegation.bindings
    bind(0, app.buffer(ONES), layout=layout)
    assert results(segments, None) == [-1, 1]
    kept = dict(delegation.bindings)
    other = app.buffer(5 * ONES)
    if layout == "phwc4":
        refuse(other, buffers, "TexelView")
        assert results(segments, None) == [-1, 1]
        assert delegation.bindings == kept
    bind(0, other, layout=layout)
    assert results(segments, None) == [-5, 5]


def respecify(app: App, name: int, content: NDArray[Any]) -> None:
    """glBufferData for a buffer that has a size, or glTexImage2D for a texture: in place."""
    gl = Functions(app.egl.load)
    specify = ctypes.CFUNCTYPE(
        *(None, c_uint, c_int, c_int, c_int, c_int, c_int, c_uint, c_uint, c_void_p)
    )(app.egl.load("glTexImage2D"))
    with app.egl:
        if content.ndim == 1:
            gl.glBindBuffer(gl_names.ARRAY_BUFFER, name)
            data = (
                gl_names.ARRAY_BUFFER,
                content.nbytes,
                content.ctypes.data,
                gl_names.STATIC_DRAW,
            )
            gl.glBufferData(*data)
        else:
            gl.glBindTexture(gl_names.TEXTURE_2D, name)
            height, width, _ = content.shape
            pixels = (gl_names.RGBA, gl_names.UNSIGNED_BYTE, content.ctypes.data)
            specify(gl_names.TEXTURE_2D, 0, gl_names.RGBA8, width, height, 0, *pixels)
            gl.check("glTexImage2D")


def raw(app: App, content: NDArray[Any]) -> int:
    """The name of a buffer, or of a texture [height, width, 4], that GL itself makes."""
    gl, name = Functions(app.egl.load), ctypes.c_uint()
    with app.egl:
        (gl.glGenBuffers if content.ndim == 1 else gl.glGenTextures)(1, name)
    respecify(app, name.value, content)
    return name.value


def test_a_bound_buffer_that_was_released_is_refused(app: App) -> None:
    for layout in ("bhwc", "phwc4"):
        for index in (0, 1):
            interpreter, target = bound(app, layout)
            other = app.buffer(ONES)
            app.delegate.bind_buffer_to_tensor(index, other, layout=layout)  # type: ignore[arg-type]
            interpreter.invoke()
            with app.egl:
                other.release()
            message = rf"tensor {index} .* 64 bytes of the buffer {other.glo}.* released: bind it"
            for call in (interpreter.invoke, interpreter.invoke_async, app.delegate.profile):
                with pytest.raises(ValueError, match=message):
                    call()
            app.delegate.unbind(index)
            interpreter.invoke()
            app.delegate.close()
            app.delegate = gd.GpuDelegate(context=app.egl)
            assert target.size == 64


def test_all_that_is_bound_is_released_and_bound_anew(app: App) -> None:
    """One after the other, while the rest is gone; in other layouts, too, which is a new plan."""
    for layouts in (("phwc4", "phwc4"), ("phwc4", "bhwc"), ("bhwc", "phwc4")):
        interpreter = app.interpreter(negated((1, 2, 2, 5)))
        value = np.arange(20, dtype=np.float32).reshape(1, 2, 2, 5)
        for layout in layouts:
            given = laid_out(value, layout, "float32")
            names = [raw(app, given.ravel()), raw(app, np.zeros(given.size, "f4"))]
            for index, name in enumerate(names):
                app.delegate.bind_buffer_to_tensor(index, name, layout=layout)  # type: ignore[arg-type]
            interpreter.invoke()
            np.testing.assert_array_equal(interpreter.get_tensor(1), -value)
            with app.egl:
                Functions(app.egl.load).glDeleteBuffers(2, (c_uint * 2)(*names))
            with pytest.raises(ValueError, match="released"):
                interpreter.invoke()
        app.delegate.close()
        app.delegate = gd.GpuDelegate(context=app.egl)


@pytest.mark.parametrize("layout", ["bhwc", "phwc4"])
def test_a_buffer_specified_anew(layout: Any, app: App) -> None:
    """A buffer of the same size or larger, as in a stream, is read; a smaller one is refused."""
    interpreter, _ = bound(app)
    name = raw(app, ONES)
    app.delegate.bind_buffer_to_tensor(0, name, layout=layout)
    for content in (2 * ONES, np.full(999, 3, np.float32), 4 * ONES):
        respecify(app, name, content)
        interpreter.invoke()
        assert (interpreter.get_tensor(1) == -content[0]).all()
    respecify(app, name, ONES[:9])
    with pytest.raises(ValueError, match=rf"tensor 0 .* 64 bytes of the buffer {name}, found 36"):
        interpreter.invoke()
    respecify(app, name, 7 * ONES)
    interpreter.invoke()
    assert (interpreter.get_tensor(1) == -7).all()


@pytest.mark.parametrize("index", [0, 1])
def test_a_bound_texture_that_was_released_is_refused(index: int, app: App) -> None:
    """Also if another one has its name by now."""
    interpreter = app.interpreter(negated((1, 5, 6, 3)))
    texture = app.texture(RGBA)
    app.delegate.bind_texture_to_tensor(index, texture)
    interpreter.invoke()
    with app.egl:
        texture.release()
    message = rf"tensor {index} .* the texture {texture.glo}, 6x5 .* released: bind it again"
    with pytest.raises(ValueError, match=message):
        interpreter.invoke()
    respecify(app, texture.glo, RGBA)  # OpenGL ES makes a texture of a name that has none
    with pytest.raises(ValueError, match=message):
        interpreter.invoke()
    app.delegate.bind_texture_to_tensor(index, app.texture(RGBA))
    interpreter.invoke()


@pytest.mark.parametrize("index", [0, 1])
def test_a_texture_that_was_resized_in_place_is_refused(index: int, app: App) -> None:
    interpreter = app.interpreter(negated((1, 5, 6, 3)))
    name = raw(app, RGBA)
    app.delegate.bind_texture_to_tensor(index, name)
    respecify(app, name, RGBA + np.uint8(51))
    interpreter.invoke()
    if index == 0:
        np.testing.assert_allclose(interpreter.get_tensor(1), -51 / 255, atol=1e-6)
    respecify(app, name, np.zeros((9, 11, 4), "u1"))
    for _ in range(2):
        with pytest.raises(ValueError, match=rf"texture {name}, 6x5 of .*, found 11x9 of .*: bind"):
            interpreter.invoke()
    respecify(app, name, RGBA)
    interpreter.invoke()


def test_a_texture_whose_name_is_another_kinds_by_now_is_refused(app: App) -> None:
    interpreter = app.interpreter(negated((1, 5, 6, 3)))
    name, gl = raw(app, RGBA), Functions(app.egl.load)
    app.delegate.bind_texture_to_tensor(0, name)
    interpreter.invoke()
    with app.egl:
        gl.glDeleteTextures(1, c_uint(name))
        gl.glBindTexture(0x8513, name)  # a cube map
    with pytest.raises(ValueError, match="bind it again"):
        interpreter.invoke()


class Renewed:
    """A thing of an app's with GL's name in `glo`, as it makes another texture on a resize."""

    def __init__(self, glo: int) -> None:
        self.glo = glo


def test_an_object_with_another_name_by_now_is_refused(app: App) -> None:
    interpreter = app.interpreter(negated((1, 5, 6, 3)))
    texture = Renewed(raw(app, RGBA))
    app.delegate.bind_texture_to_tensor(0, texture)
    texture.glo = raw(app, RGBA)
    with pytest.raises(ValueError, match=rf"found the name {texture.glo}: bind it again"):
        interpreter.invoke()


def test_a_texture_that_was_resized_is_bound_again(app: App) -> None:
    """By the same name or object, of which GL or the app has made another texture."""
    interpreter = app.interpreter(negated((1, 5, 6, 3)))
    name = raw(app, RGBA)
    thing = Renewed(name)
    for texture in (name, thing):
        app.delegate.bind_texture_to_tensor(0, texture)
        interpreter.invoke()
        respecify(app, name, np.full((9, 11, 4), 51, "u1"))
        app.delegate.bind_texture_to_tensor(0, texture)
        interpreter.invoke()
        np.testing.assert_allclose(interpreter.get_tensor(1), -51 / 255, atol=1e-6)
        respecify(app, name, RGBA)
        app.delegate.bind_texture_to_tensor(0, texture)
    thing.glo = raw(app, np.full((7, 8, 4), 102, "u1"))
    app.delegate.bind_texture_to_tensor(0, thing)
    interpreter.invoke()
    np.testing.assert_allclose(interpreter.get_tensor(1), -102 / 255, atol=1e-6)
    respecify(app, thing.glo, np.zeros((5, 5, 4), "u1"))
    with pytest.raises(ValueError, match="bind it again"):
        interpreter.invoke()
