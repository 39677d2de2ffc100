"""Forms of pages, sent without a browser."""

from __future__ import annotations

import html
import re

import httpx2


def hidden(page: httpx2.Response) -> dict[str, list[str]]:
    """The hidden fields of a page's form."""
    found: dict[str, list[str]] = {}
    pairs = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text)
    for name, value in pairs:
        found.setdefault(name, []).append(html.unescape(value))
    return found
