"""MediaPipe's ops for landmarks, which nothing in LiteRT has, against the same in numpy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from numpy.typing import NDArray
from PIL import Image

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from tests.support.oracle import WHOLE, assert_close, in_litert, in_ours, run_delegated, run_gles
from tests.support.pairwise import pairwise
from tests.support.sketch import Dims, Sketch

Floats = NDArray[np.floating[Any]]
HOSTS = (run_gles, run_delegated)
Host = Callable[..., list[NDArray[Any]]]


def check(s: Sketch, output: int, expected: Floats, host: Host) -> None:
    assert_close(host(s.build([output]), s.feeds), [expected.astype(np.float32)])


def transform_matrix(x: Floats, options: dict[str, Any]) -> Floats:
    left, right = (x[0, options[f"{side}_rotation_idx"], :2] for side in ("left", "right"))
    across = right - left
    angle = options["target_rotation_radians"] - np.arctan2(across[1], across[0])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turned = x[0, options["subset_idxs"], :2] @ turn.T
    low, high = turned.min(0), turned.max(0)
    crop = np.array([options["output_width"], options["output_height"]], float)
    scale = (high - low) * (options["scale_x"], options["scale_y"]) / crop
    matrix = np.eye(4)
    matrix[:2, :2] = turn.T * scale
    matrix[:2, 3] = turn.T @ ((low + high) / 2) - matrix[:2, :2] @ crop / 2
    return matrix[np.newaxis]


def matrix_model(x: Floats, **changes: Any) -> tuple[Sketch, int, dict[str, Any]]:
    options = dict(
        subset_idxs=[4, 0, 9, 3, 7], left_rotation_idx=2, right_rotation_idx=8,
        target_rotation_radians=0.0, output_height=16, output_width=20, scale_x=1.5, scale_y=1.25,
    ) | changes  # fmt: skip
    s = Sketch(np.random.default_rng(0))
    feed, data = s.feed(values=x), flexbuffers.Dumps(options)
    matrix = s.op("Landmarks2TransformMatrix", [feed], [(1, 4, 4)], version=2, custom_options=data)
    return s, matrix, options


@pairwise(subset=[[1], [4, 0, 9, 3, 7], [*range(10)]], angle=[0.0, 0.5, -3.0], host=HOSTS)
def test_landmarks_to_transform_matrix(subset: list[int], angle: float, host: Host) -> None:
    for seed in range(4):
        x = np.random.default_rng(seed).uniform(0, 192, (1, 10, 3)).astype(np.float32)
        changes = {"subset_idxs": subset, "target_rotation_radians": angle}
        s, matrix, options = matrix_model(x, **changes)
        check(s, matrix, transform_matrix(x.astype(float), options), host)


@pytest.mark.parametrize("right", [[0, 0], [5, 0], [-5, 0], [0, 5], [0, -5]], ids=str)
def test_lines_along_axes_and_of_no_length(right: list[int]) -> None:
    x = np.random.default_rng(0).uniform(0, 9, (1, 10, 3)).astype(np.float32)
    x[0, 8, :2] = x[0, 2, :2] + right
    s, matrix, options = matrix_model(x)
    check(s, matrix, transform_matrix(x.astype(float), options), run_gles)


@pytest.mark.parametrize(
    "changes",
    [
        {"subset_idxs": [10]},
        {"subset_idxs": []},
        {"left_rotation_idx": -1},
        {"output_width": 0},
        {"scale_y": 0.0},
    ],
    ids=str,
)
def test_other_options_are_refused(changes: dict[str, Any]) -> None:
    s, matrix, _ = matrix_model(np.zeros((1, 10, 3), np.float32), **changes)
    assert lower_graph(read_model(s.build([matrix])), Limits()).reasons


def moved_landmarks(shape: Dims) -> tuple[Sketch, int, Floats]:
    s = Sketch(np.random.default_rng(0))
    inputs = [s.feed(shape, scale=9), s.feed((1, 4, 4))]
    x, (matrix,) = (feed.astype(float) for feed in s.feeds)
    expected = x.copy()
    expected[..., :2] = x[..., :2] @ matrix[:2, :2].T + matrix[:2, 3]
    return s, s.op("TransformLandmarks", inputs, [shape], version=2), expected


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("shape", [(1, 1, 2), (1, 7, 2), (1, 80, 3)])
def test_transform_landmarks(shape: Dims, host: Host) -> None:
    check(*moved_landmarks(shape), host)


def crop(x: Floats, matrix: Floats, height: int, width: int) -> Floats:
    """Both count from the corners of pixels."""
    shift = np.eye(4)
    shift[:2, 3] = 0.5
    whole = np.linalg.inv(shift) @ matrix @ shift
    ys, xs = np.mgrid[:height, :width].reshape(2, -1)
    at = np.stack([xs, ys, np.zeros_like(xs), np.ones_like(xs)], -1) @ whole[:2].T
    last = np.array(x.shape[2:0:-1]) - 1
    low = np.clip(np.floor(at).astype(int), 0, last)
    high, part = np.minimum(low + 1, last), at - low
    result = np.zeros((height * width, x.shape[3]))
    for column, in_x in ((low[:, 0], 1 - part[:, 0]), (high[:, 0], part[:, 0])):
        for row, in_y in ((low[:, 1], 1 - part[:, 1]), (high[:, 1], part[:, 1])):
            result += (in_x * in_y)[:, np.newaxis] * x[0, row, column]
    result[((at < 0) | (at > last)).any(-1)] = 0
    return result.reshape(1, height, width, -1)


def cropped(size: Dims, channels: int, turn: float) -> tuple[Sketch, int, Floats]:
    height, width = size
    s = Sketch(np.random.default_rng(0))
    matrix = np.eye(4)
    matrix[:2, :2] = 1.3 * np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    matrix[:2, 3] = s.rng.uniform(-1, 8, 2)
    inputs = [s.feed((1, 12, 17, channels)), s.feed(values=matrix[np.newaxis])]
    data = flexbuffers.Dumps({"output_height": height, "output_width": width})
    shape = (1, *size, channels)
    y = s.op("TransformTensorBilinear", inputs, [shape], version=2, custom_options=data)
    return s, y, crop(s.feeds[0].astype(float), matrix, height, width)


@pairwise(size=[(1, 1), (16, 16), (5, 9)], channels=[1, 6, 32], host=HOSTS)
def test_transform_tensor_bilinear(size: Dims, channels: int, host: Host) -> None:
    for turn in (0.0, 0.3, 2.0):
        check(*cropped(size, channels, turn), host)


@pytest.mark.parametrize("in_host", [in_ours, in_litert])
def test_attention_mesh(
    in_host: Callable[..., Any],
    real_model: Callable[[str], bytes],
    real_picture: Callable[[str], Path],
) -> None:
    """Lips and eyes, found in crops, lie where the mesh of the whole face has them."""
    content = real_model("face_landmark_with_attention")
    face = Image.open(real_picture("face.jpg")).crop((218, 15, 390, 187)).resize((192, 192))
    with gd.GpuDelegate(WHOLE, model=content) as delegate:
        interpreter = in_host(delegate, content)
        (detail,) = interpreter.get_input_details()
        interpreter.set_tensor(detail["index"], np.asarray(face, np.float32)[np.newaxis] / 255)
        interpreter.invoke()
        actual = {
            detail["name"]: interpreter.get_tensor(detail["index"]).ravel()
            for detail in interpreter.get_output_details()
        }
        assert delegate.report.fully_delegated
    mesh = actual["output_mesh_identity"].reshape(468, 3)[:, :2]
    lips, left, right = (
        actual[f"output_{name}"].reshape(-1, 2) for name in ("lips", "left_eye", "right_eye")
    )
    assert actual["conv_faceflag"] > 5
    # The corners of the mouth and of the eyes, by their numbers in the mesh.
    ours = [lips[0], lips[10], left[0], left[8], right[0], right[8]]
    np.testing.assert_allclose(ours, mesh[[61, 291, 33, 133, 263, 362]], rtol=0, atol=4)
    irises = [actual[f"output_{side}_iris"].reshape(5, 2)[0] for side in ("left", "right")]
    np.testing.assert_allclose(irises, [(69, 94), (116, 91)], rtol=0, atol=3)
