"""Calls of any kind while programs compile in the background, and while others take over."""

from __future__ import annotations

import gc
import random
import threading
import warnings
from collections.abc import Callable
from functools import cache
from time import sleep
from typing import Any

import numpy as np

import gles_delegate as gd
from gles_delegate.gl.program import Program
from tests.attack.workers import Outcome
from tests.support.convolutions import (
    INPUT,
    background_threads,
    network,
    slowed,
    wait_for_background,
)

STEPS = 40
SMALL = (1, 12, 9, 8)


def run_upgrades(_: bytes, seed: int) -> Outcome:
    """Each run has the result of the final programs, and no thread is left."""
    choose = random.Random(seed)
    finish, Program.finish = (
        Program.finish,
        slowed(Program.finish, choose.choice((0, 0.01, 0.1, 0.6))),
    )
    try:
        faults = _Calls(choose).run()
    finally:
        Program.finish = finish
    gc.collect()
    wait_for_background()
    return Outcome("wrong", text="; ".join(faults)) if faults else Outcome("result")


@cache
def _expected(shape: tuple[int, ...], state: bool) -> Any:
    """The results of 4 * `STEPS` runs."""
    options = gd.GpuDelegateOptions(background_compilation=False)
    with gd.GpuDelegate(options) as delegate:
        interpreter = _allocated(delegate, state, shape)
        return [_result(interpreter) for _ in range(4 * STEPS if state else 1)]


def _allocated(delegate: gd.GpuDelegate, state: bool, shape: tuple[int, ...]) -> gd.Interpreter:
    content = network(with_state=state)
    interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.resize_tensor_input(0, shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, INPUT[:, : shape[1], : shape[2]])
    return interpreter


def _result(interpreter: gd.Interpreter) -> Any:
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


class _Calls:
    """A delegate, and random calls of it."""

    def __init__(self, choose: random.Random) -> None:
        self.choose, self.faults = choose, list[str]()
        self.state = choose.random() < 0.3
        self.raises = False
        options = gd.GpuDelegateOptions(own_thread=choose.random() < 0.5)
        self.delegate = gd.GpuDelegate(options, progress=self.progress)
        self.interpreter = _allocated(self.delegate, self.state, INPUT.shape)
        self.shape: tuple[int, ...] = INPUT.shape
        self.runs = 0
        self.own = options.own_thread
        self.raises = not self.state and choose.random() < 0.1

    def progress(self, done: int, total: int) -> None:
        if self.raises and self.choose.random() < 0.3:
            raise ValueError("the app's own error")

    def run(self) -> list[str]:
        kinds: list[Callable[[], None]] = [self.invoke] * 6 + [self.asynchronous, self.pause]
        if not self.state:
            kinds += [self.resize, self.read_memory] + [self.threads] * self.own
        for _ in range(STEPS):
            self.choose.choice(kinds)()
        if self.choose.random() < 0.2:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                del self.interpreter, self.delegate
                gc.collect()
            for thread in background_threads():
                thread.join()
        else:
            self.delegate.close()
        return self.faults

    def check(self, actual: Any) -> None:
        expected = _expected(self.shape, self.state)[self.runs if self.state else 0]
        self.runs += 1
        if not np.array_equal(actual, expected):
            self.faults.append(f"run {self.runs} of {self.shape} has another result")

    def invoke(self) -> None:
        try:
            self.check(_result(self.interpreter))
        except ValueError as error:
            if not self.raises:
                self.faults.append(repr(error))

    def asynchronous(self) -> None:
        output = self.interpreter.get_output_details()[0]["index"]
        try:
            pending = [self.interpreter.invoke_async() for _ in range(2)]
            for each in pending:
                self.check(each.get_tensor(output))
        except ValueError as error:
            if not self.raises:
                self.faults.append(repr(error))

    def pause(self) -> None:
        sleep(self.choose.choice((0.001, 0.05)))

    def resize(self) -> None:
        self.shape = self.choose.choice((SMALL, INPUT.shape))
        self.interpreter.resize_tensor_input(0, self.shape)
        raises, self.raises = self.raises, False
        self.interpreter.allocate_tensors()
        self.raises = raises
        self.interpreter.set_tensor(0, INPUT[:, : self.shape[1], : self.shape[2]])

    def read_memory(self) -> None:
        self.delegate.memory()

    def threads(self) -> None:
        threads = [threading.Thread(target=self.invoke) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
