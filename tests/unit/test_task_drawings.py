"""Lines, styles and drawings of MediaPipe's names."""

from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gles_apps.tasks as mp
from gles_apps.tasks import vision
from gles_apps.tasks.components.containers import DetectionResult, NormalizedLandmark
from gles_apps.tasks.vision import drawing_styles, drawing_utils
from gles_apps.tasks.vision.drawing_utils import DrawingSpec, draw_points
from gles_apps.tasks.vision.image_segmenter import require_colors
from gles_apps.vision.detection import Detection
from gles_apps.vision.drawing import Drawing, Strokes, Text, text_extent
from gles_apps.vision.triangles import face_triangles
from gles_delegate.image.output import ImageOutput

FACE, HAND = vision.FaceLandmarksConnections, vision.HandLandmarksConnections


def pairs(lines: Any) -> list[tuple[int, int]]:
    return [(line.start, line.end) for line in lines]


def test_the_tesselation_is_mediapipes() -> None:
    """2556 lines in the order of FACE_LANDMARKS_TESSELATION; the eyes are holes."""
    lines = pairs(FACE.FACE_LANDMARKS_TESSELATION)
    assert lines[:3] == [(127, 34), (34, 139), (139, 127)]
    assert sha256(repr(lines).encode()).hexdigest()[:16] == "09eec0844e26b41a"
    triangles = face_triangles()
    assert triangles.shape == (852, 3)
    assert set(triangles.ravel().tolist()) == set(range(468))
    sides = Counter(frozenset(line) for line in lines)
    assert set(sides.values()) == {1, 2}
    borders = {frozenset(line) for line in pairs(FACE.FACE_LANDMARKS_FACE_OVAL)}
    assert borders <= {side for side, count in sides.items() if count == 1}


def test_fingers_and_the_palm_are_the_hand() -> None:
    parts = [value for name, value in vars(HAND).items() if name.endswith("_CONNECTIONS")]
    *some, whole = map(pairs, parts)
    assert len(some) == 6
    assert [line for part in some for line in part] == whole
    assert pairs(HAND.HAND_PINKY_FINGER_CONNECTIONS) == [(17, 18), (18, 19), (19, 20)]


@pytest.mark.parametrize("name", drawing_styles.__all__)
def test_styles_have_all_points_and_lines(name: str) -> None:
    style = getattr(drawing_styles, name)()
    if isinstance(style, DrawingSpec):
        assert style == DrawingSpec((128, 128, 128), 1)
        return
    of = {
        "get_default_face_mesh_contours_style": pairs(FACE.FACE_LANDMARKS_CONTOURS),
        "get_default_face_mesh_iris_connections_style": pairs(
            FACE.FACE_LANDMARKS_LEFT_IRIS + FACE.FACE_LANDMARKS_RIGHT_IRIS
        ),
        "get_default_hand_connections_style": pairs(HAND.HAND_CONNECTIONS),
        "get_default_hand_landmarks_style": list(range(21)),
        "get_default_pose_landmarks_style": list(range(33)),
    }
    assert set(style) == set(of[name])


def test_colors_of_styles() -> None:
    """From MediaPipe's drawing_styles.py."""
    hand = drawing_styles.get_default_hand_landmarks_style()
    assert hand[vision.HandLandmark.THUMB_CMC] == DrawingSpec((48, 48, 255), -1, 5)
    assert hand[vision.HandLandmark.THUMB_MCP] == DrawingSpec((180, 229, 255), -1, 5)
    assert hand[vision.HandLandmark.RING_FINGER_PIP].color == (48, 255, 48)
    body = drawing_styles.get_default_pose_landmarks_style()
    colors = [body[getattr(vision.PoseLandmark, name)].color for name in ("NOSE", "MOUTH_LEFT")]
    assert colors == [(224, 224, 224), (0, 138, 255)]
    assert body[vision.PoseLandmark.RIGHT_HEEL].color == (231, 217, 0)
    other = drawing_styles.get_default_face_mesh_contours_style(1)
    assert other[168, 6] == DrawingSpec((0, 204, 255), 2)
    lines = drawing_styles.get_default_hand_connections_style()
    assert (lines[0, 17].thickness, lines[5, 6].color) == (3, (128, 64, 128))


