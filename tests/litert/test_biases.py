"""Constants that are added to a product are its biases, where the sum is the same."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import AMD, LLVMPIPE, MALI_G, Profile
from tests.support.force import force_profile
from tests.support.oracle import TOLERANCE, assert_close, complete, run_gles, run_litert
from tests.support.sketch import Dims, Sketch
from tests.support.tflite_builder import NO_INPUT, quantization
from tests.unit.test_plan import plan_of

pytestmark = pytest.mark.usefixtures("floor")

ROWS, INPUTS, OUTPUTS = 10, 12, 16
PROFILES = {"amd": AMD, "mali": MALI_G, "llvmpipe": LLVMPIPE}


class Net(Sketch):
    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))

    def dense(self, dtype: str = "float32", biases: bool = False) -> int:
        """[rows, outputs]."""
        x = self.feed((ROWS, INPUTS))
        weights = self.normal((OUTPUTS, INPUTS))
        if dtype == "int8":
            steps = np.rint(weights * 30).astype(np.int8)
            index = self.constant(steps, quantization=quantization(np.full(OUTPUTS, 1 / 30)))
        else:
            index = self.constant(weights.astype(dtype))
        if dtype == "float16":
            index = self.op("DEQUANTIZE", [index], [self.tensor((OUTPUTS, INPUTS))])
        own = self.constant(self.normal((OUTPUTS,))) if biases else NO_INPUT
        return self.op("FULLY_CONNECTED", [x, index, own])

    def plus(self, x: int, *shape: int, op: str = "ADD", first: bool = False) -> int:
        operands = [x, self.constant(self.normal(shape))]
        return self.op(op, operands[::-1] if first else operands)

    def shaped(self, x: int, *shape: int) -> int:
        return self.op("RESHAPE", [x, self.constant(np.int32(shape))])

    def transposed(self) -> int:
        x, sizes = self.feed((2, 5, 6, 8)), self.constant(np.int32((2, 10, 12, 5)))
        weights = self.constant(self.normal((5, 3, 3, 8)))
        y, options = self.tensor((2, 10, 12, 5)), dict(stride_h=2, stride_w=2, padding="SAME")
        return self.op("TRANSPOSE_CONV", [sizes, weights, x], [y], **options)


TAKEN: dict[str, Callable[[Net], int]] = {
    "row": lambda n: n.plus(n.dense(), OUTPUTS),
    "row first": lambda n: n.plus(n.dense(), 1, OUTPUTS, first=True),
    "reshaped": lambda n: n.plus(n.shaped(n.dense(), 1, ROWS, 2, 8), 1, 1, 2, 8),
    "reshaped without ones": lambda n: n.plus(n.shaped(n.dense(), 1, ROWS, 4, 4), 4, 4),
    "narrow": lambda n: n.plus(n.shaped(n.dense(), ROWS, 8, 2), 8, 2),
    "changed behind": lambda n: n.op("RELU", [n.plus(n.shaped(n.dense(), ROWS, 2, 8), 2, 8)]),
    "int8": lambda n: n.plus(n.dense("int8"), OUTPUTS),
    "transposed": lambda n: n.plus(n.transposed(), 5),
}


def twice(net: Net) -> int:
    """The product is read by itself, too."""
    y = net.dense()
    return net.op("MUL", [net.plus(net.shaped(y, ROWS, 2, 8), 2, 8), net.shaped(y, ROWS, 2, 8)])


LEFT: dict[str, Callable[[Net], int]] = {
    "each pixel its own": lambda n: n.plus(n.dense(), ROWS, OUTPUTS),
    "one per pixel": lambda n: n.plus(n.dense(), ROWS, 1),
    "of half a row": lambda n: n.plus(n.shaped(n.dense(), 2 * ROWS, 8), 8),
    "of two rows": lambda n: n.plus(n.shaped(n.dense(), ROWS // 2, 4, 8), 4, 8),
    "along the rows": lambda n: n.plus(n.shaped(n.dense(), 1, ROWS, 2, 8), 1, ROWS, 2, 1),
    "as many elements": lambda n: n.plus(n.shaped(n.dense(), 1, 16, ROWS), 16, 1),
    "transposed between": lambda n: n.plus(
        n.op("TRANSPOSE", [n.shaped(n.dense(), ROWS, 4, 4), n.constant(np.int32((0, 2, 1)))]), 4, 4
    ),
    "after RELU": lambda n: n.plus(n.op("RELU", [n.dense()]), OUTPUTS),
    "after RELU and a reshape": lambda n: n.plus(
        n.shaped(n.op("RELU", [n.dense()]), ROWS, 2, 8), 2, 8
    ),
    "a difference": lambda n: n.plus(n.dense(), OUTPUTS, op="SUB"),
    "a second one": lambda n: n.op("RELU", [n.plus(n.plus(n.dense(), OUTPUTS), OUTPUTS)]),
    "one for several rows": lambda n: n.plus(n.shaped(n.dense(), 2, ROWS, 8), 2, 1, 8),
    "with others": lambda n: n.plus(n.dense(biases=True), OUTPUTS),
    "reversed": lambda n: n.plus(
        n.op("REVERSE_V2", [n.dense(), n.constant(np.int32([1]))]), OUTPUTS
    ),
    "read twice": twice,
}


@dataclass(frozen=True)
class Planned:
    content: bytes
    adds: int

    @classmethod
    def of(cls, net: Net, *outputs: int, profile: Profile = LLVMPIPE) -> "Planned":
        content = complete(net, outputs)
        plan = plan_of(content, Limits(profile=profile))
        calls = [c for d in plan.dispatches for c in d.epilogue if c.function == "ADD"]
        adds = [d for d in plan.dispatches if d.defines.get("FUNCTION") == "ADD"]
        return cls(content, len(calls) + len(adds))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("form", TAKEN)
def test_taken(form: str, profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    force_profile(monkeypatch, PROFILES[profile])
    net = Net()
    planned = Planned.of(net, TAKEN[form](net), profile=PROFILES[profile])
    assert planned.adds == 0
    ours, reference = (run(planned.content, net.feeds) for run in (run_gles, run_litert))
    tolerance = 1e-2 if form == "int8" else TOLERANCE  # LiteRT rounds the input to int8, too
    assert_close(ours, reference, tolerance=tolerance)


@pytest.mark.parametrize("form", LEFT)
def test_left(form: str) -> None:
    net = Net()
    planned = Planned.of(net, LEFT[form](net))
    assert planned.adds == (form != "a difference")
    assert_close(run_gles(planned.content, net.feeds), run_litert(planned.content, net.feeds))


@pytest.mark.parametrize("shape", [(ROWS, OUTPUTS), (ROWS, 2, 8)])
def test_a_product_that_is_an_output(shape: Dims) -> None:
    net = Net()
    y = net.dense()
    planned = Planned.of(net, net.plus(net.shaped(y, *shape), *shape[1:]), y)
    assert planned.adds == 1
    assert_close(run_gles(planned.content, net.feeds), run_litert(planned.content, net.feeds))


def test_float16_weights_keep_their_texture() -> None:
    net = Net()
    planned = Planned.of(net, net.plus(net.dense("float16"), OUTPUTS), profile=MALI_G)
    assert planned.adds == 1
