"""Check of the installed LiteRT's binary interface against `litert.abi`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import flatbuffers
import numpy as np

from gles_delegate.errors import LiteRtError
from gles_delegate.litert.native import FixedModel, NativeDelegate
from gles_delegate.model.dtypes import SCHEMA_NUMBERS
from gles_delegate.model.graph import Array
from gles_delegate.model.reader import read_model
from gles_delegate.model.schema import BUILTIN_OPERATORS, FILE_IDENTIFIER

OWN_MODULE = "ai_edge_litert.interpreter"
TESTED = ("2.1", "2.3")  # the range of ai-edge-litert's minor versions that the tests ran with

_TRIAL = (
    "import sys; from gles_delegate.litert.check import _try_layout; _try_layout(*sys.argv[1:])"
)


@cache
def require_known_layout() -> None:
    """Try the structures on the installed LiteRT; raises LiteRtError if it is missing or differs.

    A version outside the tested range is tried in a separate process, which it may crash.
    """
    from importlib import metadata  # would add a tenth to the package's import time

    try:
        version = metadata.version("ai-edge-litert")
    except metadata.PackageNotFoundError:
        raise LiteRtError(f"LiteRT is not installed: {how_to_install()}") from None
    low, high, installed = (tuple(map(int, v.split(".")[:2])) for v in (*TESTED, version))
    trial: Callable[[], object] = _try_layout
    if not low <= installed <= high:
        trial = try_apart
    try:
        trial()
    except (LiteRtError, RuntimeError, subprocess.SubprocessError) as error:
        raise LiteRtError(
            f"ai-edge-litert {version} has another binary interface than the versions {TESTED[0]} "
            f"to {TESTED[1]} that gles_delegate was tested with; install one of these"
        ) from error


@cache
def require_layout_of(module: str) -> None:
    """As `require_known_layout`, of the LiteRT or TFLite whose interpreter is in a module."""
    if module == OWN_MODULE:
        require_known_layout()
        return
    try:
        try_apart(module)
    except subprocess.SubprocessError as error:
        raise LiteRtError(
            f"{module} has another binary interface than LiteRT {TESTED[0]} to {TESTED[1]}, with "
            "which gles_delegate was tested; install one of these"
        ) from error


def try_apart(*module: str) -> None:
    """Try the structures in a separate process; raises SubprocessError if it fails."""
    command = [sys.executable, "-c", _TRIAL, *module]
    subprocess.run(command, check=True, timeout=60, capture_output=True)


def how_to_install() -> str:
    """The command that installs LiteRT, or the reason why none does."""
    if sys.maxsize < 1 << 32:
        return "it needs a 64-bit system and Python, and this Python has 32 bits"
    return "pip install ai-edge-litert"


def litert_interpreter() -> type[Any]:
    """LiteRT's class, even if a program has put ours or a subclass in its place.

    Raises ImportError if LiteRT is not installed.
    """
    from ai_edge_litert import interpreter

    (base,) = interpreter.InterpreterWithCustomOps.__bases__
    return base  # type: ignore[no-any-return]


def _try_layout(module: str = OWN_MODULE) -> None:
    own = module == OWN_MODULE
    kind = litert_interpreter() if own else import_module(module).Interpreter
    content = trial_model()
    delegate = NativeDelegate(read_model(content), dict.fromkeys((0, 1), _TrialModel()))
    interpreter = kind(model_content=content, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    values = np.arange(6, dtype=np.float32).reshape(_TrialModel.SHAPE)
    interpreter.set_tensor(0, values)
    interpreter.invoke()
    if not np.array_equal(interpreter.get_tensor(1), values + 7):
        raise LiteRtError("a kernel's result was lost")


class _TrialModel(FixedModel):
    """Takes the node of `trial_model`; its result differs from LiteRT's."""

    SHAPE = (2, 3)

    def __init__(self) -> None:
        super().__init__((0,), {0: self.SHAPE, 1: self.SHAPE})

    def prepare(
        self, shapes: Mapping[int, tuple[int, ...]], values: Mapping[int, Array] | None = None
    ) -> Mapping[int, tuple[int, ...]]:
        if shapes != {0: self.SHAPE}:
            raise LiteRtError(f"expected the shape {self.SHAPE}, found {shapes}")
        return super().prepare(shapes)

    def invoke_on(
        self, array: Callable[[int], Array], allocated: Collection[int], reads_bound: bool
    ) -> None:
        np.add(array(0), 7, out=array(1))


def trial_model() -> bytes:
    """A model of two equal subgraphs of one NEG node; slots follow the TFLite schema."""
    builder = flatbuffers.Builder()

    def table(*fields: tuple[int, str, int]) -> int:
        builder.StartObject(1 + max((slot for slot, *_ in fields), default=0))
        for slot, kind, value in fields:
            getattr(builder, f"Prepend{kind}Slot")(slot, value, 0)
        return int(builder.EndObject())

    def vector(*tables: int) -> int:
        builder.StartVector(4, len(tables), 4)
        for offset in reversed(tables):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())

    def ints(*values: int) -> int:
        return int(builder.CreateNumpyVector(np.array(values, np.int32)))

    link = "UOffsetTRelative"
    shape = ints(*_TrialModel.SHAPE)
    zero = ints(0)
    one = ints(1)
    names = [int(builder.CreateString(name)) for name in ("x", "y")]
    common = ((0, link, shape), (1, "Int8", SCHEMA_NUMBERS["float32"]))
    tensors = vector(*(table(*common, (3, link, name)) for name in names))
    operators = vector(table((1, link, zero), (2, link, one)))
    graph = table((0, link, tensors), (1, link, zero), (2, link, one), (3, link, operators))
    neg = BUILTIN_OPERATORS.index("NEG")
    codes = vector(table((0, "Int8", neg), (2, "Int32", 1), (3, "Int32", neg)))
    subgraphs = vector(graph, graph)
    buffers = vector(table())
    model = table((0, "Uint32", 3), (1, link, codes), (2, link, subgraphs), (4, link, buffers))
    builder.Finish(model, FILE_IDENTIFIER)
    return bytes(builder.Output())
