"""The image: built by Docker, or its steps in a scratch directory where no engine answers.

Either way it is started, looked at as its HEALTHCHECK does, and stopped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
READY_S, END_S = 120, 60


def build(place: Path) -> None:
    """The build stage, with /src and /opt/jedi below `place`; only what .dockerignore lets in."""
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")
    }
    source = place / "src"
    source.mkdir()
    for line in _stage("build"):
        word, _, rest = line.partition(" ")
        if word == "COPY":
            *names, to = rest.split()
            for name in names:
                if name not in allowed:
                    sys.exit(f".dockerignore keeps {name} out, and the Dockerfile copies it")
                target = source / to / name if to.endswith("/") else source / to
                (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, target)
        elif word == "RUN":
            words = rest.replace("/opt/jedi", str(place / "jedi"))
            subprocess.run(["bash", "-ec", words], cwd=source, check=True)


def _stage(name: str) -> list[str]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    return re.split(r"^FROM .*$", text, flags=re.MULTILINE)[1 if name == "build" else 2].split("\n")


def command(word: str) -> list[str]:
    """The words of CMD or HEALTHCHECK of the last stage."""
    last = [line for line in _stage("last") if line.startswith(word)]
    found: list[str] = json.loads(last[-1][last[-1].index("[") :])
    return found


def start(place: Path) -> None:
    """CMD, until HEALTHCHECK's command is content; then SIGTERM, which ends it with 0."""
    path = f"{place}/jedi/bin:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "JEDI_HOME": str(place / "home")}
    jedi = subprocess.Popen(command("CMD"), env=environment)
    try:
        until = time.monotonic() + READY_S
        while subprocess.run(command("HEALTHCHECK"), env=environment, check=False).returncode:
            if time.monotonic() > until or jedi.poll() is not None:
                sys.exit("it does not become healthy")
            time.sleep(1)
        jedi.send_signal(signal.SIGTERM)
        if code := jedi.wait(END_S):
            sys.exit(f"SIGTERM ends it with {code}")
    finally:
        if jedi.poll() is None:
            jedi.kill()
        subprocess.run(["jedi", "destroy", "--yes"], env=environment, check=False)


def by_docker() -> None:
    """Build it, start it, wait until it is healthy, stop it."""
    subprocess.run(["docker", "build", "--tag", "jedi", str(ROOT)], check=True)
    words = ["docker", "run", "--detach", "--init", "jedi"]
    name = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    try:
        until = time.monotonic() + READY_S
        look = ["docker", "exec", name, *command("HEALTHCHECK")]
        while subprocess.run(look, check=False).returncode:
            if time.monotonic() > until:
                sys.exit("it does not become healthy")
            time.sleep(1)
        subprocess.run(["docker", "stop", "--time", str(END_S), name], check=True)
    finally:
        subprocess.run(["docker", "rm", "--force", name], check=True)


def main() -> None:
    """Docker, if its engine answers."""
    if (
        shutil.which("docker")
        and not subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
    ):
        by_docker()
        return
    print("No engine of containers answers: the steps of the Dockerfile, in a scratch directory.")
    with tempfile.TemporaryDirectory(prefix="jedi-image-") as name:
        build(Path(name))
        start(Path(name))


if __name__ == "__main__":
    main()
