"""Pillow's pictures as inputs of models."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from gles_delegate.image.transform import ImageTransform
from gles_delegate.model.files import VIDEO, read_regular
from gles_delegate.model.graph import Array
from gles_delegate.support.optional import pillow

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = (
    "BMP", "GIF", "JPEG", "PNG", "PPM", "AVIF", "JPEG2000", "MPO", "TIFF", "WEBP",
)  # fmt: skip
"""Pillow's names of the formats that are read; for others it runs programs, reads slowly, or takes
any bytes for a picture."""

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


class FoundVideo(OSError):
    """What should be a picture is a video."""


def load(source: bytes | str | os.PathLike[str], name: str | None = None) -> Image:
    """The pixels of a picture file, or of the bytes of one, to be `converted`.

    `name` is the file of the bytes, for messages. Raises OSError if it cannot be read, is damaged,
    or not in one of `FORMATS`.
    """
    pillow()  # its error comes before that of a file
    # Of a path, Pillow maps some files, and then loses the EXIF data of TIFF.
    if isinstance(source, bytes):
        content = source
    else:
        content, name = read_regular(source), str(source)
    try:
        picture = opened(content, name)
        picture.load()
        return picture
    except OSError:
        raise
    except Exception as error:  # decoders raise any error
        raise OSError(str(error) or type(error).__name__) from error


def opened(content: bytes, name: str | None = None) -> Image:
    """A picture of which only the header is read.

    `name` is the file of the bytes, for messages. Raises OSError if they are not in one of
    `FORMATS`, and Pillow's errors if they are damaged, or too large.
    """
    pictures = pillow()
    if not content:
        raise OSError("expected a picture, found no bytes: the file is empty")
    pictures.init()
    formats = [each for each in FORMATS if each in pictures.OPEN]
    try:
        picture: Image = pictures.open(BytesIO(content), formats=formats)
        return picture
    except pictures.UnidentifiedImageError as error:  # its text has an object's address
        if re.match(VIDEO, content[:16], re.DOTALL):
            raise FoundVideo("expected a picture, found a video") from error
        kind = _other_format(content, name)
        known = f", {kind}: not one of {', '.join(FORMATS)}" if kind else ""
        raise OSError(f"expected a picture, found bytes of another kind{known}") from error


def picture_suffixes() -> set[str]:
    """The suffixes of files in one of `FORMATS`, in lower case, with their dots."""
    return {s for s, kind in pillow().registered_extensions().items() if kind in FORMATS}


def _other_format(content: bytes, name: str | None) -> str | None:
    """The name of the format of a picture that is not read, by its suffix or its first bytes."""
    pictures = pillow()
    if content[4:11] in (b"ftyphei", b"ftyphev"):
        return "HEIF"
    suffix = os.path.splitext(name or "")[1].lower()
    named = pictures.registered_extensions().get(suffix)
    if named is not None and named not in FORMATS:
        return str(named)
    for kind, (_, accepts) in pictures.OPEN.items():
        with suppress(Exception):  # the bytes may be too few
            if kind not in FORMATS and accepts and accepts(content[:16]) is True:
                return str(kind)
    return None


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
