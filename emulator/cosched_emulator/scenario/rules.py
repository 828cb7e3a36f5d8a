"""Rules for settings that depend on each other. The builders of machine and jobs check the rules that depend on these."""

from __future__ import annotations

from dataclasses import fields
from typing import Final, TypeAlias

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.co_runs import PAIRS
from cosched_emulator.scenario.difficult_manager import ManagerSection, unused_of_manager
from cosched_emulator.scenario.faults import FaultEntry, FaultsSection
from cosched_emulator.scenario.schema import ClockSection, Scenario, ScriptEntry
from cosched_emulator.scenario.sections import (
    OF_APPLICATIONS,
    OF_BELIEVED_PAIRS,
    OF_FILES,
    OF_FILES_AND_BARRIERS,
    OF_MESSAGES,
    OF_NAS,
    OF_PROCESSES,
    BeliefSection,
    ClusterSection,
    TimeSharingSection,
    WorkloadSection,
)
from cosched_emulator.workload.nas import PREFIX
from cosched_emulator.workload.side_files.job_programs import OF_NAS_PROGRAMS, PARAMETERS
from cosched_hwmodel.models.by_name import BUILT_IN
from cosched_hwmodel.topology import parse_layout

_DEFAULTS = WorkloadSection()
_OF_MODEL = ("aarr", "gap_factor", "run_factor", "lublin_size")
_SELECTS = ("first", "jobs")
_NOT_NAS = ("memory_mb", "programs", "grow")  # these jobs have sizes, programs and memory of their own
SOURCES: Final = {
    "swf": "a log",
    "lublin": "the Lublin model",
    "nas": "the NAS programs",
    "applications": "the applications of a table",
}
_OF_LOG = (*_SELECTS, "cap_runs", "minimum_estimate_s", "skip_bad_rows", "log_memory")
_ONLY_NAS = tuple(key for key in OF_NAS if key != "gap_s")
_ONLY_APPLICATIONS = OF_APPLICATIONS[1:]
_NAMED: Final = ("swf", "lublin")  # whose jobs `applications` may name
# Settings without effect on the jobs of each source.
_UNUSED: Final = {
    "swf": (*_OF_MODEL, *OF_NAS, *_ONLY_APPLICATIONS),
    "lublin": (*_OF_LOG, *OF_NAS, *_ONLY_APPLICATIONS),
    "nas": (*_OF_LOG, *_OF_MODEL, *_NOT_NAS, *_ONLY_APPLICATIONS),
    "applications": (*[key for key in _OF_LOG if key != "jobs"], *_OF_MODEL, *_ONLY_NAS),
}


# A section, its name, some of its keys; whether what they need is there, and what that is.
Needed: TypeAlias = tuple[object, str, tuple[str, ...], bool, str]

WITHOUT_FILES: Final = frozenset({"fine", "uniform", "compute"})  # programs
_LOMARC: Final = frozenset({"lomarc"})
_DRAWN: Final = frozenset({"lomarc", "statistical"})
_BANDWIDTH: Final = frozenset({"bandwidth"})
# Keys of [truth] and of [belief] -> the contention models that use them.
_OF_MODELS: Final = (
    (("resources",), _BANDWIDTH),
    (("remainder", "c_scope", "cpu", "good_share", "paging"), _LOMARC),
    (("pair_seed",), _DRAWN),
    (("cos_shares",), frozenset({"statistical"})),
)
_OF_BELIEVED: Final = (
    (("resources",), _BANDWIDTH),
    (("remainder", "c_scope"), _LOMARC),
    (("pairs",), _DRAWN | {PAIRS}),
)


