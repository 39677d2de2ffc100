"""A run job: input files linked, the command run, outputs given their final names."""

import glob
import os
import re
import shlex
import shutil
import signal
import subprocess
import tarfile
from pathlib import Path
from typing import Dict, Iterable, List, Set

from .archives import pack_directory, unpack_archive
from .arguments import Order
from .base import NO_INPUT, NO_OUTPUT, NODE, WORK, Failure, say

SCRIPT = "__run_main_exec.sh"
"""prun's containers run a script of this name (--containerImage)."""

CONTAINERS = ("apptainer", "singularity", "podman", "docker")


def prepare(order: Order, job: Path) -> Path:
    """Unpack the archive and return the run directory."""
    work = job / WORK
    shutil.rmtree(str(work), ignore_errors=True)
    if order.archive:
        only_here = "--noTarballDownload" in order.flags
        unpack_archive(order.archive, order.source, only_here, job, work)
    run = work / order.rundir
    run.mkdir(parents=True, exist_ok=True)
    return run


def link_inputs(names: Iterable[str], job: Path, run: Path) -> None:
    """Put relative links to staged files into the run directory: a container sees them, too."""
    wanted = sorted(set(names))
    missing = [name for name in wanted if not (job / name).is_file()]
    if missing:
        rule = "it must lie in the job's directory; the pilot stages it in"
        raise Failure(NO_INPUT, *[f"-i {name!a}: {rule}." for name in missing])
    for name in wanted:
        link = run / name
        if os.path.lexists(str(link)):
            if link.is_dir() and not link.is_symlink():
                rule = "the sandbox has a directory of this name; rename it"
                raise Failure(NO_INPUT, f"-i {name!a}: {rule}.")
            say(f"{name}: the input replaces the file of the sandbox")
            link.unlink()
        link.symlink_to(os.path.relpath(str(job / name), str(run)))


def staged(order: Order) -> Set[str]:
    """Names of all input files that a pilot stages in."""
    urls = "--givenPFN" in order.flags
    return {
        name
        for stream, names in order.inputs.items()
        if not (urls and stream == "IN")
        for name in names
    }


def preprocess(order: Order, job: Path) -> None:
    """Everything before the command: the run directory, its files and the script."""
    run = prepare(order, job)
    link_inputs(staged(order), job, run)
    for stream, name in order.lists.items():
        names = ",".join(order.inputs[stream])
        (run / name).write_bytes(os.fsencode(f"{names}\n"))
    directory = shlex.quote(str(Path(WORK, order.rundir)))
    lines = [f"cd {directory} || exit 1", 'PATH="$PATH:."', "export PATH", command(order)]
    text = "\n".join(lines) + "\n"
    (job / SCRIPT).write_bytes(os.fsencode(text))


def command(order: Order) -> str:
    """The user's command with names of files for %IN, %{SEC}, ..."""
    text = substitute(order.command, {k: ",".join(v) for k, v in order.inputs.items()})
    if "--execWithRealFileNames" in order.flags:
        for name in sorted(order.outputs, key=len, reverse=True):
            pattern = rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)"
            text = re.sub(pattern, lambda _, lfn=order.outputs[name]: lfn, text)  # type: ignore
    return text


def substitute(text: str, values: Dict[str, str]) -> str:
    """Put values for %NAME and %{NAME}; other words stay unchanged."""
    if not values:
        return text
    names = "|".join(map(re.escape, values))
    pattern = rf"%(?:\{{({names})\}}|({names})(?!\w))"
    return re.sub(pattern, lambda found: values[found.group(1) or found.group(2)], text)


