"""Boxes of detected objects."""

import itertools
import random
from collections.abc import Iterator

import numpy as np
from flatbuffers import flexbuffers

from tests.op_table.base import Attributes, Op, each
from tests.support.sketch import Sketch
from tests.support.tflite_builder import quantization

SUPPRESSION = ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")


def post_process(
    s: Sketch,
    op: str,
    boxes: int,
    labels: int,
    most: int = 8,
    ranks: int = 1,
    background: int = 1,
    regular: bool = False,
    each: int = 3,
    least: float = 0.3,
    overlap: float = 0.5,
    levels: int = 0,
    depth: int = 4,
    dtype: str = "float32",
) -> list[int]:
    """``levels``: of the scores, so that some are equal; ``depth``: numbers of an encoding."""
    corners = s.rng.uniform(0, 1, (boxes, 2))
    anchors = np.concatenate([corners, s.rng.uniform(0.2, 0.6, (boxes, 2))], 1)
    scores = s.rng.uniform(0, 1, (1, boxes, labels + background))
    if levels:
        scores = np.floor(scores * levels) / levels
    encodings = s.normal((1, boxes, depth))
    inputs = [
        numbers(s, encodings, dtype, 0.02, 128),
        numbers(s, scores, dtype, 1 / 256, 0),
        numbers(s, anchors, dtype, 1 / 200, 3, constant=True),
    ]
    options = flexbuffers.Dumps(
        dict(
            max_detections=most, max_classes_per_detection=ranks, num_classes=labels,
            detections_per_class=each, use_regular_nms=regular, nms_score_threshold=least,
            nms_iou_threshold=overlap, y_scale=10.0, x_scale=9.0, h_scale=5.0, w_scale=4.0,
        )
    )  # fmt: skip
    selected, classes, values, count = (s.tensor() for _ in range(4))
    s.op(op, inputs, [selected, classes, values, count], custom_options=options)
    # LiteRT leaves what follows the last one as it was.
    per_box = 1 if regular else ranks
    place = np.arange(most * ranks, dtype=np.float32)
    written = np.where(place % per_box < labels, place // per_box, most * ranks)[np.newaxis]
    outputs = []
    for tensor in (selected, classes, values):
        mask, result = s.tensor(dtype="bool"), s.tensor()
        places = np.float32(written[..., np.newaxis] if tensor == selected else written)
        s.op("LESS", [s.constant(places), count], [mask])
        s.op("SELECT_V2", [mask, tensor, s.constant(np.float32(0))], [result])
        outputs.append(result)
    return [*outputs, count]


def numbers(
    s: Sketch, values: np.ndarray, dtype: str, scale: float, zero: int, constant: bool = False
) -> int:
    options = None
    if dtype != "float32":
        options = quantization(scale, zero)
        values = np.clip(np.round(values / scale) + zero, 0, 255)
    values = np.asarray(values, dtype)
    if constant:
        return s.constant(values, quantization=options)
    s.feeds.append(values)
    return s.input(values.shape, dtype, quantization=options)


def post_process_cases() -> Iterator[Attributes]:
    for regular, background in itertools.product((False, True), (0, 1)):
        yield dict(boxes=40, labels=5, regular=regular, background=background)
        yield dict(boxes=7, labels=1, regular=regular, background=background, ranks=2)
        yield dict(boxes=30, labels=6, regular=regular, background=background, levels=3)
        yield dict(boxes=21, labels=4, regular=regular, background=background, dtype="uint8")
    for ranks, labels in ((2, 5), (3, 3), (4, 6), (5, 3), (9, 12)):
        yield dict(boxes=33, labels=labels, ranks=ranks, least=0.0)
        yield dict(boxes=33, labels=labels, ranks=ranks, least=0.0, levels=3)
    for overlap in (0.05, 0.9, 1.0):
        yield dict(boxes=50, labels=3, overlap=overlap, most=30)
        yield dict(boxes=50, labels=3, overlap=overlap, most=30, each=20, regular=True)
    for least in (-1.0, 0.95, 2.0):
        yield dict(boxes=20, labels=2, least=least)
        yield dict(boxes=20, labels=2, least=least, regular=True)
    for times in (1, 100):
        yield dict(boxes=40, labels=3, each=times, regular=True, most=20)
    yield dict(boxes=1, labels=1)
    yield dict(boxes=9, labels=2, depth=8)
    yield dict(boxes=9, labels=2, most=1)
    yield dict(boxes=2500, labels=3, most=40)
    yield dict(boxes=700, labels=140, most=20, regular=True)


def post_process_random(rng: random.Random) -> Attributes:
    return dict(
        boxes=rng.randint(1, 60), labels=rng.randint(1, 8), most=rng.randint(1, 12),
        ranks=rng.randint(1, 4), background=rng.randint(0, 1), regular=rng.random() < 0.5,
        each=rng.randint(1, 6), least=rng.choice((0.0, 0.5)), overlap=rng.choice((0.2, 0.7)),
        levels=rng.choice((0, 5)),
    )  # fmt: skip


def suppression(
    s: Sketch,
    op: str,
    boxes: int,
    most: int = 6,
    least: float = 0.2,
    overlap: float = 0.5,
    sigma: float = 0.0,
    flat: bool = False,
    runtime: tuple[int, ...] = (),
) -> list[int]:
    """``flat``: the best boxes have no area; ``runtime``: which scalars a run computes."""
    corners = s.rng.uniform(0, 1, (boxes, 4))
    scores = s.rng.permutation(np.linspace(0, 1, boxes))
    if flat:
        corners[scores > 0.7, 2:] = corners[scores > 0.7, :2]
    inputs = [s.feed(values=corners), s.feed(values=scores)]
    scalars = {2: np.int32(most), 3: np.float32(overlap), 4: np.float32(least)}
    if op == SUPPRESSION[1]:
        scalars[5] = np.float32(sigma)
    for i, value in scalars.items():
        dtype = "int32" if i == 2 else "float32"
        inputs.append(s.feed(values=value, dtype=dtype) if i in runtime else s.constant(value))
    outputs = [s.tensor(dtype="int32"), s.tensor(dtype="int32")]
    if op == SUPPRESSION[1]:
        outputs.insert(1, s.tensor())
    s.op(op, inputs, outputs)
    return outputs


def suppression_cases() -> Iterator[Attributes]:
    for boxes, most in ((1, 1), (3, 5), (40, 10), (40, 1), (40, 0), (41, 41), (1500, 30)):
        yield dict(boxes=boxes, most=most)
    for overlap in (0.0, 0.1, 1.0, 1.5):
        yield dict(boxes=40, overlap=overlap, most=30)
    yield from each(dict(boxes=20), least=(float("-inf"), 0.0, 0.9, 1.0))
    yield dict(boxes=20, flat=True, most=8)
    yield dict(boxes=20, flat=True, most=30, least=0.8)
    yield from each(dict(boxes=20), runtime=((2,), (3,), (4,), (3, 4)))


def soft_cases() -> Iterator[Attributes]:
    yield from suppression_cases()
    yield from each(dict(boxes=30, most=20), sigma=(0.1, 0.5, 3.0), overlap=(0.3, 1.0, 1.5))
    yield dict(boxes=20, sigma=0.5, runtime=(5,), overlap=0.8)
    yield dict(boxes=20, sigma=0.5, flat=True, overlap=0.8)


def suppression_random(rng: random.Random) -> Attributes:
    return dict(
        boxes=rng.randint(1, 50), most=rng.randint(0, 20), overlap=rng.choice((0.2, 0.7, 1.0)),
        least=rng.choice((0.0, 0.5)), sigma=rng.choice((0.0, 0.5)),
    )  # fmt: skip


OPS: dict[str, Op] = {
    "TFLite_Detection_PostProcess": Op(post_process, post_process_cases, post_process_random),
    SUPPRESSION[0]: Op(suppression, suppression_cases, suppression_random),
    SUPPRESSION[1]: Op(suppression, soft_cases, suppression_random),
}
