"""Models under construction together with the arrays they are run on."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tests.support.tflite_builder import ModelBuilder

Dims = tuple[int, ...]


class Sketch(ModelBuilder):
    """A model builder whose inputs and constants come with values drawn from ``rng``."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.rng = rng
        self.feeds: list[NDArray[Any]] = []

    def normal(self, shape: Dims, scale: float = 1.0) -> NDArray[np.float32]:
        return np.asarray(scale * self.rng.standard_normal(shape), np.float32)

    def feed(
        self,
        shape: Dims = (),
        *,
        scale: float = 1.0,
        values: ArrayLike | None = None,
        dtype: str = "float32",
    ) -> int:
        """A runtime input with random values, or with these, of any dtype."""
        array = self.normal(shape, scale) if values is None else np.asarray(values, dtype)
        self.feeds.append(array)
        return self.input(array.shape, dtype=dtype)

    def operand(self, shape: Dims, *, constant: bool, scale: float = 1.0) -> int:
        if constant:
            return self.constant(self.normal(shape, scale))
        return self.feed(shape, scale=scale)
