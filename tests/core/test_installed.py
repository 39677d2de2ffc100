"""Plug-ins that are installed: read once, and again after an installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from jedi.core.installed import plug_ins

GROUP = "jedi.tried_out"


def install(place: Path, name: str) -> None:
    information = place / f"{name}-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
    (information / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {name}:it\n")


def test_an_installation_is_seen_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    assert plug_ins(GROUP) == {}
    install(tmp_path, "first")
    found = plug_ins(GROUP)
    assert {*found} == {"first"} and plug_ins(GROUP) is found
    install(tmp_path, "second")
    assert {*plug_ins(GROUP)} == {"first", "second"}
