"""A backup under load, restored into a new home after the old one has gone on for a while."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scenarios.real_system import System, until
from sqlalchemy import text

from jedi.demo.__main__ import still_running

pytestmark = pytest.mark.long


def test_what_was_restored_goes_on(home: System, tmp_path: Path) -> None:
    """All tasks end after the backup: what they made since is made again, and nothing twice. Parts
    that were merged since are gone: their jobs are tried again."""
    home.up()
    lines = home.texts("user:kept", 20, "DISK_A")
    merging = {"transPath": "sleep 20; cat", "jobParameters": "${TRN_OUTPUT0/S} > ${OUTPUT0}"}
    merged = home.copying("user:kept", nFilesPerJob=10, mergeOutput=True, mergeSpec=merging)
    until(lambda: home.show(merged).jobs.get("merging") == 2, "the parts are there")
    half = home.copying("user:kept", "sleep 1; cat", nFilesPerJob=1)
    parts = home.copying("user:kept", "sleep 1; cat", nFilesPerJob=4, site="SITE_B")
    until(lambda: home.show(half).jobs.get("finished", 0) >= 5, "some jobs are through")
    assert home.show(merged).jobs.get("merging")
    backups = tmp_path / "backups"
    backups.mkdir()
    home.call("db", "backup", str(backups))
    [file] = backups.iterdir()
    assert home.settle(half, parts, merged) == ["done"] * 3
    later = home.copying("user:kept", nFilesPerJob=20)
    assert home.settle(later) == ["done"]
    home.down()

    fresh = System(tmp_path)
    try:
        said = fresh.call("db", "restore", str(file))
        assert re.search(r"[1-9]\d* jobs are tried again, [1-9]\d* files removed", said)
        with pytest.raises(AssertionError, match="is not empty"):
            fresh.call("db", "restore", str(file))
        fresh.call("up", "--detach")
        assert fresh.settle(half, parts, merged) == ["done"] * 3
        assert [fresh.lines(task) for task in (half, parts, merged)] == [lines] * 3
        with fresh.engine.begin() as tx:
            names = [f"user:out.{task}" for task in (half, parts)]
            assert [len(fresh.ddm(tx).list_files(name)) for name in names] == [20, 5]
            restored = text("SELECT count(*) FROM jedi_jobs WHERE error_code = 'restored'")
            assert tx.scalar(restored)
        assert fresh.copying("user:kept") > later
        with pytest.raises(AssertionError, match="already up"):
            fresh.call("db", "restore", str(file))
        fresh.check()
    finally:
        if still_running(fresh.home):
            fresh.down()
        fresh.home.discard()
