"""Every model of the published folder, in both hosts, against LiteRT's CPU kernels."""

from pathlib import Path

import pytest

from gles_delegate.model.reader import read_model
from tests.conftest import MODELS, Require
from tests.model_report import HOSTS, SUFFIXES, find_models, run_in
from tests.support.lowered import lowered_dispatches
from tests.support.models import ONE_A_KERNEL
from tests.support.sampling import choose
from tests.unit.test_plan import FLOOR

FILES = sorted(path for path in MODELS.rglob("*") if path.suffix in SUFFIXES)
NAMES = [str(path.relative_to(MODELS)) for path in FILES]
SAMPLE = choose("models", NAMES, [name for name in NAMES if name in ONE_A_KERNEL])

ODD_IN_LITERT = {
    "litert/static_w8_a16_quantized_q_einsum.tflite": "its result is all zeros there",
    "exports/jax_conv_transpose.tflite": "a result has another shape there than in the model",
}
"""Models that LiteRT's CPU kernels compute wrongly."""


def test_the_folder_has_models(require: Require) -> None:
    if not MODELS.is_dir():
        require("models", f"no folder {MODELS}; GLES_DELEGATE_MODELS names it")
    assert FILES, f"{MODELS} has no file that ends in {' or '.join(SUFFIXES)}"


@pytest.mark.slow
def test_a_sample_has_every_shader_of_the_folder() -> None:
    shaders: dict[str, set[str]] = {name: set() for name in NAMES}
    for name in NAMES:
        for _, model in find_models([MODELS / name]):
            (source,) = model.arguments.values()
            content = source if isinstance(source, bytes) else Path(source).read_bytes()
            shaders[name] |= {d.shader for d in lowered_dispatches(read_model(content), FLOOR)}
    assert set().union(*(shaders[name] for name in ONE_A_KERNEL)) == set().union(*shaders.values())


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", SAMPLE)
def test_a_model_runs_as_in_litert(name: str, host: str) -> None:
    for part, model in find_models([MODELS / name]):
        outcome = run_in(host, part, model)
        if name in ODD_IN_LITERT:
            assert outcome.report.fully_delegated
            continue
        assert not outcome.failed, (outcome.worst, outcome.problem)
        assert outcome.differences or "LiteRT's CPU kernels do not run" in outcome.problem