def check_rules(scenario: Scenario) -> None:
    """Raise ConfigurationError for the first settings that contradict each other. Each alone is within its bounds."""
    _check_clock(scenario.clock)
    runs = scenario.clock.mode != "virtual"
    if runs and scenario.policy:
        raise ConfigurationError("policy", "no policy: the scheduler that connects brings its own", "one")
    check_cluster(scenario.cluster)
    _check_workload(scenario.workload, users=runs)
    if scenario.faults is not None:
        for index, fault in enumerate(scenario.faults.at):
            _check_fault(fault, f"faults.at[{index}]")
    for index, entry in enumerate(scenario.script):
        _check_script_entry(entry, f"script[{index}]")
    if scenario.time_sharing is not None:
        _check_speeds(scenario.faults)
        _check_lags(scenario.manager)


def _check_clock(clock: ClockSection) -> None:
    scaled = clock.mode == "scaled"
    if (clock.speed is not None) != scaled:
        expected = "a number of emulated seconds a second" if scaled else "nothing: only a scaled clock has one"
        raise ConfigurationError("clock.speed", expected, "none" if clock.speed is None else str(clock.speed))


def check_cluster(cluster: ClusterSection) -> None:
    """Raise ConfigurationError if settings of a machine contradict each other."""
    if cluster.file is not None and cluster != ClusterSection(file=cluster.file):
        plain = ClusterSection()
        others = [item.name for item in fields(plain) if getattr(cluster, item.name) != getattr(plain, item.name)]
        others.remove("file")
        raise ConfigurationError("cluster", "either a file or other keys", f"file and {', '.join(others)}")
    if cluster.cores is not None and parse_layout(cluster.preset) is not None:
        raise ConfigurationError(
            "cluster.cores", f"nothing: preset = {cluster.preset!r} gives the cores", str(cluster.cores)
        )
    if cluster.nodes is not None and cluster.processors is not None:
        raise ConfigurationError("cluster", "either nodes or processors", "both")


def _check_workload(workload: WorkloadSection, *, users: bool) -> None:
    """Check the workload. ``users``: users may submit all jobs."""
    given = [key for key in SOURCES if getattr(workload, key) is not None]
    if not given and users:
        return
    if len(given) != 1 and not (len(given) == 2 and given[0] in _NAMED and given[1] == "applications"):
        raise ConfigurationError("workload", "one of swf, lublin, nas and applications", " and ".join(given) or "none")
    kind = given[0]
    source = SOURCES[kind]
    named = workload.applications is not None and kind in _NAMED
    for key in _UNUSED[kind]:
        if named and key == "application_names":
            continue
        if (value := getattr(workload, key)) != getattr(_DEFAULTS, key):
            expected = "it selects jobs of a log" if key in _SELECTS else f"it has no effect on {source}"
            raise ConfigurationError(f"workload.{key}", f"nothing: {expected}", _toml(value))
    if workload.load is not None and workload.gap_factor != _DEFAULTS.gap_factor:
        raise ConfigurationError(
            "workload.gap_factor", "nothing: workload.load scales the gaps", _toml(workload.gap_factor)
        )
    if workload.load is not None and workload.gap_s != _DEFAULTS.gap_s:
        raise ConfigurationError("workload.gap_s", "nothing: workload.load scales the gaps", _toml(workload.gap_s))
    if workload.load_method == "users" and workload.swf is None:
        raise ConfigurationError("workload.load_method", f'"gaps": jobs of {source} have no users', '"users"')
    if workload.estimate_factor != _DEFAULTS.estimate_factor and workload.estimates != "f-model":
        expected = 'nothing: it has an effect with estimates = "f-model" (--estimates f-model) only'
        raise ConfigurationError("workload.estimate_factor", expected, _toml(workload.estimate_factor))


