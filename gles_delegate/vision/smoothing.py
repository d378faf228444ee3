"""Points of a video that tremble less: the one-euro filter of Casiez, Roussel and Vogel (2012)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from gles_delegate.model.graph import Array


@dataclass(frozen=True)
class OneEuro:
    """The state of a filter; `filtered` gives the next one, with the points.

    Attributes:
        min_cutoff: Hz; less trembles less where nothing moves.
        beta: How much the cutoff grows with speed; more lags less where things move.
        speed_cutoff: Hz, of the filter of the speed.
        points: What it gave last; None before the first.
        speed: Of each coordinate, in sizes a second.
    """

    min_cutoff: float = 1.0
    beta: float = 0.0
    speed_cutoff: float = 1.0
    points: Array | None = field(default=None, compare=False)
    speed: Array | None = field(default=None, compare=False)

    def filtered(self, points: Array, seconds: float, *, size: float = 1.0) -> OneEuro:
        """The state after these points, which its attribute `points` has smoothed.

        Args:
            points: Of any shape, the same each time; after another one the filter starts anew.
            seconds: Since the points before, above 0.
            size: Of the object; the speed is in sizes a second, so that near and far objects are
                smoothed alike.

        Raises:
            ValueError: No time has passed.
        """
        found = np.array(points, np.float64)
        if self.points is None or self.speed is None or self.points.shape != found.shape:
            return replace(self, points=found, speed=np.zeros_like(found))
        if not seconds > 0:
            raise ValueError(f"expected a time above 0 since the points before, found {seconds}")
        speed = (found - self.points) / seconds / size
        speed = self.speed + _share(self.speed_cutoff, seconds) * (speed - self.speed)
        cutoff = self.min_cutoff + self.beta * np.abs(speed)
        found = self.points + _share(cutoff, seconds) * (found - self.points)
        return replace(self, points=found, speed=speed)


def _share(cutoff: float | Array, seconds: float) -> Array:
    """How much of what is new a low-pass filter takes (equation 4)."""
    ratio = 2 * math.pi * np.asarray(cutoff) * seconds
    return np.asarray(ratio / (ratio + 1))
