"""A few damaged models in every run of the tests, and that the attack finds what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.attack.__main__ import attack, verdict
from tests.attack.workers import Outcome

pytestmark = pytest.mark.usefixtures("gl")

ONE, TWO = (Outcome("result", (np.full(3, n, np.float32),)) for n in (1, 2))


def test_damaged_models() -> None:
    counts, findings = attack(range(150))
    assert not findings
    assert counts["result, LiteRT: result"] > 30
    assert counts["refused, LiteRT: refused"] > 30


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        (ONE, ONE, ""),
        (ONE, TWO, "another result"),
        (ONE, Outcome("refused"), ""),
        (Outcome("refused"), ONE, ""),
        (Outcome("crash"), ONE, "crash"),
        (Outcome("hang"), Outcome("refused"), "hang"),
        (Outcome("crash"), Outcome("crash"), ""),
        (Outcome("foreign error"), Outcome("refused"), "foreign error"),
        (Outcome("refused by LiteRT"), ONE, "refused by LiteRT"),
        (Outcome("refused by LiteRT"), Outcome("refused"), ""),
    ],
)
def test_verdict(ours: Outcome, theirs: Outcome, found: str) -> None:
    assert verdict(ours, theirs).partition("\n")[0] == found
