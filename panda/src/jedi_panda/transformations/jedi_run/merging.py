"""Merge jobs: in1,in2:out by the user's script, by hadd, as one archive, or end to end."""

import gzip
import re
import shutil
import tarfile
from pathlib import Path
from typing import List

from .arguments import Order
from .base import NO_INPUT, NO_MERGE, NO_OUTPUT, Failure, say
from .execution import clean, link_inputs, move_output, prepare, shell, shell_name, substitute

ROOT_FILE = re.compile(r"\.root(\.\d+)*$")
TAR_FILE = re.compile(r"\.(tgz|tar|tar\.gz)(\.\d+)*$")
NOT_TEXT = re.compile(r"\.(pkl|pickle|zip|npy|npz|h5|hdf5|parquet|sqlite|db)(\.\d+)*$")


def merge(order: Order, job: Path) -> int:
    """Merge files: returns 0, or the exit code of the command that failed."""
    scripted = bool(order.script)
    run = prepare(order, job) if scripted else job
    for sources, target in order.merges:
        if scripted:
            link_inputs(sources, job, run)
        else:
            _check(sources, target, job)
        code = _merge_one(order, sources, target, job, run)
        if code:
            return code
    clean(job)
    return 0


def _check(sources: List[str], target: str, job: Path) -> None:
    """Refuse a merge before anything is written."""
    missing = [name for name in sources if not (job / name).is_file()]
    if missing:
        rule = "it must lie in the job's directory; the pilot stages it in"
        raise Failure(NO_INPUT, *[f"merge {name!a}: {rule}." for name in missing])
    if (job / target).exists():
        rule = "an input has the same name; rename the output"
        raise Failure(NO_MERGE, f"merge {target!a}: {rule}.")
    if len(sources) == 1:
        return
    found = NOT_TEXT.search(target)
    if found:
        rule = f"files of type {found.group(1)} can't be put end to end; give --mergeScript"
        raise Failure(NO_MERGE, f"merge {target!a}: {rule}.")
    if ROOT_FILE.search(target) and not shutil.which("hadd"):
        rule = "hadd is not on PATH; use a site with ROOT, or give --mergeScript"
        raise Failure(NO_MERGE, f"merge {target!a}: {rule}.")


def _merge_one(order: Order, sources: List[str], target: str, job: Path, run: Path) -> int:
    if len(sources) == 1 and not (order.script and "--mergeSingleFile" in order.flags):
        say(f"{target}: the copy of one file")
        shutil.copyfile(str(job / sources[0]), str(job / target))
        return 0
    if order.script:
        return _by_script(order.script, sources, target, job, run)
    if ROOT_FILE.search(target):
        return shell(["hadd", target, *sources], job)
    if TAR_FILE.search(target):
        _archive_all(sources, job, job / target)
    else:
        with (job / target).open("xb") as merged:
            for name in sources:
                with (job / name).open("rb") as file:
                    shutil.copyfileobj(file, merged, 1 << 20)
    say(f"{target}: merged from {len(sources)} files")
    return 0


def _by_script(script: str, sources: List[str], target: str, job: Path, run: Path) -> int:
    text = substitute(script, {"IN": ",".join(sources), "OUT": target})
    say(f"merge command: {text}")
    path = 'PATH="$PATH:."; export PATH\n'
    code = shell([shell_name(), "-c", path + text], run)
    if code:
        return code
    if not (run / target).is_file():
        rule = "the merge script made no such file; let it write %OUT"
        raise Failure(NO_OUTPUT, f"merge {target!a}: {rule}.")
    move_output(run / target, job / target)
    return 0


def _archive_all(sources: List[str], job: Path, target: Path) -> None:
    """Make an archive of archives: none of them is opened."""
    plain = re.search(r"\.tar(\.\d+)*$", target.name)
    with target.open("xb") if plain else gzip.open(str(target), "xb") as packed:
        tar = tarfile.open(fileobj=packed, mode="w", dereference=True)  # noqa: SIM115
        for name in sources:
            tar.add(str(job / name), name)
        tar.close()
