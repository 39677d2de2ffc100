"""Lists and dicts of properties, which check their elements. Every change asks its owner first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from jedi_client.errors import BadInput, Problem

Problems = list[Problem]
T = TypeVar("T")


class Owner(Protocol):
    """The object that a value belongs to. `name`: dotted, such as "application.args"."""

    def before_change(self, name: str) -> None:
        """Refuse a change: NotWritable."""

    def changed(self, name: str) -> None:
        """Keep a change; an error takes it back."""


class Part:
    """A value inside a property of its owner, if it has one."""

    _owner: Owner | None = None
    _place = ""

    def _adopt(self, owner: Owner | None, place: str = "") -> None:
        self._owner, self._place = owner, place


def link(value: Any, owner: Owner | None, place: str = "") -> None:
    """Make `owner` the owner of a value, if the value can change by itself."""
    if isinstance(value, Part):
        value._adopt(owner, place)


class Kind(Protocol):
    """A kind of values."""

    def check(self, value: Any, path: str, problems: Problems) -> Any:
        """The value as this kind, without any part of the caller's; or a new problem."""

    def copied(self, value: Any) -> Any: ...

    def document(self, value: Any) -> Any:
        """The value as JSON."""


def settled(found: T, problems: Problems) -> T:
    """The value, if it has no problems: BadInput with all of them."""
    if problems:
        raise BadInput(problems)
    return found


class _Container(Part):
    """A list or dict of a property: checks its elements, owns them, and asks its own owner."""

    _kind: Kind

    def before_change(self, name: str) -> None:
        """Ask the owner for a change of an element."""
        if self._owner is not None:
            self._owner.before_change(f"{self._place}.{name}" if name else self._place)

    def changed(self, name: str) -> None:
        """Let the owner keep a change of an element."""
        if self._owner is not None:
            self._owner.changed(f"{self._place}.{name}" if name else self._place)

    def _content(self) -> Any:
        raise NotImplementedError

    def _restore(self, content: Any) -> None:
        raise NotImplementedError

    def _elements(self) -> Iterable[Any]:
        raise NotImplementedError

    def _edit(self, act: Callable[[], T], *, drops: bool = True) -> T:
        """Change the content; nothing stays changed if the owner can't keep it. `drops`: elements
        may leave."""
        self.before_change("")
        old, before = self._content(), list(self._elements()) if drops else []
        try:
            result = act()
            self.changed("")
        except BaseException:
            self._restore(old)
            raise
        if before:
            kept = set(map(id, self._elements()))
            for one in before:
                if id(one) not in kept:
                    link(one, None)
        return result

    def _one(self, value: Any, at: Any = "") -> Any:
        """A new element."""
        problems: Problems = []
        one = settled(self._kind.check(value, f"{self._place}[{at!r}]", problems), problems)
        link(one, self)
        return one

    def _own(self) -> None:
        """Become the owner of all elements."""
        for one in self._elements():
            link(one, self)


class CheckedList(_Container, list[Any]):
    """A list of a property."""

    def __init__(self, kind: Kind, values: Iterable[Any] = ()) -> None:
        list.__init__(self, values)
        self._kind = kind
        self._own()

    def _content(self) -> list[Any]:
        return list(self)

    def _restore(self, content: list[Any]) -> None:
        list.__setitem__(self, slice(None), content)

    def _elements(self) -> Iterable[Any]:
        return self

    def _all(self, values: Iterable[Any]) -> list[Any]:
        problems: Problems = []
        values = values if isinstance(values, str) else list(values)
        given = checked_list(self._kind, values, self._place, problems)
        settled(given, problems)
        found: list[Any] = given or []
        for one in found:
            link(one, self)
        return found

    def append(self, value: Any, /) -> None:
        self._edit(lambda: list.append(self, self._one(value, len(self))), drops=False)

    def extend(self, values: Iterable[Any], /) -> None:
        self._edit(lambda: list.extend(self, self._all(values)), drops=False)

    def insert(self, index: Any, value: Any, /) -> None:
        self._edit(lambda: list.insert(self, index, self._one(value, index)), drops=False)

    def pop(self, index: Any = -1, /) -> Any:
        return self._edit(lambda: list.pop(self, index))

    def remove(self, value: Any, /) -> None:
        self._edit(lambda: list.remove(self, value))

    def clear(self) -> None:
        self._edit(lambda: list.clear(self))

    def reverse(self) -> None:
        self._edit(lambda: list.reverse(self))

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        self._edit(lambda: list.sort(self, key=key, reverse=reverse))

    def __setitem__(self, index: Any, value: Any, /) -> None:
        check = self._all if isinstance(index, slice) else lambda one: self._one(one, index)
        self._edit(lambda: list.__setitem__(self, index, check(value)))

    def __delitem__(self, index: Any, /) -> None:
        self._edit(lambda: list.__delitem__(self, index))

    def __iadd__(self, values: Iterable[Any], /) -> Any:  # type: ignore[misc]
        self.extend(values)
        return self

    def __imul__(self, times: Any, /) -> Any:  # type: ignore[misc]
        copied = self._kind.copied
        self._edit(lambda: self._restore([copied(one) for _ in range(times) for one in self]))
        self._own()
        return self

    def __reduce_ex__(self, protocol: Any, /) -> Any:
        return list, (list(self),)


