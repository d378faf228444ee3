"""What became of each node of a model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class NodeReport:
    """What became of a node: on the GPU, or the reason why not."""

    index: int
    op: str
    version: int
    delegated: bool
    reason: str = ""


@dataclass(frozen=True)
class DelegationReport:
    """Node by node, what runs on the GPU; ``str()`` is a table.

    Attributes:
        storage: How the GPU stores real numbers, float32 or float16; it adds up in float32.
        segments: Parts of the graph that run on the GPU as one.
    """

    nodes: tuple[NodeReport, ...] = ()
    storage: str = "float32"
    segments: int = 0

    @property
    def fully_delegated(self) -> bool:
        return all(node.delegated for node in self.nodes)

    @property
    def not_delegated(self) -> tuple[tuple[int, str, str], ...]:
        """``(index, op, reason)`` of each node that does not run on the GPU."""
        return tuple((n.index, n.op, n.reason) for n in self.nodes if not n.delegated)

    def __str__(self) -> str:
        rows = [("node", "op", "version", "runs on", "why")]
        for n in self.nodes:
            place = "GPU" if n.delegated else "CPU"
            rows.append((str(n.index), n.op, str(n.version), place, n.reason))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        taken = len(self.nodes) - len(self.not_delegated)
        place = f"on the GPU in {count(self.segments)}" if self.not_delegated else "on the GPU"
        summary = f"{taken} of {len(self.nodes)} nodes run {place}, stored as {self.storage}"
        return "\n".join([*lines, summary])

    def to_json(self) -> str:
        """As JSON: an object with the list ``nodes``, ``storage`` and ``segments``."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class DispatchTime:
    """What one dispatch took.

    Attributes:
        node, op: Of the node it belongs to; -1 and "" where a tensor only changes its layout.
        shader: File name in glsl/, without ``.glsl``.
        text: The whole of it in a line.
        flops: Floating point operations of its convolutions and products, 0 for others.
    """

    node: int
    op: str
    shader: str
    text: str
    seconds: float
    flops: int

    @property
    def gflops(self) -> float:
        """Billions of floating point operations per second."""
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0


def list_nodes(nodes: Iterable[tuple[int, str, str]]) -> str:
    """A line for each ``(index, op, reason)``."""
    return "\n".join(f"  node {index} {op}: {reason}" for index, op, reason in nodes)


def count(segments: int) -> str:
    """The number of segments in words."""
    return "1 segment" if segments == 1 else f"{segments} segments"
