"""What `setup.py` gives to a package index leads somewhere."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ADDRESS = "https://example.org/somebody/gles_delegate"
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)]+)\)")

pytestmark = pytest.mark.source


@pytest.fixture(scope="module")
def setup() -> dict[str, Any]:
    pytest.importorskip("setuptools")
    return runpy.run_path(str(ROOT / "setup.py"))


def test_links_are_absolute(setup: dict[str, Any]) -> None:
    text = setup["readme"](ADDRESS, "v1.2.3")
    links = LINK.findall(text)
    assert len(links) > 25
    assert [link for _, link in links if not link.startswith("https://")] == []
    assert all("/raw/v1.2.3/" in link for mark, link in links if mark)
    assert f"]({ADDRESS}/blob/v1.2.3/docs/first-hour.md)" in text
    assert f"]({ADDRESS}/blob/v1.2.3/README.md#examples)" in text
    assert f'"gles_delegate[apps,cli] @ git+{ADDRESS}"' in text
    assert setup["urls"](ADDRESS, "v1.2.3")["Source"] == ADDRESS


def test_without_an_address_no_link_is_broken(setup: dict[str, Any]) -> None:
    text = setup["readme"]("", "v1.2.3")
    assert [link for _, link in LINK.findall(text) if not link.startswith("https://")] == []
    assert "![" not in text
    assert "docs/porting.md covers programs" in text
    assert setup["urls"]("", "v1.2.3") == {}


def test_pip_installs_from_other_addresses(setup: dict[str, Any]) -> None:
    """README's first command sets the same variable."""
    for other in ("", "file://localhost/tmp/clone", "ssh://git@example.org/a", "git@example.org:a"):
        assert setup["web_address"](other) == ""
    assert setup["web_address"](f"{ADDRESS}/") == ADDRESS
