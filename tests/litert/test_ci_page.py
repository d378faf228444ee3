"""The test that docs/ci.md shows, with a shipped model and with models of other types."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike

from tests.support.snippets import ROOT, snippets
from tests.support.tflite_builder import ModelBuilder, quantization


def quantized(dtype: DTypeLike) -> bytes:
    """A fully connected layer; float32, or quantized with weights of a step of 0.01."""
    b, rng = ModelBuilder(), np.random.default_rng(0)
    if dtype is np.float32:
        weights = b.constant(rng.standard_normal((6, 9)).astype(np.float32))
        x, y = b.input((2, 9)), b.tensor((2, 6))
        b.op("FULLY_CONNECTED", [x, weights, b.constant(np.zeros(6, np.float32))], [y])
        return b.build([y])
    zero = 128 if dtype is np.uint8 else 0
    steps = rng.integers(-100, 100, (6, 9)) + zero
    x = b.input((2, 9), dtype, quantization=quantization(0.05, zero))
    weights = b.constant(steps.astype(dtype), quantization=quantization(0.01, zero))
    bias = b.constant(np.zeros(6, np.int32), quantization=quantization(0.0005))
    y = b.tensor((2, 6), dtype, quantization=quantization(0.3, zero))
    b.op("FULLY_CONNECTED", [x, weights, bias], [y])
    return b.build([y])


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of the page's test, in an empty folder."""
    (snippet,) = snippets("docs/ci.md")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    exec(snippet.compiled(), names)
    return names


def test_the_shipped_model(page: dict[str, Any]) -> None:
    page["MODEL"] = ROOT / page["MODEL"]
    page["test_the_model_runs_on_the_gpu"]()
    assert any(Path(".cache/gles_delegate").iterdir())


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int8])
def test_other_types(dtype: DTypeLike, page: dict[str, Any]) -> None:
    page["MODEL"] = "model.tflite"
    Path("model.tflite").write_bytes(quantized(dtype))
    page["test_the_model_runs_on_the_gpu"]()


@pytest.mark.parametrize(
    ("dtype", "wrong"), [(np.float32, lambda a: a + 0.01), (np.uint8, lambda a: a ^ 4)]
)
def test_a_difference_is_noticed(
    dtype: DTypeLike, wrong: Callable[[Any], Any], page: dict[str, Any]
) -> None:
    page["MODEL"] = "model.tflite"
    Path("model.tflite").write_bytes(quantized(dtype))
    outputs, calls = page["outputs"], []

    def once_wrong(interpreter: Any) -> Any:
        calls.append(interpreter)
        found = outputs(interpreter)
        return [wrong(each) for each in found] if len(calls) == 1 else found

    page["outputs"] = once_wrong
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        page["test_the_model_runs_on_the_gpu"]()


def test_the_workflow_runs_in_another_repository(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "container" / "workflow.yml").read_text("utf-8")
    (model,) = re.findall(r"^  MODEL: (\S+)", text, re.M)
    steps = re.findall(r"^      - run: (.*)$", text, re.M)
    own = [step for step in steps if step.startswith("gles-delegate ")]
    others = {*steps} - {*own}
    assert len(own) == 3
    install = 'pip install "gles_delegate[cli,litert] @ git+${REPOSITORY:?is not set}"'
    assert others == {">", install}  # ">": apt-get
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for step in own:
        step = step.replace("gles-delegate", "python -m gles_delegate")
        run = subprocess.run(
            ["bash", "-ec", step],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "MODEL": model, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
    assert any((tmp_path / ".cache" / "gles_delegate").iterdir())
