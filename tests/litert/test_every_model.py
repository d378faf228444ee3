"""Every model of the published folder, in both hosts, against LiteRT's CPU kernels."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

import pytest

from tests.conftest import MODELS, Require
from tests.model_report import HOSTS, SUFFIXES, find_models, run_in
from tests.support.models import SLOW

pytestmark = pytest.mark.usefixtures("gl")

FOLDER = Path(MODELS)
FILES = sorted(path for path in FOLDER.rglob("*") if path.suffix in SUFFIXES)
NAMES = [str(path.relative_to(FOLDER)) for path in FILES]

ODD_IN_LITERT = {
    "litert/static_w8_a16_quantized_q_einsum.tflite": "its result is all zeros there",
}
"""Models that LiteRT's CPU kernels compute wrongly."""


def test_the_folder_has_models(require: Require) -> None:
    if not FOLDER.is_dir():
        require("models", f"no folder {MODELS}; GLES_DELEGATE_MODELS names another")
    assert FILES, f"{MODELS} has no file that ends in {' or '.join(SUFFIXES)}"


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_model_runs_as_in_litert(name: str, host: str) -> None:
    if PurePath(name).stem in SLOW and not os.environ.get("GLES_DELEGATE_ALL"):
        pytest.skip("it is slow on software GL; make test-all runs it")
    for part, model in find_models([FOLDER / name]):
        outcome = run_in(host, part, model)
        if name in ODD_IN_LITERT:
            assert outcome.report.fully_delegated
            continue
        assert not outcome.failed, (outcome.worst, outcome.problem)
        assert outcome.differences or "unresolved custom op" in outcome.problem
