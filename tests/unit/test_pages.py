"""Commands of pages, as tools/pages.py finds them for tools/test-systems."""

import re
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOT_RUN = {"docs/gallery.md": "published models", "docs/porting.md": "published models"}
"""Pages with commands that tools/test-systems does not run, with the reason."""

PAGE = """# A

```python title="app.py"
print('1')
```

<!-- not run: needs a camera -->
```console
$ false
```

  ```console
  $ python3 app.py
  1
  $ sudo echo \\
      2
  ```

```console
$ false | cat
$ echo 3
```
"""


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "tools")
    return import_module("pages")


@pytest.mark.source
def test_every_page_with_commands_is_run_or_says_why(pages: Any) -> None:
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    names = {str(file.relative_to(ROOT)) for file in files if [*pages.commands(file)]}
    source = (ROOT / "tools" / "test-systems").read_text("utf-8")
    assert {name for name in names if f'"{name}"' not in source} == NOT_RUN.keys()


def test_comments_are_understood(pages: Any) -> None:
    for file in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")):
        text = file.read_text("utf-8")
        left_out = [block for block in pages.BLOCK.findall(text) if block[0]]
        assert len(re.findall(r"<!--\s*not run", text, re.IGNORECASE)) == len(left_out), file


def ended(pages: Any, page: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The script of a page, run in a folder."""
    script = pages.page_script([page]).replace("/etc/apt/apt.conf.d", str(page.parent))
    return subprocess.run(
        ["sh", "-c", script], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_one_shell_until_a_command_fails(pages: Any, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(PAGE)
    run = ended(pages, tmp_path / "page.md", tmp_path)
    assert (run.returncode, run.stdout) == (1, "1\n2\n")


def test_pages_that_clone_begin_in_an_empty_folder(pages: Any, tmp_path: Path) -> None:
    for command in ("git clone --quiet $REPOSITORY here", "ls"):
        (tmp_path / "page.md").write_text(f"```console\n$ {command}\n$ ls\n```\n")
        run = ended(pages, tmp_path / "page.md", ROOT)
        assert run.returncode == 0
        assert ("README.md" in run.stdout) == (command == "ls")
        assert ("here" in run.stdout) == (command != "ls")
