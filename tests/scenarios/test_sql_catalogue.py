"""Tasks from their submission to their results, with the catalogue of data in the database."""

from __future__ import annotations

import pytest
from scenarios.real_system import System
from support.calls import call

from jedi.core.settings import caller
from jedi.ddm.sqlcatalogue import SqlCatalogueDDM
from jedi.demo import truth
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.service.system import knobs
from jedi.standalone.installation import packaged

pytestmark = pytest.mark.long

EXAMPLES = packaged("examples")


@pytest.fixture(scope="module")
def catalogued(system: System) -> System:
    with system.engine.begin() as tx:
        knobs.put(call(tx, caller()), "ddm.catalogue", "sql")
        assert isinstance(system.ddm(tx), SqlCatalogueDDM)
    return system


def example(system: System, name: str) -> int:
    """Submit one of the examples."""
    path = EXAMPLES / f"{name}.yaml"
    with system.engine.begin() as tx:
        done = storing.submit(
            tx, system.ddm(tx), examined(Document(path.read_text(), "yaml", path.parent), caller())
        )
    return done.jedi_task_id


def test_hello(catalogued: System) -> None:
    task = example(catalogued, "hello")
    assert catalogued.settle(task) == ["done"]
    assert len(catalogued.lines(task)) == 3
    catalogued.check()


def test_words_are_counted(catalogued: System) -> None:
    texts = truth.texts()
    catalogued.call("dataset", "add", "demo:texts", "--endpoint", "DISK_A", *map(str, texts))
    task = example(catalogued, "wordcount")
    assert catalogued.settle(task) == ["done"]
    assert truth.read_counts(catalogued.outputs(task)) == truth.count_words(texts)
    catalogued.check()


def test_inputs_and_outputs_travel(catalogued: System) -> None:
    """A site that has not the inputs; the catalogue then knows of both replicas."""
    lines = catalogued.texts("user:far", 5, "DISK_A")
    task = catalogued.copying("user:far", site="SITE_B", nFilesPerJob=1)
    assert catalogued.settle(task) == ["done"]
    assert catalogued.lines(task) == lines
    assert catalogued.replicas("user:far") == {"DISK_A": 5, "DISK_B": 5}
    with catalogued.engine.begin() as tx:
        ddm, name = catalogued.ddm(tx), f"user:out.{task}"
        assert (ddm.dataset(name).state, len(ddm.list_files(name))) == ("closed", 5)
    catalogued.check()


def test_what_fails_leaves_nothing_but_its_log(catalogued: System) -> None:
    catalogued.texts("user:bad", 2, "DISK_B")
    task = catalogued.copying("user:bad", "false", maxAttempt=1)
    assert catalogued.settle(task) == ["failed"]
    assert catalogued.outputs(task) == []
    with catalogued.engine.begin() as tx:
        assert catalogued.ddm(tx).list_files(f"user:out.{task}") == []
    storage = catalogued.home.path / "storage"
    assert list(storage.glob("*/user/bad/*")) and not list(storage.glob(f"*/user/out.{task}/*"))
    catalogued.check()
