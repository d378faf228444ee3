"""Which regions a tracker looks at, what it keeps, and what it loses."""

from dataclasses import replace

import numpy as np
import pytest

from gles_apps import vision
from gles_apps.vision.holistic import BODY_SMOOTHING
from gles_apps.vision.landmarks import TrackedNetwork, distinct_hands
from gles_apps.vision.regions import Region

PICTURE = (400, 600)


def face_at(x: float, y: float, presence: float = 1.0) -> vision.Landmarks:
    """40 pixels wide."""
    points = np.zeros((468, 3))
    points[:, :2] = (x, y)
    points[33, 0], points[263, 0] = x - 20, x + 20
    return vision.Landmarks(points, presence)


def detected(x: float, y: float, score: float = 0.9) -> vision.Detection:
    """60 pixels wide; its region is half as large again."""
    box = ((x - 30) / 600, (y - 30) / 400, (x + 30) / 600, (y + 30) / 400)
    return vision.Detection(box, score, key_points=((box[0], 0.5), (box[2], 0.5)))


def numbers(tracker: vision.Tracker) -> list[int]:
    return [track.number for track in tracker.objects]


def test_the_detector_runs_only_for_objects_that_are_wanted() -> None:
    start = vision.Tracker(vision.FACE, most=2)
    assert start.needs_detector
    one = start.with_detections([detected(100, 200)], PICTURE)
    assert one.objects[0].region == Region((100, 200), 90, 90)
    assert one.objects[0].landmarks is None
    assert one.needs_detector
    # Another one where the first is, and two elsewhere, of which one is too many.
    again = [detected(105, 200), detected(300, 200), detected(500, 200)]
    two = one.with_detections(again, PICTURE)
    assert numbers(two) == [0, 1]
    assert [track.region.center[0] for track in two.objects] == pytest.approx([105, 300])
    assert not two.needs_detector
    assert numbers(start) == []


def test_regions_follow_landmarks_and_lost_objects_are_replaced() -> None:
    tracker = vision.Tracker(vision.FACE, most=2)
    tracker = tracker.with_detections([detected(100, 200), detected(300, 200)], PICTURE)
    tracker = tracker.with_landmarks([face_at(110, 200), face_at(300, 200, 0.4)], 0.03)
    assert numbers(tracker) == [0]
    assert tracker.objects[0].region.center == pytest.approx((110, 200))
    assert tracker.needs_detector
    tracker = tracker.with_detections([detected(110, 200), detected(300, 200)], PICTURE)
    assert numbers(tracker) == [0, 2]


@pytest.mark.parametrize("network", [vision.FACE, vision.HAND, vision.POSE])
def test_only_the_best_detections_count(network: TrackedNetwork) -> None:
    """Others replace neither a better detection that they overlap, nor a tracked object."""

    def at(x: float, score: float) -> vision.Detection:
        points = tuple((x, 0.5 - 0.02 * i) for i in range(7))
        return vision.Detection((x - 0.05, 0.4, x + 0.05, 0.6), score, key_points=points)

    start, best, beside = vision.Tracker(network), at(0.2, 0.9), at(0.21, 0.6)
    (expected,) = start.with_detections([best], PICTURE).objects
    for others in ([beside], [beside, at(0.8, 0.5)]):
        (seen,) = start.with_detections([best, *others], PICTURE).objects
        assert seen.region == expected.region
    tracked = replace(start, most=2).with_detections([best], PICTURE)
    again = tracked.with_detections([at(0.8, 0.8), at(0.5, 0.7), beside], PICTURE)
    assert again.objects[0].region == expected.region
    assert numbers(again) == [0, 1]


def test_a_tracker_may_take_all_detections() -> None:
    """As MediaPipe's pose landmarker, where a worse body that overlaps replaces the best."""
    start = vision.Tracker(vision.FACE, takes_all=True)
    seen = start.with_detections([detected(100, 200), detected(110, 200, 0.6)], PICTURE)
    assert [track.region.center[0] for track in seen.objects] == pytest.approx([110])


