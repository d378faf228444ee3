"""What mkdocs changes in pages: options that stay whole, and one style of contents."""

from __future__ import annotations

import re
from typing import Any

INLINE = re.compile(r"(?<!<pre>)(?<!</span>)<code>([^<]*)</code>")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
NO_DEFAULT = "<code>Sentinel.UNSET</code>"
"""What mkdocs-click shows for an option without a default."""


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """A page's HTML; its contents name commands without the program before them."""
    shorten(page.toc)
    return INLINE.sub(keep_options, html.replace(NO_DEFAULT, ""))


def keep_options(match: re.Match[str]) -> str:
    """Inline code whose options do not break at their hyphens."""
    return OPTION.sub(r'<span class="option">\g<0></span>', match[0])


def shorten(items: Any) -> None:
    """Headings of subcommands in the contents, at each level."""
    for item in items:
        item.title = re.sub("^gles-delegate (?=[a-z])", "", item.title)
        shorten(item.children)
