#!/usr/bin/env python3
"""jedi-command: runs the command of a JEDI job in the directory of a pilot of PanDA.

    jedi-command --env=NAME=VALUE --sandbox=URL --text=NAME=TEXT --rename=MADE=LFN
                 --deliver=MADE=PATH --command=COMMAND

Each value is percent-encoded. Exit codes: the command's own; 81: an input, the sandbox or an output
could not be had. One file, standard library, Python 3.6 or newer.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from urllib.parse import unquote
from urllib.request import urlopen

FAILED = 81
TRIES = 5
WAIT_S = 2
MAX_UNPACKED = 4 << 30
MAX_MEMBERS = 100000
METADATA, JOB_REPORT = "jedi_metadata.json", "jobReport.json"
"""The file of a payload with facts about its job, and the one that the pilot reports."""


class StepFailed(Exception):
    """A step around the command failed; its sentence says why."""


def main() -> int:
    options = arguments()
    try:
        check_inputs()
        for url in options.sandbox:
            unpack(fetch(url), url.rpartition("/")[2])
        for item in options.text:
            name, _, text = item.partition("=")
            plain(name).write_text(text)
        for item in options.env:
            name, _, value = item.partition("=")
            os.environ[name] = value
        code = subprocess.call(["/bin/sh", "-c", options.command])
        if code == 0:
            deliver(options)
    except (StepFailed, OSError, tarfile.TarError) as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return FAILED
    if Path(METADATA).is_file():
        shutil.copyfile(METADATA, JOB_REPORT)
    return code if code >= 0 else 128 - code


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="jedi-command")
    for name in ("--env", "--sandbox", "--text", "--rename", "--deliver"):
        parser.add_argument(name, action="append", default=[], type=unquote)
    parser.add_argument("--command", required=True, type=unquote)
    return parser.parse_args()


def check_inputs() -> None:
    """The pilot links inputs without a look: a link that leads nowhere is a missing input."""
    lost = sorted(path.name for path in Path().iterdir() if not path.exists())
    if lost:
        raise StepFailed(
            f"Inputs are missing: {', '.join(lost[:5])}. Start the pilot with the option "
            "--input-destination-dir and the exchange directory of its queue (docs/panda.md)."
        )


def fetch(url: str) -> bytes:
    """The bytes behind a URL."""
    for left in range(TRIES - 1, -1, -1):
        try:
            with urlopen(url, timeout=60) as answer:
                content: bytes = answer.read()
                return content
        except OSError as error:
            if not left or 400 <= getattr(error, "code", 500) < 500:
                said = f"The sandbox could not be fetched from {url}: {error}."
                raise StepFailed(said) from error
            time.sleep(WAIT_S)
    raise StepFailed(url)


def unpack(archive: bytes, sha256: str) -> None:
    """Unpack an archive, which may have plain files and directories alone."""
    if hashlib.sha256(archive).hexdigest() != sha256:
        raise StepFailed(f"The sandbox {sha256[:12]} is damaged: its sha256 differs.")
    path, left = Path(".jedi_sandbox"), MAX_UNPACKED
    path.write_bytes(archive)
    with tarfile.open(str(path), "r:gz") as tar:
        for number, member in enumerate(tar):
            left -= member.size
            if number >= MAX_MEMBERS or left < 0:
                raise StepFailed("The sandbox is too large.")
            if member.name.startswith("/") or ".." in member.name.split("/"):
                raise StepFailed(f"A member of the sandbox leads out of it: {member.name!r}.")
            if member.isdir():
                inside(Path(member.name))
            elif member.isreg() and not member.mode & 0o6000:
                write(tar, member)
            else:
                raise StepFailed(f"A member of the sandbox is no plain file: {member.name!r}.")
    path.unlink()


def inside(directory: Path) -> None:
    """Make a directory that lies in this one, whatever links there are."""
    directory.mkdir(parents=True, exist_ok=True)
    here = Path().resolve()
    if here not in (directory.resolve(), *directory.resolve().parents):
        raise StepFailed(f"A member of the sandbox leads out of it: {str(directory)!r}.")


def write(tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    """Write a file of an archive; it replaces none, and follows no link."""
    inside(Path(member.name).parent)
    mode = 0o755 if member.mode & 0o111 else 0o644
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    content = tar.extractfile(member)
    with os.fdopen(os.open(member.name, flags, mode), "wb") as file:
        while content is not None:
            piece = content.read(1 << 20)
            if not piece:
                break
            file.write(piece)


def deliver(options: argparse.Namespace) -> None:
    """Give outputs their names; store those that the job may do without, for the pilot would miss
    them."""
    for item in options.rename:
        made, _, lfn = item.partition("=")
        if plain(made).exists():
            plain(made).rename(plain(lfn))
    for item in options.deliver:
        made, _, target = item.partition("=")
        if plain(made).is_file() and not plain(made).is_symlink():
            shutil.copyfile(made, f"{target}.part")
            Path(f"{target}.part").rename(target)


def plain(name: str) -> Path:
    """The path of a file in this directory."""
    if name in ("", ".", "..") or "/" in name:
        raise StepFailed(f"{name!r} is not a plain file name.")
    return Path(name)


if __name__ == "__main__":
    sys.exit(main())
