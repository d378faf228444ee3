"""The commands of pages, which tools/test-systems runs.

A command is a line that begins with "$ " in a block of the language `console`; it continues after a
backslash. A block with a title, as ```python title="first.py" has, is saved under that name. A
comment directly above a block leaves it out: <!-- not run: needs a camera -->
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

BLOCK = re.compile(
    r'^( *<!-- not run: [^\n]+ -->\n)?( *)```(\w+)(?: title="([\w.-]+)")?\n(.*?)^\2```$',
    re.M | re.S,
)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)", re.M)
# As root, where `sudo` is optional; apt asks no questions, and the shell prints what it runs.
START = """set -exo pipefail
sudo() { "$@"; }
export DEBIAN_FRONTEND=noninteractive
export REPOSITORY="file://localhost$PWD"
echo 'APT::Get::Assume-Yes "true";' > /etc/apt/apt.conf.d/assume-yes
"""


def commands(page: Path) -> Iterator[str]:
    """The commands of a page that are run, in order, and others that save its programs."""
    for left_out, indent, language, title, text in BLOCK.findall(page.read_text("utf-8")):
        content = re.sub(f"^{indent}", "", text, flags=re.M)
        if title:
            yield f"printf %s {shlex.quote(content)} > {title}"
        if language == "console" and not left_out:
            yield from COMMAND.findall(content)


def page_script(pages: Iterable[Path]) -> str:
    """A shell command that runs the commands of pages one after the other until one fails.

    It runs in a clone, or in an empty folder if the pages make one.
    """
    lines = [command for page in pages for command in commands(page)]
    if any(line.startswith("git clone") for line in lines):
        lines.insert(0, 'cd "$(mktemp -d)"')
    return f"bash -c {shlex.quote(START + chr(10).join(lines))} < /dev/null"
