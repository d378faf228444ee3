"""What a package index shows, which has no files beside the README. The rest is in setup.cfg.

With the environment variable REPOSITORY, the repository's address such as
https://example.org/OWNER/NAME, links and pictures lead there, to the version's tag, and the
metadata has the project's addresses. Without it, the text has no relative links, which would lead
nowhere.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")


def web_address(repository: str) -> str:
    """The address if it is one of the web; "" for others, from which pip may install, too."""
    return repository.rstrip("/") if repository.startswith("https://") else ""


def readme(address: str, tag: str) -> str:
    """README.md without relative links; `address` is the repository's, or ""."""

    def shown(match: re.Match[str]) -> str:
        picture, text, path = match.groups()
        if not address:
            return "" if picture else text
        path = f"README.md{path}" if path.startswith("#") else path
        return f"{picture}[{text}]({address}/{'raw' if picture else 'blob'}/{tag}/{path})"

    text = LINK.sub(shown, (ROOT / "README.md").read_text("utf-8"))
    return text.replace("$REPOSITORY", address) if address else text


def urls(address: str, tag: str) -> dict[str, str]:
    """The project's addresses by their names; {} without the repository's."""
    if not address:
        return {}
    return {
        "Source": address,
        "Documentation": f"{address}/tree/{tag}/docs",
        "Changelog": f"{address}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }


if __name__ == "__main__":
    address = web_address(os.environ.get("REPOSITORY", ""))
    source = (ROOT / "gles_delegate" / "version.py").read_text("utf-8")
    (version,) = re.findall('^__version__ = "(.+)"', source, re.M)
    setup(
        long_description=readme(address, f"v{version}"),
        long_description_content_type="text/markdown",
        project_urls=urls(address, f"v{version}"),
    )
