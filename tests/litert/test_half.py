"""Tensors stored as float16, where precision_loss_allowed lets them be."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt

import gles_delegate as gd
from gles_delegate.device import profiles
from tests.op_table import CASES, Case, sample
from tests.support.force import force_limits, force_profile
from tests.support.oracle import in_ours, run, run_litert
from tests.support.sampling import choose
from tests.support.sketch import Sketch

MODELS = ("mnist_model", "face_detection_front")
CASES_OF_ALL = [case for case in CASES if case.op in ("GRAPH", "CONCATENATION")]
CASES_OF_ALL += [
    case
    for case in CASES
    if case.op in ("UNIDIRECTIONAL_SEQUENCE_LSTM", "RFFT2D") and case.hash % 8 == 0
]
LOSSY = gd.GpuDelegateOptions(precision_loss_allowed=True)
SAMPLE = choose("in float16", CASES_OF_ALL, sample(CASES_OF_ALL, 30))


@pytest.fixture(params=["UNKNOWN", "MALI_G"])
def half(floor: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every device is taken for a GPU on which float16 pays: storage alone, and products too."""
    profile = profiles.NAMED[request.param]
    assert profile.half_storage
    assert profile.half_products == (request.param == "MALI_G")
    force_profile(monkeypatch, profile)


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize("name", MODELS)
def test_models_agree_to_a_hundredth(name: str, real_model: Callable[[str], bytes]) -> None:
    content = real_model(name)
    with gd.GpuDelegate(LOSSY) as delegate:
        ours = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        assert delegate.report.storage == "float16"
        reference = LiteRt(model_content=content)
        shape = ours.get_input_details()[0]["shape"]
        feed = [np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)]
        for interpreter in (ours, reference):
            interpreter.allocate_tensors()
        for actual, expected in zip(run(ours, feed), run(reference, feed), strict=True):
            error = np.abs(actual - expected).max() / np.abs(expected).max()
            assert 0 < error < 1e-2


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.id)
def test_small_graphs_agree_to_a_hundredth(case: Case) -> None:
    content, inputs = case.build()
    with gd.GpuDelegate(LOSSY) as delegate:
        interpreter = in_ours(delegate, content)
        for actual, expected in zip(
            run(interpreter, inputs), run_litert(content, inputs), strict=True
        ):
            scale = max(1.0, float(np.abs(expected).max(initial=0)))
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-2 * scale)


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("name", ["MALI_G", "V3D"])
@pytest.mark.parametrize(
    ("shape", "outputs", "pairs"),
    [
        ((1, 6, 4, 12), 20, True),
        ((2, 3, 5, 7), 9, True),  # 30 pixels: the last tile begins earlier
        ((1, 5, 2, 4), 4, True),
        ((1, 5, 3, 8), 16, False),  # an odd number of pixels
        ((1, 3, 3, 8), 8, False),
        ((1, 1, 2, 24), 8, False),  # lanes lie along the slices
    ],
)
def test_neighboring_pixels_in_one_load(
    name: str,
    shape: tuple[int, ...],
    outputs: int,
    pairs: bool,
    loops: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same bits as by tiles whose pixels lie apart."""
    s = Sketch(np.random.default_rng(1))
    x = s.op("TANH", [s.feed(shape)])
    weights = [s.constant(s.normal(dims)) for dims in ((outputs, 1, 1, shape[-1]), (outputs,))]
    content = s.build([s.op("CONV_2D", [x, *weights], stride_h=1, stride_w=1), x])
    feed = [np.random.default_rng(2).standard_normal(shape).astype(np.float32)]
    profile = profiles.NAMED[name]
    results = []
    for each in (profile, replace(profile, half_pointwise=())):
        force_profile(monkeypatch, each)
        force_limits(monkeypatch, store_loops=loops)
        with gd.GpuDelegate(LOSSY) as delegate:
            interpreter = in_ours(delegate, content)
            results.append(run(interpreter, feed)[0])
            (segment,) = delegate.bound.first.prepared  # type: ignore[union-attr]
            (conv,) = [d for d in segment.require().plan.dispatches if d.shader == "conv_2d"]
            assert conv.defines["ADJACENT"] == (pairs and each is profile)
    np.testing.assert_array_equal(*results)


def test_llvmpipe_keeps_float32(real_model: Callable[[str], bytes]) -> None:
    with gd.GpuDelegate(LOSSY) as delegate:
        gd.Interpreter(model_content=real_model("mnist_model"), experimental_delegates=[delegate])
        half = delegate.gpu.limits.profile.half_storage
        assert half == ("llvmpipe" not in delegate.gpu.driver.renderer)
        assert delegate.report.storage == ("float16" if half else "float32")
