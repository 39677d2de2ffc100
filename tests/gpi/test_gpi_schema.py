"""Described objects: properties, checks at assignment, documents, owners.

Source: docs/reference/ganga.md#objects.
"""

from __future__ import annotations

import copy
import inspect
import json
from pathlib import Path
from typing import Annotated, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jedi_client.errors import BadInput
from jedi_client.gpi.interfaces import Document
from jedi_client.gpi.overrides import overridden
from jedi_client.gpi.report import NotWritable
from jedi_client.gpi.schema import (
    Described,
    from_document,
    prop,
    schema_of,
    to_document,
    values_of,
)


class Wheel(Described):
    """A wheel."""

    inches: int = prop(26, doc="Size in inches")
    notes: list[str] = prop([], doc="Notes")

    @classmethod
    def given(cls, value: Any) -> Described | None:
        return cls(inches=value) if isinstance(value, int) else None


class Bike(Described):
    """A bike with wheels."""

    brand: str = prop("none", doc="Brand", choices=["none", "Fine", "Swift"])
    front: Annotated[Any, Wheel] = prop(Wheel, doc="The front wheel")
    spare: Annotated[Any, list[Wheel]] = prop([], doc="Spare wheels")
    rear: Annotated[Any, Wheel | None] = prop(None, doc="The rear wheel")
    labels: dict[str, str] = prop({}, doc="Labels")
    serial: int = prop(0, doc="Number", read_only=True)
    price: float = prop(0.0, doc="Price", check=lambda x: ("is negative", "Pay") if x < 0 else None)
    extra: Any = prop(None, doc="Anything")


class Trip(Described):
    """The second version: `km` was `miles`."""

    _schemaVersion = 2
    km: float = prop(0.0, doc="Length")

    @staticmethod
    def _from_miles(document: Document) -> Document:
        return {"km": document["miles"] * 1.609344}

    _migrations = {1: _from_miles}  # noqa: RUF012


class Keeper:
    """An owner that keeps a list of changes, and refuses when it should."""

    def __init__(self) -> None:
        self.changes: list[str] = []
        self.frozen = self.full = False

    def before_change(self, name: str) -> None:
        if self.frozen:
            raise NotWritable(f"{name}: the job is not new")

    def changed(self, name: str) -> None:
        if self.full:
            raise OSError("disk full")
        self.changes.append(name)


def kept() -> tuple[Bike, Keeper]:
    bike, keeper = Bike(spare=[20, 28]), Keeper()
    bike._adopt(keeper)
    return bike, keeper


def refusal(act: Any) -> list[str]:
    with pytest.raises(BadInput) as caught:
        act()
    return [str(problem) for problem in caught.value.problems]


def test_constructors_have_real_signatures() -> None:
    """A 4.8: a schema without proxy code yields a class with constructor and docs (row 146)."""
    signature = inspect.signature(Bike)
    assert list(signature.parameters) == [
        "brand",
        "front",
        "spare",
        "rear",
        "labels",
        "price",
        "extra",
    ]
    assert signature.parameters["brand"].default == "none"
    assert "inches: Size in inches; default 26" in (Wheel.__doc__ or "")
    assert Bike("Fine", 28, labels={"a": "b"}).front == Wheel(28)
    assert [one.name for one in schema_of(Wheel)] == ["inches", "notes"]


