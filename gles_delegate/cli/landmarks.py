"""``gles-delegate run`` with a bundle: points of faces, hands or bodies in a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gles_delegate.cli import common
from gles_delegate.cli.tensor_files import opened
from gles_delegate.image.pictures import converted
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.tasks.image import Image, ImageFormat
from gles_delegate.tasks.options import BaseOptions, VisionTaskRunningMode
from gles_delegate.tasks.vision.bundles import make_landmarker, points_of
from gles_delegate.vision.drawing import Drawing


def require_none(*options: Any) -> None:
    """Raise `click.UsageError` for options that bundles do not have."""
    if any(option is not None for option in options):
        raise common.wrong_usage("expected only --input and --output for a bundle")


def run_bundle(
    model: Path,
    kind: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    options: GpuDelegateOptions,
    as_json: bool,
) -> None:
    """Find objects of a kind in a picture, list them, and draw them into a picture."""
    if len(inputs) != 1 or len(outputs) > 1:
        raise common.wrong_usage(
            f"expected --input PICTURE, and at most one --output PICTURE, for a bundle of a {kind} "
            f"landmarker, found {len(inputs)} and {len(outputs)}"
        )
    with opened(Path(inputs[0])) as file:
        pixels = converted(file, "RGB")
    picture = Image(ImageFormat.SRGB, np.asarray(pixels))
    base = BaseOptions(model, gpu_options=options)
    with make_landmarker(kind, base, VisionTaskRunningMode.IMAGE) as landmarker:
        result = landmarker.detect(picture)
        device = landmarker.report.device
    if outputs:
        drawing = Drawing(picture.size)
        result.draw(drawing)
        drawing.on_picture(pixels).save(outputs[0])
    objects = [
        {"points": [[p.x * picture.width, p.y * picture.height, p.z * picture.width] for p in each]}
        for each in points_of(kind, result)
    ]
    if kind == "hand":
        for row, (side,) in zip(objects, result.handedness, strict=True):
            row |= {"side": side.category_name, "score": side.score}
    if as_json:
        saved = outputs[0] if outputs else None
        common.print_json({"kind": kind, "device": device, "objects": objects, "file": saved})
        return
    print(f"{len(objects)} {kind}{'s' * (len(objects) != 1)} on {device}")
    if objects:
        common.print_table([summary(row) for row in objects])
    for saved in outputs:
        print(saved)


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the table: the number of points, and their box in pixels."""
    at = np.array(row["points"])[:, :2]
    box = np.concatenate([at.min(0), at.max(0)]).round(1).tolist()
    return {"points": len(at), "box": box, **{k: v for k, v in row.items() if k != "points"}}
