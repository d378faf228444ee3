"""Hard values (NaN, infinities, zeros, denormals, edges of integers) through the op table.

Each case of the table runs on the delegate in both hosts, and on each set of LiteRT's CPU kernels.
Where these agree on a number, ours must be the same; where they do not, it must be one of theirs or
lie between them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import lru_cache, partial
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import OpResolverType
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.errors import DelegateError
from tests.attack.compare import FAILURES, NAMED, Finding, Report
from tests.attack.named import is_hard_difference
from tests.attack.trial import Trial
from tests.attack.workers import Outcome, Worker
from tests.op_table import CASES
from tests.op_table.case import Case
from tests.support import oracle

LARGEST, SMALLEST = float(np.finfo(np.float32).max), 2.0**-149
HUGE = 1e30
NORMAL = float(np.finfo(np.float32).tiny)
FLOATS: dict[str, tuple[float, ...]] = {
    "special": (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5),
    "zeros": (0.0, -0.0, 0.0, -0.0, 1.0, -2.0),
    "infinities": (np.inf, -np.inf, 2.0, -0.0, -3.5),
    "large": (LARGEST, -LARGEST, 3e38, -1e30, 65504.0, 2.0**31, -(2.0**31), 2.0**24 + 2),
    "small": (NORMAL, -NORMAL, 1e-30, -1e-20, 1e-8, -1e-7, SMALLEST, -1e-40),
}
"""Numbers by the name of their palette."""

INTEGERS = ("integers", "one integer")
PALETTES = (*FLOATS, "one NaN", *INTEGERS)
TOLERANCE = 1e-5
SETS = (
    OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    OpResolverType.BUILTIN,
    OpResolverType.BUILTIN_REF,
)
"""LiteRT's kernels: optimized, XNNPACK's and reference; some ops lack some of them."""

Run = Callable[[Any, int], Any]


@lru_cache(1)
def built(seed: int) -> tuple[bytes, list[NDArray[Any]]]:
    """The model of a case, and its inputs."""
    return CASES[seed].build()


def feeds(seed: int, palette: str, interpreter: Any) -> list[NDArray[Any]]:
    """The inputs of a case, of which some elements are of a palette."""
    rng = np.random.default_rng([CASES[seed].hash, PALETTES.index(palette)])
    _, arrays = built(seed)
    details = interpreter.get_input_details()
    return [
        hardened(array, palette, detail, rng) for array, detail in zip(arrays, details, strict=True)
    ]


def hardened(
    array: NDArray[Any], palette: str, detail: Any, rng: np.random.Generator
) -> NDArray[Any]:
    hard, is_float = array.copy(), array.dtype.kind == "f"
    if not hard.size or array.dtype.kind not in "iuf" or is_float == (palette in INTEGERS):
        return hard
    if palette in ("one NaN", "one integer"):
        at = rng.integers(hard.size)
        hard.reshape(-1)[at] = np.nan if is_float else rng.choice(edges(hard.dtype, detail))
    elif palette in FLOATS and is_float:
        with np.errstate(over="ignore"):
            values = np.array(FLOATS[palette]).astype(hard.dtype)
        share = 1.0 if palette == "small" else 0.7
        hard = np.where(rng.random(hard.shape) < share, rng.choice(values, hard.shape), hard)
    elif palette == "integers" and not is_float:
        hard = rng.choice(edges(hard.dtype, detail), hard.shape)
    return np.asarray(hard, array.dtype).reshape(array.shape)


def edges(dtype: np.dtype[Any], detail: Any) -> NDArray[Any]:
    """The limits of a type, and its zero point; for int64, the limits of int32."""
    limits = np.iinfo(np.int32 if dtype == np.int64 else dtype)
    _, zero = detail["quantization"]
    middle = [zero + n for n in (-1, 0, 1, 2)]
    values = [limits.min, limits.min + 1, *middle, limits.max - 1, limits.max]
    return np.array([n for n in values if limits.min <= n <= limits.max], dtype)


def run_kernels(kernels: OpResolverType, palettes: bytes, seed: int) -> Outcome:
    """The outputs of LiteRT's interpreter for each palette, or the message of its error."""
    make = partial(oracle.litert_interpreter, built(seed)[0], kernels=kernels)
    try:
        return Outcome("result", tuple(_run_each(seed, palettes, make)))
    except (RuntimeError, ValueError) as error:
        return Outcome("refused", text=str(error))


