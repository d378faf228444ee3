"""``gles-delegate doctor``: usable devices and a self-test."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from importlib import metadata
from math import inf
from typing import Any

import click
from rich.text import Text

from gles_delegate.bench.compatibility import CompatibilityList
from gles_delegate.bench.device import DeviceSpeed, measure, name_profile
from gles_delegate.bench.kernels import mean_slowdown
from gles_delegate.cli import common
from gles_delegate.errors import ContextError, DelegateError
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.egl import list_devices
from gles_delegate.gl.hindrances import hindrances
from gles_delegate.gl.libegl import libegl
from gles_delegate.hosts.environment import require_accelerator, tried_apart
from gles_delegate.litert.check import how_to_install, require_known_layout
from gles_delegate.version import __version__


@common.command
@common.device_option
@click.option("--bench", is_flag=True, help="Also measure bandwidth, dispatches, register tiles.")
@click.option("--seconds", type=click.FloatRange(0), default=45, help="Time limit for --bench.")
@click.option("-v", "--verbose", is_flag=True, help="Also show the device's limits, every check.")
@common.json_option
def doctor(device: int | None, bench: bool, seconds: float, verbose: bool, as_json: bool) -> None:
    """Show usable devices, run a self-test, suggest fixes.

    The self-test is that of `verify --quick`.
    """
    state = self_test(device, shows_device=not as_json)
    advice = list(_advice(state, device))
    speed = None
    if bench and state["limits"]:
        try:
            speed = measured(device, seconds)
            state["bench"] = dataclasses.asdict(speed)
        except DelegateError as error:
            advice.append(f"--bench ended early: {error}.")
    state["litert"] = _litert(advice)
    state["compiled_model"] = None
    if state["litert"]:
        try:
            require_accelerator()
            reason = tried_apart()
        except DelegateError as error:
            reason = str(error)
        if reason:
            advice.append(f"CompiledModel does not run on this GPU: {reason}.")
        state["compiled_model"] = not reason
    state["advice"] = advice
    if as_json:
        common.print_json(state)
    else:
        is_good = state["healthy"]
        text = "The delegate works here." if is_good else f"Not usable: {state['reason']}"
        common.print_text(common.verdict(text, is_good))
        for sentence in advice:
            common.print_text(sentence)
        print()
        common.print_pairs(_rows(state, verbose))
        if speed:
            _print_speed(speed, state)
    sys.exit(not state["healthy"])


def _advice(state: dict[str, Any], wanted: int | None) -> Iterator[str]:
    """Sentences about what to try where there is no driver, not the best, or none of a GPU."""
    is_es = True
    if state["device"] and "OpenGL ES" not in state["device"]["version"]:
        is_es = False
        version = state["device"]["version"]
        yield f"There is no OpenGL ES 3.1 here; {version!r} is used instead."
    is_working = state["healthy"] and is_es
    if wanted is not None and wanted >= len(state["devices"]) > 0:
        return  # there is no such device, which no variable hides
    if not (is_working and any(not device["software"] for device in state["devices"])):
        yield from (each for each in hindrances(is_working) if each not in state["reason"])


def self_test(device: int | None, shows_device: bool = False) -> dict[str, Any]:
    """The versions, EGL, its devices, and the tests of the one in use, as far as they succeed."""
    state: dict[str, Any] = {"version": __version__, "egl": None, "devices": [], "device": None}
    state |= {"limits": None, "profile": None, "checks": [], "bench": None}
    try:
        state["egl"] = libegl().name
        state["devices"] = [dataclasses.asdict(d) for d in list_devices()]
        if shows_device:  # at once: the test takes minutes on some devices
            for each in state["devices"][device or 0 :][:1]:
                click.echo(f"Testing {each['renderer']}.", err=True)
        with common.progress_bar() as bar:
            tested = CompatibilityList(device, common.counting(bar, "self-test"))
        state["healthy"] = not tested.reason
        state["reason"] = tested.reason
        state["checks"] = [{**dataclasses.asdict(c), "passed": c.passed} for c in tested.checks]
        if tested.limits is not None:
            names = ("vendor", "renderer", "version")
            state["device"] = {name: getattr(tested, name) for name in names}
            state["limits"] = dataclasses.asdict(tested.limits)
            state["profile"] = name_profile(tested.limits.profile)
    except ContextError as error:
        state["healthy"] = False
        state["reason"] = str(error)
    return state


def measured(device: int | None, seconds: float) -> DeviceSpeed:
    gpu = GpuContext(None, device)
    try:
        with common.progress_bar() as bar:
            return measure(gpu, seconds, common.counting(bar, "bench"))
    finally:
        gpu.release()


def _text(value: Any, separator: str = "x") -> str:
    """A number, sizes as 8x8, or a profile's choices, such as tiles as 4x2, 2x2."""
    return separator.join(map(_text, value)) if isinstance(value, tuple | list) else str(value)


