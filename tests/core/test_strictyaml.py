"""Everything that people write in YAML goes through one strict reader: plain values or a refusal
with line and column, never a traceback."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.sources import programs
from typer.testing import CliRunner

from jedi.core import strictyaml
from jedi.core.errors import BadInput
from jedi.ddm import sidecar
from jedi.model.jobs.retry_rules import read_rules
from jedi.model.scheduling.queue_file import read_queues
from jedi.model.sites.link_file import read_links
from jedi.model.sites.site_file import read_endpoints, read_sites
from jedi.model.tasks.text import examine, parse_text, split
from jedi.service.tasks.commanding import settings
from jedi.simulator.knobsets import read_knobs
from jedi.simulator.scenario import read_scenario

ROOT = Path(__file__).parents[2]
PARSERS = [yaml.CSafeLoader, yaml.SafeLoader]
"""With libyaml, and without."""


@pytest.fixture(params=PARSERS, ids=lambda parser: parser.__name__)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strictyaml, "_PARSER", request.param)


def refused(text: str | bytes) -> str:
    with pytest.raises(BadInput) as caught:
        strictyaml.load(text, "file")
    (problem,) = caught.value.problems
    return problem.rule


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing", None),
        ("~", None),
        ("word", "word"),
        ("'no'", "no"),
        ("yes", True),
        ("Off", False),
        ("12", 12),
        ("-7", -7),
        ("+0", 0),
        ("0.5", 0.5),
        ("1.5e+3", 1500.0),
        (".inf", ".inf"),
        ("-.NaN", "-.NaN"),
        ("1e6", "1e6"),
        ("=", "="),
        ("a: [1, {b: c, d: []}]\ne: |\n  x\n  y\n", {"a": [1, {"b": "c", "d": []}], "e": "x\ny\n"}),
        ('{"a": [true, null, "\\u00e9"]}', {"a": [True, None, "é"]}),
        ("a: 1\r\nb: 'é'\r\n", {"a": 1, "b": "é"}),
        ("\ufeffa: 1", {"a": 1}),
        ("\ufeff", None),
        (b"\xef\xbb\xbfa: 1", {"a": 1}),
        ("---\na: 1\n...\n", {"a": 1}),
    ],
)
def test_plain_values_are_read(text: str | bytes, value: Any) -> None:
    """A small fixed set of types: null, true and false, whole and decimal numbers, text,
    lists, mappings with keys of text."""
    found = strictyaml.load(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a:\n  b: !!float x", "line 2, column 6: tags are not allowed"),
        ("!!merge x", "line 1, column 1: tags"),
        ("a: \ufeffb", "line 1, column 4: the character U+FEFF is not allowed"),
        ("- !!python/object/apply:os.system [id]", "line 1, column 3: tags"),
        ("! x", "line 1, column 1: tags"),
        ("a: 1\nb: 2001-99-99", "line 2, column 4: 2001-99-99 is a date"),
        ("2020-01-01 10:00:00", "line 1, column 1: 2020-01-01 10:00:00 is a date"),
        ('a: "\\Uffffffff"', "line 1, column "),
        ('a: "\\ud800"', "line 1, column "),
        ('a: "x\\0"', "line 1, column 4: 'x\\x00' holds a character that can't be stored"),
        ("a: " + "7" * 5000, "line 1, column 4: a number has at most 40 digits"),
        ("a: 1." + "7" * 5000, "line 1, column 4: a number has at most 40 digits"),
        ("1.0e+999", "line 1, column 1: 1.0e+999 is too large"),
        ("0777", "line 1, column 1: 0777 can be read as several numbers"),
        ("0x1f", "line 1, column 1: 0x1f can be read as several numbers"),
        ("1_000", "line 1, column 1: 1_000 can be read as several numbers"),
        ("1:30", "line 1, column 1: 1:30 can be read as several numbers"),
        ("a: &x [1]\nb: *x", "line 1, column 4: anchors (&) and aliases (*) are not allowed"),
        ("a: *x", "line 1, column 4: anchors (&) and aliases (*) are not allowed"),
        ("a: 1\n<<: {b: 1}", "line 2, column 1: merge keys are not allowed"),
        ("a: 1\nb: 2\na: 3", "line 3, column 1: key 'a' is repeated"),
        ("1: a", "line 1, column 1: key 1 is not text"),
        ("{[a]: b}", "line 1, column 2: key [] is not text"),
        ("? {a: b}\n: c", "line 1, column 3: key {} is not text"),
        ("a: [1,\n2", "line "),
        ("a: 1\n b: 2", "line 2, column 3: mapping values are not allowed"),
        ("---\na\n---\nb", "line 3, column 1: a second document begins here"),
        ("a\x07b", "line 1, column 2: the character U+0007 is not allowed"),
        ("a: b\nc: \x00", "line 2, column 4: the character U+0000 is not allowed"),
        ("\udfff", "line 1, column 1: the character U+DFFF is not allowed"),
        (b"a: b\n \xff", "line 2, column 2: this is not UTF-8"),
        ("[" * 100_000, "line 1, column 51: it is nested too deeply"),
        ("{a: " * 100_000, "line 1, column 201: it is nested too deeply"),
        ("- " * 10_000, "line 1, column 101: it is nested too deeply"),
        ("%YAML 3.0\n--- a", "line 1, column 1: found incompatible YAML document"),
    ],
)
def test_the_rest_is_refused_with_its_place(text: str | bytes, rule: str) -> None:
    """No tags, aliases, timestamps or merge keys; bounds of depth and size; errors with line and
    column."""
    assert refused(text).startswith(rule)


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strictyaml, "MAX_CHARACTERS", 10)
    assert strictyaml.load("a: 4567890") == {"a": 4567890}
    assert "at most 10 characters" in refused("a: 45678901")
    monkeypatch.setattr(strictyaml, "MAX_CHARACTERS", 1000)
    monkeypatch.setattr(strictyaml, "MAX_VALUES", 4)
    assert strictyaml.load("[1, 2, 3]") == [1, 2, 3]
    assert refused("[1,\n2, 3, 4]") == "line 2, column 7: there are more than 4 values"


def test_the_depth_that_is_allowed_is_read() -> None:
    found = strictyaml.load("[" * 50 + "]" * 50)
    for _ in range(49):
        (found,) = found
    assert found == []


def _sidecar(directory: Path, text: str) -> object:
    (directory / ".dataset.yaml").write_bytes(text.encode(errors="surrogatepass"))
    sidecar._declaration.cache_clear()
    return sidecar.declaration(directory)


def _knobs(directory: Path, text: str) -> object:
    file = directory / "knobs"
    file.write_bytes(text.encode(errors="surrogatepass"))
    return read_knobs("--compare", str(file))


def _setting(_: Path, text: str) -> object:
    found, problems = settings([f"nFiles={text}"])
    if problems:
        raise BadInput(problems)
    return found


READERS: dict[str, Callable[[Path, str], object]] = {
    "task": lambda _, text: examine(parse_text(text, "yaml")),
    "collection": lambda _, text: split(text, "yaml"),
    "sites": lambda _, text: read_sites(text),
    "endpoints": lambda _, text: read_endpoints(text),
    "queues": lambda _, text: read_queues(text),
    "links": lambda _, text: read_links(text),
    "rules": lambda _, text: read_rules(text),
    "scenario": lambda _, text: read_scenario(text),
    "knobs": _knobs,
    "sidecar": _sidecar,
    "setting": _setting,
}
"""All that read what people write."""

MALFORMED = [
    "!!float x",
    "!!merge x",
    "2001-99-99",
    '"\\Uffffffff"',
    "9" * 5000,
    "[" * 100_000,
    "a: &x [1]\nb: [*x, *x]",
    "{",
    "\x00",
    "<<: {a: 1}",
]


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: text[:12])
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_what_is_malformed(tmp_path: Path, reader: str, text: str) -> None:
    """Malformed scalars and tags end in no traceback, wherever YAML is read; 100,000 `[` kill no
    ContentsFeeder."""
    if reader == "collection":  # whoever reads it as one task tells what is wrong with it
        assert split(text, "yaml") is None
        return
    with pytest.raises(BadInput, match=r"line \d+, column \d+"):
        READERS[reader](tmp_path, text)


PIECES = st.sampled_from(
    [
        "a",
        "b: ",
        ": ",
        "- ",
        "\n",
        "  ",
        "? ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "&x ",
        "*x",
        "!!int ",
        "! ",
        "<<: ",
        "'",
        '"',
        "\\U",
        "\\x",
        "ffffffff",
        "0",
        "9" * 45,
        ".",
        "e+9",
        "_",
        ":",
        "2001-01-01",
        "| \n",
        ">-\n",
        "#",
        "%TAG ",
        "---\n",
        "...\n",
        "\t",
        "\r",
        "\u2028",
        "\x85",
        "\ufeff",
        "\0",
        "\ud800",
        "=",
        "~",
        "null",
        "yes",
        ".inf",
        "queue_id: 1",
        "site: A",
        "files: ",
        "src: ",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=25).map("".join)


@given(text=TEXTS)
def test_any_text_is_read_or_refused(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each reader gives a value or BadInput; any other exception fails the test."""
    directory = tmp_path_factory.getbasetemp()
    for read in READERS.values():
        try:
            read(directory, text)
        except BadInput as error:
            assert error.problems


