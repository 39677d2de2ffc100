"""Every live setting, declared once: a class for each component, in files by subject.

Preset `classic` is the behaviour of the JEDI document, `current` PanDA's of today. Values that
differ from the preset live in jedi_knobs; `Knobs` is the frozen view that policies get.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, get_type_hints

from jedi.core.knobs import agents, brokerage, jobs, service, sites, upkeep
from jedi.core.knobs.knob import Component, Knob


class Knobs(Mapping[str, Any]):
    """All knobs with their values in force, as `knobs.component.key`; by name only where code puts
    the name together. Unknown overrides are ignored (an older release may have left them)."""

    core: agents.CoreKnobs
    agent: agents.AgentKnobs
    taskrefiner: agents.TaskrefinerKnobs
    contentsfeeder: agents.ContentsfeederKnobs
    split: agents.SplitKnobs
    taskbroker: brokerage.TaskbrokerKnobs
    jobgen: jobs.JobgenKnobs
    broker: brokerage.BrokerKnobs
    network: brokerage.NetworkKnobs
    analysis: brokerage.AnalysisKnobs
    throttler: brokerage.ThrottlerKnobs
    shares: brokerage.SharesKnobs
    watchdog: upkeep.WatchdogKnobs
    merge: jobs.MergeKnobs
    attempts: jobs.AttemptsKnobs
    resubmission: jobs.ResubmissionKnobs
    retry: jobs.RetryKnobs
    pilot: sites.PilotKnobs
    submitter: sites.SubmitterKnobs
    postprocessor: agents.PostprocessorKnobs
    taskcommando: agents.TaskcommandoKnobs
    scout: jobs.ScoutKnobs
    mover: sites.MoverKnobs
    adder: sites.AdderKnobs
    eventservice: sites.EventserviceKnobs
    api: service.ApiKnobs
    oidc: service.OidcKnobs
    staging: sites.StagingKnobs
    lifetime: upkeep.LifetimeKnobs
    timeout: upkeep.TimeoutKnobs
    hold: upkeep.HoldKnobs
    throttle: jobs.ThrottleKnobs
    jumbo_dog: sites.JumboDogKnobs
    autopause: jobs.AutopauseKnobs
    boost: jobs.BoostKnobs
    retryrules: jobs.RetryrulesKnobs
    build: jobs.BuildKnobs
    caps: jobs.CapsKnobs
    lookup: upkeep.LookupKnobs
    archive: upkeep.ArchiveKnobs
    retention: upkeep.RetentionKnobs
    notify: service.NotifyKnobs
    decisions: brokerage.DecisionsKnobs
    sandbox: service.SandboxKnobs
    prun: service.PrunKnobs
    upload: service.UploadKnobs
    ddm: service.DdmKnobs

    def __init__(self, overrides: Mapping[str, Any] | None = None) -> None:
        values = dict(overrides or {})
        preset = values.get("core.preset", "classic")
        self._values = {n: values.get(n, k.default(preset)) for n, k in KNOBS.items()}
        parts: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, knob in KNOBS.items():
            parts[knob.component][knob.key] = self._values[name]
        for component, kind in _COMPONENTS.items():
            setattr(self, component, kind(parts[component]))

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Knobs) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]


_COMPONENTS: dict[str, type[Component]] = get_type_hints(Knobs)
KNOBS: dict[str, Knob[Any]] = {
    f"{component}.{key}": replace(knob, component=component)
    for component, kind in _COMPONENTS.items()
    for key, knob in vars(kind).items()
    if isinstance(knob, Knob)
}