def test_two_tracks_of_the_same_object_become_one() -> None:
    tracker = vision.Tracker(vision.FACE, most=2)
    tracker = tracker.with_detections([detected(100, 200), detected(200, 200)], PICTURE)
    tracker = tracker.with_landmarks([face_at(150, 200), face_at(152, 200)], 0.03)
    assert numbers(tracker) == [0, 1]
    assert not tracker.needs_detector
    tracker = tracker.with_detections([], PICTURE)
    assert numbers(tracker) == [0]
    assert tracker.objects[0].region.center == pytest.approx((152, 200))
    assert tracker.needs_detector


def hand_at(x: float, y: float, presence: float = 1.0) -> vision.Landmarks:
    """21 points in 100 x 80 pixels, with the wrist below."""
    rng = np.random.default_rng(7)
    points = np.column_stack([rng.random((21, 2)) * (100, 80), np.zeros(21)])
    points[[0, 5, 9, 13, 17], :2] = (50, 80), (30, 30), (45, 28), (55, 30), (70, 34)
    return vision.Landmarks(points + np.array([x, y, 0]), presence)


def test_a_hand_that_is_tracked_stays_where_a_detection_overlaps_it() -> None:
    hands = vision.Tracker(vision.HAND, most=2, overlap=0.1, smoothing=None)
    points = tuple((0.5, 0.5 - 0.01 * i) for i in range(7))
    palm = vision.Detection((0.4, 0.4, 0.5, 0.55), 0.9, key_points=points)
    tracked = hands.with_detections([palm], PICTURE).with_landmarks([hand_at(250, 150)], 0.03)
    again = tracked.with_detections([palm], PICTURE)
    assert [track.region for track in again.objects] == [track.region for track in tracked.objects]


def test_hands_that_coincide_are_one() -> None:
    """Ten points close together and boxes that overlap; either alone is not enough."""
    here = hand_at(100, 100)
    apart = hand_at(100, 100)
    apart.points[:12, 0] += 40
    beside = hand_at(185, 100)
    assert distinct_hands([here, hand_at(110, 100), apart, beside]) == [0, 2, 3]
    for close, kept in ((10, [0]), (9, [0, 1])):
        other = hand_at(100, 100)
        other.points[close:, 0] += 40
        assert distinct_hands([here, other]) == kept


def test_a_hand_that_is_nearer_decides_how_close_points_are() -> None:
    """Two guesses at one hand, one of which takes its palm for a quarter as long."""
    here, other = hand_at(100, 100), hand_at(100, 100)
    for index in (0, 5, 17):
        other.points[index, :2] = here.points[0, :2] + (here.points[index, :2] - (150, 180)) / 4
    others = [i for i in range(21) if i not in (0, 5, 17)]
    other.points[others, 0] += 8
    assert distinct_hands([here, other]) == distinct_hands([other, here]) == [0]


def test_the_presence_must_exceed_its_limit() -> None:
    tracker = vision.Tracker(vision.FACE).with_detections([detected(100, 200)], PICTURE)
    assert tracker.with_landmarks([face_at(100, 200, 0.5)], 0.03).needs_detector
    assert not tracker.with_landmarks([face_at(100, 200, 0.51)], 0.03).needs_detector


def test_visibility_and_world_points_are_smoothed() -> None:
    state = vision.Smoothing()
    for visible in (0.0, 1.0):
        body = vision.Landmarks(
            np.zeros((33, 3)), visibility=np.full(33, visible), world=np.full((33, 3), visible)
        )
        smooth, state = state.filtered(body, 0.1, 100)
    np.testing.assert_allclose(smooth.visibility, 0.1)
    assert smooth.world is not None
    assert 0 < smooth.world[0, 0] < 1
    rigid, each = (
        s.filtered(body, 0.1, 100)[0] for s in (state, vision.Smoothing().by_coordinate())
    )
    assert rigid.points.shape == each.points.shape


def test_smoothed_alignment_points_give_the_next_region() -> None:
    points = ((0.5, 0.5), (0.5, 0.4))
    found = vision.Detection((0.4, 0.4, 0.6, 0.6), 0.9, key_points=points)
    regions = []
    for smoothing in (vision.Smoothing(), BODY_SMOOTHING):
        tracker = vision.Tracker(vision.POSE, smoothing=smoothing)
        tracker = tracker.with_detections([found], PICTURE)
        for x in (100.0, 110.0):
            alignment = np.array([(x, 100.0, 0.0), (x, 50.0, 0.0)])
            body = vision.Landmarks(np.zeros((33, 3)), alignment=alignment, world=np.zeros((33, 3)))
            tracker = tracker.with_landmarks([body], 0.03)
        regions.append(tracker.objects[0].region)
    raw, smooth = regions
    assert raw.center == (110, 100)
    assert 100 < smooth.center[0] < 109
    assert smooth.width == pytest.approx(raw.width)


