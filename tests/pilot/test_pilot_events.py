"""Ranges of events while a payload runs: real pilots and payloads against a service played over a
real socket. The protocol is that of docs/payload-events.md."""

from __future__ import annotations

import io
import os
import signal
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.pilot_world import DEADLINE_S, World, end, tar_gz, wait_until

from jedi.pilot import event_lines, event_pieces
from jedi.pilot.base import PayloadFailure
from jedi.standalone.installation import packaged

EXAMPLES = packaged("examples") / "events"
HELPER = """
import json, os, sys, time
requests = os.fdopen(int(os.environ["JEDI_EVENTS_OUT"]), "w")
answers = os.fdopen(int(os.environ["JEDI_EVENTS_IN"]))
def ask(request):
    print(request if isinstance(request, str) else json.dumps(request), file=requests, flush=True)
    return json.loads(answers.readline())
def make(one, text="made"):
    with open("out.txt", "w") as file:
        file.write(f"{text} {one['start']}")
    return ask({"finished": one["id"], "outputs": ["out.txt"]})
"""


@pytest.fixture
def world() -> Iterator[World]:
    with World() as place:
        yield place


def ranges(n: int, size: int = 5, lfn: str = "seeds.txt", file: int = 1) -> list[dict[str, Any]]:
    return [
        {
            "id": f"5-9-{file}-{1 + i * size}-10",
            "lfn": lfn,
            "guid": None,
            "scope": "demo",
            "start": 1 + i * size,
            "end": (i + 1) * size,
        }
        for i in range(n)
    ]


def events(world: World, **changes: Any) -> dict[str, Any]:
    """The part of a job description that makes it a consumer of events."""
    return {
        "jobset_id": 9,
        "mode": "es",
        "n_ranges": 8,
        "endpoint": "DISK",
        "store": str(world.storage / ".eventservice" / "5" / "9"),
        "zip_ranges": 100,
        "zip_s": 60.0,
        **changes,
    }


def consume(world: World, code: str, **changes: Any) -> dict[str, Any]:
    """Queue a consumer whose payload is a program in Python."""
    archive = world.sandbox(tar_gz(("payload.py", (HELPER + code).encode())))
    return world.order("python3 payload.py", sandbox=archive, events=events(world, **changes))


def published(world: World) -> dict[str, dict[str, bytes]]:
    """The outputs in each zip at the storage, by zip and member."""
    found = {}
    for path in sorted((world.storage / ".eventservice" / "5" / "9").iterdir()):
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            found[path.name] = {
                name: archive.read(name) for name in archive.namelist() if name[-1] != "/"
            }
    return found


def reported(world: World) -> dict[str, str]:
    """The status of each range that was reported, by id; each once."""
    entries = [
        entry
        for report in world.service.event_reports()
        for entry in (*report["ranges"], *(e for z in report["zips"] for e in z["ranges"]))
    ]
    assert len({entry["id"] for entry in entries}) == len(entries)
    return {entry["id"]: entry["status"] for entry in entries}


ALL = """
while given := ask({"get": 3})["ranges"]:
    for one in given:
        assert make(one) == {"ok": True}
"""


def test_a_payload_asks_until_there_are_no_more(world: World) -> None:
    """20 ranges in calls of 8; the payload gets them in order, each once, and then none. One zip
    with all of them lies at the storage with the size and the adler32 of its report."""
    given = world.service.ranges = ranges(20)
    consume(world, ALL)
    assert world.start().wait(DEADLINE_S) == 0
    assert world.service.reports()[-1]["status"] == "finished"
    asked = [body["asks"][0]["n"] for verb, body in world.service.calls if verb == "event_ranges"]
    assert asked == [8, 8, 8]
    [(name, outputs)] = published(world).items()
    assert outputs == {f"{one['id']}/out.txt": f"made {one['start']}".encode() for one in given}
    [report] = world.service.event_reports()
    [piece] = report["zips"]
    content = (world.storage / ".eventservice" / "5" / "9" / name).read_bytes()
    assert (piece["lfn"], piece["endpoint"], piece["n_events"]) == (name, "DISK", 100)
    assert (piece["fsize"], piece["adler32"]) == (len(content), f"{zlib.adler32(content):08x}")
    assert reported(world) == {one["id"]: "finished" for one in given}


