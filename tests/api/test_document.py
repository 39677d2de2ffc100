"""The service against its own OpenAPI document: schemathesis makes requests from it, sound and
unsound ones, and compares the answers with it. JEDI_FUZZ is the number of requests (`make fuzz`),
JEDI_FUZZ_PATHS a regular expression of their paths.
"""

# Raw UPDATEs: the job builder leaves columns of tasks empty that submission fills.

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from support.helpers import make_world, put_file_dataset
from support.job_rows import make_jobs
from support.listening import headers_of
from support.service_process import served
from support.task_rows import good, put

from jedi.server.app import create_app
from jedi.server.serving import listen_tcp
from jedi.service.operations.all_operations import OPERATIONS
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.users import access

FUZZ = int(os.environ.get("JEDI_FUZZ", "0"))
PATHS = os.environ.get("JEDI_FUZZ_PATHS", "")
OPERATIONS_TRIED = sum(bool(re.search(PATHS, one.path)) for one in OPERATIONS)
EACH = ceil(0.85 * FUZZ / OPERATIONS_TRIED) or 1
"""Random requests of an operation; the phase `coverage` adds 5,000 at the bounds of arguments."""


@dataclass(frozen=True)
class Documented:
    """A service, with the tokens of an operator, of two users and of a pilot."""

    url: str
    operator: str
    bea: str
    carl: str
    pilot: str

    @property
    def config(self) -> str:
        """The configuration of schemathesis. Only bea changes knobs, which an operator's request
        would do at random, and only carl revokes tokens, for he needs his no more."""
        return f"""
request-timeout = 60
workers = 2
continue-on-failure = true
headers = {{ Authorization = "{self.operator}" }}

[generation]
mode = "all"
max-examples = {EACH}
deterministic = {str(not FUZZ).lower()}

[phases.coverage]
enabled = {str(bool(FUZZ)).lower()}

[phases.stateful]
enabled = false

[checks.positive_data_acceptance]
# The document can't say which texts are tasks, sites or conditions, nor the bytes of all together.
expected-statuses = ["2xx", "304", "401", "403", "404", "409", "410", "413", "422", "507"]

[[operations]]
include-operation-id = ["config.set", "config.unset"]
headers = {{ Authorization = "{self.bea}" }}

[[operations]]
include-operation-id = "token.revoke"
headers = {{ Authorization = "{self.carl}" }}

[[operations]]
include-path-regex = "^/v1/(sandbox|pilot/(?!event_reports))"
headers = {{ Authorization = "{self.pilot}" }}

[[operations]]
# It refuses entries one by one, in an answer 200.
include-path = "/v1/pilot/event_reports"
headers = {{ Authorization = "{self.pilot}" }}
checks = {{ negative_data_rejection = {{ enabled = false }} }}
"""


@pytest.fixture
def service(engine: Engine, home: Path) -> Iterator[Documented]:
    """A service in a thread. Its streams end at once: schemathesis reads all of an answer."""
    world = make_world(engine, home)
    put(world, good(), good("a:out2"))
    put_file_dataset(world, "anna:made", {"one": b"1"}, "SITE_A_DATADISK")
    with engine.begin() as tx:
        make_jobs(tx, 2, files=1)
        tx.execute(
            text(
                "UPDATE jedi_tasks SET currentpriority = 1000, prodsourcelabel = 'user', "
                "statechangetime = jedi_now() WHERE currentpriority IS NULL"
            )
        )
        knobs.put(tx, "api.calls_per_s", 0.0, "olga")
        knobs.put(tx, "api.wrong_tokens_per_s", 0.0, "olga")
        operator, pilot = headers_of(tx)
        bea, carl = (
            "Bearer " + access.put_user_token(tx, name, None, "all", 60_000.0)
            for name in ("bea", "carl")
        )
    world.refresh()
    app = create_app(world)
    for streams in app.streams:
        streams.close()
    listener = listen_tcp("127.0.0.1:0", secure=False)
    host, port = listener.getsockname()
    with served(world, app, listener):
        yield Documented(
            f"http://{host}:{port}", operator["Authorization"], bea, carl, pilot["Authorization"]
        )


@pytest.mark.long
@pytest.mark.timeout(4 * 3_600 if FUZZ else 300)
def test_answers_are_as_documented(service: Documented, tmp_path: Path) -> None:
    """`schemathesis on the OpenAPI document, all checks, 20,000 examples, no failure`: no failure
    of the service; statuses, headers and answers as documented; unsound requests and methods that
    do not exist are refused; no operation answers without a token."""
    config = tmp_path / "schemathesis.toml"
    config.write_text(service.config)
    chosen = [f"--include-path-regex={PATHS}"] if PATHS else []
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "schemathesis.cli",
            f"--config-file={config}",
            "run",
            f"{service.url}/openapi.json",
            "--no-color",
            *chosen,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout[-30_000:], done.stderr[-5_000:])
    made = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert done.returncode == 0 and made
    assert int(made[1]) >= max(FUZZ, OPERATIONS_TRIED) and made[1] == made[2]
