"""Graphs as text for Graphviz (DOT), whose nodes are colored by where they run."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias

from gles_delegate.model.graph import Graph, Tensor
from gles_delegate.report import DelegationReport, NodeReport

COLORS = {"GPU": "#c9e7cb", "CPU": "#ffcf9e", "boundary": "#dde6f3"}
LEGEND = {"GPU": "runs on the GPU", "CPU": "on the CPU, and why", "boundary": "input or output"}
COLUMNS = 40
"""Where lines of reasons end."""
SHORTEST = 12
"""Nodes, one above the other, that a column has at least before another begins beside it."""

Graphs: TypeAlias = Mapping[str, tuple[Graph, DelegationReport]]
"""Graphs by title."""


@dataclass(frozen=True)
class _Box:
    """A node, or an input or output of the graph.

    `key` identifies it in the file, other boxes call it `name`, and `kind` is a key of `COLORS`.
    """

    key: str
    name: str
    kind: str
    lines: tuple[str, ...]
    tooltip: str


def to_dot(graphs: Graphs) -> str:
    """DOT of graphs side by side, each under its title.

    A box shows the node's index, op and the shapes of its outputs and, on the CPU, the reason; its
    tooltip shows its tensors' types and names. Constants and nodes that are folded are left out.
    A long graph continues in columns to the right, where boxes name what they use of other columns.
    """
    style = 'shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11'
    lines = ["digraph {", f"  node [{style}]", '  graph [fontname="sans-serif"]']
    for number, (title, (graph, report)) in enumerate(graphs.items()):
        label = _quoted("\n".join((title, report.summary)))
        lines += [f"  subgraph cluster_{number} {{", f"    label={label}"]
        lines += [f"    {line}" for line in _in_columns(*_boxes(graph, report, number))]
        lines.append("  }")
    cells = "".join(f'<TD BGCOLOR="{COLORS[kind]}">{text}</TD>' for kind, text in LEGEND.items())
    legend = f'<<TABLE BORDER="0" CELLSPACING="8"><TR>{cells}</TR></TABLE>>'
    return "\n".join((*lines, f"  label={legend}", "}", ""))


def _in_columns(boxes: Sequence[_Box], edges: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Lines of DOT for boxes, and for the edges that remain within a column."""
    columns = _columns(boxes, edges)
    near = [(above, below) for above, below in edges if columns[above] == columns[below]]
    names = {box.key: box.name for box in boxes}
    distant: defaultdict[str, list[str]] = defaultdict(list)
    for above, below in edges:
        if columns[above] != columns[below]:
            distant[below].append(names[above])
    for box in boxes:
        origin = [f"from {', '.join(distant[box.key])}"] if box.key in distant else []
        label = _quoted("\n".join((*origin, *box.lines)))
        color = COLORS[box.kind]
        tooltip = _quoted(box.tooltip)
        yield f'{box.key} [label={label}, fillcolor="{color}", tooltip={tooltip}]'
    yield from (f"{above} -> {below}" for above, below in near)
    # Edges that are not drawn put columns beside each other, and keep what begins in one there.
    tops = {column: key for key, column in reversed(columns.items())}
    for column in range(1, len(tops)):
        yield f"{{rank=same {tops[column - 1]} -> {tops[column]} [style=invis]}}"
    hanging = {below for _, below in near}.union(tops.values())
    for key, column in columns.items():
        if column and key not in hanging:
            yield f"{tops[column]} -> {key} [style=invis]"


def _columns(boxes: Sequence[_Box], edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The column of each box, which are together about as wide as they are high."""
    sources: dict[str, list[str]] = {box.key: [] for box in boxes}
    for above, below in edges:
        sources[below].append(above)
    depths: dict[str, int] = {}
    for key, origins in sources.items():
        depths[key] = max((depths[origin] + 1 for origin in origins), default=0)
    height = max(SHORTEST, round(sqrt(2 * max(depths.values(), default=0))))
    return {key: depth // height for key, depth in depths.items()}


def _boxes(
    graph: Graph, report: DelegationReport, number: int
) -> tuple[list[_Box], list[tuple[str, str]]]:
    """The boxes, and the keys of those that an edge joins."""
    reports = {node.index: node for node in report.nodes}
    boxes = [_boundary(graph.tensors[i], "input", f"g{number}i{i}") for i in graph.inputs]
    edges: list[tuple[str, str]] = []
    # By tensor, the box that computes it.
    sources = dict(zip(graph.inputs, (box.key for box in boxes), strict=True))

    def connect(tensors: Iterable[int], box: _Box) -> None:
        origins = dict.fromkeys(sources[index] for index in tensors if index in sources)
        edges.extend((origin, box.key) for origin in origins)
        boxes.append(box)

    for node in graph.in_order:
        if reports[node.index].folded:
            continue
        tensors = [graph.tensors[index] for index in node.outputs if index >= 0]
        box = _node(reports[node.index], tensors, f"g{number}n{node.index}")
        connect(node.inputs, box)
        sources.update((tensor.index, box.key) for tensor in tensors)
    for place, index in enumerate(graph.outputs):
        connect([index], _boundary(graph.tensors[index], "output", f"g{number}o{place}"))
    return boxes, edges


def _boundary(tensor: Tensor, kind: str, key: str) -> _Box:
    name = f"{kind} {tensor.index}"
    return _Box(key, name, "boundary", (name, _shape(tensor)), _described(tensor))


def _node(node: NodeReport, outputs: Sequence[Tensor], key: str) -> _Box:
    kind = "GPU" if node.delegated else "CPU"
    lines = (f"{node.index} {node.op}", ", ".join(map(_shape, outputs)))
    reason = textwrap.wrap(node.reason, COLUMNS)
    head = f"{node.index} {node.op}, version {node.version}, on the {kind}"
    tooltip = "\n".join((head, *map(_described, outputs)))
    return _Box(key, str(node.index), kind, (*lines, *reason), tooltip)


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "[]"


def _described(tensor: Tensor) -> str:
    return f"{tensor.index} {tensor.name!r} {tensor.dtype} {list(tensor.shape)}"


def _quoted(text: str) -> str:
    """A string of DOT, in which a backslash begins an escape; "?" for what cannot be printed."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    escaped = (escapes.get(each, each if each.isprintable() else "?") for each in text)
    return f'"{"".join(escaped)}"'
