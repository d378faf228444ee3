"""Run LiteRT's own tests of its interpreter on ours, and print the names of those that pass.

    python -m tests.peers.litert CHECKOUT

CHECKOUT is a clone of LiteRT's repository. TensorFlow, with which the tests are written, is
replaced by the few functions that they use; tests that convert models, or need LiteRT's libraries
for tests, fail. The small models are made here, with the names and values of LiteRT's.
"""

import os
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

import gles_delegate as gd
from tests.support.tflite_builder import NO_INPUT, ModelBuilder, quantization

TESTS, DATA = Path("tflite", "python", "interpreter_test.py"), Path("tflite", "python", "testdata")


def permute(dtype: Any) -> bytes:
    """A product that reverses four numbers."""
    b = ModelBuilder()
    unit = None if dtype == np.float32 else quantization(1.0, 0)
    weights = np.eye(4, dtype=dtype)[::-1].copy()
    x = b.input((1, 4), dtype, name="input", quantization=unit)
    w = b.constant(weights, name="Const", quantization=unit)
    y = b.tensor((1, 4), dtype, name="output", quantization=unit)
    return b.build([b.op("FULLY_CONNECTED", [x, w, NO_INPUT], [y])])


def gather(scalar: bool) -> bytes:
    b = ModelBuilder()
    x = b.input(() if scalar else (10,), "string", name="input")
    indices = b.input((3,), np.int64, name="indices")
    empty = np.int32([1, 12, 12])  # one string, from its first byte to its end
    source = b.tensor((1,), "string", name="input_const", data=empty) if scalar else x
    y = b.tensor((3,), "string", name="output")
    return b.build([b.op("GATHER", [source, indices], [y], axis=0)])


def two_signatures() -> bytes:
    b = ModelBuilder()

    def graph(op: str, name: str) -> Callable[[ModelBuilder], list[int]]:
        def build(b: ModelBuilder) -> list[int]:
            x = b.input((1,), name=f"{name}_x:0")
            y = b.constant(np.float32([2]), name=f"{name}_y")
            return [b.op(op, [x, y], [(1,)])]

        return build

    outputs = graph("ADD", "add")(b)
    b.subgraph(graph("MUL", "multiply"))
    signatures = {"add": ({"x": 0}, {"y": outputs[0]}), "multiply": ({"x": 0}, {"y": 2}, 1)}
    return b.build(outputs, signatures)


MODELS: dict[str, Callable[[], bytes]] = {
    "permute_float.tflite": lambda: permute(np.float32),
    "permute_uint8.tflite": lambda: permute(np.uint8),
    "gather_string.tflite": lambda: gather(False),
    "gather_string_0d.tflite": lambda: gather(True),
    "two_signatures.tflite": two_signatures,
}


class TestCase(unittest.TestCase):
    """The assertions of TensorFlow's."""

    def assertAllEqual(self, a: Any, b: Any) -> None:  # noqa: N802 -- TensorFlow's name
        np.testing.assert_array_equal(a, b)

    def assertLen(self, container: Any, length: int) -> None:  # noqa: N802
        assert len(container) == length


def stand_in(interpreter: ModuleType, folder: Path) -> None:
    """Put what the tests import into `sys.modules`."""
    metrics = SimpleNamespace(increase_counter_interpreter_creation=lambda self: None)
    stubs: dict[str, dict[str, Any]] = {
        "tensorflow": {},
        "tensorflow.python.framework.test_util": {"TensorFlowTestCase": TestCase},
        "tensorflow.python.platform.resource_loader": {
            "get_path_to_datafile": lambda path: str(folder / path)
        },
        "tensorflow.python.platform.test": {"main": unittest.main},
        "tflite.python.lite": {"Interpreter": gd.Interpreter},
        "tflite.python.metrics.metrics": {"TFLiteMetrics": metrics},
        "tflite.python.testdata._pywrap_test_registerer": {},
        "tflite.python.interpreter": vars(interpreter) | {"Interpreter": gd.Interpreter},
    }
    for name, values in stubs.items():
        parts = name.split(".")
        for i in range(1, len(parts) + 1):
            full = ".".join(parts[:i])
            module = sys.modules.setdefault(full, ModuleType(full))
            if i > 1:
                setattr(sys.modules[".".join(parts[: i - 1])], parts[i - 1], module)
        vars(sys.modules[name]).update(values)


def main() -> None:
    import ai_edge_litert.interpreter as interpreter

    checkout = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "testdata").mkdir()
        for file, make in MODELS.items():
            (folder / "testdata" / file).write_bytes(make())
        for file in (checkout / DATA).glob("*.bin"):
            (folder / "testdata" / file.name).write_bytes(file.read_bytes())
        stand_in(interpreter, folder)
        tests = ModuleType("interpreter_test")
        exec(compile((checkout / TESTS).read_text(), str(TESTS), "exec"), vars(tests))
        suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
        with open(os.devnull if len(sys.argv) < 3 else sys.argv[2], "w") as log:
            result = unittest.TextTestRunner(log, resultclass=Passed).run(suite)
    assert isinstance(result, Passed)
    print("\n".join(sorted(result.passed)))


class Passed(unittest.TextTestResult):
    """Notes the names of tests that pass."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.passed: list[str] = []

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802 -- unittest's name
        super().addSuccess(test)
        self.passed.append(test.id().removeprefix("interpreter_test."))


if __name__ == "__main__":
    main()
