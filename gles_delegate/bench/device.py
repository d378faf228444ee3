"""The speed of a device: bandwidth, FLOP/s of each register tile, cost of a dispatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import geometric_mean, median
from time import monotonic, perf_counter

import numpy as np

from gles_delegate.bench.kernels import KERNELS, RUNS, KernelCase, KernelTimer, main_dispatch
from gles_delegate.device import profiles
from gles_delegate.device.profiles import Profile
from gles_delegate.errors import GLError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.context import GpuContext
from gles_delegate.model.graph import Graph, one_node_graph
from gles_delegate.planning.lowering import Lowered
from gles_delegate.planning.plan import Plan
from gles_delegate.runtime.programs import Progress
from gles_delegate.shaders.assembly import assemble
from gles_delegate.shaders.dispatch import Dispatch

_COPIED = (1, 2048, 1024, 4)
"""Shape of 32 MiB, with four channels so that the copy converts no layout."""
_CHAIN = 64
"""Tiny dispatches that each wait for the previous one."""


@dataclass(frozen=True)
class TileTime:
    """The time of a kernel with one register tile.

    Attributes:
        kernel: Description of the kernel.
        tile: Pixels and slices per invocation; for a depthwise convolution, pixels.
        work_group: Invocations along the pixels and along the slices.
        form: Other variations: a window is computed "tap by tap", or its "rows
            looped" instead of unrolled; "weights by texture"; "constant sizes", which make a
            separate program for each layer; "sums shared" by several invocations.
        default_of: The profiles that use it by default.
        tried_by: Other profiles that try it for SUSTAINED_SPEED.
        seconds: Best of several runs; None if it did not compile.
        flops: Floating-point operations.
    """

    kernel: str
    tile: str
    work_group: str
    form: str
    default_of: tuple[str, ...]
    tried_by: tuple[str, ...]
    seconds: float | None
    flops: int

    @property
    def gflops(self) -> float:
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0


@dataclass(frozen=True)
class DeviceSpeed:
    """The speed of a device.

    Attributes:
        by_gpu_timer: The GPU's timer measured the kernels; otherwise the CPU's clock, with waiting.
        copy: Bytes per second, read and written.
        dispatch: Seconds of a tiny dispatch in a chain of dependent ones.
        dispatch_cpu: CPU seconds of such a dispatch.
        half: Each kernel's time with float16 storage, divided by its time with float32.
        reads: GFLOP/s of the first kernel for each way to read tensors.
        tiles: Kernels with register tiles, the fastest of each kernel first.
        profile: The name of the profile in use.
        profiles: Each profile's time divided by the fastest tiles' time, as the
            geometric mean over the kernels. Empty if profiles do not apply.
        left_out: The number of tiles not measured for lack of time.
    """

    by_gpu_timer: bool
    copy: float
    dispatch: float
    dispatch_cpu: float
    half: Mapping[str, float]
    reads: Mapping[str, float]
    tiles: Sequence[TileTime]
    profile: str
    profiles: Mapping[str, float]
    left_out: int


def name_profile(profile: Profile) -> str:
    """The name of a profile, if need be of one with another storage; "" if there is none."""
    named = profiles.NAMED.items()
    half = profile.half_storage
    exact = (name for name, other in named if other == profile)
    alike = (name for name, other in named if replace(other, half_storage=half) == profile)
    return next(exact, next(alike, ""))


def measure(gpu: GpuContext, seconds: float, progress: Progress) -> DeviceSpeed:
    """Measure the device of a context; raises `GLError` if the driver refuses a call.

    Args:
        seconds: Time limit for tiles; the profile in use comes first.
        progress: Called with the number of finished tiles, and the total.
    """
    with gpu.guard():
        return _Bench(KernelTimer(gpu), monotonic() + seconds, progress).run()


@dataclass
class _Bench:
    """The measurements; they run inside the guard of the context."""

    _timer: KernelTimer
    _end: float
    _progress: Progress

    def run(self) -> DeviceSpeed:
        timer = self._timer
        gpu = timer.gpu
        name = name_profile(gpu.limits.profile) or "its own"
        self._progress(0, 1)
        x = np.empty(_COPIED, np.float32)
        lowered, plan = timer.plan(one_node_graph("ABS", (x, x)))
        time = timer.seconds(lowered, plan)
        copy = 2 * main_dispatch(plan).output.nbytes / time if time else 0.0
        dispatch, dispatch_cpu = self._dispatch()
        tiles, left_out = self._tiles(name)
        half = timer.half()
        reads = {}
        most_texels = 0
        with suppress(GLError):  # it may lack buffer textures
            most_texels = gpu.gl.integer(gl_names.MAX_TEXTURE_BUFFER_SIZE)
        for form, texels in (("storage blocks", 0), ("buffer textures", most_texels)):
            limits = replace(gpu.limits, buffer_texels=texels)
            reader = KernelTimer(gpu.with_limits(limits))
            lowered, plan = reader.plan(KERNELS[0].graph())
            if assemble(main_dispatch(plan), limits).image_reads == bool(texels):
                time = reader.seconds(lowered, plan)
                reads[form] = main_dispatch(plan).flops / time / 1e9 if time else 0.0
        return DeviceSpeed(
            gpu.driver.timers, copy, dispatch, dispatch_cpu, half, reads, tiles, name,
            {} if gpu.limits.profile.searches else _slowdowns(tiles), left_out,
        )  # fmt: skip

    def _tiles(self, name: str) -> tuple[list[TileTime], int]:
        """Times of the profiles' tiles, and the number of those left out."""
        candidates = self._candidates(name)
        times: list[TileTime] = []
        for done, (tile, lowered, plan) in enumerate(candidates):
            self._progress(done, len(candidates))
            if monotonic() > self._end:
                break
            times.append(replace(tile, seconds=self._timer.seconds(lowered, plan)))
        order = [str(kernel) for kernel in KERNELS]
        times.sort(key=lambda tile: (order.index(tile.kernel), tile.seconds or np.inf))
        return times, len(candidates) - len(times)

    def _candidates(self, name: str) -> list[tuple[TileTime, Lowered, Plan]]:
        """Every profile's tiles for each kernel; the profile in use, called `name`, first."""
        limits = self._timer.gpu.limits
        named = {name: limits.profile}
        if not limits.profile.searches:
            others = profiles.NAMED.items()
            software = (profiles.SOFTWARE, profiles.LLVMPIPE)
            named |= {n: p for n, p in others if n != name and p not in software}
        candidates: dict[object, tuple[TileTime, Lowered, Plan]] = {}
        for user, profile in named.items():
            for choice in range(profile.choices):
                for kernel in KERNELS:
                    lowered, plan = self._timer.plan(kernel.graph(), profile, choice)
                    dispatch = main_dispatch(plan)
                    text = assemble(dispatch, limits).text
                    key = (kernel, text, dispatch.grid, tuple(dispatch.sizes.items()))
                    if key in candidates:
                        tile, lowered, plan = candidates[key]
                    else:
                        tile = _tile(kernel, dispatch)
                    if choice == 0:
                        tile = replace(tile, default_of=(*tile.default_of, user))
                    elif user not in (*tile.default_of, *tile.tried_by):
                        tile = replace(tile, tried_by=(*tile.tried_by, user))
                    candidates[key] = tile, lowered, plan
        return list(candidates.values())

    def _dispatch(self) -> tuple[float, float]:
        """Seconds of a tiny dispatch that waits for the one before it, and the CPU's part."""
        shape = (1, 1, 1, 4)
        kernel = KernelCase("", "CONV_2D", 1, 4, 4, 1).graph()
        x, weights, y = kernel.tensors
        tensors = (x, weights, *(replace(y, index=2 + i) for i in range(_CHAIN)))
        nodes = tuple(
            replace(kernel.nodes[0], index=i, inputs=(i + 1 if i else 0, 1), outputs=(i + 2,))
            for i in range(_CHAIN)
        )
        lowered, plan = self._timer.plan(Graph(tensors, nodes, (0,), (_CHAIN + 1,)))
        with self._timer.session(lowered, plan) as session:
            if session is None:
                return 0.0, 0.0
            inputs = {0: np.zeros(shape, np.float32)}

            def each() -> float:
                begin = perf_counter()
                session.run(inputs)
                self._timer.gpu.gl.glFinish()
                return (perf_counter() - begin) / len(plan.dispatches)

            busy = median(each() for _ in range(2 * RUNS))
            with session.idle():
                return busy, median(each() for _ in range(2 * RUNS))


