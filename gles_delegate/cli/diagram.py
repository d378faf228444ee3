"""Drawings of graphs: nodes in layers from top to bottom, colored by where they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from xml.etree import ElementTree as Svg

from gles_delegate.model.graph import Graph, Tensor
from gles_delegate.report import DelegationReport, NodeReport

WIDTH, HEIGHT = 176.0, 34.0
"""Width and height of a box."""
GAP, LANE, LAYER, MARGIN = 18.0, 14.0, 58.0, 24.0
"""Space between boxes, space for an edge between them, distance of layers, and outer margin."""
COLORS = {"GPU": "#c9e7cb", "CPU": "#ffcf9e", "input": "#dde6f3", "output": "#dde6f3"}
SWEEPS = 12
"""Passes down and up that order and position the boxes; more make no visible difference."""


@dataclass
class _Item:
    """A box, or a bend in an edge that passes a layer."""

    layer: int
    lines: tuple[str, ...] = ()
    kind: str = ""
    tooltip: str = ""
    x: float = 0.0
    in_trunk: bool = False
    above: list[_Item] = field(default_factory=list)
    below: list[_Item] = field(default_factory=list)

    @property
    def half(self) -> float:
        return (WIDTH + GAP if self.lines else LANE) / 2

    @property
    def weight(self) -> float:
        """Its claim to the position that it wants, against its layer's others."""
        return 1e6 if self.in_trunk else 1.0


def draw_graphs(graphs: Mapping[str, tuple[Graph, DelegationReport]]) -> str:
    """SVG of graphs side by side, each under its title.

    A box shows the node's index, op and the shapes of its outputs; its tooltip shows where it
    runs and why, and its tensors' types and names. Constants and nodes that are folded are left
    out.
    """
    style = {"font-family": "sans-serif", "font-size": "11", "text-anchor": "middle"}
    root = Svg.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **style})
    left, bottom = MARGIN, 0.0
    for title, (graph, report) in graphs.items():
        layers = _layers(*_boxes(graph, report))
        _arrange(layers)
        items = [item for layer in layers for item in layer]
        west = min((item.x - item.half for item in items), default=0.0)
        east = max((item.x + item.half for item in items), default=0.0)
        cpu = "" if report.fully_delegated else "; orange: on the CPU, the tooltip says why"
        summary = report.summary + cpu
        width = max(east - west, 6.5 * len(title), 6.0 * len(summary))
        group = Svg.SubElement(root, "g", transform=f"translate({left:g} {MARGIN:g})")
        _text(group, width / 2, 12, title, **{"font-size": "14", "font-weight": "bold"})
        _text(group, width / 2, 32, summary)
        inner = Svg.SubElement(
            group, "g", transform=f"translate({(width - west - east) / 2:.1f} {46 + HEIGHT / 2:g})"
        )
        for item in items:
            for lower in item.below:
                _draw_edge(inner, item, lower)
        for item in items:
            if item.lines:
                _draw_box(inner, item)
        left += width + 2 * MARGIN
        bottom = max(bottom, 2 * MARGIN + 46 + LAYER * len(layers))
    size = f"{left - MARGIN:.0f}", f"{bottom:.0f}"
    root.attrib |= {"viewBox": " ".join(("0 0", *size)), "width": size[0], "height": size[1]}
    Svg.indent(root)
    return Svg.tostring(root, encoding="unicode") + "\n"


_Edges: TypeAlias = list[tuple[_Item, _Item]]
"""From an upper box to a lower one."""


def _boxes(graph: Graph, report: DelegationReport) -> tuple[list[_Item], _Edges]:
    """The boxes, each in a layer below everything it reads, and the edges between them."""
    reports = {node.index: node for node in report.nodes}
    # By tensor, the box that computes it.
    sources = {index: _boundary(graph.tensors[index], "input") for index in graph.inputs}
    boxes = list(sources.values())
    edges: _Edges = []

    def connect(tensors: Iterable[int], box: _Item) -> None:
        origins = {id(item): item for item in map(sources.get, tensors) if item is not None}
        edges.extend((origin, box) for origin in origins.values())
        box.layer = 1 + max((origin.layer for origin in origins.values()), default=-1)
        boxes.append(box)

    for node in graph.in_order:
        if reports[node.index].folded:
            continue
        tensors = [graph.tensors[index] for index in node.outputs if index >= 0]
        box = _node(reports[node.index], tensors)
        connect(node.inputs, box)
        sources.update((tensor.index, box) for tensor in tensors)
    for index in graph.outputs:
        connect([index], _boundary(graph.tensors[index], "output"))
    return boxes, edges


def _layers(boxes: Sequence[_Item], edges: _Edges) -> list[list[_Item]]:
    """The boxes by layer, joined along the edges, which bend in the layers between."""
    for box in boxes:  # a box that reads nothing goes directly above its first reader
        readers = [below.layer for above, below in edges if above is box]
        if readers and not any(below is box for _, below in edges):
            box.layer = min(readers) - 1
    layers: list[list[_Item]] = [[] for _ in range(1 + max((b.layer for b in boxes), default=-1))]
    for box in boxes:
        layers[box.layer].append(box)
    for above, below in edges:
        for layer in range(above.layer + 1, below.layer):
            bend = _Item(layer)
            layers[layer].append(bend)
            _join(above, bend)
            above = bend
        _join(above, below)
    return layers


