"""Run a model on LiteRT's CPU kernels and on the delegate, and compare the two."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.verification.deviation import largest_error, scale_of
from tests.support.sketch import Sketch
from tests.support.small import allocated

Arrays = Sequence[NDArray[Any]]
TOLERANCE = 1e-5
WITHOUT_XNNPACK = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
WHOLE = gd.GpuDelegateOptions(require_full_delegation=True)


def run(interpreter: Any, inputs: Arrays) -> list[NDArray[Any]]:
    """Set the inputs of an allocated interpreter, invoke it and fetch the outputs."""
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def litert_interpreter(
    content: bytes, *, apart: bool = False, kernels: OpResolverType = WITHOUT_XNNPACK
) -> Interpreter:
    """LiteRT, by default with its builtin CPU kernels; tensors are allocated.

    ``apart``: No tensors share memory; in some graphs LiteRT lets them share it too long.
    """
    interpreter = Interpreter(
        model_content=content,
        experimental_op_resolver_type=kernels,
        experimental_preserve_all_tensors=apart,
    )
    interpreter.allocate_tensors()
    return interpreter


def in_ours(delegate: gd.GpuDelegate, content: bytes) -> gd.Interpreter:
    """Our interpreter with the delegate; tensors are allocated."""
    return allocated(delegate, content)


def in_litert(delegate: gd.GpuDelegate, content: bytes) -> Interpreter:
    """LiteRT with its builtin CPU kernels and the delegate; tensors are allocated."""
    interpreter = Interpreter(
        model_content=content,
        experimental_delegates=[delegate],
        experimental_op_resolver_type=WITHOUT_XNNPACK,
    )
    interpreter.allocate_tensors()
    return interpreter


@contextmanager
def gles_interpreter(
    content: bytes, context: gd.EglContext | None = None
) -> Iterator[gd.Interpreter]:
    """`in_ours` with a new delegate; UnsupportedModelError if a node is left to the CPU."""
    with gd.GpuDelegate(WHOLE, context=context) as delegate:
        yield in_ours(delegate, content)


@contextmanager
def delegated_interpreter(
    content: bytes, context: gd.EglContext | None = None, options: gd.GpuDelegateOptions = WHOLE
) -> Iterator[Interpreter]:
    """`in_litert` with a new delegate."""
    with gd.GpuDelegate(options, context=context, model=content) as delegate:
        yield in_litert(delegate, content)


def complete(sketch: Sketch, outputs: Sequence[int]) -> bytes:
    """A sketch's model with the shapes that LiteRT infers; raises if LiteRT refuses it."""
    interpreter = litert_interpreter(sketch.build(outputs))
    for detail in interpreter.get_tensor_details():
        if detail["index"] < len(sketch.tensors):
            sketch.set_shape(detail["index"], detail["shape"].tolist())
    return sketch.build(outputs)


def run_litert(content: bytes, inputs: Arrays) -> list[NDArray[Any]]:
    return run(litert_interpreter(content), inputs)


def run_gles(
    content: bytes, inputs: Arrays, context: gd.EglContext | None = None
) -> list[NDArray[Any]]:
    """The outputs of a model whose dispatches write what the plan says, and nothing else."""
    with gd.GpuDelegate(WHOLE, context=context) as delegate:
        outputs = run(in_ours(delegate, content), inputs)
        assert_sane(delegate)
    return outputs


def assert_sane(delegate: gd.GpuDelegate) -> None:
    """Each dispatch of the model that ran last writes and reads what the plan says."""
    assert [*map(str, delegate.bound.sanitize())] == []


def run_delegated(
    content: bytes, inputs: Arrays, context: gd.EglContext | None = None
) -> list[NDArray[Any]]:
    with delegated_interpreter(content, context) as interpreter:
        return run(interpreter, inputs)


def assert_close(
    ours: Arrays,
    reference: Arrays,
    *,
    special: bool = False,
    steps: int = 1,
    tolerance: float = TOLERANCE,
    inputs: Arrays = (),
) -> None:
    """Same shapes, dtypes and, within ``tolerance`` of the tensor's scale, values.

    Integers must be equal, 8- and 16-bit ones (which are quantized) within ``steps``.

    ``special``: values may be infinite, NaN or far apart, so each is its own scale; infinity
    equals the largest float, to which some of LiteRT's kernels clamp and others do not.

    ``inputs``: Terms that cancel, as in GELU of negative numbers, are rounded at the inputs' scale:
    errors may be relative to that, up to 1, where results are smaller.
    """
    assert len(ours) == len(reference)
    largest = np.finfo(np.float32).max
    for actual, expected in zip(ours, reference, strict=True):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        if actual.dtype in (np.int32, np.int64, np.bool_):
            np.testing.assert_array_equal(actual, expected)
            continue
        if actual.dtype.kind in "iu":
            off = largest_error(actual, expected)
            assert off <= steps, f"off by up to {off:.0f} steps"
            continue
        if special:
            actual, expected = (np.clip(array, -largest, largest) for array in (actual, expected))
            with np.errstate(over="ignore"):  # of differences
                np.testing.assert_allclose(
                    actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True
                )
        else:
            real = (float(np.abs(x).max(initial=0)) for x in inputs if x.dtype.kind == "f")
            scale = max(scale_of(expected), min(max(real, default=0.0), 1.0))
            error = largest_error(actual, expected) / scale
            assert error <= tolerance, f"off by {error:.1e} of the largest number"
