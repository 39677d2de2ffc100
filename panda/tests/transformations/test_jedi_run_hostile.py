"""Archives that attack the worker node, and wrong arguments. See docs/panda.md#transformation."""

from __future__ import annotations

import ast
import gzip
import http.server
import io
import shlex
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import jedi_panda.transformations
import pytest
from support.jedi_run import cache_server, member, run, sandbox

SYM, HARD = tarfile.SYMTYPE, tarfile.LNKTYPE
LINK = "a link out of the archive; send the file that it means"
NO_FILE = "a link to no file before it in the archive; send the file"
BEHIND = "it lies behind a link or a file; rename it"
OUT = "its name leads out of the archive; rename it"
TAKEN = "a directory has this name; rename one of them"
KIND = "neither a file, a directory nor a link; leave it out"


@pytest.mark.parametrize(
    ("members", "bad", "rule"),
    [
        ([member("/tmp/evil")], "/tmp/evil", OUT),
        ([member("../evil")], "../evil", OUT),
        ([member("a/../../evil")], "a/../../evil", OUT),
        ([member("s", SYM, "/etc/passwd")], "s", LINK),
        ([member("d", tarfile.DIRTYPE), member("d/s", SYM, "../../x")], "d/s", LINK),
        ([member("s", SYM, "."), member("s/evil")], "s/evil", BEHIND),
        ([member("f"), member("f/evil")], "f/evil", BEHIND),
        ([member("h", HARD, "/etc/passwd")], "h", NO_FILE),
        ([member("h", HARD, "../../outside")], "h", NO_FILE),
        ([member("s", SYM, "x"), member("h", HARD, "s")], "h", NO_FILE),
        # each link seems to stay inside; together they leave
        ([member("d/e/s", SYM, "../.."), member("t", SYM, "d/e/s/..")], "t", LINK),
        ([member("t", SYM, "d/e/s/.."), member("d/e/s", SYM, "../..")], "t", LINK),
        ([member("p", tarfile.FIFOTYPE)], "p", KIND),
        ([member("c", tarfile.CHRTYPE)], "c", KIND),
        ([member("b", tarfile.BLKTYPE)], "b", KIND),
        ([member("d", tarfile.DIRTYPE), member("d")], "d", TAKEN),
        ([member(".", SYM, "x")], ".", TAKEN),
    ],
)
def test_members_that_lead_out_are_refused_by_name(
    tmp_path: Path, members: list[tarfile.TarInfo], bad: str, rule: str
) -> None:
    job = tmp_path / "job"
    job.mkdir()
    (tmp_path / "outside").write_text("secret")
    sandbox(job / "s.tar.gz", {}, *members)
    done = run(job, "-r . -a s.tar.gz -p 'touch%20ran'")
    assert done.returncode == 83
    assert done.stderr == f"jedi-run: Archive 's.tar.gz', member {bad!r}: {rule}.\n"
    assert not list(tmp_path.rglob("evil")) + list(tmp_path.rglob("ran"))


def test_links_that_stay_inside_are_kept(tmp_path: Path) -> None:
    files = {"lib/libx.so.1": "X", "bin/y": "Y"}
    links = [
        member("lib/libx.so", SYM, "libx.so.1"),
        member("bin/x", SYM, "../lib/libx.so"),
        member("z", HARD, "bin/y"),
    ]
    sandbox(tmp_path / "s.tar.gz", files, *links)
    done = run(tmp_path, """-r . -a s.tar.gz -o "{'o': 'O'}" -p 'cat%20bin/x%20z%3Eo'""")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "O").read_text() == "XY"


def test_a_later_member_replaces_a_file_and_no_target_of_a_link(tmp_path: Path) -> None:
    """`tar -r` appends newer files under the same name."""
    entry = member("s", size=3)
    with tarfile.open(tmp_path / "s.tar.gz", "w:gz") as tar:
        for name, text in (("f", b"old"), ("f", b"new")):
            tar.addfile(member(name, size=3), io.BytesIO(text))
        tar.addfile(member("s", SYM, "f"))
        tar.addfile(entry, io.BytesIO(b"own"))
    done = run(tmp_path, """-r . -a s.tar.gz -o "{'o': 'O'}" -p 'cat%20f%20s%3Eo'""")
    assert (done.returncode, (tmp_path / "O").read_text()) == (0, "newown")


