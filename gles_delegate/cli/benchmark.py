"""``gles-delegate benchmark``: how fast a model runs, and where the time goes."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gles_delegate.bench import comparison, timing
from gles_delegate.cli import common
from gles_delegate.cli.tensor_files import files_by_tensor, load_inputs
from gles_delegate.model.reader import read_file
from gles_delegate.options import GpuDelegateOptions, InferencePreference
from gles_delegate.report import ProfileReport
from gles_delegate.support.optional import lacks_extra


def _peers(context: click.Context, option: click.Parameter, value: str | None) -> list[str]:
    peers = [name for name in (value or "").split(",") if name]
    for name in peers:
        if name not in timing.PEERS:
            raise click.BadParameter(f"expected peers from {list(timing.PEERS)}, found {name!r}")
    return peers


@common.command
@common.model_argument
@common.input_option
@common.scaling_options
@click.option("--runs", type=click.IntRange(1), default=50)
@click.option("--warmup", type=click.IntRange(0), default=5, help="Runs before those that count.")
@click.option(
    "--against",
    metavar="PEER,...",
    callback=_peers,
    help=f"Measure these as well, in turns, and print ratios: {', '.join(timing.PEERS)}.",
)
@click.option("--threads", type=click.IntRange(1), default=2, help="For the peers' CPU kernels.")
@click.option("--profile", is_flag=True, help="Measure each dispatch separately as well.")
@click.option("--picture", type=common.PATH, help="Draw the time of each node to this file.")
@click.option("--half", is_flag=True, help="Allow loss of precision: float16 storage.")
@click.option("--sustained-speed", is_flag=True, help="Measure tiles first, and use the fastest.")
@click.option(
    "--vector-bits",
    type=click.Choice(["128", "256", "512"]),
    help="The width of llvmpipe's vectors; default: Mesa's choice, at most 256.",
)
@common.cache_option
@common.device_option
@common.json_option
def benchmark(
    model: Path,
    inputs: Sequence[str],
    mean: float | None,
    std: float | None,
    profile: bool,
    picture: Path | None,
    half: bool,
    sustained_speed: bool,
    vector_bits: str | None,
    cache: Path | None,
    device: int | None,
    as_json: bool,
    **schedule: Any,
) -> None:
    """Measure how fast MODEL runs, from arrays to arrays."""
    file = read_file(model)
    graph = file.graph()
    read = files_by_tensor(graph, graph.inputs, inputs, "input").values()
    common.require_other_files([picture], [model, *read])
    feeds = load_inputs(graph, inputs, mean, std) if inputs else comparison.random_feeds(file)
    options = GpuDelegateOptions(
        device_index=device,
        precision_loss_allowed=half or None,
        inference_preference=InferencePreference(sustained_speed),
        software_vector_bits=int(vector_bits) if vector_bits else None,
        serialization_dir=cache,
    )
    profiles = 10 if profile or picture else 0
    with common.progress_bar() as bar:
        result = timing.benchmark(
            file,
            feeds,
            options,
            timing.Schedule(**schedule, profiles=profiles),
            common.counting(bar, model.name),
            common.compilation(bar),
        )
    if result.profile and picture:
        _draw(picture, model.name, result.profile)
    if as_json:
        common.print_json(as_data(result))
        return
    _print_benchmark(model.stem, result)
    if profile:
        print()
        common.print_report(str(result.profile), cut=True)


def as_data(result: timing.Benchmark) -> dict[str, Any]:
    data = dataclasses.asdict(result)
    data["runs"] = result.runs.summary()
    data["peers"] = {
        name: {**times.summary(), "ratio": result.ratio(name)}
        for name, times in result.peers.items()
    }
    data["profile"] = json.loads(result.profile.to_json()) if result.profile else None
    return data


_NAMES = {"litert": "LiteRT's CPU kernels", "litert-builtin": "LiteRT's kernels without XNNPACK"}
"""What `timing.PEERS` are called in sentences."""


def _summary(name: str, result: timing.Benchmark) -> str:
    """The median time and its ratios, as a sentence."""
    device = result.device.split(" (")[0]
    parts = [f"{name} takes {_milliseconds(result.runs.median)} on {device}"]
    for peer, times in result.peers.items():
        ratio = result.ratio(peer)
        than = f"{ratio:.1f} times as long" if ratio >= 1 else f"{1 / ratio:.1f} times as fast"
        parts.append(f"{than} as {_NAMES[peer]} ({_milliseconds(times.median)})")
    return ", ".join(parts)


def _milliseconds(seconds: float) -> str:
    milliseconds = seconds * 1e3
    return f"{milliseconds:.2g} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"


def _print_benchmark(name: str, result: timing.Benchmark) -> None:
    common.print_text(_summary(name, result))
    common.print_text(f"{result.device}: {result.report}\n")
    ours: dict[str, Any] = {"ms": "gles_delegate", **result.runs.summary(), "ours / its p50": ""}
    peers = [
        {"ms": name, **times.summary(), "ours / its p50": f"{result.ratio(name):.2f}"}
        for name, times in result.peers.items()
    ]
    common.print_table([ours, *peers])
    print()
    memory = result.memory
    rows = {
        "start": f"{result.init * 1e3:.0f} ms, and {result.first * 1e3:.0f} ms for the first run",
        "the CPU's part": f"{result.cpu * 1e3:.3f} ms of a run",
        "activations": common.megabytes(memory.arena + memory.inputs),
        "weights": common.megabytes(memory.constants),
        "process": f"at most {common.megabytes(result.peak_bytes)}",
    }
    common.print_pairs(rows.items())


def _plain(text: str) -> str:
    """A text for matplotlib, which would read formulas between dollars."""
    return common.printable(text).replace("$", r"\$")


def _draw(path: Path, title: str, profile: ProfileReport) -> None:
    """Draw a bar for each node: the time of its dispatches, in a color for its op."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError(lacks_extra("--picture", "plot", error)) from error
    nodes: defaultdict[tuple[int, str], float] = defaultdict(float)
    totals: defaultdict[str, float] = defaultdict(float)
    for dispatch in profile:
        op = dispatch.op or "layout conversion"
        milliseconds = dispatch.seconds * 1e3
        nodes[dispatch.node, op] += milliseconds
        totals[op] += milliseconds
    figure = Figure(figsize=(9, max(2, 0.18 * len(nodes) + 1)), layout="constrained")
    axes = figure.add_subplot()
    for op in sorted(totals, key=lambda op: -totals[op]):
        rows = [(i, t) for i, ((_, other), t) in enumerate(nodes.items()) if other == op]
        axes.barh(*zip(*rows, strict=True), label=_plain(f"{op}: {totals[op]:.2f} ms"))
    names = [_plain(f"{node} {op}" if node >= 0 else op) for node, op in nodes]
    axes.set_yticks(range(len(nodes)), names, fontsize=7)
    axes.invert_yaxis()
    summary = f"{title}: {profile.seconds * 1e3:.2f} ms in {len(profile)} dispatches, one by one"
    axes.set(xlabel=_plain(f"ms on {profile.device}"), title=_plain(summary))
    axes.margins(y=0.01)
    figure.legend(loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=120)
