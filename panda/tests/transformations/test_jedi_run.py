"""Run jobs of prun, judged by the content of files. See docs/panda.md#transformation."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest
from support.jedi_run import cache_server, contents, run, sandbox, start

# `prun --exec 'bash run.sh %RNDM:100' --noBuild --nJobs 3 --outputs out.dat`
RUN_SH = "echo data $1 > out.dat\n"
LFN = "user.atest.17._000001.out.dat"
CASE_A = (
    f"-j \"\" --sourceURL {{url}} -r . -a jobO.1.tar.gz -o \"{{{{'out.dat': '{LFN}'}}}}\""
    ' -p "bash%20run.sh%20101"'
)


def left(job: Path) -> list[str]:
    """Files of the job's directory besides the program."""
    return sorted(path.name for path in job.iterdir() if path.name != "jedi-run")


def test_a_job_without_input_fetches_its_sandbox(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    sandbox(tmp_path / "cache/jobO.1.tar.gz", {"run.sh": RUN_SH})
    with cache_server(tmp_path) as url:
        done = run(tmp_path / "job", CASE_A.format(url=url))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "job" / LFN).read_text() == "data 101\n"
    assert left(tmp_path / "job") == [LFN]


def test_a_sandbox_in_the_job_directory_is_not_fetched(tmp_path: Path) -> None:
    sandbox(tmp_path / "jobO.1.tar.gz", {"run.sh": RUN_SH})
    done = run(tmp_path, CASE_A.format(url="http://127.0.0.1:9"))
    assert done.returncode == 0
    assert left(tmp_path) == ["jobO.1.tar.gz", LFN]


def test_a_job_reads_a_library_and_input_files(tmp_path: Path) -> None:
    """prun: `echo %IN > out.dat; bash run.sh 1`, `-l ${LIB}`, `-i "${IN/T}"`."""
    sandbox(tmp_path / "user.atest.lib.tgz", {"run.sh": "cat f1 f2 > h.root\n"})
    (tmp_path / "f1").write_text("one\n")
    (tmp_path / "f2").write_text("two\n")
    outputs = "{'out.dat': 'o.1.out.dat', 'h.root': 'o.1.h.root'}"
    done = run(
        tmp_path,
        '-j "" --sourceURL http://h:1 -r . -l user.atest.lib.tgz'
        f" -o \"{outputs}\" -i \"['f1', 'f2']\""
        ' -p "echo%20%25IN%20%3E%20out.dat%3B%20bash%20run.sh%201"',
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "o.1.out.dat").read_text() == "f1,f2\n"
    assert (tmp_path / "o.1.h.root").read_text() == "one\ntwo\n"


def test_streams_of_secondary_datasets(tmp_path: Path) -> None:
    """prun: `--inMap "{'IN': ${IN/T}, 'SEC': ${SEC/T}}"`; %IN2 is no %IN."""
    for name in ("a", "b", "s1", "t1"):
        (tmp_path / name).write_text(name)
    in_map = "{'IN': ['a', 'b'], 'SEC': ['s1'], 'IN2': ['t1']}"
    command = "echo%20%25IN%20%25%7BSEC%7D%20%25SEC%20%25IN2%20%25INX%20%25d%20%3E%20o"
    done = run(
        tmp_path,
        f"-r . -o \"{{'o': 'O'}}\" -i \"['a', 'b']\" --inMap \"{in_map}\" -p \"{command}\"",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "O").read_text() == "a,b s1 s1 t1 %INX %d\n"


def test_the_command_runs_in_the_run_directory(tmp_path: Path) -> None:
    """prun runs in a directory below --workDir; programs of the sandbox are on PATH."""
    files = {"sub/dir/tool": "#!/bin/sh\ncat in ../../top\n", "top": "T\n"}
    sandbox(tmp_path / "s.tar.gz", files)
    (tmp_path / "in").write_text("I\n")
    done = run(tmp_path, """-r sub/dir/ -a s.tar.gz -i in -o "{'o': 'O'}" -p 'tool%20%3Eo'""")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "O").read_text() == "I\nT\n"


@pytest.mark.parametrize(("command", "code"), [("exit%207", 7), ("kill%20-9%20%24%24", 137)])
def test_the_exit_code_of_the_command_is_returned(tmp_path: Path, command: str, code: int) -> None:
    done = run(tmp_path, f"""-r . -o "{{'o': 'O'}}" -p '{command}'""")
    assert done.returncode == code
    assert f"the command returned {7 if code == 7 else -9}" in done.stdout


def test_a_missing_output_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, """-r . -o "{'a': 'A', 'b': 'B', 'c': 'C'}" -p 'touch%20b'""")
    assert done.returncode == 85
    rule = "the command made no such file; write it into the run directory."
    assert done.stderr.splitlines() == [f"jedi-run: -o 'a': {rule}", f"jedi-run: -o 'c': {rule}"]
    assert (tmp_path / "B").exists()


def test_outputs_that_may_be_missing(tmp_path: Path) -> None:
    done = run(tmp_path, """-r . -o "{'a': 'A', 'b': 'B'}" --allowNoOutput=A,X -p 'touch%20b'""")
    assert (done.returncode, done.stderr) == (0, "")
    assert left(tmp_path) == ["B"]