def test_landmarks_that_are_not_finite_are_lost() -> None:
    tracker = vision.Tracker(vision.FACE).with_detections([detected(100, 200)], PICTURE)
    broken = face_at(float("nan"), 200)
    assert tracker.with_landmarks([broken], 0.03).needs_detector
    assert tracker.with_landmarks([face_at(100, 200, float("nan"))], 0.03).needs_detector


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_not_finite_gets_into_no_tracker(number: float) -> None:
    """A box, the key points that give the turn, and the points that give the next region."""
    box, points = (0.4, 0.4, 0.6, 0.6), ((0.4, 0.5), (0.6, 0.5))
    tracker = vision.Tracker(vision.FACE, most=9)
    for broken in (
        vision.Detection((0.4, number, 0.6, 0.6), 0.9, key_points=points),
        vision.Detection((0.4, 0.4, 0.6, number), 0.9, key_points=points),
        vision.Detection(box, 0.9, key_points=((0.4, number), (0.6, 0.5))),
    ):
        assert numbers(tracker.with_detections([broken], PICTURE)) == []
    body = vision.Tracker(vision.POSE).with_detections(
        [vision.Detection(box, 0.9, key_points=points)], PICTURE
    )
    actual = vision.Landmarks(np.ones((33, 3)), alignment=np.full((2, 3), number))
    assert numbers(body.with_landmarks([actual], 0.03)) == []


def test_regions_of_no_size_are_not_looked_at() -> None:
    dot = vision.Detection((0.5, 0.5, 0.5, 0.5), 0.9, key_points=((0.5, 0.5), (0.5, 0.5)))
    tracker = vision.Tracker(vision.FACE, most=2).with_detections([dot], PICTURE)
    assert numbers(tracker) == []
    tracker = tracker.with_detections([detected(100, 200)], PICTURE)
    same = vision.Landmarks(np.full((468, 3), 100.0))
    assert numbers(tracker.with_landmarks([same], 0.03)) == []


def test_near_and_far_objects_are_smoothed_alike() -> None:
    """The same shake, of an object and of one twice as large."""
    rng, shares = np.random.default_rng(0), []
    shake = rng.normal(0, 0.002, (60, 468, 2))
    for size in (1.0, 2.0):
        tracker = vision.Tracker(vision.FACE)
        tracker = tracker.with_detections([detected(300, 200)], PICTURE)
        seen = []
        for noise in shake:
            face = face_at(300 * size, 200 * size)
            face.points[:, :2] += noise * 40 * size
            face.points[33, 0] = 300 * size - 20 * size
            face.points[263, 0] = 300 * size + 20 * size
            tracker = tracker.with_landmarks([face], 1 / 30)
            (track,) = tracker.objects
            assert track.landmarks is not None
            seen.append(track.landmarks.points[5, :2] / size)
        shares.append(np.array(seen))
    near, far = shares
    np.testing.assert_allclose(near, far)
    assert np.std(near[10:], axis=0).max() < 0.7 * 40 * 0.002


def test_one_result_for_each_object() -> None:
    tracker = vision.Tracker(vision.FACE).with_detections([detected(100, 200)], PICTURE)
    with pytest.raises(ValueError, match="of each of 1 objects, found 0"):
        tracker.with_landmarks([], 0.03)


def test_the_likeliest_classes() -> None:
    scores = np.array([[10, 200, 30, 200]], np.uint8)
    names = ["cat", "dog", "bird", "fish"]
    assert vision.top_classes(scores, names, 3) == [("dog", 200), ("fish", 200), ("bird", 30)]
    assert len(vision.top_classes(scores[0], names)) == 4
    for wrong in (scores[:, :3], scores.reshape(2, 2)):
        with pytest.raises(ValueError, match="one for each label"):
            vision.top_classes(wrong, names)
