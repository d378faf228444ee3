"""Fixtures of every tier, and what happens where a tier cannot run.

``unit`` needs numpy and flatbuffers, ``cli`` the extra of that name, ``gl`` a GL context,
``litert`` LiteRT, ``fuzz`` hypothesis, ``ray`` Ray, ``gstreamer`` GStreamer; the tests of ``gl``
and ``fuzz`` may need the others' too.
"""

import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import Profile
from gles_delegate.errors import ContextError
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.driver import Driver
from gles_delegate.gl.egl import EglContext
from gles_delegate.gl.functions import Functions
from tests.support import costs, sampling
from tests.support.force import force_driver
from tests.support.leftovers import kill_after_this_process
from tests.support.process import OPTIMIZER
from tests.support.soundness import every_plan_checked

# llvmpipe's results do not depend on LLVM's optimizer, whose time is much of a test's.
os.environ.setdefault(OPTIMIZER, "nopt")

Require = Callable[[str, str], NoReturn]


def folder(variable: str) -> Path:
    """The folder that an environment variable names; one that does not exist if it is not set."""
    named = os.environ.get(variable)
    return Path(named).absolute() if named else Path(f"${variable}")


MODELS, PICTURES = folder("GLES_DELEGATE_MODELS"), folder("GLES_DELEGATE_PICTURES")
REQUIRED = os.environ.get("GLES_DELEGATE_REQUIRE", "").replace(" ", "").split(",")
TIERS = {
    "ai_edge_litert": "litert",
    "hypothesis": "fuzz",
    "ray": "ray",
    **dict.fromkeys(("gi", "kivy", "panda3d", "vispy", "vtk"), "toolkits"),
    **dict.fromkeys(("click", "matplotlib", "PIL", "rich"), "cli"),
    **dict.fromkeys(("Xlib", "av", "glcontext", "glfw", "moderngl"), "windows"),
}
"""The tier of each library without which a test module is skipped."""
NEED_GL = ("attack", "gl", "litert")
"""Folders whose tests are skipped without an OpenGL ES context."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gles_delegate")
    group.addoption("--all", action="store_true", help="every case, not a sample of them")
    group.addoption(
        "--one-in", type=int, default=1, metavar="N", help="tests/unit, and one in N of the others"
    )
    group.addoption("--costs", action="store_true", help="write tests/costs.txt, with --all")
    group.addoption(
        "--shuffle", action="store_true", help="modules and their tests in random order"
    )
    group.addoption("--seed", type=int, metavar="N", help="other samples; default: of the commit")
    group.addoption("--since", metavar="COMMIT", help="what changed since comes first in samples")
    group.addoption(
        "--fresh", type=int, default=0, metavar="N", help="new random examples of each fuzz test"
    )


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell's job in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which child processes inherit
    kill_after_this_process()
    worker = getattr(config, "workerinput", None)
    named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    sampling.named = worker["named"] if worker else named
    sampling.everything = config.option.all
    sampling.fresh = config.option.fresh
    if config.option.costs and (worker or not getattr(config.option, "numprocesses", None)):
        config.pluginmanager.register(costs.Measured())
    if worker:
        sampling.changed = worker["changed"]
    elif config.option.since:
        sampling.changed = sampling.changes_since(config.option.since)
    else:
        sampling.changed = sampling.uncommitted_changes()
    sampling.seed = worker["seed"] if worker else config.option.seed
    if sampling.seed is None:
        sampling.seed = sampling.seed_of_commit()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    slow = {item for item in items if item.get_closest_marker("slow")}
    if slow and not sampling.everything:
        leave_out(config, items, slow)
        sampling.counts["slow tests"] = 0, len(slow)
    if not (sampling.everything or sampling.named):
        dear = [item.nodeid for item in items if item.nodeid in costs.known()]
        names = costs.left_out(dear)
        leave_out(config, items, {item for item in items if item.nodeid in names})
        sampling.counts["dear tests"] = len(dear) - len(names), len(dear)
    if config.option.one_in > 1:
        others = [item for item in items if not item.nodeid.startswith("tests/unit/")]
        left_out = {item for item in others if sampling.rank(item.nodeid) % config.option.one_in}
        left_out -= {item for item in others if item.location[0] in sampling.changed}
        leave_out(config, items, left_out)
        sampling.counts["tests outside tests/unit"] = len(others) - len(left_out), len(others)
    if config.option.shuffle:
        items.sort(key=lambda item: [sampling.rank(item.location[0]), sampling.rank(item.nodeid)])


def leave_out(config: pytest.Config, items: list[pytest.Item], left_out: set[pytest.Item]) -> None:
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=[*left_out])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A module's generator draws the same for a test whichever ran before."""
    generator = getattr(getattr(item, "module", None), "RNG", None)
    if generator is not None:
        generator.bit_generator.state = np.random.default_rng(0).bit_generator.state


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Each worker of pytest-xdist must take the same sample."""
    node.workerinput |= {
        "changed": sampling.changed,
        "named": sampling.named,
        "seed": sampling.seed,
    }


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    output = getattr(node, "workeroutput", {})
    sampling.counts.update(output.get("samples", {}))
    costs.measured.update(output.get("costs", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["samples"] = sampling.counts
        session.config.workeroutput["costs"] = costs.measured
    elif session.config.option.costs:
        costs.write(costs.measured)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
# In quotes: pytest 7.4 does not have the name.
def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter") -> Iterator[None]:
    yield  # what pytest writes itself
    for line in (sampling.report(), skipped(terminalreporter.stats.get("skipped", []))):
        if line:
            terminalreporter.write_line(line)


def skipped(reports: Iterable[Any]) -> str:
    """How many tests were skipped for which missing folder or for another reason."""
    counts: Counter[str] = Counter()
    for report in reports:
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else ""
        named = re.search(r"\bG[A-Z_]+_[A-Z_]+\b", reason)
        counts[f"without {named[0]}" if named else "for other reasons, see above"] += 1
    parts = [f"{count} {why}" for why, count in sorted(counts.items(), key=lambda each: -each[1])]
    return f"skipped: {', '.join(parts)}" if parts else ""


def skip_unless_required(tier: str, reason: str) -> NoReturn:
    if tier in REQUIRED:
        pytest.fail(f"GLES_DELEGATE_REQUIRE asks for {tier}: {reason}", pytrace=False)
    pytest.skip(reason)


class TierModule(pytest.Module):
    """A test module, which is skipped where a library of its tier is missing."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            return super().collect()
        except self.CollectError as error:
            missing = error.__cause__
            if not isinstance(missing, ModuleNotFoundError) or missing.name not in TIERS:
                raise
            reason = f"{missing.name} is not installed"
        skip_unless_required(TIERS[missing.name], reason)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    module: pytest.Module = TierModule.from_parent(parent, path=module_path)
    if module_path.parent.name in NEED_GL:
        module.add_marker(pytest.mark.usefixtures("gl"))
    return module


