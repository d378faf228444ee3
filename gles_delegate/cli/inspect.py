"""``gles-delegate inspect``: which nodes run on the GPU, without one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from gles_delegate.cli.common import command, json_option, megabytes, model_argument, print_json
from gles_delegate.gl.context import GpuContext
from gles_delegate.limits import Limits
from gles_delegate.model.reader import read_file
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.partition import choose_segments
from gles_delegate.planning.plan import make_plan


@command
@model_argument
@click.option("--device", type=click.IntRange(0), help="Plan for a device that doctor lists.")
@click.option(
    "--partitions",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Segments that may run on the GPU.",
)
@click.option("--dispatches", is_flag=True, help="List what the GPU runs, one dispatch a line.")
@json_option
def inspect(
    model: Path, device: int | None, partitions: int, dispatches: bool, as_json: bool
) -> None:
    """Show which nodes of MODEL run on the GPU, why others do not, and the memory they take.

    Needs no GPU: without --device it plans for the limits that OpenGL ES 3.1 guarantees.
    """
    graph = read_file(model).graph()
    limits, planned_for = Limits(), "any device with OpenGL ES 3.1"
    if device is not None:
        gpu = GpuContext(None, device)
        gpu.release()
        limits, planned_for = gpu.limits, gpu.renderer
    lowered = lower_graph(graph, limits)
    partition = choose_segments(lowered, partitions)
    report = partition.report(graph)
    segments: list[dict[str, Any]] = []
    for segment in partition.segments:
        plan = make_plan(lowered, segment, limits)
        segments.append(
            {
                "nodes": list(segment),
                "dispatches": [str(dispatch) for dispatch in plan.dispatches],
                "activation_bytes": sum(plan.buffers),
                "peak_bytes": plan.peak_bytes,
                "constant_bytes": sum(constant.nbytes for constant in plan.constants),
            }
        )
    if as_json:
        data = {"report": dataclasses.asdict(report), "planned_for": planned_for}
        print_json({**data, "segments": segments})
        return
    print(f"{report}, planned for {planned_for}")
    for number, part in enumerate(segments):
        print(
            f"segment {number}: {len(part['nodes'])} nodes in {len(part['dispatches'])} "
            f"dispatches, {megabytes(part['activation_bytes'])} of activations, of which "
            f"{megabytes(part['peak_bytes'])} live at once, "
            f"{megabytes(part['constant_bytes'])} of weights"
        )
        if dispatches:
            print(*(f"  {line}" for line in part["dispatches"]), sep="\n")
