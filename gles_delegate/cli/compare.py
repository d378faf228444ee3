"""``gles-delegate compare``: the GPU's results against the CPU kernels of LiteRT."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from gles_delegate.bench import comparison
from gles_delegate.cli import common
from gles_delegate.cli.tensor_files import load_inputs
from gles_delegate.hosts.shapes import naming_new_shapes
from gles_delegate.model.reader import read_file
from gles_delegate.options import GpuDelegateOptions


@common.command
@common.model_argument
@common.input_option
@common.scaling_options
@click.option("--seed", type=click.IntRange(0), default=0, help="For inputs that are not given.")
@click.option("--per-op", is_flag=True, help="Each node separately, on LiteRT's tensors.")
@click.option(
    "--tolerance", type=common.Finite(0), help="Of scale; default 1e-4, with --per-op 1e-5."
)
@click.option("--writes", is_flag=True, help="Also check the bytes that each dispatch writes.")
@click.option("--steps", type=click.IntRange(0), default=1, help="Allowed in 8-bit tensors.")
@common.device_option
@common.json_option
def compare(
    model: Path,
    inputs: Sequence[str],
    mean: float | None,
    std: float | None,
    seed: int,
    per_op: bool,
    tolerance: float | None,
    writes: bool,
    steps: int,
    device: int | None,
    as_json: bool,
) -> None:
    """Compare the GPU's results for MODEL with LiteRT's CPU kernels.

    Exits with status 1 and names the first tensor if one differs by more than is allowed. An output
    of a quantized network may differ by more, because rounding accumulates, in LiteRT's kernels
    too. Then each node is judged separately, on LiteRT's tensors; with weights of 8 bits and real
    activations, only if an output differs by more than twice what LiteRT's own kernels and XNNPACK
    do, or than a quarter of its largest number. If all nodes agree, and an output differs by more
    than that quarter, or if only nodes differ for which LiteRT rounds activations to 8 bits, it
    exits with status 3: nothing shows whether the output is right.

    With --writes, each dispatch also runs separately, and must write every byte of its output and
    no other: that finds faults of a driver or a kernel which a comparison may miss.
    """
    file = read_file(model)
    graph = file.graph()
    feeds = load_inputs(graph, inputs, mean, std) if inputs else comparison.random_feeds(file, seed)
    options = GpuDelegateOptions(device_index=device)
    limits: dict[str, Any] = {"steps": steps}
    if tolerance is not None:
        limits["tolerance"] = tolerance
    nodes: list[comparison.Difference] = []
    with naming_new_shapes(graph, feeds), common.progress_bar() as bar:

        def by_node(title: str) -> list[comparison.Difference]:
            compared = comparison.compare_nodes(file, feeds, options, **limits)
            return list(bar.track(compared, description=escape(title)))

        if per_op:
            differences = by_node(model.name)
        else:
            differences = comparison.compare_outputs(
                file, feeds, options, progress=common.compilation(bar), **limits
            )
            if comparison.may_be_rounding(graph, differences):
                nodes = by_node("node by node")
    wrong = [*map(str, comparison.stray_accesses(file, feeds, options))] if writes else None
    agreement = comparison.agreement(differences, nodes)
    passed = False if wrong else agreement
    if as_json:
        found = {"tensors": _rows(differences), "nodes": _rows(nodes) or None, "writes": wrong}
        by_name = {key: rows for key, rows in found.items() if rows is not None}
        common.print_json({**by_name, "passed": passed})
    else:
        _print(differences, nodes, agreement, wrong)
    sys.exit({True: 0, False: 1, None: 3}[passed])


def _print(
    differences: Sequence[comparison.Difference],
    nodes: Sequence[comparison.Difference],
    agreement: bool | None,
    wrong: Sequence[str] | None,
) -> None:
    common.print_table([_row(difference) for difference in differences])
    common.print_text(_LEGEND)
    if nodes:
        print(
            "some differ by more than the rounding of one node, as LiteRT's own kernels and "
            "XNNPACK may; node by node, on LiteRT's tensors,"
        )
    passed = all(difference.passed for difference in nodes or differences)
    common.print_text(common.verdict(_verdict(nodes or differences), passed))
    if agreement is None:
        common.print_text(common.verdict(_UNJUDGED, False))
    if wrong is not None:
        text = "\n".join(wrong) or "each dispatch writes its output, and nothing else"
        common.print_text(common.verdict(text, not wrong))


_UNJUDGED = (
    "cannot judge: rounding, including LiteRT's of activations to 8 bits, explains each node's "
    "difference but not an output's; give an --input that the network was trained for"
)
_LEGEND = (
    "off by: the largest difference from LiteRT's tensor, in steps for 8-bit tensors; "
    "same top: the largest number has the same index"
)


def _row(difference: comparison.Difference) -> dict[str, Any]:
    agrees = difference.passed
    return {
        "node": difference.node,
        "op": difference.op,
        "tensor": difference.tensor,
        "name": difference.name,
        "off by": difference.error,
        "allowed": float(difference.most),
        "same top": "yes" if difference.same_maximum else "no",
        "agrees": common.verdict("yes" if agrees else "NO", agrees),
    }


def _rows(differences: Sequence[comparison.Difference]) -> list[dict[str, Any]]:
    return [{**asdict(d), "allowed": float(d.most), "passed": d.passed} for d in differences]


def _verdict(differences: Sequence[comparison.Difference]) -> str:
    failed = [difference for difference in differences if not difference.passed]
    if not failed:
        count = len(differences)
        return f"all {count} tensors agree" if count != 1 else "the tensor agrees"
    first = failed[0]
    return (
        f"{len(failed)} of {len(differences)} tensors differ, the first is tensor {first.tensor} "
        f"{first.name!r} of node {first.node} {first.op}: off by {first.error:.2g}, "
        f"allowed {first.most:.2g}"
    )