@pytest.mark.parametrize(
    ("sizes", "environment", "rule"),
    [
        ([5 << 30], {}, "more than 4294967296 bytes in all; send less"),
        pytest.param(
            [0] * 100_001, {}, "more than 100000 files; send fewer", marks=pytest.mark.long
        ),
        ([60, 60], {"JEDI_RUN_MAX_BYTES": "100"}, "more than 100 bytes in all; send less"),
        ([0, 0, 0], {"JEDI_RUN_MAX_FILES": "2"}, "more than 2 files; send fewer"),
    ],
)
def test_bombs_are_refused(
    tmp_path: Path, sizes: list[int], environment: dict[str, str], rule: str
) -> None:
    blocks = {
        size: member("f", size=size).tobuf() + bytes(512 if 0 < size < 512 else 0)
        for size in {*sizes}
    }
    archive = b"".join(blocks[size] for size in sizes) + bytes(1024)
    (tmp_path / "s.tar.gz").write_bytes(gzip.compress(archive, 1))
    done = run(tmp_path, "-r . -a s.tar.gz -p true", **environment)
    assert done.returncode == 83
    assert done.stderr == f"jedi-run: Archive 's.tar.gz', member 'f': {rule}.\n"


def long_header(kind: bytes) -> bytes:
    header = member("x", kind, size=64 << 20).tobuf()
    return header + bytes(64 << 20)


def good(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in files.items():
            tar.addfile(member(name, size=len(text)), io.BytesIO(text.encode()))
    return buffer.getvalue()


BROKEN: dict[str, Callable[[], bytes]] = {
    "no archive": lambda: b"<html>not found</html>" * 100,
    "empty file": lambda: b"",
    "cut gzip": lambda: gzip.compress(good({"f": "x" * 5000, "g": "y"}))[:-20],
    "wrong checksum": lambda: gzip.compress(good({"f": "x"}))[:-8] + b"\0" * 8,
    "cut member": lambda: good({"f": "x" * 5000})[:1000],
    "damaged header": lambda: good({"f": "x"})[:1024] + b"rubbish" * 100 + bytes(1024),
    "endless name": lambda: gzip.compress(long_header(b"L"), 1),
    "endless attributes": lambda: gzip.compress(long_header(b"x"), 1),
    "nested attributes": lambda: member("x", b"x").tobuf() * 5000,
}


@pytest.mark.parametrize("name", BROKEN)
def test_damaged_archives_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "s.tar.gz").write_bytes(BROKEN[name]())
    done = run(tmp_path, "-r . -a s.tar.gz -p true")
    assert done.returncode == 83
    assert done.stderr.startswith("jedi-run: Archive 's.tar.gz' can't be unpacked: ")
    assert done.stderr.count("\n") == 1


def test_empty_and_plain_archives_are_good(tmp_path: Path) -> None:
    """prun sends an archive without members if there are no files."""
    (tmp_path / "s.tar.gz").write_bytes(gzip.compress(good({})))
    assert run(tmp_path, "-r . -a s.tar.gz -p true").returncode == 0
    (tmp_path / "s.tar").write_bytes(good({"f": "x"}))
    assert run(tmp_path, "-r . -a s.tar -p 'test%20-s%20f'").returncode == 0


def test_an_archive_that_nobody_has(tmp_path: Path) -> None:
    with cache_server(tmp_path) as url:
        done = run(tmp_path / "job", f"-r . -a jobO.1.tar.gz --sourceURL {url} -p true")
    assert done.returncode == 82
    assert done.stderr == (
        f"jedi-run: {url}/cache/jobO.1.tar.gz can't be fetched: HTTP Error 404: File not found; "
        "submit the task again, if the server has deleted the file.\n"
    )
    done = run(tmp_path / "job", "-r . -a x.tgz --sourceURL http://h:1 --noTarballDownload -p true")
    assert done.returncode == 82
    rule = "it must lie in the job's directory; stage it in, or give --sourceURL."
    assert done.stderr == f"jedi-run: -a, -l 'x.tgz': {rule}\n"


class Cutter(http.server.BaseHTTPRequestHandler):
    """Announces more bytes than it sends the first time, fails the second, serves the third."""

    archive = b""
    seen = 0

    def do_GET(self) -> None:
        Cutter.seen += 1
        if Cutter.seen == 2:
            self.send_error(503)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.archive)))
        self.end_headers()
        self.wfile.write(self.archive[: 10 if Cutter.seen == 1 else None])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.long
