"""Downloads of a model: what servers, disks, kills and other files make of them.

Each case is a life of a folder. After each download the model is there, right and whole, or an
error of the package says why not; at the end a server that is right gives the model.
"""

import os
import random
import signal
import tempfile
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from unittest.mock import patch

from gles_delegate.cli import download
from gles_delegate.errors import DelegateError
from tests.attack.workers import Outcome
from tests.support import publisher as answers
from tests.support.disks import NoMount, small_disk
from tests.support.publisher import Publisher, publishing

ANSWERS = (
    *(answers.right, answers.right, answers.slow, answers.cut_off, answers.silent),
    *(answers.silent_halfway, answers.dripping, answers.wrong, answers.endless, answers.chunked),
    *(answers.chunked_and_cut_off, answers.no_http),
    *map(answers.status, (204, 206, 304, 401, 404, 416, 429, 503)),
    *map(answers.redirecting, ("/there", "/net.tflite", "http://127.0.0.2:1/", "//[", "\0")),
)


def run_downloads(_: bytes, seed: int) -> Outcome:
    """A life of a folder, on a small disk in one of four."""
    choose = random.Random(seed)
    content, done = choose.randbytes(choose.choice((1, 4097, 70_000))), [""]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if seed % 4 == 3:
            with suppress(NoMount):
                stack.enter_context(small_disk(folder, choose.choice((4, 8, 64))))
        stack.enter_context(patch.dict(os.environ, {"no_proxy": "*"}))
        stack.enter_context(patch.object(download, "TIMEOUT", 0.2))
        publisher = stack.enter_context(publishing(content))
        try:
            for _step in range(choose.randint(1, 6)):
                publisher.answer = choose.choice(ANSWERS)
                step = choose.choice((_kill, _interrupt, _get, _get, _get))
                done.append(f"{step.__name__} {publisher.answer.__qualname__}")
                step(publisher, folder, choose)
                _check(publisher, folder)
            publisher.answer = answers.right
            if _get(publisher, folder, choose):
                assert (folder / "net.tflite").exists(), "no model"
            else:
                assert os.path.ismount(folder), "a server that is right gave no model"
            _check(publisher, folder)
        except Exception as error:
            return Outcome("foreign error", text=f"{', '.join(done)}: {error!r:.500}")
    return Outcome("result")


def _check(publisher: Publisher, folder: Path) -> None:
    """The model is right, if it is there."""
    with suppress(FileNotFoundError):
        assert (folder / "net.tflite").read_bytes() == publisher.content, "a wrong model"
    assert all(path.suffix in (".part", ".tflite") for path in folder.iterdir())


def _get(publisher: Publisher, folder: Path, choose: random.Random) -> bool:
    """Whether the model is there afterwards; some downloads happen twice at once."""
    again = partial(_get, publisher, folder, choose)
    progress = (lambda *_: None) if choose.random() < 0.8 else (lambda *_: again() and None)
    try:
        download.download(publisher.model, folder, progress)
    except DelegateError:
        return False
    except OSError as error:
        if error.filename is None:
            raise
        return False
    assert (folder / "net.tflite").exists(), "no model"
    return True


def _interrupt(publisher: Publisher, folder: Path, choose: random.Random) -> None:
    def stop(done: int, total: int) -> None:
        if done >= share * total:
            raise KeyboardInterrupt

    share = choose.random()
    with suppress(DelegateError, OSError, KeyboardInterrupt):
        download.download(publisher.model, folder, stop)


def _kill(publisher: Publisher, folder: Path, choose: random.Random) -> None:
    """A process downloads the model, and is killed."""

    def stop(done: int, total: int) -> None:
        if done >= share * total:
            os.kill(os.getpid(), signal.SIGKILL)

    share = choose.random()
    child = os.fork()
    if not child:
        with suppress(BaseException):
            download.download(publisher.model, folder, stop)
        os._exit(0)
    os.waitpid(child, 0)
