"""The Python of the README and of docs/, run as readers meet it.

    python -m tests.support.snippets PAGE [SECTION]

runs the blocks of a page one after the other in the same namespace, in the current folder. With a
section, it runs the blocks before the first section and of this one, `NOT_RUN` or not. `PREPARED`
gives them what readers have: files, pixels, a camera.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from textwrap import dedent
from types import CodeType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np

from gles_delegate.model.metadata import Metadata, TensorMetadata
from tests.support.bundles import aligned_bundle
from tests.support.fake_networks import (
    GestureNetworks,
    fake_bundle,
    fake_network,
    holistic_bundle,
    last_channel,
)
from tests.support.tflite_builder import ModelBuilder

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "examples/notebook.md",
    *sorted(f"docs/{path.name}" for path in ROOT.glob("docs/*.md")),
)

NOT_RUN = {
    ("docs/own-network.md", "import tensorflow as tf"): "TensorFlow is not installed for tests",
    ("docs/own-network.md", "import litert_torch"): "nor is PyTorch",
    ("docs/own-network.md", "from ai_edge_quantizer"): "nor is the quantizer",
    ("docs/ray.md", "import ray"): "takes every processor; tests/ray runs it",
    ("docs/ray.md", "from ray import serve"): "serves for ever; tests/ray has services that end",
}
"""Why a block is not run, by its page and the beginning of its text."""

EACH_SECTION = ("docs/toolkits.md",)
"""Pages whose sections have a process each: toolkits do not bear one another."""

Names = dict[str, Any]
Preparation = Callable[[Names], Iterator[None] | None]
PREPARED: dict[tuple[str, str], Preparation] = {}
"""Preparations for a block, by its page and the beginning of its text.