def test_a_cut_download_is_repeated(tmp_path: Path) -> None:
    Cutter.archive = gzip.compress(good({"f": "x"}))
    with http.server.HTTPServer(("127.0.0.1", 0), Cutter) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        done = run(tmp_path, f"-r . -a j.tar.gz --sourceURL {url} -p 'test%20-s%20f'")
        server.shutdown()
        thread.join()
    assert (done.returncode, Cutter.seen) == (0, 3)
    assert "10 of " in done.stdout and "503" in done.stdout


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "--what -r ../x --sourceURL ftp://h -a d/s.tgz --useAthenaPackages --rootVer 6.30"
        """ -i "['a;b', 3]" --inMap 'X' -o "{'../o': 'O', 'p': 'd/P', 'regex|(': 'x'}" """
        " --writeInputToTxt SEC -p '' two words --bexec",
    )
    assert done.returncode == 81
    found = {tuple(line.split(": ", 2)[1:]) for line in done.stderr.splitlines()}
    name = "a name of a file has no blank, '/' or letter of the shell; rename the file."
    assert found == {
        ("--what", "it is no option of jedi-run; see docs/panda.md, Transformation."),
        ("-r '../x'", "it must be a directory of the archive; submit below --workDir."),
        ("--sourceURL 'ftp://h'", "it must be http(s)://HOST[:PORT]; write it so."),
        ("-a or -l 'd/s.tgz'", "it must be a file name; write it without directories."),
        (
            "--useAthenaPackages",
            "Athena is not supported; submit without it, or set it up in --exec.",
        ),
        (
            "--rootVer '6.30'",
            "no ROOT is set up here; set it up in --exec, or use --containerImage.",
        ),
        ("-i 'a;b'", name),
        ("-i 3", name),
        ("--inMap 'X'", "it must be a Python literal; write it as prun does."),
        ("-o '../o'", "an output lies in the run directory; name it from there."),
        ("-o 'd/P'", "a final name has no blank or '/'; rename the output."),
        (
            "-o 'regex|('",
            "no regular expression (missing ), unterminated subpattern at position 0);"
            " correct --outputs.",
        ),
        ("--writeInputToTxt 'SEC'", "it must be STREAM:FILE; write it so."),
        ("-p", "the command is empty; give --exec."),
        ("merge 'two'", "file names must be IN1,IN2:OUT; write them so."),
        ("merge 'words'", "file names must be IN1,IN2:OUT; write them so."),
        ("--bexec", "it needs a value; add one."),
    }
    assert [path.name for path in tmp_path.iterdir()] == ["jedi-run"]


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        ("", "-p, --bexec, merge: a job needs one of them"),
        ("-r .", "-p, --bexec, merge: a job needs one of them"),
        ("build -r .", "-i: it must be a file name"),
        ("merge -r .", "merge: it names no files"),
        ("-r . -j merge.sh a,b:c", "-j 'merge.sh': the script needs %IN and %OUT"),
        ("-p true -o __import__('os').system('x')", "-o \"__import__('os').system('x')\": it must"),
        ("-p true -i ['a'", "-i \"['a'\": it must be a Python literal"),
        ("-p true -o ['a']", "-o \"['a']\": it must be {'file': 'final name'}"),
        ("-p true --inMap ['a']", "--inMap ['a']: it must be {'STREAM': ['file', ...]}"),
        ("-p true --inMap {'A':1}", "--inMap 1: it must be a list of file names"),
        ("-p true --inMap {'A-B':[]}", "--inMap 'A-B': a stream's name has letters"),
        ("-p true -i a --writeInputToTxt X:f", "--writeInputToTxt 'X:f': streams are IN; use one"),
        ("-p true --dbrFile=DBR.tgz", "--dbrFile 'DBR.tgz': Athena is not supported"),
        ("-p true --containerImage x --debug", "--containerImage 'x': runcontainer is not"),
        ("-p true --container-image -v", "--container-image '-v': it is no image"),
    ],
)
def test_a_mistake_names_field_value_rule_and_remedy(
    tmp_path: Path, arguments: str, start: str
) -> None:
    words = " ".join(shlex.quote(word) for word in arguments.split())
    done = run(tmp_path, words)
    assert done.returncode == 81
    assert start in done.stderr
    assert "Traceback" not in done.stderr


def test_options_of_pilots_are_ignored_aloud(tmp_path: Path) -> None:
    arguments = """--usePFCTurl --directIn --inputGUIDs "['A-1']" --cmtConfig x -r . -p true"""
    done = run(tmp_path, arguments)
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("--usePFCTurl", "--directIn", "--inputGUIDs", "--cmtConfig"):
        assert f"jedi-run: {name} is ignored\n" in done.stdout


def test_a_node_that_fails_is_named(tmp_path: Path) -> None:
    """The rest of the job's directory is a file where jedi_work should be."""
    (tmp_path / "jedi_work").write_text("")
    done = run(tmp_path, "-r . -p true")
    assert done.returncode == 87
    assert done.stderr.startswith("jedi-run: [Errno ")
    assert "jedi_work'; free space on the worker node, or use another one." in done.stderr


def test_other_locales_and_bytes(tmp_path: Path) -> None:
    """Names and commands in UTF-8 work where the locale is C."""
    sandbox(tmp_path / "s.tar.gz", {"é.sh": "echo é > ö\n"})
    done = run(
        tmp_path,
        """-r . -a s.tar.gz -o "{'ö': 'O'}" -p 'sh%20%C3%A9.sh%20%FF'""",
        LC_ALL="C",
        PYTHONUTF8="0",
        PYTHONCOERCECLOCALE="0",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "O").read_text() == "é\n"


def test_the_sources_are_python_3_6() -> None:
    package = Path(jedi_panda.transformations.__file__).parent
    for file in package.rglob("jedi_*/*.py"):
        ast.parse(file.read_text(), feature_version=(3, 6))
