"""A Slurm for the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from slurm.cluster import Cluster, missing


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running cluster; SLURM_CONF names it to its commands."""
    if why := missing():
        pytest.skip(why)
    cluster = Cluster(tmp_path_factory.mktemp("slurm") / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(cluster.conf))
        cluster.start()
        yield cluster
        cluster.stop()


@pytest.fixture
def cluster(slurm: Cluster) -> Iterator[Cluster]:
    """The same, and after the test nothing is left in its queue."""
    yield slurm
    assert slurm.jobs() == []
