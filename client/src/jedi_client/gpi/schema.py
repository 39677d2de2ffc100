"""Objects that describe a job: classes with declared properties, checked at assignment.

    class Script(Application):
        file: str = prop("", doc="Path of the script")
        args: list[str] = prop([], doc="Arguments, verbatim")

The annotation gives the kind of the values. An object is equal to its document, JSON, and back.
Inside a job, each change is kept at once, or refused.

Source: docs/reference/ganga.md#objects.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_type_hints

from jedi_client.errors import BadInput, JediError, Problem
from jedi_client.gpi.containers import Kind, Part, Problems, link, settled
from jedi_client.gpi.interfaces import Document
from jedi_client.gpi.kinds import _Object, did_you_mean, kind_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_REQUIRED: Any = ...
_RESERVED = frozenset({"type", "schema"})
_BASES: Mapping[str, tuple[str, str]] = {
    "applications": ("applications", "Application"),
    "backends": ("backends", "BackendSettings"),
    "splitters": ("splitters", "JobSplitter"),
    "mergers": ("mergers", "OutputMerger"),
    "datasets": ("datasets", "InputData"),
}
"""Categories, which end the names of the groups, with the module and the name of the base."""


class PluginUnusable(JediError):
    """A declared plug-in can't be loaded, or breaks the promise of its group."""

    code = "plugin_unusable"


class Property:
    """A property of a class: its kind, its default, and its rules. `default` may be a class: each
    object has its own. `choices`: values, or a function that finds them."""

    def __init__(
        self,
        default: Any,
        doc: str,
        choices: Sequence[Any] | Callable[[], Sequence[Any]] | None,
        convert: Callable[[Any], Any] | None,
        check: Callable[[Any], tuple[str, str] | None] | None,
        read_only: bool,
    ) -> None:
        self.name, self.annotation, self.kind = "", None, None
        self.default, self.doc, self.read_only = default, doc, read_only
        self._choices, self._convert, self._rule = choices, convert, check

    annotation: Any
    kind: Kind | None

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED

    def choices(self) -> Sequence[Any] | None:
        """The values that the property may have; None: any of its kind."""
        return self._choices() if callable(self._choices) else self._choices

    def checked(self, value: Any, path: str, problems: Problems) -> Any:
        """The value as the property keeps it; or new problems."""
        assert self.kind is not None
        before = len(problems)
        try:
            value = self._convert(value) if self._convert else value
        except BadInput as error:
            problems += [Problem(path, p.value, p.rule, p.remedy) for p in error.problems]
            return None
        try:
            found = self.kind.check(value, path, problems)
        except RecursionError:
            problems.append(Problem(path, None, "is nested too deeply", "Flatten it"))
            return None
        if len(problems) > before or found is None:
            return found
        choices = self.choices()
        if choices is not None and found not in choices:
            remedy = did_you_mean(found, choices) or f"Choices: {', '.join(map(str, choices))}"
            problems.append(Problem(path, value, "is not among the choices", remedy))
        elif self._rule and (broken := self._rule(found)):
            problems.append(Problem(path, value, *broken))
        return found

    def first(self) -> Any:
        """The default as a new object."""
        default = self.default() if isinstance(self.default, type) else self.default
        return self.kind.check(default, self.name, []) if self.kind else default

    def __get__(self, obj: Described | None, owner: type | None = None) -> Any:
        return self if obj is None else obj._values[self.name]

    def __set__(self, obj: Described, value: Any) -> None:
        obj._assign(self, value)


def prop(
    default: Any = _REQUIRED,
    *,
    doc: str,
    choices: Sequence[Any] | Callable[[], Sequence[Any]] | None = None,
    convert: Callable[[Any], Any] | None = None,
    check: Callable[[Any], tuple[str, str] | None] | None = None,
    read_only: bool = False,
) -> Any:
    """A property of a described class. `convert`: short forms to values; `check`: None, or the rule
    that a value breaks, and the remedy."""
    return Property(default, doc, choices, convert, check, read_only)


