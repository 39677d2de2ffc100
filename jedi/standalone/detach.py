"""`jedi up --detach`: the supervisor as a daemon, and the wait until it is ready."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from jedi.core.errors import JediError
from jedi.host import forks, logfiles
from jedi.standalone.installation import Installation

_POLL_S = 0.1
_LONGEST = 65_536


def up_detached(
    installation: Installation,
    main: Callable[[], object],
    options: Sequence[str],
    say: Callable[[str], None],
) -> None:
    """Return when `jedi up` with these options is up, in a session of its own; `main` does the
    same as that command. `say` gets the messages of its start, such as the objects of its waits.

    Raises a JediError with its own message if it could not start.
    """
    installation.mine("up")
    installation.check_storage()
    installation.home.prepare()
    log = installation.home.supervisor_log
    logfiles.rotate(log)
    with (
        tempfile.TemporaryDirectory(prefix="jedi-") as directory,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready,
        log.open("ab") as output,
    ):
        address = str(Path(directory) / "ready")
        ready.bind(address)
        begin = output.tell()
        command = [sys.executable, "-P", "-m", "jedi", "up", *options]
        environment = {**os.environ, "NOTIFY_SOCKET": address}
        daemon = forks.outlive(
            main, " ".join(["jedi", "up", *options]), output, environment
        ) or subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=environment,
        )
        for module in (
            "jedi.taskbuffer.sites.sites",
            "rich.console",
        ):  # the caller shows the sites then
            import_module(module)
        while daemon.poll() is None:
            if select.select([ready], [], [], _POLL_S)[0]:
                lines = ready.recv(_LONGEST).decode(errors="replace").splitlines()
                for line in lines:
                    if line.startswith("STATUS="):
                        say(line.removeprefix("STATUS="))
                if "READY=1" in lines:
                    return
    messages = log.read_bytes()[begin:].decode(errors="replace").splitlines()
    plain = [line for line in messages if not line.startswith("{")]  # the rest is for programs
    raise JediError(
        "\n".join(plain[-20:]) or f"JEDI could not start: see {log}.",
        code="not_up",
        exit_code=daemon.returncode,
    )
