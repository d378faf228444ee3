"""Convolutions with windows of 3 x 3 by Winograd's algorithm, beside LiteRT's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import INTEL, NAMED, Profile
from gles_delegate.kernels import winograd
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.plan import make_plan
from tests.support.force import force_profile
from tests.support.hosts import run_resized
from tests.support.oracle import assert_sane, in_litert, in_ours, run, run_litert
from tests.support.sketch import Sketch
from tests.support.tflite_builder import quantization

NAMES = [name for name, profile in NAMED.items() if any(profile.winograd)]
TOLERANCE = 2e-5
"""Maximum error, relative to the largest result; LiteRT's own is up to 5e-6."""
Floats = NDArray[np.float32]


@pytest.fixture(autouse=True)
def few_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    force_profile(monkeypatch, replace(INTEL, winograd=(1,)))


class Network(Sketch):
    """Convolutions after each other."""

    def __init__(self, size: tuple[int, ...]) -> None:
        super().__init__(np.random.default_rng(0))
        self.size = size
        self.last = self.input(size)
        self.picture = self.normal(size)

    def convolve(
        self, outputs: int, padding: str = "SAME", weights: Any = None, stride: int = 1,
        activation: str = "NONE", dilation: int = 1,
    ) -> Network:  # fmt: skip
        batch, *sides, channels = self.tensors[self.last]["shape"]
        if weights is None:
            weights = self.constant(self.normal((outputs, 3, 3, channels), 0.1))
        less = 0 if padding == "SAME" else 2 * dilation
        shape = (batch, *(-(-(side - less) // stride) for side in sides), outputs)
        self.last = self.op(
            "CONV_2D", [self.last, weights, self.constant(self.normal((outputs,)))], [shape],
            padding=padding, stride_w=stride, stride_h=stride, dilation_w_factor=dilation,
            dilation_h_factor=dilation, fused_activation_function=activation,
        )  # fmt: skip
        return self

    def content(self) -> bytes:
        return self.build([self.last])


def transforms(delegate: gd.GpuDelegate) -> int:
    """How many dispatches transform inputs."""
    return str(delegate.profile()).count("winograd_in(")


def results(
    network: Network, options: gd.GpuDelegateOptions | None = None, host: Any = in_ours
) -> tuple[Floats, int]:
    """The output of a run whose dispatches write what they should, and the transforms in it."""
    content = network.content()
    with gd.GpuDelegate(options, model=content) as delegate:
        interpreter = host(delegate, content)
        (result,) = run(interpreter, [network.picture])
        assert_sane(delegate)
        return result, transforms(delegate)


def assert_near(result: Floats, network: Network) -> None:
    (expected,) = run_litert(network.content(), [network.picture])
    assert np.abs(result - expected).max() <= TOLERANCE * max(np.abs(expected).max(), 1)


@pytest.mark.parametrize("host", [in_ours, in_litert])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("size", [(1, 8, 8, 4), (1, 11, 21, 7), (3, 13, 9, 66)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_results_are_litert_s(
    name: str, size: tuple[int, ...], padding: str, host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    force_profile(monkeypatch, replace(NAMED[name], winograd=(1,), winograd_pixels=1, chained=0))
    network = Network(size).convolve(37, padding, activation="RELU")
    result, count = results(network, host=host)
    assert count == 1
    assert_near(result, network)


@pytest.mark.parametrize("size", [(1, 30, 19, 8), (3, 14, 10, 8)], ids=str)
@pytest.mark.parametrize("lines", [1, 2, 5])
def test_large_images_are_computed_in_bands(
    lines: int, size: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(size).convolve(12)
    line = -(-size[2] // 4) * winograd.NUMBERS * (2 + 3) * 16
    profile = replace(INTEL, winograd=(1,), winograd_bytes=lines * line)
    force_profile(monkeypatch, profile)
    total = size[0] * -(-size[1] // 4)
    result, count = results(network)
    assert count == -(-total // lines)
    assert_near(result, network)


def test_bands_write_neighboring_pixels() -> None:
    limits = Limits(profile=replace(INTEL, winograd=(1,), winograd_bytes=3 * 8640))
    lowered = lower_graph(read_model(Network((2, 14, 10, 8)).convolve(12).content()), limits)
    plan = make_plan(lowered, [0], limits, False)
    parts = [d.pixels for d in plan.dispatches if d.shader == "winograd_out"]
    ends = [0]
    for part in parts:
        assert part is not None
        assert part[0] == ends[-1]
        ends.append(sum(part))
    assert len(parts) > 2
    assert ends[-1] == 2 * 14 * 10


def test_other_ops_around_it() -> None:
    """Absorbed padding, sums and activations after it, a concatenation in place, another reader."""
    network = Network((1, 16, 16, 8))
    wide = network.op(
        "PAD", [network.last, network.constant(np.int32([[0, 0], [1, 1], [1, 1], [0, 0]]))],
        [(1, 18, 18, 8)],
    )  # fmt: skip
    network.last = wide
    x = network.convolve(8, "VALID").last
    y = network.convolve(8, activation="RELU6").last
    z = network.op("ADD", [x, y], [(1, 16, 16, 8)], fused_activation_function="RELU")
    joined = network.op("CONCATENATION", [x, z, y], [(1, 16, 16, 24)], axis=3)
    network.last = joined
    network.convolve(5)
    result, count = results(network)
    assert count == 3
    assert_near(result, network)


def test_other_sizes_and_more_images() -> None:
    network = Network((1, 16, 16, 8)).convolve(8).convolve(4)
    content = network.content()
    with gd.GpuDelegate() as delegate:
        interpreter = in_ours(delegate, content)
        index = interpreter.get_input_details()[0]["index"]
        for size in ((2, 9, 30, 8), (1, 16, 16, 8), (5, 21, 8, 8)):
            interpreter.resize_tensor_input(index, size)
            interpreter.allocate_tensors()
            picture = network.normal(size)
            (result,) = run(interpreter, [picture])
            assert transforms(delegate) == 2
            (expected,) = run_resized(Interpreter(model_content=content), [picture])
            assert np.abs(result - expected).max() <= TOLERANCE * np.abs(expected).max()


def test_what_stays_direct() -> None:
    cases = [
        Network((1, 16, 16, 8)).convolve(8, stride=2),
        Network((1, 16, 16, 8)).convolve(8, dilation=2),
        Network((1, 6, 6, 8)).convolve(8),
    ]
    groups = Network((1, 16, 16, 8))
    cases.append(groups.convolve(8, weights=groups.constant(groups.normal((8, 3, 3, 4)))))
    for network in cases:
        result, count = results(network)
        assert count == 0
        assert_near(result, network)


def test_weights_that_are_read_as_bytes_stay_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network((1, 16, 16, 8))
    numbers = network.rng.integers(-127, 127, (8, 3, 3, 8)).astype(np.int8)
    network.convolve(8, weights=network.constant(numbers, quantization=quantization(0.01)))
    assert results(network)[1] == 1
    force_profile(monkeypatch, replace(INTEL, winograd=(1,), weight_bytes=(1 << 20,)))
    assert results(network)[1] == 0


@pytest.mark.parametrize(
    "options",
    [
        {"winograd": False},
        {"precision_loss_allowed": False},
        {"precision_loss_allowed": True},
        {"inference_priority1": gd.InferencePriority.MIN_MEMORY_USAGE},
    ],
    ids=str,
)
def test_options_keep_it_out(options: dict[str, Any]) -> None:
    network = Network((1, 16, 16, 8)).convolve(8)
    assert results(network)[1] == 1
    assert results(network, gd.GpuDelegateOptions(**options))[1] == 0


def test_profiles_name_the_fewest_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    fewest, counts = INTEL.winograd[0], []
    for channels, outputs in ((fewest, fewest), (fewest - 1, fewest), (fewest, fewest - 1)):
        force_profile(monkeypatch, INTEL)
        counts.append(results(Network((1, 12, 12, channels)).convolve(outputs))[1])
    assert counts == [1, 0, 0]


def test_what_is_not_finite_stays_in_its_tiles() -> None:
    """A pixel reaches the tiles of outputs whose windows see it, and no other."""
    network = Network((1, 24, 24, 8)).convolve(8)
    clean, _ = results(network)
    for value in (np.nan, np.inf, 1e38):
        network.picture[0, 9, 10, 3] = value
        result, _ = results(network)
        changed = ~np.isclose(result, clean, rtol=1e-4, atol=1e-4).all(axis=(0, 3))
        assert changed[8:11, 9:12].all()
        assert not changed[:8].any()
        assert not changed[12:].any()
        assert not changed[:, :8].any()
        assert not changed[:, 12:].any()


def test_errors_are_relative_to_the_largest_input_of_a_tile() -> None:
    network = Network((1, 24, 24, 16)).convolve(16)
    network.picture[0, 9, 10, 3] = 1e6
    result, count = results(network)
    assert count == 1
    (expected,) = run_litert(network.content(), [network.picture])
    error = np.abs(result - expected).max(axis=(0, 3))
    assert error.max() <= 1e6 * 1e-6
    error[8:12, 8:12] = 0
    assert error.max() < 1e-4


def test_every_profile_that_uses_it_can_be_tuned_to_do_without() -> None:
    profiles: list[Profile] = [NAMED[name] for name in NAMES]
    assert profiles
    assert all(profile.winograd[-1] == 0 for profile in profiles)
