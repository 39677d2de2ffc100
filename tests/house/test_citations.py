"""Citations lead somewhere: pages and anchors in code and docs, links, sections of the sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "docs/reference/sources.md"
CODE = (
    "jedi",
    "client",
    "panda",
    "tools",
    "tests",
    "migrations",
    "benchmarks",
    "examples",
    "config",
    "schema",
)
TYPES = {".py", ".md", ".yaml", ".yml", ".toml", ".csv", ".sql", ".awk", ".sh", ".html"}
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *ROOT.glob("client/**/*.md"),
        *ROOT.glob("panda/**/*.md"),
    }
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGE = re.compile(r"(?<![\w/.*{}-])((?:[\w-]+/)*[\w-]+\.md)(?:#([\w-]+))?")
QUOTE = r"""(?:"([^"]+)"|'([^']+)')"""
DOCUMENT = re.compile(rf"JEDI document,(?: sections?)? ((?:{QUOTE}(?:, | and |, and )?)+)")
GONE = re.compile(
    r"§|[Ss]ources?: seed|\b[Ss]eed(?:'s)?,? (?:section )?\"[A-Z]|\bSeed: \"|"
    r"\b[Tt]he seed(?:'s| says| asks)|of the seed\b|"
    r"\bIssue(?:,|: \")|\b[Ii]ssue [0-9#]"
)
"""Citations that lead nowhere: a seed is a random seed, a section has an anchor."""
UNKNOWN = re.compile(r"\bSources?: (?!docs/reference/|JEDI document)")
"""In code: a source that is neither a page nor the document behind it."""
OWN = Path(__file__)


@cache
def text(path: Path) -> str:
    return path.read_text()


@cache
def files() -> list[Path]:
    """All text of the project but for this file, whose examples are wrong on purpose."""
    found = chain(PAGES, *((ROOT / room).rglob("*") for room in CODE), [ROOT / "Makefile"])
    return sorted(
        {
            p
            for p in found
            if p != OWN
            and (p.suffix in TYPES or p.name == "Makefile")
            and "site-packages" not in p.parts
            and ".venv" not in p.parts
        }
    )


def where(path: Path) -> str:
    return str(path.relative_to(ROOT))


def plain(path: Path) -> str:
    """The text in one line: a citation may be broken between two lines of a comment."""
    return re.sub(r"\s*\n\s*(?:#|--|\*)?\s*", " ", text(path))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The ids of a page that are the same on the documentation site and in a browser of code."""
    prose = re.sub(r"(?ms)^ *```.*?^ *```", "", text(page))
    found = set(re.findall(r'\bid="([\w-]+)"', prose))
    for title in re.findall(r"(?m)^#{1,6} +(.+?) *$", prose):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        words = re.sub(r"[^\w\s-]", "", words).strip()
        if words.replace(" ", "-") == re.sub(r"[-\s]+", "-", words):
            found.add(words.replace(" ", "-"))
    return frozenset(found)


@cache
def sections() -> frozenset[str]:
    """The titles of sections of the JEDI document."""
    listed = text(SOURCES).split("<!-- sections -->")[1].split("<!-- end -->")[0]
    return frozenset(re.findall(r'"([^"]+)"', " ".join(listed.split())))


def mistakes_of_citations(said: str) -> Iterator[str]:
    """Pages and anchors in a text of the code that do not exist, sections nobody has."""
    for page, anchor in PAGE.findall(said):
        path = ROOT / page
        if not path.is_file():
            path = ROOT / "docs" / page
        if not path.is_file() or (anchor and anchor not in anchors(path)):
            yield f"{page}#{anchor}" if anchor else page
    yield from (title for title in titles(said) if title not in sections())
    yield from (found[0] for wrong in (GONE, UNKNOWN) for found in wrong.finditer(said))


def titles(said: str) -> Iterator[str]:
    """The titles of the JEDI document that a text cites."""
    for listed in DOCUMENT.finditer(said):
        yield from (a or b for a, b in re.findall(QUOTE, listed[1]))


def mistakes_of_links(page: Path) -> Iterator[str]:
    """Relative links of a page that lead nowhere."""
    prose = re.sub(r"(?ms)^ *```.*?^ *```", "", text(page))
    for target in LINK.findall(prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            yield target


def test_every_citation_in_the_code_leads_somewhere() -> None:
    wrong = [
        (where(path), one)
        for path in files()
        if path.suffix != ".md"
        for one in mistakes_of_citations(plain(path))
    ]
    assert wrong == []


def test_every_link_in_the_docs_leads_somewhere() -> None:
    wrong = [(where(page), one) for page in PAGES for one in mistakes_of_links(page)]
    assert wrong == []


def test_every_section_that_the_docs_cite_exists() -> None:
    wrong = [
        (where(page), one)
        for page in PAGES
        for one in (*titles(plain(page)), *(found[0] for found in GONE.finditer(plain(page))))
        if one not in sections()
    ]
    assert wrong == []


def test_every_rule_names_its_source() -> None:
    """Each section of docs/reference/ has a source or is a ruling."""
    wrong = []
    for page in sorted(ROOT.glob("docs/reference/*.md")):
        for part in re.split(r"(?m)^## ", text(page))[1:]:
            if page != SOURCES and not re.search(r"\bSource:|^Ruling|\A(Units|Rulings)\b", part):
                wrong.append((where(page), part.partition("\n")[0]))
    assert wrong == []


def test_every_page_is_in_the_contents_of_the_site() -> None:
    listed = set(re.findall(r"(?m): ([\w/-]+\.md)$|- ([\w/-]+\.md)$", text(ROOT / "mkdocs.yml")))
    named = {a or b for a, b in listed}
    pages = {
        str(p.relative_to(ROOT / "docs"))
        for p in ROOT.glob("docs/**/*.md")
        if p.parent.name not in {"decisions", "assets"}
    }
    assert pages - named == set()


@pytest.mark.parametrize(
    ("said", "mistake"),
    [
        ("Source: docs/reference/scouts.md#cputime.", None),
        ("Source: docs/reference/scouts.md#nothing.", "docs/reference/scouts.md#nothing"),
        ("see elsewhere.md", "elsewhere.md"),
        ('JEDI document, "Shares" and "Fairshare": "…"', None),
        ("JEDI document, section 'Job throttling'", None),
        ('JEDI document, "Shares" and "Tea"', "Tea"),
        ("as in chapter § 3", "§"),
        ('Source: seed, "Shares"', "Source: seed"),
        ("Source: somebody's book", "Source: "),
        ("the same seed draws the same sites", None),
    ],
)
def test_the_check_itself_finds_mistakes(said: str, mistake: str | None) -> None:
    assert list(mistakes_of_citations(said))[:1] == ([mistake] if mistake else [])