def shell(script: List[str], directory: Path) -> int:
    """Run a command of the user. Returns its exit code, 128 + n for signal n.

    Pilots send signals to all processes of a job: this one waits until the command ends.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # unlike SIG_IGN, the command does not inherit it
    code = subprocess.call(script, cwd=str(directory))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    say(f"the command returned {code}")
    return code if code >= 0 else 128 - code


def shell_name() -> str:
    """The best shell of this machine."""
    return "bash" if shutil.which("bash") else "sh"


def script_command(image: str, job: Path) -> List[str]:
    """The words that run the script: in a container of `image`, if the job has one."""
    if not image:
        return [shell_name(), SCRIPT]
    name = next(filter(shutil.which, CONTAINERS), "")
    if not name:
        rule = "none of {} is on PATH; use a site that has one".format(", ".join(CONTAINERS))
        raise Failure(NODE, f"--container-image {image!a}: {rule}.")
    if name in ("apptainer", "singularity"):
        return [name, "exec", "--bind", str(job), "--pwd", str(job), image, "/bin/sh", SCRIPT]
    account = f"{os.getuid()}:{os.getgid()}"
    options = ["--rm", "--user", account, "--volume", f"{job}:{job}", "--workdir", str(job)]
    plain = re.sub("^docker://", "", image)
    return [name, "run", *options, "--entrypoint", "/bin/sh", plain, SCRIPT]


def postprocess(order: Order, job: Path) -> None:
    """Everything after the command: outputs move to the job's directory under their final names."""
    run = job / WORK / order.rundir
    inputs = staged(order)
    missing: List[str] = []
    for name, lfn in order.outputs.items():
        if name.startswith("regex|"):
            _move_matches(re.compile(name[len("regex|") :]), inputs, run, job)
            continue
        made = lfn if "--execWithRealFileNames" in order.flags and "*" not in name else name
        done = _pack(made, lfn, inputs, run, job) if "*" in made else _move(made, lfn, run, job)
        if not done and lfn not in order.optional:
            missing.append(name)
    if missing:
        rule = "the command made no such file; write it into the run directory"
        raise Failure(NO_OUTPUT, *[f"-o {name!a}: {rule}." for name in missing])
    clean(job)


def clean(job: Path) -> None:
    """Remove the run directory: a pilot packs all that is left into the log."""
    shutil.rmtree(str(job / WORK), ignore_errors=True)
    if (job / SCRIPT).exists():
        (job / SCRIPT).unlink()


def _move(name: str, lfn: str, run: Path, job: Path) -> bool:
    path = run / name
    if not path.is_file():
        return False
    move_output(path, job / lfn)
    return True


def move_output(path: Path, target: Path) -> None:
    """Move a file out of the run directory; a link becomes the file that it means."""
    if os.path.lexists(str(target)):
        rule = "an input of the job has the same name; rename the output"
        raise Failure(NO_OUTPUT, f"-o {target.name!a}: {rule}.")
    if path.is_symlink():
        shutil.copyfile(str(path), str(target))
    else:
        shutil.move(str(path), str(target))


def _pack(pattern: str, lfn: str, inputs: Set[str], run: Path, job: Path) -> bool:
    """Make a .tar.gz of all files that match, without inputs."""
    found = glob.glob(f"{glob.escape(str(run))}/{pattern}")  # noqa: PTH207 - hidden files stay
    names = sorted(os.path.relpath(path, str(run)) for path in found)
    names = [name for name in names if name not in inputs]
    if not names:
        return False
    if os.path.lexists(str(job / lfn)):
        rule = "an input of the job has the same name; rename the output"
        raise Failure(NO_OUTPUT, f"-o {lfn!a}: {rule}.")
    with tarfile.open(str(job / lfn), "w:gz", dereference=True) as tar:
        for name in names:
            tar.add(str(run / name), name)
    return True


def _move_matches(pattern: "re.Pattern[str]", inputs: Set[str], run: Path, job: Path) -> None:
    """Move all files whose names match; a server that made the pattern knows which to expect."""
    for path in sorted(run.iterdir()):
        if path.name not in inputs and path.is_file() and pattern.fullmatch(path.name):
            move_output(path, job / path.name)


def run(order: Order, job: Path) -> int:
    """Run a job: returns the exit code of the command."""
    parts = {"--preprocess", "--postprocess"} & order.flags
    if "--postprocess" not in parts:
        preprocess(order, job)
    code = 0 if parts else shell(script_command(order.image, job), job)
    if code == 0 and "--preprocess" not in parts:
        postprocess(order, job)
    return code


def build(order: Order, job: Path) -> int:
    """Build a library: unpack sources, run the user's command, pack all that is there then."""
    order.archive = order.values["inputs"]
    directory = prepare(order, job)
    if order.bexec and "--noCompile" not in order.flags:
        say(f"build command: {order.bexec}")
        code = shell([shell_name(), "-c", order.bexec], directory)
        if code:
            return code
    pack_directory(job / WORK, job / order.values["outputs"])
    clean(job)
    return 0
