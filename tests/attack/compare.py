"""Trials run on the delegate and on LiteRT, each in its own process, and compared.

A finding is a crash, a hang, an error that is not of the package's tree, or another result than
that of LiteRT's CPU kernels. Where LiteRT itself crashes or hangs, nothing is compared.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gles_delegate.device.limits import Limits
from gles_delegate.errors import DelegateError
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from tests.attack.named import is_named
from tests.attack.trial import Trial
from tests.attack.ways import run_litert, run_ours, run_resized, run_xnnpack
from tests.attack.workers import Outcome, Worker
from tests.support import oracle

NAMED = "a named difference"
FAILURES = ("crash", "hang", "foreign error")
FILLS = (0x55, 0xFF)
"""Bytes whose complements fill memory; the second one's are zeros."""
MOST_ELEMENTS = 1 << 22
"""The largest tensor, in elements; larger ones only take time."""


@dataclass(frozen=True)
class Finding:
    """A trial that should have ended otherwise, and how it ended."""

    trial: Trial
    reason: str

    def __str__(self) -> str:
        return f"seed {self.trial.seed}: {self.trial.name}\n{self.reason}\n"


Report: TypeAlias = Callable[[Finding], None]


def verdict(trial: Trial, ours: Outcome, theirs: Outcome) -> str:
    """Why this is a finding; empty if it is none, or `NAMED`."""
    if theirs.kind in FAILURES:
        return ""
    if ours.kind in ("crash", "hang"):
        return ours.kind
    quoted = re.search(
        r"\b(UnsupportedModelError|ModelError|LiteRtError: cannot compare)", ours.text
    )
    refused = ours.kind == "refused by LiteRT" and not quoted
    if ours.kind == "foreign error" or (refused and theirs.kind == "result"):
        return f"{ours.kind}\n{ours.text}"
    if ours.kind == theirs.kind == "result" and ours.delegated:
        try:
            largest = np.finfo(np.float32).max  # some of LiteRT's kernels clamp infinity to it
            floats = [array for array in theirs.arrays if array.dtype.kind == "f"]
            special = not all((np.abs(array) < largest).all() for array in floats)
            oracle.assert_close(
                ours.arrays,
                theirs.arrays,
                special=special,
                steps=trial.steps,
                tolerance=trial.tolerance,
            )
        except AssertionError as error:
            if is_named(read_model(trial.content), trial.seed, ours.arrays, theirs.arrays):
                return NAMED
            return f"another result\n{error!s:.400}"
    return ""


def ending(ours: Outcome, theirs: Outcome) -> str:
    """The end of a trial that is not a finding."""
    if theirs.kind in FAILURES:
        return "LiteRT crashed or hung"
    if ours.kind == "result" and not ours.delegated:
        return "nothing on the GPU"
    if theirs.kind == "result":
        return "result of LiteRT" if ours.kind == "result" else "refused, run by LiteRT"
    return "run, refused by LiteRT" if ours.kind == "result" else "refused by both"


def compare(trials: Iterable[Trial], report: Report = lambda _: None) -> Counter[str]:
    """Run them; how many ended how. `found` is called with each finding at once."""
    ours, theirs = Worker(run_ours), Worker(run_litert)
    xnnpack, resized = Worker(run_xnnpack), Worker(run_resized)
    workers = ours, theirs, xnnpack, resized
    counts: Counter[str] = Counter()

    def outcomes(trial: Trial) -> tuple[Outcome, Outcome]:
        reference = trial.content if trial.reference is None else trial.reference
        ours.start(trial.content, trial.seed)
        theirs.start(reference, trial.seed)
        return ours.outcome(), theirs.outcome()

    def reason_of(trial: Trial) -> str:
        return verdict(trial, *outcomes(trial))

    def is_of_litert(trial: Trial, reason: str) -> bool:
        """Whether it fails so without the delegate, or the delegate takes none of its nodes."""
        if reason.partition("\n")[0] not in FAILURES:
            return False
        with suppress(DelegateError):
            graph = read_model(trial.content)
            if len(lower_graph(graph, Limits()).reasons) == len(graph.nodes):
                return True
        # What XNNPACK reads beyond a node's inputs is chance.
        for worker in (resized, *(xnnpack,) * 5):
            if worker(trial.content, trial.seed).kind in FAILURES:
                return True
            worker.stop()
        return False

    def is_of_xnnpack(trial: Trial, reason: str) -> bool:
        """Whether LiteRT gives our result itself, with the kernels of its default delegate.

        They keep an earlier shape after an IF whose branch has no elements, for example.
        """
        if trial.reference is not None or not reason.startswith("another result"):
            return False
        own, other = ours(trial.content, trial.seed), xnnpack(trial.content, trial.seed)
        return own.kind == other.kind == "result" and not verdict(trial, own, other)

    def is_chance(trial: Trial) -> bool:
        """Whether LiteRT's own result depends on what its memory held before."""
        reference = trial.content if trial.reference is None else trial.reference
        results: list[Outcome] = []
        for fill in FILLS * 3:  # processes have their memory in different places
            worker = Worker(run_litert, fill=fill)
            results += [worker(reference, trial.seed) for _ in range(3)]
            worker.stop()
        return len({(r.kind, *(array.tobytes() for array in r.arrays)) for r in results}) > 1

    def minimized(finding: Finding) -> Finding:
        for trial in finding.trial.smaller():
            reason = reason_of(trial)
            if reason.partition("\n")[0] == finding.reason.partition("\n")[0]:
                return minimized(Finding(trial, reason))
        return finding

    for trial in trials:
        if too_large(trial.content):
            counts["too large"] += 1
            continue
        ended = outcomes(trial)
        counts[ending(*ended)] += 1
        if not verdict(trial, *ended):
            continue
        for worker in workers:  # without what earlier models may have left behind
            worker.stop()
        if reason := reason_of(trial):
            counts[ending(*ended)] -= 1
            if reason == NAMED:
                counts[NAMED] += 1
            elif is_of_litert(trial, reason):
                counts["LiteRT crashed or hung"] += 1
            elif is_of_xnnpack(trial, reason):
                counts["result of LiteRT's default delegate"] += 1
            elif is_chance(trial):
                counts["LiteRT's result is chance"] += 1
            else:
                counts["finding"] += 1
                report(minimized(Finding(trial, reason)))
    for worker in workers:
        worker.stop()
    return counts


def too_large(content: bytes) -> bool:
    try:
        tensors = read_model(content).tensors
    except DelegateError:
        return False
    return any(np.prod([float(n) for n in t.shape]) > MOST_ELEMENTS for t in tensors)
