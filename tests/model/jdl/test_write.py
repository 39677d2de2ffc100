"""JDL as JEDI writes it: the parser reads the same attributes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jedi.model.jdl.parse import parse
from jedi.model.jdl.write import write

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
VALUES = st.one_of(TEXTS, st.lists(st.one_of(TEXTS, st.lists(TEXTS, max_size=3)), max_size=4))


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=6))
def test_the_parser_reads_what_is_written(attributes: dict[str, object]) -> None:
    names = {name.lower(): name for name in attributes}
    attributes = {name: attributes[name] for name in names.values()}
    assert parse(write(attributes)) == attributes
