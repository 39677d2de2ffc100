"""The arguments of a job, with every mistake in them."""

import ast
import os
import re
import urllib.parse
import warnings
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from .base import inside, native, plain_name, say

VALUES = {
    **{"-j": "script", "--mergeScript": "script", "--sourceURL": "source", "-r": "rundir"},
    **{"-a": "archive", "-l": "archive", "-o": "outputs", "-i": "inputs", "--inMap": "in_map"},
    **{"-p": "command", "--bexec": "bexec", "--writeInputToTxt": "lists"},
    **{"--allowNoOutput": "optional", "--dbrFile": "dbr", "--container-image": "image"},
}
FLAGS = {
    *("--execWithRealFileNames", "--givenPFN", "--noTarballDownload", "--mergeSingleFile"),
    *("--preprocess", "--postprocess", "--noCompile", "--noExpandDBR"),
}
IGNORED_VALUES = {
    *("--inputGUIDs", "--cmtConfig", "--overwriteQueuedata", "--accessmode", "--lfcHost"),
    *("--oldPrefix", "--newPrefix"),
}
IGNORED_FLAGS = {
    *("--usePFCTurl", "--directIn", "--useLocalIO", "--useCMake", "--debug", "--cvmfs", "--noX509"),
    *("--individualOutDS", "--skipInputByRetry"),
}
NO_ATHENA = "Athena is not supported; submit without it, or set it up in --exec"
NO_CONTAINER = "runcontainer is not supported; submit without --oldContMode"
NOT_KEPT = "files kept between jobs are not supported; write an output file"
NO_RUN_LISTS = "good run lists are not supported; name the dataset with --inDS"
REFUSED_FLAGS = {"--useAthenaPackages": NO_ATHENA, "--useRootCore": NO_ATHENA}
REFUSED_VALUES = {
    "--rootVer": "no ROOT is set up here; set it up in --exec, or use --containerImage",
    **dict.fromkeys(("--containerImage", "--datadir", "--workdir"), NO_CONTAINER),
    **dict.fromkeys(("--useCentralRegistry",), NO_CONTAINER),
    **dict.fromkeys(("--fileToSave", "--fileToLoad"), NOT_KEPT),
    **dict.fromkeys(("--goodRunListXML", "--goodRunListDataType"), NO_RUN_LISTS),
    **dict.fromkeys(("--goodRunListProdStep", "--goodRunListDS"), NO_RUN_LISTS),
}


