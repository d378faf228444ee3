"""Frames, layers, drawings and networks of apps: on the GPU, on the CPU, and alike."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gles_delegate as gd
from gles_apps.live import (
    App,
    Camera,
    Canvas,
    Frame,
    GStreamerSink,
    Layer,
    Picture,
    ShowOptions,
    Video,
    frame_handler_for,
    show,
)
from gles_apps.live.app import Timings
from gles_apps.live.gstreamer import locations
from gles_apps.live.loop import _KeptTextures
from gles_apps.live.painter import ATLAS, Painter, new_texture
from gles_apps.live.sources import Recording
from gles_apps.tasks.vision import TaskSettings
from gles_apps.vision.drawing import Drawing, load_glyph
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions
from tests.gl.test_delegate import desktop_app, es_app, stir
from tests.support.example import pixels, read_video, write_video
from tests.support.layers import over
from tests.support.live import (
    COLORS,
    color_model,
    frame_of,
    live_app,
    mean_model,
    negative_model,
    one_color,
    read_texture,
)
from tests.support.state import State
from tests.support.tflite_builder import ModelBuilder, quantization

pytestmark = pytest.mark.usefixtures("gl")

RNG = np.random.default_rng(0)
WHITE = (255, 255, 255)


@pytest.fixture
def app() -> Iterator[App]:
    with live_app() as app:
        yield app


def noise(height: int, width: int) -> NDArray[np.uint8]:
    return RNG.integers(0, 256, (height, width, 3), np.uint8)


def difference(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> NDArray[np.int_]:
    assert a.shape == b.shape
    return np.abs(a.astype(int) - b)


def painted(app: App, picture: NDArray[np.uint8], draw: Callable[[Canvas], None]) -> Any:
    """A picture with a drawing."""
    frame = frame_of(app, picture)
    canvas = Canvas(frame, Painter(frame.size), frame.size)
    draw(canvas)
    canvas.finish()
    return canvas.pixels()


@pytest.mark.parametrize("size", [(61, 83), (40, 60), (1, 1)])
def test_drawings_are_the_same_on_gpu_and_cpu(size: tuple[int, int], app: App) -> None:
    height, width = size

    def draw(canvas: Canvas) -> None:
        drawing = canvas.drawing
        points = RNG.uniform(-10, 90, (30, 2))
        points[3] = np.nan
        edges = [(i, i + 1) for i in range(29)]
        drawing.rectangle((3.3, 4.7, 50.2, 30.9), (90, 200, 10, 90))
        drawing.lines(points, edges, (255, 0, 90, 120), 2.3)
        drawing.points(points, (0, 220, 255), 7)
        drawing.box((-4, 5, 40, 70), (255, 255, 0), 1)
        drawing.label((30, 20), "Käse 猫\u0301 99%", (20, 30, 200))
        drawing.legend(["cat", "dog"], [(255, 0, 0), (0, 255, 0)])
        drawing.bars(["one", "two"], [0.9, 0.1])

    picture = noise(height, width)
    state = RNG.bit_generator.state
    gpu = painted(app, picture, draw)
    RNG.bit_generator.state = state
    draw(canvas := Canvas(frame_of(app, picture), Painter(size), size))
    cpu = np.asarray(canvas.drawing.on_picture(Image.fromarray(picture)))
    assert difference(gpu, cpu).max() <= 8  # 3 on Mesa, 6 on SwiftShader
    assert difference(gpu, picture).max() > 50


def test_letters_beyond_the_atlas(app: App) -> None:
    """The letters of each drawing fit into the texture of letters; all letters together do not."""
    frame = frame_of(app, one_color((0, 0, 0), 180, 1700))
    painter = Painter(frame.size)
    area = 0
    for size in range(20, 125, 5):
        canvas = Canvas(frame, painter, frame.size)
        canvas.drawing.text((5, 150), "first letters", size=20)
        canvas.drawing.text((5, 5), "ABCDEFGHIJKLMNOPQRSTUVWXY", size=size)
        canvas.finish()
        expected = np.asarray(canvas.drawing.on_picture(Image.fromarray(frame.pixels)))
        assert difference(canvas.pixels(), expected).max() <= 1
        area += sum(load_glyph(letter, size).mask.size for letter in "ABCDEFGHIJKLMNOPQRSTUVWXY")
    assert area > ATLAS**2


MASK = np.zeros((23, 31, 4), np.float32)
MASK[5:16, 8:20] = (0.2, 0.7, 0.4, 0.8)
MASK[12:, 15:] = 1
TURNED = np.array([[2.1, 0.6, 3.0], [-0.5, 1.9, 14.0]])
BACKDROP = noise(50, 40)


@pytest.mark.parametrize(
    "style",
    [
        {},
        {"smooth": False},
        {"opacity": 0.3},
        {"matrix": TURNED},
        {"matrix": TURNED, "smooth": False, "inverse": True},
        {"fill": (255, 30, 80)},
        {"fill": (255, 30, 80), "inverse": True, "matrix": TURNED},
        {"fill": BACKDROP},
        {"fill": noise(57, 71), "smooth": False, "inverse": True},
        {"edges": (0.3, 0.7)},
        {"edges": (0.3, 0.7), "fill": (0, 0, 0), "smooth": False},
        {"tint": True},
        {"tint": True, "fill": (160, 32, 240), "edges": (0.1, 0.9), "opacity": 0.8},
        {"tint": True, "fill": BACKDROP, "inverse": True},
        {"contour": 2.0},
        {"contour": 3.0, "opacity": 0.45, "edges": (0.3, 0.7), "matrix": TURNED},
        {"contour": 2.0, "fill": (255, 30, 80), "inverse": True, "smooth": False},
    ],
    ids=lambda style: "-".join(style) or "plain",
)
@pytest.mark.parametrize("is_texture", [False, True])
def test_layers_are_the_same_on_gpu_and_cpu(
    style: dict[str, Any], is_texture: bool, app: App
) -> None:
    picture = noise(57, 71)
    frame = frame_of(app, picture)
    painter = Painter(frame.size)
    canvas = Canvas(frame, painter, frame.size)
    data = (MASK * 255 + 0.5).astype(np.uint8)
    texture = new_texture(data)
    canvas.layer(Layer(texture if is_texture else MASK, **style))
    canvas.finish()
    expected = over(Layer(data / np.float32(255), **style), picture)
    actual = difference(canvas.pixels(), expected)
    # At the border of the layer, what is inside depends on the last bit. On the CPU, Pillow's
    # bicubic filter stands for the spline, and the place of a contour shows the difference.
    is_exact = "contour" not in style or not style.get("smooth", True)
    assert actual.mean() < (0.8 if is_exact else 1.5)
    assert np.percentile(actual, 99) <= (8 if is_exact else 45)
    assert difference(expected, picture).max() > 30


def test_a_smooth_layer_has_no_corners(app: App) -> None:
    """An edge that is not along the pixels, enlarged: the border is straight to half a pixel."""
    rows, columns = np.indices((32, 32)) + 0.5
    mask = np.repeat((columns + rows / 4 < 20)[..., None], 4, 2).astype(np.float32)
    layer = Layer(mask, fill=WHITE, edges=(0.3, 0.7))
    actual = painted(app, one_color((0, 0, 0), 320, 320), lambda canvas: canvas.layer(layer))
    border = (actual[40:280, :, 0] / 255).sum(1)
    straight = np.polyval(np.polyfit(np.arange(240), border, 1), np.arange(240))
    assert np.abs(border - straight).max() < 3.5  # a pixel of the mask is 10


def test_a_contour_has_no_stairs(app: App) -> None:
    rows, columns = np.indices((32, 32)) + 0.5
    mask = np.repeat((columns + rows / 4 < 20)[..., None], 4, 2).astype(np.float32)
    layer = Layer(mask, opacity=0.0, contour=4.0)
    actual = painted(app, one_color((0, 0, 0), 320, 320), lambda canvas: canvas.layer(layer))
    line = actual[40:280, :, 0].astype(float)
    at = (line * np.arange(320)).sum(1) / line.sum(1)
    straight = np.polyval(np.polyfit(np.arange(240), at, 1), np.arange(240))
    assert np.abs(at - straight).max() < 1.5  # a pixel of the mask is 10


@pytest.mark.parametrize("width", [2.0, 5.0])
def test_a_contour_has_its_width(width: float, app: App) -> None:
    """A line in full color at the border of what shines through, inside and outside alike."""
    mask = np.zeros((24, 24, 4), np.float32)
    mask[8:16, 8:16] = 1
    layer = Layer(mask, opacity=0.4, edges=(0.3, 0.7), contour=width)
    actual = painted(app, one_color((0, 0, 0), 240, 240), lambda canvas: canvas.layer(layer))
    row = actual[120, :, 0].astype(int)
    assert row[:70].max() == 0
    assert abs(row[100:140] - 0.4 * 255).max() <= 1
    line = (row[60:100] > 150).nonzero()[0] + 60
    assert len(line) == pytest.approx(width, abs=1)
    assert line.mean() + 0.5 == pytest.approx(80, abs=1)
    assert row[line].max() > 250


def test_a_backdrop_does_not_bleed_over_the_edges(app: App) -> None:
    backdrop = one_color((0, 0, 0), 9, 9)
    backdrop[0] = backdrop[:, 0] = 255
    empty = np.zeros((4, 4, 4), np.float32)
    layer = Layer(empty, fill=backdrop, inverse=True)
    picture = noise(60, 60)
    gpu = painted(app, picture, lambda canvas: canvas.layer(layer))
    assert difference(gpu, over(layer, picture)).max() <= 1
    assert gpu[-1, 10:].max() == 0


def test_pictures_that_are_layered_again_and_again(app: App) -> None:
    frame = frame_of(app, noise(20, 20))
    painter = Painter(frame.size)
    whole = np.ones((4, 4, 4), np.float32)
    for i in range(20):
        fill = one_color((i, 2 * i, 3 * i), 20, 20)
        painter.begin(frame.texture)
        painter.layer(Layer(whole, fill=fill))
        assert (painter.pixels() == fill).all()


def test_a_picture_of_another_size_is_stretched(app: App) -> None:
    frame = frame_of(app, np.repeat(np.arange(0, 200, 20, np.uint8), 30).reshape(10, 10, 3))
    canvas = Canvas(frame, Painter((40, 30)), (40, 30))
    canvas.drawing.rectangle((0, 0, 1, 1), WHITE)
    canvas.finish()
    actual = canvas.pixels()
    assert actual.shape == (40, 30, 3)
    assert actual[0, 0].tolist() == [*WHITE]
    assert np.ptp(actual[:, 5:], axis=1).max() <= 1
    assert [int(actual[row, 5, 0]) for row in (0, -1)] == pytest.approx([0, 180], abs=4)


def quantized_model(path: Path) -> Path:
    """2 x - 1 of a picture [1, 6, 8, 3] in int8, to uint8."""
    builder = ModelBuilder()
    x = builder.input((1, 6, 8, 3), np.int8, quantization=quantization(1 / 255, -128))
    y = builder.tensor((1, 6, 8, 3), np.uint8, quantization=quantization(2 / 255, 128))
    builder.op("QUANTIZE", [x], [y])
    path.write_bytes(builder.build(outputs=[y]))
    return path


def fed_model(path: Path) -> Path:
    """A picture [1, 6, 8, 3] plus three numbers, which come first."""
    builder = ModelBuilder()
    numbers, x = builder.input((1, 3)), builder.input((1, 6, 8, 3))
    path.write_bytes(builder.build(outputs=[builder.op("ADD", [x, numbers], [(1, 6, 8, 3)])]))
    return path


@pytest.mark.parametrize("as_picture", [False, True])
@pytest.mark.parametrize("size", [(6, 8), (61, 45)])
def test_a_network_and_its_picture(
    as_picture: bool, size: tuple[int, int], app: App, tmp_path: Path
) -> None:
    picture = noise(*size)
    network = app.network(color_model(tmp_path / "c.tflite"))
    assert network.transform.antialias
    seen = network.transform.apply(picture, network.size)
    expected: Any = seen @ np.array([*COLORS.values()], np.float32).T
    output = gd.ImageOutput(scale=0.5, offset=0.5)
    if as_picture:
        network.pictures[0] = output
        expected = output.apply(expected).clip(0, 1) * 255
    for _ in range(2):
        (actual,) = network(frame_of(app, picture))
        actual = read_texture(actual) if as_picture else actual
        assert np.abs(actual.astype(float) - expected).max() <= (2 if as_picture else 0.02)


def test_a_palette_of_numbers(app: App, tmp_path: Path) -> None:
    picture = noise(8, 12)
    network = app.network(color_model(tmp_path / "c.tflite", as_numbers=True))
    colors = [(0, 0, 0, 0), (1, 2, 3, 255), (9, 9, 9, 9)]
    network.pictures[0] = gd.ImageOutput(palette=colors)
    (actual,) = network(frame_of(app, picture))
    expected = np.array(colors)[(picture.astype(int) @ np.array([*COLORS.values()]).T).argmax(2)]
    # Colors may be nearly alike.
    assert (np.abs(actual * 255 - expected) < 0.5).all(-1).mean() > 0.97


def test_quantized_outputs_are_real_numbers(app: App, tmp_path: Path) -> None:
    picture = noise(6, 8)
    network = app.network(quantized_model(tmp_path / "q.tflite"))
    (actual,) = network(frame_of(app, picture))
    assert actual.dtype == np.float32
    assert np.abs(actual[0] - picture / 255).max() <= 2 / 255


def test_feeds(app: App, tmp_path: Path) -> None:
    picture, numbers = noise(6, 8), np.array([[0.5, 1, 2]], np.float32)
    network = app.network(fed_model(tmp_path / "f.tflite"))
    assert network.size == (6, 8)
    (actual,) = network(frame_of(app, picture), feeds={0: numbers})
    assert np.abs(actual[0] - (picture / 255 + numbers)).max() < 0.01


@pytest.mark.parametrize("scale", [1, 2])
def test_a_network_sees_the_region_it_is_shown_and_its_layer_lies_there(
    scale: int, app: App, tmp_path: Path
) -> None:
    picture = one_color((0, 0, 0), 40, 60)
    picture[10:18, 20:32] = (255, 0, 0)
    network = app.network(color_model(tmp_path / "c.tflite"))
    network.pictures[0] = gd.ImageOutput(palette=[(0, 255, 0, 255), (0, 0, 0, 0), (0, 0, 0, 0)])
    frame, size = frame_of(app, picture), (scale * 40, scale * 60)
    transform = gd.ImageTransform(roi=(20, 10, 12, 8))
    canvas = Canvas(frame, Painter(size), size)
    (mask,) = network(frame, transform)
    canvas.layer(network.layer(mask, transform, frame))
    canvas.finish()
    green = (canvas.pixels() == (0, 255, 0)).all(-1)
    rows, columns = np.nonzero(green)
    assert green.sum() == scale**2 * 12 * 8
    assert [rows.min(), columns.min()] == [scale * 10, scale * 20]


def test_a_network_that_is_resized(app: App, tmp_path: Path) -> None:
    network = app.network(color_model(tmp_path / "c.tflite"))
    frame = frame_of(app, noise(20, 20))
    for size in ((4, 6), (8, 8), (8, 8), (5, 7)):
        network.resize(size)
        assert network.size == size
        assert network(frame)[0].shape == (1, *size, 3)
        assert network.outputs[0]["shape"].tolist() == [1, *size, 3]


@pytest.mark.parametrize(("task", "model"), [("segment", color_model), ("classify", mean_model)])
def test_labels_of_another_number(
    task: str, model: Callable[[Path], Path], app: App, tmp_path: Path
) -> None:
    path = model(tmp_path / "m.tflite")
    frame_handler_for(app, path, TaskSettings(task, labels=["a", "b", "c"]))
    for labels in (["a", "b"], ["a", "b", "c", "d"]):
        with pytest.raises(ValueError, match=f"each of 3 classes, found {len(labels)}"):
            frame_handler_for(app, path, TaskSettings(task, labels=labels))


def test_models_that_are_no_networks_for_frames(app: App, tmp_path: Path) -> None:
    with pytest.raises(gd.ModelError, match="Could not open"):
        app.network(tmp_path / "missing.tflite")
    builder = ModelBuilder()
    x = builder.input((1, 9))
    (tmp_path / "x.tflite").write_bytes(builder.build([builder.op("NEG", [x], [(1, 9)])]))
    with pytest.raises(ValueError, match=r"expected a network with an input .* found \[\[1, 9\]\]"):
        app.network(tmp_path / "x.tflite").transform  # noqa: B018


def test_a_camera_gives_its_newest_frame() -> None:
    """Frames, each a little brighter, that have come since the last one was read are dropped."""
    camera = Camera("lavfi:color=size=64x48:rate=50,geq=lum=min(16+N/4\\,235):cb=128:cr=128")
    assert (camera.size, camera.rate, camera.count) == ((48, 64), 50, None)
    first = camera.read()
    assert first.shape == (48, 64, 4)
    assert first[..., 3].min() == 255

    def skips() -> bool:
        before = int(camera.read()[0, 0, 0])
        time.sleep(0.3)
        return int(camera.read()[0, 0, 0]) > before + 4

    assert any(skips() for _ in range(10))  # a busy machine delivers few frames
    camera.close()


def test_a_camera_that_ends() -> None:
    camera = Camera("lavfi:color=c=red:size=64x48:rate=10:duration=0.3")
    assert np.abs(camera.read()[..., :3].astype(int) - (254, 0, 0)).max() < 4
    with pytest.raises(OSError, match=r"the camera lavfi:.* delivers no frames: it has stopped"):
        [camera.read() for _ in range(5)]
    camera.close()


@pytest.mark.parametrize("name", ["/dev/none", "99", "lavfi:nonsense", "nonsense:0", "nonsense"])
def test_a_camera_that_is_not_there(name: str) -> None:
    with pytest.raises(OSError, match=f"cannot open the camera {name}: .*ls /dev/video"):
        Camera(name)


def test_a_video_that_ends(tmp_path: Path) -> None:
    video = Video(write_video(tmp_path / "v.mp4", one_color((200, 0, 0), 32, 48)))
    assert (video.size, video.rate, video.count) == ((32, 48), 24, 3)
    assert [video.read() is not None for _ in range(5)] == [True, True, True, False, False]
    video.close()


TIMES = [0.0, 0.04, 0.055, 0.2, 0.24]  # of frames, in seconds


def uneven_video(path: Path) -> Path:
    """Frames at `TIMES` after 0.5 seconds, each brighter than the one before."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", 25)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, seconds in enumerate(TIMES):
            frame = av.VideoFrame.from_ndarray(one_color((40 * number, 0, 0), 48, 64))
            frame.pts, frame.time_base = round(1000 * (0.5 + seconds)), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize("container", ["mkv", "mp4"])
