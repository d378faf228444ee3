"""The delegation report: where each node of a model runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any


def without_nan(value: Any) -> Any:
    """A value for JSON, which lacks NaN and infinity, with None for them."""
    return json.loads(json.dumps(value), parse_constant=lambda _: None)


@dataclass(frozen=True)
class NodeReport:
    """Where a node runs.

    Attributes:
        delegated: It runs on the GPU, or is folded.
        reason: Why it runs on the CPU; "" if it does not.
        folded: Its results depend only on constants and shapes, and are computed while planning.
        subgraph: Index of its subgraph.
    """

    index: int
    op: str
    version: int
    delegated: bool
    reason: str = ""
    folded: bool = False
    subgraph: int = 0


@dataclass(frozen=True, repr=False)
class DelegationReport:
    """Where each node runs; ``str()`` is a table.

    Attributes:
        storage: How the GPU stores real numbers: float32 or float16. Sums are float32.
        segments: The number of segments of the graph that run on the GPU.

    Examples:
        >>> with gd.GpuDelegate() as delegate:
        ...     interpreter = gd.Interpreter("segmenter.tflite", experimental_delegates=[delegate])
        ...     report = delegate.report
        >>> report.summary
        '6 of 6 nodes run on the GPU'
        >>> report.nodes[0].op, report.not_delegated
        ('CONV_2D', ())
    """

    nodes: tuple[NodeReport, ...] = ()
    storage: str = "float32"
    segments: int = 0

    def __repr__(self) -> str:
        return f"<DelegationReport: {self.summary}>"

    def __add__(self, other: DelegationReport) -> DelegationReport:
        """The nodes of two subgraphs of a model."""
        segments = self.segments + other.segments
        return DelegationReport(self.nodes + other.nodes, other.storage, segments)

    @property
    def fully_delegated(self) -> bool:
        return all(node.delegated for node in self.nodes)

    @property
    def not_delegated(self) -> tuple[tuple[int, str, str], ...]:
        """``(index, op, reason)`` of each node that does not run on the GPU."""
        return tuple((n.index, n.op, n.reason) for n in self.nodes if not n.delegated)

    @property
    def causes(self) -> tuple[tuple[str, tuple[NodeReport, ...]], ...]:
        """Each reason to run on the CPU with its nodes, most frequent reason first.

        Reasons that differ only in numbers are combined.
        """
        groups: dict[str, list[NodeReport]] = {}
        for node in self.nodes:
            if not node.delegated:
                groups.setdefault(re.sub(r"\d+", "#", node.reason), []).append(node)
        ranked = sorted(groups.values(), key=len, reverse=True)
        return tuple((nodes[0].reason, tuple(nodes)) for nodes in ranked)

    @property
    def on_the_cpu(self) -> DelegationReport:
        """The report of the nodes that do not run on the GPU."""
        return replace(self, nodes=tuple(node for node in self.nodes if not node.delegated))

    @property
    def table(self) -> str:
        """A line for each node."""
        return "\n".join(_table(self._rows))

    def __str__(self) -> str:
        return f"{self.table}\n{self.summary}, stored as {self.storage}"

    def _repr_html_(self) -> str:
        return html_table(self._rows, f"{self.summary}, stored as {self.storage}")

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("subgraph", "node", "op", "version", "runs on", "why")]
        for n in self.nodes:
            processor = "GPU" if n.delegated else "CPU"
            if n.folded:
                processor = "folded"
            rows.append((str(n.subgraph), str(n.index), n.op, str(n.version), processor, n.reason))
        if not any(n.subgraph for n in self.nodes):
            rows = [row[1:] for row in rows]
        return rows

    @property
    def summary(self) -> str:
        """The number of nodes on the GPU, as a sentence."""
        delegated = len(self.nodes) - len(self.not_delegated)
        where = f"on the GPU in {count(self.segments)}" if self.not_delegated else "on the GPU"
        return f"{delegated} of {len(self.nodes)} nodes run {where}"

    def to_json(self) -> str:
        """As JSON: an object with the list ``nodes``, ``storage`` and ``segments``."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class DispatchTime:
    """The time of one dispatch.

    Attributes:
        node: Index of its node; -1 for a layout conversion.
        op: The op of that node; "" for a layout conversion.
        shader: File name in glsl/, without ``.glsl``; "chain" for small dispatches that run as one,
            whose `op` is like "ADD and 3 more".
        text: The dispatch in one line.
        flops: Floating-point operations of convolutions and matrix products; 0 for others.
        name: Its nodes and output tensor, as graphics debuggers show them.

    Examples:
        >>> with gd.GpuDelegate() as delegate:
        ...     interpreter = gd.Interpreter("segmenter.tflite", experimental_delegates=[delegate])
        ...     interpreter.allocate_tensors()
        ...     interpreter.invoke()
        ...     slowest = max(delegate.profile(), key=lambda time: time.seconds)
        >>> slowest.seconds > 0 and slowest.gflops >= 0
        True
    """

    node: int
    op: str
    shader: str
    text: str
    seconds: float
    flops: int
    name: str = ""

    @property
    def gflops(self) -> float:
        """Billions of floating-point operations per second."""
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0


