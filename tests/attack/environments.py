"""LiteRT 2's models and environments, made, run and released by several threads at once."""

import os
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import numpy as np

import gles_delegate as gd
from tests.attack.workers import Outcome
from tests.support.small import expected, small_model


def run_environments(_: bytes, seed: int) -> Outcome:
    """Every model gives its results, on the GPU and on LiteRT's CPU."""
    choose = random.Random(seed)
    faults: list[str] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(choose.choice((interval, 1e-6)))
    with ExitStack() as stack:
        stack.callback(sys.setswitchinterval, interval)
        stack.enter_context(_without_log())
        shared = stack.enter_context(gd.litert_environment())
        threads = [
            threading.Thread(target=_work, args=(shared, random.Random(choose.random()), faults))
            for _ in range(choose.randint(2, 5))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if shared.delegates:
            faults.append(f"{len(shared.delegates)} delegates are left")
    return Outcome("wrong", text="; ".join(faults)) if faults else Outcome("result")


@contextmanager
def _without_log() -> Iterator[None]:
    """LiteRT writes some thirty lines for each environment to the descriptor of stderr."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _work(shared: Any, choose: random.Random, faults: list[str]) -> None:
    try:
        for _ in range(choose.randint(1, 4)):
            with ExitStack() as stack:
                kind = choose.choice(("shared", "shared", "own", "cpu"))
                if kind == "own":
                    environment = stack.enter_context(gd.litert_environment())
                else:
                    environment = shared if kind == "shared" else _stock()
                _run(environment, kind, choose)
    except BaseException as error:
        faults.append(repr(error))


@cache
def _stock() -> Any:
    """LiteRT's default environment: one, as LiteRT ends a process that makes a thousand of them."""
    from ai_edge_litert.environment import Environment

    return Environment.create()


def _run(environment: Any, kind: str, choose: random.Random) -> None:
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator

    hardware = HardwareAccelerator.CPU if kind == "cpu" else HardwareAccelerator.GPU
    model = CompiledModel.from_buffer(
        small_model(), hardware_accel=hardware, environment=environment
    )
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    for _ in range(choose.randint(0, 3)):
        x = np.random.default_rng(choose.randrange(1 << 30)).random((3, 5), np.float32)
        inputs[0].write(x)
        model.run_by_index(0, inputs, outputs)
        result = outputs[0].read(21, np.float32).reshape(3, 7)
        np.testing.assert_allclose(result, expected(x), rtol=1e-4, atol=1e-5)
