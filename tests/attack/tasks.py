"""Tasks: calls from several threads, in streams, closed halfway, copied, dropped; bundles that are
damaged, of other networks, or whose networks return hard values."""

import copy
import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import gles_apps.tasks as mp
import gles_delegate as gd
from gles_apps.tasks import vision
from gles_apps.tasks.components import containers
from tests.attack.decoders import hardened
from tests.attack.workers import Outcome
from tests.support.bundles import aligned_bundle
from tests.support.fake_networks import (
    BUNDLES,
    NETWORKS,
    GestureNetworks,
    fake_bundle,
    fake_network,
    holistic_bundle,
    plausible,
)

BALL = Path(__file__).parents[2] / "examples" / "models" / "ball_segmenter.tflite"
MODES = vision.RunningMode
SHAPES = (
    (180, 320, 3), (1, 1, 3), (3, 700, 3), (500, 2, 4), (64, 64, 4), (77, 33, 3), (1, 17000, 3),
)  # fmt: skip
REFUSALS = (gd.DelegateError, ValueError, TypeError, OSError)
"""Documented errors; RuntimeError only with our sentence."""
LANDMARKERS: dict[str, tuple[Any, Any, str | None]] = {
    "face": (vision.FaceLandmarker, vision.FaceLandmarkerOptions, "num_faces"),
    "hand": (vision.HandLandmarker, vision.HandLandmarkerOptions, "num_hands"),
    "pose": (vision.PoseLandmarker, vision.PoseLandmarkerOptions, "num_poses"),
    "gesture": (vision.GestureRecognizer, vision.GestureRecognizerOptions, "num_hands"),
    "holistic": (vision.HolisticLandmarker, vision.HolisticLandmarkerOptions, None),
}
RAISED = (ValueError, SystemExit, KeyboardInterrupt, GeneratorExit)


def run_tasks(_: bytes, seed: int) -> Outcome:
    """Each call has its picture's result or a documented error; none hangs; all can be closed."""
    logging.disable()
    rng = np.random.default_rng(seed)
    faults: list[str] = []
    try:
        (attack_calls, attack_bundle, attack_networks)[seed % 3](rng, faults)
    except BaseException as error:
        faults.append(repr(error))
    return Outcome("wrong", text="; ".join(faults)) if faults else Outcome("result")


@cache
def pictures() -> list[tuple[mp.Image, NDArray[Any]]]:
    """Pictures and their masks."""
    rng = np.random.default_rng(0)
    formats = {3: mp.ImageFormat.SRGB, 4: mp.ImageFormat.SRGBA}
    images = [
        mp.Image(formats[shape[2]], rng.integers(0, 256, shape, np.uint8)) for shape in SHAPES
    ]
    with vision.ImageSegmenter.create_from_model_path(BALL) as segmenter:
        return [(image, _mask(segmenter.segment(image))) for image in images]


def _mask(result: vision.ImageSegmenterResult) -> NDArray[Any]:
    (mask,) = result.confidence_masks or ()
    return mask.numpy_view()


def attack_calls(rng: Generator, faults: list[str]) -> None:
    """Up to four threads call a task in any mode, rightly and wrongly, while one may close it."""
    known = pictures()
    mode = list(MODES)[rng.integers(3)]
    by_image = {id(image): mask for image, mask in known}
    times: list[int] = []

    def answer(result: vision.ImageSegmenterResult, image: mp.Image, time: int) -> None:
        times.append(time)
        if not np.array_equal(_mask(result), by_image[id(image)]):
            faults.append("a stream's result is another picture's")
        choice = chosen.random()
        if choice < 0.1:
            raise chosen.choice(RAISED)
        if choice < 0.15:
            task.close()
        if choice > 0.7:
            with suppress(ValueError):
                task.segment_async(image, next(clock))

    def film() -> None:
        """A camera's thread, which ends when the task refuses a frame."""
        while True:
            try:
                task.segment_async(known[0][0], next(clock))
            except ValueError as error:
                if "increasing" not in str(error):
                    return
            time.sleep(1e-3)

    chosen = random.Random(int(rng.integers(1 << 30)))
    options = vision.ImageSegmenterOptions(
        mp.BaseOptions(BALL),
        running_mode=mode,
        result_callback=answer if mode == MODES.LIVE_STREAM else None,
    )
    task = vision.ImageSegmenter(options)
    other = vision.ImageSegmenter.create_from_model_path(BALL)
    vision.ImageSegmenter.create_from_model_path(BALL)  # dropped
    clock = iter(range(10**6))

    def work(choose: random.Random) -> None:
        for _ in range(choose.randint(1, 12)):
            image, mask = choose.choice(known)
            calls: list[Callable[[], Any]] = [
                lambda: task.segment(image),  # noqa: B023 -- called in this round
                lambda: task.segment_for_video(image, next(clock)),  # noqa: B023
                lambda: task.segment_async(image, next(clock)),  # noqa: B023
                lambda: task.segment(image, _processing(choose)),  # noqa: B023
                lambda: task.segment(choose.choice([None, 3, np.zeros((4, 4, 3))])),  # type: ignore[arg-type]
                task.close,
                copy.copy(task).close,
            ]
            weights = [8, 8, 8, 2, 1, 0.2, 0.1]
            (i,) = choose.choices(range(len(calls)), weights)
            try:
                result = calls[i]()
            except REFUSALS:
                continue
            except BaseException as error:
                faults.append(f"call {i}: {error!r}")
                continue
            if i < 2 and not np.array_equal(_mask(result), mask):
                faults.append("a result is another picture's")

    threads = [
        threading.Thread(target=work, args=(random.Random(int(rng.integers(1 << 30))),))
        for _ in range(rng.integers(1, 5))
    ]
    films = rng.random() < 0.5
    camera = threading.Thread(target=film, daemon=True)
    for thread in [*threads, *[camera] * films]:
        thread.start()
    for thread in threads:
        thread.join()
    task.close()
    if films:
        camera.join(30)
        if camera.is_alive():
            faults.append("a closed task takes frames")
    with suppress(ValueError):
        task.segment(known[0][0])
        faults.append("a closed task takes calls")
    image, mask = known[0]
    if not np.array_equal(_mask(other.segment(image)), mask):
        faults.append("another task's result is wrong")
    other.close()
    if times != sorted(times):
        faults.append("a stream's results are out of order")