def test_a_frame_of_a_file_has_its_presentation_time(container: str, tmp_path: Path) -> None:
    video = Video(uneven_video(tmp_path / f"v.{container}"), repeat=True)
    assert video.count is None
    actual = [video.seconds for _ in range(9) if video.read() is not None]
    video.close()
    again = TIMES[-1] + 1 / (video.rate or 0)
    assert actual == pytest.approx([*TIMES, *(again + seconds for seconds in TIMES[:4])])


def stamps(source: Any, delay: float = 0) -> list[tuple[float, int]]:
    """The times of frames, and those that a task gets, while networks take `delay` seconds."""
    seen: list[tuple[float, int]] = []

    class Stub:
        def process_frame(self, image: object, time: int) -> int:
            return time

        def close(self) -> None: ...

    def make(app: App) -> Any:
        task: Any = app.task(Stub(), "stub")  # type: ignore[arg-type]

        def see(frame: Frame, canvas: Canvas) -> None:
            time.sleep(delay)
            seen.append((frame.seconds, task(frame)))

        return see

    show(make, source, ShowOptions(headless=True, frames=4))
    return seen


def test_the_times_of_a_file_do_not_depend_on_the_networks(tmp_path: Path) -> None:
    path = uneven_video(tmp_path / "v.mkv")
    expected = [(pytest.approx(seconds), round(1000 * seconds)) for seconds in TIMES[:4]]
    assert stamps(Video(path)) == stamps(Video(path), delay=0.1) == expected


