"""Work groups for shaders whose invocations are (pixel, slice)."""

from __future__ import annotations

from math import ceil

from gles_delegate.dispatch import Shape
from gles_delegate.limits import Limits

WORK_GROUP = 64
"""Invocations of an ordinary work group: inside every device's limits, enough to fill a core."""


def grid(pixels: int, slices: int, limits: Limits, per_lane: int = 1) -> tuple[Shape, Shape]:
    """The invocations for `slices` x `pixels` texels, and the work group to run them in.

    Lanes lie along the pixels, `per_lane` of which an invocation takes, unless there are too few.
    """
    invocations = ceil(pixels / per_lane)
    lanes = WORK_GROUP
    while lanes > 1 and lanes >= 2 * invocations:
        lanes //= 2
    if invocations > lanes * limits.groups[0]:
        lanes = min(limits.invocations, limits.local_size[0])
    return (invocations, slices, 1), (lanes, max(1, WORK_GROUP // lanes), 1)
