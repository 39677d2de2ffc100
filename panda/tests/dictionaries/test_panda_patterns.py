"""Regular expressions of PanDA's clients as patterns of the shell
(docs/reference/panda.md#patterns-of-file-names)."""

from __future__ import annotations

import fnmatch
import re

import pytest
from jedi_panda.model.patterns import NoShellPattern, shell_patterns

NAMES = (
    "a.log.tgz",
    "a.log.tgz.1",
    "a.log.tgz.old",
    "data.root",
    "dataXroot",
    "user.AOD.1.root",
    "AOD",
    "x_1.txt",
)


@pytest.mark.parametrize(
    "expression",
    [r"\.log\.tgz(\.\d+)*$", r".*AOD.*\.root$", r"^data.root$", "AOD", "x_[0-2]", "AOD,txt$"],
)
def test_a_pattern_takes_the_names_that_its_expression_finds(expression: str) -> None:
    """An expression is found anywhere in a name."""
    found = [name for name in NAMES if any(re.search(one, name) for one in expression.split(","))]
    patterns = shell_patterns(expression).split(",")
    assert [n for n in NAMES if any(fnmatch.fnmatchcase(n, p) for p in patterns)] == found


@pytest.mark.parametrize("expression", ["(a|b)", "a+", "a{2}", r"a\*", "a*b", "[^a]"])
def test_other_expressions_are_refused_by_name(expression: str) -> None:
    with pytest.raises(NoShellPattern, match=re.escape(expression)):
        shell_patterns(f"AOD,{expression}")
