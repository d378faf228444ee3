"""Print how every model of a folder runs: on the GPU or not, why not, and how far from LiteRT.

python -m tests.model_report [--host ours|litert] FOLDER_OR_FILE ...

A line a model and host: nodes on the GPU, seconds, whether the outputs agree as `gles-delegate
compare` judges it, and the largest difference, as a share of the scale and absolute. Then a line
for each reason for which nodes run on the CPU.
"""

import argparse
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter as LiteRt

import gles_delegate as gd
from gles_delegate.bench.comparison import (
    Difference,
    agreement,
    compare_nodes,
    compare_with,
    may_be_rounding,
    prepare,
    random_feeds,
)
from gles_delegate.cli.inspect import count_ops
from gles_delegate.model.reader import ModelFile, read_models
from tests.support.models import sensible_inputs

HOSTS = ("ours", "litert")
"""The stand-alone interpreter, and LiteRT's own with the delegate."""

LONGEST = 240
"""Characters of a line."""

SUFFIXES = (".tflite", ".bin", ".task")


@dataclass(frozen=True)
class Outcome:
    """How a model runs in a host.

    Attributes:
        report: Where its nodes run.
        differences: Of each output, from LiteRT's CPU kernels; empty if those do not run it.
        problem: Why it does not run, or is not compared; "" if nothing is wrong.
        failed: Whether it does not run, or differs as `gles-delegate compare` judges it.
        seconds: For start, runs and comparison.
    """

    name: str
    host: str
    report: gd.DelegationReport
    differences: tuple[Difference, ...] = ()
    problem: str = ""
    failed: bool = False
    seconds: float = 0.0

    @property
    def on_gpu(self) -> int:
        return len(self.report.nodes) - len(self.report.not_delegated)

    @property
    def worst(self) -> Difference | None:
        """The output that is nearest to what is not allowed, or farthest past it."""
        return max(self.differences, key=_excess, default=None)


def _excess(difference: Difference) -> float:
    return difference.error / difference.most if difference.most else difference.error * np.inf


def find_models(paths: Iterable[Path]) -> Iterator[tuple[str, ModelFile]]:
    """The models of files and folders, members of bundles included."""
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in (file for file in files if file.suffix in SUFFIXES):
            name = str(file.relative_to(path)) if path.is_dir() else file.name
            for member, model in read_models(file).items():
                yield (f"{name}/{member}" if member else name), model


def run_in(host: str, name: str, model: ModelFile) -> Outcome:
    """Run a model on random inputs, and compare it with LiteRT's CPU kernels.

    Args:
        name: Its file's name, by which other inputs are known where random ones do not suit.
    """
    begin = time.perf_counter()
    (source,) = model.arguments.values()
    options = gd.GpuDelegateOptions(max_delegated_partitions=99)
    with gd.GpuDelegate(options, model=source) as delegate:
        differences: list[Difference] = []
        problem, failed = "", False
        try:
            made = gd.Interpreter if host == "ours" else LiteRt
            interpreter: Any = made(**model.arguments, experimental_delegates=[delegate])
            if any(tensor["dtype"] is np.bytes_ for tensor in interpreter.get_input_details()):
                problem = "its inputs are strings"
            else:
                feeds = random_feeds(model) | sensible_inputs(name)
                try:
                    differences = compare_with(interpreter, model, feeds, 1e-4, 1)
                except gd.LiteRtError as error:  # LiteRT lacks an op
                    problem = _first_line(error)
                    if delegate.report.fully_delegated:
                        prepare(interpreter, feeds)
                        interpreter.invoke()
        except (gd.DelegateError, RuntimeError, ValueError) as error:
            problem, failed = f"{type(error).__name__}: {_first_line(error)}", True
        report = delegate.report
    if differences:
        graph = model.graph()
        nodes = compare_nodes(model, feeds) if may_be_rounding(graph, differences) else ()
        failed = agreement(differences, list(nodes)) is False
    seconds = time.perf_counter() - begin
    return Outcome(name, host, report, tuple(differences), problem, failed, seconds)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def show(outcome: Outcome) -> None:
    """Print a line, and one for each cause of nodes on the CPU."""
    worst, error = outcome.worst, ""
    if worst is not None:
        unit = "of scale" if worst.dtype.startswith("float") else "steps"
        amount = worst.error / worst.scale
        error = f"{amount:.1e} {unit} ({worst.error:.1e}, {worst.most:.1e} allowed)"
    state = "FAILED" if outcome.failed else "agrees" if outcome.differences else "-"
    place = f"{outcome.host:<6} {outcome.on_gpu:>4} of {len(outcome.report.nodes):<4}"
    line = (
        f"{outcome.name:<52} {place} {outcome.seconds:>5.1f} s {state:<7} {error} {outcome.problem}"
    )
    print(line[:LONGEST].rstrip())
    for reason, nodes in outcome.report.causes:
        print(f"    {count_ops(node.op for node in nodes)}: {reason}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--host", choices=HOSTS, help="default: both")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    hosts = [arguments.host] if arguments.host else HOSTS
    outcomes = []
    for name, model in find_models(arguments.paths):
        for host in hosts:
            outcomes.append(run_in(host, name, model))
            show(outcomes[-1])
            sys.stdout.flush()
    whole = sum(outcome.report.fully_delegated for outcome in outcomes)
    failed = sum(outcome.failed for outcome in outcomes)
    print(f"{len(outcomes)} runs, {whole} wholly on the GPU, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