What follows the ``yield`` of one checks the names when all blocks have run.
"""


@dataclass(frozen=True)
class Snippet:
    """A block of a page.

    Attributes:
        section: The last heading of the second level before it; "" if there is none.
        line: Where it begins in its page.
    """

    page: str
    section: str
    line: int
    code: str

    def is_any_of(self, known: Any) -> Any:
        """The entry of `known` for it, by page and beginning, or None."""
        keys = (k for k in known if k[0] == self.page and self.code.startswith(k[1]))
        return next(keys, None)

    def compiled(self) -> CodeType:
        """With the lines of the page."""
        return compile("\n" * self.line + self.code, str(ROOT / self.page), "exec")


@cache
def snippets(page: str) -> tuple[Snippet, ...]:
    """The blocks of Python of a page."""
    text = (ROOT / page).read_text("utf-8")
    python = r"^ *```python(?: title=[^\n]*| exec=[^\n]*)?\n(?P<code>.*?)^ *```$"
    parts = rf"^## (?P<section>[^\n]*)$|{python}|^ *```.*?^ *```$"
    result, section = [], ""
    for match in re.finditer(parts, text, re.MULTILINE | re.DOTALL):
        section = match["section"] or section
        if match["code"]:
            line = text.count("\n", 0, match.start()) + 1
            result.append(Snippet(page, section, line, dedent(match["code"]).rstrip("\n")))
    return tuple(result)


def units() -> Iterator[tuple[str, str]]:
    """Pages that have something to run, each with "", or with each of its sections."""
    for page in PAGES:
        run = [s for s in snippets(page) if not s.is_any_of(NOT_RUN)]
        if page in EACH_SECTION:
            yield from (
                (page, section) for section in dict.fromkeys(s.section for s in run) if section
            )
        elif run:
            yield page, ""


def run(page: str, section: str) -> None:
    """Run the blocks of a page, or of a section of it and what comes before all sections."""
    names: Names = {"__name__": "__main__"}
    checks: list[Iterator[None]] = []
    for model, make in MODELS.items():
        Path(model).write_bytes(make())
    Path("examples").symlink_to(ROOT / "examples")
    for snippet in snippets(page):
        is_wanted = snippet.section in ("", section) if section else not snippet.is_any_of(NOT_RUN)
        if not is_wanted:
            continue
        prepare = snippet.is_any_of(PREPARED)
        if prepare is not None and (check := PREPARED[prepare](names)):
            next(check)
            checks.append(check)
        exec(snippet.compiled(), names)
    for check in checks:
        next(check, None)


def run_apart(page: str, section: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`run` in a process of its own, in this folder."""
    return subprocess.run(
        [sys.executable, "-m", "tests.support.snippets", page, section],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def before(page: str, beginning: str) -> Callable[[Preparation], Preparation]:
    """Decorate what is done before a block."""

    def keep(prepare: Preparation) -> Preparation:
        PREPARED[page, beginning] = prepare
        return prepare

    return keep


def classifier() -> bytes:
    """[1, 224, 224, 3] "image" to [1, 1001] "scores", with metadata."""
    sys.path.insert(0, str(ROOT / "examples"))
    import tflite_writer as t

    labels = [f"class {i}" for i in range(1001)]
    labels[286] = "Egyptian cat"
    about = t.Description("a", "b", "c", ("image", ""), ("scores", ""), 127.5, 127.5, labels)
    w = t.TfliteWriter()
    x = w.tensor("image", (1, 224, 224, 3))
    axes = w.constant("axes", np.array([1, 2]))
    weights = w.constant("weights", np.eye(1001, 3))
    bias = w.constant("bias", np.zeros(1001))
    mean = w.operator("MEAN", [x, axes], w.tensor("mean", (1, 3)), t.tfl.ReducerOptionsT())
    options = t.tfl.FullyConnectedOptionsT()
    y = w.operator("FULLY_CONNECTED", [mean, weights, bias], w.tensor("y", (1, 1001)), options)
    softmax = t.tfl.SoftmaxOptionsT(beta=1.0)
    scores = w.operator("SOFTMAX", [y], w.tensor("scores", (1, 1001)), softmax)
    return bytes(w.finish(x, scores, about, ""))


def segmenter() -> bytes:
    """[1, 256, 256, 3] to [1, 256, 256, 1]: which pixels are bright."""
    b = ModelBuilder()
    axes = b.constant(np.array([3], np.int32))
    y = b.op("MEAN", [b.input((1, 256, 256, 3)), axes], [(1, 256, 256, 1)], keep_dims=True)
    y = b.op("SUB", [y, b.constant(np.full(1, 0.4, np.float32))], [(1, 256, 256, 1)])
    return b.build([b.op("LOGISTIC", [y], [(1, 256, 256, 1)])])


def negative(size: tuple[int, int], channels: int) -> bytes:
    b = ModelBuilder()
    shape = (1, *size, channels)
    return b.build([b.op("NEG", [b.input(shape)], [shape])])


def face_detector() -> bytes:
    """[1, 128, 128, 3] to one face in the middle of the picture: boxes and scores."""
    boxes, scores = np.zeros((1, 896, 16)), np.full((1, 896, 1), -9.0)
    boxes[..., 2:4] = 40
    boxes[..., 6] = 9  # the eyes are apart
    scores[0, 238] = 9  # in the middle
    return fake_network(128, [boxes, scores], ["regressors", "classificators"], share=0)


def face_landmarks() -> bytes:
    """[1, 192, 192, 3] to points in a square around the middle of the region."""
    points = np.full((468, 3), 96.0)
    points[::2, :2] -= 40
    points[1::3, 0] += 40
    points[33, :2], points[263, :2] = (70, 90), (120, 90)
    outputs = [points.reshape(1, 1, 1, -1), np.ones((1, 1, 1))]
    return fake_network(192, outputs, ["points", "flag"], share=0)


def face_bundle() -> bytes:
    networks = ("face_detector.tflite", "face_landmarks_detector.tflite")
    return aligned_bundle(**dict(zip(networks, (face_detector(), face_landmarks()), strict=True)))


def gestures() -> bytes:
    rng = np.random.default_rng(0)
    return GestureNetworks.drawn(rng, "canned").bundle(fake_bundle("hand", rng))


MODELS = {
    "blaze_face_short_range.tflite": face_detector,
    "face_detection_front.tflite": face_detector,
    "face_detection_short_range.tflite": face_detector,
    "face_landmarker.task": face_bundle,
    "hand_landmarker.task": lambda: fake_bundle("hand", np.random.default_rng(0)),
    "face_landmark.tflite": face_landmarks,
    "model.tflite": classifier,
    "mobilenet_v2.tflite": classifier,
    "mobilenet_v2_1.0_224_quant.tflite": classifier,
    "selfie_segmenter.tflite": segmenter,
    "pose_landmarker_lite.task": lambda: fake_bundle("pose", np.random.default_rng(0)),
    "gesture_recognizer.task": gestures,
    "holistic_landmarker.task": lambda: holistic_bundle(np.random.default_rng(0)),
    "efficientdet_lite0.tflite": (ROOT / "examples/models/digit_detector.tflite").read_bytes,
    "efficientnet_lite0.tflite": classifier,
    "mobilenet_v3_small.tflite": classifier,
    "magic_touch.tflite": last_channel,
    "ball_segmenter.tflite": (ROOT / "examples/models/ball_segmenter.tflite").read_bytes,
}
"""The files that readers have."""


def picture(width: int, height: int, center: tuple[float, float] = (0.3, 0.5)) -> Any:
    """An orange disc before dark blue, RGBA."""
    y, x = np.indices((height, width))
    pixels = np.full((height, width, 4), (40, 90, 100, 255), np.uint8)
    is_near = (x - width * center[0]) ** 2 + (y - height * center[1]) ** 2 < (height / 5) ** 2
    pixels[is_near] = (255, 140, 25, 255)
    return pixels


def save(name: str) -> None:
    """A picture of 320 x 200 pixels without alpha."""
    from PIL import Image

    Image.fromarray(picture(320, 200)[..., :3]).save(name)


def save_video(names: Names) -> None:
    from tests.support.example import write_video

    write_video(Path("video.mp4"), picture(320, 200)[..., :3])


@before("docs/camera.md", "import moderngl")
@before("docs/first-hour.md", "import moderngl")
def _(names: Names) -> Iterator[None]:
    import gles_apps.live

    frame = picture(1280, 720)
    camera = SimpleNamespace(size=frame.shape[:2], read=lambda: frame)
    gles_apps.live.Camera = lambda name: camera  # type: ignore[assignment, misc]
    yield
    check_drawn(names["ctx"].framebuffer([names["mask"]]))


@before("docs/camera-app.md", "from pathlib import Path\nfrom gles_apps.live import (")
def _(names: Names) -> Iterator[None]:
    from PIL import Image

    save("face.jpg")
    yield
    stages = {"read", "upload", "ball_segmenter", "wait", "draw", "write", "frame"}
    assert names["app"].timings.milliseconds.keys() == stages
    drawn = np.asarray(Image.open("masked.png").convert("RGB"))
    assert 0.9 < (drawn == (32, 64, 96)).all(axis=-1).mean() < 0.97  # the rest is the ball


@before("docs/first-hour.md", "import numpy")
def _(names: Names) -> Iterator[None]:
    yield
    check_classes(names["result"], 10)


before("docs/instead-of.md", "import av")(save_video)


def save_pictures() -> None:
    Path("pictures").mkdir()
    for i in range(3):
        save(f"pictures/{i}.jpg")


@before("docs/ray.md", "from pathlib import Path")
def _(names: Names) -> Iterator[None]:
    save_pictures()
    yield
    results = names["results"]["results"]
    assert [len(rows) for rows in results] == [5] * 3
    assert all(np.diff([row["score"] for row in rows]).max() <= 0 for rows in results)


@before("docs/ray.md", "import ray")
def _(names: Names) -> Iterator[None]:
    import pyarrow.parquet as pq

    save_pictures()
    yield
    rows = pq.read_table("results").to_pylist()
    assert sorted(Path(row["path"]).name for row in rows) == ["0.jpg", "1.jpg", "2.jpg"]
    assert [len(row["results"]) for row in rows] == [5] * len(rows) != []


@before(
    "docs/tasks.md", "import gles_apps.tasks as mp\nfrom gles_apps.tasks import vision\n\npicture"
)
def _(names: Names) -> Iterator[None]:
    import moderngl

    Path("selfie_segmenter.tflite").write_bytes(MODELS["ball_segmenter.tflite"]())
    save("face.jpg")
    names["frames"] = [picture(320, 200)[..., :3]] * 3
    names["ctx"] = moderngl.create_context(standalone=True, backend="egl")
    names["texture"] = names["ctx"].texture((320, 200), 4, picture(320, 200).tobytes())
    yield
    assert [len(face) for face in names["result"].face_landmarks] == [468]
    names["landmarker"].close()


@before("docs/ci.md", "import numpy")
def _(names: Names) -> Iterator[None]:
    yield
    names["test_the_model_runs_on_the_gpu"]()


@before("docs/porting.md", "import numpy")
def _(names: Names) -> Iterator[None]:
    save("cat.jpg")
    yield
    assert len(names["best"]) == 5
    assert names["mesh"].points.shape == (468, 3)
    assert np.ptp(names["mesh"].points[:, 0]) > 50


@before("docs/porting.md", "from gles_apps.vision import FACE\n")
def _(names: Names) -> None:
    import moderngl

    from gles_apps.vision import FACE

    (face,) = names["found"]
    assert abs(face.box[0] + face.box[2] - 1) < 0.2
    names["ctx"] = moderngl.create_context(standalone=True, backend="egl")
    names["frame"] = names["ctx"].texture((1280, 720), 4)
    names["camera"] = [picture(1280, 720).tobytes()] * 2
    names["region"] = FACE.detected.of_detection(face, (720, 1280))


def check_classes(scores: Any, classes: int = 1001) -> None:
    assert scores.shape == (classes,)
    assert abs(scores.sum() - 1) < 1e-3
    assert np.ptp(scores) > 0


@before("docs/camera.md", "features = ctx.buffer")
def _(names: Names) -> Iterator[None]:
    names |= {"pixels": 4 * 6, "channels": 7, "bottleneck": 1, "style": 0}
    for delegate, model in (("first", "predictor"), ("second", "transfer")):
        in_the_app(names, delegate, model, negative((4, 6), 7))
    array = np.random.default_rng(0).random((1, 4, 6, 7), np.float32)
    names["predictor"].set_tensor(0, array)
    yield
    np.testing.assert_array_equal(names["transfer"].get_tensor(1), array)


@before("docs/camera.md", "region = ctx.buffer")
def _(names: Names) -> Iterator[None]:
    from gles_delegate import ImageTransform
    from tests.gl.test_regions import detector

    names |= {"seen": 1, "matrix": 6, "crop": 0}
    in_the_app(names, "detector", "find", detector())
    in_the_app(names, "landmarks", "track", negative((9, 11), 3))
    yield
    rows = names["find"].get_tensor(names["matrix"]).reshape(2, 3).tolist()
    expected = -ImageTransform(matrix=rows).apply(picture(1280, 720), (9, 11))
    np.testing.assert_allclose(names["track"].get_tensor(1), expected, atol=1e-4)
    assert np.ptp(expected) > 0.1


def in_the_app(names: Names, delegate: str, interpreter: str, content: bytes) -> None:
    """A delegate in the page's context and an interpreter, under these names."""
    from gles_delegate import GpuDelegate, Interpreter

    names[delegate] = made = GpuDelegate(context=names["ctx"])
    names[interpreter] = Interpreter(model_content=content, experimental_delegates=[made])
    names[interpreter].allocate_tensors()


@before("docs/camera.md", "from gles_apps.live import GStreamer")
def _(names: Names) -> Iterator[None]:
    save_video(names)
    yield
    assert names["logits"].shape[1:] == (896, 1)


@before("docs/camera.md", "# request is a CompletedRequest")
def _(names: Names) -> Iterator[None]:
    """A file stands for the dma-buf of a picture of 64x48 pixels."""
    import moderngl
    import pytest

    from gles_delegate.gl.egl import current_context
    from tests.gl.test_dmabuf import file_of, planes_of
    from tests.support.dmabufs import Dmabufs

    ctx: moderngl.Context = names["ctx"]
    app: Any = SimpleNamespace(
        texture=lambda plane: ctx.texture(
            plane.shape[1::-1], plane.shape[2], plane.tobytes(), alignment=1
        ),
        egl=SimpleNamespace(handle=current_context()),
    )
    names["emulated"] = Dmabufs(app, pytest.MonkeyPatch())
    names["file"], _ = file_of(planes_of("YUV420", 48, 64), 64)
    layout = SimpleNamespace(size=SimpleNamespace(width=64, height=48), stride=64)
    stream = SimpleNamespace(configuration=layout)
    plane = SimpleNamespace(fd=names["file"].fileno())
    buffer = Mock(planes=[plane])
    names["request"] = Mock()
    names["request"].picam2.stream_map = {"main": stream}
    names["request"].request.buffers = Mock(__getitem__=lambda buffers, key: buffer)
    names["pictures"] = None
    in_the_app(names, "delegate", "interpreter", negative((4, 6), 3))
    yield
    assert names["emulated"].imports == 3
    assert np.ptp(names["run"].get_tensor(1)) > 0.1
    names["request"].release.assert_called_once()


@before("docs/camera.md", "beside = gd.EglContext")
def _(names: Names) -> None:
    names["run"] = None


@before("docs/camera.md", "from contextlib import suppress")
def _(names: Names) -> Iterator[None]:
    import gles_delegate as gd

    delegate = gd.GpuDelegate()
    interpreter = gd.Interpreter("model.tflite", experimental_delegates=[delegate])
    interpreter.invoke = lost = Mock(side_effect=gd.ContextLostError)  # type: ignore[method-assign]
    names |= {"delegate": delegate, "interpreter": interpreter}
    yield
    lost.assert_called_once()
    assert names["delegate"].report.summary


def check_drawn(framebuffer: Any) -> None:
    """Part of a picture is drawn, part is not."""
    pixels = np.frombuffer(framebuffer.read(components=4), np.uint8)
    assert np.ptp(pixels.reshape(-1, 4), axis=0).max() > 50


@before("docs/vision.md", "from gles_apps.vision import (\n    FACE,\n    FACE_DETECTOR")
def _(names: Names) -> None:
    shapes: dict[str, tuple[tuple[int, ...], ...]] = {
        "detector": ((1, 896, 16), (1, 896, 1)),
        "landmarks": ((1, 1, 1, 1404), (1, 1, 1, 1)),
        "movenet": ((1, 1, 17, 3),),
    }
    sizes = {"detector": 128, "landmarks": 192, "movenet": 192}

    def run(network: str, array: Any) -> Any:
        assert array.shape == (1, sizes[network], sizes[network], 3)
        outputs = [np.zeros(shape, np.float32) for shape in shapes[network]]
        if network == "detector":
            outputs[0][..., 2:4] = 40
            outputs[0][..., 6] = 9  # the eyes are not in the same place
            outputs[1][:] = -9
            outputs[1][0, 500] = 9
        return outputs if len(outputs) > 1 else outputs[0]

    names |= {"run": run, **{network: network for network in shapes}}
    names["pixels"] = np.zeros((300, 400, 3), np.uint8)
    names["frames"] = [(names["pixels"], 1 / 30)] * 2


@before("docs/vision.md", "from PIL import Image")
def _(names: Names) -> Iterator[None]:
    from PIL import Image

    names["hand"] = np.random.default_rng(0).random((21, 3)) * (640, 480, 1)
    yield
    drawn = names["painter"].pixels().astype(int)
    assert np.ptp(drawn, axis=(0, 1)).min() > 200
    with Image.open("hand.png") as picture:
        assert np.abs(drawn - np.asarray(picture)).mean() < 3
    shown = np.frombuffer(names["screen"].read(), np.uint8).reshape(480, 640, 3)
    np.testing.assert_array_equal(shown[::-1], drawn)  # a window's first row is the lowest


@before("docs/notebook.md", "from PIL import Image")
def _(names: Names) -> Iterator[None]:
    yield  # a small part of the picture is the ball, without doubt
    assert 0.01 < (names["ball"] > 0.9).mean() < 0.2
    assert (names["ball"] < 0.1).mean() > 0.8


@before("examples/notebook.md", "import gles_apps.tasks as mp\nfrom gles_apps.tasks")
def _(names: Names) -> Iterator[None]:
    yield
    assert names["boxes"].size == names["picture"].size[::-1]
    labels = sorted(row["label"] for row in names["rows"])
    assert labels == [*"00122334578899"]  # those of the picture
    assert names["mask"].size == (512, 144)
    assert 0.01 < (names["ball"] > 0.9).mean() < 0.2
    assert [len(points) for points in names["faces"].face_landmarks] == [
        468
    ]  # of the page's bundle
    drawn = np.asarray(names["mesh"]) != names["photograph"].numpy_view()
    assert drawn.any(axis=-1).mean() > 0.001
    assert min(names["times"].values()) > 0
    assert names["difference"] < 1e-5
    assert len(names["devices"]) >= 1


@before("docs/vision.md", "from gles_apps.vision import find_detector")
def _(names: Names) -> None:
    names["outputs"] = names["run"]("detector", np.zeros((1, 128, 128, 3)))
    shapes = [{"shape": np.array(array.shape)} for array in names["outputs"]]
    inputs = [{"shape": np.array((1, 128, 128, 3))}]
    names["interpreter"] = Mock(
        get_input_details=lambda: inputs,
        get_output_details=lambda: shapes,
        metadata=Metadata(outputs=(TensorMetadata(),) * 2),
    )


def save_detector() -> None:
    from tests.support.yolo import found_in, yolo_model

    yolo_model(Path("yolo11n.tflite"), found_in(), task="detect", names=["cat", "dog"])


@before("docs/vision.md", "import gles_delegate as gd\nfrom gles_apps.vision import Yolo")
def _(names: Names) -> Iterator[None]:
    save_detector()
    yield
    assert names["labels"][names["found"].class_index] == "dog"
    np.testing.assert_allclose(names["box"], (10 / 64, 6 / 48, 50 / 64, 36 / 48), atol=1e-6)


@before(
    "docs/tasks.md",
    "import gles_apps.tasks as mp\nfrom gles_apps.tasks import vision\n\noptions = vision.Object",
)
def _(names: Names) -> Iterator[None]:
    save_detector()
    save("street.jpg")
    yield
    assert names["found"].categories[0].category_name == "dog"


@before("docs/threads.md", "with interpreter.exclusive")
def _(names: Names) -> Iterator[None]:
    from gles_delegate import GpuDelegate, GpuDelegateOptions, Interpreter

    delegate = GpuDelegate(GpuDelegateOptions(own_thread=True))
    interpreter = Interpreter("model.tflite", experimental_delegates=[delegate])
    names["interpreter"] = interpreter
    interpreter.allocate_tensors()
    names["image"] = interpreter.get_input_details()[0]["index"]
    names["scores"] = interpreter.get_output_details()[0]["index"]
    names["pixels"] = np.zeros((1, 224, 224, 3), np.float32)
    yield
    delegate.close()


@before("docs/threads.md", "import asyncio")
def _(names: Names) -> Iterator[None]:
    names["pixels"] = picture(224, 224)[np.newaxis, ..., :3].astype(np.float32) / 255
    yield
    check_classes(names["result"][0])
    names["delegate"].close()


@before("docs/threads.md", "context = gd.EglContext()")
def _(names: Names) -> None:
    import gles_delegate

    names["gd"] = gles_delegate


@before("docs/toolkits.md", "import moderngl")
def _(names: Names) -> Iterator[None]:
    """What a section draws of a few of the camera's pictures is compared when it has ended."""
    pictures = [*islice(names["camera"], 0, 15, 5)]
    drawn: list[tuple[Any, Any]] = []

    def camera() -> Iterator[Any]:
        network = names["Network"]
        draw = network.draw

        def draw_and_read(self: Any, pixels: Any, screen: Any) -> None:
            draw(self, pixels, screen)
            shown = np.frombuffer(screen.read((256, 144), components=4), np.uint8)
            # A window's first row is the lowest.
            drawn.append((pixels, shown.reshape(144, 256, 4)[::-1]))

        network.draw = draw_and_read
        yield from pictures
        if "GL" in names:
            gl = names["GL"]
            shown = gl.glReadPixels(0, 0, 256, 144, gl.GL_RGBA, gl.GL_UNSIGNED_BYTE)
            drawn.append((pictures[-1], np.frombuffer(shown, np.uint8).reshape(144, 256, 4)))

    names["camera"] = camera()
    yield
    if "drawn" in names:
        drawn.append((pictures[-1], names["drawn"]))
    assert drawn or "read" in names
    contexts = [network.ctx for _, network in names.get("windows", ())]
    assert len(set(map(id, contexts))) == len(contexts)
    for pixels, mask in drawn:
        difference = np.abs(mask[..., :3].astype(int) - ball_mask(pixels))
        assert difference.max() <= 1, f"{np.count_nonzero(difference > 1)} differ"


def ball_mask(pixels: Any) -> Any:
    """The colors that the sections of docs/toolkits.md draw, by LiteRT on the CPU."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter("examples/models/ball_segmenter.tflite")
    interpreter.allocate_tensors()
    (image,), (scores,) = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.set_tensor(
        image["index"], pixels[np.newaxis, ..., :3].astype(np.float32) / 127.5 - 1
    )
    interpreter.invoke()
    is_ball = interpreter.get_tensor(scores["index"])[0] > 0.5
    assert 0.03 < is_ball.mean() < 0.1
    return is_ball * np.array((0, 90, 255))


@before("docs/toolkits.md", 'import os\n\nos.environ["KIVY_NO_ARGS"]')
def _(names: Names) -> None:
    os.environ["KIVY_HOME"] = str(Path("kivy").absolute())  # which it fills with settings and logs


@before("docs/toolkits.md", "egl = gd.EglContext()")
def _(names: Names) -> Iterator[None]:
    yield
    np.testing.assert_array_equal(names["read"], np.asarray(names["still"]))


if __name__ == "__main__":
    run(sys.argv[1], *sys.argv[2:], *[""][len(sys.argv) - 2 :])
