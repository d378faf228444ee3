"""What the documentation names exists: commands, options, files, extras and models."""

import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from textwrap import dedent

import click
import pytest

from gles_delegate.cli.group import gles_delegate
from gles_delegate.cli.published import published
from tests.support.snippets import NOT_RUN, PAGES, PREPARED, ROOT, snippets

TEXTS = {
    str(path.relative_to(ROOT)): path.read_text("utf-8").replace("\\\n", " ")
    for path in (
        *(ROOT / page for page in PAGES),
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "examples" / "container").iterdir(),
    )
}


@pytest.mark.parametrize("page", TEXTS)
def test_commands_have_the_options_that_are_named(page: str) -> None:
    text = TEXTS[page].replace('", "', " ")  # the list of a Dockerfile's CMD
    for name, rest in re.findall(r"gles-delegate ([a-z]+)\b([^`\n|;]*)", text):
        command = gles_delegate.get_command(click.Context(gles_delegate), name)
        assert command is not None, f"gles-delegate {name}"
        with click.Context(command) as context:
            known = {option for each in command.get_params(context) for option in each.opts}
        assert {*re.findall(r"(?<=\s)--[a-z-]+", rest)} <= {*known, "--help"}, rest


def test_the_reference_has_every_command() -> None:
    """The page reads the group's own commands, and apps' commands one by one."""
    context = click.Context(gles_delegate)
    listed = re.findall(r"^    :command: (\w+)$", TEXTS["docs/cli.md"], re.MULTILINE)
    own = {*gles_delegate.commands} if "gles_delegate" in listed else set()
    assert {*gles_delegate.list_commands(context)} == {*own, *listed} - {"gles_delegate"}


@pytest.mark.parametrize("page", TEXTS)
def test_targets_of_make_are_there(page: str) -> None:
    named = re.findall(r"(?:^\$ |`)make ([a-z0-9-]+)", TEXTS[page], re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert [name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def commands(text: str) -> Iterator[str]:
    """The lines of blocks of `console` that are commands."""
    for block in re.findall(r"^ *```console\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
        yield from re.findall(r"^ *\$ (.*)", block, re.MULTILINE)


def options_of(script: Path) -> set[str]:
    """Strings that look like options, in a script and in the modules beside it that it imports."""
    text = script.read_text("utf-8")
    beside = (
        script.with_name(f"{name}.py") for name in re.findall(r"^(?:from|import) (\w+)", text, re.M)
    )
    imported = (options_of(module) for module in beside if module.exists())
    return {*re.findall(r"\"(--[a-z-]+)\"", text)}.union(*imported)


@pytest.mark.parametrize("page", TEXTS)
def test_files_are_there(page: str) -> None:
    folders = r"docs|examples|gles_apps|gles_delegate|glsl|tests|tools"
    named = re.findall(rf"(?<![\w./-])(?:{folders})/[\w/.-]*\w", TEXTS[page])
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", TEXTS)
def test_scripts_have_the_options_that_are_named(page: str) -> None:
    scripts = r"(?<![\w./-])(examples/\w+\.py|tools/[\w/-]*\w)\b([^`\n|;]*)"
    for name, rest in re.findall(scripts, TEXTS[page]):
        named = {*re.findall(r"(?<=\s)--[a-z-]+", rest)}
        if named and (ROOT / name).is_file():
            assert named <= options_of(ROOT / name), name


@pytest.mark.parametrize("page", TEXTS)
def test_extras_are_there(page: str) -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lists = re.findall(r"(?:\.|gles_delegate)\[([a-z,]+)\](?!\()", TEXTS[page])
    named = {name for extras in lists for name in extras.split(",")}
    assert named - {*setup["options.extras_require"]} == set()


@pytest.mark.parametrize("page", TEXTS)
def test_models_are_there(page: str) -> None:
    """Models of commands are the clone's, published ones, or `mine.tflite`, the reader's own."""
    known = {model.name for model in published()} | {"mine.tflite"}
    for command in commands(TEXTS[page]):
        for name in re.findall(r"[\w./-]+\.(?:task|tflite)\b", command):
            assert name in known or (ROOT / name).exists(), command
        if got := re.search(r"gles-delegate models get ([^#]*)", command):
            stems = {Path(name).stem for name in known}
            assert {*got[1].split()} <= known | stems, command


@pytest.mark.parametrize("page", PAGES)
def test_pages_with_commands_name_the_extra_that_has_them(page: str) -> None:
    """At most ten lines after the first command."""
    lines = TEXTS[page].split("\n")
    called = [i for i, line in enumerate(lines) if re.search(r"[`$] ?gles-delegate [a-z]", line)]
    near = "\n".join(lines[: called[0] + 10]) if called else "extra `cli`"
    assert re.search(r"\[[a-z,]*\bcli\b[a-z,]*\]|extras? (`\w+`,? and )?`cli`", near)


def test_what_is_prepared_or_left_out_is_there() -> None:
    actual = [snippet for page in PAGES for snippet in snippets(page)]
    for known in (PREPARED, NOT_RUN):
        for page, beginning in known:
            assert [s for s in actual if s.page == page and s.code.startswith(beginning)]
    assert len(NOT_RUN) < 6


@pytest.mark.parametrize("page", [p for p in PAGES if p.startswith("docs") and snippets(p)])
def test_the_first_program_fits_a_phone(page: str) -> None:
    """docs/assets/site.css gives 48 columns of code to a window of 390 pixels."""
    lines = [s for s in snippets(page)[0].code.splitlines() if "markdown-exec: hide" not in s]
    assert [line for line in lines if len(line) > 48] == []


@pytest.mark.parametrize("page", [p for p in PAGES if p.startswith("docs")])
def test_the_first_commands_fit_a_phone(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    block = re.search(r"^ *```console\n(.*?)^ *```$", text, re.M | re.S)
    called = re.findall(r"^\$ (?:.*\\\n)*.*", dedent(block[1] if block else ""), re.M)
    assert [line for text in called for line in text.split("\n") if len(line) > 48] == []


@pytest.mark.parametrize("page", PAGES)
def test_pages_that_install_a_clone_say_so(page: str) -> None:
    """At the latest in the line of the command."""
    before, found, _ = TEXTS[page].partition("pip install '.")
    assert not found or re.search(r"\bclone\b", before)