class Described(_Object):
    """An object with declared properties. `abstract` classes have no objects of their own."""

    _schemaVersion: ClassVar[int] = 1
    """Version of the class's documents. A higher one comes with a step in `_migrations`."""
    _migrations: ClassVar[Mapping[int, Callable[[Document], Document]]] = {}
    """Steps from a version of documents to the next one."""
    _properties: ClassVar[dict[str, Property]] = {}
    _classes: ClassVar[dict[str, type[Described]]] = {}
    _aliases: ClassVar[Mapping[str, str]] = {}
    """Other names that people know properties by."""
    _elsewhere: ClassVar[Mapping[str, str]] = {}
    """Names of Ganga that are no properties here, with the remedy."""
    _title: ClassVar[str] = ""
    """The word for objects of a base class in messages."""
    _abstract: ClassVar[bool] = True
    _values: dict[str, Any]

    def __init_subclass__(cls, *, abstract: bool = False, **others: Any) -> None:
        super().__init_subclass__(**others)
        own = {name: one for name, one in vars(cls).items() if isinstance(one, Property)}
        hints = get_type_hints(cls, include_extras=True) if own else {}
        for name, one in own.items():
            if name in _RESERVED or name.startswith("_"):
                raise TypeError(f"{cls.__name__}: no property may have the name {name!r}")
            one.name, one.annotation = name, hints[name]
            one.kind = kind_of(one.annotation)
        inherited = {
            k: v
            for base in reversed(cls.__mro__[1:])
            for k, v in getattr(base, "_properties", {}).items()
        }
        cls._properties, cls._abstract = {**inherited, **own}, abstract
        cls.__signature__ = _signature(cls)  # type: ignore[attr-defined]
        cls.__doc__ = _doc(cls)
        if not abstract:
            _register(cls)

    def __init__(self, *args: Any, **values: Any) -> None:
        self._build(args, values, [])

    def _build(self, args: Sequence[Any], values: Mapping[str, Any], problems: Problems) -> None:
        """Take the values of a constructor. BadInput, also for the mistakes found before."""
        if self._abstract:
            names = ", ".join(sorted(one.__name__ for one in concrete(type(self))))
            rule = "has no objects of its own"
            raise BadInput([Problem(type(self).__name__, None, rule, f"Use one of {names}")])
        named = {self._aliases.get(name, name): value for name, value in values.items()}
        given = _bound(type(self), args, named, problems)
        checked = _checked(type(self), given, type(self).__name__, problems)
        self._fill(settled(checked, problems))

    @classmethod
    def given(cls, value: Any) -> Described | None:
        """The object that a short form stands for, such as 20 for FileSplitter(files=20); None: the
        value is another."""
        return None

    def before_change(self, name: str) -> None:
        """Ask the owner for a change of a property: NotWritable."""
        if self._owner is not None:
            self._owner.before_change(f"{self._place}.{name}" if self._place else name)

    def changed(self, name: str) -> None:
        """Let the owner keep a change; an error takes it back."""
        if self._owner is not None:
            self._owner.changed(f"{self._place}.{name}" if self._place else name)

    def copy(self) -> Self:
        """The same object again, without owner; the two share nothing."""
        return self._made(
            {
                name: one.kind.copied(self._values[name])  # type: ignore[union-attr]
                for name, one in self._properties.items()
            }
        )

    def document(self) -> Document:
        """This object as JSON."""
        values = self._values
        return {
            "type": type(self).__name__,
            "schema": self._schemaVersion,
            **{
                name: one.kind.document(values[name])  # type: ignore[union-attr]
                for name, one in self._properties.items()
            },
        }

    @classmethod
    def accept(cls, value: Any, path: str, problems: Problems) -> Any:
        """The value as an object of this class: a copy of one, its document, or a short form."""
        before = len(problems)
        if isinstance(value, cls):
            return value.copy()
        if isinstance(value, type) and issubclass(value, cls) and not value._abstract:
            return value()
        if isinstance(value, Mapping) and "type" in value:
            found = _read(value, path, problems)
        else:
            try:
                found = cls.given(value) or _by_name(cls, value)
            except BadInput as error:
                problems.extend(Problem(path, *_tail(p)) for p in error.problems)
                return None
        if not isinstance(found, cls | None) or (found is None and len(problems) == before):
            names = ", ".join(sorted(one.__name__ for one in concrete(cls)))
            what = cls._title or cls.__name__
            problems.append(Problem(path, value, f"is no {what}", f"Give one of {names}"))
        return found

    @classmethod
    def _made(cls, values: dict[str, Any]) -> Self:
        """An object with values that are its own and were checked."""
        new = cls.__new__(cls)
        new._fill(values)
        return new

    def _fill(self, values: dict[str, Any]) -> None:
        object.__setattr__(self, "_values", values)
        for name, value in values.items():
            link(value, self, name)

    def _assign(self, one: Property, value: Any) -> None:
        path, now = f"{type(self).__name__}.{one.name}", self._values[one.name]
        if value is now and isinstance(value, Part):  # the end of `args += [...]`
            return
        if one.read_only:
            raise BadInput([Problem(path, value, "is read-only", "Leave it")])
        self.before_change(one.name)
        problems: Problems = []
        self._put(one.name, settled(one.checked(value, path, problems), problems))

    def _put(self, name: str, value: Any) -> None:
        """Replace a value by a checked one; nothing stays changed if the owner can't keep it."""
        old = self._values[name]
        link(old, None)
        self._values[name] = value
        link(value, self, name)
        try:
            self.changed(name)
        except BaseException:
            link(value, None)
            self._values[name] = old
            link(old, self, name)
            raise

    def __getattr__(self, name: str) -> Any:
        if name in self._aliases:
            return getattr(self, self._aliases[name])
        remedy = f". {self._elsewhere[name]}" if name in self._elsewhere else ""
        raise AttributeError(f"{type(self).__name__} has no {name}{remedy}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        name = self._aliases.get(name, name)
        if name == "_schemaVersion":
            path = f"{type(self).__name__}._schemaVersion"
            raise BadInput([Problem(path, value, "is read-only", "Leave it")])
        if name.startswith("_") or hasattr(getattr(type(self), name, None), "__set__"):
            object.__setattr__(self, name, value)
            return
        if isinstance(descriptor := inspect.getattr_static(type(self), name, None), property):
            descriptor.__set__(self, value)
            return
        raise BadInput([_unknown(type(self), name, value)])

    def __delattr__(self, name: str) -> None:
        remedy = "Assign its default" if name in self._properties else "Leave it"
        raise BadInput([Problem(f"{type(self).__name__}.{name}", None, "can't be deleted", remedy)])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Described) or type(other) is not type(self):
            return False
        return other._values == self._values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [
            f"{name}={_short(self._values[name])}"
            for name, one in self._properties.items()
            if self._values[name] != one.first()
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Self:
        return self.copy()


def to_document(obj: Described) -> Document:
    """The object as JSON: {"type": "Script", "schema": 1, ...}."""
    return obj.document()


def from_document(document: Mapping[str, Any]) -> Described:
    """The object of a document, by its type. BadInput with all its mistakes."""
    problems: Problems = []
    found = _read(document, "", problems)
    return settled(found, problems)  # type: ignore[return-value]


def values_of(cls: type[Described], document: Mapping[str, Any]) -> dict[str, Any]:
    """The checked values of a document of a known class, defaults included."""
    problems: Problems = []
    values = _values_of(cls, document, cls.__name__, problems)
    return settled(values, problems)


def schema_of(cls: type[Described]) -> list[Property]:
    """The properties of a class, in the order of its constructor."""
    return list(cls._properties.values())


def concrete(base: type[Described]) -> list[type[Described]]:
    """The classes of a base that have objects."""
    return [one for one in Described._classes.values() if issubclass(one, base)]


def load_named(name: str) -> None:
    """Load the class of a type of documents: one of this client, or of a plug-in. PluginUnusable:
    the distribution is installed, but the class can't be loaded."""
    for category in _BASES:
        base(category)
    if name not in Described._classes:
        for category in _BASES:
            for point in declared(category):
                if point.name == name:
                    load(point, category)


def base(category: str) -> type[Described]:
    """The base class of a category."""
    module, name = _BASES[category]
    found: type[Described] = getattr(import_module(f"jedi_client.gpi.{module}"), name)
    return found


def declared(category: str) -> Sequence[EntryPoint]:
    from importlib.metadata import entry_points

    return list(entry_points(group=f"jedi_client.{category}"))


def load(point: EntryPoint, category: str) -> None:
    where = f"The plug-in {point.name} ({point.value})"
    try:
        found = point.load()
    except Exception as error:
        remedy = "Install it again, or remove its distribution"
        raise PluginUnusable(f"{where} can't be loaded: {error!r}. {remedy}") from error
    promised = base(category)
    if not (isinstance(found, type) and issubclass(found, promised)):
        rule = f"is no subclass of {promised.__name__}, which its group promises"
        raise PluginUnusable(f"{where} {rule}. Correct its class or its group")
    if found.__name__ != point.name:
        raise PluginUnusable(f"{where} has the name {found.__name__} as a class. Declare it so")


def class_named(name: str) -> type[Described] | None:
    """The class of a type of documents, also one of a plug-in that is not loaded yet."""
    if name not in Described._classes:
        load_named(name)
    return Described._classes.get(name)


def _by_name(cls: type[Described], name: Any) -> Described | None:
    """An object with all defaults, by the name of its class; None: unknown."""
    found = class_named(name) if isinstance(name, str) and name.isidentifier() else None
    if found is None or not issubclass(found, cls) or found._abstract:
        return None
    return None if any(one.required for one in schema_of(found)) else found()


def _register(cls: type[Described]) -> None:
    other = Described._classes.get(cls.__name__)
    if other and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        where = f"{other.__module__} and {cls.__module__}"
        raise TypeError(f"two classes have the name {cls.__name__}: in {where}. Rename one")
    Described._classes[cls.__name__] = cls


def _signature(cls: type[Described]) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [
            inspect.Parameter(
                name,
                kind,
                annotation=one.annotation,
                default=inspect.Parameter.empty if one.required else one.default,
            )
            for name, one in cls._properties.items()
            if not one.read_only
        ]
    )


