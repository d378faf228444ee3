"""Pillow's pictures as inputs of models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from gles_delegate.image.transform import ImageTransform
from gles_delegate.model.files import read_regular
from gles_delegate.model.graph import Array
from gles_delegate.support.optional import pillow

if TYPE_CHECKING:
    from PIL.Image import Image

PICTURES = "[1, height, width] or [1, height, width, 1, 3 or 4]"
"""Shapes of tensors that may be pictures."""


def picture_mode(shape: Sequence[int]) -> str | None:
    """Pillow's mode for a tensor of this shape; None if it cannot be a picture."""
    if len(shape) not in (3, 4) or shape[0] != 1:
        return None
    return {1: "L", 3: "RGB", 4: "RGBA"}.get(shape[3] if len(shape) == 4 else 1)


def channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape [1, 3, height, width] as [1, height, width, 3]; others stay as they are."""
    if len(shape) == 4 and shape[1] == 3 and min(shape[2:]) > 4:
        return (shape[0], *shape[2:], 3)
    return tuple(shape)


def load(source: bytes | str | os.PathLike[str], formats: Sequence[str] | None = None) -> Image:
    """The pixels of a picture file, or of the bytes of one, to be `converted`.

    `formats` are Pillow's names of those that are accepted; None: all. Raises OSError if it cannot
    be read, or is damaged.
    """
    pictures = pillow()
    # Of a path, Pillow maps some files, and then loses the EXIF data of TIFF.
    content = source if isinstance(source, bytes) else read_regular(source)
    try:
        picture: Image = pictures.open(BytesIO(content), formats=formats)
        picture.load()
        return picture
    except Exception as error:  # decoders raise any error
        reason = str(error) or type(error).__name__
        if isinstance(error, pictures.UnidentifiedImageError):  # its text has an object's address
            reason = "expected a picture, found bytes of another kind"
        raise OSError(reason) from error


def converted(picture: Image, mode: str) -> Image:
    """A picture in one of Pillow's 8-bit modes, rotated and flipped according to its EXIF data.

    16-bit pictures keep the upper 8 bits: Pillow itself turns gray values above 255 into white.
    Raises OSError for other 32-bit integers and floats, whose range is unknown.
    """
    from PIL import Image as Pictures
    from PIL import ImageOps

    is_pgm = picture.format == "PPM"  # of 16 bits, which Pillow stores in 32
    with suppress(Exception):  # damaged EXIF data
        picture = ImageOps.exif_transpose(picture)
    if picture.mode.startswith("I;16") or (picture.mode == "I" and is_pgm):
        picture = Pictures.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
    elif picture.mode in ("I", "F"):
        kind = "32-bit integers" if picture.mode == "I" else "floats"
        raise OSError(
            f"expected a picture with 8 or 16 bits per channel, found {kind}; save it with 8 bits"
        )
    return picture.convert(mode)


def as_tensor(picture: Image, details: dict[str, Any], transform: ImageTransform) -> Array:
    """A picture as a model's input of a shape in `PICTURES`, by a transform. A fourth channel sees
    the picture's alpha, or 0 if it has none.

    `details` are the input's from `get_input_details`. Raises OSError as `converted` does.
    """
    shape = tuple(int(size) for size in details["shape"])
    mode = picture_mode(shape)
    assert mode is not None
    if transform.channels == "rgba" and not picture.has_transparency_data:
        transform = replace(transform, channels="rgb0")
    pixels, dtype = np.asarray(converted(picture, mode)), np.dtype(details["dtype"]).name
    pair = details["quantization"]
    size = (shape[1], shape[2])
    return transform.apply(pixels, size, dtype=dtype, quantization=pair).reshape(shape)
