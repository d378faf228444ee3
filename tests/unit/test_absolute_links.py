"""`tools/absolute-links` prepares a copy of the README and the settings for publication."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADDRESS = "https://example.org/somebody/gles_delegate"


def prepare(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "absolute-links"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_links_are_absolute(tmp_path: Path) -> None:
    for name in ("README.md", "setup.cfg", "CONTRIBUTING.md", "ARCHITECTURE.md"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("docs", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    assert prepare(tmp_path, ADDRESS, "v1.2.3").returncode == 0
    text = (tmp_path / "README.md").read_text("utf-8")
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", text)
    assert [link for _, link in links if not link.startswith(("https://", "#"))] == []
    assert all("/raw/v1.2.3/" in link for mark, link in links if mark)
    assert f"{ADDRESS}/blob/v1.2.3/docs/first-hour.md" in text
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(tmp_path / "setup.cfg")
    assert f"Source = {ADDRESS}\n" in settings["metadata"]["project_urls"] + "\n"


def test_a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("[a](docs/none.md)")
    result = prepare(tmp_path, ADDRESS, "v1")
    assert result.stderr.strip() == "README.md links to docs/none.md, which does not exist"
    assert prepare(tmp_path, "example.org", "v1").returncode == 1
