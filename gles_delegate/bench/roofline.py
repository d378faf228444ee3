"""Estimates of a model's time on a board, from statistics of its GPU's compiler: a roofline.

`kernels.csv` has, for each device and kernel, the sums of what `tools/gpu-lab/measure` counted in
some models, divided by the sum of their work. Nothing in it was measured on the device.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from math import inf, prod
from pathlib import Path

from gles_delegate.dispatch import Dispatch

TABLE = Path(__file__).with_name("kernels.csv")

RENDERERS: Mapping[str, str] = {
    "v3d-4.2": "V3D 4.2",
    "v3d-7.1": "V3D 7.1",
    "mali-t860": "Mali-T860 (Panfrost)",
    "mali-g52": "Mali-G52 (Panfrost)",
    "mali-g610": "Mali-G610 (Panfrost)",
    "adreno-530": "FD530",
    "adreno-630": "FD630",
    "adreno-730": "FD730",
    "intel-skl": "Mesa Intel(R) HD Graphics 530 (SKL GT2)",
    "intel-tgl": "Mesa Intel(R) Iris(R) Xe Graphics (TGL GT2)",
    "intel-dg2": "Mesa Intel(R) Arc(tm) A770M Graphics (DG2)",
    "intel-lnl": "Mesa Intel(R) Graphics (LNL)",
    "amd-raven": "AMD Radeon Vega 10 Graphics (radeonsi, raven, ACO)",
    "amd-navi31": "AMD Radeon RX 7900 XTX (radeonsi, navi31, ACO)",
    "nvidia-gp104": "NV134",
}
"""The devices whose compilers were asked, and their names by Mesa's drivers."""


@dataclass(frozen=True)
class Costs:
    """Costs of one or more dispatches, in the units of a device; see docs/gpus.md.

    Attributes:
        issue: Instructions, or cycles of the arithmetic units.
        loads: Accesses to memory: on V3D lookups, on Mali-G cycles of the load/store unit,
            elsewhere instructions; 0 on NVIDIA, where they are not counted.
        words: On V3D words of 64 bytes that lookups return, on Mali-G cycles of the texture unit,
            elsewhere 0.
    """

    issue: float
    loads: float
    words: float

    def times(self, factor: float) -> Costs:
        return Costs(self.issue * factor, self.loads * factor, self.words * factor)


@dataclass(frozen=True)
class Board:
    """A board, with the throughput of its GPU.

    Attributes:
        device: The device in the table of kernels.
        about: The board's names.
        rates: Units of `Costs` per second; infinite where none is known.
        bandwidth: Bytes per second from memory: half of the peak, as streaming reads on a
            Raspberry Pi 4 reach (7.2 of 12.8 GB/s by py-videocore6).
        source: Origin of clocks, cores and bandwidth.
    """

    device: str
    about: str
    rates: Costs
    bandwidth: float
    source: str


def _v3d(device: str, about: str, slices: int, clock: float, peak: float, source: str) -> Board:
    """Four QPUs a slice, each 4 clocks for an instruction; 16 bytes a clock from a slice's TMU."""
    rates = Costs(slices * clock, inf, slices * clock / 4)
    return Board(device, about, rates, peak / 2, source)


BOARDS: Mapping[str, Board] = {
    "pi4": _v3d(
        "v3d-4.2",
        "Raspberry Pi 4",
        2,
        0.5e9,
        12.8e9,
        "8 QPUs, 500 MHz (Raspberry Pi documentation, config.txt), 32-bit LPDDR4-3200; the TMU's "
        "16 bytes a clock are VideoCore's public figure",
    ),
    "pi5": _v3d(
        "v3d-7.1",
        "Raspberry Pi 5",
        3,
        0.96e9,
        17e9,
        "12 QPUs, 960 MHz (Raspberry Pi documentation, config.txt), 32-bit LPDDR4X-4267; the "
        "TMU's 16 bytes a clock are assumed, as on the Raspberry Pi 4",
    ),
    "rk3588": Board(
        "mali-g610",
        "RK3588 (Mali-G610 MP4)",
        Costs(4e9, 4e9, 4e9),
        16.9e9,
        "4 cores, 1 GHz (Rockchip's data sheet), 64-bit LPDDR4X-4224",
    ),
    "rk3399": Board(
        "mali-t860",
        "RK3399 (Mali-T860 MP4)",
        Costs(6.4e9, 3.2e9, inf),
        6.4e9,
        "4 cores with 2 arithmetic pipes and 1 for loads, 800 MHz (Rockchip's data sheet), 64-bit "
        "LPDDR3-1600",
    ),
    "sd845": Board(
        "adreno-630",
        "Snapdragon 845 (Adreno 630)",
        Costs(2.84e9, inf, inf),
        14.9e9,
        "256 arithmetic units, 710 MHz, 64-bit LPDDR4X-3733 (WikiChip)",
    ),
}
"""Boards by the names that `gles-delegate inspect --board` takes."""

