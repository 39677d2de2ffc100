"""The reference of task parameters agrees with the models."""

from __future__ import annotations

import json

import pytest
from jedi_client.cli.task import app
from typer.testing import CliRunner

from jedi.model.tasks.reference import KINDS, MEANINGS, parameters, schema


def test_every_key_has_a_meaning_and_every_meaning_a_key() -> None:
    described = {one.key for one in parameters() if not one.code}
    assert described == MEANINGS.keys()
    assert {one.where for one in parameters()} == KINDS.keys()
    assert all(one.values and one.meaning for one in parameters())


def test_what_a_value_may_be() -> None:
    found = {(one.where, one.key): one for one in parameters()}
    values = {key: found["task", key].values for key in ("taskPriority", "nFiles", "noInput")}
    assert values == {
        "taskPriority": "a whole number, 0 to 10000",
        "nFiles": "a whole number, 1 or more",
        "noInput": "true or false",
    }
    assert found["task", "taskName"].mandatory
    assert found["task", "ramUnit"].values == "MB, MBPerCore, MBPerCoreFixed"
    assert (found["task", "coreCount"].default, found["input item", "random"].default) == (1, None)


def test_the_schema_describes_every_key() -> None:
    found = schema()
    assert found["properties"]["nEvents"]["description"] == MEANINGS["nEvents"]
    assert found["properties"]["respectLB"]["description"]
    assert found["$defs"]["InputItem"]["properties"]["ratio"]["description"]


@pytest.mark.usefixtures("service")
def test_both_are_told() -> None:
    runner = CliRunner()
    assert json.loads(runner.invoke(app, ["schema"]).stdout) == schema()
    answer = runner.invoke(app, ["params", "event", "--json"])
    keys = [one["key"] for one in json.loads(answer.stdout)]
    assert {"nEvents", "nEventsPerJob", "eventRatio"} <= {*keys}
    assert "campaign" not in keys
    assert "nEventsPerJob" in runner.invoke(app, ["params", "nEventsPerJob"]).stdout
