"""Runs: pixels of an output row that one invocation computes, by glsl/lib/runs.glsl."""

from __future__ import annotations

from math import ceil

from gles_delegate.dispatch import Define
from gles_delegate.ops.lib.window import Window
from gles_delegate.profiles import Profile, TileSearch


def searched_length(search: TileSearch, window: Window, most: int) -> int:
    """Pixels per run: `most` or a little less."""
    fitting = run_length(window, most)
    return min(size for size in FEW_SIZES if size >= fitting) if search.few else fitting


def run_length(window: Window, most: int) -> int:
    """Pixels of a row that one invocation computes: `most` or a little less."""
    if window.stride_w > 1 and window.dilation_w > 1:
        return 1  # neighbors share no inputs
    width = ceil(window.out_w / _step(window)) or 1
    return ceil(width / ceil(width / most))


def depthwise_run(window: Window, most: int, profile: Profile, choice: int) -> int:
    """Pixels per run of a depthwise convolution: limited by `profile.columns`."""
    most = max(min(most, pixels_within(window, profile.columns)), 1)
    if profile.searches:
        return searched_length(profile.searches[choice], window, most)
    return run_length(window, most)


def columns_of(window: Window, pixels: int) -> int:
    """Pixels of an input row that a run of `pixels` outputs reads."""
    return (pixels - 1) * window.stride_w + window.kernel_w


def pixels_within(window: Window, columns: int) -> int:
    """Pixels of a run that reads that many of an input row; none if the window is wider."""
    return max((columns - window.kernel_w) // window.stride_w, -1) + 1


def runs_of(window: Window, pixels: int) -> int:
    """Runs of that many pixels in a row."""
    step = _step(window)
    return ceil(window.out_w / (pixels * step)) * step


def _step(window: Window) -> int:
    return window.dilation_w if window.stride_w == 1 else 1


def run_defines(
    window: Window, batch: int, pixels: int, by_taps: bool = False
) -> dict[str, Define]:
    """Defines of glsl/lib/runs.glsl for runs of that many pixels.

    Args:
        by_taps: Whether they are computed tap by tap, not row by row.
    """
    runs: dict[str, Define] = {
        "BATCH": batch,
        "RUNS": runs_of(window, pixels),
        "COLUMNS": 1 if by_taps else columns_of(window, pixels),
        "BY_TAPS": int(by_taps),
    }
    return {**window.defines("KERNEL"), **window.dilation_defines(), **runs}


FEW_SIZES = (1, 2, 4, 8)
