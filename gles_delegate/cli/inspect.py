"""``gles-delegate inspect``: which nodes would run on a GPU."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import click

from gles_delegate.cli import common
from gles_delegate.cli.diagram import to_dot
from gles_delegate.device.limits import Limits
from gles_delegate.gl.context import GpuContext
from gles_delegate.model.graph import Graph
from gles_delegate.model.metadata import Metadata, TensorMetadata
from gles_delegate.model.reader import read_models
from gles_delegate.planning.lowering import Lowered, Lowerings
from gles_delegate.planning.outputs import read_metadata
from gles_delegate.planning.partition import choose_partitions
from gles_delegate.planning.plan import Plan, make_plan
from gles_delegate.report import DelegationReport

MAX_NAMED = 5
"""Ops that a sentence lists."""


@common.command
@common.model_argument
@click.option("--device", type=click.IntRange(0), help="Plan for a device that doctor lists.")
@click.option("--half", is_flag=True, help="Plan tensors stored as float16.")
@click.option("--partitions", type=click.IntRange(1), default=1, help="Most segments on the GPU.")
@click.option("--nodes", is_flag=True, help="List every node, also those on the GPU.")
@click.option("--dispatches", is_flag=True, help="List the GPU's dispatches, one per line.")
@click.option(
    "--graph",
    "drawing",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the graph, and where its nodes run, to this file, in Graphviz's DOT (.dot, .gv).",
)
@common.json_option
def inspect(
    model: Path,
    device: int | None,
    half: bool,
    partitions: int,
    nodes: bool,
    dispatches: bool,
    drawing: Path | None,
    as_json: bool,
) -> None:
    """Show which nodes of MODEL run on the GPU, or why not.

    It also shows the memory that they take. This needs no GPU: without --device it plans for the
    limits that OpenGL ES 3.1 guarantees. It shows every model of a bundle.
    """
    common.require_other_files([drawing], [model])
    planned_for = "any device with OpenGL ES 3.1"
    limits = Limits()
    if device is not None:
        gpu = GpuContext(None, device)
        gpu.release()
        planned_for = gpu.driver.renderer
        limits = gpu.limits
    half = half and limits.profile.half_storage
    models = {
        name: _Inspected(file.graph(), limits, half, partitions)
        for name, file in read_models(model).items()
    }
    if drawing is not None:
        drawn = [inspected.drawn(name or model.name) for name, inspected in models.items()]
        if drawing.suffix not in (".dot", ".gv"):
            raise common.wrong_usage(
                f"--graph writes text for Graphviz, .dot or .gv, found {drawing}: for a picture, "
                "write model.dot, and run 'dot -Tsvg model.dot -o model.svg'"
            )
        drawing.write_text(to_dot(dict(chain.from_iterable(drawn))), "utf-8")
    if as_json:
        data = {
            name: {**inspected.data(), "planned_for": planned_for}
            for name, inspected in models.items()
        }
        common.print_json(data.get("") or {"models": data})
        return
    for name, inspected in models.items():
        if name:
            print(f"\n{name}\n{'-' * len(name)}")
        inspected.print_text(planned_for, nodes, dispatches)


class _Entry(NamedTuple):
    graph: Graph
    lowered: Lowered
    plans: Sequence[tuple[Sequence[int], Plan]]
    report: DelegationReport


class _Inspected:
    """A model that is planned, but not run; `half`: tensors are stored as float16."""

    def __init__(self, graph: Graph, limits: Limits, half: bool, most: int) -> None:
        self._graph = graph
        self._metadata = read_metadata(graph)
        graphs = [graph.subgraphs[index] for index in graph.entries]
        lowered = [Lowerings(graph, limits).default for graph in graphs]
        partitions = choose_partitions(lowered, most)
        self._entries = []
        for subgraph, low, partition in zip(graphs, lowered, partitions, strict=True):
            sized = [s for s in partition.segments if low.unfit.keys().isdisjoint(s)]
            plans = [(segment, make_plan(low, segment, limits, half)) for segment in sized]
            report = partition.report(subgraph, "float16" if half else "float32")
            self._entries.append(_Entry(subgraph, low, plans, report))
        self._report = sum((entry.report for entry in self._entries), DelegationReport())

    def drawn(self, name: str) -> list[tuple[str, tuple[Graph, DelegationReport]]]:
        """The items of a `Graphs`."""
        return [
            (f"{name}, subgraph {e.graph.index}" if e.graph.index else name, (e.graph, e.report))
            for e in self._entries
        ]

    def data(self) -> dict[str, Any]:
        def tensors(indices: Sequence[int]) -> list[dict[str, Any]]:
            listed = [self._graph.tensors[index] for index in indices]
            return [
                {"index": t.index, "name": t.name, "dtype": t.dtype, "shape": list(t.shape)}
                for t in listed
            ]

        return {
            "metadata": _printable(self._metadata),
            "inputs": tensors(self._graph.inputs),
            "outputs": tensors(self._graph.outputs),
            "signatures": [dataclasses.asdict(s) for s in self._graph.signatures],
            "report": dataclasses.asdict(self._report),
            "causes": [
                {"reason": reason, "nodes": [node.index for node in nodes]}
                for reason, nodes in self._report.causes
            ],
            "unrolled": [
                {"node": node, "reason": reason}
                for entry in self._entries
                for node, reason in entry.lowered.unrolled.items()
            ],
            "unfit": [
                {"subgraph": entry.graph.index, "node": node, "reason": reason}
                for entry in self._entries
                for node, reason in entry.lowered.unfit.items()
            ],
            "gives_sizes": list(self._entries[0].lowered.values),
            "segments": [
                {
                    "subgraph": entry.graph.index,
                    "nodes": list(segment),
                    "dispatches": [str(dispatch) for dispatch in plan.dispatches],
                    "activation_bytes": sum(plan.buffers),
                    "peak_bytes": plan.peak_bytes,
                    "constant_bytes": sum(constant.nbytes for constant in plan.constants),
                }
                for entry in self._entries
                for segment, plan in entry.plans
            ],
        }

    def print_text(self, planned_for: str, every_node: bool, dispatches: bool) -> None:
        data = self.data()
        about = self._metadata
        for name in ("name", "description", "version", "author", "license"):
            if text := getattr(about, name):
                common.print_text(f"{name}: {text}")
        self._print_tensors("inputs", self._graph.inputs, about.inputs)
        self._print_tensors("outputs", self._graph.outputs, about.outputs)
        if self._graph.signatures:
            print("signatures:")
        for s in self._graph.signatures:
            where = f", subgraph {s.subgraph}" if s.subgraph else ""
            names = f"{', '.join(s.inputs)} -> {', '.join(s.outputs)}"
            common.print_text(f"  {s.key}: {names}{where}")
        report = self._report
        common.print_text(f"ops: {count_ops(node.op for node in report.nodes)}")
        listed = report if every_node else report.on_the_cpu
        if listed.nodes:
            common.print_report(listed.table)
        where = f"stored as {report.storage}, planned for {planned_for}"
        common.print_text(f"{report.summary}, {where}")
        for index in data["gives_sizes"]:
            common.print_text(
                f"input {self._described(index)}: its value determines tensor sizes, so each new "
                "value needs another plan and compilation; shown is an example"
            )
        for reason, nodes in report.causes:
            common.print_text(f"on the CPU: {count_ops(node.op for node in nodes)}: {reason}")
        for each in data["unfit"]:
            common.print_text(
                f"node {each['node']}: its segment is planned when the sizes that the file leaves "
                f"open are given; with those in the file: {each['reason']}"
            )
        for number, segment in enumerate(data["segments"]):
            common.print_text(
                f"segment {number}: {len(segment['nodes'])} nodes in {len(segment['dispatches'])} "
                f"dispatches, {common.megabytes(segment['activation_bytes'])} of activations, of "
                f"which {common.megabytes(segment['peak_bytes'])} live at once, "
                f"{common.megabytes(segment['constant_bytes'])} of weights"
            )
            if dispatches:
                for line in segment["dispatches"]:
                    common.print_text(f"  {line}")
        for each in data["unrolled"]:
            common.print_text(
                f"node {each['node']}: its iterations are unrolled, because it is not a recurrent "
                f"layer that runs in one dispatch: {each['reason']}"
            )

    def _print_tensors(
        self, title: str, indices: Sequence[int], tensors: Sequence[TensorMetadata]
    ) -> None:
        print(f"{title}:")
        for index, tensor in zip(indices, tensors, strict=True):
            described = filter(None, (self._described(index), str(tensor)))
            common.print_text(f"  {' - '.join(described)}")

    def _described(self, index: int) -> str:
        """A tensor's index, name, type, shape and quantization."""
        tensor = self._graph.tensors[index]
        shape = [
            "?" if free < 0 else size
            for size, free in zip(tensor.shape, tensor.shape_signature or tensor.shape, strict=True)
        ]
        steps = ""
        if tensor.is_quantized and len(tensor.quantization.scales) == 1:
            scale, zero = tensor.quantization.pair
            steps = f", (x - {zero}) * {scale:.6g}"
        return f"{index} {tensor.name!r} {tensor.dtype} [{', '.join(map(str, shape))}]{steps}"


def count_ops(ops: Iterable[str]) -> str:
    """A description of ops: the number of each."""
    counts = Counter(ops).most_common()
    names = [f"{count} {op}" if count > 1 else op for op, count in counts[:MAX_NAMED]]
    return ", ".join(names) + (" and others" if len(counts) > MAX_NAMED else "")


def _printable(metadata: Metadata) -> dict[str, Any]:
    """Metadata as JSON, with the number of bytes of custom metadata."""

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {key: value for key, value in pairs if not isinstance(value, bytes)}

    known = dataclasses.asdict(dataclasses.replace(metadata, custom={}), dict_factory=fields)
    return {**known, "custom": {name: len(data) for name, data in metadata.custom.items()}}