def test_zips_of_at_most_n_ranges(world: World) -> None:
    """10 ranges, at most 4 a zip: zips of 4, 4 and 2, each reported by itself."""
    world.service.ranges = ranges(10)
    consume(world, ALL, zip_ranges=4)
    assert world.start().wait(DEADLINE_S) == 0
    assert [len(outputs) for outputs in published(world).values()] == [4, 4, 2]
    assert len(world.service.event_reports()) == 3


def test_a_zip_after_s_seconds(world: World) -> None:
    """A finished range is reported after 0.3 s, while its payload works on the next."""
    world.service.ranges = ranges(2)
    consume(
        world,
        """
given = ask({"get": 2})["ranges"]
make(given[0])
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
make(given[1])
""",
        zip_s=0.3,
    )
    gate = world.scratch / "gate"
    world.service.orders[0]["command"] += f" {gate}"
    world.start()
    first = world.service.wait_for("event_reports")
    assert [e["id"] for e in first["reports"][0]["zips"][0]["ranges"]] == ["5-9-1-1-10"]
    gate.touch()
    assert world.pilots[-1].wait(DEADLINE_S) == 0
    assert reported(world) == {"5-9-1-1-10": "finished", "5-9-1-6-10": "finished"}


def test_failed_and_fatal_ranges(world: World) -> None:
    """They are reported with the payload's reason; the others count."""
    world.service.ranges = ranges(3)
    consume(
        world,
        """
a, b, c = ask({"get": 3})["ranges"]
assert ask({"failed": a["id"], "why": "no luck"}) == {"ok": True}
assert ask({"fatal": b["id"]}) == {"ok": True}
make(c)
""",
    )
    assert world.start().wait(DEADLINE_S) == 0
    assert list(reported(world).values()) == ["failed", "fatal", "finished"]
    entry = world.service.event_reports()[0]["ranges"][0]
    assert entry["error_diag"] == "no luck"


def test_mistakes_of_a_payload_are_answered(world: World) -> None:
    """Each wrong line gets one answer with a sentence, and changes nothing; the payload goes on."""
    world.service.ranges = ranges(1)
    consume(
        world,
        """
[one] = ask({"get": 5})["ranges"]
os.symlink("/etc/hosts", "link")
os.mkdir("directory")
wrong = ["{", "[]", "{}", {"get": 0}, {"get": 1001}, {"get": True}, {"get": 1, "more": 2},
         {"finished": 7}, {"finished": "9-9-9-9-9"}, {"finished": one["id"], "outputs": ["no"]},
         {"finished": one["id"], "outputs": ["../pilot.log"]},
         {"finished": one["id"], "outputs": ["link"]},
         {"finished": one["id"], "outputs": ["directory"]},
         {"finished": one["id"], "outputs": "payload.py"},
         {"finished": one["id"], "failed": one["id"]}]
for request in wrong:
    answer = ask(request)
    assert list(answer) == ["error"], (request, answer)
    print(answer["error"])
make(one)
assert "error" in ask({"finished": one["id"], "outputs": []})  # twice
""",
    )
    assert world.start().wait(DEADLINE_S) == 0
    assert world.service.reports()[-1]["status"] == "finished", world.log()
    assert reported(world) == {"5-9-1-1-10": "finished"}
    assert len(world.log()["payload.stdout"].splitlines()) == 15


def test_a_dead_payload_loses_only_what_it_had_in_hand(world: World) -> None:
    """The payload dies by a signal: its job fails, its finished range counts."""
    world.service.ranges = ranges(3)
    consume(world, 'make(ask({"get": 3})["ranges"][0]); os.kill(os.getpid(), 9)')
    assert world.start().wait(DEADLINE_S) == 0
    last = world.service.reports()[-1]
    assert (last["status"], last["error_code"]) == ("failed", "payload_exit")
    assert reported(world) == {"5-9-1-1-10": "finished"}