def test_wildcards_become_an_archive_without_inputs(tmp_path: Path) -> None:
    """prun sends `{'h*.dat': 'user...hXYZ.dat.tgz'}`."""
    (tmp_path / "h0.dat").write_text("input")
    done = run(
        tmp_path,
        """-r . -i h0.dat -o "{'h*.dat': 'u.hXYZ.dat.tgz'}" """
        "-p 'echo%20a%3Eh1.dat;echo%20b%3Eh2.dat'",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert contents(tmp_path / "u.hXYZ.dat.tgz") == {"h1.dat": "a\n", "h2.dat": "b\n"}


def test_outputs_by_regular_expression(tmp_path: Path) -> None:
    names = "regex|u\\.[0-9]+\\.dat"
    done = run(
        tmp_path,
        f"""-r . -o "{{'{names}': '{names}'}}" -p 'touch%20u.1.dat%20u.x.dat'""",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert left(tmp_path) == ["u.1.dat"]


def test_the_command_may_write_final_names(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """-r . --execWithRealFileNames -o "{'o.txt': 'u.1.o.txt'}" """
        "-p 'echo%20o.txt%20oo.txt%3Eo.txt'",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "u.1.o.txt").read_text() == "u.1.o.txt oo.txt\n"


def test_inputs_in_a_file(tmp_path: Path) -> None:
    """`--writeInputToTxt IN:in.txt`: names with commas between them."""
    (tmp_path / "f1").write_text("")
    (tmp_path / "f2").write_text("")
    done = run(
        tmp_path,
        """-r . -i "['f1','f2']" --writeInputToTxt IN:in.txt -o "{'in.txt': 'O'}" -p 'true'""",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "O").read_text() == "f1,f2\n"


def test_given_urls_are_not_staged(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """-r . --givenPFN -i "['root://h//a?x=1&y']" -o "{'o': 'O'}" """
        "-p 'echo%20%22%25IN%22%3Eo'",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "O").read_text() == "root://h//a?x=1&y\n"


def test_every_missing_input_is_named(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere")
    done = run(tmp_path, """-r . -i "['there','dangling','gone']" -p 'touch%20../ran'""")
    assert done.returncode == 84
    assert [line.split(":")[1] for line in done.stderr.splitlines()] == [
        " -i 'dangling'",
        " -i 'gone'",
    ]
    assert not (tmp_path / "ran").exists()


def test_an_input_replaces_a_file_of_the_sandbox(tmp_path: Path) -> None:
    sandbox(tmp_path / "s.tar.gz", {"f": "old", "g": "kept"})
    (tmp_path / "f").write_text("new")
    done = run(tmp_path, """-r . -a s.tar.gz -i f -o "{'o': 'O'}" -p 'cat%20f%20g%3Eo'""")
    assert (tmp_path / "O").read_text() == "newkept"
    assert "f: the input replaces the file of the sandbox" in done.stdout


def test_an_output_never_replaces_an_input(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("input")
    done = run(tmp_path, """-r . -i f -o "{'o': 'f'}" -p 'echo%20x%3Eo'""")
    assert done.returncode == 85
    assert "-o 'f': an input of the job has the same name; rename the output." in done.stderr
    assert (tmp_path / "f").read_text() == "input"


def test_a_step_before_and_one_after_a_container(tmp_path: Path) -> None:
    """prun: "preprocess, postprocess: command `${TRF}`, args `--preprocess ${TRF_ARGS}`"; prun's
    containers run `/bin/sh __run_main_exec.sh` in between."""
    sandbox(tmp_path / "s.tar.gz", {"d/run.sh": "cat in $1 > o\n", "d/x": "X\n"})
    (tmp_path / "in").write_text("I\n")
    order = """-r d -a s.tar.gz -i in -o "{'o': 'O'}" -p 'sh%20run.sh%20x'"""
    assert run(tmp_path, f"--preprocess {order}").returncode == 0
    program = tmp_path / "jedi-run"
    program.unlink()
    assert sh(tmp_path, "__run_main_exec.sh") == 0
    assert run(tmp_path, f"--postprocess {order}").returncode == 0
    assert (tmp_path / "O").read_text() == "I\nX\n"
    assert left(tmp_path) == ["O", "in", "s.tar.gz"]


def sh(job: Path, name: str) -> int:
    return subprocess.run(["/bin/sh", name], cwd=job, check=False).returncode


def test_a_container_runs_the_command(tmp_path: Path) -> None:
    """Stand-in: a program `apptainer` that runs its command here and reports its options."""
    tools = tmp_path / "tools"
    tools.mkdir()
    fake = tools / "apptainer"
    fake.write_text(
        '#!/bin/sh\necho "$@" > options\nwhile [ "$1" != /bin/sh ]; do shift; done\n"$@"\n'
    )
    fake.chmod(0o755)
    job = tmp_path / "job"
    done = run(
        job,
        """--container-image docker://busybox -r . -o "{'o.txt': 'O'}" -p 'echo%20x%3Eo.txt'""",
        PATH=f"{tools}:/usr/bin:/bin",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (job / "O").read_text() == "x\n"
    assert (job / "options").read_text().split() == [
        *("exec", "--bind", str(job), "--pwd", str(job)),
        *("docker://busybox", "/bin/sh", "__run_main_exec.sh"),
    ]


def test_a_container_needs_a_runtime(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("python3", "env"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    done = run(tmp_path / "job", "--container-image img -r . -p true", PATH=str(tools))
    assert done.returncode == 87
    assert "none of apptainer, singularity, podman, docker is on PATH" in done.stderr


def test_a_signal_ends_the_command_and_then_the_job(tmp_path: Path) -> None:
    script = "trap 'exit 3' TERM\nmkfifo wait; exec 3<> wait\necho up > ../../up\nread x <&3\n"
    sandbox(tmp_path / "s.tar.gz", {"d/run.sh": script})
    os.mkfifo(tmp_path / "up")
    process = start(tmp_path, "-r d -a s.tar.gz -p '.%20./run.sh'")
    assert (tmp_path / "up").read_text() == "up\n"  # the command is running
    os.killpg(process.pid, signal.SIGTERM)
    assert "the command returned 3" in process.communicate()[0]
    assert process.returncode == 3


def test_builds_make_a_library_that_jobs_unpack(tmp_path: Path) -> None:
    """prun: '-i ${IN} -o ${OUT} --sourceURL ${SURL} -r . --bexec "make%20-k..." '."""
    (tmp_path / "cache").mkdir()
    files = {"d/src.c": "source", "top": "T", "d/make.sh": "cp src.c bin; ln -s src.c link"}
    sandbox(tmp_path / "cache/sources.1.tar.gz", files)
    build = "-i sources.1.tar.gz -o u.lib.tgz --sourceURL {url} -r d --bexec 'sh%20make.sh' "
    with cache_server(tmp_path) as url:
        done = run(tmp_path / "build", build.format(url=url))
    assert (done.returncode, done.stderr) == (0, "")
    assert left(tmp_path / "build") == ["u.lib.tgz"]
    library = tmp_path / "build/u.lib.tgz"
    with tarfile.open(library) as tar:
        assert sorted(tar.getnames()) == [
            "d",
            *(f"d/{n}" for n in ("bin", "link", "make.sh", "src.c")),
            "top",
        ]
    job = tmp_path / "job"
    job.mkdir()
    library.rename(job / "u.lib.tgz")
    done = run(job, """-r d -l u.lib.tgz -o "{'o': 'O'}" -p 'cat%20bin%20link%20../top%3Eo'""")
    assert (job / "O").read_text() == "sourcesourceT"


def test_a_failed_build_returns_its_code(tmp_path: Path) -> None:
    sandbox(tmp_path / "s.tar.gz", {"f": ""})
    done = run(tmp_path, "build -i s.tar.gz -o lib.tgz -r . --bexec 'exit%205'")
    assert done.returncode == 5
    assert not (tmp_path / "lib.tgz").exists()


def test_builds_keep_what_links_out_of_them_mean(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("O")
    sandbox(tmp_path / "s.tar.gz", {"f": "F"})
    commands = ("ln -s ../outside o", "ln -s $PWD/f abs", "ln -s /tmp dir", "ln -s gone g")
    bexec = "%3B".join(commands).replace(" ", "%20")
    done = run(tmp_path, f"-i s.tar.gz -o lib.tgz -r . --bexec '{bexec}'")
    assert done.returncode == 0
    with tarfile.open(tmp_path / "lib.tgz") as tar:
        members = {m.name: (m.type, m.linkname) for m in tar}
    assert members == {
        "abs": (tarfile.SYMTYPE, "f"),
        "f": (tarfile.REGTYPE, ""),
        "g": (tarfile.SYMTYPE, "gone"),
        "o": (tarfile.REGTYPE, ""),
    }
    assert contents(tmp_path / "lib.tgz")["o"] == "O"
    assert "dir is left out" in done.stdout


def test_builds_without_compilation_only_pack(tmp_path: Path) -> None:
    sandbox(tmp_path / "s.tar.gz", {"run.sh": "x"})
    done = run(tmp_path, "-i s.tar.gz -o lib.tgz -r . --noCompile --bexec 'exit%201'")
    assert done.returncode == 0
    assert contents(tmp_path / "lib.tgz") == {"run.sh": "x"}


def test_files_keep_their_times_and_modes(tmp_path: Path) -> None:
    """make compares times."""
    entry = tarfile.TarInfo("f")
    entry.mtime, entry.mode = 1_000_000_000, 0o4755
    sandbox(tmp_path / "s.tar.gz", {}, entry)
    done = run(tmp_path, """-r . -a s.tar.gz -o "{'f': 'F'}" -p true""")
    assert done.returncode == 0
    info = (tmp_path / "F").stat()
    assert (info.st_mtime, stat.S_IMODE(info.st_mode)) == (1_000_000_000, 0o755)


def test_help_names_the_exit_codes(tmp_path: Path) -> None:
    done = run(tmp_path, "--help")
    assert done.returncode == 0
    assert "83  the archive is damaged" in done.stdout
