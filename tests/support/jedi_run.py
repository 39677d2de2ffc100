"""jedi-run as a real process in a job's directory, and a server of archives."""

from __future__ import annotations

import gzip
import http.server
import io
import os
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from jedi_panda.transformations import script


def start(job: Path, arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start `./jedi-run ARGUMENTS` by a shell in the job's directory, as pilots do."""
    job.mkdir(parents=True, exist_ok=True)
    program = job / "jedi-run"
    program.write_bytes(script())
    program.chmod(0o755)
    return subprocess.Popen(
        f"exec ./jedi-run {arguments}",
        shell=True,
        cwd=job,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, **environment},
    )


def run(job: Path, arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `./jedi-run ARGUMENTS` until it ends."""
    process = start(job, arguments, **environment)
    out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def sandbox(path: Path, files: Mapping[str, str], *members: tarfile.TarInfo) -> Path:
    """A .tar.gz of executable files, and of members as they are."""
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text.encode()), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
        for member in members:
            tar.addfile(member)
    return path


def member(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0
) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, link, size
    return entry


def contents(path: Path) -> dict[str, str]:
    """Names and texts of the files of a .tar.gz."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(path.read_bytes()))) as tar:
        for entry in tar:
            file = tar.extractfile(entry) if entry.isfile() else None
            found[entry.name] = file.read().decode() if file else ""
    return found


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def cache_server(directory: Path) -> Iterator[str]:
    """The URL of a server whose /cache/NAME are the files of `directory`/cache."""
    handler = partial(_Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