def test_a_told_pilot_reports_what_is_finished(world: World) -> None:
    """SIGTERM ends the payload; the finished range is published and reported before the end."""
    world.service.ranges = ranges(3)
    consume(
        world, 'make(ask({"get": 3})["ranges"][0]); print("ready", flush=True); time.sleep(600)'
    )
    pilot = world.start()
    world.service.wait_for("log", lambda b: "ready" in (b["entries"][0]["stdout_tail"] or ""))
    end(pilot)
    assert world.service.reports()[-1]["error_code"] == "pilot_terminated"
    assert reported(world) == {"5-9-1-1-10": "finished"}
    assert len(published(world)) == 1


@pytest.mark.parametrize("point", ["event_zip", "event_report"])
def test_a_killed_pilot_keeps_what_it_reported(world: World, point: str, tmp_path: Path) -> None:
    """A pilot dies while it publishes its second zip: the first is reported and whole. A zip is
    seen at its place whole, or not at all; nothing outlives the pilot."""
    world.service.ranges = ranges(4)
    consume(world, ALL, zip_ranges=2)
    world.service.refuse = lambda verb, body: None
    pilot = world.start()
    world.service.wait_for("event_reports")
    assert pilot.wait(DEADLINE_S) == 0
    before = len(published(world))
    world.service.ranges = ranges(2, lfn="other.txt", file=2)
    consume(world, ALL, zip_ranges=2)
    assert world.start(JEDI_CRASH=f"pilot:{point}").wait(DEADLINE_S) == 137
    assert len(reported(world)) == 4
    assert len(published(world)) == before + (point == "event_report")
    wait_until(lambda: not world.leftovers(), "the payload lives on")


def test_sigkill_loses_nothing_reported(world: World) -> None:
    """SIGKILL between zips: all that was reported lies at the storage."""
    world.service.ranges = ranges(50)
    consume(world, ALL.replace("assert make", "time.sleep(0.01); assert make"), zip_ranges=3)
    pilot = world.start()
    wait_until(lambda: len(world.service.event_reports()) >= 2, "no reports")
    end(pilot, signal.SIGKILL)
    wait_until(lambda: not world.leftovers(), "the payload lives on")
    stored = {name.split("/")[0] for outputs in published(world).values() for name in outputs}
    assert set(reported(world)) <= stored


def test_reports_wait_for_the_service(world: World) -> None:
    """The service is away when the payload reports: the payload goes on, and the report follows."""
    world.service.ranges = ranges(4)
    away = {"event_reports": 2}

    def refuse(verb: str, body: dict[str, Any]) -> int | None:
        if away.get(verb, 0) > 0:
            away[verb] -= 1
            return 503
        return None

    world.service.refuse = refuse
    consume(world, ALL, zip_ranges=1)
    assert world.start().wait(DEADLINE_S) == 0
    answered = world.service.event_reports()[2:]
    assert sorted(e["id"] for r in answered for z in r["zips"] for e in z["ranges"]) == sorted(
        one["id"] for one in ranges(4)
    )


def test_a_lost_answer_is_asked_for_again(world: World) -> None:
    """A request that got no answer is repeated with its id: no range is lost."""
    world.service.ranges = ranges(4)
    seen: list[str] = []

    def refuse(verb: str, body: dict[str, Any]) -> int | None:
        if verb == "event_ranges":
            seen.append(body["request_id"])
            if len(seen) == 1:
                world.service._event_ranges(body)  # answered, but nobody hears it
                return 503
        return None

    world.service.refuse = refuse
    consume(world, ALL)
    assert world.start().wait(DEADLINE_S) == 0
    assert seen == [seen[0]] * 2
    assert len(reported(world)) == 4


@pytest.mark.parametrize("status, said", [("stale", None), ("killed", "cancelled")])
def test_a_consumer_that_is_not_wanted(world: World, status: str, said: str | None) -> None:
    """The service answers stale or killed: the payload ends, nothing is published."""
    world.service.ranges = ranges(4)
    world.service.ranges_status = status
    consume(world, 'ask({"get": 1}); time.sleep(600)')
    if status == "stale":
        world.service.verdicts = {"finished": "stale", "failed": "stale"}
    assert world.start().wait(DEADLINE_S) == 0
    ends = {one["status"] for one in world.service.reports()} - {"starting", "running"}
    assert ends == ({said} if said else set())
    assert not (world.storage / ".eventservice").exists()