def test_typing_errors_and_wrong_types_are_refused_at_assignment() -> None:
    """A 4.8: unknown attribute or wrong type refused at assignment, with a remedy (row 147)."""
    bike = Bike()
    assert refusal(lambda: setattr(bike, "brnad", "Fine")) == [
        "Bike.brnad: 'Fine': Bike has no such property. Did you mean brand?"
    ]
    assert refusal(lambda: setattr(bike, "brand", 5)) == [
        "Bike.brand: 5: is not a string. Write '5'."
    ]
    assert refusal(lambda: setattr(bike, "brand", "fine")) == [
        "Bike.brand: 'fine': is not among the choices. Did you mean Fine?"
    ]
    assert refusal(lambda: setattr(bike, "price", -1)) == ["Bike.price: -1: is negative. Pay."]
    assert refusal(lambda: setattr(bike.front, "inches", "7")) == [
        "Wheel.inches: '7': is not an integer. Write 7, without quotes."
    ]
    assert refusal(lambda: setattr(bike.front, "inches", True)) == [
        "Wheel.inches: True: is not an integer. Give an integer."
    ]
    assert refusal(lambda: setattr(bike.front, "notes", "dirty")) == [
        "Wheel.notes: 'dirty': is not a list. Write ['dirty']."
    ]
    assert refusal(lambda: setattr(bike, "front", "big")) == [
        "Bike.front: 'big': is no Wheel. Give one of Wheel."
    ]
    assert refusal(lambda: setattr(bike, "extra", object()))[0].startswith("Bike.extra: <object")
    assert refusal(lambda: setattr(bike, "brand", "\ud800"))[0].endswith("Decode it as UTF-8.")
    assert refusal(lambda: setattr(bike, "price", float("nan")))[0].endswith("a finite number.")
    assert bike == Bike()


def test_constructors_report_all_mistakes_at_once() -> None:
    wheel = {"type": "Wheel", "inches": "a"}
    assert refusal(lambda: Bike(5, colour="red", front=wheel, serial=3)) == [
        "Bike.serial: 3: is read-only. Leave it out.",
        "Bike.colour: 'red': Bike has no such property. Properties: brand, front, spare, rear, "
        "labels, serial, price, extra.",
        "Bike.brand: 5: is not a string. Write '5'.",
        "Bike.front.inches: 'a': is not an integer. Give an integer.",
    ]
    assert refusal(lambda: Bike(colour="red", rear="zz", front="x", spare=["y", "z"])) == [
        "Bike.colour: 'red': Bike has no such property. Properties: brand, front, spare, rear, "
        "labels, serial, price, extra.",
        "Bike.front: 'x': is no Wheel. Give one of Wheel.",
        "Bike.spare[0]: 'y': is no Wheel. Give one of Wheel.",
        "Bike.spare[1]: 'z': is no Wheel. Give one of Wheel.",
        "Bike.rear: 'zz': is no Wheel. Give one of Wheel.",
    ]
    assert refusal(lambda: Wheel(1, [], 3)) == [
        "Wheel: 3: is one argument too many: Wheel takes 2. Leave it out."
    ]


def test_read_only_properties_and_the_schema_version_stay() -> None:
    """A 4.8: schema read-only attributes cannot be set (row 148); A 3.2.10: every public object
    exposes `_schemaVersion`, read-only (row 93)."""
    bike = Bike()
    assert refusal(lambda: setattr(bike, "serial", 4)) == [
        "Bike.serial: 4: is read-only. Leave it."
    ]
    assert bike._schemaVersion == 1 and to_document(bike)["schema"] == 1
    assert refusal(lambda: setattr(bike, "_schemaVersion", 2)) == [
        "Bike._schemaVersion: 2: is read-only. Leave it."
    ]
    assert refusal(lambda: delattr(bike, "brand"))[0].endswith("Assign its default.")


def test_documents_are_json_both_ways() -> None:
    bike = Bike("Swift", spare=[20], rear=Wheel(28, ["ü\n'\""]), extra={"a": [1, None, 2.5]})
    document = json.loads(json.dumps(to_document(bike)))
    assert document["rear"] == {"type": "Wheel", "schema": 1, "inches": 28, "notes": ["ü\n'\""]}
    again = from_document(document)
    assert again == bike and to_document(again) == document
    assert values_of(Bike, document)["brand"] == "Swift"
    assert repr(again).startswith("Bike(brand='Swift', spare=[Wheel(inches=20)], rear=Wheel(")


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(JSON, st.lists(TEXT, max_size=3), st.dictionaries(TEXT, TEXT, max_size=3))
def test_every_value_survives(extra: Any, notes: list[str], labels: dict[str, str]) -> None:
    bike = Bike(front=Wheel(1, notes), labels=labels, extra=extra)
    again = from_document(json.loads(json.dumps(to_document(bike))))
    assert again == bike and isinstance(again, Bike)
    assert (again.extra, again.front.notes, again.labels) == (extra, notes, labels)