def settings_without_effect(scenario: Scenario) -> list[str]:
    """Return a line for each setting without effect, because a setting that it needs is missing."""
    workload, belief = scenario.workload, scenario.belief
    of_usage = workload.characteristics is not None or workload.annotations is not None
    of_self = workload.self_slowdowns is not None or workload.annotations is not None
    believed = belief.contention or scenario.truth.contention
    users = scenario.clock.mode != "virtual"  # users give their jobs what the scenario does not
    rules: tuple[Needed, ...] = (
        (
            workload,
            "workload",
            ("demand_high", "demand_medium", "demand_low"),
            workload.mix is not None,
            "workload.mix",
        ),
        (workload, "workload", ("load_method",), workload.load is not None, "workload.load"),
        (workload, "workload", ("shake_seed",), workload.shake != 0, "workload.shake"),
        (workload, "workload", ("grow_max_slowdown", "grow_max_slowdown_cpus"), workload.grow, "workload.grow"),
        (belief, "belief", ("demand",), workload.mix is not None or users, "workload.mix"),
        (
            belief,
            "belief",
            ("usage", "usage_noise", "usage_bias", "usage_missing"),
            of_usage or users,
            "workload.characteristics or workload.annotations",
        ),
        (
            belief,
            "belief",
            ("self_slowdowns", "self_noise"),
            of_self or users,
            "workload.self_slowdowns or workload.annotations",
        ),
        (belief, "belief", ("profiles",), workload.profiles is not None or users, "workload.profiles"),
        (scenario.monitoring, "monitoring", ("above",), scenario.monitoring.after_s is not None, "monitoring.after_s"),
        (scenario.faults, "faults", ("seed",), _draws_faults(scenario.faults), "faults that are drawn"),
        (workload, "workload", OF_PROCESSES, scenario.time_sharing is not None, "[time_sharing]"),
        (scenario.cluster, "cluster", ("spin_w",), scenario.time_sharing is not None, "[time_sharing]"),
    )
    return [
        f"{name}.{key} has no effect without {needed}"
        for section, name, keys, there, needed in (*rules, *_of_models(scenario, believed))
        for key in keys
        if not there and section is not None and getattr(section, key) != getattr(type(section)(), key)
    ] + [
        *["requeue has no effect where no node fails ([faults], [[script]])"]
        * (scenario.requeue and not _fails(scenario)),
        *_without_effect_on_processes(scenario),
        *unused_of_manager(scenario.manager),
    ]


def _of_bandwidth(scenario: Scenario, contention: tuple[str, str]) -> list[Needed]:
    """Return what limits of a node's bandwidth need: a model that knows them."""
    shared = (*scenario.truth.resources, *(scenario.belief.resources or ())) if "bandwidth" in contention else ()
    keys = {"memory_bandwidth": "memory_bandwidth_mbs", "network": "network_mbs", "disk": "disk_mbs"}
    return [
        (
            scenario.cluster,
            "cluster",
            (key,),
            scenario.time_sharing is not None or resource in shared or "composite" in contention,
            f'contention = "bandwidth" with {resource} among its resources, or "composite"',
        )
        for resource, key in keys.items()
    ]


def _draws_faults(faults: FaultsSection | None) -> bool:
    drawn = () if faults is None else (faults.nodes, faults.slow, faults.messages, faults.plugin)
    return any(section is not None for section in drawn)


def _fails(scenario: Scenario) -> bool:
    """Tell whether a node may fail: by plan, by script, or because users and operators act on a running clock."""
    faults = scenario.faults
    planned = faults is not None and (faults.nodes is not None or any(fault.do == "fail" for fault in faults.at))
    return planned or scenario.clock.mode != "virtual" or any(entry.do == "fail-node" for entry in scenario.script)