@pytest.mark.parametrize(("rate", "step"), [(None, 1 / 30), (5.0, 0.2)])
def test_the_times_of_a_source_without_times(
    rate: float | None, step: float, tmp_path: Path
) -> None:
    """As they are in the file that is written."""
    Image.fromarray(noise(8, 8)).save(tmp_path / "p.png")
    source = Picture(tmp_path / "p.png")
    source.rate = rate
    actual = stamps(source, delay=0.05)
    assert [seconds for seconds, _ in actual] == pytest.approx([i * step for i in range(4)])


def test_the_times_of_a_camera() -> None:
    actual = stamps(Camera("lavfi:color=size=64x48:rate=50"), delay=0.1)
    assert actual[3][0] - actual[1][0] > 0.15


def test_an_output_that_the_source_reads_is_refused(tmp_path: Path) -> None:
    video = write_video(tmp_path / "v.mp4", noise(16, 16))
    for i in range(2):
        Image.fromarray(noise(16, 16)).save(tmp_path / f"%{i}.png")
        Image.fromarray(noise(16, 16)).save(tmp_path / f"x{i}.png")
    (tmp_path / "link.png").symlink_to("x0.png")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    pairs: tuple[tuple[Callable[[Path], Any], str, str], ...] = (
        (Picture, "x0.png", "x0.png"),
        (Picture, "x0.png", "link.png"),
        (Video, video.name, "v.mp4"),
        (Video, "x%d.png", "x1.png"),
        (Video, "%%%d.png", "%1.png"),
    )
    for source, read, written in pairs:
        options = ShowOptions(headless=True, output=tmp_path / written)
        with pytest.raises(ValueError, match="would be overwritten"):
            show(lambda app: lambda frame, canvas: None, source(tmp_path / read), options)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_sink_whose_file_is_being_read_is_refused(tmp_path: Path) -> None:
    video = write_video(tmp_path / 'my "v".mp4', noise(16, 16))
    text = str(video).replace('"', r"\"")
    pipeline = f'openh264enc ! mp4mux ! filesink location = "{text}" sync=false'
    assert locations(f"a ! filesink location={tmp_path}/x.mp4 ! b") == [f"{tmp_path}/x.mp4"]
    assert locations(pipeline) == [str(video)]
    source: Any = None
    with video.open("rb"), pytest.raises(ValueError, match="would be overwritten"):
        GStreamerSink(pipeline, source, (16, 16))


