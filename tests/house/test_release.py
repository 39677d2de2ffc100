"""A release has one number, and newcomers find their way: CONTRIBUTING names texts that exist."""

from __future__ import annotations

import re
from importlib.metadata import distribution
from pathlib import Path

import jedi_client
import jedi_panda
import yaml
from packaging.specifiers import SpecifierSet

from jedi import __version__

ROOT = Path(__file__).parents[2]
HEADING = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", re.MULTILINE)
SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
"""The sections that Keep a Changelog 1.1 knows."""


def test_citation_and_changelog_name_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = HEADING.search((ROOT / "CHANGELOG.md").read_text())
    assert newest
    assert citation["version"] == __version__ == newest[1]
    assert citation["date-released"] == newest[2]


def test_the_version_is_written_once() -> None:
    """Beside it the client's, which the server needs, is the same."""
    text = (ROOT / "pyproject.toml").read_text()
    assert f'"{__version__}"' not in text
    assert f'"jedi-client=={__version__}"' in text and jedi_client.__version__ == __version__
    assert __version__ not in (ROOT / "client" / "pyproject.toml").read_text()
    wire = (ROOT / "panda" / "pyproject.toml").read_text()
    assert f'"jedi-server=={__version__}"' in wire and jedi_panda.__version__ == __version__


def test_the_versions_of_the_tests_suit_the_oldest_python() -> None:
    """Debian 12 has Python 3.11.2, and pip refuses a version that wants a later one."""
    pins = re.findall("^([^#=]+)==", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)
    assert len(pins) > 50
    wanted = {pin: distribution(pin).metadata.get_all("Requires-Python") or [] for pin in pins}
    found = {pin: SpecifierSet(",".join(some)) for pin, some in wanted.items()}
    assert {pin: some for pin, some in found.items() if not some.contains("3.11.0")} == {}


def test_the_changelog_keeps_its_form() -> None:
    """Each release once, unreleased changes first; bullets stand below a section, each section once
    a release. A merge by union may break this."""
    text = (ROOT / "CHANGELOG.md").read_text()
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    titles = [part.splitlines()[0] for part in parts]
    assert titles[0] == "[Unreleased]" and len(set(titles)) == len(titles)
    for part in parts:
        head, *sections = re.split(r"^### ", part, flags=re.MULTILINE)
        names = [section.splitlines()[0] for section in sections]
        assert set(names) <= SECTIONS and len(set(names)) == len(names)
        assert "\n* " not in head and "\n- " not in head


def test_the_map_for_newcomers_names_texts_that_exist() -> None:
    """CONTRIBUTING, "Where to change what": each file has the text to search for, once."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text.partition("## Where to change what")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| [^|]+ \| \[[^|]+\]\(([^|)]+)\) \| `([^|`]+)` \|", table, re.MULTILINE)
    assert len(rows) >= 5
    assert [(path, one) for path, one in rows if (ROOT / path).read_text().count(one) != 1] == []


def test_readme_names_every_room() -> None:
    text = (ROOT / "README.md").read_text()
    rooms = sorted(path.parent.name for path in (ROOT / "jedi").glob("*/__init__.py"))
    assert [room for room in rooms if f"`jedi/{room}/`" not in text] == []


def test_readme_leads_to_the_map() -> None:
    assert "CONTRIBUTING.md#where-to-change-what" in (ROOT / "README.md").read_text()
