"""Runs that are awaited, cancelled, and closed in the middle, by the loops of several threads."""

import asyncio
import random
import threading
from contextlib import suppress
from typing import Any

import numpy as np

import gles_delegate as gd
from tests.attack.workers import Outcome
from tests.support.small import Floats, allocated, check, expected

RAISED = (ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)
"""Exceptions of callbacks."""


def run_cancelled(_: bytes, seed: int) -> Outcome:
    """Each run has its own result or a documented error, and the delegate stays usable."""
    choose = random.Random(seed)
    case = Case(choose.random() < 0.3, choose.choice((None, None, 0)))
    loops = [
        threading.Thread(target=case.loop, args=(random.Random(choose.random()),))
        for _ in range(choose.choice((1, 1, 2, 3)))
    ]
    try:
        for loop in loops:
            loop.start()
        for loop in loops:
            loop.join()
        if not case.closed:
            check(case.interpreter)
        elif not case.refused:
            case.faults.append("a closed delegate takes runs")
    except gd.DelegateError as error:
        case.faults.append(repr(error))
    finally:
        case.delegate.close()
    return Outcome("wrong", text="; ".join(case.faults)) if case.faults else Outcome("result")


class Case:
    """A delegate, and what some loops do with it; nodes after `last` run on the CPU."""

    def __init__(self, closes: bool, last: int | None) -> None:
        options = gd.GpuDelegateOptions(own_thread=True, last_delegate_node_index=last)
        self.delegate = gd.GpuDelegate(options)
        self.interpreter = allocated(self.delegate)
        self.faults: list[str] = []
        self.closes, self.closed = closes, False
        (self.x,), (self.y,) = (
            [detail["index"] for detail in details]
            for details in (
                self.interpreter.get_input_details(),
                self.interpreter.get_output_details(),
            )
        )

    @property
    def refused(self) -> bool:
        with suppress(gd.DelegateError):
            self.interpreter.invoke()
            return False
        return True

    def loop(self, choose: random.Random) -> None:
        try:
            asyncio.run(self._tasks(choose))
        except BaseException as error:
            self.faults.append(f"a loop ended with {error!r}")

    async def _tasks(self, choose: random.Random) -> None:
        chosen = [random.Random(choose.random()) for _ in range(choose.randint(1, 6))]
        tasks = [asyncio.ensure_future(self._runs(each)) for each in chosen]
        for task in tasks:
            if choose.random() < 0.3:
                await asyncio.sleep(choose.random() * 0.01)
                task.cancel()
        if self.closes and choose.random() < 0.5:
            await asyncio.to_thread(self.delegate.close)
            self.closed = True
        if choose.random() < 0.7:  # otherwise the end of the loop cancels them
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _runs(self, choose: random.Random) -> None:
        for _ in range(choose.randint(1, 6)):
            x = np.random.default_rng(choose.randrange(1 << 30)).random((3, 5), np.float32)
            way = self._run if choose.random() < 0.8 else self._run_by_name
            try:
                await way(x, choose)
            except asyncio.TimeoutError:
                continue
            except gd.DelegateError as error:
                if not self.closes:
                    self.faults.append(repr(error))
                return

    async def _run_by_name(self, x: Floats, choose: random.Random) -> None:
        (result,) = (await asyncio.to_thread(self.interpreter.run, {"x": x})).values()
        self._check(result, x)

    def _check(self, result: Any, x: Floats) -> None:
        if not np.allclose(result, expected(x), rtol=1e-5, atol=1e-5):
            self.faults.append("another result")

    async def _run(self, x: Floats, choose: random.Random) -> None:
        with self.interpreter.exclusive():
            self.interpreter.set_tensor(self.x, x)
            invocation = self.interpreter.invoke_async()
        if choose.random() < 0.3:
            invocation.add_done_callback(lambda _: _raise(choose.choice(RAISED)))
        timeout = choose.choice((None, None, 0, 1e-4, 1e-3))
        await asyncio.wait_for(invocation, timeout)
        try:
            result = invocation.get_tensor(self.y)
        except ValueError:  # two later runs were started
            return
        self._check(result, x)


def _raise(kind: type[BaseException]) -> None:
    raise kind