@given(text=TEXTS)
def test_both_parsers_mean_the_same(text: str) -> None:
    """What one reads, the other reads as the same, or refuses."""
    found = []
    for parser in PARSERS:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(strictyaml, "_PARSER", parser)
            try:
                value = strictyaml.load(text)
            except BadInput as error:
                assert error.problems[0].rule.startswith("line ")
            else:
                assert _is_plain(value)
                found.append(value)
    assert len(found) < 2 or found[0] == found[1]


def _is_plain(value: Any) -> bool:
    match value:
        case dict():
            return all(type(k) is str and _is_plain(v) for k, v in value.items())
        case list():
            return all(map(_is_plain, value))
        case float():
            return math.isfinite(value)
        case None | bool() | int() | str():
            return True
    return False


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text("aé:- '\"\n#{", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab: -'", max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(PLAIN)
def test_what_is_written_is_read_back(value: Any) -> None:
    """YAML as programs write it (without aliases), and JSON, which is YAML, too."""
    dumper = type("Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    assert strictyaml.load(yaml.dump(value, Dumper=dumper, allow_unicode=True)) == value
    assert strictyaml.load(json.dumps(value, ensure_ascii=False)) == value


def test_nobody_else_reads_yaml() -> None:
    """One strict reader for all: no other module of JEDI loads YAML."""
    readers = []
    for path in programs():
        if path.is_relative_to(ROOT / "client"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(value=ast.Name(id="yaml"), attr=attr) if "dump" not in attr:
                    readers.append(str(path.relative_to(ROOT)))
    assert set(readers) == {"jedi/core/strictyaml.py"}


def test_a_file_that_is_no_utf8_is_a_sentence(tmp_path: Path) -> None:
    from jedi.cli.jedi import app

    file = tmp_path / "latin.yaml"
    file.write_bytes(b"days: 1 # \xe9")
    said = CliRunner().invoke(app, ["simulate", str(file)])
    assert isinstance(said.exception, BadInput)
    assert "UTF-8" in str(said.exception)
