"""Error codes of PanDA's pilot as JEDI's codes, with a sentence.
Source: docs/reference/panda.md#pilot-errors."""

from __future__ import annotations

from typing import NamedTuple

KILLED = "killed"
PAYLOAD_EXIT = "payload_exit"


class PilotFailure(NamedTuple):
    """The failure of a job: JEDI's code and a sentence."""

    code: str
    sentence: str


_CODES: dict[int, tuple[str, str]] = {
    1098: ("disk_full", "The work directory has too little disk space."),
    1099: ("stagein_failed", "An input could not be copied."),
    1100: ("stagein_missing", "An input has no replica."),
    1103: ("stagein_missing", "A file is missing."),
    1104: ("workdir_limit", "The work directory grew too large."),
    1106: ("workdir_limit", "The payload printed too much."),
    1110: ("pilot_error", "The set-up of the payload failed."),
    1124: ("workdir_limit", "An output is too large."),
    1133: ("stageout_failed", "The queue has no storage for this."),
    1137: ("stageout_failed", "An output could not be stored."),
    1144: (KILLED, "The service ordered the job to end."),
    1149: ("stagein_sandbox", "The transformation could not be fetched."),
    1150: ("wall_limit", "The payload did nothing for too long: the pilot took it for looping."),
    1151: ("stagein_failed", "To copy the inputs took too long."),
    1152: ("stageout_failed", "To store the outputs took too long."),
    1165: ("output_missing", "The payload did not make an output."),
    1168: ("workdir_limit", "The inputs are too large for the work directory."),
    1171: ("stagein_checksum", "The checksum of an input differs."),
    1172: ("stageout_failed", "The checksum of a stored output differs."),
    1191: ("output_missing", "An output is empty, which PanDA's pilot does not store."),
    1199: ("stageout_failed", "A directory of the storage could not be made."),
    1200: ("pilot_terminated", "A signal ended the pilot."),
    1201: ("pilot_terminated", "The site ended the pilot (SIGTERM)."),
    1202: ("pilot_terminated", "The site ended the pilot (SIGQUIT)."),
    1203: ("pilot_terminated", "The pilot was ended by SIGSEGV."),
    1204: ("cpu_limit", "The site ended the pilot for its CPU time (SIGXCPU)."),
    1206: ("pilot_terminated", "The pilot was ended by SIGBUS."),
    1207: ("pilot_terminated", "The site ended the pilot (SIGUSR1)."),
    1212: ("memory_limit", "The payload ran out of memory."),
    1213: ("wall_limit", "The time of the batch system was over."),
    1223: ("memory_limit", "The payload got no memory (bad_alloc)."),
    1235: ("memory_limit", "The payload used more than its memory."),
    1246: ("stagein_sandbox", "The sandbox could not be fetched."),
    1305: (PAYLOAD_EXIT, "The payload failed."),
    1310: (PAYLOAD_EXIT, "The payload could not be run."),
    1326: ("stagein_missing", "An input has no replica."),
    1328: (PAYLOAD_EXIT, "The payload was ended by SIGSEGV."),
    1331: ("stagein_missing", "An input is missing in its storage."),
    1333: ("stageout_failed", "The storage has no room."),
    1335: ("stagein_sandbox", "The sandbox is not on the server."),
    1350: ("output_missing", "An output is empty."),
    1356: (PAYLOAD_EXIT, "The step before the payload failed."),
    1357: (PAYLOAD_EXIT, "The step after the payload failed."),
}
"""JEDI's code and sentence by the pilot's code, without its sign: a negative one says that a later
job may recover, which JEDI does not wait for."""


def failure_of(
    pilot_code: int, pilot_diag: str, payload_code: int, payload_diag: str, exit_code: int
) -> PilotFailure:
    """Return JEDI's code for a failed job, and a sentence with the pilot's own words. Its own code
    counts first, then that of the payload, then the exit code of the transformation."""
    code = abs(pilot_code)
    if code:
        jedi_code, said = _CODES.get(code, ("pilot_error", "The pilot failed."))
        exit_said = f" Exit code {exit_code}." if exit_code else ""
        words = _words(pilot_diag, said) or (_words(payload_diag, said) if payload_code else "")
        return PilotFailure(jedi_code, f"{said}{exit_said}{words} (PanDA's pilot: error {code})")
    if payload_code:
        words = _words(payload_diag, "")
        return PilotFailure(PAYLOAD_EXIT, f"The payload failed: error {payload_code}.{words}")
    if exit_code:
        return PilotFailure(PAYLOAD_EXIT, f"The payload ended with exit code {exit_code}.")
    return PilotFailure("no_reason", "The pilot reported a failure without a reason.")


def _words(diag: str, said: str) -> str:
    """The pilot's words, if they add something."""
    plain = " ".join(diag.split())
    return "" if not plain or plain.rstrip(".") in said else f" The pilot reports: {plain}"
