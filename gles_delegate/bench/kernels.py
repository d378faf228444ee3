"""How long a device takes for single kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from statistics import geometric_mean
from time import monotonic

import flatbuffers
import numpy as np

from gles_delegate.device.profiles import Profile
from gles_delegate.errors import OutOfGpuMemoryError, ShaderError
from gles_delegate.gl.context import GpuContext
from gles_delegate.model.flatbuffer import FlatTable
from gles_delegate.model.graph import Graph, one_node_graph
from gles_delegate.planning.lowering import Lowered, lower_graph
from gles_delegate.planning.plan import Plan, make_plan
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.shared import Shared
from gles_delegate.shaders.dispatch import Dispatch

RUNS = 10
"""Maximum number of runs of one measurement."""
_TIME_LIMIT = 0.3
"""Seconds of a measurement after which no run starts."""


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
class KernelTimer:
    """Measures models of one node on a device, inside the guard of its context."""

    gpu: GpuContext

    def plan(
        self, graph: Graph, profile: Profile | None = None, choice: int = 0, half: bool = False
    ) -> tuple[Lowered, Plan]:
        """The plan of a model, with a choice of a profile's kernels; see `make_plan`."""
        limits = self.gpu.limits
        limits = replace(limits, profile=profile or limits.profile)
        nodes = [node.index for node in graph.nodes]
        lowered = lower_graph(graph, limits)
        choices = dict.fromkeys(nodes, choice)
        return lowered, make_plan(lowered, nodes, limits, half, choices=choices)

    def seconds(self, lowered: Lowered, plan: Plan) -> float | None:
        """The fastest run of a plan's main dispatch; None if the driver cannot compile it."""
        with self.session(lowered, plan) as session:
            if session is None:
                return None
            times: list[float] = []
            end = monotonic() + _TIME_LIMIT
            main = main_dispatch(plan)
            while not times or (len(times) < RUNS and monotonic() < end):
                profile = session.profile()
                times += [seconds for dispatch, seconds in profile if dispatch == main]
            return min(times)

    def half(self) -> dict[str, float]:
        """Each kernel's time with float16 storage, divided by its time with float32."""
        ratios = {}
        for kernel in KERNELS[::2]:
            times = [self.seconds(*self.plan(kernel.graph(), half=h)) for h in (False, True)]
            if times[0] and times[1]:
                ratios[str(kernel)] = times[1] / times[0]
        return ratios

    @contextmanager
    def session(self, lowered: Lowered, plan: Plan) -> Iterator[Session | None]:
        """A session that ran once; None if the driver cannot compile or hold it."""
        try:
            session = Session(plan, lowered.graph, Shared.by_one(self.gpu))
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


def half_slowdown(gpu: GpuContext) -> float:
    """Ratio of convolution time, float16 to float32 storage; infinite if unknown."""
    with gpu.guard():
        return mean_slowdown(KernelTimer(gpu).half())


def mean_slowdown(half: Mapping[str, float]) -> float:
    """The mean of `KernelTimer.half`; infinite if it is empty."""
    return geometric_mean(half.values()) if half else inf


def main_dispatch(plan: Plan) -> Dispatch:
    """The dispatch that computes the node; others convert layouts."""
    return max(plan.dispatches, key=lambda dispatch: (dispatch.flops, dispatch.node))
