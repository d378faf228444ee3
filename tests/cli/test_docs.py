"""Commands that the documentation names exist, with their options."""

import re

import click
import pytest

from gles_delegate.cli.group import gles_delegate
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


@pytest.mark.parametrize("page", TEXTS)
def test_examples_are_there(page: str) -> None:
    named = re.findall(r"examples/[\w/]+\.(?:py|tflite|glsl)", TEXTS[page])
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_what_is_prepared_or_left_out_is_there() -> None:
    actual = [snippet for page in PAGES for snippet in snippets(page)]
    for known in (PREPARED, NOT_RUN):
        for page, beginning in known:
            assert [s for s in actual if s.page == page and s.code.startswith(beginning)]
    assert len(NOT_RUN) < 6
