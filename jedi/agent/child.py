"""Duties of a process towards its parent: to report when it is ready, and to end when the parent
is gone."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import suppress

GRACE_S = 10.0
"""Seconds after which an orphan that has not ended by itself is killed."""


def announce(*notes: str) -> None:
    """Notify systemd, or our supervisor in its place, that this process is ready (sd_notify), with
    any warnings about its start."""
    _notify("READY=1", f"MAINPID={os.getpid()}", *(f"STATUS={note}" for note in notes))


def wait_for(what: str) -> None:
    """Tell the same one why this process is not ready yet."""
    _notify(f"STATUS={what}")


def _notify(*lines: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto("\n".join(lines).encode(), address)


def follow() -> None:
    """End this process when the other end of its standard input is closed: the supervisor holds
    it, and the kernel closes it however the supervisor dies."""
    threading.Thread(target=_wait_for_orphanhood, name="leash", daemon=True).start()


def _wait_for_orphanhood() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)
