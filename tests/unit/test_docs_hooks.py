"""What mkdocs changes in pages after Markdown, without mkdocs."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.source

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(TOOLS)
    return import_module("docs_hooks")


def page(*titles: str) -> Any:
    items = [SimpleNamespace(title=title, children=[]) for title in titles]
    toc = [SimpleNamespace(title="gles-delegate", children=items)]
    return SimpleNamespace(toc=toc, file=SimpleNamespace(src_uri="api/batch.md"))


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (
            "<td><code>run MODEL --output-dir x</code></td>",
            '<td><code>run MODEL <span class="option">--output-dir</span> x</code></td>',
        ),
        (
            "<code>--mean</code>, <code>--std</code>",
            '<code><span class="option">--mean</span></code>, '
            '<code><span class="option">--std</span></code>',
        ),
        ("<p>a --b</p><code>a--b ---c -d</code>", None),
        ("<pre><code>run --top</code></pre>", None),
        ("<pre><span></span><code>run --top</code></pre>", None),
        ("<td><code>Sentinel.UNSET</code></td>", "<td></td>"),
    ],
)
def test_options_stay_whole(hooks: Any, html: str, expected: str | None) -> None:
    assert hooks.on_page_content(html, page()) == (html if expected is None else expected)


def test_contents_name_commands_in_one_way(hooks: Any) -> None:
    shown = page("benchmark", "gles-delegate run")
    hooks.on_page_content("", shown, config=None, files=None)
    (group,) = shown.toc
    assert group.title == "gles-delegate"
    assert [item.title for item in group.children] == ["benchmark", "run"]


@pytest.mark.parametrize(
    ("name", "is_private"),
    [
        ("gles_apps.ray.Predictor._rows", True),
        ("gles_delegate.Interpreter.__call__", False),
        ("gles_delegate.Interpreter.run", False),
        ("a._b", False),
    ],
)
def test_private_names_are_warned_of(
    hooks: Any, caplog: pytest.LogCaptureFixture, name: str, is_private: bool
) -> None:
    hooks.on_page_content(f'<h3 id="{name}">', page())
    assert [r.getMessage() for r in caplog.records] == [
        f"api/batch.md documents the private name {name}"
    ] * is_private