def _litert(advice: list[str]) -> str | None:
    """The installed version of LiteRT; adds advice."""
    try:
        version = metadata.version("ai-edge-litert")
        require_known_layout()
    except metadata.PackageNotFoundError:
        advice.append(
            "LiteRT is not installed: models with nodes that the GPU does not run need it "
            f"({how_to_install()})."
        )
        return None
    except DelegateError as error:
        advice.append(f"{error}.")
    return version


def _rows(state: dict[str, Any], verbose: bool) -> Iterator[tuple[str, str | Text]]:
    yield "gles_delegate", state["version"]
    yield "EGL", state["egl"] or "not found"
    for device in state["devices"]:
        kind = "software" if device["software"] else "hardware"
        text = f"{device['renderer']}, {device['version']} ({kind}, EGL {device['platform']})"
        yield f"device {device['index']}", text
    if state["limits"]:
        yield "in use", state["device"]["renderer"]
        yield "profile", state["profile"] or "without a name"
    if state["limits"] and verbose:
        for name, value in state["limits"].items():
            if name not in ("profile", "wrong_ops"):
                yield f"  {name}", _text(value)
        profile = state["limits"]["profile"]
        for name, value in profile.items():
            if name != "searches" and not profile["searches"]:
                yield f"  {name}", _text(value, "x" if name == "lanes" else ", ")
    checks = state["checks"]
    if checks:
        passed = sum(check["passed"] for check in checks)
        summary = f"{passed} of {len(checks)} checks passed"
        yield "self-test", common.verdict(summary, passed == len(checks))
    for check in checks:
        found = "passed" if check["passed"] else "FAILED"
        detail = check["failure"] or f"off by {check['error']:.0e}, allowed {check['allowed']:.0e}"
        if verbose or not check["passed"]:
            where = " with float16 storage" if check["storage"] == "float16" else ""
            verdict = common.verdict(f"{found}, {detail}", check["passed"])
            yield f"  {check['name']}{where}", verdict
    yield "LiteRT", state["litert"] or "not installed"
    if state["litert"]:
        works = state["compiled_model"]
        yield "  CompiledModel", common.verdict("works" if works else "does not work", works)


def _print_speed(speed: DeviceSpeed, state: dict[str, Any]) -> None:
    clock = "the GPU's timer" if speed.by_gpu_timer else "the CPU's clock, with waiting"
    print(f"\nMeasured on {state['device']['renderer']} by {clock}:")
    rows = {
        "copy": f"{speed.copy / 1e9:.1f} GB/s, read and written",
        "dispatch": f"{speed.dispatch * 1e6:.1f} us, of which the CPU takes "
        f"{speed.dispatch_cpu * 1e6:.1f} us",
    }
    rows |= {f"1x1 by {form}": f"{gflops:.1f} GFLOP/s" for form, gflops in speed.reads.items()}
    for kernel, ratio in speed.half.items():
        rows[f"float16, {kernel}"] = f"{ratio:.2f} times as long as float32"
    common.print_pairs(rows.items())
    if speed.half and state["limits"]["profile"]["half_storage"]:
        print(f"precision_loss_allowed={mean_slowdown(speed.half) < 1} is faster on this device.")
    print()
    common.print_table(
        [
            {
                "kernel": tile.kernel,
                "tile": tile.tile,
                "work group": tile.work_group,
                "form": tile.form,
                "ms": f"{tile.seconds * 1e3:.3f}" if tile.seconds else "does not compile",
                "GFLOP/s": f"{tile.gflops:.1f}",
                "default of": ", ".join(tile.default_of),
                "SUSTAINED_SPEED of": ", ".join(tile.tried_by),
            }
            for tile in speed.tiles
        ]
    )
    if speed.left_out:
        print(f"There was no time for {speed.left_out} more tiles: increase --seconds.")
    print()
    if speed.profiles:
        common.print_table(
            [
                {"profile": name, "times as long as the fastest tiles": f"{ratio:.2f}"}
                for name, ratio in speed.profiles.items()
            ]
        )
        best, ratio = next(iter(speed.profiles.items()))
        if speed.profiles.get(speed.profile, inf) <= 1.05 * ratio:  # but for noise
            print(f"The profile in use, {speed.profile}, is as good as the best.")
        else:
            print(f"The profile in use is {speed.profile}; {best} would be best.")
    elif state["limits"]["profile"]["searches"]:
        print("Profiles are for GPUs: llvmpipe has its own tiles.")
    print(
        "If this device is slower than it should be, or its profile is UNKNOWN, send the output "
        "of gles-delegate doctor --bench --json to the project's issue tracker."
    )