def _slowdowns(tiles: Sequence[TileTime]) -> dict[str, float]:
    """`DeviceSpeed.profiles`, for profiles whose kernels were all measured."""
    # The last assignment counts: the fastest tile of each kernel, which comes first.
    best = {tile.kernel: tile.seconds for tile in reversed(tiles) if tile.seconds}
    times: dict[str, dict[str, float]] = {}
    for tile in tiles:
        if tile.seconds:
            for name in tile.default_of:
                times.setdefault(name, {})[tile.kernel] = tile.seconds
    ratios = {
        name: geometric_mean(seconds / best[kernel] for kernel, seconds in by_kernel.items())
        for name, by_kernel in times.items()
        if by_kernel.keys() == best.keys()
    }
    return dict(sorted(ratios.items(), key=lambda item: item[1]))


def _tile(kernel: KernelCase, dispatch: Dispatch) -> TileTime:
    defines = dispatch.defines
    grid = dispatch.grid
    tile = "x".join(str(defines[name]) for name in ("PIXELS", "SLICES") if name in defines)
    group = f"{grid.pixel_lanes}x{grid.slice_lanes}"
    by_taps = bool(defines.get("BY_TAPS"))
    by_rows = not by_taps and not defines.get("POINTWISE")
    forms = {
        "tap by tap": by_taps,
        "rows looped": by_rows and "KERNEL_H" in dispatch.sizes,
        "weights by texture": defines.get("WEIGHT_TEXTURE"),
        "weights in pairs": defines.get("WEIGHT_COLUMNS") == 2,
        "weights in bytes": defines.get("WEIGHT_COLUMNS") in (4, 8),
        "constant sizes": not dispatch.sizes,
        "sums shared": grid.reduction_lanes > 1,
    }
    form = ", ".join(form for form, applies in forms.items() if applies)
    return TileTime(str(kernel), tile, group, form, (), (), None, dispatch.flops)
