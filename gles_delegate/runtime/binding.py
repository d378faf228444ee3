"""Buffers and textures that an app binds to inputs and outputs: requests, checks, GL names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.context import MAX_TEXTURES, GpuContext
from gles_delegate.gl.watches import (
    BufferWatch,
    TextureLevel,
    TextureWatch,
    Watch,
    buffer_size,
    texture_level,
)
from gles_delegate.image.output import ImageOutput
from gles_delegate.image.transform import ImageTransform, Packed, Size
from gles_delegate.model.dtypes import BYTE_LIMITS
from gles_delegate.model.graph import Array
from gles_delegate.planning.ports import Edge, Elements, Pixels, Port, SampledPicture

Layout: TypeAlias = Literal["bhwc", "phwc4"]
REGION_BYTES = 24  # bytes of a region's 2x3 float32 matrix

_FORMATS = {
    gl_names.RGBA8: ("RGBA8", gl_names.RGBA, gl_names.UNSIGNED_BYTE),
    gl_names.R32F: ("R32F", gl_names.RED, gl_names.FLOAT),
    gl_names.RGBA16F: ("RGBA16F", gl_names.RGBA, gl_names.HALF_FLOAT),
}
"""By internal format of a texture to write: its name, and the format and type of uploads."""


@dataclass(frozen=True)
class BoundBuffer:
    """A byte range of an app's buffer; `name` is its GL name."""

    name: int
    offset: int
    size: int
    watches: tuple[Watch, ...] = field(compare=False)
    target: ClassVar[int] = 0
    kind: ClassVar[str] = "bytes of a buffer"

    def overlaps(self, other: object) -> bool:
        return (
            isinstance(other, BoundBuffer)
            and other.name == self.name
            and min(self.size, other.size) > 0
            and other.offset < self.offset + self.size
            and self.offset < other.offset + other.size
        )


@dataclass(frozen=True)
class SampledTextures:
    """GL names and target of an app's textures, and the five texels that glsl/image_in.glsl reads.

    `parameters_of` returns the parameters of another transform of the same port. `region` holds a
    matrix that replaces theirs, two rows of three float32.
    """

    names: tuple[int, ...]
    target: int
    parameters: Array
    watches: tuple[Watch, ...]
    parameters_of: Callable[[ImageTransform], Array]
    region: BoundBuffer | None
    kind: ClassVar[str] = "texture"


@dataclass(frozen=True)
class WrittenTexture:
    """GL name, level and size of an app's texture, and the format for glTexSubImage2D."""

    name: int
    level: int
    width: int
    height: int
    format: int
    type: int
    watches: tuple[Watch, ...]
    target: ClassVar[int] = gl_names.TEXTURE_2D
    kind: ClassVar[str] = "texture"


Resource: TypeAlias = BoundBuffer | SampledTextures | WrittenTexture
"""What is bound to a tensor. Its `target` is that of textures, 0 for a buffer; `kind` is a word."""


def changes(written: Resource, other: Resource) -> bool:
    """Whether writing to one changes what the other holds."""
    match written, other:
        case BoundBuffer() as buffer, SampledTextures(region=region):
            return buffer.overlaps(region)
        case BoundBuffer() as buffer, _:
            return buffer.overlaps(other)
        case WrittenTexture(name), SampledTextures(names):
            return name in names
        case WrittenTexture(name, level), WrittenTexture(other_name, other_level):
            return (name, level) == (other_name, other_level)
    return False


@dataclass(frozen=True)
class BufferBinding:
    """A buffer to take an input from, or to write an output to."""

    buffer: Any
    offset: int
    layout: Layout
    dtype: str | None

    def __post_init__(self) -> None:
        if self.layout not in get_args(Layout):
            raise ValueError(f"layout must be one of {get_args(Layout)}, not {self.layout!r}")
        if self.offset < 0 or self.offset % 4:
            raise ValueError(f"offset must be a multiple of 4 and not negative, not {self.offset}")

    def resolve(self, edge: Edge, is_input: bool, gpu: GpuContext) -> tuple[Port, Resource]:
        """Its port and GL names for a tensor; raises ValueError if the buffer does not fit."""
        _refuse_complex(edge)
        tensor = edge.tensor
        packed = self.layout == "phwc4"
        own = tensor.dtype
        if packed:
            own = "int32" if edge.value.kind == "int" else "float32"
        real = own == "float32" or tensor.is_quantized
        allowed = tuple(dict.fromkeys((own, *(("float32", "float16") if real else ()))))
        dtype = self.dtype or own
        if dtype not in allowed:
            raise ValueError(
                f"cannot bind a buffer to {_described(edge)}: expected the dtype "
                f"{' or '.join(allowed)}, found {dtype}"
            )
        port = Elements(packed, dtype == "float16", tensor.is_quantized and dtype != own)
        lanes = 4 * edge.value.texels if packed else edge.value.elements
        size = lanes * np.dtype(dtype).itemsize
        title = _described(edge)
        expected = f"cannot bind a buffer to {title}: expected {size} bytes ({lanes} of {dtype})"
        return port, _bound(gpu, self.buffer, self.offset, size, title, expected)


