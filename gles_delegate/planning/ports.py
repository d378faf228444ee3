"""Ports: the layout conversion of a tensor that enters or leaves a plan."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from gles_delegate.device.limits import Limits
from gles_delegate.image.colors import BYTES, LUMA, RANGES, SITING
from gles_delegate.image.output import ImageOutput
from gles_delegate.image.transform import EDGE, MAX_SAMPLES, ImageTransform
from gles_delegate.model.dtypes import BYTE_LIMITS
from gles_delegate.model.graph import Array, Tensor
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.views import View, view
from gles_delegate.shaders.dispatch import (
    OUTSIDE,
    Alias,
    Define,
    Dispatch,
    Kind,
    Shape,
    Step,
    Value,
)

WORDS = {"RGBA8": 1, "R32F": 1, "RGBA16F": 2}
"""32-bit words per pixel of each texture format that tensors can be written to."""


@dataclass(frozen=True)
class Edge:
    """A tensor on the boundary of a plan.

    Attributes:
        shape: Its shape in this plan.
        half: The plan stores tensors as float16.
    """

    tensor: Tensor
    shape: Shape
    limits: Limits
    half: bool

    @property
    def value(self) -> Value:
        """The tensor on the GPU, before `half` is applied to it."""
        if self.is_complex:
            return Value.of_complex(self.tensor.index, self.shape)
        kind = self.tensor.lanes
        if kind is None:
            raise ValueError(f"tensor {self.tensor.index} is {self.tensor.dtype}")
        return Value(self.tensor.index, self.shape, kind=kind)

    @property
    def is_complex(self) -> bool:
        return self.tensor.dtype == "complex64"

    @property
    def stored(self) -> Kind:
        """The lane type of the tensor in the plan."""
        kind = self.value.kind
        return "half" if self.half and kind == "float" else kind

    def elements(self, texels: Array) -> Array:
        """Convert texels [slices, pixels, 4] to the tensor's array."""
        rows = texels.transpose(1, 0, 2).reshape(self.value.pixels, 4 * len(texels))
        array = rows[:, : self.value.channels].reshape(self.shape)
        if self.tensor.is_quantized:
            scale, zero = self.tensor.quantization.pair
            array = np.floor(array / np.float32(scale) + np.float32(0.5)) + zero
            array = array.clip(*self.tensor.limits)
        typed: Array = array.astype(self.tensor.dtype)
        return typed

    def quantization(self) -> dict[str, float]:
        """The defines SCALE and ZERO_POINT of a quantized tensor."""
        if not self.tensor.is_quantized:
            return {}
        scale, zero_point = self.tensor.quantization.pair
        return {"SCALE": scale, "ZERO_POINT": zero_point}


@runtime_checkable
class Entrance(Protocol):
    """The entrance of a tensor: the value of the buffer that is filled, and the step from it."""

    def outside(self, edge: Edge) -> Value: ...
    def enter(self, edge: Edge) -> Step: ...


@runtime_checkable
class Exit(Protocol):
    """The exit of a tensor: the value of the buffer that is read, and the step to it.

    `write_back` is that step for an input that nodes assign to.
    """

    def outside(self, edge: Edge) -> Value: ...
    def exit(self, edge: Edge) -> Step: ...
    def write_back(self, edge: Edge) -> Step: ...


Port: TypeAlias = Entrance | Exit