def _of_models(scenario: Scenario, believed: str) -> list[Needed]:
    """Return what settings of contention models need."""
    present = (scenario.truth.contention, believed)
    workload, belief = scenario.workload, scenario.belief
    others = not BUILT_IN.keys() >= set(present)
    return [
        (scenario.truth, "truth", ("pairs",), PAIRS in present, f'contention = "{PAIRS}"'),
        (workload, "workload", ("profiles",), "composite" in present or others, 'contention = "composite"'),
        (belief, "belief", ("profiles",), believed == "composite" or others, 'contention = "composite"'),
        (belief, "belief", OF_BELIEVED_PAIRS, believed == PAIRS, f'contention = "{PAIRS}"'),
        (
            belief,
            "belief",
            OF_BELIEVED_PAIRS,
            believed != PAIRS or belief.pairs != "unknown",
            "belief.pairs that are known",
        ),
        *_of_standard_cpus(scenario, present),
        *_of_errors(belief),
        (belief, "belief", ("pair_method",), _predicts_pairs(belief), "belief.pair_missing or belief.pair_table"),
        *_of_bandwidth(scenario, present),
        *[
            (scenario.truth, "truth", keys, not models.isdisjoint(present), _named(models))
            for keys, models in _OF_MODELS
        ],
        *[(scenario.belief, "belief", keys, believed in models, _named(models)) for keys, models in _OF_BELIEVED],
    ]


def _of_errors(belief: BeliefSection) -> list[Needed]:
    """Return what errors of a belief need: that there is one."""
    usage, own = belief.usage != "unknown", belief.self_slowdowns != "unknown"
    return [
        (belief, "belief", ("usage_noise", "usage_bias", "usage_missing"), usage, "belief.usage that is known"),
        (belief, "belief", ("self_noise",), own, "belief.self_slowdowns that are known"),
    ]


def _of_standard_cpus(scenario: Scenario, contention: tuple[str, str]) -> list[Needed]:
    """Return what needs CPUs that two cpu-bound jobs may share: on others no pair is compatible."""
    drawn = ("c_scope", "good_share") if "statistical" in contention else ("c_scope", "good_share", "pair_seed")
    there = scenario.truth.cpu != "standard" or "lomarc" not in contention
    needed = 'cpu = "hyperthreaded"'
    return [
        (scenario.truth, "truth", drawn, there, needed),
        (scenario.belief, "belief", ("c_scope", "pairs"), there or contention[1] != "lomarc", needed),
    ]


def _named(models: frozenset[str]) -> str:
    return "contention = " + " or ".join([f'"{name}"' for name in sorted(models)])


def _predicts_pairs(belief: BeliefSection) -> bool:
    return belief.pair_missing > 0 or belief.pair_table is not None


def _without_effect_on_processes(scenario: Scenario) -> list[str]:
    """Return a line for each setting of contention without effect, because nodes run processes."""
    sharing = scenario.time_sharing
    if sharing is None:
        return []
    usual = scenario.workload.programs or "fine"
    if scenario.workload.nas is not None:
        usual = PREFIX
    by_file = usual.endswith(".csv")
    used = OF_NAS_PROGRAMS if usual.startswith(PREFIX) else PARAMETERS.get(usual)
    sections: tuple[tuple[object, str, tuple[str, ...], str], ...] = (
        (scenario.truth, "truth", tuple(item.name for item in fields(scenario.truth)), "[time_sharing]"),
        (scenario.workload, "workload", ("mix", "characteristics"), "[time_sharing]"),
        (scenario.workload, "workload", () if scenario.workload.grow else ("self_slowdowns",), "[time_sharing]"),
        (scenario.monitoring, "monitoring", ("after_s",), "[time_sharing]"),
        (scenario.cluster, "cluster", ("memory_bandwidth_mbs", "network_mbs", "disk_mbs"), "[time_sharing]"),
        (
            scenario.workload,
            "workload",
            () if by_file else tuple([key for key in OF_PROCESSES[1:] if key not in (used or (key,))]),
            "nas" if usual == PREFIX else f'programs = "{usual}"',
        ),
        (sharing, "time_sharing", OF_FILES_AND_BARRIERS if usual == PREFIX else (), "nas"),
        (sharing, "time_sharing", OF_FILES if usual in WITHOUT_FILES else (), f'programs = "{usual}"'),
        (
            sharing,
            "time_sharing",
            () if by_file or usual.startswith(PREFIX) or sharing.nodes == "fluid" else _of_messages(sharing),
            f'programs = "{usual}"',
        ),
        *[(sharing, "time_sharing", keys, cause) for keys, cause in _unused_of_nodes(sharing)],
        (
            scenario.cluster,
            "cluster",
            () if _polls(sharing) else ("spin_w",),
            "processes that never poll for a message",
        ),
    )
    return [
        f"{name}.{key} has no effect with {cause}"
        for section, name, keys, cause in sections
        for key in keys
        if getattr(section, key) != getattr(type(section)(), key)
    ]


