"""examples/notebook.ipynb is made of examples/notebook.md, whose cells test_snippets.py runs."""

import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.snippets import snippets

pytestmark = pytest.mark.source

ROOT = Path(__file__).parents[2]
SOURCE, NOTEBOOK = (ROOT / "examples" / f"notebook.{suffix}" for suffix in ("md", "ipynb"))
OF_ALL = {"cell_type", "id", "metadata", "source"}
KEYS = {"markdown": OF_ALL, "code": {*OF_ALL, "execution_count", "outputs"}}
"""What the schema of nbformat 4.5 requires of a cell; it allows attachments besides."""


@pytest.fixture(scope="module")
def tool() -> Any:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "notebook")))


@pytest.fixture
def cells() -> list[dict[str, Any]]:
    return json.loads(NOTEBOOK.read_text("utf-8"))["cells"]


def code(cells: list[dict[str, Any]]) -> list[str]:
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_it_is_made_of_the_page(tool: Any) -> None:
    made = tool.notebook(SOURCE.read_text("utf-8"))
    assert NOTEBOOK.read_text("utf-8") == made, "run tools/notebook"


def test_its_format(cells: list[dict[str, Any]]) -> None:
    content = json.loads(NOTEBOOK.read_text("utf-8"))
    assert {*content} == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    assert {"name", "display_name"} <= {*content["metadata"]["kernelspec"]}
    assert "name" in content["metadata"]["language_info"]
    names = [cell["id"] for cell in cells]
    assert len({*names}) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
    assert all({*cell} == KEYS[cell["cell_type"]] for cell in cells)
    assert all(isinstance(line, str) for cell in cells for line in cell["source"])
    assert all(
        (cell["execution_count"], cell["outputs"]) == (None, [])
        for cell in cells
        if cell["cell_type"] == "code"
    )


def test_every_cell_runs_in_the_tests_or_is_a_shell_command(cells: list[dict[str, Any]]) -> None:
    run = [snippet.code for snippet in snippets("examples/notebook.md")]
    others = [text for text in code(cells) if text not in run]
    assert [text for text in code(cells) if text in run] == run
    for line in "\n".join(others).splitlines():
        assert line.startswith(("!", "%", "REPOSITORY = ")), line


def test_the_address_is_written_once(tool: Any) -> None:
    address = "https://example.org/gles_delegate"
    made = tool.notebook(SOURCE.read_text("utf-8"), address)
    (cell,) = (text for text in code(json.loads(made)["cells"]) if address in text)
    assert cell.startswith(f'REPOSITORY = "{address}"  #')
    assert made.count(address) == 1
    assert '"{REPOSITORY}"' in cell
