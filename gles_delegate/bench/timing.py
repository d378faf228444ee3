"""Benchmarks of models: start, first run, later runs, each dispatch, and ratios to peers."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter, sleep
from typing import Any

import numpy as np

from gles_delegate.bench.comparison import prepare
from gles_delegate.hosts.delegate import GpuDelegate
from gles_delegate.hosts.interpreter import Interpreter
from gles_delegate.litert.kernels import litert_cpu, litert_errors, without_notices
from gles_delegate.model.graph import Array
from gles_delegate.model.reader import ModelFile
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.report import MemoryReport, ProfileReport
from gles_delegate.runtime.programs import Progress

PEERS = ("litert", "litert-builtin")
"""LiteRT's CPU kernels: with XNNPACK, which is its default, and without."""

BATCH = 5
"""Runs of one competitor per turn: few enough that drift affects all alike, and caches are warm."""


@dataclass(frozen=True)
class Times:
    """Seconds of each run."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)

    def summary(self) -> dict[str, float]:
        """Milliseconds: minimum, percentiles 50, 90, 99, maximum and mean."""
        times = np.multiply(self.seconds, 1e3)
        percentiles = np.percentile(times, (0, 50, 90, 99, 100)).tolist()
        names = ("min", "p50", "p90", "p99", "max")
        return {**dict(zip(names, percentiles, strict=True)), "mean": float(times.mean())}


@dataclass(frozen=True)
class Benchmark:
    """The results of `benchmark`.

    Attributes:
        device: The driver's name for the device.
        report: The last line of the delegation's report.
        init: Seconds from the model's bytes until it can be invoked.
        first: Seconds of the first run, in which drivers may still compile.
        runs: The runs after the warm-up.
        cpu: Seconds of a run without GPU work, only Python and copies.
        peers: The peers' runs by name, interleaved with ours.
        memory: GPU memory of the delegate.
        peak_bytes: Peak memory of this process so far.
        profile: The median of each dispatch, measured separately; None: not measured.
    """

    device: str
    report: str
    init: float
    first: float
    runs: Times
    cpu: float
    peers: Mapping[str, Times]
    memory: MemoryReport
    peak_bytes: int
    profile: ProfileReport | None = field(repr=False, default=None)

    def ratio(self, peer: str) -> float:
        """Our median run time divided by the peer's."""
        return self.runs.median / self.peers[peer].median


@dataclass(frozen=True)
class Schedule:
    """The runs of a benchmark.

    Attributes:
        runs: Runs that count.
        warmup: Runs before them.
        against: Names of `PEERS`, which take turns with the GPU.
        threads: Threads of the peers' CPU kernels.
        profiles: Runs in which each dispatch is measured separately; 0 for none.
    """

    runs: int = 50
    warmup: int = 5
    against: Sequence[str] = ()
    threads: int = 2
    profiles: int = 0


def benchmark(
    model: ModelFile,
    feeds: Mapping[int, Array],
    options: GpuDelegateOptions | None = None,
    schedule: Schedule = Schedule(),
    progress: Progress = lambda done, total: None,
    compiling: Progress | None = None,
) -> Benchmark:
    """Measure a model; raises what `Interpreter` and `litert_cpu` raise.

    Args:
        feeds: The inputs by tensor index.
        progress: Called with the number of finished runs, and the total.
        compiling: See `GpuDelegate`.
    """
    runs = schedule.runs
    warmup = schedule.warmup
    threads = schedule.threads
    with litert_errors(model), without_notices():
        others = {
            name: _runner(litert_cpu(model, name == "litert-builtin", threads=threads), feeds)
            for name in schedule.against
        }
    total = (1 + len(others)) * (warmup + runs) + schedule.profiles
    done = 0

    def count(runs: int) -> None:
        nonlocal done
        done += runs
        progress(done, total)

    begin = perf_counter()
    with GpuDelegate(options, progress=compiling) as delegate:
        ours = _runner(Interpreter(**model.arguments, experimental_delegates=[delegate]), feeds)
        init = perf_counter() - begin
        first = ours()
        while not delegate.bound.is_final:
            ours()
            sleep(0.05)  # the background compiles
        runners = {"": ours, **others}
        times: dict[str, list[float]] = {name: [] for name in runners}
        for run in runners.values():
            for _ in range(warmup):
                run()
            count(warmup)
        gc.collect()
        for start in range(0, runs, BATCH):
            turn = min(BATCH, runs - start)
            for name, run in runners.items():
                times[name] += [run() for _ in range(turn)]
                count(turn)
        with delegate.bound.first.idle():
            cpu = median(ours() for _ in range(20))
        profiled = []
        for _ in range(schedule.profiles):
            profiled.append(delegate.profile())
            count(1)
        medians = tuple(
            replace(column[0], seconds=median(time.seconds for time in column))
            for column in zip(*profiled, strict=True)
        )
        return Benchmark(
            delegate.gpu.driver.renderer,
            str(delegate.report).splitlines()[-1],
            init,
            first,
            Times(tuple(times.pop(""))),
            cpu,
            {name: Times(tuple(seconds)) for name, seconds in times.items()},
            delegate.memory(),
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            replace(profiled[0], dispatches=medians) if profiled else None,
        )


def _runner(interpreter: Any, feeds: Mapping[int, Array]) -> Callable[[], float]:
    """A function that runs an interpreter; it returns the seconds from arrays to arrays."""
    prepare(interpreter, feeds)
    outputs = [detail["index"] for detail in interpreter.get_output_details()]

    def run() -> float:
        begin = perf_counter()
        for index, array in feeds.items():
            interpreter.set_tensor(index, array)
        interpreter.invoke()
        for index in outputs:
            interpreter.get_tensor(index)
        return perf_counter() - begin

    return run
