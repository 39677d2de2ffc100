"""Who somebody is, and who may steer the system."""

# Raw UPDATEs: every user is an ordinary one, also whoever runs the test.

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from support.calls import call
from support.cli_jedi import Shell
from support.races import blocked
from support.service_process import bare_world, served

from jedi.core.errors import Forbidden, Refused
from jedi.core.settings import Settings, account_name, caller
from jedi.host.home import Home
from jedi.service.users import operators
from jedi.service.users.roles import change
from jedi.standalone.backup import backup, restore
from jedi.standalone.embedded import Embedded
from jedi.standalone.installation import Installation
from jedi.standalone.up import _prepare
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.users import users

ME = pwd.getpwuid(os.geteuid()).pw_name
QUEUE = "- {queue_id: 4, queue_name: user, queue_type: user, vo: local}\n"
RULE = "- {rule_id: 1, error_code: oom, action: no_retry}\n"
STEERING: list[tuple[str, ...]] = [
    ("user", "set", "mallory", "--role", "operator"),
    ("user", "set", "mallory", "--running-jobs", "0"),
    ("config", "set", "pilot.idle_s", "30"),
    ("config", "unset", "pilot.idle_s"),
    ("config", "preset", "current"),
    ("site", "import", "sites.yaml"),
    ("site", "set", "ALPHA", "nslots=3", "--comment", "why not"),
    ("site", "token", "ALPHA"),
    ("site", "token", "ALPHA", "--revoke", "abc"),
    ("endpoint", "import", "endpoints.yaml"),
    ("network", "import", "links.yaml"),
    ("queue", "import", "queues.yaml"),
    ("retry-rule", "import", "rules.yaml"),
    ("retry-rule", "set", "1", "active=false"),
    ("db", "upgrade"),
    ("db", "downgrade", "base"),
]
FILES = {
    "sites.yaml": "- {site: ALPHA}\n",
    "endpoints.yaml": "- {ddm_endpoint: A, path: a}\n",
    "links.yaml": "- {src: A, dst: B, closeness: 3}\n",
    "queues.yaml": QUEUE,
    "rules.yaml": RULE,
}


def test_names_in_the_environment_make_nobody_else_of_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/reference/payload-and-processes.md#identity: the uid of the peer or process identifies a
    user, never an environment variable."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "mallory")
    assert caller() == ME
    assert account_name(4_000_000_000) == "4000000000"


@pytest.fixture
def others(engine: Engine, home: Path, tmp_path: Path) -> Shell:
    """A system whose operator is somebody else, though we say that we are that one."""
    with engine.begin() as tx:
        users.PUT_USER.run(tx, user="olga", role="operator", gridpref=None, cap=None)
        users.PUT_USER.run(tx, user=ME, role="production", gridpref=None, cap=None)
    for name, said in FILES.items():
        (tmp_path / name).write_text(said)
    url = engine.url.render_as_string(hide_password=False)
    return Shell(JEDI_HOME=str(home), JEDI_DATABASE_URL=url, LOGNAME="olga", USER="olga")