SLOWER = 4
"""How much longer than its issue bound ncnn's MobileNet takes on a Raspberry Pi 5: about 170 ms
(github.com/Taot-chen/raspberrypi_dl, Vulkan, float16 storage) for 43 ms."""

HALF = " half"
"""End of the name of a kernel that reads or writes float16."""


def kernel_of(dispatch: Dispatch) -> str:
    """The kind of a dispatch's kernel."""
    return dispatch.shader + " pointwise" * bool(dispatch.defines.get("POINTWISE"))


def row_of(dispatch: Dispatch) -> str:
    """The row of a dispatch in the table of kernels."""
    kinds = {operand.kind for operand in (*dispatch.operands, dispatch.output)}
    return kernel_of(dispatch) + HALF * ("half" in kinds)


def invocations_of(dispatch: Dispatch) -> int:
    """Invocations, with those beyond the output in the last work groups."""
    return prod(dispatch.grid.groups) * prod(dispatch.grid.local_size)


def traffic_of(dispatch: Dispatch) -> int:
    """Bytes that a dispatch must read and write, each texel once."""
    written = dispatch.output.nbytes
    if dispatch.partial:
        written = min(written, invocations_of(dispatch) * dispatch.output.texel_bytes)
    read = [operand.nbytes for operand in {*dispatch.operands}]
    if not dispatch.passes:  # without loops it reads about one texel for each that it writes
        read = [min(size, written) for size in read]
    return sum(read) + written


def work_of(dispatch: Dispatch) -> int:
    """Multiply-adds, or texels that move where none are counted."""
    return dispatch.flops // 2 or traffic_of(dispatch) // dispatch.output.texel_bytes


@cache
def kernel_costs() -> Mapping[tuple[str, str], Costs]:
    """Costs of a unit of work, by device and kernel."""
    with TABLE.open(newline="", encoding="utf-8") as file:
        return {
            (row["device"], row["kernel"]): Costs(*(float(row[f.name]) for f in fields(Costs)))
            for row in csv.DictReader(file)
        }


@dataclass(frozen=True)
class Estimate:
    """The estimated time of a dispatch on a board.

    Attributes:
        kernel: Its row in the table of kernels.
        seconds: If nothing waits: of whatever takes longest.
        bound: What takes longest: "issue", "loads", "words" or "memory".
    """

    dispatch: Dispatch
    kernel: str
    seconds: float
    bound: str


def costs_of(dispatch: Dispatch, device: str) -> Costs | None:
    """The costs of a dispatch; None if its kernel is not in the table."""
    unit = kernel_costs().get((device, row_of(dispatch)))
    return unit and unit.times(work_of(dispatch))


def estimates(dispatches: Iterable[Dispatch], board: Board) -> list[Estimate]:
    """Estimates for the dispatches whose kernels are in the table."""
    return [
        Estimate(dispatch, row_of(dispatch), *longest(costs, traffic_of(dispatch), board))
        for dispatch in dispatches
        if (costs := costs_of(dispatch, board.device)) is not None
    ]


def longest(costs: Costs, traffic: float, board: Board) -> tuple[float, str]:
    """Seconds of whatever takes longest on a board, and its name."""
    seconds = {
        field.name: getattr(costs, field.name) / getattr(board.rates, field.name)
        for field in fields(Costs)
    }
    seconds["memory"] = traffic / board.bandwidth
    bound = max(seconds, key=seconds.__getitem__)
    return seconds[bound], bound
