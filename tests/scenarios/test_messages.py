"""A running system sends messages to a user, also about events while the receiver was away. Then it
removes the outputs."""

from __future__ import annotations

from collections import Counter

import pytest
from scenarios.real_system import System, until
from support.calls import call
from support.receivers import Receiver

from jedi.core.settings import caller
from jedi.service.jobs import job_details
from jedi.service.tasks import cleaning, task_details
from jedi.service.users import notices

pytestmark = pytest.mark.long


def test_users_get_messages_and_clean(system: System) -> None:
    for name, value in {
        "watchdog.notifier_period_s": 0.5,
        "watchdog.purge_period_s": 0.5,
        "notify.retry_s": 1,
    }.items():
        system.put(name, value)
    receiver = Receiver()
    with receiver.up():
        with system.engine.begin() as tx:
            notices.notify(
                call(tx, caller(), home=system.home), caller(), webhook=receiver.url, about="jobs"
            )
        lines = system.texts("user:messages", 2, "DISK_A")
        first = system.copying("user:messages", nFilesPerJob=1)
        assert system.settle(first) == ["done"]
        until(lambda: len(receiver.got) >= 3, "all messages arrive")
    assert Counter(message["about"] for message in receiver.messages) == {"job": 2, "task": 1}
    assert {message.get("pgi_state", "done") for message in receiver.messages} == {
        "Finished",
        "done",
    }
    assert {message["jedi_task_id"] for message in receiver.messages} == {first}

    second = system.copying("user:messages", nFilesPerJob=2)
    assert system.settle(second) == ["done"]
    system.kill_all()
    system.up()
    with receiver.up():
        until(
            lambda: len({message["id"] for message in receiver.messages}) == 5,
            "missed messages arrive",
        )

    assert system.lines(first) == lines
    with system.engine.begin() as tx:
        assert sum(one.files for one in cleaning.clean(call(tx, caller()), first)) == 2
        ids = [job.panda_id for job in task_details.jobs(tx, first)]

    def purged() -> bool:
        with system.engine.begin() as tx:
            return all(job.pgi_state == "Purged" for job in job_details.get(tx, ids))

    until(purged, "what is not to be kept is gone")
    assert (system.lines(first), system.lines(second)) == ([], lines)
    system.check()