@pytest.fixture(scope="session", autouse=True)
def sound_plans() -> Iterator[None]:
    with every_plan_checked():
        yield


@pytest.fixture(scope="session")
def require() -> Require:
    """Call it with a tier and the reason why it cannot run: it skips the test.

    It fails the test where the environment variable GLES_DELEGATE_REQUIRE, a comma-separated
    list, names the tier: then skipping it is not allowed.
    """
    return skip_unless_required


@pytest.fixture(scope="session")
def gl(require: Require) -> None:
    """A machine on which an OpenGL ES context can be had."""
    try:
        EglContext().release()
    except ContextError as error:
        require("gl", str(error))


@pytest.fixture
def egl(gl: None) -> Iterator[EglContext]:
    context = EglContext()
    yield context
    context.release()


@pytest.fixture(scope="module")
def context(gl: None) -> Iterator[EglContext]:
    """The tests of a module share it, and what is compiled in it."""
    context = EglContext()
    yield context
    context.release()


@pytest.fixture(scope="module")
def gpu(gl: None) -> Iterator[GpuContext]:
    gpu = GpuContext()
    yield gpu
    gpu.release()


@pytest.fixture
def llvmpipe(gpu: GpuContext) -> None:
    """The best device is llvmpipe."""
    if not gpu.driver.is_llvmpipe:
        pytest.skip(f"this device is {gpu.driver.renderer}, not llvmpipe")


@pytest.fixture
def app(gl: None) -> Iterator[Any]:
    from tests.support.app import App  # needs moderngl

    app = App()
    yield app
    app.close()


@pytest.fixture(scope="session")
def real_model(require: Require) -> Callable[[str], bytes]:
    """The bytes of a published model, from the folder named by GLES_DELEGATE_MODELS."""

    def read(name: str) -> bytes:
        path, other = (MODELS / f"{name}{suffix}" for suffix in (".tflite", ".bin"))
        path = other if other.is_file() else path
        if not path.is_file():
            require("models", f"{path} is missing; GLES_DELEGATE_MODELS names its folder")
        return path.read_bytes()

    return read


@pytest.fixture(scope="session")
def real_picture(require: Require) -> Callable[[str], Path]:
    """The path of a published picture, from the folder named by GLES_DELEGATE_PICTURES."""

    def find(name: str) -> Path:
        path = PICTURES / name
        if not path.is_file():
            require("models", f"{path} is missing; GLES_DELEGATE_PICTURES names its folder")
        return path

    return find


@pytest.fixture(autouse=True)
def one_tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs have the final programs, except in tests with the mark `background`."""
    if request.node.get_closest_marker("background") is None:
        monkeypatch.setattr(Profile, "first", None)


@pytest.fixture
def no_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every dispatch is for itself."""
    monkeypatch.setattr("gles_delegate.planning.plan.find_chains", lambda *_: ())


@pytest.fixture
def floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every device is taken for one that has what OpenGL ES 3.1 guarantees, and no more."""

    def at_the_floor(driver: Driver) -> Driver:
        # What a driver gets wrong stays so.
        limits = driver.limits
        limits = Limits(size_uniforms=limits.size_uniforms, loop_passes=limits.loop_passes)
        return replace(driver, limits=limits)

    force_driver(monkeypatch, at_the_floor)


@pytest.fixture
def gpu_like(monkeypatch: pytest.MonkeyPatch) -> None:
    """llvmpipe is taken for an unknown GPU, whose timer is used."""
    string = Functions.string

    def other(self: Functions, name: int) -> str:
        return string(self, name).replace("llvmpipe", "a GPU")

    monkeypatch.setattr(Functions, "string", other)


@pytest.fixture(scope="session")
def server(require: Require) -> Iterator[str]:
    """The name of an X display in memory."""
    if shutil.which("Xvfb") is None:
        require("windows", "Xvfb is not installed (Debian's package xvfb)")
    answer, report = os.pipe()
    command = ["Xvfb", "-displayfd", str(report), "-screen", "0", "1600x900x24"]
    with subprocess.Popen(command, pass_fds=[report], stderr=subprocess.DEVNULL) as xvfb:
        os.close(report)
        with os.fdopen(answer) as number:
            name = number.readline().strip()
        if not name:
            require("windows", "Xvfb does not start")
        yield f":{name}"
        xvfb.terminate()


@pytest.fixture
def display(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", server)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