@pytest.mark.parametrize("size", [(31, 45), (32, 45), (2, 3)])
def test_recordings_of_odd_sizes(size: tuple[int, int], tmp_path: Path) -> None:
    picture = one_color((0, 180, 60), *size)
    with Recording(tmp_path / "v.mp4", size, 29.97) as recording:
        recording.write(picture)
        recording.write(picture)
    even = tuple(length // 2 * 2 for length in size)
    assert [frame.shape[:2] for frame in read_video(tmp_path / "v.mp4")] == [even] * 2
    with Recording(tmp_path / "p.png", size, 30) as recording:
        recording.write(0 * picture)
        recording.write(picture)
    assert (pixels(tmp_path / "p.png") == picture).all()


def test_timings_leave_out_the_first_time() -> None:
    finished: list[bool] = []
    timings = Timings(lambda: finished.append(True))
    timings.add("stage", 1000)
    assert timings.milliseconds == {"stage": 1000}
    timings.add("stage", 20)
    assert timings.milliseconds == {"stage": 20}
    timings.add("stage", 30)
    assert timings.milliseconds == {"stage": pytest.approx(21)}
    with timings.measure("other"):
        time.sleep(0.01)
    assert 10 <= timings.milliseconds["other"] < 500
    assert not finished
    timings.is_exact = True
    with timings.measure("other"):
        pass
    assert finished


def test_show_closes_what_it_has_opened(tmp_path: Path) -> None:
    class Failing(Picture):
        closed = False

        def close(self) -> None:
            self.closed = True

    Image.fromarray(noise(8, 8)).save(tmp_path / "p.png")
    source = Failing(tmp_path / "p.png")

    def make(app: App) -> Any:
        app.network(mean_model(tmp_path / "m.tflite"))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        show(make, source, ShowOptions(headless=True))
    assert source.closed


@pytest.mark.mesa
@pytest.mark.usefixtures("display")
def test_a_window_shows_every_frame_of_a_camera_while_a_network_runs() -> None:
    camera = Camera("lavfi:color=size=64x48:rate=24,realtime")
    texts: list[str] = []

    def make(app: App) -> Any:
        def see(frame: Frame, canvas: Canvas) -> None:
            texts.append(threading.current_thread().name)
            time.sleep(0.3)

        return see

    start = time.perf_counter()
    app = show(make, camera, ShowOptions(frames=24))
    assert time.perf_counter() - start > 22 / 24  # the camera's own time
    assert 2 <= app.counts.seen <= 12
    assert {name.rpartition("_")[0] for name in texts} == {"networks"}


@pytest.mark.mesa
@pytest.mark.usefixtures("display")
@pytest.mark.parametrize("delay", [0, 0.1])
def test_a_window_shows_the_results_of_a_file_s_own_frames(
    delay: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = Video(write_video(tmp_path / "v.mp4", one_color((0, 90, 0), 48, 64)), repeat=True)
    shown: list[Frame] = []
    seen: dict[Canvas, Frame] = {}
    finish = Canvas.finish

    def note(canvas: Canvas, frame: Frame, above: Drawing | None) -> None:
        assert seen[canvas] is frame
        shown.append(frame)
        finish(canvas, frame, above)

    def make(app: App) -> Any:
        def see(frame: Frame, canvas: Canvas) -> None:
            time.sleep(delay)
            seen[canvas] = frame

        return see

    monkeypatch.setattr(Canvas, "finish", note)
    start = time.perf_counter()
    show(make, video, ShowOptions(frames=8))
    assert time.perf_counter() - start > 7 / 24  # no faster than the video
    assert [frame.seconds for frame in shown] == pytest.approx([i / 24 for i in range(8)])


@pytest.mark.parametrize("fails_at", [0, 1, 3])
def test_a_network_that_fails_ends_the_app(fails_at: int, tmp_path: Path) -> None:
    video = Video(write_video(tmp_path / "v.mp4", one_color((0, 90, 0), 48, 64)), repeat=True)
    count = itertools.count()

    def make(app: App) -> Any:
        def see(frame: Frame, canvas: Canvas) -> None:
            if next(count) == fails_at:
                raise ValueError("no more")

        return see

    with pytest.raises(ValueError, match="no more"):
        show(make, video, ShowOptions(headless=True, frames=9))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("networks")]


def test_each_frame_of_a_file_has_its_own_results(app: App, tmp_path: Path) -> None:
    """A network's texture, which is written again while the frame before is drawn."""
    path = tmp_path / "v.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("h264", 24)
        stream.height, stream.width = 48, 64
        for i in range(24):
            picture = one_color((i * 10, 0, 0), 48, 64)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode())
    negative_model(tmp_path / "n.tflite")

    def make(app: App) -> Any:
        network = app.network(tmp_path / "n.tflite")
        network.pictures[0] = gd.ImageOutput()

        def see(frame: Frame, canvas: Canvas) -> None:
            (picture,) = network(frame)
            canvas.layer(network.layer(picture, network.transform, frame))

        return see

    show(make, Video(path), ShowOptions(headless=True, output=tmp_path / "o.mp4"))
    results = [frame[20, 30, 0] for frame in read_video(tmp_path / "o.mp4")]
    assert np.abs(np.array(results) - (255 - 10 * np.arange(24))).max() <= 6


