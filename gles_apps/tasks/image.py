"""Pictures for tasks: arrays, files, textures and planes of video."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from gles_delegate import Fence
from gles_delegate.errors import sentence_of
from gles_delegate.image.pictures import converted as converted_picture
from gles_delegate.image.pictures import load as load_picture
from gles_delegate.image.transform import Packed, Siting, Size, Yuv
from gles_delegate.model.graph import Array
from gles_delegate.support.optional import pillow

if TYPE_CHECKING:
    from PIL import Image as Pictures


class ImageFormat(enum.IntEnum):
    """Channels and types of pixels: sRGB and gray of 8 or 16 bits, and one to four floats."""

    UNKNOWN = 0
    SRGB = 1
    SRGBA = 2
    GRAY8 = 3
    GRAY16 = 4
    SRGB48 = 7
    SRGBA64 = 8
    VEC32F1 = 9
    VEC32F2 = 12
    VEC32F4 = 13


class VideoColors(TypedDict):
    """How the planes of a video store colors; see `ImageTransform`."""

    yuv: Yuv
    full_range: bool
    siting: Siting


CHANNELS = {
    "uint8": {ImageFormat.GRAY8: 1, ImageFormat.SRGB: 3, ImageFormat.SRGBA: 4},
    "uint16": {ImageFormat.GRAY16: 1, ImageFormat.SRGB48: 3, ImageFormat.SRGBA64: 4},
    "float32": {ImageFormat.VEC32F1: 1, ImageFormat.VEC32F2: 2, ImageFormat.VEC32F4: 4},
}
"""Channels of each format, by the pixels' type."""


