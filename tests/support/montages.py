"""Pictures of two to four faces, hands or bodies, and what MediaPipe 1.2.3 finds in them.

`python -m tests.support.montages PICTURES MEDIAPIPE` records with an installed mediapipe, with the
folders of GLES_DELEGATE_PICTURES and GLES_DELEGATE_MEDIAPIPE; see CONTRIBUTING.md.
"""

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
RECORDED = Path(__file__).with_name("montages.json")
SIZE, MOST = (480, 640), 4
"""Height and width; and the greatest number of objects."""


@dataclass(frozen=True)
class Kind:
    """Objects of a landmarker.

    Attributes:
        bundle: The file.
        pictures: Their pictures, each with a box (left, top, right, bottom) to take.
        points: The landmarks that are recorded.
        numbers: The montages; results of those with faces differ between overlaps of 0.3 and 0.5.
        streams: Montages in which MediaPipe finds the best object of a video's first frame (faces,
            hands), or one that replaces it (bodies); one object is wanted.
    """

    bundle: str
    pictures: dict[str, tuple[int, int, int, int]]
    points: tuple[int, ...]
    streams: tuple[int, ...]
    numbers: tuple[int, ...] = tuple(range(12))


KINDS = {
    "face": Kind(
        "face_landmarker",
        {"face.jpg": (0, 0, 512, 355)},
        (1, 33, 61, 152, 199, 263, 291),
        (8, 12, 18),
        (8, 12, 18, 37, 45, 47, 54, 81, 91, 109, 119, 246),
    ),
    "hand": Kind(
        "hand_landmarker",
        {
            "call.jpg": (285, 90, 405, 210),
            "four.jpg": (85, 395, 215, 515),
            "rock.jpg": (55, 260, 170, 385),
        },
        (0, 4, 8, 12, 16, 20),
        (0, 1),
    ),
    "pose": Kind(
        "pose_landmarker_lite",
        {
            "call.jpg": (128, 0, 512, 384),
            "face.jpg": (0, 0, 512, 355),
            "four.jpg": (70, 370, 360, 834),
            "rock.jpg": (0, 150, 384, 683),
        },
        (0, 7, 8, 11, 12, 15, 16),
        (0, 1),
    ),
}


def montage(pictures: dict[str, Pixels], number: int) -> Pixels:
    """Pictures at random places of a black one, which may cover each other; resized by taking
    pixels, which every version of every library does alike.
    """
    rng = np.random.default_rng(number)
    canvas = np.zeros((*SIZE, 3), np.uint8)
    names = sorted(pictures)
    for _ in range(int(rng.integers(2, MOST + 1))):
        source = pictures[names[int(rng.integers(len(names)))]]
        height = int(rng.integers(180, 420))
        width = height * source.shape[1] // source.shape[0]
        rows = np.arange(height) * source.shape[0] // height
        columns = np.arange(width) * source.shape[1] // width
        tile = source[rows[:, None], columns[None]]
        if rng.random() < 0.5:
            tile = tile[:, ::-1]
        top, left = int(rng.integers(-40, SIZE[0] - 140)), int(rng.integers(-60, SIZE[1] - 160))
        tile = tile[max(-top, 0) :, max(-left, 0) :]
        top, left = max(top, 0), max(left, 0)
        tile = tile[: SIZE[0] - top, : SIZE[1] - left]
        canvas[top : top + tile.shape[0], left : left + tile.shape[1]] = tile
    return canvas


def montages(
    kind: str, pictures: Path, hands: Path, numbers: tuple[int, ...] | None = None
) -> dict[int, Pixels]:
    """The montages of a kind, or some of them, by number."""
    from PIL import Image

    read = {}
    for name, box in KINDS[kind].pictures.items():
        path = pictures / name
        file = Image.open(path if path.is_file() else hands / name).convert("RGB")
        left, top, right, bottom = box
        read[name] = np.asarray(file)[top:bottom, left:right]
    return {number: montage(read, number) for number in numbers or KINDS[kind].numbers}


def sha256(pixels: Pixels) -> str:
    return hashlib.sha256(pixels.tobytes()).hexdigest()[:16]


def found(mp: Any, kind: str, pixels: Pixels, landmarker: Any) -> list[list[list[float]]]:
    """Points of each object in pixels, to a hundredth."""
    picture = mp.Image(image_format=mp.ImageFormat.SRGB, data=pixels)
    return _points(kind, landmarker.detect(picture))


def found_first(mp: Any, kind: str, pixels: Pixels, bundles: Path) -> list[list[list[float]]]:
    """Points of the one object that is wanted in the first frame of a video."""
    picture = mp.Image(image_format=mp.ImageFormat.SRGB, data=pixels)
    mode = mp.tasks.vision.RunningMode.VIDEO
    with landmarker_of(mp, kind, bundles, 1, running_mode=mode) as landmarker:
        return _points(kind, landmarker.detect_for_video(picture, 0))


def _points(kind: str, result: Any) -> list[list[list[float]]]:
    return [
        [[round(each[i].x * SIZE[1], 2), round(each[i].y * SIZE[0], 2)] for i in KINDS[kind].points]
        for each in getattr(result, f"{kind}_landmarks")
    ]


def landmarker_of(mp: Any, kind: str, bundles: Path, most: int = MOST, **others: Any) -> Any:
    """A landmarker of MediaPipe, or ours, with other options."""
    vision, name = mp.tasks.vision, f"{kind.title()}Landmarker"
    base = mp.tasks.BaseOptions(model_asset_path=str(bundles / f"{KINDS[kind].bundle}.task"))
    options = getattr(vision, f"{name}Options")(
        base_options=base, **{f"num_{kind}s": most}, **others
    )
    return getattr(vision, name).create_from_options(options)


def main(pictures: Path, folder: Path) -> None:
    import mediapipe as mp  # type: ignore[import-not-found]

    recorded: dict[str, Any] = {"mediapipe": mp.__version__, "first": {}}
    bundles, hands = folder / "bundles", folder / "hands"
    for kind in KINDS:
        with landmarker_of(mp, kind, bundles) as landmarker:
            recorded[kind] = [
                {"sha256": sha256(pixels), "objects": found(mp, kind, pixels, landmarker)}
                for pixels in montages(kind, pictures, hands).values()
            ]
        recorded["first"][kind] = [
            {"sha256": sha256(pixels), "objects": found_first(mp, kind, pixels, bundles)}
            for pixels in montages(kind, pictures, hands, KINDS[kind].streams).values()
        ]
    text = json.dumps(recorded, separators=(",", ":"))
    RECORDED.write_text(text.replace('{"sha256"', '\n{"sha256"') + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
