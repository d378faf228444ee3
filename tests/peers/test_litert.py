"""LiteRT's own tests of its interpreter, if LITERT names a clone of its repository."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PASSING = Path(__file__).with_name("litert.txt")
"""The tests that pass on our interpreter. The others convert models by TensorFlow, need a file or
libraries that only LiteRT's build makes, expect LiteRT without one that its package has
(testRegisterGenAIOpsFailure), or count interpreters for LiteRT's own statistics
(testCreationCounter)."""


def test_litert_s_tests_pass_as_before(tmp_path: Path) -> None:
    checkout = os.environ.get("LITERT")
    if not checkout:
        pytest.skip("LITERT names no clone of LiteRT")
    log = tmp_path / "log"
    ended = subprocess.run(
        [sys.executable, "-m", "tests.peers.litert", checkout, str(log)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    passed, wanted = set(ended.stdout.split()), set(PASSING.read_text().split())
    assert wanted <= passed, log.read_text()
    assert passed <= wanted, "add them to tests/peers/litert.txt"
