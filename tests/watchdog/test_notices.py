"""Users are told of their tasks and jobs: what is written, and that it arrives, whatever happens to
those who take it: real HTTP and SMTP servers on this machine."""

# Raw UPDATEs: owners of tasks whose builder knows one user.

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from sqlalchemy import Engine, event, text
from support.calls import call
from support.cli_jedi import Shell
from support.commanding import OWNER, everything, running
from support.commanding import jobs as command_jobs
from support.job_rows import Made, make_jobs
from support.receivers import Dripper, Receiver, Relay

from jedi.agent.base import World
from jedi.core import clock, webhookkey
from jedi.core.errors import BadInput, Forbidden, NotFound
from jedi.core.settings import caller
from jedi.host.home import Home
from jedi.service.jobs import job_details
from jedi.service.users import notices
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.taskbuffer.tasks.tasks import Move, move_tasks
from jedi.taskbuffer.users import outbox
from jedi.taskbuffer.users import users as user_rows
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.delivery import Notification, email_of, sign
from jedi.watchdog.dog import Counts, walk

START = datetime(2031, 5, 4, 3, 2, 1, tzinfo=UTC)


@pytest.fixture
def later() -> Iterator[Callable[[float], None]]:
    """Turns the clock on by so many seconds; it stands still meanwhile."""
    clock.turn_to(START)
    yield lambda seconds: clock.turn_to(clock.now() + timedelta(seconds=seconds))
    clock.turn_to(None)


def deliver(world: World) -> Counts:
    world.refresh()
    return walk(world, DOGS["notifier"])


def written(world: World) -> list[Any]:
    query = text(
        "SELECT topic, channel, username, urgent, payload, attempts, error, sent_at "
        "FROM jedi_outbox ORDER BY message_id"
    )
    with world.engine.begin() as tx:
        return list(tx.execute(query))


def ask(world: World, user: str = OWNER, **wanted: Any) -> str | None:
    with world.engine.begin() as tx:
        home = Home(world.settings.home)
        return notices.notify(call(tx, user, home=home), user, **wanted).secret


