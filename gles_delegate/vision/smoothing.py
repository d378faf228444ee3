"""Points of a video that tremble less: the one-euro filter of Casiez, Roussel and Vogel (2012)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from gles_delegate.model.graph import Array


@dataclass(frozen=True)
class OneEuro:
    """The state of a filter for the points of an object; `filtered` gives the next one.

    All points have the same cutoff, which grows with their mean speed, so that an object that turns
    keeps its shape. Speeds are those between points as they were seen, as in MediaPipe.

    Attributes:
        min_cutoff: Hz; less trembles less where nothing moves.
        beta: How much the cutoff grows with speed; more lags less where things move.
        speed_cutoff: Hz, of the filter of the speed.
        points: What it gave last; None before the first.
        seen: What it was given last.
        speed: Of each coordinate, in sizes a second.
    """

    min_cutoff: float = 1.0
    beta: float = 0.0
    speed_cutoff: float = 1.0
    points: Array | None = field(default=None, compare=False)
    seen: Array | None = field(default=None, compare=False)
    speed: Array | None = field(default=None, compare=False)

    def filtered(self, points: Array, seconds: float, *, size: float = 1.0) -> OneEuro:
        """The state after these points, which its attribute `points` has smoothed.

        Args:
            points: [..., coordinates], of the same shape each time; after another one the filter
                starts again. The first two coordinates give the speed, in the picture's plane.
            seconds: Since the points before, above 0.
            size: Of the object; the speed is in sizes a second, so that near and far objects are
                smoothed alike.

        Raises:
            ValueError: No time has passed.
        """
        latest = np.array(points, np.float64)
        if (
            self.points is None
            or self.seen is None
            or self.speed is None
            or self.points.shape != latest.shape
        ):
            return replace(self, points=latest, seen=latest, speed=np.zeros_like(latest))
        if not seconds > 0:
            raise ValueError(f"expected a time above 0 since the points before, found {seconds}")
        speed = (latest - self.seen) / seconds / size
        speed = self.speed + _share(self.speed_cutoff, seconds) * (speed - self.speed)
        mean = float(np.linalg.norm(speed[..., :2], axis=-1).mean())
        share = _share(self.min_cutoff + self.beta * mean, seconds)
        return replace(
            self, points=self.points + share * (latest - self.points), seen=latest, speed=speed
        )


def _share(cutoff: float, seconds: float) -> float:
    """How much of what is new a low-pass filter takes (equation 4)."""
    ratio = 2 * math.pi * cutoff * seconds
    return ratio / (ratio + 1)