@pytest.mark.usefixtures("app")
def test_copies_of_textures_are_used_again() -> None:
    """For three frames at a time, however many layers each has."""
    pictures = [noise(8, 8), noise(8, 8), noise(6, 8)]
    rgba = [np.dstack([p, np.full(p.shape[:2], 255, np.uint8)]) for p in pictures]
    textures, kept = [new_texture(each) for each in rgba], _KeptTextures()
    names: set[int] = set()
    for turn in range(30):
        keep = kept.next()
        for picture, texture in list(zip(rgba, textures, strict=True))[: 1 + turn % 2 * 2]:
            copy = keep(texture)
            names.add(copy.glo)  # type: ignore[attr-defined]
            assert (read_texture(copy) == picture).all()
    assert len(names) == 9
    kept.release()


@pytest.mark.mesa
@pytest.mark.parametrize("make", [es_app, desktop_app])
def test_a_painter_leaves_the_state_of_an_app_alone(make: Callable[[], tuple[Any, Any]]) -> None:
    """Its pictures are the same as in a new context, whatever the app has enabled."""
    pixels = noise(20, 30)

    def paint(picture: Any, framebuffer: int = 0) -> list[NDArray[np.uint8]]:
        painter = Painter((40, 60))
        painter.begin(picture)
        painter.layer(Layer(MASK))
        painter.layer(Layer(MASK, fill=BACKDROP, tint=True))
        drawing = Drawing((40, 60))
        drawing.label((3, 20), "text", (20, 30, 200))
        painter.draw(drawing)
        results = [painter.pixels(), read_texture(picture)]
        if framebuffer:
            painter.present((90, 80), framebuffer)
        painter.release()
        return results

    glcontext, ctx = make()
    with glcontext:
        gl, state = Functions(glcontext.load), State(glcontext.load)
        window = ctx.framebuffer([ctx.texture((80, 90), 4)])
        picture = ctx.texture((30, 20), 3, pixels.tobytes(), alignment=1)
        alive = stir(ctx, gl)
        for capability in (gl_names.SCISSOR_TEST, 0x0B44, 0x0B71):
            gl.glEnable(capability)
        before, objects = state.read(), state.objects()
        actual = paint(picture, window.glo)
        assert {k: v for k, v in state.read().items() if v != before[k]} == {}
        assert state.objects() == objects
        shown = window.read(components=3) if make is desktop_app else b""
        del alive
        ctx.release()
    with gd.EglContext():
        expected = paint(new_texture(pixels))
    for a, b in zip(actual, expected, strict=True):
        assert difference(a, b).max() <= 3
    if shown:
        rows = np.frombuffer(shown, np.uint8).reshape(90, 80, 3)[::-1]
        assert rows[:18].max() == rows[72:].max() == 0
        assert rows[20:70].max() > 100