def _doc(cls: type[Described]) -> str:
    """The class's own docstring, with its properties."""
    own = inspect.cleandoc(vars(cls).get("__doc__") or "")
    lines = [
        f"    {name}: {one.doc}" + ("" if one.required else f"; default {_said(one.default)}")
        for name, one in cls._properties.items()
    ]
    return "\n".join([own, "", "Properties:", *lines]) if lines else own


def _said(default: Any) -> str:
    """A default for people: a class stands for its object with all defaults."""
    return f"{default.__name__}()" if isinstance(default, type) else repr(default)


def _bound(
    cls: type[Described], args: Sequence[Any], values: Mapping[str, Any], problems: Problems
) -> dict[str, Any]:
    """The arguments of a constructor by name; a single object of the class gives its values."""
    if len(args) == 1 and type(args[0]) is cls:
        return {**args[0]._values, **values}
    names = [name for name, one in cls._properties.items() if not one.read_only]
    for extra in args[len(names) :]:
        rule = f"is one argument too many: {cls.__name__} takes {len(names)}"
        problems.append(Problem(cls.__name__, extra, rule, "Leave it out"))
    given = dict(zip(names, args, strict=False))
    for name, value in values.items():
        if name in given or (name in cls._properties and name not in names):
            rule = "was given twice" if name in given else "is read-only"
            problems.append(Problem(f"{cls.__name__}.{name}", value, rule, "Leave it out"))
    return {**given, **values}