@dataclass(frozen=True)
class TextureBinding:
    """Textures to sample an input from, or one to write an output to.

    `region` is a buffer with the matrix of the transform at byte `region_offset`, or None.
    """

    textures: tuple[Any, ...]
    transform: ImageTransform | ImageOutput | None
    region: Any
    region_offset: int

    def __post_init__(self) -> None:
        count = len(self.textures)
        transform = self.transform
        offset = self.region_offset
        if not 1 <= count <= MAX_TEXTURES:
            raise ValueError(f"expected a texture, or two or three planes, found {count}")
        if not isinstance(transform, ImageTransform | ImageOutput | None):
            raise TypeError(f"expected an ImageTransform or ImageOutput, found {transform!r}")
        if self.region is not None and transform is not None:
            if not isinstance(transform, ImageTransform):
                raise ValueError(f"a region is for an input, found {transform} for an output")
            if transform.opencv:
                raise ValueError("expected a region without opencv, found both")
            if transform.has_region:
                raise ValueError(
                    "region takes the place of roi, rotation, fit, matrix, flip_x and flip_y: "
                    f"leave them out of the transform, found {transform}"
                )
        if offset < 0 or offset % 4 or (offset and self.region is None):
            raise ValueError(
                "region_offset must be a multiple of 4 and not negative, and comes with a region, "
                f"found {offset}"
            )

    def differs_in_parameters_only(self, other: Binding | None) -> bool:
        """Whether replacing `other` by this only changes `SampledTextures.parameters`."""
        if not isinstance(other, TextureBinding) or len(self.textures) != len(other.textures):
            return False
        objects = zip((*self.textures, self.region), (*other.textures, other.region), strict=True)
        if self.region_offset != other.region_offset or not all(
            a is b or (isinstance(a, int) and a == b) for a, b in objects
        ):
            return False
        transforms = [each.transform or ImageTransform() for each in (self, other)]
        pictures = [
            SampledPicture.of(transform, len(self.textures), False)
            for transform in transforms
            if isinstance(transform, ImageTransform)
        ]
        return len(pictures) == 2 and pictures[0] == pictures[1]

    @property
    def sampling(self) -> ImageTransform:
        """The transform of an input; raises TypeError if it is an output's."""
        transform: ImageTransform = self._transform(ImageTransform, "ImageTransform, for an input")
        return transform

    def resolve(self, edge: Edge, is_input: bool, gpu: GpuContext) -> tuple[Port, Resource]:
        """Its port and GL names for a tensor; raises ValueError if a texture does not fit."""
        _refuse_complex(edge)
        if len(edge.shape) not in (3, 4) or (*edge.shape[:-3], 1)[0] != 1:
            raise ValueError(
                "a texture belongs to a tensor [1, height, width, channels] or, as an input, [1, "
                "channels, height, width], found " + _described(edge)
            )
        return (self._sampled if is_input else self._written)(edge, gpu)

    def _sampled(self, edge: Edge, gpu: GpuContext) -> tuple[Port, Resource]:
        transform = self.sampling
        tensor = edge.tensor
        is_planar = transform.is_planar(edge.shape)
        channels = edge.shape[-3 if is_planar else -1]
        if channels != transform.depth or tensor.dtype not in ("float32", *BYTE_LIMITS):
            raise ValueError(
                f"expected a tensor of {transform.depth} channels (channels="
                f"{transform.channels!r}) of float32, uint8 or int8, found {_described(edge)}"
            )
        levels = [texture_level(gpu, texture) for texture in self.textures]
        if any(level.external for level in levels) and (len(levels) > 1 or transform.packed):
            raise ValueError(
                "expected one external texture, without packed: its driver makes colors "
                f"of it; found {len(levels)} textures and packed={transform.packed!r}"
            )
        picture = _size_of(levels, transform.packed)
        scales = tensor.quantization.scales
        zeros = tensor.quantization.zero_points
        quantization = ((*scales, 0.0)[0], (*zeros, 0)[0])

        def parameters_of(transform: ImageTransform) -> Array:
            parameters = np.zeros((5, 4), np.float32)
            parameters[:2, :3] = transform.sampled(picture, transform.size_in(edge.shape))
            white = 1 if transform.opencv else 255  # of the colors that have 1 in the shader
            gain, bias = transform.scaling(tensor.dtype, quantization)
            parameters[0, 3] = transform.padding / white
            parameters[2:4, :channels] = gain * white, bias
            parameters[4, :2] = picture[::-1]
            return parameters

        external = levels[0].external
        is_single = len(levels) == levels[0].components == 1
        srgb = levels[0].format in gl_names.SRGB_FORMATS
        port = SampledPicture.of(transform, len(levels), is_single, external, srgb)
        target = gl_names.TEXTURE_EXTERNAL if external else gl_names.TEXTURE_2D
        names = tuple(level.name for level in levels)
        region = None
        title = f"the region of {_described(edge)}"
        if self.region is not None:
            start = self.region_offset
            length = REGION_BYTES
            expected = (
                f"cannot take {title} from a buffer: expected {length} bytes (2 x 3 of float32)"
            )
            region = _bound(gpu, self.region, start, length, title, expected)
        watches = self._watches(levels, edge, gpu) + (region.watches if region else ())
        parameters = parameters_of(transform)
        return port, SampledTextures(names, target, parameters, watches, parameters_of, region)

    def _written(self, edge: Edge, gpu: GpuContext) -> tuple[Port, Resource]:
        if self.region is not None:
            raise ValueError(f"a region is for an input, found the output {_described(edge)}")
        output = self._transform(ImageOutput, "ImageOutput, for an output")
        if len(self.textures) != 1:
            raise ValueError(f"expected one texture for an output, found {len(self.textures)}")
        level = texture_level(gpu, self.textures[0])
        height, width, channels = edge.shape[-3:]
        written = gl_names.RGBA8 if level.is_rgba8 else level.format
        if written not in _FORMATS or (level.height, level.width) != (height, width):
            names = [name for name, *_ in _FORMATS.values()]
            raise ValueError(
                f"expected a texture of {width}x{height} in one of {names} for "
                f"{_described(edge)}, found {level}"
            )
        name, form, kind = _FORMATS[written]
        if output.palette is None and not (channels == 1 or (channels <= 4 and name != "R32F")):
            raise ValueError(
                f"{_described(edge)} has more channels than {name}: give a palette in "
                "ImageOutput if they are scores of classes"
            )
        if output.palette is not None and (name == "R32F" or channels > len(output.palette)):
            raise ValueError(
                f"expected {channels} or more colors and RGBA8 or RGBA16F for the classes of "
                f"{_described(edge)}, found {len(output.palette)} and {name}"
            )
        watches = self._watches([level], edge, gpu)
        place = level.name, level.level, width, height
        return Pixels(name, output), WrittenTexture(*place, form, kind, watches)

    def _watches(
        self, levels: Sequence[TextureLevel], edge: Edge, gpu: GpuContext
    ) -> tuple[Watch, ...]:
        to = _described(edge)
        pairs = zip(self.textures, levels, strict=True)
        return tuple(TextureWatch(gpu, texture, level, to) for texture, level in pairs)

    def _transform(self, kind: type[Any], expected: str) -> Any:
        if self.transform is None:
            return kind()
        if not isinstance(self.transform, kind):
            raise TypeError(f"expected an {expected}, found {self.transform!r}")
        return self.transform


