"""Text and pictures of the commands, for terminals and for files."""

import re
from pathlib import Path
from typing import Any

import click
import pytest
from rich.console import Console

from gles_delegate.bench.timing import Benchmark, Times
from gles_delegate.cli import benchmark, common
from gles_delegate.report import DispatchTime, MemoryReport, ProfileReport
from tests.support.command import call, saved
from tests.support.example import EXAMPLES
from tests.support.process import run_python
from tests.support.tflite_builder import ModelBuilder

BALL = EXAMPLES / "models" / "ball_segmenter.tflite"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output and error are terminals of 40 columns, with colors."""
    monkeypatch.setattr(Console, "is_terminal", True)
    for name in ("NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", "COLUMNS": "40"}.items():
        monkeypatch.setenv(name, value)


def test_lines_wrap_at_words(terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapped = call("inspect", BALL)
    lines = wrapped.splitlines()
    assert max(map(len, lines)) <= 40
    assert "description: finds the ball of the live\n  examples' synthetic camera\n" in wrapped
    monkeypatch.setattr(Console, "is_terminal", False)
    whole = call("inspect", BALL)
    assert max(map(len, whole.splitlines())) > 100
    assert wrapped.split() == whole.split()


def test_descriptions_of_commands_end() -> None:
    """In 80 columns, in a process of its own: Click gives commands in a test more room."""
    code = "import sys; sys.argv[1:] = ['--help']; from gles_delegate.cli import main; main()"
    ran = run_python(code, COLUMNS="80")
    commands = ran.stdout.partition("Commands:\n")[2].splitlines()
    assert len(commands) == len({line.split()[0] for line in commands}) > 9
    assert [line for line in commands if not line.endswith(".") or line.endswith("...")] == []


def test_a_profile_has_a_line_for_each_dispatch(
    terminal: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = "node  dispatch\n0     " + 9 * "t1 = view(t0) "
    common.print_report(table, cut=True)
    assert [len(line) for line in capsys.readouterr().out.splitlines()][1:] == [40]
    monkeypatch.setattr(Console, "is_terminal", False)
    common.print_report(table, cut=True)
    assert capsys.readouterr().out.rstrip() == table.rstrip()


@pytest.mark.parametrize(("passed", "color"), [(True, "\x1b[32m"), (False, "\x1b[1;31m")])
def test_colors_say_what_words_say(
    passed: bool,
    color: str,
    terminal: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def printed() -> str:
        text = common.verdict("the verdict", passed)
        common.print_text(text)
        common.print_table([{"a": text}])
        common.print_pairs([("a", text)])
        return capsys.readouterr().out

    assert printed().count(f"{color}the verdict\x1b[0m") == 3
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*3\d", printed())
    monkeypatch.setattr(Console, "is_terminal", False)
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b" not in printed()


def test_tables_have_no_blanks_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    common.print_table([{"a": 1, "b": "short"}, {"a": 2, "b": "a longer text"}])
    common.print_pairs([("a", "short"), ("b", "a longer text")])
    text = capsys.readouterr().out
    assert text == "a  b\n1  short\n2  a longer text\na  short\nb  a longer text\n"


def test_json_has_no_bar(terminal: None) -> None:
    @click.command()
    @common.json_option
    def command(as_json: bool) -> None:
        assert common.progress_bar().disable == as_json

    for arguments in ([], ["--json"]):
        command(arguments, standalone_mode=False)


PROFILE = ProfileReport(
    "llvmpipe (LLVM)",
    False,
    tuple(
        DispatchTime(node, op, "view", "", seconds, 0)
        for node, op, seconds in (
            (-1, "", 1e-3),
            (0, "CONV_2D", 2e-3),
            (3, "$ADD$", 3e-3),
            (-1, "", 4e-3),
        )
    ),
)


def test_bars_are_labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure
    drawn: list[Any] = []
    monkeypatch.setattr(figure, "savefig", lambda self, path, **options: drawn.append(self))
    benchmark._draw(tmp_path / "times.png", "a.tflite", PROFILE)
    (axes,) = drawn[0].axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["layout conversion", "0 CONV_2D", r"3 \$ADD\$"]
    assert axes.get_title() == "a.tflite: 10.00 ms in 4 dispatches, one by one"
    assert axes.get_xlabel() == "ms on llvmpipe (LLVM)"
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([5, 3, 2])


@pytest.mark.parametrize(
    ("peers", "sentence"),
    [
        ({}, ""),
        ({"litert": 2e-4}, ", 7.0 times as long as LiteRT's CPU kernels (0.2 ms)"),
        (
            {"litert": 1.4e-3, "litert-builtin": 0.14},
            ", 1.0 times as long as LiteRT's CPU kernels (1.4 ms), 100.0 times as fast as LiteRT's "
            "kernels without XNNPACK (140 ms)",
        ),
    ],
)
def test_a_benchmark_begins_with_a_sentence(peers: dict[str, float], sentence: str) -> None:
    times = {name: Times((seconds,)) for name, seconds in peers.items()}
    result = Benchmark(
        "llvmpipe (LLVM)", "", 0, 0, Times((1.4e-3,)), 0, times, MemoryReport(), 0, PROFILE
    )
    expected = f"ball takes 1.4 ms on llvmpipe{sentence}"
    assert benchmark._summary("ball", result) == expected


LEGEND = {
    "#c9e7cb": "runs on the GPU",
    "#ffcf9e": "on the CPU, and why",
    "#dde6f3": "input or output",
}


def test_drawings_explain_their_colors(tmp_path: Path) -> None:
    call("inspect", BALL, "--graph", tmp_path / "m.dot")
    lines = (tmp_path / "m.dot").read_text("utf-8").replace("<TD", "\n<TD").splitlines()
    for color, text in LEGEND.items():
        (line,) = (line for line in lines if text in line)
        assert re.search(color, line)


def test_a_long_graph_has_columns(tmp_path: Path) -> None:
    """A chain of 30 nodes, the last of which uses the result of node 5 as well."""
    b = ModelBuilder()
    tensors = [b.input((1, 4))]
    for _ in range(29):
        tensors.append(b.op("NEG", [tensors[-1]], [(1, 4)]))
    last = b.op("ADD", [tensors[-1], tensors[6]], [(1, 4)])
    model, file = saved(tmp_path / "m.tflite", b.build([last])), tmp_path / "m.dot"
    call("inspect", model, "--graph", file)
    text = file.read_text("utf-8")
    labels = dict(re.findall(r'^ +g0(\w+) \[label="(.*?)"', text, re.MULTILINE))
    assert labels["n10"] == r"10 NEG\n1 x 4"
    assert labels["n11"] == r"from 10\n11 NEG\n1 x 4"
    assert labels["n29"] == r"from 5\n29 ADD\n1 x 4"
    edges = re.findall(r"^ +g0(\w+) -> g0(\w+)$", text, re.MULTILINE)
    assert len(edges) == 29
    assert ("n10", "n11") not in edges
    sides = re.findall(r"rank=same g0(\w+) -> g0(\w+) \[style=invis\]", text)
    assert sides == [("i0", "n11"), ("n11", "n23")]


def test_what_begins_in_a_later_column_stays_there(tmp_path: Path) -> None:
    """Two branches begin in the second column."""
    b = ModelBuilder()
    x = b.input((1, 4))
    for _ in range(11):
        x = b.op("NEG", [x], [(1, 4)])
    outputs = [b.op("EXP", [b.op("NEG", [x], [(1, 4)])], [(1, 4)]) for _ in range(2)]
    model, file = saved(tmp_path / "m.tflite", b.build(outputs)), tmp_path / "m.dot"
    call("inspect", model, "--graph", file)
    text = file.read_text("utf-8")
    assert re.findall(r"^ +g0(\w+) -> g0(\w+) \[style=invis\]$", text, re.M) == [("n11", "n13")]
