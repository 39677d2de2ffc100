"""Jobs as notebooks show them. Source: docs/reference/ganga.md#notebooks."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from jedi_client import ArgSplitter, Executable, Job, JobError, JobTemplate, jobs, templates
from jedi_client.gpi import notebook
from jedi_client.gpi.interfaces import Attempt, UnitState
from support.bench import Bench, BenchRunner

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def submitted(n: int, name: str = "") -> Job:
    job = Job(
        name=name,
        application=Executable("true"),
        backend=Bench(),
        splitter=ArgSplitter([[str(i)] for i in range(n)]),
    )
    job.submit()
    return job


def notebook_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pages that a notebook shows, in their order."""
    pages: list[str] = []

    def show(data: Mapping[str, str], **_: Any) -> Any:
        pages.append(data["text/html"])
        return SimpleNamespace(update=show)

    shell: Any = SimpleNamespace(get_ipython=object, display=SimpleNamespace(display=show))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    return pages


def rows(html: str) -> int:
    return html.count("<tr>") - 1


@pytest.mark.usefixtures("runner")
def test_tables_have_fifty_rows_and_escape_names() -> None:
    """Expected: `a table as repr`, `at most 50 rows`, and a name is text, never markup."""
    job = submitted(60, "<b>x</b>")
    subjobs, listed = job.subjobs._repr_html_(), jobs._repr_html_()
    assert rows(subjobs) == 50 and "The first 50 of 60." in subjobs
    assert rows(listed) == 1 and "&lt;b&gt;x&lt;/b&gt;" in listed and "<b>" not in listed
    assert "60 submitted" in listed
    JobTemplate(job, name="recipe")
    assert "recipe" in templates._repr_html_() and "template" in templates._repr_html_()
    assert "<b>" not in job._repr_html_()


def test_errors_are_grouped(runner: BenchRunner) -> None:
    """Expected: `groups failed and killed subjobs by their errors`, the most frequent first;
    superseded ones don't count."""
    states = [
        UnitState(0, "failed", reason="No space"),
        UnitState(1, "completed"),
        UnitState(2, "failed", exit_code=3),
        UnitState(3, "failed", exit_code=3),
        UnitState(4, "failed", reason="No space", superseded=True),
        UnitState(5, "killed"),
    ]
    found = [(one.error, list(one.subjobs)) for one in notebook.errors(states)]
    assert found == [("exit code 3", [2, 3]), ("No space", [0]), ("killed", [5])]
    job = submitted(4)
    assert job.errors == [] and job.why == f"Job {job.id} is submitted."
    runner.move(str(job.backend_id), "failed", [0, 2])
    runner.move(str(job.backend_id), "completed", [1, 3])
    jobs.session.monitor.expire(job.id)
    assert job.why == f"Job {job.id} is failed.\n  2 x failed (subjobs 0, 2)"
    assert Job().why.endswith("Submit it: j.submit()")


@pytest.mark.usefixtures("runner")
def test_a_plot_is_svg_and_names_the_subjobs_that_it_asked_for() -> None:
    """Expected: `draws progress and times as SVG`; `the first … subjobs`, `and says so`."""
    job = submitted(3, "a < b")
    assert ElementTree.fromstring(job.plot(2).svg).tag.endswith("svg")
    with pytest.raises(JobError, match="is new"):
        Job().plot()
    tried = [
        (k, Attempt(1, None, "finished", None, 0, T0, T0 + timedelta(seconds=k + 1)))
        for k in range(2)
    ]
    drawing = notebook.draw("t", {"completed": 2, "running": 1}, tried, 2, 3)
    svg = drawing.svg
    assert "2 ended attempts of the first 2 of 3 subjobs in 2.0 s" in svg
    assert len(ElementTree.fromstring(svg).findall("{*}line")) == 2
    assert [one.get("width") for one in ElementTree.fromstring(svg).findall(".//{*}rect")] == [
        "200.0",
        "400.0",
    ]
    assert [one.text for one in ElementTree.fromstring(svg).findall(".//{*}g/{*}text")][::2] == [
        "0 s",
        "2.0 s",
    ]


@pytest.mark.usefixtures("runner")
def test_drawings_and_pages_have_words() -> None:
    """Expected: `the drawing says the same in words`: in the description of the SVG, and in a
    terminal."""
    job = submitted(3, "a < b")
    words = f"Job {job.id} a < b: submitted\n3 submitted"
    drawing = job.plot()
    assert repr(drawing) == words
    assert ElementTree.fromstring(drawing.svg).findtext("{*}desc") == "3 submitted"
    assert "role='img' aria-label='3 submitted'" in job._repr_html_()
    took = [notebook._duration(seconds) for seconds in (119.96, 150, 9000)]
    assert took == ["120.0 s", "2.5 min", "2.5 h"]


def test_without_a_notebook_a_job_shows_as_text(
    runner: BenchRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    """Expected: `outside a notebook j.show() prints the job`, and IPython is never imported."""
    job = submitted(2)
    job.show()
    assert capsys.readouterr().out == f"{job}\n"
    assert not notebook._FOLLOWERS and not jobs.session.monitor._watchings


def test_a_page_follows_its_job_without_threads(
    runner: BenchRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: `updates in place without threads and stops when it is done`."""
    pages = notebook_of(monkeypatch)
    job = submitted(2)
    monitor = jobs.session.monitor
    monkeypatch.setattr(monitor, "pause", lambda ids: 0.01)
    before = threading.active_count()

    async def session() -> None:
        job.show()
        await asyncio.sleep(0.05)
        runner.move(str(job.backend_id), "completed")
        monitor.expire(job.id)
        await asyncio.wait_for(asyncio.gather(*notebook._FOLLOWERS), 10)

    asyncio.run(session())
    assert len(pages) == 2 and "2 submitted" in pages[0] and "2 completed" in pages[1]
    assert threading.active_count() == before
    assert not notebook._FOLLOWERS and not monitor._watchings


def test_a_page_changes_while_a_cell_waits(
    runner: BenchRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: `whenever a cell asks for the job` the page changes, too: after `Run all`, the
    pages show the ends."""
    pages = notebook_of(monkeypatch)
    job = submitted(2)

    async def session() -> None:
        job.show()
        runner.move(str(job.backend_id), "completed")
        jobs.session.monitor.expire(job.id)
        job.wait(10)
        assert len(pages) == 2 and "2 completed" in pages[1]

    asyncio.run(session())


def test_the_page_of_a_removed_job_says_so(
    runner: BenchRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: `stops when the job has ended or was removed`."""
    pages = notebook_of(monkeypatch)
    job = submitted(2)
    monkeypatch.setattr(jobs.session.monitor, "pause", lambda ids: 0.01)

    async def session() -> None:
        job.show()
        assert job.remove()
        await asyncio.wait_for(asyncio.gather(*notebook._FOLLOWERS), 10)

    asyncio.run(session())
    assert f"Job {job.id} was removed." in pages[-1] and not jobs.session.monitor._watchings
