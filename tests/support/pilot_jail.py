"""Runs PanDA's pilot in namespaces of its own; a script for `unshare`, standard library alone.

    unshare --pid --fork --mount-proc --net --mount python3 pilot_jail.py SETTINGS

At its end the pilot kills the processes of its account whose parent is process 1. Here that is this
script, and there are no others. The network has no way out: a relay on port 25080 leads to the
service's unix socket. The host name that the pilot expects stands for the loopback interface.
SETTINGS is JSON: {source, work, socket, queue, token, inputs, options}, and {script} if Python
shall run in place of the pilot, with its modules.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

HOST, PORT = "pandaserver-doma.cern.ch", 25080
"""One of the two hosts from which pilot 3.7.0.36 takes transformations."""

OUTSIDE = (
    "pandaserver.cern.ch",
    "atlas-cric.cern.ch",
    "rucio-lb-prod.cern.ch",
    "voatlasrucio-server-prod.cern.ch",
    "atlas-test-mb.cern.ch",
)
HEARTBEAT_S = 15


def main() -> int:
    settings = json.loads(sys.argv[1])
    work = Path(settings["work"])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    hosts = work / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {HOST}\n")
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)
    listener = socket.create_server(("127.0.0.1", PORT))
    threading.Thread(target=relay, args=(listener, settings["socket"]), daemon=True).start()
    return run(settings, work)


def run(settings: dict[str, str], work: Path) -> int:
    """Run the pilot below a shell: its kin whose parent is process 1 would be killed."""
    base = f"http://{HOST}:{PORT}"
    (work / "token").write_text(settings["token"])
    (work / "pilot.cfg").write_text(configuration(Path(settings["source"]), base))
    (work / "queues.json").write_text("{}")
    words = [
        sys.executable,
        f"{settings['source']}/pilot.py",
        "-q",
        settings["queue"],
        "-w",
        "generic",
        "-j",
        "user",
        "--pilot-user",
        "generic",
        "-a",
        str(work),
        "-t",
        "-d",
        "--url",
        f"http://{HOST}",
        "-p",
        str(PORT),
        "--use-rucio-traces",
        "False",
        "--queuedata-url",
        f"{base}/cache/schedconfig/{{pandaqueue}}.all.json",
        "--storagedata-url",
        f"{base}/cache/ddmendpoints.json",
        "--input-destination-dir",
        settings["inputs"],
        *settings["options"],
    ]
    if "script" in settings:
        words = [sys.executable, "-c", settings["script"]]
    environment = {
        "PYTHONPATH": settings["source"],
        "PANDA_SERVER_URL": base,
        "PILOT_USER": "generic",
        "PATH": os.environ["PATH"],
        "HOME": str(work),
        "PILOT_NOKILL": "1",
        "PILOT_HOME": str(work),
        "PANDA_AUTH_TOKEN": "token",
        "PANDA_AUTH_ORIGIN": "local.pilot",
        "PANDA_AUTH_DIR": f"{work}/",
        "HARVESTER_PILOT_CONFIG": str(work / "pilot.cfg"),
        "LOCAL_AGIS_SCHEDCONF": str(work / "queues.json"),
        "LANG": "C.UTF-8",
    }
    with (work / "pilot.out").open("wb") as out:
        shell = ["bash", "-c", '"$@"; code=$?; exit $code', "bash", *words]
        pilot = subprocess.run(
            shell,
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            check=False,
        )
    return pilot.returncode


def configuration(source: Path, base: str) -> str:
    """The pilot's own configuration with short intervals, and without hosts elsewhere."""
    text = (source / "pilot/util/default.cfg").read_text()
    for host in OUTSIDE:
        for port in (":25443", ":25085", ":443", ""):
            text = text.replace(f"https://{host}{port}", base).replace(f"http://{host}{port}", base)
    short = {"heartbeat": HEARTBEAT_S, "update_sleep": 5}
    lines = []
    for line in text.splitlines():
        name = line.partition(":")[0]
        lines.append(f"{name}: {short[name]}" if name in short else line)
    return "\n".join(lines)


def relay(listener: socket.socket, path: str) -> None:
    while True:
        near, _ = listener.accept()
        far = socket.socket(socket.AF_UNIX)
        far.connect(path)
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=copy, args=(one, other), daemon=True).start()


def copy(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(65_536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass


if __name__ == "__main__":
    sys.exit(main())
