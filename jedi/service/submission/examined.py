"""The text of a task, examined once for the key, the checks, the trial and the plan of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jedi.core.errors import BadInput, Problem
from jedi.model.tasks.faulty_items import has_input
from jedi.model.tasks.params import TaskParams
from jedi.model.tasks.text import examine
from jedi.service.submission import manifests
from jedi.service.submission.sandbox import LocalFiles


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a task (yaml, json or jdl) and the source of its local files; `name`: its place
    in a collection, empty if it is alone; `explicit`: its units come with it."""

    text: str
    format: str
    files: LocalFiles
    name: str = ""
    explicit: bool = False


@dataclass(frozen=True, slots=True)
class Examined:
    """A document of a submitter: its parameters (with problems those that are well formed; None:
    none are), its mistakes and warnings; `has_input`: it has an item of input, maybe a faulty
    one."""

    who: str
    document: Document
    params: TaskParams | None
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...] = ()
    is_manifest: bool = False
    has_input: bool = False

    @property
    def owner(self) -> str:
        """The task's owner."""
        return (self.params and self.params.user_name) or self.who

    def sound(self) -> TaskParams:
        """The parameters. BadInput: there are none."""
        if self.params is None:
            raise BadInput(list(self.problems))
        return self.params

    def refusal(self, problems: Sequence[Problem]) -> BadInput:
        """Mistakes in the words of the document."""
        if not self.is_manifest:
            return BadInput(problems)
        text, format = self.document.text, self.document.format
        return BadInput(manifests.as_attributes(problems, text, format))


def examined(document: Document, who: str) -> Examined:
    """Examine a document of `who`."""
    try:
        found = manifests.read(document.text, document.format, who)
    except BadInput as error:
        return Examined(who, document, None, tuple(error.problems))
    params, problems = examine(found.document)
    return Examined(
        who,
        document,
        params,
        tuple(problems),
        found.warnings,
        found.is_manifest,
        has_input(found.document),
    )
