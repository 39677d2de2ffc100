"""Task parameters as the real prun sends them (recorded)."""

from __future__ import annotations

from typing import Any

UUID = "43fb566c-a408-4a85-8a08-c8edfc1fa189"
NO_BUILD, SOURCES = f"jobO.{UUID}.tar.gz", f"sources.{UUID}.tar.gz"
URL = "http://127.0.0.1:8765"
LOGS_OUT = r"\.log\.tgz(\.\d+)*$"


def constant(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "constant", "value": value, **more}


def template(kind: str, value: str, **more: Any) -> dict[str, Any]:
    return {"type": "template", "param_type": kind, "value": value, **more}


def output(out: str, name: str, suffix: str | None = None) -> dict[str, Any]:
    dataset = f"{out}_{suffix or name}/"
    lfn = f"{'.'.join(out.split('.')[:2])}.$JEDITASKID._${{SN/P}}.{name}"
    return template("output", lfn, dataset=dataset, container=dataset, hidden=True)


def task(out: str, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Keys that all tasks of prun have."""
    return {
        "taskName": f"{out}/",
        "uniqueTaskName": True,
        "vo": "local",
        "architecture": "",
        "transUses": "",
        "transHome": None,
        "processingType": "panda-client-2.2.0-jedi-run",
        "prodSourceLabel": "user",
        "site": None,
        "excludedSite": [],
        "includedSite": None,
        "cliParams": "prun",
        "osInfo": "Linux",
        "nMaxFilesPerJob": 200,
        "respectSplitRule": True,
        "sourceURL": URL,
        "log": {
            "dataset": f"{out}.log/",
            "container": f"{out}.log/",
            "type": "template",
            "param_type": "log",
            "value": f"{out}.log.$JEDITASKID.${{SN}}.log.tgz",
        },
        "jobParameters": [
            constant('-j "" --sourceURL ${SURL}'),
            constant("-r ."),
            constant("__delimiter__", hidden=True),
            *items,
        ],
        **more,
    }


def case_a(out: str = "user.me.t1", jobs: int = 3) -> dict[str, Any]:
    """prun --exec 'bash run.sh %RNDM:100' --noBuild --nJobs 3 --outputs out.dat."""
    lfn = f"{'.'.join(out.split('.')[:2])}.$JEDITASKID._${{SN/P}}.out.dat"
    return task(
        out,
        constant(f"-a {NO_BUILD}"),
        output(out, "out.dat"),
        constant(f"-o \"{{'out.dat': '{lfn}'}}\""),
        constant('-p "', padding=False),
        constant("bash%20run.sh%20", padding=False),
        template("pseudo_input", "${SEQNUMBER}", dataset="seq_number", offset=100, padding=False),
        constant("", padding=False),
        constant('"'),
        nEvents=jobs,
        nEventsPerJob=1,
        noInput=True,
    )


def case_b(out: str = "user.me.t2", read: str = "user.me.input1") -> dict[str, Any]:
    """prun --exec 'echo %IN > out.dat' --bexec 'make -k' --inDS ... --nFilesPerJob 10."""
    return task(
        out,
        constant("-l ${LIB}"),
        output(out, "out.dat"),
        output(out, "h.root", "hist"),
        constant("-o \"{'out.dat': 'x'}\""),
        template("input", '-i "${IN/T}"', dataset=read, expand=True, exclude=LOGS_OUT),
        constant('-p "', padding=False),
        constant("echo%20%25IN", padding=False),
        constant('"'),
        nFiles=20,
        nFilesPerJob=10,
        site="SITE_A",
        dsForIN=read,
        buildSpec={
            "prodSourceLabel": "panda",
            "archiveName": SOURCES,
            "jobParameters": '-i ${IN} -o ${OUT} --sourceURL ${SURL} -r . --bexec "make" ',
        },
    )


def case_c(out: str = "user.me.t3", read: str = "user.me.input1") -> dict[str, Any]:
    """prun --secondaryDSs SEC:2:... --nGBPerJob 2 --mergeOutput --memory 2000."""
    return task(
        out,
        constant(f"-a {NO_BUILD}"),
        output(out, "out.dat"),
        constant("-o \"{'out.dat': 'x'}\""),
        template("input", '-i "${IN/T}"', dataset=f"{read}/", expand=True, exclude=LOGS_OUT),
        constant('-p "', padding=False),
        constant("true", padding=False),
        constant('"'),
        template(
            "input", "${SEC}", dataset="user.me.sec/", nFilesPerJob=2, hidden=True, expand=True
        ),
        constant("--inMap \"{'IN': ${IN/T}, 'SEC': ${SEC/T}}\""),
        dsForIN=f"{read}/",
        nGBPerJob=2,
        ramCount=2000,
        ramCountUnit="MBPerCore",
        coreCount=8,
        maxAttempt=5,
        excludedSite=["BAD1", "BAD2"],
        reuseSecOnDemand=True,
        mergeOutput=True,
        mergeSpec={
            "useLocalIO": 1,
            "jobParameters": f"-r . -a {NO_BUILD} --sourceURL ${{SURL}} "
            "${TRN_OUTPUT:OUTPUT} ${TRN_LOG:LOG}",
        },
    )