def test_points_are_red_in_the_order_of_opencv() -> None:
    pytest.importorskip("PIL")
    image = np.zeros((40, 40, 3), np.uint8)
    drawing_utils.draw_landmarks(image, [NormalizedLandmark(0.5, 0.5)])
    assert image[20, 20].tolist() == [0, 0, 255]


def test_axes_are_where_a_pinhole_camera_sees_them() -> None:
    """An object at (0.2, 0.1, -2), turned by 90 degrees about z: its x is up, its y is left."""
    pytest.importorskip("PIL")
    image = np.zeros((200, 300, 3), np.uint8)
    turn = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]])
    drawing_utils.draw_axis(image, turn, np.array([0.2, 0.1, -2]), (2.0, 3.0), axis_length=0.4)

    def pixel(x: float, y: float, z: float) -> tuple[int, int]:
        across, up = -2 * x / z, -3 * y / z
        return round((1 - up) / 2 * 200), round((1 + across) / 2 * 300)

    middles = {(0.2, 0.3, -2): (0, 0, 255), (0.0, 0.1, -2): (0, 128, 0)}
    for (x, y, z), color in middles.items():
        row, column = pixel(x, y, z)
        assert color in map(tuple, image[row - 1 : row + 2, column - 1 : column + 2].reshape(-1, 3))
    painted = np.argwhere(image.any(2))
    top, left = pixel(0.2, 0.5, -2)[0], pixel(-0.2, 0.1, -2)[1]
    assert np.abs(painted.min(0) - (top, left)).max() <= 2
    with pytest.raises(ValueError, match="expected a picture"):
        drawing_utils.draw_axis(image[..., 0], turn, np.zeros(3))