@dataclass(frozen=True)
class ProfileReport:
    """The time of each dispatch of a run, measured separately, in order; ``str()`` is a table.

    `len` and ``for`` work on the dispatches.

    Attributes:
        device: The driver's name of it.
        by_gpu_timer: True if the GPU's timer measured. Otherwise the CPU's clock did, and each time
            includes submitting the dispatch and waiting for it.

    Examples:
        >>> with gd.GpuDelegate() as delegate:
        ...     interpreter = gd.Interpreter("segmenter.tflite", experimental_delegates=[delegate])
        ...     interpreter.allocate_tensors()
        ...     interpreter.invoke()
        ...     profile = delegate.profile()
        >>> len(profile) > 0 and profile.seconds > 0
        True
    """

    device: str
    by_gpu_timer: bool
    dispatches: tuple[DispatchTime, ...]

    def __iter__(self) -> Iterator[DispatchTime]:
        return iter(self.dispatches)

    def __len__(self) -> int:
        return len(self.dispatches)

    @property
    def seconds(self) -> float:
        """The sum of all times. A run takes less, as it does not wait in between."""
        return sum(dispatch.seconds for dispatch in self)

    def __str__(self) -> str:
        return "\n".join([*_table(self._rows), self._summary])

    def _repr_html_(self) -> str:
        """For notebooks; bars show the shares."""
        return html_table(self._rows, self._summary, bars=3)

    @property
    def _summary(self) -> str:
        clock = "GPU's timer" if self.by_gpu_timer else "CPU's clock, with waiting"
        return f"{len(self)} dispatches, {self.seconds * 1e3:.3f} ms one by one, by the {clock}"

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("node", "op", "ms", "%", "GFLOP/s", "dispatch")]
        total = self.seconds
        for d in self:
            share = d.seconds / total if total else 0.0
            node, gflops = str(d.node) if d.node >= 0 else "", f"{d.gflops:.1f}" if d.flops else ""
            rows.append((node, d.op, f"{d.seconds * 1e3:.3f}", f"{share:.1%}", gflops, d.text))
        return rows

    def to_json(self) -> str:
        """As JSON: an object with these attributes, and ``gflops`` of each dispatch."""
        dispatches = [{**asdict(d), "gflops": d.gflops} for d in self]
        return json.dumps({**asdict(self), "dispatches": dispatches})


@dataclass(frozen=True)
class MemoryReport:
    """GPU memory that a delegate holds, in bytes; ``str()`` is a table.

    Attributes:
        arena: Tensors between nodes, and outputs. Those whose live ranges do not overlap share it.
        inputs: Inputs, variables and other tensors with their own buffer for a whole run.
        constants: Packed weights and biases.
        readback: Copies of outputs for `Interpreter.invoke_async`.
        programs: Compiled programs, as the size of the driver's binaries; 0 if it has none.
        bound: Description of the app's buffers and textures, by tensor index; not in `total`.

    Examples:
        >>> with gd.GpuDelegate() as delegate:
        ...     interpreter = gd.Interpreter("segmenter.tflite", experimental_delegates=[delegate])
        ...     interpreter.allocate_tensors()
        ...     memory = delegate.memory()
        >>> memory.total > memory.constants > 0
        True
    """

    arena: int = 0
    inputs: int = 0
    constants: int = 0
    readback: int = 0
    programs: int = 0
    bound: Mapping[int, str] = field(default_factory=dict)

    def __add__(self, other: MemoryReport) -> MemoryReport:
        """The memory of two segments of a model."""
        sizes = {name: size + other.sizes[name] for name, size in self.sizes.items()}
        return MemoryReport(**sizes, bound={**self.bound, **other.bound})

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes by name, without `bound`."""
        sizes = asdict(self)
        del sizes["bound"]
        return sizes

    @property
    def total(self) -> int:
        """Bytes of the delegate's own objects."""
        return sum(self.sizes.values())

    def __str__(self) -> str:
        sizes = {**self.sizes, "total": self.total}
        lines = [f"{name:<9}  {size:>13,}" for name, size in sizes.items()]
        bound = [f"tensor {index} is bound to {text}" for index, text in self.bound.items()]
        return "\n".join([f"{'':<9}  {'bytes':>13}", *lines, *bound])

    def _repr_html_(self) -> str:
        """For notebooks."""
        return html_table([("", "bytes"), *((k, f"{v:,}") for k, v in self.sizes.items())], "")

    def to_json(self) -> str:
        """As JSON: an object with these attributes and ``total``."""
        return json.dumps({**asdict(self), "total": self.total})


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; columns are as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def html_table(rows: Sequence[Sequence[str]], summary: str, bars: int | None = None) -> str:
    """A table for notebooks; `bars` is a column of percentages to draw."""

    def cell(text: str, column: int) -> str:
        style = "text-align:left"
        if column == bars:
            style += f";background:linear-gradient(90deg,#8cf8 {text},#0000 {text})"
        return f'<td style="{style}">{escape(text)}</td>'

    head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in rows[0])
    lines = ("".join(cell(text, i) for i, text in enumerate(row)) for row in rows[1:])
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><tr>{head}</tr>{body}</table><p>{escape(summary)}</p>"


def list_nodes(nodes: Iterable[tuple[int, str, str]]) -> str:
    """Format ``(index, op, reason)`` tuples, one per line."""
    return "\n".join(f"  node {index} {op}: {reason}" for index, op, reason in nodes)


def count(segments: int) -> str:
    """Format a number of segments."""
    return "1 segment" if segments == 1 else f"{segments} segments"
