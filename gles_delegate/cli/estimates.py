"""Estimates of a model's costs on a device that is not there, for `gles-delegate inspect`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from gles_delegate.bench.roofline import (
    BOARDS,
    RENDERERS,
    SLOWER,
    Costs,
    costs_of,
    estimates,
    kernel_costs,
    row_of,
    traffic_of,
)
from gles_delegate.cli import common
from gles_delegate.dispatch import Dispatch
from gles_delegate.limits import Limits
from gles_delegate.profiles import profile_of


def read_device(
    context: click.Context, option: click.Parameter, text: str | None
) -> int | str | None:
    """The number of a device that doctor lists, or a device in the table of kernels."""
    if text is None or text in RENDERERS:
        return text
    if text.isdecimal():
        return int(text)
    names = ", ".join(RENDERERS)
    raise click.BadParameter(f"expected a device's number or one of {names}, found {text!r}")


def limits_of(device: str) -> Limits:
    """The limits that OpenGL ES 3.1 guarantees, and the kernels for a device in the table."""
    return Limits(profile=profile_of("", RENDERERS[device]))


@dataclass(frozen=True)
class Estimated:
    """The costs of a model's dispatches on a device, from the table of kernels."""

    device: str
    board: str | None
    half: bool
    dispatches: Sequence[Dispatch]

    @property
    def costs(self) -> Costs:
        """The sum over the dispatches whose kernels are in the table."""
        known = [c for d in self.dispatches if (c := costs_of(d, self.device)) is not None]
        sums = (sum(column) for column in zip(*(asdict(c).values() for c in known), strict=True))
        return Costs(*sums) if known else Costs(0, 0, 0)

    @property
    def counted(self) -> set[str]:
        """The costs that the table has for this device."""
        rows = [asdict(c) for (device, _), c in kernel_costs().items() if device == self.device]
        return {name for row in rows for name, cost in row.items() if cost}

    @property
    def unknown(self) -> list[str]:
        """The kernels that are not in the table."""
        missing = (d for d in self.dispatches if costs_of(d, self.device) is None)
        return sorted({row_of(d) for d in missing})

    def data(self) -> dict[str, Any]:
        """As JSON shows it; costs in millions, sizes in bytes, times in milliseconds.

        Costs that were not counted are None.
        """
        data: dict[str, Any] = {
            "device": self.device,
            "millions": {
                name: cost / 1e6 if name in self.counted else None
                for name, cost in asdict(self.costs).items()
            },
            "bytes": sum(map(traffic_of, self.dispatches)),
            "unknown_kernels": self.unknown,
        }
        if self.board:
            timed = estimates(self.dispatches, BOARDS[self.board])
            least = 1e3 * sum(e.seconds for e in timed)
            data |= {
                "board": self.board,
                "least_ms": least,
                "most_ms": SLOWER * least,
                "dispatches": [
                    {
                        "node": e.dispatch.node,
                        "kernel": e.kernel,
                        "ms": 1e3 * e.seconds,
                        "bound": e.bound,
                    }
                    for e in timed
                ],
            }
        return data

    def print_text(self) -> None:
        data = self.data()
        millions = ", ".join(
            f"{name} not counted" if cost is None else f"{cost:.3g} M {name}"
            for name, cost in data["millions"].items()
        )
        storage = "float16" if self.half else "float32"
        print(f"on {self.device} in {storage}: {millions}, {common.megabytes(data['bytes'])}")
        if unknown := ", ".join(data["unknown_kernels"]):
            print(f"  without {unknown}, of which the table of kernels has no costs")
        if not self.board:
            return
        least, most = data["least_ms"], data["most_ms"]
        about = BOARDS[self.board].about
        print(
            f"estimated for {about}, not measured: {least:.3g} to {most:.3g} ms, and the overhead "
            f"of {len(self.dispatches)} dispatches"
        )
        rows: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        for each in data["dispatches"]:
            rows[each["kernel"], each["bound"]].append(each["ms"])
        common.print_table(
            [
                {"kernel": k, "dispatches": len(ms), "least ms": sum(ms), "bound by": bound}
                for (k, bound), ms in sorted(rows.items(), key=lambda row: -sum(row[1]))
            ]
        )