def _boundary(tensor: Tensor, kind: str) -> _Item:
    return _Item(0, (f"{kind} {tensor.index}", _shape(tensor)), kind, _described(tensor))


def _node(node: NodeReport, outputs: Sequence[Tensor]) -> _Item:
    processor = "GPU" if node.delegated else "CPU"
    head = f"{node.index} {node.op}, version {node.version}, on the {processor}"
    verdict = ": ".join(filter(None, (head, node.reason)))
    lines = (f"{node.index} {node.op}", ", ".join(map(_shape, outputs)))
    return _Item(0, lines, processor, "\n".join((verdict, *map(_described, outputs))))


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "[]"


def _described(tensor: Tensor) -> str:
    return f"{tensor.index} {tensor.name!r} {tensor.dtype} {list(tensor.shape)}"


def _join(above: _Item, below: _Item) -> None:
    above.below.append(below)
    below.above.append(above)


def _arrange(layers: Sequence[list[_Item]]) -> None:
    """Order each layer by its neighbors' mean position, which leaves few edges crossed.

    Then move boxes near their neighbors, in this order and without overlap; boxes of the trunk have
    the same x.
    Sugiyama, Tagawa, Toda: "Methods for Visual Understanding of Hierarchical System Structures"
    (1981); the layers and bends above are its first steps.
    """

    def mean(items: Sequence[_Item], default: float) -> float:
        return sum(item.x for item in items) / len(items) if items else default

    def number(layer: Sequence[_Item]) -> None:
        for position, item in enumerate(layer):
            item.x = position

    for layer in layers:
        number(layer)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            layer.sort(key=lambda item: mean(item.above if down else item.below, item.x))
            number(layer)
    _mark_trunk(layers)
    for layer in layers:
        _spread(layer, [0.0] * len(layer))
    for sweep in range(2 * SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            _spread(layer, [_wanted(item) for item in layer])


def _mark_trunk(layers: Sequence[Sequence[_Item]]) -> None:
    """Mark a longest path of boxes, from the last layer up; it is drawn straight."""
    item = next((item for layer in reversed(layers) for item in layer if item.lines), None)
    while item is not None:
        item.in_trunk = True
        item = next((each for each in item.above if each.lines), None)


def _wanted(item: _Item) -> float:
    """The neighbors' mean position; the same kind counts most, so that chains are straight."""
    if item.in_trunk:
        return 0.0
    weights = [
        (other.x, 16 if bool(other.lines) == bool(item.lines) else 1)
        for other in (*item.above, *item.below)
    ]
    total = sum(weight for _, weight in weights)
    return sum(x * weight for x, weight in weights) / total if total else item.x


def _spread(layer: Sequence[_Item], wanted: Sequence[float]) -> None:
    """Move boxes to the positions nearest to `wanted`, by weighted least squares, that avoid
    overlap.

    Minus the widths to the left, positions must not decrease: isotonic regression, by pooling
    adjacent violators.
    """
    offsets, offset = [], 0.0
    for item in layer:
        offsets.append(offset + item.half)
        offset += 2 * item.half
    blocks: list[tuple[float, float, int]] = []  # weighted sum, weight and count
    for item, position, shift in zip(layer, wanted, offsets, strict=True):
        blocks.append((item.weight * (position - shift), item.weight, 1))
        while len(blocks) > 1 and _mean(blocks[-2]) > _mean(blocks[-1]):
            last, before = blocks.pop(), blocks.pop()
            blocks.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
    positions = [_mean(block) for block in blocks for _ in range(block[2])]
    for item, position, shift in zip(layer, positions, offsets, strict=True):
        item.x = position + shift


def _mean(block: tuple[float, float, int]) -> float:
    return block[0] / block[1]


def _draw_edge(group: Svg.Element, above: _Item, below: _Item) -> None:
    top, end = above.layer * LAYER + HEIGHT / 2, below.layer * LAYER - HEIGHT / 2
    middle = (top + end) / 2
    path = (
        f"M{above.x:.1f} {top:g} C{above.x:.1f} {middle:g} {below.x:.1f} {middle:g} "
        f"{below.x:.1f} {end:g}"
    )
    if not below.lines:
        path += f" v{HEIGHT:g}"  # past the boxes of its layer
    Svg.SubElement(group, "path", {"d": path, "fill": "none", "stroke": "#777"})


def _draw_box(group: Svg.Element, item: _Item) -> None:
    y = item.layer * LAYER
    box = Svg.SubElement(group, "g")
    Svg.SubElement(box, "title").text = _clean(item.tooltip)
    size = {"width": f"{WIDTH:g}", "height": f"{HEIGHT:g}", "rx": "5"}
    corner = {"x": f"{item.x - WIDTH / 2:.1f}", "y": f"{y - HEIGHT / 2:g}"}
    Svg.SubElement(box, "rect", {**corner, **size, "fill": COLORS[item.kind], "stroke": "#555"})
    for line, text in enumerate(item.lines):
        short = text if len(text) <= 30 else f"{text[:28]}…"
        _text(box, item.x, y - 3 + 13 * line, short)


def _text(group: Svg.Element, x: float, y: float, text: str, **attributes: str) -> None:
    element = Svg.SubElement(group, "text", {"x": f"{x:.1f}", "y": f"{y:g}"}, **attributes)
    element.text = _clean(text)


def _clean(text: str) -> str:
    """The text without characters that XML does not allow."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