def _processing(choose: random.Random) -> vision.ImageProcessingOptions:
    sides = [choose.choice([0, 0.25, 0.5, 1, 1.5, -1, float("nan")]) for _ in range(4)]
    region = containers.RectF(*sides) if choose.random() < 0.7 else None
    return vision.ImageProcessingOptions(region, choose.choice([0, 90, -270, 45, 10**9]))


def attack_bundle(rng: Generator, faults: list[str]) -> None:
    """A bundle with another network, a missing file or damaged bytes is refused, or works."""
    kind = list(BUNDLES)[rng.integers(3)]
    names = [*NETWORKS, "labels.txt", "../x", "/"]
    files = {
        str(rng.choice([name, *names], p=[0.7, *[0.3 / len(names)] * len(names)])): fake_network(
            NETWORKS[other][0], plausible(other, rng)
        )
        for name in BUNDLES[kind]
        for other in [str(rng.choice([name, *NETWORKS], p=[0.7, *[0.3 / 7] * 7]))]
    }
    if rng.random() < 0.3:
        files["geometry_pipeline_metadata_landmarks.binarypb"] = rng.bytes(int(rng.integers(200)))
    data = bytearray(aligned_bundle(**files))
    if rng.random() < 0.5:
        for i in rng.integers(0, len(data), rng.integers(1, 30)):
            data[i] = rng.integers(256)
    if rng.random() < 0.2:
        del data[rng.integers(len(data)) :]
    _look(kind, bytes(data), rng, faults)


def attack_networks(rng: Generator, faults: list[str]) -> None:
    """Networks that return hard values: objects are finite."""
    kind = [*BUNDLES, "holistic"][rng.integers(4)]
    share = float(rng.choice([0, 1e-4, 1e-2, 0.5]))
    names = BUNDLES.get(kind, NETWORKS)
    changed = {
        name: [hardened(rng, array, share) for array in plausible(name, rng)] for name in names
    }
    if kind == "holistic":
        _look(kind, holistic_bundle(rng, **changed), rng, faults)
    else:
        _look(kind, fake_bundle(kind, rng, **changed), rng, faults)


def _look(kind: str, bundle: bytes, rng: Generator, faults: list[str]) -> None:
    """Run a landmarker on a few frames, and check what it returns."""
    if kind == "hand" and rng.random() < 0.5:
        kind = "gesture"
        bundle = GestureNetworks.drawn(rng, "canned", "custom").bundle(bundle)
    task, options, most = LANDMARKERS[kind]
    named: dict[str, Any] = {}
    if most is not None:
        named[most] = int(rng.integers(-1, 4))
    if kind == "face":
        named["output_facial_transformation_matrixes"] = bool(rng.integers(2))
    if kind == "pose":
        named["output_segmentation_masks"] = bool(rng.integers(2))
    if kind == "holistic":
        named["output_segmentation_mask"] = bool(rng.integers(2))
        named["output_face_blendshapes"] = bool(rng.integers(2))
    mode = [MODES.IMAGE, MODES.VIDEO][rng.integers(2)]
    try:
        base = mp.BaseOptions(model_asset_buffer=bundle)
        with task(options(base, running_mode=mode, **named)) as landmarker:
            for time in range(3):
                image, _ = pictures()[rng.integers(len(SHAPES))]
                if mode == MODES.VIDEO:
                    result = landmarker.process_frame(image, time * 33)
                else:
                    result = landmarker.process(image)
                if most is None:
                    result = single(result)
                _check(result, max(named.get(most, 1), 0), faults)
    except REFUSALS:
        return
    except RuntimeError as error:
        if "expected" not in str(error):
            faults.append(repr(error))


def single(result: Any) -> Any:
    """A result of one object as lists of objects."""
    parts = {name: [value] for name, value in vars(result).items() if isinstance(value, list)}
    return SimpleNamespace(**parts)


def _check(result: Any, most: int, faults: list[str]) -> None:
    for name, values in vars(result).items():
        if not isinstance(values, list):
            continue
        if len(values) > most:
            faults.append(f"{name}: {len(values)} objects, wanted {most}")
        for points in values:
            if name == "gestures" and not np.isfinite([each.score for each in points]).all():
                faults.append(f"gestures: {points}")
            if name.endswith("landmarks") and "world" not in name:
                at = np.array([(p.x, p.y, p.z) for p in points])
                if not np.isfinite(at).all():
                    faults.append(f"{name}: not finite")
