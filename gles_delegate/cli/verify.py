"""``gles-delegate verify``: whether a device computes every kernel as LiteRT does."""

from __future__ import annotations

import dataclasses
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import click

from gles_delegate.cli import common
from gles_delegate.gl.context import GpuContext
from gles_delegate.verification.cases import load_cases
from gles_delegate.verification.check import CaseResult, every_form, verified


@common.command
@common.device_option
@click.option("--quick", is_flag=True, help="One or two cases of each op, in their default form.")
@click.option("--verbose", is_flag=True, help="Print a row for each op.")
@common.json_option
def verify(device: int | None, quick: bool, verbose: bool, as_json: bool) -> None:
    """Run every kernel, and compare with stored results of LiteRT."""
    state = verification(device, quick, shows_device=not as_json)
    if as_json:
        common.print_json(state)
    else:
        _print(state, verbose)
    sys.exit(bool(state["wrong"]))


def verification(device: int | None, quick: bool, shows_device: bool = False) -> dict[str, Any]:
    """The device's strings, a row for each op, and the wrong results."""
    gpu = GpuContext(None, device)
    names = dict(zip(("vendor", "renderer", "version"), gpu.driver.identity, strict=True))
    if shows_device:  # at once: the runs take minutes on some devices
        print(f"{names['renderer']}, {names['version']}", flush=True)
    cases = load_cases(quick)
    forms = every_form(gpu.limits)
    if quick:
        forms = [form for form in forms if form.is_default]
    results: defaultdict[str, list[CaseResult]] = defaultdict(list)
    try:
        with gpu.guard(), common.progress_bar() as bar:
            for result in verified(gpu, cases, forms, common.counting(bar, "verify")):
                results[result.op].append(result)
    finally:
        gpu.release()
    every = [result for of_op in results.values() for result in of_op]
    return {
        "device": names,
        "cases": len(cases),
        "runs": len(every),
        "ops": [_row(op, of_op) for op, of_op in results.items()],
        "cpu_ops": sorted({case.op for case in cases} - results.keys()),
        "wrong": [dataclasses.asdict(result) for result in every if not result.passed],
    }


def _row(op: str, results: Sequence[CaseResult]) -> dict[str, Any]:
    """The results of an op, with its worst ones as shares of the allowed error."""
    row: dict[str, Any] = {"op": op, "runs": len(results)}
    row["right"] = sum(result.passed for result in results)
    for storage in ("float32", "float16"):
        of_storage = [result.ratio for result in results if result.storage == storage]
        row[storage] = max(of_storage, default=None)
    return row


def _print(state: dict[str, Any], verbose: bool) -> None:
    if verbose:
        common.print_table([_cells(row) for row in state["ops"]])
        print("float32, float16: the largest error with this storage, as a share of the allowed")
    if state["cpu_ops"]:
        print(f"This device leaves to the CPU: {', '.join(state['cpu_ops'])}.")
    for wrong in state["wrong"]:
        how = wrong["failure"] or f"off by {wrong['error']:.1e}, allowed {wrong['allowed']:.0e}"
        where = f"{wrong['name']} ({wrong['storage']}, choice {wrong['choice']})"
        common.print_text(common.verdict(f"WRONG: {where}: {how}", passed=False))
    count = len(state["wrong"])
    verdict = f"{count} wrong." if count else "all right."
    text = f"{state['runs']} runs of {state['cases']} cases: {verdict}"
    common.print_text(common.verdict(text, not count))


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    """A row for the terminal."""
    errors = {s: "" if row[s] is None else f"{row[s]:.2g}" for s in ("float32", "float16")}
    right = common.verdict(str(row["right"]), row["right"] == row["runs"])
    return {**row, **errors, "right": right}
