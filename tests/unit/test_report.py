"""Reports print well, and are JSON for other tools."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gles_delegate import DelegationReport, DispatchTime, MemoryReport, ProfileReport
from gles_delegate.report import NodeReport

CONV = DispatchTime(12, "CONV_2D", "conv_2d", "t1 = conv_2d(t0)", 2e-3, 6_000_000, "12 CONV_2D y")
LEAVE = DispatchTime(-1, "", "view", "t1.outside = view(t1)", 1e-3, 0, "view y")
PROFILE = ProfileReport("some GPU", True, (CONV, LEAVE))


def test_a_profile_is_a_table() -> None:
    assert list(PROFILE) == [CONV, LEAVE]
    assert len(PROFILE) == 2
    assert PROFILE.seconds == pytest.approx(3e-3)
    header, conv, leave, summary = str(PROFILE).splitlines()
    assert header.split() == ["node", "op", "ms", "%", "GFLOP/s", "dispatch"]
    assert conv.split()[:5] == ["12", "CONV_2D", "2.000", "66.7%", "3.0"]
    assert leave.split()[:2] == ["1.000", "33.3%"]
    assert summary == "2 dispatches, 3.000 ms one by one, by the GPU's timer"


def test_a_profile_without_a_timer_says_what_it_counts() -> None:
    text = str(replace(PROFILE, by_gpu_timer=False))
    assert text.endswith("by the CPU's clock, with waiting")


def test_a_profile_of_nothing() -> None:
    nothing = ProfileReport("some GPU", True, ())
    assert str(nothing).endswith("0 dispatches, 0.000 ms one by one, by the GPU's timer")


def test_a_profile_is_json() -> None:
    data = json.loads(PROFILE.to_json())
    assert (data["device"], data["by_gpu_timer"]) == ("some GPU", True)
    assert [d["gflops"] for d in data["dispatches"]] == [pytest.approx(3), 0]
    assert data["dispatches"][0]["name"] == CONV.name


def test_memory_is_a_table_and_json() -> None:
    report = MemoryReport(arena=1_234_567, programs=3, bound={5: "the texture 7"})
    assert str(report).splitlines()[1] == "arena          1,234,567"
    assert str(report).splitlines()[-2:] == [
        "total          1,234,570",
        "tensor 5 is bound to the texture 7",
    ]
    data = json.loads(report.to_json())
    assert (data["arena"], data["total"]) == (1_234_567, 1_234_570)
    assert data["bound"] == {"5": "the texture 7"}
    assert (report + report).total == 2 * report.total


def test_reports_are_html_for_notebooks() -> None:
    nodes = (NodeReport(0, "ADD", 1, True), NodeReport(1, "x<y", 2, False, "a & b"))
    html = DelegationReport(nodes, segments=1)._repr_html_()
    assert len(repr(DelegationReport(100 * nodes, segments=1))) < 80
    assert "<td" in html
    assert "x&lt;y" in html
    assert "a &amp; b" in html
    assert "1 of 2 nodes run on the GPU in 1 segment, stored as float32" in html
    lines = [line.split()[:4] for line in str(DelegationReport(nodes, segments=1)).splitlines()]
    assert lines[-3:-1] == [["0", "ADD", "1", "GPU"], ["1", "x<y", "2", "CPU"]]
    profile = ProfileReport("a GPU", True, (DispatchTime(0, "ADD", "add", "add x", 1e-3, 0),))
    assert ">1,234<" in MemoryReport(arena=1234)._repr_html_()
    assert "#8cf8 100.0%" in profile._repr_html_()
    assert "1 dispatches" in profile._repr_html_()


def test_the_causes_of_nodes_on_the_cpu() -> None:
    """By their reasons but for the numbers, the most frequent first; of no node on the GPU."""
    reasons = ("rank 5", "", "a type", "rank 7")
    nodes = tuple(NodeReport(i, "ADD", 1, not why, why) for i, why in enumerate(reasons))
    report = DelegationReport(nodes, segments=1)
    assert report.causes == (("rank 5", (nodes[0], nodes[3])), ("a type", (nodes[2],)))
    assert report.on_the_cpu.nodes == (nodes[0], nodes[2], nodes[3])
