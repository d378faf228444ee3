"""Run damaged models on the delegate and on LiteRT, each in a process of its own, and compare.

python -m tests.attack [--minutes N | --models N] [--seed N] [--keep FOLDER]

A finding is a crash, a hang, an error that is not of the package's tree, or another result than
that of LiteRT's CPU kernels. Where LiteRT itself crashes or hangs, nothing is compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from gles_delegate.errors import DelegateError
from gles_delegate.model.reader import read_model
from tests.attack.mutation import damaged
from tests.attack.workers import Outcome, Worker, run_litert, run_ours, run_xnnpack
from tests.support import oracle

NAMED = ("DIV (8-bit)",)
"""Cases whose results may differ: 8-bit numbers divided by zero."""

MOST_ELEMENTS = 1 << 22
"""Of a tensor; larger ones only take time."""


def verdict(ours: Outcome, theirs: Outcome) -> str:
    """Why this is a finding; empty if it is none."""
    if theirs.kind in ("crash", "hang"):
        return ""
    if ours.kind in ("crash", "hang"):
        return ours.kind
    refused = ours.kind == "refused by LiteRT" and theirs.kind == "result"
    if ours.kind == "foreign error" or refused:
        return f"{ours.kind}\n{ours.text}"
    if ours.kind == theirs.kind == "result" and ours.delegated:
        try:
            special = any(a.dtype.kind == "f" and not np.isfinite(a).all() for a in theirs.arrays)
            oracle.assert_close(ours.arrays, theirs.arrays, special=special)
        except AssertionError as error:
            return f"another result\n{error!s:.400}"
    return ""


def too_large(content: bytes) -> bool:
    try:
        tensors = read_model(content).tensors
    except DelegateError:
        return False
    return any(np.prod([float(n) for n in t.shape]) > MOST_ELEMENTS for t in tensors)


def attack(
    seeds: Iterable[int], found: Callable[[int, str, bytes], None] = lambda *_: None
) -> tuple[Counter[str], list[str]]:
    """Run the models of these seeds; how many ended how, and the findings.

    Args:
        found: Called with each finding: its seed, what it is, and the model.
    """
    workers = ours, theirs, xnnpack = Worker(run_ours), Worker(run_litert), Worker(run_xnnpack)
    counts: Counter[str] = Counter()
    findings: list[str] = []
    for seed in seeds:
        name, content = damaged(seed)
        if too_large(content):
            counts["too large"] += 1
            continue
        outcome, expected = ours(content, seed), theirs(content, seed)
        counts[f"{outcome.kind}, LiteRT: {expected.kind}"] += 1
        reason = verdict(outcome, expected)
        if reason:  # again, without what earlier models may have left behind
            for worker in workers:
                worker.stop()
            reason = verdict(ours(content, seed), theirs(content, seed))
        if reason in ("crash", "hang"):
            for _ in range(5):  # what it reads beyond a node's inputs is chance
                if xnnpack(content, seed).kind == reason:
                    reason = ""
                xnnpack.stop()
        if reason.startswith("another result") and name.startswith(NAMED):
            reason = ""
        if reason:
            findings.append(f"seed {seed}: {name}\n{reason}\n")
            found(seed, findings[-1], content)
    return counts, findings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=2, help="default: 2")
    parser.add_argument("--models", type=int, help="instead of minutes")
    parser.add_argument("--seed", type=int, default=0, help="of the first model")
    parser.add_argument("--keep", type=Path, help="write what is found to this folder")
    arguments = parser.parse_args()

    def seeds() -> Iterator[int]:
        end = time.monotonic() + 60 * arguments.minutes
        seed = arguments.seed
        while time.monotonic() < end:
            yield seed
            seed += 1

    def found(seed: int, finding: str, content: bytes) -> None:
        print(finding, flush=True)
        if arguments.keep:
            arguments.keep.mkdir(parents=True, exist_ok=True)
            (arguments.keep / f"{seed}.tflite").write_bytes(content)

    models = arguments.models
    chosen = range(arguments.seed, arguments.seed + models) if models else seeds()
    counts, findings = attack(chosen, found)
    print(f"{counts.total()} models from seed {arguments.seed} on, {len(findings)} findings")
    for kind, count in sorted(counts.items()):
        print(f"{count:8} {kind}")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
