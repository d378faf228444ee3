"""The element types of tensors: one row each, for the file, numpy, the GPU and LiteRT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

Lanes: TypeAlias = Literal["float", "int"]
"""The types of a lane on the GPU: float32, or int32, which stores bool as 0 and 1."""


@dataclass(frozen=True)
class ElementType:
    """An element type of the TFLite schema.

    Attributes:
        name: TFLite's name, which is numpy's where numpy has the type.
        litert: Its number in LiteRT's enum TfLiteType, whose order differs from the schema's.
        array: numpy's type of LiteRT's arrays; None if LiteRT has no such arrays.
        lanes: Its lanes on the GPU; None if the GPU does not support it.
        constant_lanes: The lanes of constants, which are converted before the upload.
        bits: The size of an element in CPU memory; on the GPU it takes a whole lane.
        limits: The smallest and largest number, for integers that may be quantized.
    """

    name: str
    litert: int
    array: Any = None
    lanes: Lanes | None = None
    constant_lanes: Lanes | None = None
    bits: int = 32
    limits: tuple[int, int] | None = None

    @property
    def may_be_steps(self) -> bool:
        """Whether activations of this type may be quantized."""
        return self.limits is not None and self.bits in (8, 16)


ELEMENT_TYPES = (
    ElementType("float32", 1, np.float32, "float", "float"),
    ElementType("float16", 10, np.float16, "float", "float", 16),
    ElementType("int32", 2, np.int32, "int", "int", 32, (-(2**31), 2**31 - 1)),
    ElementType("uint8", 3, np.uint8, "int", "int", 8, (0, 255)),
    ElementType("int64", 4, np.int64, "int", "int", 64, (-(2**63), 2**63 - 1)),
    ElementType("string", 5, np.bytes_),
    ElementType("bool", 6, np.bool_, "int", "int", 8),
    ElementType("int16", 7, np.int16, "int", "int", 16, (-(2**15), 2**15 - 1)),
    ElementType("complex64", 8, np.complex64, bits=64),
    ElementType("int8", 9, np.int8, "int", "int", 8, (-128, 127)),
    ElementType("float64", 11, np.float64, None, "float"),
    ElementType("complex128", 12, np.complex128),
    ElementType("uint64", 13, np.uint64),
    ElementType("resource", 14, np.object_),
    ElementType("variant", 15, np.object_),
    ElementType("uint32", 16, np.uint32),
    ElementType("uint16", 17, np.uint16),
    ElementType("int4", 18, np.int8, None, "int", 4, (-8, 7)),
    ElementType("bfloat16", 19),
    ElementType("int2", 20, np.int8, None, "int", 2, (-2, 1)),
    ElementType("uint4", 21),
    ElementType("float8_e4m3fn", 22),
    ElementType("float8_e5m2", 23),
)
"""By their number in the schema's enum TensorType."""

BY_NAME = {element.name: element for element in ELEMENT_TYPES}

SCHEMA_NUMBERS = {element.name: number for number, element in enumerate(ELEMENT_TYPES)}

LITERT_TYPES = {element.litert: element.name for element in ELEMENT_TYPES}
"""Names by their number in LiteRT's enum TfLiteType."""

BYTE_LIMITS = {e.name: e.limits for e in ELEMENT_TYPES if e.bits == 8 and e.limits}
"""The smallest and largest number of each 8-bit integer type."""

EXPECTED: dict[str | None, str] = {
    "float": "float32",
    "int": "int32 or bool",
    None: "float32, an integer or bool",
}
"""For messages: unquantized types with these lanes, or with any."""
