"""Task parameters of prun as JEDI's: expected values by hand from docs/reference/panda.md."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jedi_panda.model.task_parameters import renamed, translate, with_scope
from support.prun_tasks import NO_BUILD, SOURCES, URL, case_a, case_b, case_c, task, template

from jedi.model.tasks.params import TaskParams
from jedi.model.tasks.text import validate


def items(document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [
        one for one in document["jobParameters"] if kind in (one.get("param_type"), one["type"])
    ]


def read(sent: dict[str, Any], vo: str = "") -> dict[str, Any]:
    """The translation, which JEDI accepts as a task."""
    found = translate(json.loads(json.dumps(sent)), vo)
    assert found.problems == []
    assert isinstance(validate(found.document), TaskParams)
    return found.document


def test_scopes_by_rucios_rule() -> None:
    """names without a scope get it by Rucio's rule (`user.<name>`, `group.<name>`, else the first
    field), containers with a trailing `/`."""
    assert with_scope("user.me.t1_out/") == "user.me:user.me.t1_out"
    assert with_scope("group.phys.x") == "group.phys:group.phys.x"
    assert with_scope("mc23_13p6TeV.1.a") == "mc23_13p6TeV:mc23_13p6TeV.1.a"
    assert with_scope("s:n, user.me.b/") == "s:n,user.me:user.me.b"


def test_jobs_without_input() -> None:
    document = read(case_a())
    [made] = items(document, "output")
    assert (made["dataset"], "container" in made) == ("user.me:user.me.t1_out.dat", False)
    assert items(document, "number") == [
        {
            "type": "template",
            "param_type": "number",
            "value": "${SEQNUMBER}",
            "offset": 100,
            "padding": False,
        }
    ]
    assert document["log"]["dataset"] == "user.me:user.me.t1.log"
    constants = [one["value"] for one in items(document, "constant")]
    assert "-o \"{'out.dat': '${OUTPUT0}'}\"" in constants
    assert (document["transPath"], document["sandbox"]) == ("./jedi-run", ["jedi-run", NO_BUILD])
    assert not {"site", "includedSite", "excludedSite", "transHome"} & document.keys()


def test_jobs_of_a_build_that_read_a_dataset() -> None:
    document = read(case_b())
    [master] = items(document, "input")
    assert master["dataset"] == "user.me:user.me.input1"
    assert master["exclude"] == "*.log.tgz,*.log.tgz.[0-9]*"
    assert [one["dataset"] for one in items(document, "output")] == [
        "user.me:user.me.t2_out.dat",
        "user.me:user.me.t2_hist",
    ]
    assert document["buildSpec"]["transPath"] == "./jedi-run build"
    assert document["sandbox"] == ["jedi-run", SOURCES]
    assert (document["site"], "dsForIN" in document) == ("SITE_A", False)


def test_secondary_input_and_merging() -> None:
    document = read(case_c())
    assert [one["dataset"] for one in items(document, "input")] == [
        "user.me:user.me.input1",
        "user.me:user.me.sec",
    ]
    assert (document["ramCount"], document["ramUnit"]) == (2000, "MBPerCore")
    assert document["excludedSite"] == "BAD1,BAD2"
    merge = document["mergeSpec"]
    assert merge["transPath"] == "./jedi-run merge"
    assert merge["jobParameters"] == (
        f"-r . -a {NO_BUILD} --sourceURL {URL} ${{TRN_OUTPUT:OUTPUT}} "
    )


def test_merged_logs() -> None:
    """prun's merged log is an output that only merging makes (--mergeLog)."""
    sent = case_c()
    sent["mergeSpec"]["jobParameters"] = "${TRN_OUTPUT:OUTPUT} ${TRN_LOG_MERGE:LOG_MERGE}"
    name = "user.me.t3.merge_log/"
    sent["log_merge"] = {
        **sent["log"],
        "dataset": name,
        "container": name,
        "mergeOnly": True,
        "param_type": "output",
    }
    document = read(sent)
    assert document["log_merge"]["dataset"] == "user.me:user.me.t3.merge_log"
    assert document["mergeSpec"]["jobParameters"] == "${TRN_OUTPUT:OUTPUT} ${TRN_LOG:LOG}"


def test_merge_jobs_after_a_build_unpack_the_sources() -> None:
    sent = case_b()
    sent |= {"mergeOutput": True, "mergeSpec": {"jobParameters": "-l ${LIB} ${TRN_OUTPUT:OUTPUT}"}}
    merge = read(sent)["mergeSpec"]["jobParameters"]
    assert merge == f"-a {SOURCES} --sourceURL {URL} ${{TRN_OUTPUT:OUTPUT}}"


def test_a_container_goes_to_the_runner() -> None:
    """multiStepExec {preprocess, postprocess: command `${TRF}` ...}."""
    sent = case_a() | {"container_name": "docker://busybox", "multiStepExec": {"preprocess": {}}}
    document = read(sent)
    assert document["transPath"] == "./jedi-run --container-image docker://busybox"
    assert not {"container_name", "multiStepExec"} & document.keys()


def test_a_program_of_ones_own_stays() -> None:
    document = read(case_a() | {"transPath": "/bin/echo"})
    assert (document["transPath"], "sandbox" in document) == ("/bin/echo", False)


def test_other_units_and_forms() -> None:
    document, problems = renamed(
        {
            "outDiskCount": 5,
            "outDiskUnit": "kBFixed",
            "skipFilesUsedBy": "12,13",
            "includedSite": ["A", "B"],
            "pfnList": ["/x"],
            "noInput": True,
            "ramCountUnit": "MBPerCore",
            "ramUnit": "MB",
        }
    )
    assert problems == []
    assert document == {
        "outDiskCount": 5,
        "outDiskUnit": "kB",
        "skipFilesUsedBy": [12, 13],
        "includedSite": "A,B",
        "pfnList": ["/x"],
        "ramUnit": "MB",
    }


def test_the_vo_of_all_tasks() -> None:
    assert read(case_a() | {"vo": "atlas"}, "local")["vo"] == "local"


def test_all_mistakes_at_once() -> None:
    sent = task(
        "user.me.t1",
        template("input", "${IN}", dataset="user.me.a", include="(a|b)"),
        preproSpec={"jobParameters": "--goodRunListXML x"},
    )
    found = [(one.path, one.value) for one in translate(sent).problems]
    assert [path for path, _ in found] == ["preproSpec", "jobParameters[3].include"]
    assert found[1][1] == "(a|b)"


@pytest.mark.parametrize("value", [5, "x", None, [], {"a": [1]}, [[["x"]]], True])
@pytest.mark.parametrize("key", [*case_c()])
def test_any_value_anywhere(key: str, value: object) -> None:
    """The translation never fails; the submission refuses wrong types by name."""
    translate({**case_c(), key: value}, "local")