class Order:
    """The job as its arguments describe it; `mistakes` has every error in them."""

    def __init__(self, arguments: List[str]) -> None:
        self.mistakes: List[str] = []
        self.flags: Set[str] = set()
        self.values: Dict[str, str] = {}
        self.merges: List[Tuple[List[str], str]] = []
        self.word = arguments[0] if arguments and arguments[0] in ("build", "merge") else ""
        words = iter(arguments[1:] if self.word else arguments)
        for word in words:
            self._read(word, words)
        self.rundir = self._rundir()
        self.source = self._source()
        self.archive = self._archive(self.values.get("archive"), "-a or -l")
        self.kind = self._kind()
        self.command, self.bexec = (self._decoded(name) for name in ("command", "bexec"))
        self.image = self.values.get("image", "")
        self.script = self.values.get("script", "").strip()
        self.inputs = self._inputs() if self.kind == "run" else {}
        self.outputs = self._outputs() if self.kind == "run" else {}
        self.lists = self._lists()
        self.optional = set(self.values.get("optional", "").split(","))
        self._check_kind()

    def _read(self, word: str, words: Iterator[str]) -> None:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        takes_value = name in VALUES or name in IGNORED_VALUES or name in REFUSED_VALUES
        if takes_value and not equals:
            given = next(words, None)
            if given is None:
                self.wrong(name, "", "it needs a value; add one")
                return
            value = given
        if name in VALUES:
            self.values[VALUES[name]] = value
        elif name in FLAGS:
            self.flags.add(name)
        elif name in REFUSED_FLAGS or name in REFUSED_VALUES:
            self.wrong(name, value, REFUSED_FLAGS.get(name) or REFUSED_VALUES[name])
        elif name in IGNORED_FLAGS or name in IGNORED_VALUES:
            say(f"{name} is ignored")
        elif word.startswith("-") and word != "-":
            self.wrong(word, "", "it is no option of jedi-run; see docs/panda.md, Transformation")
        elif word:
            self._read_merge(word)

    def _read_merge(self, word: str) -> None:
        sources, colon, target = word.rpartition(":")
        names = sources.split(",")
        if colon and all(map(plain_name, [*names, target])):
            self.merges.append((names, target))
        else:
            self.wrong("merge", word, "file names must be IN1,IN2:OUT; write them so")

    def wrong(self, field: str, value: object, rule: str) -> None:
        shown = f" {value!a}"[:200] if value not in ("", None) else ""
        self.mistakes.append(f"{field}{shown}: {rule}.")

    def _rundir(self) -> str:
        given = self.values.get("rundir", ".")
        if not inside(given):
            rule = "it must be a directory of the archive; submit below --workDir"
            self.wrong("-r", given, rule)
        return os.path.normpath(given)

    def _source(self) -> str:
        given = self.values.get("source", "")
        if given and not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", given):
            self.wrong("--sourceURL", given, "it must be http(s)://HOST[:PORT]; write it so")
        return given.rstrip("/")

    def _archive(self, name: Optional[str], field: str) -> Optional[str]:
        if name is not None and not plain_name(name):
            self.wrong(field, name, "it must be a file name; write it without directories")
        return name

    def _kind(self) -> str:
        if self.word:
            return self.word
        if self.merges:
            return "merge"
        if "command" in self.values:
            return "run"
        if {"inputs", "outputs"} <= set(self.values) or "bexec" in self.values:
            return "build"
        rule = "a job needs one of them; give -p COMMAND, -i IN -o OUT, or IN1,IN2:OUT"
        self.wrong("-p, --bexec, merge", "", rule)
        return ""

    def _decoded(self, name: str) -> str:
        encoded = os.fsencode(self.values.get(name, ""))
        return os.fsdecode(urllib.parse.unquote_to_bytes(encoded))

    def _literal(self, field: str, text: str) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of patterns: the shell has undone "\\."
                return _native(ast.literal_eval(os.fsencode(text).decode()))
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            self.wrong(field, text, "it must be a Python literal; write it as prun does")
            return None

    def _inputs(self) -> Dict[str, List[str]]:
        """Names of files by stream: IN and those of --inMap."""
        text = self.values.get("inputs", "").strip()
        streams: Dict[Any, Any] = {}
        if text[:1] in ("[", "("):
            streams = {"IN": self._literal("-i", text)}
        elif text:
            streams = {"IN": text.split(",")}
        if "in_map" in self.values:
            more = self._literal("--inMap", self.values["in_map"])
            if isinstance(more, dict):
                streams.update(more)
            elif more is not None:
                self.wrong("--inMap", more, "it must be {'STREAM': ['file', ...]}; write it so")
        good = {}
        for stream, names in streams.items():
            if names is None:
                continue
            if self._good_stream(stream, names):
                good[str(stream)] = [str(name) for name in names]
        return good

    def _good_stream(self, stream: object, names: object) -> bool:
        field = "-i" if stream == "IN" else "--inMap"
        if not isinstance(stream, str) or not re.fullmatch(r"\w+", stream):
            self.wrong(field, stream, "a stream's name has letters, digits and _; rename it")
            return False
        if not isinstance(names, (list, tuple)):
            self.wrong(field, names, "it must be a list of file names; write it so")
            return False
        urls = "--givenPFN" in self.flags and stream == "IN"
        bad = [n for n in names if not (isinstance(n, str) and n and (urls or plain_name(n)))]
        for name in bad:
            rule = "a name of a file has no blank, '/' or letter of the shell; rename the file"
            self.wrong(field, name, rule)
        return not bad

    def _outputs(self) -> Dict[str, str]:
        """Final names by names in the run directory."""
        text = self.values.get("outputs", "").strip()
        found = self._literal("-o", text) if text else {}
        if found is None:
            return {}
        if not isinstance(found, dict):
            self.wrong("-o", text, "it must be {'file': 'final name'}; write it so")
            return {}
        good = {}
        for name, lfn in found.items():
            if isinstance(name, str) and name.startswith("regex|"):
                self._compiles(name)
            elif not isinstance(name, str) or not inside(name):
                self.wrong("-o", name, "an output lies in the run directory; name it from there")
                continue
            elif not isinstance(lfn, str) or not plain_name(lfn):
                self.wrong("-o", lfn, "a final name has no blank or '/'; rename the output")
                continue
            good[name] = str(lfn)
        return good

    def _compiles(self, name: str) -> None:
        try:
            re.compile(name[len("regex|") :])
        except re.error as error:
            self.wrong("-o", name, f"no regular expression ({error}); correct --outputs")

    def _lists(self) -> Dict[str, str]:
        """Files that list the inputs of a stream, by stream."""
        good = {}
        for pair in filter(None, self.values.get("lists", "").split(",")):
            stream, colon, name = pair.partition(":")
            if not colon or not inside(name) or not stream:
                self.wrong("--writeInputToTxt", pair, "it must be STREAM:FILE; write it so")
            elif stream not in self.inputs:
                known = ", ".join(sorted(self.inputs)) or "none"
                self.wrong("--writeInputToTxt", pair, f"streams are {known}; use one")
            else:
                good[stream] = name
        return good

    def _check_kind(self) -> None:
        if self.kind == "merge" and not self.merges:
            self.wrong("merge", "", "it names no files; write IN1,IN2:OUT")
        if self.image and (self.image.startswith("-") or not self.image.isprintable()):
            self.wrong("--container-image", self.image, "it is no image; correct --containerImage")
        if self.kind == "run" and not self.command.strip():
            self.wrong("-p", "", "the command is empty; give --exec")
        if self.kind == "run" and "dbr" in self.values and "--noExpandDBR" not in self.flags:
            self.wrong("--dbrFile", self.values["dbr"], NO_ATHENA)
        if self.kind == "build":
            for field, name in (("-i", "inputs"), ("-o", "outputs")):
                self._archive(self.values.get(name, ""), field)
        if self.script and not ("%IN" in self.script and "%OUT" in self.script):
            rule = "the script needs %IN and %OUT; write --mergeScript 'SCRIPT %OUT %IN'"
            self.wrong("-j", self.script, rule)


def _native(value: Any) -> Any:
    """A literal with its texts as names of files are."""
    if isinstance(value, str):
        return native(value)
    if isinstance(value, dict):
        return {_native(key): _native(inner) for key, inner in value.items()}
    return [_native(inner) for inner in value] if isinstance(value, (list, tuple)) else value
