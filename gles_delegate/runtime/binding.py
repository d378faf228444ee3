"""Buffers and textures that an app binds to inputs and outputs: requests, checks, GL objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

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
from gles_delegate.image.transform import ImageTransform
from gles_delegate.model.dtypes import BYTE_LIMITS
from gles_delegate.model.graph import Array
from gles_delegate.planning.ports import Edge, Elements, Pixels, Port, SampledPicture

Layout: TypeAlias = Literal["bhwc", "phwc4"]

REGION_BYTES = 24
"""Bytes of a region's 2x3 float32 matrix."""

_FORMATS = {gl_names.RGBA8: "RGBA8", gl_names.R32F: "R32F", gl_names.RGBA16F: "RGBA16F"}


@dataclass(frozen=True)
class BoundBuffer:
    """A range of bytes of an app's buffer; `name` is its GL name."""

    name: int
    offset: int
    size: int
    watches: tuple[Watch, ...] = field(compare=False)

    def overlaps(self, other: object) -> bool:
        """Whether another one has some of the same bytes."""
        return (
            isinstance(other, BoundBuffer)
            and other.name == self.name
            and other.offset < self.offset + self.size
            and self.offset < other.offset + other.size
        )


@dataclass(frozen=True)
class SampledTextures:
    """GL names of an app's textures, and the parameters of glsl/image_in.glsl, four texels.

    `parameters_of` gives the parameters of another transform, of the same port. `region` holds a
    matrix in place of theirs, two rows of three float32.
    """

    names: tuple[int, ...]
    parameters: Array
    watches: tuple[Watch, ...]
    parameters_of: Callable[[ImageTransform], Array]
    region: BoundBuffer | None


@dataclass(frozen=True)
class WrittenTexture:
    """GL name and size of an app's texture, and the pixel format for glTexSubImage2D."""

    name: int
    width: int
    height: int
    format: int
    type: int
    watches: tuple[Watch, ...]


Resource: TypeAlias = BoundBuffer | SampledTextures | WrittenTexture


@dataclass(frozen=True)
class BufferBinding:
    """A buffer to take an input from, or to put an output in."""

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
        """Check it against a tensor; return its port and GL objects.

        Raises:
            ValueError: The buffer is too small, or of another type.
        """
        _refuse_complex(edge)
        tensor, packed = edge.tensor, self.layout == "phwc4"
        own = ("int32" if edge.value.kind == "int" else "float32") if packed else tensor.dtype
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
        name, actual = buffer_size(gpu, self.buffer)
        if actual < self.offset + size:
            raise ValueError(
                f"cannot bind a buffer to {_described(edge)}: expected {size} bytes ({lanes} "
                f"of {dtype}) from byte {self.offset} on, found {max(actual - self.offset, 0)}"
            )
        watch = BufferWatch(gpu, self.buffer, name, self.offset + size, _described(edge))
        return port, BoundBuffer(name, self.offset, size, (watch,))


