"""LiteRT's interpreter with its own CPU kernels."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gles_delegate.errors import LiteRtError
from gles_delegate.litert.check import how_to_install, litert_interpreter
from gles_delegate.model.reader import ModelFile
from gles_delegate.model.schema import TENSORFLOW_OP


@contextmanager
def litert_errors(model: ModelFile) -> Iterator[None]:
    """Raise LiteRtError if LiteRT does not run a model."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        name = model.path or "this model"
        why = f"it has {TENSORFLOW_OP}" if "Select TensorFlow op" in str(error) else error
        raise LiteRtError(f"LiteRT's CPU kernels do not run {name}: {why}") from error


@contextmanager
def without_notices() -> Iterator[None]:
    """Keep lines "INFO: ..." of LiteRT's native code from standard error.

    What this process writes there meanwhile, from any thread, is delayed to the end.
    """
    if sys.stderr is None:  # closed as Python started, and 2 is another file
        yield
        return
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
            kept.seek(0)
            os.write(2, re.sub(rb"INFO: .*\n", b"", kept.read()))


def litert_cpu(
    model: ModelFile, builtin: bool = False, keep: bool = False, threads: int | None = None
) -> Any:
    """LiteRT's interpreter with its CPU kernels; raises `LiteRtError` if it rejects the model.

    Args:
        builtin: Without XNNPACK.
        keep: Keep every tensor after a run, not only the outputs.
    """
    try:
        from ai_edge_litert.interpreter import OpResolverType
    except ImportError:
        raise LiteRtError(f"LiteRT is not installed: {how_to_install()}") from None
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    with litert_errors(model), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about the memory of kept tensors
        return litert_interpreter()(
            **model.arguments,
            num_threads=threads,
            experimental_op_resolver_type=plain if builtin else OpResolverType.AUTO,
            experimental_preserve_all_tensors=keep,
        )
