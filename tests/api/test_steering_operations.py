"""Operations of those who steer the system, through the service and the client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jedi_client.errors import BadInput, NotFound
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from sqlalchemy import text
from support.calls import call
from support.helpers import put_file_dataset
from support.service_process import running
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.core.errors import Forbidden
from jedi.core.settings import caller
from jedi.host.home import Home
from jedi.service.datasets import dataset_details
from jedi.taskbuffer.users.users import PUT_USER

SITE = """
- site: GAMMA
  nslots: 3
  endpoints: [{ddm_endpoint: GAMMA_DISK, path: gamma}]
"""


@pytest.fixture
def client(world: World) -> Iterator[Client]:
    """The service, asked by an operator."""
    with world.engine.begin() as tx:
        PUT_USER.run(tx, user=caller(), role="operator", gridpref=None, cap=None)
    with running(world), Client(Profile(f"unix:{Home(world.settings.home).api_socket}")) as one:
        yield one


def test_an_operator_steers_from_afar(world: World, client: Client) -> None:
    """Texts of files travel in requests; answers have the types of the table."""
    _sites(world, client)
    _knobs(client)
    _queues_and_rules(client)
    _users(world, client)
    _datasets(world, client)
    _system(client)


def _sites(world: World, client: Client) -> None:
    changes = client.site_import(text=SITE, comment="new")
    assert {(one.site, one.attribute, one.new) for one in changes} >= {
        ("GAMMA", "site", "GAMMA"),
        ("GAMMA", "nslots", "3"),
    }
    [gamma] = [one for one in client.site_list() if one.site == "GAMMA"]
    assert (gamma.nslots, gamma.endpoints) == (3, ["GAMMA_DISK"])
    assert [one.old for one in client.site_set("GAMMA", settings=["nslots=9"])] == ["3"]
    shown = client.site_show("GAMMA")
    assert (shown.attributes["nslots"], shown.history[0].newvalue) == (9, "9")
    [disk] = shown.endpoints
    assert disk.path == str(world.settings.home / "gamma") and disk.sites == ["GAMMA"]
    token = client.site_create_token("GAMMA", days=2).token
    client.site_revoke_token("GAMMA", token=token)
    with pytest.raises(NotFound, match="has no such valid token"):
        client.site_revoke_token("GAMMA", token=token)
    assert client.link_import(text="- {src: GAMMA, dst: SITE_A, closeness: 4}") == 1
    [link] = client.link_list(place="GAMMA")
    assert (link.dst, link.key, link.value) == ("SITE_A", "closeness", 4)
    [audited] = client.audit_list(operation="site.import")
    assert (audited.subject, audited.arguments["comment"]) == ("site GAMMA", "new")


def _knobs(client: Client) -> None:
    assert client.config_set("agent.poll_s", value="3").value == 3.0
    assert client.config_set("agent.poll_s", value=4).value == 4.0
    assert client.config_show("agent.poll_s").value == 4.0
    assert client.config_unset("agent.poll_s").value == 2.0
    assert [one.value for one in client.config_history("agent.poll_s")] == [None, 4.0, 3.0]
    [warning] = client.config_set("hold.sites", value="NOWHERE").warnings
    assert "There is no site 'NOWHERE'" in warning
    with pytest.raises(BadInput, match=r"agent\.poll_s"):
        client.config_show("agent.pol_s")


def _queues_and_rules(client: Client) -> None:
    entry = "- {queue_id: 7, queue_name: q7, queue_type: user, vo: other, queue_order: 7}"
    [queue] = client.queue_import(text=entry)
    assert queue in client.queue_list() and queue.status == "active"
    rule = "- {rule_id: 1, error_code: memory_limit, action: increase_memory}"
    assert client.retry_rule_import(text=rule) == client.retry_rule_list()
    assert not client.retry_rule_set(1, settings=["active=false"]).active
    assert [one.jobs for one in client.retry_rule_test()] == [0]
    with pytest.raises(NotFound, match="There is no task 987654321"):
        client.retry_rule_test(jedi_task_id=987_654_321)


AFTER = (None, "me:one", "me:run7")
"""The last names of pages before."""


def _users(world: World, client: Client) -> None:
    assert client.user_set("carl", role="production", running_jobs=5).running_jobs == 5
    assert ("carl", "production") in [(one.user, one.role) for one in client.user_list()]
    told = client.user_notify(caller(), webhook="https://example.org/x", about="jobs")
    assert told.secret and told.about == "jobs"
    shown = client.user_notices(caller())
    assert (shown.webhook, shown.secret) == ("https://example.org/x", None)


def _datasets(world: World, client: Client) -> None:
    made = client.dataset_create("me:run7", state="open", endpoint="SITE_A_DATADISK")
    assert (made.name, made.state) == ("me:run7", "open")
    assert client.dataset_close("me:run7").state == "closed"
    put_file_dataset(world, "me:one", {"f": b"abc"}, "SITE_A_DATADISK")
    shown = client.dataset_show("me:one")
    assert [(one.lfn, one.size) for one in shown.files] == [("f", 3)]
    assert [one.name for one in client.dataset_list(pattern="me:*n*")] == ["me:one", "me:run7"]
    by_one = [client.dataset_list(pattern="me:*n*", limit=1, after=at) for at in AFTER]
    assert [[one.name for one in page] for page in by_one] == [["me:one"], ["me:run7"], []]
    assert "me:one" in client.snapshot_export(dataset=["me:one"])["datasets"]


def _system(client: Client) -> None:
    found = client.system_status()
    assert not found.healthy and not found.draining and "GAMMA" in {s.site for s in found.sites}
    assert client.system_check().healthy
    assert "shares" in {one.dog for one in client.dog_list()}
    assert client.dog_run("shares") is not None
    with pytest.raises(NotFound, match="There is no dog share"):
        client.dog_run("share")


def test_datasets_that_a_task_makes_are_its_owners(world: World) -> None:
    """Others may not open or close them; datasets that no task makes are those of a scope."""
    [task] = put(world, good())
    put_file_dataset(world, "a:out", {"f": b"abc"}, "SITE_A_DATADISK")
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_datasets (jeditaskid, datasetname, type, status) "
                "VALUES (:task, 'a:out', 'output', 'defined')"
            ),
            {"task": task},
        )
        with pytest.raises(Forbidden, match="made by a task of anna"):
            dataset_details.close_own(call(tx, "bea", ddm=world.ddm), "a:out")
        assert dataset_details.close_own(call(tx, "anna", ddm=world.ddm), "a:out").state == "closed"
        made = dataset_details.put_dataset(
            call(tx, "bea", ddm=world.ddm), "user.bea:new", state="open", endpoint="SITE_A_DATADISK"
        )
        assert made.state == "open"


def test_a_pattern_of_many_stars_costs_linear_time(world: World) -> None:
    put_file_dataset(world, "me:" + "a" * 200, {"f": b"abc"}, "SITE_A_DATADISK")
    with world.engine.begin() as tx:
        asked = call(tx, ddm=world.ddm)
        assert dataset_details.find_datasets(asked, pattern="*a" * 100 + "*b") == []
        assert len(dataset_details.find_datasets(asked, pattern="*a" * 100 + "*")) == 1
        assert dataset_details.find_datasets(asked, pattern="me:[a]*") == []
        assert dataset_details.find_datasets(asked, pattern="?e:*") == []