@dataclass(frozen=True, eq=False)
class Planes:
    """Pixels of a picture, in arrays or textures.

    Attributes:
        arrays: Uint8 [height, width, channels] of each plane; none if they are textures.
        textures: A texture of each plane; None if they are arrays.
        options: Fields of `ImageTransform` that belong to the picture.
        fence: After the commands that draw the textures; None: there is none to wait for.
    """

    arrays: tuple[Array, ...] = ()
    textures: tuple[Any, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    fence: Fence | int | None = None


def as_pillow(picture: Any) -> Pictures.Image:
    """Pillow's picture of an `Image`, of Pillow's own, or of uint8 [height, width, channels].

    Raises:
        ValueError: It is none of these.
    """
    pictures = pillow()
    expected = "expected an Image, a picture of Pillow or an array uint8 [height, width, channels]"
    if isinstance(picture, str | bytes | os.PathLike):
        raise ValueError(f"{expected}, found {picture!r}: open the file with PIL.Image.open")
    shown: Pictures.Image = picture
    if not isinstance(picture, pictures.Image):
        array = picture.numpy_view() if isinstance(picture, Image) else np.asarray(picture)
        gray = array.ndim == 3 and array.shape[2] == 1
        try:
            shown = pictures.fromarray(array[..., 0] if gray else array)
        except TypeError as error:
            found = f"{array.dtype} {list(array.shape)}"
            raise ValueError(f"{expected}, found {found}") from error
    return shown


class Image:
    """A picture for a task, or a mask from one. It does not change.

    Args:
        image_format: Of the array: GRAY8, SRGB and SRGBA for uint8; GRAY16, SRGB48 and SRGBA64 for
            uint16; VEC32F1, VEC32F2 and VEC32F4 for float32. Tasks take 8-bit pictures.
        data: [height, width] or [height, width, channels]; it is copied.

    Raises:
        ValueError: The format does not suit the array's type, or there are too few channels.

    Examples:
        >>> picture = mp.Image(mp.ImageFormat.SRGB, np.zeros((480, 640, 3), np.uint8))
        >>> picture.width, picture.height, picture.numpy_view().shape
        (640, 480, (480, 640, 3))
    """

    _row_alignment = 16

    def __init__(self, image_format: ImageFormat, data: Any) -> None:
        array = np.asarray(data)
        if array.ndim not in (2, 3):
            raise ValueError(f"Unsupported number of dimensions:{array.ndim}")
        if 0 in array.shape:
            raise ValueError(f"expected a picture of pixels, found {list(array.shape)}")
        formats = CHANNELS.get(array.dtype.name)
        if formats is None:
            raise ValueError(f"Unsupported numpy data type: {array.dtype}")
        if image_format not in formats:
            names = [each.name for each in formats]
            kind = "float" if array.dtype.kind == "f" else array.dtype.name
            raise ValueError(
                f"Unsupported image format: {ImageFormat(image_format).name} (expected "
                f"{', '.join(names[:-1])}, or {names[-1]} for {kind} data)"
            )
        self._format = ImageFormat(image_format)
        depth = formats[self._format]
        wanted = array.shape[0] * array.shape[1] * depth
        if array.size < wanted:
            raise ValueError(f"Pixel data size is too small: {array.size} (expected {wanted})")
        pixels = array.reshape(*array.shape[:2], -1)
        if pixels.shape[2] != depth:
            raise ValueError(
                f"expected {depth} channels for {self._format.name}, found {pixels.shape[2]}"
            )
        self._set(Planes((pixels.copy(),)))

    def __repr__(self) -> str:
        size = "" if self._size is None else f" {self._size[1]}x{self._size[0]}"
        return f"<Image{size}, {self._format.name}>"

    def _set(self, planes: Planes) -> None:
        for plane in planes.arrays:
            plane.flags.writeable = False
        self.planes = planes
        self._size: Size | None = None
        if planes.arrays:
            self.note_size(*planes.arrays[0].shape[:2])

    @classmethod
    def create_from_file(cls, file_name: str | Path) -> Image:
        """A picture from a file, in SRGB, rotated by its EXIF data.

        The formats are those of every command, which docs/cli.md lists; 16-bit pictures keep the
        upper 8 bits.

        Raises:
            FileNotFoundError: There is no such file.
            RuntimeError: The file cannot be read, is damaged, or has numbers of an unknown range.
            TypeError: `file_name` is not a path.
        """
        path = os.fspath(file_name)
        try:
            image = cls(ImageFormat.SRGB, np.asarray(converted_picture(load_picture(path), "RGB")))
            image._row_alignment = 1
            return image
        except (OSError, ValueError) as error:
            kind = FileNotFoundError if isinstance(error, FileNotFoundError) else RuntimeError
            raise kind(f"Image decoding failed: {sentence_of(error)}") from error

    @classmethod
    def create_from_texture(
        cls, texture: Any, *, flip_y: bool = False, fence: Fence | int | None = None
    ) -> Image:
        """A picture in a texture, which is sampled where it is.

        It belongs to the context that `BaseOptions.context` names or shares with. Do not change it
        before the task has returned, or before the callback of a live stream.

        Args:
            texture: As in `GpuDelegate.bind_texture_to_tensor`, with RGB or RGBA.
            flip_y: Its first row is the bottom one, as in textures drawn by OpenGL.
            fence: After the commands that draw it, in another context; see `Fence`.
        """
        return cls.create_from_planes([texture], flip_y=flip_y, fence=fence)

    @classmethod
    def create_from_planes(
        cls,
        planes: Sequence[Any],
        *,
        yuv: Yuv = "bt601",
        full_range: bool = False,
        siting: Siting = "center",
        packed: Packed | None = None,
        flip_y: bool = False,
        fence: Fence | int | None = None,
    ) -> Image:
        """A picture of video: planes of NV12 (Y, UV) or I420 (Y, U, V), or one of packed bytes.

        Args:
            planes: Arrays of uint8 [height, width] and [height, width, channels], or textures.
            yuv: See `ImageTransform`.
            full_range: Likewise.
            siting: Likewise.
            packed: Likewise.
            flip_y: See `create_from_texture`.
            fence: Likewise.
        """
        image = cls.__new__(cls)
        image._format = ImageFormat.SRGB
        arrays = [plane for plane in planes if isinstance(plane, np.ndarray)]
        if arrays and len(arrays) != len(planes):
            raise ValueError("expected planes that are all arrays or all textures, found both")
        copies = tuple(np.array(a).reshape(*a.shape[:2], -1) for a in arrays)
        if packed is not None and len(copies) == 1 and copies[0].shape[1] % 2 == 0:
            copies = (copies[0].reshape(len(copies[0]), -1, 4),)
        options = dict(yuv=yuv, full_range=full_range, siting=siting, packed=packed, flip_y=flip_y)
        image._set(Planes(copies, None if arrays else tuple(planes), options, fence))
        return image

    def numpy_view(self) -> Array:
        """The pixels [height, width, channels], which cannot be written.

        Raises:
            ValueError: The picture is a texture or has planes.
        """
        if len(self.planes.arrays) != 1:
            raise ValueError(
                "expected a picture of one array, found "
                + ("planes" if self.planes.arrays else "a texture: read it where it was drawn")
            )
        return self.planes.arrays[0]

    def __getitem__(self, key: tuple[int, ...]) -> Any:
        return self.numpy_view()[key].item()

    def uses_gpu(self) -> bool:
        """Whether it is a texture."""
        return not self.planes.arrays

    def is_contiguous(self) -> bool:
        """Whether rows follow each other without gaps in MediaPipe; see `step`."""
        return len(self.planes.arrays) != 1 or self.step == self._row_bytes

    def is_empty(self) -> bool:
        """Whether it is without pixels."""
        return bool(self.planes.arrays) and not self.planes.arrays[0].size

    def is_aligned(self, alignment_boundary: int) -> bool:
        """Whether each row's number of bytes is a multiple of this."""
        return self.step % alignment_boundary == 0

    @property
    def step(self) -> int:
        """Bytes from one row to the next in MediaPipe: a multiple of 16 in pictures of arrays."""
        return -(-self._row_bytes // self._row_alignment) * self._row_alignment

    @property
    def _row_bytes(self) -> int:
        view = self.numpy_view()
        return int(view.shape[1] * view.shape[2] * view.itemsize)

    @property
    def size(self) -> Size:
        """Height and width.

        Raises:
            ValueError: It is a texture, known by its GL name, that no task has seen.
        """
        if self._size is None:
            size = getattr((self.planes.textures or (None,))[0], "size", None)
            if size is None:
                raise ValueError(
                    "expected a texture that knows its size, found a GL name: give it to a task, "
                    "or use an object with `size` and `glo`"
                )
            return self.note_size(int(size[1]), int(size[0]))
        return self._size

    @property
    def has_size(self) -> bool:
        """Whether the size is known without a look at the texture."""
        return self._size is not None or hasattr((self.planes.textures or (None,))[0], "size")

    def note_size(self, height: int, width: int) -> Size:
        """Set the size by the size of its first plane."""
        self._size = (height, width if self.planes.options.get("packed") is None else 2 * width)
        return self._size

    @property
    def width(self) -> int:
        return self.size[1]

    @property
    def height(self) -> int:
        return self.size[0]

    @property
    def channels(self) -> int:
        return int(self.planes.arrays[0].shape[2]) if len(self.planes.arrays) == 1 else 3

    @property
    def image_format(self) -> ImageFormat:
        return self._format


class ResultImage(Image):
    """A picture in a result, which MediaPipe stores without gaps between rows."""

    _row_alignment = 1


__all__ = ["Image", "ImageFormat"]
