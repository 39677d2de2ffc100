"""A job as the verbs on it see it: they stand below the class of jobs, which calls them."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from jedi_client.gpi.interfaces import Document, Record, UnitRecord


class AnyJob(Protocol):
    """A job of a registry, with its record and its properties."""

    _registry: Any
    _version: int
    _values: Any
    _properties: ClassVar[Any]
    application: Any
    inputdata: Any
    inputsandbox: Any
    outputsandbox: Any
    outputdata: Any
    splitter: Any
    merger: Any
    backend: Any
    output_mode: str

    @property
    def id(self) -> int: ...
    @property
    def record(self) -> Record: ...
    @property
    def status(self) -> str: ...
    @property
    def split(self) -> bool: ...
    def units(self, *, look: bool = True) -> Any: ...
    def unit(self, k: int) -> UnitRecord: ...
    def description(self) -> Any: ...
    def document(self) -> Document: ...
    def before_change(self, name: str) -> None: ...
