"""One case of the table: a row and attributes for it."""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.op_table.base import Attributes, Op
from tests.support.sketch import Sketch


@dataclass(frozen=True)
class Case:
    """One model with inputs; everything random in it follows from its id."""

    id: str
    op: str
    row: Op
    attributes: Attributes

    @property
    def special(self) -> bool:
        """Inputs or outputs hold infinities or NaN."""
        return bool(self.attributes.get("special"))

    @property
    def steps(self) -> int:
        """By how many steps quantized results may differ; LiteRT's 16-bit table is not exact."""
        return 3 if self.op == "SOFTMAX (16-bit)" else 1

    @property
    def hash(self) -> int:
        """A number that stays the same whatever else is in the table."""
        return zlib.crc32(self.id.encode())

    def sketch(self) -> tuple[Sketch, list[int]]:
        """The model under construction and its outputs."""
        sketch = Sketch(np.random.default_rng(self.hash))
        outputs = self.row.model(sketch, self.op, **self.attributes)
        return sketch, [outputs] if isinstance(outputs, int) else list(outputs)

    def types(self) -> tuple[object, ...]:
        """The element types of the inputs, as numpy has them, and of the outputs, as the schema."""
        sketch, outputs = self.sketch()
        inputs = (feed.dtype for feed in sketch.feeds)
        return (*inputs, *(sketch.tensors[index]["type"] for index in outputs))

    def build(self) -> tuple[bytes, list[NDArray[Any]]]:
        """The model with the shapes that LiteRT infers, and inputs; raises if LiteRT refuses it."""
        from tests.support.oracle import complete

        sketch, outputs = self.sketch()
        return complete(sketch, outputs), sketch.feeds


def make_case(op: str, row: Op, attributes: Attributes) -> Case:
    return Case(f"{op} {_spell(attributes)}".rstrip(), op, row, attributes)


def _spell(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={_spell(item)}" for key, item in value.items())
    if isinstance(value, tuple):
        nested = any(isinstance(item, tuple) for item in value)
        return ("+" if nested else "x").join(map(_spell, value)) + "," * (len(value) == 1) or "()"
    return str(value)