def run_hosts(palettes: bytes, seed: int) -> Outcome:
    """The outputs for each palette, in our interpreter and then in LiteRT's."""
    content, _ = built(seed)
    results: list[Any] = []
    try:
        for host in (oracle.in_ours, oracle.in_litert):
            with ExitStack() as stack:

                def make(host: Any = host, stack: ExitStack = stack) -> Any:
                    delegate = stack.enter_context(closing(gd.GpuDelegate(model=content)))
                    return host(delegate, content)

                results += _run_each(seed, palettes, make)
    except (DelegateError, MemoryError) as error:
        return Outcome("refused", text=str(error))
    except Exception as error:
        return Outcome("foreign error", text=repr(error))
    return Outcome("result", tuple(results))


def _run_each(seed: int, palettes: bytes, make: Callable[[], Any]) -> Iterator[Any]:
    """The outputs for each palette, each in a new interpreter if it keeps numbers between runs."""
    keeps = any(tensor["is_variable"] for tensor in CASES[seed].sketch()[0].tensors)
    interpreter = make()
    for i, palette in enumerate(palettes):
        interpreter = make() if keeps and i else interpreter
        try:
            yield oracle.run(interpreter, feeds(seed, PALETTES[palette], interpreter))
        except (RuntimeError, ValueError, DelegateError) as error:
            if isinstance(interpreter, gd.Interpreter) and not isinstance(error, DelegateError):
                raise
            yield str(error)


def attack(seeds: Iterable[int], report: Report) -> Counter[str]:
    """Run the cases of these seeds; how many runs ended how."""
    ours = Worker(run_hosts)
    theirs = [Worker(partial(run_kernels, kernels)) for kernels in SETS]
    counts: Counter[str] = Counter()
    for seed in seeds:
        case, every = CASES[seed], palettes_for(seed)
        for worker in (ours, *theirs):
            worker.start(every, seed)
        outcome = ours.outcome()
        references = [_by_palette(worker, every, seed) for worker in theirs]
        if outcome.kind != "result":
            counts[outcome.kind] += 1
            if outcome.kind in FAILURES:
                report(_finding(seed, outcome.kind, outcome.text))
            continue
        for i, result in enumerate(outcome.arrays):
            at, host = i % len(every), "in LiteRT" if i >= len(every) else "alone"
            palette = PALETTES[every[at]]
            known = [r[at] for r in references if not isinstance(r[at], str)]
            ending, reason = judged(case, palette, result, known)
            counts[ending] += 1
            if ending == "finding":
                report(_finding(seed, f"{palette}, {host}", reason))
    for worker in (ours, *theirs):
        worker.stop()
    return counts


def _finding(seed: int, where: str, reason: str) -> Finding:
    content, _ = built(seed)
    return Finding(Trial(seed, f"{CASES[seed].id}: {where}", content), reason)


def palettes_for(seed: int) -> bytes:
    """The numbers of the palettes that change an input of the case."""
    kinds = {array.dtype.kind for array in built(seed)[1]}
    fitting = (*FLOATS, "one NaN") if "f" in kinds else ()
    fitting += INTEGERS if kinds & {"i", "u"} else ()
    return bytes(PALETTES.index(palette) for palette in fitting)


def _by_palette(worker: Worker, palettes: bytes, seed: int) -> list[Any]:
    """The results of a worker, or why there are none; palettes one by one after a crash."""
    outcome = worker.outcome()
    if outcome.kind in ("crash", "hang"):
        alone = [worker(bytes([palette]), seed) for palette in palettes]
        return [one.arrays[0] if one.arrays else one.kind for one in alone]
    return list(outcome.arrays) or [outcome.text] * len(palettes)