class CheckedDict(_Container, dict[str, Any]):
    """A dict of a property."""

    def __init__(self, kind: Kind, items: Mapping[str, Any]) -> None:
        dict.__init__(self, items)
        self._kind = kind
        self._own()

    def _content(self) -> dict[str, Any]:
        return dict(self)

    def _restore(self, content: dict[str, Any]) -> None:
        dict.clear(self)
        dict.update(self, content)

    def _elements(self) -> Iterable[Any]:
        return dict.values(self)

    def update(self, *others: Any, **items: Any) -> None:
        new = dict(*others, **items)
        self._edit(lambda: dict.update(self, self._all(new)))

    def _all(self, items: Mapping[str, Any]) -> dict[str, Any]:
        problems: Problems = []
        given = checked_dict(self._kind, items, self._place, problems)
        settled(given, problems)
        found: dict[str, Any] = given or {}
        for one in found.values():
            link(one, self)
        return found

    def setdefault(self, key: str, default: Any = None, /) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str, /, *default: Any) -> Any:
        return self._edit(lambda: dict.pop(self, key, *default))

    def popitem(self) -> tuple[str, Any]:
        return self._edit(lambda: dict.popitem(self))

    def clear(self) -> None:
        self._edit(lambda: dict.clear(self))

    def __setitem__(self, key: str, value: Any, /) -> None:
        self.update({key: value})

    def __delitem__(self, key: str, /) -> None:
        self._edit(lambda: dict.__delitem__(self, key))

    def __ior__(self, other: Any, /) -> Any:  # type: ignore[misc]
        self.update(other)
        return self

    def __reduce_ex__(self, protocol: Any, /) -> Any:
        return dict, (dict(self),)


def checked_list(kind: Kind, value: Any, path: str, problems: Problems) -> CheckedList | None:
    """The elements of a sequence, of one kind."""
    if isinstance(value, str | bytes | bytearray) or not isinstance(value, Sequence):
        remedy = f"Write [{value!r}]" if isinstance(value, str) else "Give a list"
        problems.append(Problem(path, value, "is not a list", remedy))
        return None
    check = kind.check
    return CheckedList(kind, [check(one, f"{path}[{i}]", problems) for i, one in enumerate(value)])


def checked_dict(kind: Kind, value: Any, path: str, problems: Problems) -> CheckedDict | None:
    """The items of a mapping, with strings as keys and values of one kind."""
    if not isinstance(value, Mapping):
        problems.append(Problem(path, value, "is not a dict", "Give a dict"))
        return None
    found = {}
    for key, one in value.items():
        if not isinstance(key, str):
            problems.append(Problem(path, key, "is not a string", f"Write the key {str(key)!r}"))
        elif mistake := mistake_of_text(key):
            problems.append(Problem(path, key, *mistake))
        else:
            found[key] = kind.check(one, f"{path}[{key!r}]", problems)
    return CheckedDict(kind, found)


def mistake_of_text(text: str) -> tuple[str, str] | None:
    """The reason why a text can't be stored, with the remedy."""
    if "\0" in text:
        return "has a NUL character", "Leave it out"
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        return "is no Unicode text", "Decode it as UTF-8"
    return None
