"""The settings of agents: batches, waits, limits of one cycle."""

from jedi.core.knobs.knob import PRESETS, Component, knob, switch


class CoreKnobs(Component):
    preset = knob("classic", "name", among=PRESETS).means("preset of all unset knobs")
    work_shortage = switch(0).means("1: work is short, and sites give no more than their pledge")


class AgentKnobs(Component):
    rest_s = knob(20.0, "s").means(
        "time without work after which an agent's process ends, until there is work again (`jedi "
        "up`; 0: never)"
    )
    poll_s = knob(2.0, "s", least=0.01).means(
        "longest wait of an idle agent before it looks for work"
    )
    lease_s = knob(120.0, "s", least=1).means(
        "duration of a claim; the agent renews it while it works"
    )
    heartbeat_s = knob(10.0, "s", least=0.1).means("interval between heartbeats of an agent")
    plugin_s = knob(60.0, "s", least=0.1).means(
        "most time of a plug-in of other people for one task; then the task waits, and the plug-in "
        "is tried again"
    )
    statement_s = knob(600.0, "s", least=0).means(
        "most time of a statement of an agent in the database; then its cycle fails and is "
        "repeated; 0: no limit"
    )
    max_deaths = knob(3, "claims", least=1).means(
        "deaths of workers in a row after which their task is exhausted"
    )


class TaskrefinerKnobs(Component):
    batch = knob(100, "tasks", least=1).means("tasks refined in one transaction")
    base_ram = knob(
        "simul=1000, pile=1500, reco=1000", "MB", current="", least=0, pairs=True
    ).means("baseRamCount of tasks without one whose memory counts per core, by processingType")


class ContentsfeederKnobs(Component):
    batch = knob(10, "tasks", least=1).means("tasks fed in one claim")
    max_records = knob(5_000_000, "records", current=200_000, least=1).means(
        "most files or event records of one dataset; with more, the task is broken"
    )
    part_files = knob(100_000, "files", least=1).means(
        "files of a closed dataset that are listed and fed at once, in whole jobs; the next ones "
        "follow at once"
    )
    recheck_s = knob(300.0, "s").means("interval between look-ups of an open dataset")
    quiet_s = knob(10.0, "s", least=0.1).means(
        "least interval between look-ups of a dataset that another task still fills"
    )
    chunks = knob(1, "jobs", current=20, least=1).means(
        "jobs whose files an open dataset releases at once, unless the task sets them "
        "(nChunksToWait, noInputPooling)"
    )


class SplitKnobs(Component):
    batch = knob(20, "herds", least=1).means("herds split in one transaction")
    max_mb = knob(100, "MB", least=1).means(
        "most MB of options of a herd's units; with more, the task is broken, and no unit is made"
    )
    max_units = knob(100_000, "units", current=10_000, least=1).means(
        "most units of a herd; with more, the task is broken, and none is made"
    )
    memory_mb = knob(2048, "MiB", least=64).means(
        "memory of a splitter that is a plug-in; with more, its herd is broken"
    )
    timeout_s = knob(60.0, "s", least=0.1).means(
        "time of a splitter that is a plug-in; after it, its herd is broken"
    )


class PostprocessorKnobs(Component):
    batch = knob(50, "tasks", least=1).means("tasks finalised in one claim")
    retry_s = knob(60.0, "s", least=0.0).means("wait before the next try to finalise a task")


class TaskcommandoKnobs(Component):
    batch = knob(100, "tasks", least=1).means("tasks whose commands run in one claim")
    kill_batch = knob(5000, "jobs", least=1).means("queued jobs ended in one transaction")
    retry_s = knob(60.0, "s", least=0.0).means("wait before the next try of a command that failed")
    longest_wait_s = knob(30.0, "s", least=0.0).means(
        "longest interval between checks of a task whose jobs are ending"
    )
    give_up_s = knob(3600.0, "s", least=0.0).means(
        "time after which JEDI refuses a command that the database did not accept"
    )