def _checked(
    cls: type[Described], given: Mapping[str, Any], path: str, problems: Problems
) -> dict[str, Any]:
    """The values of all properties: given ones checked, the others their defaults."""
    for name in given.keys() - cls._properties.keys():
        problems.append(_unknown(cls, name, given[name], path))
    found = {}
    for name, one in cls._properties.items():
        if name in given:
            found[name] = one.checked(given[name], f"{path}.{name}" if path else name, problems)
        elif one.required:
            rule = f"is missing: {one.doc}"
            problems.append(Problem(f"{path}.{name}", None, rule, "Give it"))
        else:
            found[name] = one.first()
    return found


def _read(document: Mapping[str, Any], path: str, problems: Problems) -> Described | None:
    name = document.get("type")
    cls = class_named(name) if isinstance(name, str) else None
    if cls is None:
        remedy = did_you_mean(name, Described._classes) or "Install the package of this plug-in"
        where = f"{path}.type" if path else "type"
        problems.append(Problem(where, name, "is no known type", remedy))
        return None
    before = len(problems)
    values = _values_of(cls, document, path or cls.__name__, problems)
    return cls._made(values) if len(problems) == before else None


def _values_of(
    cls: type[Described], document: Mapping[str, Any], path: str, problems: Problems
) -> dict[str, Any]:
    """The values of a document, which steps bring to the present version first."""
    current, version = cls._schemaVersion, document.get("schema", cls._schemaVersion)
    if type(version) is not int or not 0 < version <= current:
        rule = f"is no version of {cls.__name__} known here (1 to {current})"
        problems.append(Problem(f"{path}.schema", version, rule, "Upgrade jedi-client"))
        return {}
    given = {key: value for key, value in document.items() if key not in _RESERVED}
    for step in range(version, current):
        given = cls._migrations[step](given)
    return _checked(cls, given, path, problems)


def _unknown(cls: type[Described], name: str, value: Any, path: str | None = None) -> Problem:
    names = [*dict.fromkeys([*cls._properties, *inspect.signature(cls).parameters])]
    remedy = cls._elsewhere.get(name) or did_you_mean(name, [*names, *cls._aliases])
    remedy = remedy or f"Properties: {', '.join(names)}"
    return Problem(
        f"{path or cls.__name__}.{name}", value, f"{cls.__name__} has no such property", remedy
    )


def _tail(problem: Problem) -> tuple[Any, str, str]:
    return problem.value, problem.rule, problem.remedy


def _short(value: Any) -> str:
    """The value for people: long lists with their first elements only."""
    if isinstance(value, list) and len(value) > 20:
        return f"[{', '.join(map(_short, value[:3]))}, ... {len(value)} in all]"
    return repr(value)
