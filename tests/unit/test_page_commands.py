"""Commands of pages, as tools/page-commands finds them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md")))
]
PROGRAMS = {
    *(".", "apitrace", "apt-get", "curl", "export", "gles-delegate", "make", "pip", "pytest"),
    *("python", "python3", "sudo", "xvfb-run"),
    *("~/gpu/bin/gles-delegate", "~/gpu/bin/pip", ".venv/bin/python"),
}
"""Programs that pages may run."""


def tool(name: str) -> Any:
    """A program of tools/, as a module."""
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / "tools" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module  # for dataclasses
    loader.exec_module(module)
    return module


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """tools/page-commands, whose pages are in a folder without any."""
    module = tool("page-commands")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_known(page: str) -> None:
    for block in tool("page-commands").blocks(page):
        for line, command in block.commands():
            program, *words = shlex.split(command, comments=True)
            place = f"{page}, line {line}"
            assert program in PROGRAMS or (ROOT / program).exists(), place
            if program in ("python", ".venv/bin/python") and words[0] != "-m":
                titles = {each.title for each in tool("page-commands").blocks(page)}
                assert words[0] in titles or (ROOT / words[0]).exists(), place


@pytest.mark.parametrize("page", PAGES)
def test_comments_are_understood(page: str) -> None:
    """A comment with a typing error, without a reason or in another place would do nothing."""
    module = tool("page-commands")
    text = (ROOT / page).read_text("utf-8")
    reasons = [block.not_run for block in module.blocks(page) if block.not_run is not None]
    after = module.AFTER.findall(text)
    assert len(re.findall(r"<!--\s*(?:not )?run\b", text, re.IGNORECASE)) == len(reasons) + len(
        after
    )
    assert all(len(reason) > 10 for reason in reasons)
    for other, section in after:
        assert any(block.section == section for block in module.blocks(other))


def test_every_page_with_commands_is_run_or_says_why() -> None:
    """Pages that tools/test-systems does not run, with the reason."""
    others = {
        "CONTRIBUTING.md": "tools/test-systems has steps for make demo and make test",
        "docs/gallery.md": "published models",
        "docs/gpus.md": "a lab, which takes an hour to build",
        "docs/porting.md": "published models",
    }
    module = tool("page-commands")
    with_commands = {
        page for page in PAGES if any([*block.commands()] for block in module.blocks(page))
    }
    source = (ROOT / "tools" / "test-systems").read_text("utf-8")
    run = {page for page in with_commands if f'"{page}"' in source}
    assert with_commands - run == others.keys()


def test_blocks(commands: Any, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(
        "# A\n\n## B\n\n"
        "```console\n$ one\nits output\n$ two \\\n    more\n```\n\n"
        "<!-- not run: needs a camera -->\n```console\n$ three\n```\n\n"
        '- ```python title="app.py"\n  not here\n  ```\n\n'
        '  ```python title="app.py"\n  if x:\n      pass\n  ```\n'
    )
    first, second, third = (b for b in commands.blocks("page.md") if b.section == "B")
    assert [*first.commands()] == [(6, "one"), (8, "two \\\n    more")]
    assert (first.not_run, second.not_run) == (None, "needs a camera")
    assert (third.title, third.lines) == ("app.py", ("if x:", "    pass"))


def test_the_set_up_comes_first(commands: Any, tmp_path: Path) -> None:
    other = "## Install\n\n```console\n$ one\n```\n\n## Use\n\n```console\n$ two\n```\n"
    (tmp_path / "other.md").write_text(other)
    page = "<!-- run after: other.md, Install -->\n```console\n$ three\n```\n"
    (tmp_path / "page.md").write_text(page)
    run, _ = commands.chosen("page.md", None)
    assert [command for block in run for _, command in block.commands()] == ["one", "three"]


def test_blocks_without_their_files_are_left_out(commands: Any, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("```console\n$ show cat.jpg\n$ two\n```\n")
    run, left_out = commands.chosen("page.md", tmp_path / "models")
    assert run == []
    assert left_out[0].startswith("page.md, line 2: show cat.jpg: needs cat.jpg; GLES_DEL")
    assert len(left_out) == 2
    (tmp_path / "models").mkdir()
    (tmp_path / "images").mkdir()
    (tmp_path / "images/cat_720p.jpg").touch()
    run, left_out = commands.chosen("page.md", tmp_path / "models")
    assert (len(run), left_out) == (1, [])


@pytest.mark.parametrize(
    ("text", "status", "output"),
    [
        ("$ x=1  # one\n$ echo $x\n", 0, "\n$ x=1  # one\n\n$ echo $x\n1\n"),
        ("$ sudo echo \\\n    1\n", 0, "\n$ sudo echo \\\n    1\n1\n"),
        ("$ false | cat\n$ echo 1\n", 1, "\n$ false | cat\n"),
        ("$ cat app.py\n", 0, "\n$ cat app.py\nprint('1')\n"),
    ],
)
def test_one_shell_until_a_command_fails(
    text: str, status: int, output: str, commands: Any, tmp_path: Path
) -> None:
    program = "```python title=\"app.py\"\nprint('1')\n```\n\n"
    (tmp_path / "page.md").write_text(f"{program}```console\n{text}```\n")
    script = "PATH=/bin:/usr/bin\n" + commands.script(commands.blocks("page.md"))
    script = script.replace("command -v sudo", "command -v no-sudo")
    run = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (status, output)
    place = "FAILED with status 1: page.md, line 6: false | cat"
    assert (place in run.stderr) == bool(status)


def test_each_page_has_a_new_clone_and_passes_its_venv_on(
    commands: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def page(*lines: str) -> str:
        text = "\n".join(f"$ {line}" for line in lines)
        return f"<!-- run after: a.md, Install -->\n```console\n{text}\n```\n"

    install = "## Install\n```console\n$ mkdir -p .venv && echo >> .venv/runs\n```\n"
    (tmp_path / "a.md").write_text(install)
    (tmp_path / "b.md").write_text(page("touch left"))
    (tmp_path / "c.md").write_text(page("[ ! -e left ]", "[ $(wc -l < .venv/runs) = 2 ]", "false"))
    (tmp_path / "d.md").write_text(page("true"))
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in ("init", "add .", "commit --message=a"):
        subprocess.run([*git, *command.split()], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setattr(sys, "argv", ["page-commands", "b.md", "c.md", "d.md"])
    assert commands.main() == 1
    out, err = capfd.readouterr()
    assert err == "page-commands: FAILED with status 1: c.md, line 5: false\n"
    ends = [re.sub(r"\d+\.\d min", "0.0 min", line) for line in out.splitlines()[-2:]]
    assert ends == ["b.md: 2 commands, 0.0 min", "c.md: 4 commands, 0.0 min (failed)"]
