"""The speed of a device: bandwidth, FLOP/s of each register tile, cost of a dispatch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import inf
from statistics import geometric_mean, median
from time import monotonic, perf_counter

import flatbuffers
import numpy as np

from gles_delegate.device import profiles
from gles_delegate.device.profiles import Profile
from gles_delegate.errors import GLError, OutOfGpuMemoryError, ShaderError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.context import GpuContext
from gles_delegate.model.flatbuffer import FlatTable
from gles_delegate.model.graph import Graph, one_node_graph
from gles_delegate.planning.lowering import Lowered, lower_graph
from gles_delegate.planning.plan import Plan, make_plan
from gles_delegate.runtime.programs import Progress
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.shared import Shared
from gles_delegate.shaders.assembly import assemble
from gles_delegate.shaders.dispatch import Dispatch

_COPIED = (1, 2048, 1024, 4)
"""Shape of 32 MiB, with four channels so that the copy converts no layout."""
_CHAIN = 64
"""Tiny dispatches that each wait for the previous one."""
_RUNS, _TIME_LIMIT = 10, 0.3
"""Maximum number of runs of one measurement, and seconds after which no run starts."""


@dataclass(frozen=True)
class KernelCase:
    """A convolution of a square picture, `size` pixels wide, with SAME padding."""

    name: str
    op: str
    size: int
    channels: int
    outputs: int
    window: int
    stride: int = 1

    def __str__(self) -> str:
        sizes = f"{self.size}x{self.size}x{self.channels} to {self.outputs}"
        return f"{self.name}, {sizes}" + (f", stride {self.stride}" if self.stride > 1 else "")

    def graph(self) -> Graph:
        """A model of this one node."""
        rng = np.random.default_rng(0)
        first = 1 if self.op == "DEPTHWISE_CONV_2D" else self.outputs
        weights = rng.standard_normal((first, self.window, self.window, self.channels), np.float32)
        out = self.size // self.stride
        options = flatbuffers.Builder()
        options.StartObject(3)
        for slot in (1, 2):  # stride_w and stride_h of both ops
            options.PrependInt32Slot(slot, self.stride, 0)
        options.Finish(options.EndObject())
        table = FlatTable.root(bytes(options.Output()))
        x = np.empty((1, self.size, self.size, self.channels), np.float32)
        y = np.empty((1, out, out, self.outputs), np.float32)
        return one_node_graph(self.op, (x, weights, y), table)


KERNELS = (
    KernelCase("1x1", "CONV_2D", 56, 128, 128, 1),
    KernelCase("3x3", "CONV_2D", 56, 64, 32, 3),
    KernelCase("depthwise 3x3", "DEPTHWISE_CONV_2D", 112, 64, 64, 3),
    KernelCase("depthwise 3x3", "DEPTHWISE_CONV_2D", 112, 64, 64, 3, stride=2),
)


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
    named, half = profiles.NAMED.items(), profile.half_storage
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
        return _Bench(gpu, monotonic() + seconds, progress).run()


def half_slowdown(gpu: GpuContext) -> float:
    """Ratio of convolution time, float16 to float32 storage; infinite if unknown."""
    with gpu.guard():
        return mean_slowdown(_Bench(gpu, inf, lambda done, total: None).half())


def mean_slowdown(half: Mapping[str, float]) -> float:
    """The mean of `DeviceSpeed.half`; infinite if it is empty."""
    return geometric_mean(half.values()) if half else inf


@dataclass
class _Bench:
    """The measurements; they run inside the guard of the context."""

    _gpu: GpuContext
    _end: float
    _progress: Progress

    def run(self) -> DeviceSpeed:
        gpu, first = self._gpu, KERNELS[0]
        name = name_profile(gpu.limits.profile) or "its own"
        self._progress(0, 1)
        x = np.empty(_COPIED, np.float32)
        lowered, plan = self._plan(one_node_graph("ABS", (x, x)))
        time = self._seconds(lowered, plan)
        copy = 2 * _main(plan).output.nbytes / time if time else 0.0
        dispatch, dispatch_cpu = self._dispatch()
        tiles, left_out = self._tiles(name)
        half = self.half()
        reads, most_texels = {}, 0
        with suppress(GLError):  # it may lack buffer textures
            most_texels = gpu.gl.integer(gl_names.MAX_TEXTURE_BUFFER_SIZE)
        for form, texels in (("storage blocks", 0), ("buffer textures", most_texels)):
            limits = replace(gpu.limits, buffer_texels=texels)
            reader = _Bench(gpu.with_limits(limits), self._end, self._progress)
            lowered, plan = reader._plan(first.graph())
            if assemble(_main(plan), limits).image_reads == bool(texels):
                time = reader._seconds(lowered, plan)
                reads[form] = _main(plan).flops / time / 1e9 if time else 0.0
        return DeviceSpeed(
            gpu.driver.timers, copy, dispatch, dispatch_cpu, half, reads, tiles, name,
            {} if gpu.limits.profile.searches else _slowdowns(tiles), left_out,
        )  # fmt: skip

    def half(self) -> dict[str, float]:
        """Each kernel's time with float16 storage, divided by its time with float32."""
        ratios = {}
        for kernel in KERNELS[::2]:
            times = [self._seconds(*self._plan(kernel.graph(), half=h)) for h in (False, True)]
            if times[0] and times[1]:
                ratios[str(kernel)] = times[1] / times[0]
        return ratios

    def _tiles(self, name: str) -> tuple[list[TileTime], int]:
        """Times of the profiles' tiles, and the number of those left out."""
        candidates = self._candidates(name)
        times: list[TileTime] = []
        for done, (tile, lowered, plan) in enumerate(candidates):
            self._progress(done, len(candidates))
            if monotonic() > self._end:
                break
            times.append(replace(tile, seconds=self._seconds(lowered, plan)))
        order = [str(kernel) for kernel in KERNELS]
        times.sort(key=lambda tile: (order.index(tile.kernel), tile.seconds or np.inf))
        return times, len(candidates) - len(times)

    def _candidates(self, name: str) -> list[tuple[TileTime, Lowered, Plan]]:
        """Every profile's tiles for each kernel; the profile in use, called `name`, first."""
        limits = self._gpu.limits
        named = {name: limits.profile}
        if not limits.profile.searches:
            others = profiles.NAMED.items()
            software = (profiles.SOFTWARE, profiles.LLVMPIPE)
            named |= {n: p for n, p in others if n != name and p not in software}
        candidates: dict[object, tuple[TileTime, Lowered, Plan]] = {}
        for user, profile in named.items():
            for choice in range(profile.choices):
                for kernel in KERNELS:
                    lowered, plan = self._plan(kernel.graph(), profile, choice)
                    dispatch = _main(plan)
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

    def _plan(
        self, graph: Graph, profile: Profile | None = None, choice: int = 0, half: bool = False
    ) -> tuple[Lowered, Plan]:
        limits = self._gpu.limits
        limits = replace(limits, profile=profile or limits.profile)
        nodes = [node.index for node in graph.nodes]
        lowered = lower_graph(graph, limits)
        choices = dict.fromkeys(nodes, choice)
        return lowered, make_plan(lowered, nodes, limits, half, choices=choices)

    def _seconds(self, lowered: Lowered, plan: Plan) -> float | None:
        """The fastest run of a plan's main dispatch; None if the driver cannot compile it."""
        with self._session(lowered, plan) as session:
            if session is None:
                return None
            times: list[float] = []
            end = monotonic() + _TIME_LIMIT
            while not times or (len(times) < _RUNS and monotonic() < end):
                profile = session.profile()
                times += [seconds for dispatch, seconds in profile if dispatch == _main(plan)]
            return min(times)

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
        lowered, plan = self._plan(Graph(tensors, nodes, (0,), (_CHAIN + 1,)))
        with self._session(lowered, plan) as session:
            if session is None:
                return 0.0, 0.0
            inputs = {0: np.zeros(shape, np.float32)}

            def each() -> float:
                begin = perf_counter()
                session.run(inputs)
                self._gpu.gl.glFinish()
                return (perf_counter() - begin) / len(plan.dispatches)

            busy = median(each() for _ in range(2 * _RUNS))
            with session.idle():
                return busy, median(each() for _ in range(2 * _RUNS))

    @contextmanager
    def _session(self, lowered: Lowered, plan: Plan) -> Iterator[Session | None]:
        """A session that ran once; None if the driver cannot compile or hold it."""
        try:
            session = Session(plan, lowered.graph, Shared.by_one(self._gpu))
        except (ShaderError, OutOfGpuMemoryError):
            yield None
            return
        try:
            rng = np.random.default_rng(0)
            shapes = {i: lowered.shapes[i] for i in session.inputs}
            session.run({i: rng.random(shape, np.float32) for i, shape in shapes.items()})
            yield session
        finally:
            session.release()


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
    defines, grid = dispatch.defines, dispatch.grid
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


def _main(plan: Plan) -> Dispatch:
    """The dispatch that computes the node; others convert layouts."""
    return max(plan.dispatches, key=lambda dispatch: (dispatch.flops, dispatch.node))
