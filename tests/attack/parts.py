"""The parts of the attack."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from tests.attack import hard
from tests.attack.asynchronous import run_cancelled
from tests.attack.cache import run_damaged
from tests.attack.compare import Finding, Report, compare
from tests.attack.decoders import run_decoders
from tests.attack.disks import run_on_small_disk
from tests.attack.downloads import run_downloads
from tests.attack.environments import run_environments
from tests.attack.faults import cases, run_fault
from tests.attack.graphs import drawn
from tests.attack.mutation import damaged
from tests.attack.requests import run_requests
from tests.attack.results import run_results
from tests.attack.soak import SOAKS, run_soak
from tests.attack.sources import run_source
from tests.attack.tasks import run_tasks
from tests.attack.trial import Trial
from tests.attack.verdicts import run_verdicts
from tests.attack.workers import Outcome, Worker
from tests.support.random_graphs import KINDS

Run = Callable[[Iterable[int], Report], Counter[str]]


@dataclass(frozen=True)
class Part:
    """One kind of attack.

    Attributes:
        what: It tries.
        run: Tries the cases of these seeds, reports each finding, and counts how they ended.
        share: Of the time of an attack.
        cases: Returns the number of cases, which are numbered from 0; None: one for each seed.
    """

    what: str
    run: Run
    share: float
    cases: Callable[[], int] | None = None


def _compare(trial: Callable[[int], Trial], seeds: Iterable[int], report: Report) -> Counter[str]:
    return compare(map(trial, seeds), report)


def _alone(
    run: Callable[[bytes, int], Outcome], seconds: float, seeds: Iterable[int], report: Report
) -> Counter[str]:
    worker, counts = Worker(run, seconds), Counter[str]()
    for seed in seeds:
        outcome = worker(b"", seed)
        counts["as expected" if outcome.kind == "result" else outcome.kind] += 1
        if outcome.kind != "result":
            report(Finding(Trial(seed, outcome.text, b""), outcome.kind))
    worker.stop()
    return counts


PARTS = {
    "models": Part("damaged models", partial(_compare, damaged), 0.3),
    "graphs": Part("random graphs", partial(_compare, partial(drawn, KINDS)), 0.2),
    "copies": Part("random graphs of copies", partial(_compare, partial(drawn, ["copies"])), 0.2),
    "branches": Part(
        "random graphs of branches", partial(_compare, partial(drawn, ["branches"])), 0.2
    ),
    "hard": Part("hard values", hard.attack, 0.1, lambda: len(hard.CASES)),
    "faults": Part(
        "faults of GL and EGL", partial(_alone, run_fault, 120), 0.2, lambda: len(cases())
    ),
    "cache": Part("damage to the cache", partial(_alone, run_damaged, 20), 0.1),
    "disks": Part("full and read-only disks", partial(_alone, run_on_small_disk, 60), 0.05),
    "async": Part("cancelled and failing runs", partial(_alone, run_cancelled, 30), 0.05),
    "environments": Part("LiteRT 2 in threads", partial(_alone, run_environments, 60), 0.05),
    "vision": Part("hard values for vision", partial(_alone, run_decoders, 60), 0.1),
    "tasks": Part("calls and bundles of tasks", partial(_alone, run_tasks, 60), 0.1),
    "sources": Part("videos, pictures, cameras", partial(_alone, run_source, 60), 0.1),
    "results": Part("tables of results", partial(_alone, run_results, 60), 0.05),
    "downloads": Part("downloads of models", partial(_alone, run_downloads, 60), 0.05),
    "requests": Part("requests over HTTP", partial(_alone, run_requests, 60), 0.05),
    "verdicts": Part("verdicts on drivers", partial(_alone, run_verdicts, 60), 0.05),
    "soak": Part("soaks", partial(_alone, run_soak, 600), 0.1, lambda: len(SOAKS)),
}
