"""Tests of both hosts, our interpreter and LiteRT's with the delegate, and of inputs resized."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.oracle import Arrays, in_litert, in_ours, run

Host = Callable[..., Any]
HOSTS: tuple[Host, ...] = (in_ours, in_litert)
both_hosts = pytest.mark.parametrize("host", HOSTS)


def run_resized(interpreter: Any, inputs: Arrays) -> list[Any]:
    """Give the inputs the shapes of these arrays, allocate tensors, and run."""
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    return run(interpreter, inputs)