Binding: TypeAlias = BufferBinding | TextureBinding


def _size_of(levels: Sequence[TextureLevel], packed: Packed | None) -> Size:
    """Height and width of a picture in textures; raises ValueError if they are none."""
    if packed is not None and [level.components for level in levels] != [4]:
        raise ValueError(
            f"expected one texture of four channels for {packed}, found "
            + ", ".join(f"{level} with {level.components}" for level in levels)
        )
    height = levels[0].height
    width = levels[0].width * (1 if packed is None else 2)
    for level in levels:
        if not level.sampled:
            raise ValueError(f"expected a texture of a float or normalized format, found {level}")
    if len(levels) == 1:
        return height, width
    luma = levels[0]
    chroma = levels[1:]
    sizes = [((size + 1) // 2, size) for size in (luma.width, luma.height)]
    for level in levels:
        if level.format in gl_names.SPLIT_FORMATS:
            raise ValueError(
                f"expected planes with channels in red and green (R8, RG8), found {level}, whose "
                "last channel is alpha"
            )
    for level in chroma:
        if level.width not in sizes[0] or level.height not in sizes[1]:
            half = f"{sizes[0][0]}x{sizes[1][0]}"
            raise ValueError(f"expected chroma planes of {half}, found {level}")
    if len(chroma) == 1 and chroma[0].components < 2:
        raise ValueError(f"expected U and V in the second of two planes, found {chroma[0]}")
    return height, width


def _bound(
    gpu: GpuContext, buffer: Any, offset: int, size: int, title: str, expected: str
) -> BoundBuffer:
    """The `size` bytes of an app's buffer from `offset` on, bound to `title`.

    Raises ValueError with a message that starts with `expected` if the buffer is smaller.
    """
    name, actual = buffer_size(gpu, buffer)
    if actual < offset + size:
        raise ValueError(f"{expected} from byte {offset} on, found {max(actual - offset, 0)}")
    watch = BufferWatch(gpu, buffer, name, offset + size, title)
    return BoundBuffer(name, offset, size, (watch,))


def _refuse_complex(edge: Edge) -> None:
    if edge.is_complex:
        raise ValueError(f"expected a tensor of real numbers to bind to, found {_described(edge)}")


def _described(edge: Edge) -> str:
    tensor = edge.tensor
    return f"tensor {tensor.index} {tensor.name!r} of {tensor.dtype} {list(edge.shape)}"