@dataclass(frozen=True)
class Elements:
    """Elements of the tensor's own type: an entrance, an exit, or both of a state.

    Attributes:
        packed: PHWC4 texels of float32 or int32, dequantized for a quantized tensor; otherwise
            row-major elements.
        half: Real numbers are float16 outside.
        real: Row-major elements of a quantized tensor are dequantized.
    """

    packed: bool = False
    half: bool = False
    real: bool = False

    def outside(self, edge: Edge) -> Value:
        """Row-major elements: four lanes per texel, or 128 bits of integers of another size."""
        value = edge.value
        half = self.half or (edge.tensor.dtype == "float16" and not self.packed)
        kind: Kind = "half" if half and value.kind == "float" else value.kind
        if edge.is_complex:
            return Value(value.tensor, (ceil(value.elements / 4), 4), OUTSIDE)
        if self._is_converted(edge):
            texels = ceil(value.elements * edge.tensor.type.bits / 128)
            return Value(value.tensor, (texels, 4), OUTSIDE, "int")
        if self.packed or value.channels == 4 or value.pixels == 1:
            return Value(value.tensor, value.shape, OUTSIDE, kind)
        return Value(value.tensor, (ceil(value.elements / 4), 4), OUTSIDE, kind)

    def enter(self, edge: Edge) -> Step:
        outside = self.outside(edge)
        if self._is_converted(edge):
            return self._converted(edge, "unpack_integers", outside, edge.value)
        if self._is_as_outside(edge):
            return Alias(-1, edge.value, outside)
        # Outside, the real and the imaginary part of a number are neighbors.
        count = edge.value.elements
        order = View((2, count // 2), (1, 2)) if edge.is_complex else View((count,), (1,))
        return view(outside, edge.value, order, edge.limits, -1)

    def exit(self, edge: Edge) -> Step:
        if self._is_as_outside(edge):
            return Alias(-1, self.outside(edge), edge.value)
        return self.write_back(edge)

    def write_back(self, edge: Edge) -> Step:
        """Like `exit`, but always into the value `outside` itself."""
        outside = self.outside(edge)
        if self._is_converted(edge):
            return self._converted(edge, "pack_integers", edge.value, outside)
        count = edge.value.elements // 2
        order = View((count, 2), (1, count)) if edge.is_complex else View((outside.elements,), (1,))
        return view(edge.value, outside, order, edge.limits, -1)

    def _is_converted(self, edge: Edge) -> bool:
        """Whether the tensor has integers that are smaller or larger than a lane."""
        has_lanes = self.packed or self.real or edge.tensor.dtype in ("float16", "complex64")
        return not has_lanes and edge.tensor.type.bits != 32

    def _is_as_outside(self, edge: Edge) -> bool:
        """Whether the texels outside are the tensor's, without conversion."""
        outside = self.outside(edge)
        same = (outside.shape, outside.kind) == (edge.shape, edge.stored)
        return same and not edge.is_complex and not self._is_converted(edge)

    def _converted(self, edge: Edge, shader: str, source: Value, output: Value) -> Dispatch:
        defines: dict[str, Define] = {
            "CHANNELS": edge.value.channels,
            "PIXELS": edge.value.pixels,
            "BITS": edge.tensor.type.bits,
            "SIGNED": int(edge.tensor.dtype.startswith("int")),
            **edge.quantization(),
        }
        grid = make_grid(output.pixels, output.slices, edge.limits)
        return Dispatch(-1, shader, (source,), output, grid, defines)


def entrance(port: Port) -> Entrance:
    if isinstance(port, Entrance):
        return port
    raise ValueError(f"expected the port of an input, found {port}")


def exit_of(port: Port) -> Exit:
    if isinstance(port, Exit):
        return port
    raise ValueError(f"expected the port of an output, found {port}")


@dataclass(frozen=True)
class SampledPicture:
    """The entrance of pixels sampled from textures, to [1, height, width, 1 to 4 channels], or
    with the channels in front of height and width.

    Outside is a buffer of five texels of parameters, which can change without a new plan.

    Attributes:
        options: The options of the transform that are constants of the plan.
        planes: The number of textures.
        monochrome: There is one texture, of one channel.
        external: The only texture is an external one.
        srgb: They are sRGB, of which networks see the colors as they are stored.
    """

    options: ImageTransform
    planes: int
    monochrome: bool
    external: bool = False
    srgb: bool = False

    @classmethod
    def of(
        cls, transform: ImageTransform, planes: int, monochrome: bool, *kinds: bool
    ) -> SampledPicture:
        """The port of a transform; `kinds`: `external` and `srgb`."""
        names = ["channels", "antialias", "border", "opencv"]
        if planes > 1 or transform.packed is not None:
            names += ["yuv", "full_range", "siting", "packed"]
        options = ImageTransform(**{name: getattr(transform, name) for name in names})
        return cls(options, planes, monochrome, *kinds)

    def outside(self, edge: Edge) -> Value:
        return Value(edge.tensor.index, (5, 4), OUTSIDE)

    def enter(self, edge: Edge) -> Step:
        value, options = edge.value, self.options
        red, _, blue = LUMA[options.yuv]
        black, luma, chroma = RANGES[options.full_range]
        gray, planar = options.channels == "gray", options.is_planar(edge.shape)
        height, width = options.size_in(edge.shape)
        defines: dict[str, Define] = {
            "PLANAR": int(planar),
            "OUT_W": width,
            "OUT_H": height,
            "PLANES": self.planes,
            "MONOCHROME": int(self.monochrome),
            "EXTERNAL": int(self.external),
            "SRGB": int(self.srgb),
            "GRAY": int(gray),
            "ORDER": "rgba" if gray else f"{options.channels[:3]}a",
            "EDGE": EDGE,
            "REACH": options.reach,
            "BLACK": float(black),
            "LUMA_RANGE": float(luma),
            "CHROMA_RANGE": float(chroma),
            "SITING": SITING[options.siting],
            "LUMA_RED": red,
            "LUMA_BLUE": blue,
            "ANTIALIAS": int(options.antialias),
            "MOST_SAMPLES": MAX_SAMPLES,
            "OPENCV": int(options.opencv),
            "FADING": int(options.border == "padding"),
            **edge.quantization(),
        }
        if options.packed is not None:
            names = ("BYTE_Y0", "BYTE_Y1", "BYTE_U", "BYTE_V")
            defines |= dict(zip(names, BYTES[options.packed], strict=True))
        if edge.tensor.dtype in BYTE_LIMITS:
            defines["LOWEST"], defines["HIGHEST"] = BYTE_LIMITS[edge.tensor.dtype]
        grid = make_grid(value.pixels, value.slices, edge.limits)
        reads = (self.outside(edge),)
        passes = MAX_SAMPLES**2 if options.antialias else 0
        return Dispatch(
            -1, "image_in", reads, value, grid, defines, textures=self.planes, passes=passes
        )


@dataclass(frozen=True)
class Pixels:
    """The exit of [1, height, width, channels] to a texture of `format`, row by row.

    The buffer `outside` is copied into the texture: shaders can write only textures of immutable
    storage, and many apps have others.
    """

    format: str
    output: ImageOutput

    def outside(self, edge: Edge) -> Value:
        words = edge.value.pixels * WORDS[self.format]
        return Value(edge.tensor.index, (ceil(words / 4), 4), OUTSIDE, "int")

    def exit(self, edge: Edge) -> Step:
        value, output = edge.value, self.outside(edge)
        height, width = edge.shape[-3:-1]
        defines: dict[str, Define] = {
            "WORDS": WORDS[self.format],
            "RGBA8": int(self.format == "RGBA8"),
            "R32F": int(self.format == "R32F"),
            "CHANNELS": value.channels,
            "PIXELS": value.pixels,
            "WIDTH": width,
            "HEIGHT": height,
            "FLIP_Y": int(self.output.flip_y),
            "SCALE": float(self.output.scale),
            "OFFSET": float(self.output.offset),
            "PALETTE": (0,),
            "COLOURS": 0,
            "SCORES": int(value.kind == "float"),
            "THRESHOLD": float(self.output.threshold),
        }
        if self.output.palette is not None:
            packed = (r | g << 8 | b << 16 | a << 24 for r, g, b, a in self.output.palette)
            defines["PALETTE"] = tuple((word ^ 1 << 31) - (1 << 31) for word in packed)
            defines["COLOURS"] = len(self.output.palette)
        grid = make_grid(output.pixels, output.slices, edge.limits)
        return Dispatch(-1, "image_out", (value,), output, grid, defines)

    write_back = exit
