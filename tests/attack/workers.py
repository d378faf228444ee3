"""Models run in processes of their own, which may crash, hang or eat memory."""

from __future__ import annotations

import logging
import multiprocessing
import re
import resource
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

import gles_delegate as gd
from gles_delegate.errors import DelegateError
from tests.support import oracle

SECONDS = 20


BYTES = 12 << 30


_FOREIGN = re.compile(
    r"\b(Assertion|Attribute|Index|Key|Name|Overflow|Recursion|Type|UnboundLocal|ZeroDivision|struct\.)"
    r"[Ee]rror: "
)


@dataclass(frozen=True)
class Outcome:
    """What became of a model.

    Attributes:
        kind: "result", "refused", "refused by LiteRT", "foreign error", "crash" or "hang".
        arrays: The outputs of a result.
        text: The message of an error.
        delegated: The number of nodes that the GPU ran.
    """

    kind: str
    arrays: tuple[Any, ...] = ()
    text: str = ""
    delegated: int = 1


class Worker:
    """A process that runs models one after the other, and is started anew when it dies."""

    def __init__(self, run: Callable[[bytes, int], Outcome]) -> None:
        self._run = run
        self._process: Any = None

    def __call__(self, content: bytes, seed: int) -> Outcome:
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            self._process = context.Process(target=_serve, args=(other, self._run), daemon=True)
            self._process.start()
            other.close()
        try:
            self._pipe.send((content, seed))
            if self._pipe.poll(SECONDS):
                outcome: Outcome = self._pipe.recv()
                return outcome
            kind = "hang"
        except (EOFError, BrokenPipeError, ConnectionResetError):
            kind = "crash"
        self.stop()
        return Outcome(kind)

    def stop(self) -> None:
        """End the process; the next model gets a new one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _serve(pipe: Connection, run: Callable[[bytes, int], Outcome]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable()
    while True:
        pipe.send(run(*pipe.recv()))


def feeds(interpreter: Any, seed: int) -> list[Any]:
    """An array for each input, of its type and shape."""
    rng = np.random.default_rng(seed)
    arrays = []
    for detail in interpreter.get_input_details():
        shape, dtype = tuple(detail["shape"]), np.dtype(detail["dtype"])
        if dtype.kind == "f":
            arrays.append(rng.standard_normal(shape).astype(dtype))
        else:
            arrays.append(rng.integers(0, 2 if dtype.kind != "u" else 256, shape).astype(dtype))
    return arrays


def run_litert(content: bytes, seed: int) -> Outcome:
    try:
        interpreter = oracle.litert_interpreter(content)
        return Outcome("result", tuple(oracle.run(interpreter, feeds(interpreter, seed))))
    except (RuntimeError, ValueError, TypeError, MemoryError) as error:
        return Outcome("refused", text=str(error))


def run_xnnpack(content: bytes, seed: int) -> Outcome:
    """LiteRT as our interpreter uses it: with XNNPACK, which may crash where the kernels do not."""
    try:
        interpreter = Interpreter(model_content=content)
        interpreter.allocate_tensors()
        return Outcome("result", tuple(oracle.run(interpreter, feeds(interpreter, seed))))
    except (RuntimeError, ValueError, TypeError, MemoryError) as error:
        return Outcome("refused", text=str(error))


def run_ours(content: bytes, seed: int) -> Outcome:
    """In our interpreter or, for odd seeds, in LiteRT's."""
    try:
        if seed % 2:
            with oracle.delegated_interpreter(content, options=gd.GpuDelegateOptions()) as theirs:
                arrays = oracle.run(theirs, feeds(theirs, seed))
                report = theirs._delegates[0].report
        else:
            with gd.GpuDelegate() as delegate:
                ours = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
                ours.allocate_tensors()
                arrays = oracle.run(ours, feeds(ours, seed))
                report = delegate.report
        delegated = sum(node.delegated for node in report.nodes)
        return Outcome("result", tuple(arrays), delegated=delegated)
    except (DelegateError, MemoryError) as error:
        return Outcome("refused", text=str(error))
    except (RuntimeError, ValueError, TypeError) as error:
        # LiteRT's own words, which may quote an error of ours.
        kind = "foreign error" if _FOREIGN.search(str(error)) else "refused by LiteRT"
        return Outcome(kind, text="".join(traceback.format_exception(error)[-3:]))
    except Exception as error:
        return Outcome("foreign error", text="".join(traceback.format_exception(error)[-3:]))