@dataclass(frozen=True)
class TextureBinding:
    """Textures to sample an input from, or one to write an output to.

    Attributes:
        region: A buffer with the matrix of the transform, or None; from `region_offset` on.
    """

    textures: tuple[Any, ...]
    transform: ImageTransform | ImageOutput | None
    region: Any = None
    region_offset: int = 0

    @staticmethod
    def of(
        texture: Any,
        transform: ImageTransform | ImageOutput | None,
        region: Any = None,
        region_offset: int = 0,
    ) -> TextureBinding:
        """Make it from one texture or a sequence of planes."""
        textures = tuple(texture) if isinstance(texture, Sequence) else (texture,)
        if not 1 <= len(textures) <= MAX_TEXTURES:
            raise ValueError(f"expected a texture, or two or three planes, found {len(textures)}")
        if not isinstance(transform, ImageTransform | ImageOutput | None):
            raise TypeError(f"expected an ImageTransform or ImageOutput, found {transform!r}")
        if region is not None and transform is not None:
            if not isinstance(transform, ImageTransform):
                raise ValueError(f"a region is for an input, found {transform} for an output")
            if transform.has_region:
                raise ValueError(
                    "region takes the place of roi, rotation, fit, matrix, flip_x and flip_y: "
                    f"leave them out of the transform, found {transform}"
                )
        if region_offset < 0 or region_offset % 4 or (region_offset and region is None):
            raise ValueError(
                "region_offset must be a multiple of 4 and not negative, and comes with a region, "
                f"found {region_offset}"
            )
        return TextureBinding(textures, transform, region, region_offset)

    def shows_the_same(self, other: Binding | None) -> bool:
        """Whether the two differ in no more than `SampledTextures.parameters`."""
        if not isinstance(other, TextureBinding) or len(self.textures) != len(other.textures):
            return False
        transforms = [binding.transform or ImageTransform() for binding in (self, other)]
        kinds = {
            SampledPicture.of(t, len(self.textures), False)
            if isinstance(t, ImageTransform)
            else None
            for t in transforms
        }
        same = self.region_offset == other.region_offset and all(
            a is b or (isinstance(a, int) and a == b)
            for a, b in zip(
                (*self.textures, self.region), (*other.textures, other.region), strict=True
            )
        )
        return same and len(kinds) == 1 and None not in kinds

    def resolve(self, edge: Edge, is_input: bool, gpu: GpuContext) -> tuple[Port, Resource]:
        """Check it against a tensor; return its port and GL objects.

        Raises:
            ValueError: The tensor is not a picture, or a texture has another size or format.
        """
        _refuse_complex(edge)
        if len(edge.shape) not in (3, 4) or (*edge.shape[:-3], 1)[0] != 1:
            raise ValueError(
                "a texture belongs to a tensor [1, height, width, channels], found "
                + _described(edge)
            )
        return (self._sampled if is_input else self._written)(edge, gpu)

    def _sampled(self, edge: Edge, gpu: GpuContext) -> tuple[Port, Resource]:
        transform = self._transform(ImageTransform, "ImageTransform, for an input")
        tensor, (height, width, channels) = edge.tensor, edge.shape[-3:]
        if channels != transform.depth or tensor.dtype not in ("float32", *BYTE_LIMITS):
            raise ValueError(
                f"expected a tensor of {transform.depth} channels (channels="
                f"{transform.channels!r}) of float32, uint8 or int8, found {_described(edge)}"
            )
        levels = [texture_level(gpu, texture) for texture in self.textures]
        picture = (levels[0].height, levels[0].width)
        half = tuple((size + 1) // 2 for size in picture)
        for level in levels:
            size = (level.height, level.width)
            if not level.sampled or (level is not levels[0] and size not in (picture, half)):
                raise ValueError(
                    "expected textures of float or normalized formats, with chroma planes of "
                    f"{half[1]}x{half[0]}, found {level}"
                )
        scales, zeros = tensor.quantization.scales, tensor.quantization.zero_points
        quantization = ((*scales, 0.0)[0], (*zeros, 0)[0])

        def parameters_of(transform: ImageTransform) -> Array:
            parameters = np.zeros((4, 4), np.float32)
            parameters[:2, :3] = transform.affine(picture, (height, width))
            parameters[0, 3] = transform.padding
            parameters[2:, :channels] = transform.scaling(tensor.dtype, quantization)
            return parameters

        port = SampledPicture.of(transform, len(levels), len(levels) == levels[0].components == 1)
        names = tuple(level.name for level in levels)
        region = None if self.region is None else self._region(edge, gpu)
        watches = self._watches(levels, edge, gpu) + (region.watches if region else ())
        parameters = parameters_of(transform)
        return port, SampledTextures(names, parameters, watches, parameters_of, region)

    def _region(self, edge: Edge, gpu: GpuContext) -> BoundBuffer:
        name, size = buffer_size(gpu, self.region)
        end = self.region_offset + REGION_BYTES
        if size < end:
            raise ValueError(
                f"cannot take the region of {_described(edge)} from a buffer: expected "
                f"{REGION_BYTES} bytes (2 x 3 of float32) from byte {self.region_offset} on, found "
                f"{max(size - self.region_offset, 0)}"
            )
        to = f"the region of {_described(edge)}"
        watch = BufferWatch(gpu, self.region, name, end, to)
        return BoundBuffer(name, self.region_offset, REGION_BYTES, (watch,))

    def _written(self, edge: Edge, gpu: GpuContext) -> tuple[Port, Resource]:
        if self.region is not None:
            raise ValueError(f"a region is for an input, found the output {_described(edge)}")
        output = self._transform(ImageOutput, "ImageOutput, for an output")
        if len(self.textures) != 1:
            raise ValueError(f"expected one texture for an output, found {len(self.textures)}")
        level = texture_level(gpu, self.textures[0])
        height, width, channels = edge.shape[-3:]
        name = _FORMATS.get(level.format)
        if name is None or (level.height, level.width) != (height, width):
            raise ValueError(
                f"expected a texture of {width}x{height} in one of {[*_FORMATS.values()]} for "
                f"{_described(edge)}, found {level.width}x{level.height} of the GL format "
                f"{level.format:#x}"
            )
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
        form = gl_names.RED if name == "R32F" else gl_names.RGBA
        kinds = (gl_names.UNSIGNED_BYTE, gl_names.FLOAT, gl_names.HALF_FLOAT)
        kind = dict(zip(_FORMATS.values(), kinds, strict=True))[name]
        watches = self._watches([level], edge, gpu)
        return Pixels(name, output), WrittenTexture(level.name, width, height, form, kind, watches)

    def _watches(
        self, levels: Sequence[TextureLevel], edge: Edge, gpu: GpuContext
    ) -> tuple[Watch, ...]:
        to, pairs = _described(edge), zip(self.textures, levels, strict=True)
        return tuple(TextureWatch(gpu, texture, level, to) for texture, level in pairs)

    def _transform(self, kind: type[Any], expected: str) -> Any:
        if self.transform is None:
            return kind()
        if not isinstance(self.transform, kind):
            raise TypeError(f"expected an {expected}, found {self.transform!r}")
        return self.transform


Binding: TypeAlias = BufferBinding | TextureBinding


def _refuse_complex(edge: Edge) -> None:
    """Raise ValueError if the tensor has complex numbers."""
    if edge.is_complex:
        raise ValueError(f"expected a tensor of real numbers to bind to, found {_described(edge)}")


def _described(edge: Edge) -> str:
    tensor = edge.tensor
    return f"tensor {tensor.index} {tensor.name!r} of {tensor.dtype} {list(edge.shape)}"
