"""Verdicts on drivers: damaged, on full disks, found at once, cut short by closing or a reset."""

import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import numpy as np

import gles_delegate as gd
from gles_delegate.gl.functions import Functions
from gles_delegate.runtime.session import Session
from gles_delegate.verification import verdict
from gles_delegate.verification.cases import load_cases
from tests.attack.cache import DAMAGES
from tests.attack.workers import Outcome
from tests.support.disks import NoMount, fill, make_read_only, small_disk
from tests.support.lies import RSQRT_INPUT, RSQRT_RESULT, WRONG_RSQRT, lying_driver, rsqrt_model

_OPS = ("ADD", "RSQRT", "TANH")
_GUILTY = 0x8253


def run_verdicts(_: bytes, seed: int) -> Outcome:
    """Attack a start; it ends with the right result or our error, and so does the next one."""
    choose = random.Random(seed)
    attack, lies = choose.choice(ATTACKS), choose.random() < 0.5
    driver = lying_driver(*WRONG_RSQRT) if lies else patch.dict(verdict._found, clear=True)
    try:
        with tempfile.TemporaryDirectory() as folder, _few_cases(), driver:
            attack(folder, choose)
            verdict._found.clear()
            start(folder)
    except NoMount:
        return Outcome("result", text="mounting takes privileges")
    except Exception as error:
        return Outcome("foreign error", text=f"{attack.__name__}, lies: {lies}: {error!r}")
    return Outcome("result")


def start(folder: str | Path, delegates: list[gd.GpuDelegate] | None = None) -> None:
    """A start with verification; raises AssertionError if its result is wrong."""
    options = gd.GpuDelegateOptions(
        serialization_dir=folder, verify=True, own_thread=delegates is not None
    )
    with gd.GpuDelegate(options) as delegate:
        if delegates is not None:
            delegates.append(delegate)
        interpreter = gd.Interpreter(model_content=rsqrt_model(), experimental_delegates=[delegate])
        (result,) = interpreter.run({0: RSQRT_INPUT}).values()
    np.testing.assert_allclose(result, RSQRT_RESULT, rtol=1e-5)


@contextmanager
def _few_cases() -> Iterator[None]:
    few = tuple(case for case in load_cases(quick=True) if case.op in _OPS)
    with patch.object(verdict, "load_cases", lambda quick: few):
        yield


def damage(folder: str, choose: random.Random) -> None:
    start(folder)
    for _ in range(2):
        (path,) = Path(folder).glob("verdict-*.gles")
        choose.choice(DAMAGES)(path, choose)
        verdict._found.clear()
        start(folder)
        if path.is_dir():
            return


def forged_text(folder: str, choose: random.Random) -> None:
    """The JSON of a verdict is another one, or none."""
    texts = (b"", b"[]", b"null", b'{"RSQRT": null}', b'{"RSQRT": []}', b"\xff", b"[" * 100_000)
    _forge(folder, choose.choice(texts))


def another_op_is_wrong(folder: str, choose: random.Random) -> None:
    """A verdict that names other ops is believed: they run on the CPU."""
    texts = (b'{"RSQRT": "x", "ADD": ""}', b'{"RSQRT": "\\n"}', b'{"RSQRT": "x", "": "x"}')
    _forge(folder, choose.choice(texts))


def _forge(folder: str, text: bytes) -> None:
    """A start's verdict says something else, in a file that is right."""
    start(folder)
    (path,) = Path(folder).glob("verdict-*.gles")
    store = verdict.Store(folder, path.stem, path.stem.removeprefix("verdict-"))
    store.add("float32", text)
    store.save()


def small_disks(folder: str, choose: random.Random) -> None:
    with small_disk(Path(folder, "disk"), choose.choice((4, 8, 64, 500))) as disk:
        for change in (None, *choose.choices((None, fill, make_read_only), k=2)):
            if change is not None:
                change(disk)
            verdict._found.clear()
            start(disk)


def threads(folder: str, choose: random.Random) -> None:
    count = choose.randint(2, 4)
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(start, folder) for _ in range(2 * count)]:
            done.result()


def processes(folder: str, choose: random.Random) -> None:
    """They have no lying driver."""
    code = (
        "import sys; from tests.attack.verdicts import _few_cases, start\n"
        "with _few_cases(): start(sys.argv[1])"
    )
    command = [sys.executable, "-c", code, tempfile.mkdtemp(dir=folder)]
    root = Path(__file__).parents[2]
    running = [
        subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in running:
        _, errors = process.communicate()
        assert process.returncode == 0, errors


def closed(folder: str, choose: random.Random) -> None:
    """Another thread closes the delegate while it verifies, or before or after."""
    delegates: list[gd.GpuDelegate] = []
    at, count = choose.randint(1, 8), 0
    run = Session.run

    def counted(session: Session, inputs: object) -> None:
        nonlocal count
        count += 1
        if count == at:
            pool.submit(delegates[0].close)
        run(session, inputs)  # type: ignore[arg-type]

    with (
        ThreadPoolExecutor(1) as pool,
        patch.object(Session, "run", counted),
        suppress(gd.DelegateError),
    ):
        start(folder, delegates)


def interrupted(folder: str, choose: random.Random) -> None:
    at, count = choose.randint(1, 6), 0
    error = choose.choice((KeyboardInterrupt, MemoryError, gd.OutOfGpuMemoryError))
    method = choose.choice(("run", "read", "__init__", "release"))
    call = getattr(Session, method)

    def failing(session: Session, *arguments: object) -> object:
        nonlocal count
        count += 1
        if count == at:
            raise error("on purpose")
        return call(session, *arguments)

    with patch.object(Session, method, failing), suppress(error):
        start(folder)


def reset(folder: str, choose: random.Random) -> None:
    """The driver reports once that it has reset the context."""
    at, count = choose.randint(1, 12), 0
    watch = Functions.watch_resets

    def watched(gl: Functions, is_es: bool) -> None:
        watch(gl, is_es)

        def status() -> int:
            nonlocal count
            count += 1
            return _GUILTY if count == at else 0

        gl._reset_status = status  # type: ignore[method-assign]

    with patch.object(Functions, "watch_resets", watched), suppress(gd.ContextLostError):
        start(folder)


ATTACKS: tuple[Callable[[str, random.Random], None], ...] = (
    damage, forged_text, another_op_is_wrong, small_disks, threads, processes, closed, interrupted,
    reset,
)  # fmt: skip