@pytest.mark.usefixtures("bare_service")
def test_only_operators_steer(
    others: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only operators steer the system (docs/reference/payload-and-processes.md#identity)."""
    monkeypatch.chdir(tmp_path)
    before = facts(others)
    for words in STEERING:
        said = others.run(*words, code=1)
        refusal = f"{ME} is no operator, and only operators steer JEDI: ask olga."
        assert refusal in said, words
    assert facts(others) == before


def facts(shell: Shell) -> list[Any]:
    looks = (
        ["config", "list"],
        ["site", "list"],
        ["endpoint", "list"],
        ["network", "list"],
        ["queue", "list"],
        ["retry-rule", "list"],
        ["db", "check"],
    )
    return [shell.json(*words) for words in looks]


def test_the_only_operator_stays_one(engine: Engine) -> None:
    with engine.begin() as tx:
        users.PUT_USER.run(tx, user="olga", role="operator", gridpref=None, cap=None)
        with pytest.raises(Refused, match="olga is the only operator"):
            change(call(tx, "olga"), "olga", "user", None)
        with pytest.raises(Forbidden, match="ask olga"):
            change(call(tx, "me"), "me", "operator", None)
        change(call(tx, "olga"), "me", "operator", None)
        assert change(call(tx, "olga"), "olga", "user", None).role == "user"
        with pytest.raises(Forbidden, match="ask me"):
            change(call(tx, "olga"), "olga", "operator", None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a home to another account")
def test_the_first_operator_created_the_home(empty_url: str, home: Path) -> None:
    """docs/reference/payload-and-processes.md#identity: the first operator created the home."""
    os.chown(home, 1, 1)
    installation = place_of(home, empty_url)
    engine = connect(empty_url)
    _prepare(engine, installation, None)
    with engine.begin() as tx:
        creator = pwd.getpwuid(1).pw_name
        assert installation.home.creator == creator
        assert users.OPERATORS.rows(tx) == [creator]
    os.chown(home, 0, 0)
    _prepare(engine, installation, None)
    with engine.begin() as tx:
        assert users.OPERATORS.rows(tx) == [
            creator
        ]  # there is one: nobody else becomes one by a start
    engine.dispose()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a home to another account")
def test_root_steers_its_own_database_whosever_directory_the_home_is(
    empty_url: str, home: Path
) -> None:
    """As a volume of a container is: the embedded database lets nobody in but who runs it, so that
    an operator by the directory's owner would be one that can't come in."""
    os.chown(home, 1, 1)
    installation = Installation(Home(home), Embedded(Home(home)), Settings(home, empty_url))
    engine = connect(empty_url)
    _prepare(engine, installation, None)
    with engine.begin() as tx:
        assert users.OPERATORS.rows(tx) == [ME]
    engine.dispose()


def place_of(home: Path, url: str) -> Installation:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JEDI_HOME", str(home))
        patch.setenv("JEDI_DATABASE_URL", url)
        return Installation.current()


def test_whoever_makes_the_schema_by_hand_is_the_first_operator(empty_url: str, home: Path) -> None:
    """As systemd has it, where nobody says `jedi up`."""
    shell = Shell(JEDI_HOME=str(home), JEDI_DATABASE_URL=empty_url, LOGNAME="mallory")
    shell.run("db", "upgrade")
    engine = connect(empty_url)
    with served(bare_world(engine, home)):
        assert shell.run("config", "set", "pilot.idle_s", "30") == "pilot.idle_s = 30.0\n"
    with engine.begin() as tx:
        assert users.OPERATORS.rows(tx) == [ME]
    engine.dispose()


def test_a_restored_system_is_steered_by_who_restored_it(
    engine: Engine, database_url: str, empty_url: str, home: Path, tmp_path: Path
) -> None:
    """The operators of the backup may have no account on this machine."""
    with engine.begin() as tx:
        users.PUT_USER.run(tx, user="olga", role="operator", gridpref=None, cap=None)
        tx.exec_driver_sql("DROP SCHEMA seen CASCADE")
    file = backup(place_of(home, database_url), tmp_path / "one")
    if os.geteuid() == 0:
        os.chown(home, 1, 1)
        with pytest.raises(Forbidden, match=f"is a home of {pwd.getpwuid(1).pw_name}"):
            restore(place_of(home, empty_url), file)
        os.chown(home, 0, 0)
    restore(place_of(home, empty_url), file)
    again = connect(empty_url)
    with again.begin() as tx:
        assert users.OPERATORS.rows(tx) == sorted({"olga", ME})
        operators.must_be_operator(tx, ME)
    again.dispose()


def test_a_process_of_its_own_is_its_account(others: Shell) -> None:
    """Not only in this process: LOGNAME of a real shell changes nothing."""
    asked = "from jedi.core.settings import caller; print(caller())"
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env=others.environment,
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stdout == f"{ME}\n"


@pytest.mark.parametrize(
    ("of_ann", "of_bob", "refusal"),
    [("bob", "ann", Forbidden), ("ann", "bob", Refused)],
    ids=["each the other", "each themselves"],
)
def test_two_demotions_at_once_leave_an_operator(
    engine: Engine, of_ann: str, of_bob: str, refusal: type[Exception]
) -> None:
    """The second one waits for the first, and sees the roles as they are then."""
    with engine.begin() as tx:
        tx.execute(text("UPDATE jedi_users SET role = 'user'"))
        for name in ("ann", "bob"):
            users.PUT_USER.run(tx, user=name, role="operator", gridpref=None, cap=None)

    def second(tx: Connection) -> None:
        with pytest.raises(refusal):
            change(call(tx, "bob"), of_bob, "user", None)

    with engine.connect() as tx:
        change(call(tx, "ann"), of_ann, "user", None)
        with blocked(engine, second):
            tx.commit()
    with engine.begin() as tx:
        assert len(users.OPERATORS.rows(tx)) == 1
