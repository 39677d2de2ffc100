"""Ways into a session of a browser, and out of it; strangers in front of the pages."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import text
from support.browsing import at, pages, session
from support.forms import hidden
from support.service_process import over, running
from support.task_rows import good, put
from typer.testing import CliRunner

from jedi.agent.base import World
from jedi.api.pages import listen
from jedi.cli import jedi
from jedi.core import clock
from jedi.core.settings import caller
from jedi.host.home import Home
from jedi.monitor import static_files
from jedi.monitor.actions import ACTIONS
from jedi.monitor.all_pages import PAGES
from jedi.monitor.sessions import COOKIE
from jedi.service.users.sessions import LINK_S
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.users import access


@pytest.fixture
def stranger(world: World) -> Iterator[httpx2.Client]:
    """A browser without a session."""
    put(world, good("a:out"))
    with pages(world) as address, httpx2.Client(base_url=address) as found:
        yield found


def link(world: World, target: str = "/tasks") -> str:
    """The link of `jedi open`."""
    with over(Home(world.settings.home)) as unix:
        made = unix.post("/v1/session-links", json={"target": target})
        assert made.status_code == 200, made.text
        return str(made.json()["url"])


def tokens(world: World, user: str) -> list[tuple[str | None, str]]:
    with world.engine.begin() as tx:
        return [(one.name, one.scope) for one in access.TOKENS_OF.rows(tx, user=user)]


def token(client: httpx2.Client) -> str:
    """The token of the client's session."""
    return next(one.value or "" for one in client.cookies.jar if one.name.startswith(COOKIE))


def test_a_link_logs_in_once(world: World, stranger: httpx2.Client) -> None:
    url = link(world, "/tasks?status=running")
    assert url.startswith(str(stranger.base_url))
    came = stranger.get(url)
    assert (came.status_code, came.headers["location"]) == (303, "/tasks?status=running")
    assert "HttpOnly" in came.headers["set-cookie"] and "SameSite=lax" in came.headers["set-cookie"]
    assert caller() in stranger.get("/tasks").text
    assert tokens(world, caller()) == [("browser", "all")]
    stranger.cookies.clear()
    again = stranger.get(url)
    assert again.status_code == 403 and "used, expired or unknown" in again.text
    assert not stranger.cookies
    assert stranger.get("/tasks").headers["location"] == "/login?next=%2Ftasks"


