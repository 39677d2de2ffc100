"""Pages of tasks and jobs without a browser: statements, cursors, filters, odd texts, exports.

Raw UPDATEs: agents would not write odd texts, nor leave a task at its turn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2
import pytest
from sqlalchemy import text
from support.browsing import at, pages, session
from support.job_rows import reads_of, watch
from support.monitored import ODD, child_of, command, running_task, waiting_task
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.monitor.pages import task as task_page
from jedi.monitor.pages import tasks as list_page
from jedi.monitor.pages.task import TABS

STATEMENTS_MOST = 10
"""Statements of a page, beside those that know the visitor by the token."""


@dataclass(frozen=True)
class Reader:
    """A visitor without a browser."""

    http: httpx2.Client
    sent: list[str]

    def read(self, path: str, status: int = 200) -> str:
        answer = self.http.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == status, answer.text[:2000]
        return answer.text

    def statements(self, path: str) -> list[str]:
        """The statements of a page that read."""
        self.sent.clear()
        self.read(path)
        return reads_of(self.sent)


@pytest.fixture
def reader(world: World) -> Iterator[Reader]:
    sent = watch(world.engine)
    with pages(world) as address:
        cookies = at(address, session(world, "me"))
        with httpx2.Client(base_url=address, cookies=cookies, timeout=120) as http:
            http.get("/jobs")  # knobs are read once
            yield Reader(http, sent)


def rows(page: str, name: str = "tasks") -> list[int]:
    """The ids of the rows of a sheet."""
    return [int(one) for one in re.findall(rf'<tr id="{name}-(\d+)"', page)]


def test_pages_ask_few_statements(world: World, reader: Reader) -> None:
    made = running_task(world)
    waits = waiting_task(world)
    command(world, made.task)
    child = child_of(world, made.task)
    places = [
        "/tasks",
        "/tasks?group=user&status=running",
        "/tasks?group=queue",
        "/jobs",
        "/jobs?user=me",
        *(
            f"/tasks/{made.task}{part}"
            for part in ("", "/jobs", "/files", "/log", "/family", "/events", "/parameters")
        ),
        f"/tasks/{waits}",
        f"/tasks/{child}",
        f"/jobs/{made.jobs[0]}",
        f"/jobs/{made.jobs[4]}",
        f"/jobs/{made.jobs[8]}",
        f"/jobs/{made.jobs[8]}/log",
        f"/jobs/{made.jobs[11]}",
    ]
    counts = {place: len(reader.statements(place)) for place in places}
    assert {place: n for place, n in counts.items() if n > STATEMENTS_MOST} == {}


def test_a_task_that_waits_for_its_turn_asks_few_statements(world: World, reader: Reader) -> None:
    made = running_task(world)
    with world.engine.begin() as tx:
        tx.execute(text("DELETE FROM jedi_jobs"))
        tx.execute(
            text(
                "UPDATE jedi_datasets SET nfilestobeused = nfilesused + 5, status = 'ready'"
                " WHERE type = 'input'"
            )
        )
    asked = reader.statements(f"/tasks/{made.task}")
    assert len(asked) <= STATEMENTS_MOST, [" ".join(one.split())[:60] for one in asked]
    assert "tasks come first" in reader.read(f"/tasks/{made.task}")


def test_pages_of_the_list_lead_both_ways(
    world: World, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_page, "PAGE", 3)
    put(world, *(good(f"a:out{n}") for n in range(8)))
    first = reader.read("/tasks")
    assert rows(first) == [8, 7, 6]
    assert 'rel="prev"' not in first
    second = reader.read(follow(first, "next"))
    assert rows(second) == [5, 4, 3]
    last = reader.read(follow(second, "next"))
    assert rows(last) == [2, 1]
    assert 'rel="next"' not in last
    back = reader.read(follow(last, "prev"))
    assert rows(back) == [5, 4, 3]
    front = reader.read(follow(back, "prev"))
    assert rows(front) == [8, 7, 6]
    assert 'rel="prev"' not in front


def follow(page: str, way: str) -> str:
    """The address of the next or the previous page."""
    [found] = re.findall(rf'rel="{way}" href="([^"]+)"', page)
    return str(found).replace("&amp;", "&")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("user=anna", [3, 2]),
        ("user=me", [1]),
        ("status=pending", [2]),
        ("name=te*", [1]),
        ("reason=no_site_now", [2]),
        ("queue=1", [2, 1]),
        ("label=user", [3, 2, 1]),
        ("since=2020-01-01", [3, 2, 1]),
        ("where=user%3Danna+status!%3Dpending", [3]),
        ("where=share%3Duser&user=me", [1]),
        ("status=pending&status=running", [2, 1]),
    ],
)
def test_filters_choose_tasks(world: World, reader: Reader, query: str, found: list[int]) -> None:
    running_task(world)
    waiting_task(world)
    put(world, good("a:third"))
    assert rows(reader.read(f"/tasks?{query}")) == found


def test_mistakes_in_conditions_stand_beside_the_field(world: World, reader: Reader) -> None:
    running_task(world)
    page = reader.read("/tasks?where=usr%3Dana+status%3Drunning")
    assert rows(page) == []
    assert "no field is called usr" in page
    assert 'aria-invalid="true"' in page
    assert 'value="usr=ana status=running"' in page
    page = reader.read("/tasks?status=nonsense")
    assert "no such status" in page
    assert "reassigning." in page  # the last of the known ones: the list is not cut


def test_groups_count_tasks_by_status(world: World, reader: Reader) -> None:
    running_task(world)
    waiting_task(world)
    put(world, good("a:x"))
    found = reader.http.get("/tasks?group=user&as=csv&table=groups").text.splitlines()
    assert found[0] == "name,tasks,statuses.pending,statuses.registered,statuses.running,newest"
    assert found[1:] == ["anna,2,1,1,,3", "me,1,,,1,1"]
    page = reader.read("/tasks?group=queue&status=running")
    assert "/tasks?status=running&amp;queue=1" in page
    assert '<option value="status" selected>' in reader.read("/tasks?group=status")


def test_columns_are_chosen_in_the_address(reader: Reader, world: World) -> None:
    running_task(world)
    found = reader.http.get("/tasks?columns=status&columns=share&as=csv").text.splitlines()
    assert found == ["jedi_task_id,status,share", "1,running,user"]


def test_the_page_of_a_task_explains_its_state(world: World, reader: Reader) -> None:
    waits = waiting_task(world)
    page = reader.read(f"/tasks/{waits}")
    for said in ("No site can run its jobs", "Next try", "SITE_A", "chose no site", "only memory"):
        assert said in page, said


def test_errors_are_grouped_with_their_jobs(world: World, reader: Reader) -> None:
    made = running_task(world)
    page = reader.read(f"/tasks/{made.task}")
    assert "warning: exit code 3" in page
    [place] = re.findall(
        r'href="(/tasks/1/jobs\?status=failed&amp;where=error%3Dpayload[^"]+)"', page
    )
    jobs = reader.read(place.replace("&amp;", "&"))
    assert rows(jobs, "jobs") == made.jobs[4:6]


def test_inputs_of_one_cause_are_retried_from_its_group(world: World, reader: Reader) -> None:
    """A retry of a cause means its inputs alone. Two jobs failed by payload_exit, one by
    memory_limit; the link beside the first group means its two inputs."""
    made = running_task(world)
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(
            text(
                "UPDATE jedi_dataset_contents SET status = 'failed' WHERE type = 'input' "
                "AND pandaid = ANY(:jobs)"
            ),
            {"jobs": made.jobs[4:7]},
        )
        tx.execute(text("UPDATE jedi_tasks SET status = 'finished'"))
    page = reader.read(f"/tasks/{made.task}")
    places = re.findall(r'href="(/act/task.retry\?[^"]+like_job=\d+[^"]*)"', page)
    shown = [reader.read(one.replace("&amp;", "&")) for one in places]
    assert "retry is possible: 2 failed inputs like that" in shown[0]
    assert "retry is possible: 1 failed input like that" in shown[1]
    assert f'name="like_job" value="{made.jobs[5]}"' in shown[0]


def test_pages_of_files_follow_each_other(
    world: World, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """12 jobs with an input each, in pages of 5: 5, 5 and 2, each file once; the filter stays."""
    monkeypatch.setattr(task_page, "FILES_PAGE", 5)
    made = running_task(world)
    found = [reader.read(f"/tasks/{made.task}/files?type=input")]
    while 'rel="next"' in found[-1]:
        found.append(reader.read(follow(found[-1], "next")))
    pages_of_files = [rows(one, "files") for one in found]
    assert [len(one) for one in pages_of_files] == [5, 5, 2]
    files = [one for page in pages_of_files for one in page]
    assert files == sorted(set(files))
    assert f'href="/tasks/{made.task}/files?type=input">First' in found[-1]
    whole = rows(reader.read(f"/tasks/{made.task}/files"), "files")
    monkeypatch.setattr(task_page, "FILES_PAGE", 200)
    assert whole == rows(reader.read(f"/tasks/{made.task}/files"), "files")[:5]


def test_a_page_behind_a_foreign_file_is_a_mistake(world: World, reader: Reader) -> None:
    """An empty page would look like the end of the list. Behind the last file there is that end."""
    made, other = running_task(world), waiting_task(world)
    with world.engine.begin() as tx:
        last = tx.scalar(
            text(
                "SELECT max(fileid) FROM jedi_dataset_contents "
                "WHERE jeditaskid = :task AND datasetid = (SELECT max(datasetid) "
                "FROM jedi_dataset_contents WHERE jeditaskid = :task)"
            ),
            {"task": made.task},
        )
    assert rows(reader.read(f"/tasks/{made.task}/files?after={last}"), "files") == []
    for task, after in ((made.task, last + 1000), (other, last)):
        wrong = reader.http.get(f"/tasks/{task}/files?after={after}")
        assert wrong.status_code == 422
        assert f"is no file of task {task}" in wrong.text


def test_the_log_names_agents_and_people(world: World, reader: Reader) -> None:
    waits = waiting_task(world)
    command(world, waits)
    page = reader.read(f"/tasks/{waits}/log")
    for said in ("command pause", "storage is full", "TaskCommando for ops", "/decisions/1"):
        assert said in page, said


def test_relatives_lead_to_each_other(world: World, reader: Reader) -> None:
    made = running_task(world)
    child = child_of(world, made.task)
    assert f'<a href="/tasks/{child}">{child}</a>' in reader.read(f"/tasks/{made.task}/family")
    assert "parent" in reader.read(f"/tasks/{child}")


def test_a_search_for_jobs_goes_on_behind_its_bound(
    world: World, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jedi.taskbuffer.reports import found_jobs

    made = running_task(world)
    monkeypatch.setattr(found_jobs, "LOOKED_AT", 5)
    page = reader.read("/jobs?status=finished")
    assert rows(page, "jobs") == []
    assert "5 jobs were looked at" in page
    seen: list[int] = []
    for _ in range(4):
        if 'rel="next"' not in page:
            break
        page = reader.read(follow(page, "next"))
        seen += rows(page, "jobs")
    assert sorted(seen) == made.jobs[:4]


def test_the_page_of_a_job_shows_its_limits_and_its_times(world: World, reader: Reader) -> None:
    made = running_task(world)
    page = reader.read(f"/jobs/{made.jobs[6]}")
    for said in ("Limited by memory", "4711", "It used 2.1 GB", 'id="times"', "88 %"):
        assert said in page, said
    assert "It waits for a pilot at SITE_A" in reader.read(f"/jobs/{made.jobs[11]}")


@pytest.mark.parametrize(
    ("moved", "said"),
    [
        ("1000, write_bytes = NULL", ", and it read and wrote 1 B/s: it mostly waited."),
        (
            "1500000000, write_bytes = 3000000000",
            ", and it read and wrote 3 MB/s: input and output limit it.",
        ),
        ("NULL, write_bytes = NULL", "."),
    ],
)
def test_a_job_whose_cores_waited(world: World, reader: Reader, moved: str, said: str) -> None:
    """15 s of CPU time in 1500 s: 1 %. 1000 B in 1500 s are 0.67 B/s, 4.5 GB are 3 MB/s."""
    made = running_task(world)
    with world.engine.begin() as tx:
        tx.execute(text(f"UPDATE jedi_jobs SET cpu_s = 15, memory_mb = 9000, read_bytes = {moved}"))
    shown = reader.read(f"/jobs/{made.jobs[0]}")
    assert f"Its cores waited: less than half of their time was used{said}<" in shown


def test_a_decision_leads_back_to_its_list(world: World, reader: Reader) -> None:
    task = waiting_task(world)
    page = reader.read("/decisions/1")
    assert f'<li><a href="/decisions?jedi_task_id={task}">Task {task}</a></li>' in page
    page = reader.read(f"/decisions?jedi_task_id={task}")
    assert '<li><a href="/decisions">Decisions</a></li>' in page


def test_alerts_have_words_for_people(world: World, reader: Reader) -> None:
    """Severity `page` is urgent, `ticket` has time: no jargon of pagers."""
    waits = waiting_task(world)
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(
            text("UPDATE jedi_tasks SET status = 'exhausted' WHERE jeditaskid = :task"),
            {"task": waits},
        )
    [alert] = [
        one
        for one in reader.http.get("/?as=json").json()["alerts"]
        if one["code"] == "tasks_exhausted"
    ]
    assert alert["severity"] == "soon"


def test_odd_texts_are_harmless(world: World, reader: Reader) -> None:
    made = running_task(world, diag=ODD)
    with world.engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_tasks SET taskname = :odd, username = :odd, errordialog = :odd"),
            {"odd": ODD},
        )
    job = made.jobs[4]
    for place in (
        "/tasks",
        "/tasks?group=user",
        "/tasks/1",
        "/tasks/1/jobs",
        "/tasks/1/family",
        "/jobs",
        f"/jobs/{job}",
        f"/jobs/{job}/log",
    ):
        page = reader.read(place)
        assert "<script>alert" not in page, place
        assert "\u202e" not in page, place


@pytest.mark.parametrize(
    "place",
    ["/tasks/99", "/tasks/99/jobs", "/tasks/99/log", "/jobs/99", "/jobs/99/log", "/tasks/99/files"],
)
def test_unknown_ids_are_not_found(reader: Reader, place: str) -> None:
    assert "There is no" in reader.read(place, 404)


def test_an_unknown_address_is_a_page_for_browsers_alone(reader: Reader) -> None:
    assert "<h1>Not Found</h1>" in reader.read("/nosuch", 404)
    answer = reader.http.get("/nosuch", headers={"Accept": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (404, "http_404")


def test_all_tabs_name_the_task_and_its_status(world: World, reader: Reader) -> None:
    made = running_task(world)
    for place, _title in TABS[:-1]:  # the past has that of its time
        page = reader.read(f"/tasks/{made.task}{place}")
        [heading] = re.findall("<h1>.*</h1>", page)
        assert "running" in heading, place
        assert re.search('<a href="/tasks" aria-current="(page|true)">', page), place
    assert '<a href="/tasks?queue=1">user</a>' in reader.read(f"/tasks/{made.task}")
