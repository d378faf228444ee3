"""Work groups for shaders whose invocations are (pixel, slice)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

from gles_delegate.device.limits import Limits
from gles_delegate.ops.lib.node import NodeView
from gles_delegate.shaders.dispatch import Call, Define, Dispatch, DispatchT, Grid, Operand, Value

WORK_GROUP = 64
"""Invocations of an ordinary work group: inside every device's limits, enough to fill a core."""


def make_grid(pixels: int, slices: int, limits: Limits, per_lane: int = 1) -> Grid:
    """The grid for `slices` x `pixels` texels, `per_lane` pixels per invocation.

    Lanes lie along the pixels, unless pixels are few and slices many.

    Examples:
        >>> def lowering(node: ops.NodeView, options: ops.Options) -> list[ops.Dispatch]:
        ...     output = node.output((1, 8, 8, 6))
        ...     grid = ops.make_grid(output.pixels, output.slices, node.limits)
        ...     return [node.dispatch("/path/to/shader", (), output, grid)]
    """
    invocations = ceil(pixels / per_lane)
    vector = limits.simd_lanes
    if limits.profile.general and invocations <= WORK_GROUP * limits.groups[0]:
        return Grid(invocations, slices, WORK_GROUP, 1)
    slices_in_x = invocations < 4 * vector and slices > invocations
    along_x = slices if slices_in_x else invocations
    lanes = WORK_GROUP
    while lanes > vector and lanes >= 2 * along_x:
        lanes //= 2
    if along_x > lanes * limits.groups[0]:
        lanes = min(limits.invocations, limits.local_size[0])
    others = max(1, min(WORK_GROUP // lanes, invocations if slices_in_x else slices))
    if slices_in_x:
        return Grid(invocations, slices, others, lanes, True)
    return Grid(invocations, slices, lanes, others)


def by_texel(
    node: NodeView,
    shader: str,
    reads: tuple[Operand, ...],
    output: Value,
    defines: Mapping[str, Define],
    epilogue: tuple[Call, ...] = (),
    *,
    flops: int = 0,
    passes: int = 0,
) -> Dispatch:
    """A dispatch of `node` with one invocation per texel of `output`."""
    grid = make_grid(output.pixels, output.slices, node.limits)
    return node.dispatch(shader, reads, output, grid, defines, epilogue, flops=flops, passes=passes)


def with_loop_lengths(dispatch: DispatchT, limits: Limits, *names: str) -> DispatchT:
    """Make these lengths of loops uniforms, unless the device's compiler unrolls short loops."""
    return dispatch if limits.profile.short_loops else dispatch.sized(*names)


LONG, FEWEST_GROUPS = 16, 4
"""Slices of a long loop, and the minimum of its work groups, unless a SIMD vector suffices."""
FEWEST_INPUTS = 4
"""Minimum number of inputs of each invocation that shares a result."""
LONG_SUM = 16
"""Likewise, of more invocations than an ordinary work group has."""


def with_reduction_lanes(grid: Grid, inputs: int, limits: Limits, each: int = 1) -> Grid:
    """The grid with several invocations per result, if the results are too few for the GPU.

    Args:
        inputs: What the invocations that share a result divide among them.
        each: Texels of each input.
    """
    results = grid.pixels * grid.slices
    fitting = limits.profile.occupancy // results if results else 0
    # lib/shared.glsl keeps two texels of each invocation.
    widest = min(limits.invocations, limits.local_size[0], limits.shared_bytes // 32)
    most = min(WORK_GROUP, inputs * each // FEWEST_INPUTS, inputs)
    most = min(fitting, max(most, min(widest, inputs // LONG_SUM)))
    if most < 2:
        return grid
    lanes = 1 << most.bit_length() - 1
    slice_lanes = min(max(WORK_GROUP // lanes, 1), grid.slices)
    pixel_lanes = min(max(WORK_GROUP // (lanes * slice_lanes), 1), grid.pixels)
    return Grid(grid.pixels, grid.slices, pixel_lanes, slice_lanes, reduction_lanes=lanes)


def pixel_grid(output: Value, limits: Limits) -> Grid:
    """One invocation per pixel; or one work group, if slices are many and pixels few."""
    slices, per_pixel = limits.profile.shared_pixels
    enough = slices + per_pixel * output.pixels
    too_long = pixel_passes(output.slices, 1) > limits.loop_passes
    if not too_long and (output.slices < enough or output.pixels > 4 * WORK_GROUP):
        grid = make_grid(output.pixels, 1, limits)
        vectors = output.pixels // (FEWEST_GROUPS * limits.simd_lanes)
        fitting = max(1, vectors) * limits.simd_lanes
        is_long = output.slices >= LONG and grid.pixel_lanes > fitting
        return replace(grid, pixel_lanes=fitting) if is_long else grid
    return Grid(output.pixels, 1, 1, 1, reduction_lanes=WORK_GROUP)


def pixel_passes(slices: int, lanes: int) -> int:
    """Passes through three loops over a pixel's slices, which `lanes` invocations share."""
    return 3 * (ceil(slices / lanes) + 1) + 2 * (lanes + 1)
