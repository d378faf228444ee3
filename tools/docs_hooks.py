"""What mkdocs changes in pages: options that stay whole, and one style of contents.

A page that documents a private name ends a strict build.
"""

from __future__ import annotations

import logging
import re
from typing import Any

log = logging.getLogger("mkdocs.hooks")  # whose warnings end a strict build

INLINE = re.compile(r"(?<!<pre>)(?<!</span>)<code>([^<]*)</code>")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
NO_DEFAULT = "<code>Sentinel.UNSET</code>"
"""What mkdocs-click shows for an option without a default."""
PRIVATE = re.compile(r'id="((?:gles_delegate|gles_apps)[\w.]*\._[a-z]\w*)"')


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """A page's HTML; its contents name commands without the program before them."""
    for name in PRIVATE.findall(html):
        log.warning("%s documents the private name %s", page.file.src_uri, name)
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