def _unused_of_nodes(sharing: TimeSharingSection) -> list[tuple[tuple[str, ...], str]]:
    """Return keys of [time_sharing] without effect, and the setting that makes them so."""
    from cosched_emulator.nodeos.local import counts_ticks  # noqa: PLC0415 - few scenarios have such nodes

    kind = f'nodes = "{sharing.nodes}"'
    rules = (
        (("rounded", "windows"), sharing.nodes != "fluid", kind),
        (("coscheduling", "coscheduling_parameters", *OF_MESSAGES), sharing.nodes == "fluid", kind),
        (("window_min_s", "window_max_s", "turn_overhead"), sharing.nodes != "windows", kind),
        (("daemon_period_us",), not sharing.daemon_us, "time_sharing.daemon_us = 0"),
        (("slice_ms" if counts_ticks(sharing.local) else "epoch_ticks",), True, f'local = "{sharing.local}"'),
        (("swap_mb_s", "paged_first_mb", "paged_mb_s"), not sharing.memory_mb, "time_sharing.memory_mb = 0"),
    )
    return [(keys, cause) for keys, unused, cause in rules if unused]


def _of_messages(sharing: TimeSharingSection) -> tuple[str, ...]:
    """Return the keys without effect on programs without messages: a policy of others may prefer processes for something else."""
    return (
        OF_MESSAGES
        if ":" in (sharing.coscheduling or "")
        else (*OF_MESSAGES, "coscheduling", "coscheduling_parameters")
    )


def _polls(sharing: TimeSharingSection) -> bool:
    """Return whether a process may poll: its program may have messages, and the policy does not block at once."""
    usual = "nls" if sharing.nodes == "windows" else "none"
    return sharing.nodes != "fluid" and (sharing.coscheduling or usual) != "none"


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_fault(fault: FaultEntry, path: str) -> None:
    slow = fault.do == "slow"
    if (fault.slowdown is None) == slow:
        expected = "a slowdown" if slow else f"nothing with do = {fault.do!r}"
        raise ConfigurationError(f"{path}.slowdown", expected, "none" if slow else str(fault.slowdown))


def _check_speeds(faults: FaultsSection | None) -> None:
    """Raise ConfigurationError for slow nodes where nodes run processes."""
    if faults is None:
        return
    expected = "nothing: nodes of [time_sharing] have one speed"
    if faults.slow is not None:
        raise ConfigurationError("faults.slow", expected, "slow nodes")
    for index, fault in enumerate(faults.at):
        if fault.do in ("slow", "normal"):
            raise ConfigurationError(
                f"faults.at[{index}].do", "fail or return: nodes of [time_sharing] have one speed", fault.do
            )


def _check_lags(manager: ManagerSection | None) -> None:
    """Raise ConfigurationError for lags and places of starts where jobs share time: quanta and turns would count them."""
    keys = ("start_s", "ended_s", "extra_s", "lags", "elsewhere", "refused", "start_every_s")
    for key in () if manager is None else keys:
        value = getattr(manager, key)
        if value:
            raise ConfigurationError(
                f"manager.{key}", "nothing: jobs of [time_sharing] start and end at once", str(value)
            )


def _check_script_entry(entry: ScriptEntry, path: str) -> None:
    wants = "node" if entry.do.endswith("node") else "job"
    target = entry.node if wants == "node" else entry.job
    if target is None or (entry.node is not None) == (entry.job is not None):
        raise ConfigurationError(f"{path}.{wants}", f"the {wants} to {entry.do}", str(target))
