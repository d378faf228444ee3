"""Steadier points in videos: the one-euro filter of Casiez, Roussel and Vogel (2012)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gles_delegate.model.graph import Array


@dataclass(frozen=True)
class OneEuro:
    """The state of a filter for an object's points; `filtered` returns the next state.

    Speeds are measured between unfiltered points, as in MediaPipe.

    Attributes:
        min_cutoff: Hz; a lower cutoff reduces jitter of objects at rest.
        beta: Growth of the cutoff with speed; a higher one reduces lag in motion.
        speed_cutoff: Hz, for the filter of the speed.
        rigid: All points share a cutoff, which grows with their mean speed, so that a turning
            object keeps its shape. Otherwise each coordinate has its own, as in MediaPipe.
        points: The latest filtered points; None before the first.
        seen: The latest unfiltered points.
        speed: Of each coordinate, in object sizes per second.
    """

    min_cutoff: float = 1.0
    beta: float = 0.0
    speed_cutoff: float = 1.0
    rigid: bool = True
    points: Array | None = field(default=None, compare=False)
    seen: Array | None = field(default=None, compare=False)
    speed: Array | None = field(default=None, compare=False)

    @np.errstate(over="ignore", under="ignore")
    def filtered(self, points: Array, seconds: float, *, size: float = 1.0) -> OneEuro:
        """The state after these points; its attribute `points` has them filtered.

        Args:
            points: [..., coordinates]; another shape than the last restarts the filter.
                The first two coordinates give the speed, in the picture's plane.
            seconds: Time since the previous points, above 0.
            size: The object's size. Speeds are relative to it, so that near and far objects are
                filtered alike.

        Raises:
            ValueError: No time has passed.
        """
        latest = np.array(points, np.float64)
        if self.points is None or self.points.shape != latest.shape:
            return replace(self, points=latest, seen=latest, speed=np.zeros_like(latest))
        assert self.seen is not None
        assert self.speed is not None
        if not seconds > 0:
            raise ValueError(f"expected a time above 0 since the points before, found {seconds}")
        speed = (latest - self.seen) / seconds / size
        speed = self.speed + _share(self.speed_cutoff, seconds) * (speed - self.speed)
        rate = np.linalg.norm(speed[..., :2], axis=-1).mean() if self.rigid else np.abs(speed)
        share = _share(self.min_cutoff + self.beta * rate, seconds)
        smooth = self.points + share * (latest - self.points)
        return replace(self, points=smooth, seen=latest, speed=speed)


def _share(cutoff: Any, seconds: float) -> Any:
    """The weight of the latest value in a low-pass filter (equation 4)."""
    return 1 / (1 + 1 / (2 * math.pi * cutoff * seconds))
