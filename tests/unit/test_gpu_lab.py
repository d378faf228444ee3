"""The figures that tools/gpu-lab makes of what drivers say."""

import json
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
lab: Any = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "gpu-lab" / "measure")))
text = (ROOT / "tests" / "support" / "gpu_lab.json").read_text("utf-8")
said: Any = SimpleNamespace(**json.loads(text))
"""What drivers say of one program, and parts of the code that they print."""


ALU = {"fma": 1.90625, "cvt": 4.421875, "sfu": 3.5}


def of_v3d(**counts: int) -> dict[str, float]:
    return {unit: count / 16 for unit, count in counts.items()}


def printed(messages: list[str], *code: str) -> dict[str, list[str]]:
    """A program as `compile` describes it."""
    return {"messages": messages, "code": [*code]}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (said.v3d, (356, 2, 3, 9, {**of_v3d(loads=1, words=2, waits=4 - 3), "issue": 360 / 16})),
        (said.midgard, (324, 1, 14, 39, {"issue": 166, "loads": len(said.qpu)})),
        (said.bifrost, (620, 1, 0, 0, {"arith": 18.916666, "vary": 0, "ldst": 22, "texture": 6})),
        (said.valhall, (486, 1, 0, 0, {**ALU, "v": 0, "ls": 25.5, "t": 4})),
        (said.adreno, (832, 4, 7, 5, {"issue": 13, "loads": 22 / 64})),
        (said.intel, (468, 8, 0, 0, {"issue": 468 / 8, "loads": 19 / 8})),
        (said.amd, (701, 4, 5, 0, {"issue": 701 / 64, "loads": len(said.qpu) / 64})),
        (said.nvidia, (463, 32, 2, 0, {"issue": 463 / 32})),
    ],
)
def test_the_statistics_of_each_driver_are_read(message: str, expected: tuple[Any, ...]) -> None:
    after = ["Flushing everything due to: Launch grid post-barrier"]
    compiled = {"messages": [*said.noise, message, *after], "code": said.qpu}
    assert lab.statistics(compiled) == lab.Statistics(*expected)


def test_of_several_widths_the_last_counts() -> None:
    """An instruction of 16 lanes takes two clocks of an execution unit with 8, but for Xe2."""
    wider = {"messages": [said.intel, said.intel.replace("SIMD8", "SIMD16")], "code": []}
    assert lab.statistics(wider).threads == 16
    assert lab.statistics(wider).units["issue"] == 468 / 8
    assert lab.statistics(wider, "intel-lnl").units["issue"] == 468 / 16


def test_graphics_programs_do_not_count() -> None:
    others = [
        said.adreno.replace("CL", "VERT"),
        said.adreno.replace("CL", "FRAG"),
        said.intel.replace("CS", "FS"),
    ]
    others += [said.amd.replace("CS", "PS"), said.nvidia.replace("type: 5", "type: 4")]
    assert lab.statistics(printed([said.valhall, *others])).instructions == 486


def test_a_driver_that_says_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected the driver's statistics"):
        lab.statistics(printed(said.noise))


@pytest.mark.parametrize(("twice", "body"), [(30, 8), (60, 12)])
def test_a_loop_counts_as_often_as_it_runs(twice: int, body: int) -> None:
    versions = [printed([said.bifrost.replace("22.0", f"{cycles}.0")]) for cycles in (10, twice)]
    program = {
        "whole": printed([said.bifrost]),
        "loops": [versions],
        "runs": [(1000, [4], 7, 500), (3000, [0], 8, 300)],
    }
    figures = lab.figures(program, "mali-g52")
    assert figures.loads == pytest.approx((1000 * (22 + 4 * body) + 3000 * 22) / 1e6)
    assert figures.issue == pytest.approx(4000 * 18.916666 / 1e6)
    assert figures.words == pytest.approx(4000 * 6 / 1e6)
    assert (figures.work, figures.bytes) == pytest.approx((15e-6, 800e-6))


def test_loops_of_intel_and_adreno_end_with_a_jump_back() -> None:
    (loop,) = lab.loops_in(said.intel_code)
    assert lab.of_intel(loop, 8) == {"issue": 5 / 8, "loads": 1 / 8}
    (loop,) = lab.loops_in(said.adreno_code)
    assert lab.of_adreno(loop) == {"issue": (5 + 1 + 2) / 64, "loads": 1 / 64}


def test_lookups_of_textures_count_on_v3d() -> None:
    code = ["mov tmua, rf1", "add tmus, rf2, rf3", "nop ; mov tmud, rf4", "mov tmuau, rf1"]
    assert lab.of_v3d(code)["loads"] == 3 / 16


def test_loops_of_v3d_are_counted_in_its_code() -> None:
    first, second = lab.loops_in(said.code)
    assert [len(first), len(second)] == [10, 5]
    without = said.v3d.replace("360 inst", "200 inst")
    loop = [printed([without]), printed([said.v3d.replace("360 inst", "900 inst")])]
    dropped = [printed([said.v3d]), printed([said.v3d])]
    program = {
        "whole": printed([said.v3d], *said.code),
        "loops": [loop, dropped, loop],
        "runs": [(1000, [4, 9, 7], 1, 1)],
    }
    figures = lab.figures(program, "v3d-7.1")
    assert figures.issue == pytest.approx(1000 * (360 + 4 * 10 + 7 * 5) / 16 / 1e6)
    assert figures.words == pytest.approx(1000 * (1 + 4 * 1 + 7 * 1) / 16 / 1e6)


COSTS = {"issue": 10.0, "loads": 5.0, "words": 0.0, "waits": 0.0, "bytes": 9.0, "work": 7.0}
ROW = lab.Figures(2, spilling=1, instructions=900, threads=2, spills=3, fills=9, **COSTS)
POINTWISE, POOL = ("v3d-7.1", "m", "conv_2d pointwise"), ("v3d-7.1", "m", "pool_2d")
TABLE = {POINTWISE: ROW, POOL: ROW}


@pytest.mark.parametrize(
    ("changes", "worse", "better"),
    [
        ({}, [], []),
        ({"fills": 10}, ["spills and fills 25, in the table 24"], []),
        ({"fills": 8}, [], ["spills and fills 23, in the table 24"]),
        ({"issue": 10.9}, [], []),  # the sum counts: 20.9 for 20
        ({"issue": 11.1}, ["issue 21.1, in the table 20"], []),
        ({"issue": 9.0}, [], ["issue 19, in the table 20"]),
        ({"loads": 6.0}, ["loads 11, in the table 10"], []),
        ({"bytes": 11.0}, ["bytes 20, in the table 18"], []),
    ],
)
def test_more_spills_or_5_percent_more_costs_are_worse(
    changes: dict[str, float], worse: list[str], better: list[str]
) -> None:
    actual = lab.compare(TABLE, {**TABLE, POOL: replace(ROW, **changes)})
    assert actual == (
        {f"v3d-7.1, m: {line}": [POOL] for line in worse},
        [f"v3d-7.1, m: {line}" for line in better],
    )


def test_a_model_that_is_not_in_the_table_is_an_error() -> None:
    assert list(lab.compare({}, TABLE)[0]) == ["v3d-7.1, m: not in the table"]


def test_the_page_shows_the_table() -> None:
    table = lab.read()
    assert lab.page(table) == lab.PAGE.read_text("utf-8"), "make docs"
