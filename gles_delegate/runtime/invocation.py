"""Asynchronous runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gles_delegate.gl.functions import Functions
from gles_delegate.gl.sync import Fence
from gles_delegate.model.graph import Array


class Invocation(Fence):
    """A run that `Interpreter.invoke_async` started: a fence, and the outputs of that run.

    Args:
        read: Returns an output, by tensor index, once the run is done.
    """

    def __init__(
        self,
        gl: Functions,
        run: Callable[[Callable[[], Any]], Any],
        read: Callable[[int], Array],
    ) -> None:
        super().__init__(gl, run)
        self._read = read

    def get_tensor(self, tensor_index: int) -> Array:
        """Wait for this run, not for later ones, and return an output of it.

        Raises:
            ValueError: It is not an output, or is bound, or two later runs were started: only the
                results of the last two runs are kept.
        """
        self.wait()
        return self._read(tensor_index)
