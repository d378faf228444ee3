"""Frames of GStreamer's pipelines: as the planes in numpy, lent and given back."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import gles_delegate as gd
from gles_apps import tasks
from gles_apps.live import (
    App,
    Canvas,
    Frame,
    FrameHandler,
    GStreamer,
    GStreamerSink,
    ShowOptions,
    open_source,
    show,
)
from gles_apps.live import gstreamer as gstreamer_module
from gles_apps.live.libgst import libgst
from gles_apps.live.painter import Painter
from tests.conftest import Require
from tests.gl.test_binding import negated
from tests.support.example import read_video
from tests.support.small import allocated
from tests.support.tflite_builder import ModelBuilder, quantization

pytestmark = [pytest.mark.usefixtures("gstreamer"), pytest.mark.mesa]

RNG = np.random.default_rng(0)
COLORS = "videotestsrc num-buffers={} pattern=smpte ! video/x-raw,format={},width=48,height=36"


@pytest.fixture(scope="session")
def gstreamer(require: Require) -> None:
    try:
        with GStreamer(COLORS.format(1, "NV12")):
            pass
    except OSError as error:
        require("gstreamer", str(error))


@pytest.fixture
def video(tmp_path: Path) -> Path:
    """300 frames of moving noise in H.264."""
    path = tmp_path / "v.mp4"
    picture = RNG.integers(0, 256, (9, 12, 3), np.uint8).repeat(8, 0).repeat(8, 1)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("h264", 30)
        stream.height, stream.width = picture.shape[:2]
        for i in range(300):
            frame = np.roll(picture, (i, 2 * i), (0, 1))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame)))
        container.mux(stream.encode())
    return path


TAGS: dict[str, Any] = {
    "rotate-0": lambda p: p,
    "rotate-90": lambda p: np.rot90(p, -1),
    "rotate-180": lambda p: np.rot90(p, 2),
    "rotate-270": np.rot90,
    "flip-rotate-0": lambda p: p[:, ::-1],
    "flip-rotate-180": lambda p: p[::-1],
    "flip-rotate-90": lambda p: np.rot90(p[:, ::-1], -1),
    "flip-rotate-270": lambda p: np.rot90(p[:, ::-1]),
}


@pytest.mark.parametrize("tag", TAGS)
def test_frames_are_turned_by_their_tag(tag: str) -> None:
    seen = []
    for inject in ("", f' ! taginject tags="image-orientation={tag}"'):
        with GStreamer(COLORS.format(3, "NV12") + inject) as source:
            frames = [(frame.pixels, frame.seconds, frame.close()) for frame in source]
            assert len(frames) == 3
            assert frames[0][1] == 0
            assert source.size == frames[0][0].shape[:2]
            seen.append(frames[0][0][..., :3].astype(int))
    expected = TAGS[tag](seen[0])
    assert seen[1].shape == expected.shape
    inner = (slice(2, -2),) * 2
    assert np.abs(seen[1] - expected)[inner].mean() < 4


def test_a_video_is_the_same_planes_as_in_numpy(video: Path) -> None:
    transform = gd.ImageTransform(antialias=False)
    model = negated((1, 20, 30, 3))
    worst, count = 0.0, 0
    with (
        av.open(str(video)) as container,
        GStreamer(f"filesrc location={video} ! decodebin") as source,
    ):
        assert (source.size, source.rate, source.is_live) == ((72, 96), 30, False)
        delegate = gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True), context=source.context)
        network = allocated(delegate, model)
        for frame, decoded in zip(source, container.decode(video=0), strict=True):
            siting = frame.colors["siting"]
            assert siting in ("center", "left")  # left from GStreamer 1.26 on
            assert frame.colors == {"yuv": "bt601", "full_range": False, "siting": siting}
            matched = frame.matched(transform)
            delegate.bind_texture_to_tensor(0, frame.textures, transform=matched)
            run = network.invoke_async(wait_for=frame.ready)
            frame.close(after=run)
            run.wait()
            rows = decoded.to_ndarray(format="yuv420p")
            y, (u, v) = rows[:72], rows[72:].reshape(2, 36, 48)
            expected = matched.apply([y, u, v], (20, 30))
            worst = max(worst, float(np.abs(run.get_tensor(1) + expected).max()))
            count += 1
        delegate.close()
    assert count == 300
    assert worst <= 1e-4


@pytest.mark.parametrize("planes", [True, False])
@pytest.mark.parametrize("format", ["NV12", "I420", "RGBA", "YUY2", "GRAY8", "BGR"])
def test_formats_of_a_pipeline(format: str, planes: bool) -> None:
    """SMPTE bars: white, yellow, cyan, green, magenta, red, blue."""
    with GStreamer(COLORS.format(2, format), planes=planes) as source:
        for frame in source:
            assert len(frame.textures) == (1 if not planes else len(frame.textures))
            pixels = frame.pixels
            assert pixels.shape == (36, 48, 4)
            if format != "GRAY8":
                bars = pixels[5, 3::7, :3].astype(int) > 90
                assert bars.tolist()[:2] == [[True] * 3, [True, True, False]]
                assert bars.tolist()[5:7] == [[True, False, False], [False, False, True]]
            frame.close()


class Late:
    """A run of a GPU that takes its time."""

    finished = False
    waits = 0

    def done(self) -> bool:
        return self.finished

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        self.finished = True
        return True


def test_a_frame_stays_until_the_gpu_has_read_it() -> None:
    with GStreamer(COLORS.format(9, "NV12")) as source:
        runs: list[Late] = []
        for frame in source:
            before = frame.pixels.copy()
            runs.append(Late())
            frame.close(after=runs[-1])
            frame.close()
            # The textures are still this frame's.
            del frame.__dict__["pixels"]
            assert (frame.pixels == before).all()
        assert [run.waits for run in runs] == [1] * 8 + [0]
    assert all(run.waits == 1 for run in runs)


def test_too_many_frames_out() -> None:
    with GStreamer(COLORS.format(5, "NV12")) as source:
        first, second = source.read(), source.read()
        assert first is not None
        assert second is not None
        with pytest.raises(ValueError, match="at most 2 frames that are not closed"):
            source.read()
        second.close()
        assert source.read() is not None


def test_closing_in_the_middle_and_twice() -> None:
    source = GStreamer(COLORS.format(5, "NV12"))
    frame = source.read()
    assert frame is not None
    source.close()
    source.close()
    with pytest.raises(ValueError, match=r"the pipeline .* is closed"):
        frame.pixels  # noqa: B018
    assert frame.ready.done()
    frame.close()
    frame.close()
    with pytest.raises(ValueError, match=r"the pipeline .* is closed"):
        source.read()


def test_memory_is_given_back() -> None:
    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    pipeline = "videotestsrc num-buffers=360 ! video/x-raw,width=320,height=240"
    sizes = []
    with GStreamer(pipeline) as source:  # one: the threads of each have heaps of their own
        for number, frame in enumerate(source):
            frame.close()
            if number % 30 == 0:
                sizes.append(resident())
    assert len(sizes) == 12
    assert sizes[-1] - sizes[2] < 270 * 320 * 240 * 1.5 / 4


def test_sharing_with_an_app_s_context() -> None:
    with gd.EglContext(robust=False) as app:
        with GStreamer(COLORS.format(3, "NV12"), share="current") as source:
            assert source.context is None
            painter = Painter(source.size)
            for frame in source:
                painter.begin(frame)
                assert np.abs(painter.pixels().astype(int) - frame.pixels[..., :3]).max() <= 3
                frame.close()
            painter.release()
        app.release()


def test_contexts_that_cannot_share() -> None:
    with pytest.raises(gd.ContextError, match="expected a current EGL context to share with"):
        GStreamer(COLORS.format(1, "NV12"), share="current")
    with gd.EglContext(), pytest.raises(gd.ContextError, match="must not be robust"):
        GStreamer(COLORS.format(1, "NV12"), share="current")


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("filesrc location=/none ! decodebin", r"failed \(No such file \"/none\"\)"),
        ("filesrc location=/etc/passwd ! decodebin", "failed .*text"),
        ("nonsense ! decodebin", 'no element "nonsense"'),
        ("audiotestsrc num-buffers=2", "could not link"),
        ("videotestsrc num-buffers=0", "delivered no frames"),
        ("", "GStreamer cannot parse the pipeline ''"),
    ],
)
def test_pipelines_that_do_not_work(pipeline: str, message: str) -> None:
    with pytest.raises((OSError, ValueError), match=message):
        GStreamer(pipeline)


def test_a_pipeline_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gstreamer_module, "FRAME_TIMEOUT_S", 0.3)
    with pytest.raises(OSError, match=r"delivered no frame in 0\.3 seconds"):
        GStreamer("appsrc ! video/x-raw,format=NV12,width=8,height=8,framerate=1/1")


def test_a_pipeline_that_fails_in_the_middle() -> None:
    pipeline = COLORS.format(9, "NV12") + " ! identity error-after=5"
    with GStreamer(pipeline) as source, pytest.raises(OSError, match=r"the pipeline .* failed"):
        [frame.close() for frame in source]


def test_without_gstreamer(monkeypatch: pytest.MonkeyPatch) -> None:
    libgst.cache_clear()
    monkeypatch.setattr("gles_apps.live.libgst._PROTOTYPES", {"gstnone-1.0": {}})
    with pytest.raises(OSError, match=r"GStreamer is not installed .*apt install gstreamer1.0-gl"):
        GStreamer("videotestsrc")
    libgst.cache_clear()


def test_a_live_pipeline_drops_frames() -> None:
    pipeline = "videotestsrc is-live=true ! video/x-raw,width=32,height=32,framerate=50/1"
    with GStreamer(pipeline) as source:
        assert source.is_live
        for _ in range(3):
            frame = source.read()
            assert frame is not None
            frame.close()


def test_a_task_sees_a_frame(tmp_path: Path) -> None:
    builder, q = ModelBuilder(), quantization(1 / 255, 0)
    x = builder.input((1, 4, 6, 3), np.uint8, quantization=q)
    y = builder.tensor((1, 3), np.uint8, quantization=q)
    builder.op("MEAN", [x, builder.constant(np.array([1, 2], np.int32))], [y])
    model = tmp_path / "m.tflite"
    model.write_bytes(builder.build([y]))
    with GStreamer(COLORS.format(2, "NV12")) as source:
        base = tasks.BaseOptions(model, context=source.context)
        options = tasks.vision.ImageClassifierOptions(base)
        with tasks.vision.ImageClassifier.create_from_options(options) as classifier:
            scores = []
            for frame in source:
                image = frame.image()
                assert (image.height, image.width) == (36, 48)
                scores.append(classifier.classify(image).classifications[0].categories[0].score)
                pixels = tasks.Image(tasks.ImageFormat.SRGBA, frame.pixels)
                score = classifier.classify(pixels).classifications[0].categories[0].score
                assert scores[-1] == pytest.approx(score, abs=0.01)
                frame.close()
    assert len(scores) == 2


def test_two_pipelines_in_two_threads() -> None:
    def play(_number: int) -> int:
        with GStreamer(COLORS.format(40, "NV12")) as source:
            count = 0
            for frame in source:
                count += int(frame.pixels[5, 3, 0] > 90)
                frame.close()
            return count

    with ThreadPoolExecutor(2) as threads:
        assert [*threads.map(play, range(2))] == [40, 40]


def see(app: App) -> FrameHandler:
    def see(frame: Frame, canvas: Canvas) -> None:
        canvas.drawing.rectangle((0, 0, 6, 36), (0, 0, 0))
        canvas.count("frame", 1)

    return see


@pytest.mark.parametrize("scale", [1, 2])
def test_show_writes_each_frame(scale: int, tmp_path: Path) -> None:
    output, source = tmp_path / "o.mp4", open_source(pipeline=COLORS.format(7, "NV12"))
    app = show(see, source, ShowOptions(headless=True, output=output, scale=scale))
    frames = read_video(output)
    assert (app.counts.seen, len(frames)) == (7, 7)
    for frame in frames:
        assert frame.shape == (36 * scale, 48 * scale, 3)
        assert frame[5, 2].max() < 60
        assert frame[5 * scale, 10 * scale].min() < 60 < frame[5 * scale, 10 * scale].max()


def test_frames_have_their_presentation_times() -> None:
    source = open_source(pipeline=COLORS.format(4, "NV12") + ",framerate=10/1")
    times: list[float] = []

    def make(app: App) -> FrameHandler:
        return lambda frame, canvas: times.append(frame.seconds)

    show(make, source, ShowOptions(headless=True))
    assert times == pytest.approx([0, 0.1, 0.2, 0.3])


def test_show_without_egl(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*arguments: object, **options: object) -> None:
        raise gd.ContextError("no EGL")

    monkeypatch.setattr(sys.modules["gles_apps.live.loop"], "EglContext", none)
    source = open_source(pipeline=COLORS.format(2, "NV12"))
    with pytest.raises(gd.ContextError, match="no EGL"):
        show(see, source, ShowOptions(headless=True))


def test_pictures_into_a_pipeline(tmp_path: Path) -> None:
    raw, count = tmp_path / "raw", 7
    transform = gd.ImageTransform(antialias=False)
    output = gd.ImageOutput(scale=-1)
    expected = []
    with GStreamer("videotestsrc num-buffers=7 pattern=ball ! video/x-raw,format=RGBA") as source:
        delegate = gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True), context=source.context)
        network = gd.Interpreter(
            model_content=negated((1, 20, 32, 3)), experimental_delegates=[delegate]
        )
        pipeline = f"video/x-raw,format=RGBA ! filesink location={raw}"
        with GStreamerSink(pipeline, source, (20, 32)) as sink:
            for frame in source:
                picture = sink.picture()
                delegate.bind_texture_to_tensor(0, frame.textures, transform=transform)
                delegate.bind_texture_to_tensor(1, picture.texture, transform=output)
                network.allocate_tensors()
                run = network.invoke_async(wait_for=frame.ready)
                expected.append(transform.apply(frame.pixels[..., :3], (20, 32))[0])
                frame.close(after=run)
                picture.push(run)
            sink.finish()
        delegate.close()
    actual = np.frombuffer(raw.read_bytes(), np.uint8).reshape(count, 20, 32, 4)
    assert np.abs(actual[..., :3] - 255 * np.array(expected)).max() <= 1
    assert np.ptp(actual.astype(int), axis=0).max() > 50  # the ball moves


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("nonsense ! fakesink", 'no element "nonsense"'),
        ("filesink location=/none/x", "failed .*/none/x"),
        ("filesink location=/dev/full", "No space left"),
    ],
)
def test_sinks_that_do_not_work(pipeline: str, message: str) -> None:
    def play() -> None:
        with GStreamerSink(pipeline, source, (64, 64), rate=25) as sink:
            for _ in range(9):
                sink.picture().push(Late())
            sink.finish()

    with GStreamer(COLORS.format(2, "RGBA")) as source, pytest.raises(OSError, match=message):
        play()


def test_a_sink_that_is_left_in_the_middle() -> None:
    with GStreamer(COLORS.format(2, "RGBA")) as source:
        sink = GStreamerSink("fakesink", source, (64, 64))
        picture = sink.picture()
        sink.picture().push(Late())
        sink.close()
        sink.close()
        for call in (sink.picture, sink.finish, lambda: picture.push(Late())):
            with pytest.raises(ValueError, match="the pipeline 'fakesink' is closed"):
                call()