def test_jedi_open_prints_a_link(
    world: World, stranger: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JEDI_HOME", str(world.settings.home))
    done = CliRunner().invoke(jedi.app, ["open", "tasks/1", "--print"])
    assert done.exit_code == 0, done.output
    assert stranger.get(done.stdout.strip()).headers["location"] == "/tasks/1"


@pytest.fixture
def later() -> Iterator[Callable[[timedelta], None]]:
    """Turns the clock forward."""
    yield lambda wait: clock.turn_to(clock.now() + wait)
    clock.turn_to(None)


def test_a_link_holds_for_a_minute(
    world: World, stranger: httpx2.Client, later: Callable[[timedelta], None]
) -> None:
    url = link(world)
    later(timedelta(seconds=LINK_S + 1))
    assert stranger.get(url).status_code == 403
    assert tokens(world, caller()) == []


@pytest.mark.parametrize("way", ["/login/link?code=", "/login/callback?state=s&code="])
def test_wrong_links_and_logins_of_an_address_are_limited(world: World, way: str) -> None:
    """Two at once (here): then 429 with Retry-After, in words for browsers, also for the others."""
    with world.engine.begin() as tx:
        knobs.put(tx, "api.wrong_tokens_burst", 2, "me")
        knobs.put(tx, "api.wrong_tokens_per_s", 0.01, "me")
    world.refresh()
    browser = {"Accept": "text/html"}
    with pages(world) as address, httpx2.Client(base_url=address, headers=browser) as stranger:
        found = [stranger.get(f"{way}{number}") for number in range(3)]
        assert [one.status_code for one in found] == [403, 403, 429]
        assert "sends too many wrong tokens or links" in found[2].text
        assert 50 <= int(found[2].headers["retry-after"]) <= 100
        assert stranger.get("/login/link?code=x").status_code == 429
        assert stranger.get("/login").status_code == 200


def test_a_link_is_no_token_and_kept_as_a_hash(world: World, stranger: httpx2.Client) -> None:
    code = httpx2.URL(link(world)).params["code"]
    for path in ("/v1/tasks", "/v1/sandbox/" + "0" * 64):
        bearer = {"Authorization": f"Bearer {code}"}
        assert stranger.get(path, headers=bearer).status_code in (401, 403)
    with world.engine.begin() as tx:
        assert code not in str(tx.execute(text("SELECT * FROM jedi_tokens")).all())
        assert code not in str(tx.execute(text("SELECT * FROM jedi_audit")).all())


def test_a_link_leads_to_no_other_site(world: World, stranger: httpx2.Client) -> None:
    came = stranger.get(link(world, "//evil.example.org/"))
    assert came.headers["location"] == "/"


def test_a_pasted_token_makes_a_session_of_its_own(world: World, stranger: httpx2.Client) -> None:
    with world.engine.begin() as tx:
        pasted = access.put_user_token(tx, "anna", "laptop", "read", 600.0)
    came = stranger.post("/login", data={"token": pasted, "next": "/tasks/1"})
    assert (came.status_code, came.headers["location"]) == (303, "/tasks/1")
    assert token(stranger) != pasted
    assert tokens(world, "anna") == [("laptop", "read"), ("browser", "read")]
    page = stranger.get("/tasks/1").text
    assert "anna" in page and "/act/" not in page


@pytest.mark.parametrize("wrong", ["", "x" * 43, "e30.e30.e30", "\u00e9 \x00 <script>"])
def test_a_wrong_token_is_refused(stranger: httpx2.Client, wrong: str) -> None:
    came = stranger.post("/login", data={"token": wrong})
    assert came.status_code == 403 and 'role="alert"' in came.text
    assert "<script>" not in came.text and not stranger.cookies


def test_no_other_site_logs_a_browser_in(world: World, stranger: httpx2.Client) -> None:
    with world.engine.begin() as tx:
        known = access.put_user_token(tx, "anna", None, "all", 600.0)
    foreign = {"Origin": "http://evil.example.org"}
    came = stranger.post("/login", data={"token": known}, headers=foreign)
    assert came.status_code == 403 and not stranger.cookies


def test_signing_out_ends_the_session(world: World, stranger: httpx2.Client) -> None:
    stranger.get(link(world))
    known = token(stranger)
    sign = hidden(stranger.get("/tasks"))["sign"]
    for given, headers in (({"sign": "0" * 32}, {}), ({"sign": sign}, {"Origin": "http://x.org"})):
        assert stranger.post("/logout", data=given, headers=headers).status_code == 403
        assert stranger.get("/tasks").status_code == 200
    assert stranger.post("/logout", data={"sign": sign}).headers["location"] == "/login"
    assert not stranger.cookies and tokens(world, caller()) == []
    stranger.cookies.update(at(str(stranger.base_url), {COOKIE: known}))
    assert stranger.get("/tasks").status_code == 303


def test_an_expired_session_ends(
    world: World, stranger: httpx2.Client, later: Callable[[timedelta], None]
) -> None:
    stranger.get(link(world))
    later(timedelta(hours=12, seconds=1))
    assert stranger.get("/tasks").status_code == 303
    assert stranger.get("/live").status_code == 401


def test_two_services_of_a_machine_keep_their_sessions(world: World) -> None:
    """A browser sends the cookies of a host to all its ports."""
    with pages(world) as address, httpx2.Client() as one:
        one.cookies.update(
            at(address, session(world, "anna")),
        )
        one.cookies.set(f"{COOKIE}_1", "of another service")
        assert one.get(f"{address}/tasks").status_code == 200


def test_the_pages_have_an_address_of_their_own(world: World) -> None:
    """Strangers on this machine see the login and static files, and do nothing."""
    [task] = put(world, good("a:out"))
    with socket.create_server(("127.0.0.1", 0)) as taken, world.engine.begin() as tx:
        knobs.put(tx, "api.page", f"127.0.0.1:{taken.getsockname()[1]}", "me")
        tx.commit()
        home = Home(world.settings.home)
        with running(world) as service:
            assert home.page_url and home.page_url != f"http://127.0.0.1:{taken.getsockname()[1]}"
            with httpx2.Client(base_url=home.page_url) as stranger:
                _sees_nothing(stranger, task)
                _acts_on_nothing(stranger, task)
                assert stranger.get(link(world)).status_code == 303
                assert "registered" in stranger.get(f"/tasks/{task}").text
            service.send_signal(signal.SIGTERM)
            service.wait()
            assert home.page_url is None


def test_links_stay_although_another_home_leaves_the_port(tmp_path: Path) -> None:
    """The port of the knob was taken at the first start. It is free at the second one: the pages
    stay where they were. A new value of the knob counts at once."""
    home = Home(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        first = _port(address, home)
    assert first != int(address.rpartition(":")[2])
    assert _port(address, home) == first
    with socket.create_server(("127.0.0.1", 0)) as other:
        free = other.getsockname()[1]
    assert _port(f"127.0.0.1:{free}", home) == free
    for broken in ("no port", "", f"127.0.0.1:{free} 70000", f"127.0.0.1:{free} -1"):
        home.page_port.write_text(f"{broken}\n")
        assert _port(f"127.0.0.1:{free}", home) == free, broken


def _port(address: str, home: Home) -> int:
    """The port that a start takes."""
    taken = listen(address, home)
    assert taken
    with taken:
        return int(taken.getsockname()[1])


def _sees_nothing(stranger: httpx2.Client, task: int) -> None:
    for page in PAGES.values():
        path = page.path.replace("{jedi_task_id}", str(task)).replace("{", "").replace("}", "")
        for form in ("", "?as=csv", "?as=json"):
            shown = stranger.get(path + form)
            assert shown.status_code == 303, path
            assert shown.headers["location"].startswith("/login?next=") and not shown.content
    assert stranger.get("/live").status_code == 401
    assert stranger.get(static_files.address("monitor.css")).status_code == 200
    assert stranger.get("/login").status_code == 200
    for path in (
        "/v1/tasks",
        "/metrics",
        "/health",
        "/openapi.json",
        "/v1/login",
        "/nothing",
        "/server/panda/getJob",
    ):
        assert stranger.get(path).status_code in (404, 405), path
    for host in ("evil.example.org", "evil.example.org:8765", ""):
        assert stranger.get("/login", headers={"Host": host}).status_code in (400, 421)


def _acts_on_nothing(stranger: httpx2.Client, task: int) -> None:
    for name in ACTIONS:
        given: dict[str, Any] = {"id": [str(task)], "sign": "0" * 32, "seal": "", "key": "1"}
        for answer in (
            stranger.get(f"/act/{name}", params=given),
            stranger.post(f"/act/{name}", data=given),
        ):
            assert answer.status_code == 303 and "/login" in answer.headers["location"]
    assert stranger.post("/logout").headers["location"] == "/login"


def test_a_service_with_an_address_serves_pages_there(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with world.engine.begin() as tx:
        knobs.put(tx, "api.listen", address, "me")
    home = Home(world.settings.home)
    with running(world):
        assert home.page_url == f"http://{address}"
        with httpx2.Client(base_url=home.page_url) as browser:
            assert browser.get("/tasks").headers["location"].startswith("/login")
            assert browser.get("/health").status_code == 200
            assert browser.get(link(world)).status_code == 303


def test_pages_may_have_another_loopback_address(world: World) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, "api.page", "127.0.0.2:0", "me")
    with running(world):
        place = Home(world.settings.home).page_url
        assert place and place.startswith("http://127.0.0.2:")
        assert httpx2.get(f"{place}/login").status_code == 200


def test_there_may_be_no_pages(world: World) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, "api.page", "", "me")
    with running(world), over(Home(world.settings.home)) as unix:
        refused = unix.post("/v1/session-links", json={})
        assert (refused.status_code, refused.json()["code"]) == (409, "no_pages")
