"""Declarations of knobs: what the type checker cannot see."""

from __future__ import annotations

import pytest

from jedi.core.errors import BadInput
from jedi.core.knobs import KNOBS, Knobs
from jedi.core.knobs.agents import AgentKnobs
from jedi.core.knobs.knob import Component


def test_every_declared_component_is_one_of_the_knobs() -> None:
    """A class that `Knobs` does not name would have knobs that nobody can set."""
    declared = {type(getattr(Knobs(), name.partition(".")[0])) for name in KNOBS}
    assert declared == {*Component.__subclasses__()}


def test_every_knob_has_a_meaning_and_sound_presets() -> None:
    for name, knob in KNOBS.items():
        assert knob.meaning and type(knob.current) is type(knob.classic), name
        assert [knob.check(value) for value in (knob.classic, knob.current)], name


def test_a_knob_has_its_value_by_attribute_and_by_name() -> None:
    knobs = Knobs({"core.preset": "current", "agent.poll_s": 3.5, "agent.gone": 1})
    assert (knobs.agent.poll_s, knobs["agent.poll_s"]) == (3.5, 3.5)
    assert (knobs.jobgen.batch, Knobs().jobgen.batch) == (50, 10)
    assert (AgentKnobs.poll_s.unit, KNOBS["agent.poll_s"].key) == ("s", "poll_s")
    assert "agent.gone" not in knobs


def test_knobs_are_frozen() -> None:
    """The type checker refuses it, too: this comment would be unused otherwise."""
    with pytest.raises(AttributeError, match="poll_s is frozen"):
        Knobs().agent.poll_s = 3.5  # type: ignore[assignment]
    assert not hasattr(Knobs().agent, "pol_s")
    with pytest.raises(AttributeError):
        _ = Knobs().agent.pol_s  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("jobgen.ng_covers_all", "maybe", "is true or false [truth]"),
        ("agent.max_deaths", True, "is a whole number [claims]"),
        ("agent.poll_s", "0", "is at least 0.01 [s]"),
        ("core.work_shortage", 2, "is at most 1 [0/1]"),
        ("broker.local", "none", "is one of generic, full"),
        ("broker.t1_cloud_weights", "US=0.5", "has numbers of at least 1 [weight]"),
    ],
)
def test_a_wrong_value_is_refused_with_its_rule(name: str, value: object, rule: str) -> None:
    with pytest.raises(BadInput) as error:
        KNOBS[name].check(value)
    assert error.value.problems[0].rule == f"{name} {rule}"


def test_the_example_of_a_refusal_is_accepted() -> None:
    """`jedi config set` takes a value as text."""
    for knob in KNOBS.values():
        with pytest.raises(BadInput) as error:
            knob.check(None)
        knob.check(error.value.problems[0].remedy.removeprefix("Give a value like ").strip("'"))
