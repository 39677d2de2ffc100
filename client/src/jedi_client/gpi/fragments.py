"""Parts of the service's pages in notebooks: styled without a host, with links that lead to the
service, and without forms and scripts.

Source: docs/reference/ganga.md#notebooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from html.parser import HTMLParser
from urllib.parse import urljoin

MOST = 2**20
"""Bytes of a part that a notebook shows; a larger one is left out."""

_LEFT_OUT = frozenset(
    {
        "form",
        "button",
        "script",
        "style",
        "template",
        "dialog",
        "iframe",
        "object",
        "select",
        "textarea",
    }
)
_VOID = frozenset(
    {
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "source",
        "track",
        "wbr",
    }
)
_DROPPED = frozenset({"base", "embed", "img", "input", "link", "meta", "source"})
_ACTING = frozenset({"style", "src", "srcset", "action", "formaction", "download", "hidden"})
_CASED = {
    "viewbox": "viewBox",
    "preserveaspectratio": "preserveAspectRatio",
    "patternunits": "patternUnits",
    "patterntransform": "patternTransform",
}
STYLE = """<style>
.jedi-page { color: inherit; }
.jedi-page h1 { font-size: 1.2em; } .jedi-page h2 { font-size: 1.05em; }
.jedi-page th, .jedi-page td { text-align: left; vertical-align: top; }
.jedi-page .number, .jedi-page .bytes, .jedi-page .seconds { text-align: right; }
.jedi-page .why, .jedi-page .notice { border-left: 4px solid #56b4e9; padding-left: 8px; }
.jedi-page .none, .jedi-page .empty { opacity: .65; } .jedi-page .export { display: none; }
.jedi-page .status { font-weight: 600; white-space: nowrap; }
.jedi-page ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 4px 12px; }
.jedi-page svg { max-width: 100%; } .jedi-page svg text { font-size: 12px; fill: currentColor; }
.jedi-page .f-good { fill: #009e73; } .jedi-page .f-busy { fill: #56b4e9; }
.jedi-page .f-bad { fill: #d55e00; } .jedi-page .f-slow { fill: #e69f00; }
.jedi-page .f-idle { fill: #a9b0b8; }
</style>"""


def fitted(html: str, host: str) -> str:
    """A part of a page for a notebook; `host`: the address of the service (empty: a socket, to
    which no link leads)."""
    fitting = _Fitting(host)
    fitting.feed(html)
    fitting.close()
    return f"{STYLE}<div class='jedi-page'>{''.join(fitting.parts)}</div>"


def _leads_on(tag: str, kinds: str | None) -> bool:
    """The element is of use by its links alone."""
    return tag == "nav" or (tag == "p" and "actions" in (kinds or "").split())


class _Fitting(HTMLParser):
    """Copies a part of a page, without parts that a notebook can't use."""

    def __init__(self, host: str) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._host = host if host.startswith(("http://", "https://")) else ""
        self._without: list[str] = []  # open elements that are left out

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if tag in _LEFT_OUT or (not self._host and _leads_on(tag, dict(attrs).get("class"))):
            self._without.append(tag)
        if not self._without and tag not in _DROPPED:
            self.parts.append(f"<{tag}{''.join(self._attribute(*one) for one in attrs)}>")

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if tag in _LEFT_OUT or self._without or tag in _DROPPED:
            return
        end = ">" if tag in _VOID else f"></{tag}>"
        self.parts.append(f"<{tag}{''.join(self._attribute(*one) for one in attrs)}{end}")

    def handle_endtag(self, tag: str) -> None:
        if self._without:
            if tag == self._without[-1]:
                self._without.pop()
        elif tag not in _VOID and tag not in _DROPPED:
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._without:
            self.parts.append(escape(data, quote=False))

    def _attribute(self, name: str, value: str | None) -> str:
        """An attribute as written; an address leads to the service, and acts are left out."""
        if name.startswith("on") or name in _ACTING:
            return ""
        if name == "href" and not (value or "").startswith("#"):
            target = urljoin(self._host, value or "") if self._host else ""
            if not target.startswith(("http://", "https://")):
                return ""
            return f' href="{escape(target)}" target="_blank" rel="noopener"'
        found = _CASED.get(name, name)
        return f" {found}" if value is None else f' {found}="{escape(value)}"'