def test_values_that_no_store_can_keep_are_refused() -> None:
    """PostgreSQL keeps no NUL in JSON, and JSON no list that contains itself."""
    ring: list[Any] = []
    ring.append(ring)
    assert refusal(lambda: Bike(extra=ring)) == [
        "Bike.extra: None: is nested too deeply. Flatten it."
    ]
    assert refusal(lambda: Bike(extra=["a\0b"]))[0].endswith("has a NUL character. Leave it out.")
    assert refusal(lambda: Bike(labels={"\ud800": "x"}))[0].endswith("Decode it as UTF-8.")
    assert refusal(lambda: Wheel(2**63))[0].endswith("Give an integer of 64 bits.")


def test_documents_report_all_mistakes_and_unknown_types() -> None:
    assert refusal(lambda: from_document({"type": "Bick"})) == [
        "type: 'Bick': is no known type. Did you mean Bike?"
    ]
    wrong = {"type": "Bike", "brand": 3, "rear": {"type": "Wing"}, "spare": [{"type": "Bike"}]}
    assert refusal(lambda: from_document(wrong)) == [
        "Bike.brand: 3: is not a string. Write '3'.",
        "Bike.spare[0]: {'type': 'Bike'}: is no Wheel. Give one of Wheel.",
        "Bike.rear.type: 'Wing': is no known type. Install the package of this plug-in.",
    ]


def test_old_documents_load_through_a_migration_and_newer_ones_do_not() -> None:
    """A 3.2.10 as ruled: old versions load through a migration (row 93)."""
    assert from_document({"type": "Trip", "schema": 1, "miles": 100}) == Trip(160.9344)
    assert to_document(Trip(3))["schema"] == 2
    assert refusal(lambda: from_document({"type": "Trip", "schema": 3, "km": 5})) == [
        "Trip.schema: 3: is no version of Trip known here (1 to 2). Upgrade jedi-client."
    ]


def test_copies_share_nothing() -> None:
    """Check 2 and 3: all properties can be set, read back and copied; copies share nothing."""
    first = Bike("Fine", spare=[20], rear=28, labels={"a": "b"}, extra=[[1]])
    for second in (first.copy(), Bike(first), copy.copy(first), copy.deepcopy(first)):
        assert second == first and second is not first
        second.spare[0].inches = 3
        second.rear.notes.append("flat")
        second.labels["a"] = "c"
        second.extra[0].append(2)
        assert first == Bike("Fine", spare=[20], rear=28, labels={"a": "b"}, extra=[[1]])
    assert Bike(first, brand="Swift").brand == "Swift"


def test_assigned_objects_are_copied_into_the_owner() -> None:
    """A 4.8, 4.12: assigning copies into the job; an object alone is transient (row 149)."""
    bike, keeper = kept()
    wheel = Wheel(24)
    bike.rear = wheel
    wheel.inches = 12
    assert bike.rear.inches == 24 and keeper.changes == ["rear"]


def test_every_change_reaches_the_owner() -> None:
    """A 4.8: `j.application.x = ...` persists when j is managed (row 149)."""
    bike, keeper = kept()
    bike.front.inches = 22
    bike.front.notes += ["a", "b"]
    bike.front.notes[0] = "c"
    bike.spare[1].notes.append("old")
    bike.labels.update(x="1")
    bike.labels |= {"y": "2"}
    bike.extra = {"deep": []}
    bike.extra["deep"].append(1)
    assert keeper.changes == [
        "front.inches",
        "front.notes",
        "front.notes",
        "spare.notes",
        "labels",
        "labels",
        "extra",
        "extra",
    ]
    assert bike.front == Wheel(22, ["c", "b"]) and bike.labels == {"x": "1", "y": "2"}