def judged(case: Case, palette: str, ours: Any, theirs: Sequence[Any]) -> tuple[str, str]:
    """How a run ended, and why it is a finding."""
    if not theirs:
        return ("refused by both", "") if isinstance(ours, str) else ("run, refused by LiteRT", "")
    if isinstance(ours, str):
        return ("refused", "") if "int32" in ours else ("finding", ours)
    least = 0.0 if palette == "small" else 1.0
    differences = {
        kind: example
        for i, array in enumerate(ours)
        for kind, example in differing(array, [a[i] for a in theirs], case.steps, least)
    }
    unnamed = {
        kind: example
        for kind, example in differences.items()
        if not is_hard_difference(case, palette, kind)
    }
    if unnamed:
        return "finding", "; ".join(f"{kind}: {example}" for kind, example in unnamed.items())
    return (NAMED, "") if differences else ("result of LiteRT", "")


def differing(
    ours: NDArray[Any], theirs: Sequence[NDArray[Any]], steps: int = 1, least: float = 1.0
) -> Iterator[tuple[str, str]]:
    """Kinds of differences, each with an example: our number, and the numbers of LiteRT's kernels.

    Args:
        least: Minimum scale of a tensor, to which real numbers are compared.
    """
    alike = [a for a in theirs if (a.shape, a.dtype) == (ours.shape, ours.dtype)]
    if not alike:
        yield "type", f"{ours.dtype}{ours.shape}, {[(a.dtype, a.shape) for a in theirs]}"
        return
    ours, *theirs = (a.view(np.float32) if a.dtype.kind == "c" else a for a in (ours, *alike))
    if ours.dtype.kind in "iub":
        wide = [a.astype(np.int64) for a in theirs]
        margin = steps if ours.dtype.itemsize <= 2 and ours.dtype.kind != "b" else 0
        low, high = np.min(wide, 0) - margin, np.max(wide, 0) + margin
        kinds = {"integer": (ours < low) | (ours > high)}
    else:
        kinds = _of_reals(ours, theirs, least)
    for kind, where in kinds.items():
        if where.any():
            at = np.flatnonzero(where)[0]
            values = [np.ravel(a)[at].item() for a in (ours, *theirs)]
            yield kind, f"{values[0]!r}, expected {values[1:]}, at {at} ({where.sum()} in all)"


def _of_reals(
    ours: NDArray[Any], theirs: Sequence[NDArray[Any]], least: float
) -> dict[str, NDArray[Any]]:
    """Where each kind of difference occurs."""
    tolerance = TOLERANCE if ours.dtype == np.float32 else 1e-3
    largest = np.finfo(ours.dtype).max
    # Some of LiteRT's kernels clamp infinity to the largest float, and others do not.
    ours, *theirs = (np.clip(a, -largest, largest) for a in (ours, *theirs))
    known = np.array(theirs)
    bad = np.ones(ours.shape, bool)
    with np.errstate(all="ignore"):
        size = np.abs(known)
        scale = max(size[size < HUGE].max(initial=0), least)
        for a in theirs:
            near = np.abs(ours - a) <= tolerance * np.abs(a)
            near |= np.abs(ours - a) <= max(tolerance * scale, NORMAL)  # less is for denormals
            bad &= ~((ours == a) | near | (np.isnan(ours) & np.isnan(a)))
        bad &= ~((ours >= known.min(0)) & (ours <= known.max(0)))
        signs = np.signbit(known)
        zero = (known == 0).all(0) & (ours == 0) & (signs == signs[0]).all(0)
        is_nan = np.isnan(ours) | np.isnan(known).any(0)
        is_huge = ~(np.abs(ours) < HUGE) | ~(size < HUGE).all(0)
    return {
        "sign of zero": zero & (np.signbit(ours) != signs[0]),
        "NaN": bad & is_nan,
        "infinity": bad & ~is_nan & is_huge,
        "number": bad & ~is_nan & ~is_huge,
    }