def test_points_are_plotted_in_space(monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    shown: list[Any] = []
    monkeypatch.setattr(plt, "show", lambda: shown.extend(plt.gcf().axes))
    hidden = NormalizedLandmark(0.1, 0.1, 0, visibility=0.2)
    points = [NormalizedLandmark(0.2, 0.3, 0.4), NormalizedLandmark(0.6, 0.5, -0.1), hidden]
    drawing_utils.plot_landmarks(points, [(0, 1), (1, 2)])
    (axes,) = shown
    first, second = axes.lines
    np.testing.assert_allclose(first.get_data_3d(), [[-0.4, 0.1], [0.2, 0.6], [-0.3, -0.5]])
    assert np.isnan(second.get_data_3d()[1][1])
    assert axes.collections[0].get_facecolor()[0].tolist() == [1, 0, 0, 1]
    with pytest.raises(ValueError, match="expected points 0 to 2"):
        drawing_utils.plot_landmarks(points, [(0, 3)])
    plt.close("all")


def test_a_face_has_a_mesh_contours_and_rings_around_the_irises() -> None:
    points = np.random.default_rng(0).uniform(0.3, 0.7, (478, 2))
    turn = np.arange(4) * np.pi / 2 + 0.4
    points[469:473] = [0.4, 0.5] + 0.05 * np.stack([np.cos(turn), -np.sin(turn)], 1)
    face = [NormalizedLandmark(x, y) for x, y in points.tolist()]
    drawing = Drawing((500, 500))
    vision.FaceLandmarkerResult([face], [], []).draw(drawing)
    mesh, contours, right, _left = (item for item in drawing.items if isinstance(item, Strokes))
    assert mesh.width < contours.width
    sides = {frozenset((line.start, line.end)) for line in FACE.FACE_LANDMARKS_TESSELATION}
    assert len(mesh.ends) == len(sides)
    at = {tuple(point) for point in (500 * points).astype(np.float32).tolist()}
    assert all(tuple(end) in at for end in mesh.ends.reshape(-1, 2).tolist())
    assert len(contours.ends) == len(FACE.FACE_LANDMARKS_CONTOURS)
    assert np.hypot(*(right.ends[:, :2] - [200, 250]).T) == pytest.approx(25, abs=1e-3)
    vision.FaceLandmarkerResult([face[:468]], [], []).draw(drawing := Drawing((500, 500)))
    assert len(drawing.items) == 2


def legend(mask: Any, labels: Any = ()) -> list[str]:
    category = mp.Image(mp.ImageFormat.GRAY8, mask)
    drawing = Drawing((90, 120))
    vision.ImageSegmenterResult(category_mask=category, labels=labels).draw(drawing)
    return [item.text for item in drawing.items if isinstance(item, Text)]


def test_legends_of_masks() -> None:
    """Without labels they have numbers; the only class of a network is 0."""
    pytest.importorskip("PIL")
    many = np.array([[0, 2], [7, 2]], np.uint8)
    assert legend(many) == ["class 2", "class 7"]
    assert legend(many, ["background", "a", "b"]) == ["b", "class 7"]
    assert legend(np.array([[0, 255]], np.uint8), ["person"]) == ["person"]
    assert legend(np.full((2, 2), 255, np.uint8), ["person"]) == []
    with pytest.raises(ValueError, match="set output_category_mask"):
        vision.ImageSegmenterResult().draw(Drawing((9, 9)))


def test_textures_of_many_classes_need_a_palette() -> None:
    require_colors(4, ImageOutput())
    require_colors(21, ImageOutput(palette=[(i, 0, 0, 255) for i in range(21)]))
    for count in (0, 4):
        colors = [(i, 0, 0, 255) for i in range(count)]
        with pytest.raises(ValueError, match=f"5 or more colors, .* found {count} colors"):
            require_colors(5, ImageOutput(palette=colors or None))


def test_an_object_of_hidden_points_draws_nothing() -> None:
    pictures = pytest.importorskip("PIL.Image")
    drawing = Drawing((40, 40))
    hidden = [NormalizedLandmark(0.5, 0.5, visibility=0.0)] * 4
    for points in (hidden, []):
        draw_points(drawing, points, [], points=(255, 0, 0))
    drawing_utils.draw_ring(drawing, hidden, range(4), (255, 0, 0))
    black = pictures.fromarray(np.zeros((40, 40, 3), np.uint8))
    assert not np.asarray(drawing.on_picture(black)).any()


@pytest.mark.parametrize(("side", "width"), [(0.01, 0.9), (0.5, 1.5), (2, 6)])
def test_lines_of_large_objects_are_wider(side: float, width: float) -> None:
    """1.5 pixels for an object of 200; hidden points do not count."""
    points = [NormalizedLandmark(0, 0), NormalizedLandmark(side, side / 2)]
    points.append(NormalizedLandmark(9, 9, visibility=0.0))
    drawing = Drawing((400, 400))
    draw_points(drawing, points, [(0, 1)], points=(255, 0, 0))
    lines, discs = (item for item in drawing.items if isinstance(item, Strokes))
    assert (lines.width, discs.width) == pytest.approx((width, width * 5 / 3))


@pytest.mark.parametrize(("width", "size"), [(0.01, 14), (0.07, 19), (0.5, 28), (np.nan, 14)])
def test_labels_fit_their_boxes_where_they_are_legible(width: float, size: int) -> None:
    pytest.importorskip("PIL")
    drawing = Drawing((720, 1280))
    drawing.detection(Detection((0.2, 0.2, 0.2 + width, 0.4), 0.9), "dog", (255, 0, 0))
    (text,) = [item for item in drawing.items if isinstance(item, Text)]
    assert (text.size, drawing.font_size) == (size, 28)
    assert size != 19 or text_extent(text.text, size)[0] < width * 1280


@pytest.mark.parametrize(
    ("picture", "found"),
    [
        ("x.jpg", r"found 'x.jpg': open the file with PIL\.Image\.open"),
        (Path("x.jpg"), r"open the file with PIL\.Image\.open"),
        (np.array(["x"]), r"found <U1 \[1\]"),
        (np.zeros((3, 3, 3, 3)), r"found float64 \[3, 3, 3, 3\]"),
    ],
)
def test_what_is_no_picture_is_not_drawn_on(picture: Any, found: str) -> None:
    pytest.importorskip("PIL")
    with pytest.raises(ValueError, match=f"expected an Image, .*{found}$"):
        DetectionResult([]).draw_on(picture)