CHANGES: list[Any] = [
    lambda b: setattr(b, "brand", "Fine"),
    lambda b: setattr(b.front, "inches", 3),
    lambda b: b.front.notes.append("x"),
    lambda b: b.spare.pop(),
    lambda b: b.spare.__setitem__(0, 3),
    lambda b: b.spare.__delitem__(0),
    lambda b: b.spare.extend([1, 2]),
    lambda b: b.spare.insert(0, 5),
    lambda b: b.spare.reverse(),
    lambda b: b.spare.clear(),
    lambda b: b.spare.remove(Wheel(20)),
    lambda b: b.spare.sort(key=lambda w: -w.inches),
    lambda b: b.spare.__imul__(2),
    lambda b: setattr(b.spare[0], "inches", 99),
    lambda b: b.labels.setdefault("k", "v"),
    lambda b: b.labels.__setitem__("k", "v"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_refused_and_failed_changes_change_nothing(change: Any) -> None:
    """A 4.5.2.14: a job that is not new refuses; a store that fails takes the change back."""
    bike, keeper = kept()
    before = to_document(bike)
    keeper.frozen = True
    with pytest.raises(NotWritable):
        change(bike)
    keeper.frozen, keeper.full = False, True
    with pytest.raises(OSError, match="disk full"):
        change(bike)
    assert to_document(bike) == before and keeper.changes == []
    keeper.full = False
    change(bike)
    assert to_document(bike) != before and len(keeper.changes) == 1


def test_removed_parts_have_no_owner_any_more() -> None:
    bike, keeper = kept()
    gone, front = bike.spare.pop(), bike.front
    bike.front = 12
    keeper.changes.clear()
    gone.inches = front.inches = 1
    assert keeper.changes == [] and bike.front.inches == 12


def test_elements_are_checked_and_keys_are_strings() -> None:
    bike = Bike()
    assert refusal(lambda: bike.front.notes.append(3)) == [
        "notes[0]: 3: is not a string. Write '3'."
    ]
    assert refusal(lambda: bike.front.notes.extend("ab"))[0].endswith("Write ['ab'].")
    assert refusal(lambda: bike.labels.update(cast(Any, {3: "a"})))[0].endswith(
        "Write the key '3'."
    )
    assert bike == Bike()


def test_paths_and_short_forms_become_values(tmp_path: Path) -> None:
    assert Wheel(notes=[tmp_path]).notes == [str(tmp_path)]
    assert Bike(spare=[1, Wheel(2), {"type": "Wheel", "inches": 3}]).spare == [
        Wheel(1),
        Wheel(2),
        Wheel(3),
    ]


def test_overrides_are_checked_and_leave_the_object() -> None:
    """A unit's override: values by dotted names; the others stay the job's."""
    bike = Bike("Fine", rear=Wheel(28, ["old"]))
    unit = overridden(bike, {"rear.notes": ["new"], "rear.inches": 3, "brand": "Swift"})
    assert (unit.rear, unit.brand) == (Wheel(3, ["new"]), "Swift")
    assert bike == Bike("Fine", rear=Wheel(28, ["old"]))
    assert refusal(lambda: overridden(bike, {"rear.nots": [], "front.inches": "x", "a.b": 1})) == [
        "rear.nots: []: is no property of the Bike. Did you mean rear.notes?",
        "front.inches: 'x': is not an integer. Give an integer.",
        "a.b: 1: is no property of the Bike. See list_defaults.",
    ]


def test_a_name_belongs_to_one_class() -> None:
    with pytest.raises(TypeError, match="two classes have the name Wheel"):
        type("Wheel", (Described,), {"__module__": "elsewhere"})
    with pytest.raises(TypeError, match="no property may have the name 'type'"):
        type("Odd", (Described,), {"type": prop(1, doc="x"), "__annotations__": {"type": int}})