def test_ordinary_payloads_have_no_such_descriptors(world: World) -> None:
    world.run("env; ls /proc/self/fd | tr '\\n' ' '")
    printed = world.log()["payload.stdout"].decode()
    assert "JEDI_EVENTS" not in printed
    assert printed.endswith("0 1 2 3 ")  # 3 is the directory that ls reads


def test_copies_of_a_job_have_no_channel(world: World) -> None:
    """A copy processes its events as an ordinary job does (useJobCloning)."""
    world.run("env", events=events(world, mode="cloning", clone="runonce"))
    assert "JEDI_EVENTS" not in world.log()["payload.stdout"].decode()


@pytest.mark.parametrize("command", ["python3 simulate.py", "sh simulate.sh"])
def test_the_examples(world: World, command: str) -> None:
    """Both payloads simulate each of 24 events of two files once; the numbers are in the zips."""
    files = {}
    for i in range(2):
        lines = [f"{12 * i + n} {1000 + 12 * i + n}\n" for n in range(1, 13)]
        files[f"seeds{i}.txt"] = "".join(lines).encode()
    world.service.ranges = [r for i, lfn in enumerate(files) for r in ranges(4, 3, lfn, i + 1)]
    scripts = [(path.name, path.read_bytes()) for path in EXAMPLES.iterdir() if path.is_file()]
    world.order(
        command,
        sandbox=world.sandbox(tar_gz(*scripts)),
        inputs=[world.file(name, content) for name, content in files.items()],
        events=events(world, n_ranges=3, zip_ranges=5),
    )
    assert world.start().wait(DEADLINE_S) == 0
    assert world.service.reports()[-1]["status"] == "finished", world.log()
    outputs = [text for zipped in published(world).values() for text in zipped.values()]
    numbers = [int(line.split()[0]) for text in outputs for line in text.decode().splitlines()]
    assert sorted(numbers) == list(range(1, 25))
    assert len(reported(world)) == 8


# ---------------------------------------------------------------- merging