def of(world: World, n: int) -> Made:
    """Jobs of the owner that a pilot has."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, n)
        for table in ("jedi_tasks", "jedi_jobs"):
            tx.execute(text(f"UPDATE {table} SET username = :me"), {"me": OWNER})
        move_jobs(
            tx, [JobMove(job, "sent", "test", "t") for job in made.jobs], "test", ["activated"]
        )
    return made


def end(world: World, *ends: JobEnd) -> None:
    with world.engine.begin() as tx:
        assert len(job_ends.end_jobs(tx, ends, "test")) == len(ends)


def finish(world: World, made: Made) -> None:
    with world.engine.begin() as tx:
        for status in ("prepared", "done"):
            move_tasks(tx, [Move(made.task, None, status, "inputs_done", "All is done.")], "test")


# ------------------------------------------------------------------------- what is written


def test_nobody_is_told_who_did_not_ask(world: World) -> None:
    ask(world, "eve", webhook="http://127.0.0.1:9/", about="jobs")
    made = of(world, 1)
    end(world, JobEnd(made.jobs[0], "cancelled", "cancelled_by_user", "r"))
    finish(world, made)
    assert written(world) == []


def test_of_tasks_alone(world: World) -> None:
    ask(world, mail="me@example.org")
    made = of(world, 1)
    end(world, JobEnd(made.jobs[0], "cancelled", "cancelled_by_user", "r"))
    finish(world, made)
    [message] = written(world)
    assert (message.channel, message.username, message.urgent) == ("mail", OWNER, False)
    assert message.payload["status"] == "done"
    assert message.payload["reason"] == "All is done."


def test_no_mail_about_a_task_that_wants_none(world: World) -> None:
    ask(world, mail="me@example.org", webhook="http://127.0.0.1:9/", about="jobs")
    made = of(world, 1)
    with world.engine.begin() as tx:
        tx.execute(text("""UPDATE jedi_taskparams SET taskparams = '{"noEmail": true}'"""))
    end(world, JobEnd(made.jobs[0], "cancelled", "cancelled_by_user", "r"))
    finish(world, made)
    assert [message.channel for message in written(world)] == ["webhook", "webhook"]


def test_a_job_that_is_tried_again_is_no_news(world: World) -> None:
    ask(world, webhook="http://127.0.0.1:9/", about="jobs")
    task = running(world, files=1)
    for attempt in (1, 2, 3):
        [*_, job] = command_jobs(world, task, "activated")
        end(world, JobEnd(job, "failed", "payload_exit", "It exited with 7.", None, "payload"))
        assert len(written(world)) == (attempt == 3)
        everything(world)
    message = written(world)[0].payload
    assert (message["panda_id"], message["pgi_substate"]) == (job, "error")
    assert (message["reason_code"], message["outputs"]) == ("payload_exit", 0)


def test_holds_are_told_once(world: World) -> None:
    ask(world, webhook="http://127.0.0.1:9/", about="jobs")
    task = running(world, files=2)
    one, other = command_jobs(world, task, "activated")
    with world.engine.begin() as tx:
        job_details.hold(tx, OWNER, [one, other], "odd")
        job_details.hold(tx, OWNER, [one, other], "odd")
    assert [m.payload["pgi_state"] for m in written(world)] == ["Pre-processing-Hold"] * 2
    assert written(world)[0].payload["reason"] == f"It was held by {OWNER}: odd."
    with world.engine.begin() as tx:
        job_details.release(tx, OWNER, [one], None)
        job_details.cancel(tx, OWNER, [other], None)
    assert [m.payload["pgi_state"] for m in written(world)[2:]] == ["Failed-Cancelled"]


def test_a_hold_for_inputs_names_them_and_their_places(world: World) -> None:
    """PGI document, "User Job submission": "manual staging (where the Execution Service notifies
    the Submitter the location of the file(s) to be staged)". One job reads both files of demo:in
    (b"0\\n", b"1\\n") at SITE_A. Their adler32 by hand: a = 1 + 0x30 + 0x0a = 0x3b,
    b = 0x31 + 0x3b = 0x6c; for "1", a = 0x3c and b = 0x6e."""
    ask(world, webhook="http://127.0.0.1:9/", about="jobs")
    running(world, files=2, nFilesPerJob=2, holdJobs=["manual_stage_in"])
    [message] = written(world)
    facts = message.payload
    assert (facts["pgi_state"], facts["site"], facts["n_inputs"]) == (
        "Pre-processing-Hold",
        "SITE_A",
        2,
    )
    place = {"dataset": "demo:in", "endpoint": "SITE_A_DATADISK", "size": 2}
    assert facts["inputs"] == [
        {**place, "lfn": "in000000", "adler32": "006c003b"},
        {**place, "lfn": "in000001", "adler32": "006e003c"},
    ]
    mail = email_of("jedi@here", Notification("t", "me@here", None, False, facts))
    assert mail.get_content().splitlines().count("  demo:in/in000001 to SITE_A_DATADISK") == 1


def test_a_hold_in_a_slot_is_urgent(world: World) -> None:
    ask(world, webhook="http://127.0.0.1:9/", about="jobs")
    made = of(world, 1)
    with world.engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_jobs SET hold_kind = 'failed_recoverable', hold_since = jedi_now()")
        )
        outbox.notify_of_jobs(tx, made.jobs)
        outbox.notify_of_jobs(tx, made.jobs)
    assert [message.urgent for message in written(world)] == [True]


def test_what_is_undone_was_never_told(world: World) -> None:
    ask(world, webhook="http://127.0.0.1:9/", about="jobs")
    made = of(world, 1)
    with pytest.raises(ZeroDivisionError), world.engine.begin() as tx:
        job_ends.end_jobs(tx, [JobEnd(made.jobs[0], "cancelled", "killed", "r")], "test")
        raise ZeroDivisionError
    assert written(world) == []


def test_many_cost_as_many_statements_as_one(world: World) -> None:
    ask(world, webhook="http://127.0.0.1:9/", about="jobs")

    def statements(n: int) -> int:
        made = of(world, n)
        with counted(world.engine) as found:
            end(world, *(JobEnd(job, "cancelled", "killed", "r") for job in made.jobs))
        return len(found)

    assert statements(1) == statements(30)
    assert len(written(world)) == 31


@contextmanager
def counted(engine: Engine) -> Iterator[list[str]]:
    """The statements executed meanwhile."""
    found: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        found.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)


# ------------------------------------------------------------------------------ that it comes


@pytest.mark.usefixtures("later")
def test_a_webhook_is_told_and_can_tell_who_tells(world: World) -> None:
    receiver = Receiver()
    with receiver.up():
        secret = ask(world, webhook=receiver.url)
        finish(world, of(world, 1))
        assert deliver(world) == Counts(delivered=1)
        assert deliver(world) == Counts()
    [(headers, body)] = receiver.got
    assert headers["webhook-signature"] == sign(
        secret or "", headers["webhook-id"], headers["webhook-timestamp"], body
    )
    assert headers["webhook-timestamp"] == str(int(START.timestamp()))
    [message] = receiver.messages
    assert (message["id"], message["about"], message["status"]) == (
        headers["webhook-id"],
        "task",
        "done",
    )
    assert message["time"].startswith("2031-05-04T03:02:01")


@pytest.mark.usefixtures("later")
def test_the_database_does_not_tell_secrets(world: World) -> None:
    """ "Webhook secrets stand in clear in database and backups": they are made of a salt, which is
    there, and a key, which is in the home and only its owner's. With another key nothing is posted,
    and the message says what to do. A secret that was in clear before signs on."""
    home, receiver = Home(world.settings.home), Receiver()
    with receiver.up():
        secret = ask(world, webhook=receiver.url) or ""
        with world.engine.begin() as tx:
            kept = tx.scalar(text("SELECT webhook_secret FROM jedi_users"))
        assert secret.removeprefix("whsec_") not in kept
        assert home.webhook_key.stat().st_mode & 0o777 == 0o600
        assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
        good = home.webhook_key.read_bytes()
        home.webhook_key.write_bytes(b"of another home")
        finish(world, of(world, 1))
        assert deliver(world) == Counts(undelivered=1)
        assert "jedi user notify" in written(world)[-1].error
        assert not receiver.got
        home.webhook_key.write_bytes(good)
        assert webhookkey.secret(good, OWNER, kept) == secret
        assert webhookkey.secret(good, "eve", kept) != secret


def test_a_sealed_secret_needs_the_key_and_the_user() -> None:
    """A seal opens with the key of its home, for its user alone. No two seals are alike."""
    key, clear = b"k" * 32, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" + "A" * 40
    seals = [webhookkey.seal(key, OWNER, clear) for _ in range(2)]
    assert seals[0].rpartition("_")[2] != seals[1].rpartition("_")[2]
    assert [webhookkey.secret(key, OWNER, one) for one in seals] == [clear, clear]
    with pytest.raises(NotFound, match="that this home lacks"):
        webhookkey.secret(b"other", OWNER, seals[0])


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of its specification."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    signed = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_an_hour_of_outage(world: World, later: Callable[[float], None]) -> None:
    """Everybody is away for an hour: nothing is lost, and who is away is not asked for each
    message."""
    receiver, relay = Receiver(), Relay()
    with receiver.up(), relay.up():
        ask(world, webhook=receiver.url, mail="me@example.org", about="jobs")
        with world.engine.begin() as tx:
            knobs.put(tx, "notify.smtp_host", "127.0.0.1", "test")
            knobs.put(tx, "notify.smtp_port", relay.port, "test")
        made = of(world, 3)
    end(world, *(JobEnd(job, "cancelled", "cancelled_by_user", "r") for job in made.jobs))
    tries = 0
    for _ in range(720):
        later(5)
        tries += deliver(world)["undelivered"] > 0
    assert 5 < tries < 15
    assert len({message.attempts for message in written(world)}) == 1
    assert "refused" in written(world)[0].error
    finish(world, made)
    with receiver.up(), relay.up():
        later(600)
        assert deliver(world) == Counts(delivered=8)
        assert deliver(world) == Counts()
    assert [message["about"] for message in receiver.messages] == ["job"] * 3 + ["task"]
    assert len({message["id"] for message in receiver.messages}) == 4
    mail = relay.got[-1].decode()
    assert f"Subject: JEDI: task {made.task} (test) is done" in mail
    assert "To: me@example.org" in mail
    assert all(message.sent_at for message in written(world))


def test_who_dies_after_a_delivery_delivers_again(
    world: World, later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver()
    with receiver.up():
        ask(world, webhook=receiver.url)
        finish(world, of(world, 1))
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(outbox, "note", die)
            deliver(world)
        assert deliver(world) == Counts()
        later(60)
        assert deliver(world) == Counts(delivered=1)
    first, second = receiver.messages
    assert first == second  # by its id, the receiver knows it


def die(*_: object) -> None:
    raise KeyboardInterrupt


def test_answers_of_receivers(world: World, later: Callable[[float], None]) -> None:
    """What a receiver refuses keeps nothing else waiting, and no redirect is followed."""
    receiver, elsewhere = Receiver(), Receiver()
    with receiver.up(), elsewhere.up():
        ask(world, webhook=receiver.url, about="jobs")
        made = of(world, 2)
        end(world, *(JobEnd(job, "cancelled", "cancelled_by_user", "r") for job in made.jobs))
        for status, posts in ((302, 2), (400, 2), (503, 1), (200, 2)):
            receiver.status, receiver.got = status, []
            receiver.location = elsewhere.url if status == 302 else ""
            deliver(world)
            assert (len(receiver.got), len(elsewhere.got)) == (posts, 0)
            if status != 200:
                errors = [message.error for message in written(world)]
                assert errors[0] == f"The receiver answered {status}."
            later(600)


def test_a_slow_receiver_keeps_nobody_waiting(world: World, later: Callable[[float], None]) -> None:
    """It gets what it can take in a turn, and the rest in others."""
    receiver = Receiver()
    receiver.slow_s = 0.4
    with world.engine.begin() as tx:
        knobs.put(tx, "notify.timeout_s", 1.0, "test")
    with receiver.up():
        ask(world, webhook=receiver.url, about="jobs")
        made = of(world, 12)
        end(world, *(JobEnd(job, "cancelled", "cancelled_by_user", "r") for job in made.jobs))
        assert 0 < deliver(world)["undelivered"] < 12
        receiver.slow_s = 0.0
        later(600)
        deliver(world)
    assert len({message["id"] for message in receiver.messages}) == 12


def test_who_answers_byte_by_byte_has_no_more_time_than_others(world: World) -> None:
    dripper = Dripper()
    with world.engine.begin() as tx:
        knobs.put(tx, "notify.timeout_s", 0.5, "test")
    with dripper.up():
        ask(world, webhook=dripper.url)
        finish(world, of(world, 1))
        assert deliver(world) == Counts(undelivered=1)
        assert dripper.hung_up.wait(10)
    assert written(world)[0].error == "The receiver did not answer within 0.5 s."


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def mail_by(world: World, relay: Relay, **settings: object) -> None:
    with world.engine.begin() as tx:
        for key, value in {"host": "localhost", "port": relay.port, **settings}.items():
            knobs.put(tx, f"notify.smtp_{key}", value, "test")


@pytest.mark.filterwarnings("ignore:Requiring AUTH")  # the relay does not see TLS around it
@pytest.mark.parametrize("how", ["starttls", "tls"])
def test_mail_to_a_relay_that_wants_tls_and_a_login(
    world: World,
    later: Callable[[float], None],
    authority: trustme.CA,
    how: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever is wrong is told, and no password is in it, nor in the database."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(tls)
    relay, file = Relay(tls, implicit=how == "tls"), tmp_path / "password"
    relay.user = ("jedi", "right-secret")
    ask(world, mail="me@example.org")
    finish(world, of(world, 1))
    errors = []

    def tried() -> bool:
        done = deliver(world) == Counts(delivered=1)
        errors.append(written(world)[0].error or "")
        later(3600)
        return done

    with relay.up():
        mail_by(world, relay, user="jedi", password_file=str(file))
        assert not tried()
        mail_by(world, relay, tls=how)
        assert not tried()
        with authority.cert_pem.tempfile() as trusted:
            monkeypatch.setenv("SSL_CERT_FILE", trusted)
            assert not tried()
            file.write_text("wrong-secret\n")
            assert not tried()
            assert relay.got == []
            file.write_text("right-secret\n")
            assert tried()
    said = ["without TLS", "certificate verify failed", "No such file", "(535"]
    assert all(one in error for one, error in zip(said, errors, strict=False))
    assert "secret" not in "".join(errors)
    assert b"To: me@example.org" in relay.got[0]


def test_a_bad_address_keeps_no_mail_of_others(
    world: World, later: Callable[[float], None]
) -> None:
    relay = Relay()
    relay.refused = "gone@"
    with relay.up():
        with world.engine.begin() as tx:
            knobs.put(tx, "notify.smtp_host", "127.0.0.1", "test")
            knobs.put(tx, "notify.smtp_port", relay.port, "test")
        ask(world, mail="gone@example.org")
        finish(world, of(world, 1))
        ask(world, "berta", mail="berta@example.org")
        with world.engine.begin() as tx:
            other = make_jobs(tx, 1)
            tx.execute(
                text(
                    "UPDATE jedi_tasks SET username = 'berta', taskname = E'a\\nBcc: b' "
                    "WHERE jeditaskid = :task"
                ),
                {"task": other.task},
            )
        finish(world, other)
        assert deliver(world) == Counts(delivered=1, undelivered=1)
        assert b"\nBcc" not in relay.got[0].partition(b"\r\n\r\n")[0]
        ask(world, mail="")  # not wanted any more
        later(3600)
        assert deliver(world) == Counts()


# --------------------------------------------------------------------------------- who asks


@pytest.mark.parametrize(
    "wanted",
    [
        {"webhook": "ftp://example.org/"},
        {"webhook": "file:///etc/passwd"},
        {"webhook": "http://"},
        {"webhook": "https://[::1"},
        {"webhook": "http://x y/"},
        {"mail": "me"},
        {"mail": "me@example@org"},
        {"mail": "me@example.org\nBcc: you@example.org"},
        {"mail": "a@b, c@d"},
    ],
)
def test_wrong_addresses(world: World, wanted: dict[str, str]) -> None:
    with pytest.raises(BadInput):
        ask(world, **wanted)


def test_who_may_ask_for_whom(world: World) -> None:
    with world.engine.begin() as tx:
        with pytest.raises(Forbidden):
            notices.notify(call(tx, "eve"), OWNER, mail="eve@example.org")
        user_rows.PUT_USER.run(tx, user="olga", role="operator", gridpref=None, cap=None)
        told = notices.notify(
            call(tx, "olga", home=Home(world.settings.home)),
            OWNER,
            webhook="https://example.org/",
            about="jobs",
        )
        assert (told.webhook, told.about, bool(told.secret)) == (
            "https://example.org/",
            "jobs",
            True,
        )
        assert notices.notify(call(tx, OWNER), OWNER, mail="me@example.org").webhook == told.webhook
        assert notices.notify(call(tx, OWNER), OWNER, webhook="").webhook is None


@pytest.mark.usefixtures("service")
def test_by_hand(world: World) -> None:
    shell = Shell(JEDI_DATABASE_URL=world.settings.database_url or "")
    assert shell.run("user", "notify") == f"{caller()} gets no notices.\n"
    said = shell.run("user", "notify", "--webhook", "https://example.org/", "--about", "jobs")
    assert f"{caller()} gets notices of tasks and jobs at https://example.org/.\n" in said
    assert "whsec_" in said
    said = shell.run("user", "notify", "--mail", "me@example.org", "--webhook", "")
    assert said == f"{caller()} gets notices of tasks and jobs by mail to me@example.org.\n"
    assert "Write https" in shell.run("user", "notify", "--webhook", "example.org", code=2)
    assert "may change the notifications" in shell.run(
        "user", "notify", "eve", "--mail", "e@example.org", code=1
    )