def piece(
    world: World, name: str, members: dict[str, dict[str, bytes]], wanted: list[str] | None = None
) -> dict[str, Any]:
    """A zip at the storage, as the service describes it to the job that merges it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for range_id, outputs in members.items():
            archive.writestr(f"{range_id}/", b"")
            for output, content in outputs.items():
                archive.writestr(f"{range_id}/{output}", content)
    content = buffer.getvalue()
    path = world.storage / name
    path.write_bytes(content)
    return {
        "endpoint": "DISK",
        "lfn": name,
        "path": str(path),
        "fsize": len(content),
        "adler32": f"{zlib.adler32(content):08x}",
        "members": list(members) if wanted is None else wanted,
    }


def test_pieces_are_merged_in_order(world: World) -> None:
    """Ranges of two files in two zips, shuffled, with one that is not done: the merge job reads the
    others by file and first event (7 before 30, as numbers). The service names them in two answers;
    the first zip has ranges of both, and is read twice."""
    first = piece(
        world,
        "a.zip",
        {
            "5-9-2-1-10": {"out": b"file 2 event 1\n"},
            "5-9-1-30-10": {"out": b"file 1 event 30\n"},
            "5-9-1-99-10": {"out": b"not done\n"},
        },
        wanted=["5-9-1-30-10"],
    )
    other = piece(
        world,
        "b.zip",
        {
            "5-9-1-7-9": {"out": b"file 1 event 7\n"},
            "5-9-1-8-9": {},
            "5-9-1-1-9": {"out": b"file 1 event 1\n"},
        },
    )
    world.service.pages = [[first, other], [{**first, "members": ["5-9-2-1-10"]}]]
    world.order(
        "cat pieces/*/* > merged; xargs cat < jedi_pieces.txt | cmp - merged",
        pieces=True,
        outputs=[{"lfn": "merged", "source_name": None, "allow_missing": False}],
    )
    assert world.start().wait(DEADLINE_S) == 0
    last = world.service.reports()[-1]
    assert last["status"] == "finished", last
    assert world.staged()["merged"].decode().splitlines() == [
        "file 1 event 1",
        "file 1 event 7",
        "file 1 event 30",
        "file 2 event 1",
    ]
    assert last["measures"]["input_bytes"] == 2 * first["fsize"] + other["fsize"]


def test_a_merge_job_that_is_not_wanted(world: World) -> None:
    """The service answers stale: the payload does not start, and the pilot says no more."""
    world.service.pages, world.service.ranges_status = [[]], "stale"
    world.order("true", pieces=True)
    assert world.start().wait(DEADLINE_S) == 0
    assert {one["status"] for one in world.service.reports()} <= {"starting"}


@pytest.mark.parametrize("again", ["5-9-1-1-10", "5-9-1-1-9"])
def test_a_range_that_the_service_names_twice(world: World, tmp_path: Path, again: str) -> None:
    """In two answers, in the same attempt or another one: the merge would have its events twice."""
    pages = [
        [piece(world, name, {one: {"out": b"x"}})]
        for name, one in (("a.zip", "5-9-1-1-10"), ("b.zip", again))
    ]
    with pytest.raises(PayloadFailure, match="twice"):
        event_pieces.stage_pieces(pages, tmp_path, None, lambda: None)


def test_damaged_pieces_are_named(world: World) -> None:
    """One zip is missing, one damaged, one truncated: all are reported with their problems, so that
    just their ranges are processed again."""
    pieces = [piece(world, f"{i}.zip", {f"5-9-1-{i + 1}-10": {"out": b"x" * 99}}) for i in range(4)]
    Path(pieces[0]["path"]).unlink()
    Path(pieces[1]["path"]).write_bytes(Path(pieces[1]["path"]).read_bytes().replace(b"x", b"y"))
    os.truncate(pieces[2]["path"], 40)
    world.service.pages = [pieces[:2], pieces[2:]]
    last = world.run("true", pieces=True)
    assert (last["status"], last["error_code"]) == ("failed", "stagein_missing")
    assert last["bad_inputs"] == [
        {"lfn": "0.zip", "problem": "missing"},
        {"lfn": "1.zip", "problem": "broken"},
        {"lfn": "2.zip", "problem": "broken"},
    ]


def test_a_zip_that_lacks_a_range_is_damaged(world: World, tmp_path: Path) -> None:
    one = piece(world, "a.zip", {"5-9-1-1-10": {"out": b"x"}}, ["5-9-1-1-10", "5-9-1-2-10"])
    with pytest.raises(PayloadFailure) as error:
        event_pieces.stage_pieces([[one]], tmp_path, None, lambda: None)
    assert error.value.code == "stagein_checksum"
    assert error.value.bad_inputs == {"a.zip": "broken"}


def test_a_compressed_zip_is_damaged(world: World, tmp_path: Path) -> None:
    """Its members could be of any size: pilots store them as they are."""
    one = piece(world, "a.zip", {"5-9-1-1-10": {"out": b"x"}})
    with zipfile.ZipFile(one["path"], "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("5-9-1-1-10/out", b"0" * 10_000)
    content = Path(one["path"]).read_bytes()
    one |= {"fsize": len(content), "adler32": f"{zlib.adler32(content):08x}"}
    with pytest.raises(PayloadFailure, match="out is compressed") as error:
        event_pieces.stage_pieces([[one]], tmp_path, None, lambda: None)
    assert error.value.bad_inputs == {"a.zip": "broken"}


def test_members_of_zips_stay_in_their_directory(world: World, tmp_path: Path) -> None:
    """A zip with a path that leads elsewhere is refused."""
    one = piece(world, "a.zip", {"5-9-1-1-10": {"../../escaped": b"x"}})
    with pytest.raises(PayloadFailure):
        event_pieces.stage_pieces([[one]], tmp_path, None, lambda: None)
    assert not list(world.home.rglob("escaped")) + list(tmp_path.parent.rglob("escaped"))


def test_long_lines_end() -> None:
    """A line of more than 1 MiB without an end is a mistake; lines in parts are put together."""
    read, write = os.pipe()
    reader = event_lines.LineReader(read)
    os.write(write, b'{"get"')
    assert list(reader.lines()) == []
    os.write(write, b': 1}\n\n{"get": 2}\n')
    found = [event_lines.parse(line) for line in reader.lines()]
    assert found == [event_lines.GetRanges(1), event_lines.GetRanges(2)]
    with pytest.raises(event_lines.LineMistake):
        for _ in range(40):
            os.write(write, b"x" * 40_000)
            list(reader.lines())
    os.close(read)
    os.close(write)
