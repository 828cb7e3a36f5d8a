"""Warnings before a run: about a policy that has little effect in the scenario, and about the scenario's workload."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final

from cosched_emulator import needs
from cosched_emulator.results.files.run_folder import part_name
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.scenario.machine import of_file
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_hwmodel.models.by_name import BUILT_IN, OF_PAIRS, make_pairs
from cosched_hwmodel.usage import RESOURCES
from cosched_plugin.config import PolicyChoice
from cosched_plugin.protocol.messages import NodeClass

BY_BANDWIDTH: Final = ("lessconsume", "lessconsume-threshold")  # placements that look for nodes with bandwidth left
OF_PAIRS_ALONE: Final = {*OF_PAIRS} - {"composite"}  # models that know no bandwidth
NEEDS_NOTHING: Final = (None, "none", "always")  # matchings that need no knowledge of pairs
GIVEN: Final = (None, "given")  # beliefs that are the site's
LEARNING: Final = ("learned", "corrected")  # beliefs that follow measured slowdowns
# Matchings that do.
LISTENS: Final = frozenset({"always", "adjacent", "first", "u1", "u2", "response", "guests"})


def warnings_of(choice: PolicyChoice, prepared: Prepared) -> tuple[str, ...]:
    """Return the warnings before a run: first those about the policy, then those about the workload."""
    of_policy = [
        find(choice, prepared)
        for find in (
            idle_matching,
            idle_belief,
            idle_placement,
            idle_slices,
            idle_hardware,
            idle_annotations,
            idle_profiles,
            sums_of_pairs,
        )
    ]
    found = [text for text in of_policy if text is not None] + settings_without_use(choice, prepared)
    return (*[of_file(text, prepared.described) for text in found], *prepared.workload.warnings)


def settings_without_use(choice: PolicyChoice, prepared: Prepared) -> list[str]:
    """Return a line for each setting without effect, because of the policy, or of what jobs and nodes are like."""
    scenario = replace(prepared.scenario, cluster=prepared.described)
    found = needs.unmet(scenario, lambda need: need not in USES or USES[need](choice, prepared))
    return [f"{setting.path} has no effect {need.told}" for setting, need in found]


def idle_matching(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return why the policy's matching will never pair jobs: the scheduler lacks knowledge that it needs; None if it can."""
    name = part_name(choice.settings, "matching")
    if name in NEEDS_NOTHING or part_name(choice.settings, "belief") not in GIVEN:
        return None
    truth, belief = prepared.scenario.truth.contention, prepared.scenario.belief.contention
    jobs = columns_of(prepared.workload.jobs)
    from cosched_hwmodel.composite.node_classes import shape_of  # noqa: PLC0415 - few runs pair jobs

    model = make_pairs(prepared.belief.contention, prepared.belief.parameters)
    if model is not None:
        model = model.on_nodes([shape_of(item) for item in prepared.nodes])
    if model is None:
        told = f'truth.contention = "{truth}"; give --contention {", ".join(OF_PAIRS[:-1])} or {OF_PAIRS[-1]}'
        missing = f"of pairs ({told})" if belief is None else f'of pairs (belief.contention = "{belief}")'
    elif any(model.knows(job.spec) for job in jobs):
        return None
    elif prepared.belief.contention == "composite":
        told = "belief.profiles" if jobs.knows(jobs.profile) else "give workload.profiles"
        missing = f"of what processes ask of their nodes ({told})"
    elif not model.by_usage:
        missing = f"of any of these jobs ({model.name} knows none)"
    elif not jobs.knows(jobs.usage):
        missing = "of how jobs use their nodes (give --characteristics or --annotations)"
    else:
        missing = "of how jobs use their nodes (belief.usage, belief.usage_missing)"
    return f"matching {name} will pair no jobs: the scheduler knows nothing {missing}"


def idle_belief(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return why the policy will not learn what jobs cost each other; None if it will, or does not want to."""
    name = part_name(choice.settings, "belief")
    if name not in LEARNING:
        return None
    if not _asks_pairs(choice):
        return f"belief {name} has no effect: no part of the policy asks what co-located jobs cost each other"
    if prepared.scenario.monitoring.after_s is not None:
        return None
    return f"belief {name} will learn nothing: no slowdowns are measured (monitoring.after_s)"


def _asks_pairs(choice: PolicyChoice) -> bool:
    """Tell whether a part asks what co-located jobs cost each other."""
    return (
        part_name(choice.settings, "matching") not in (None, "none")
        or part_name(choice.settings, "placement") == "halves"
    )


def _asks_losses(choice: PolicyChoice) -> bool:
    """Tell whether the placement asks what a job loses to those that share its nodes' bandwidth."""
    placement = choice.settings.get("placement")
    extends = isinstance(placement, Mapping) and placement.get("extend_limit")
    return part_name(choice.settings, "placement") in BY_BANDWIDTH or bool(extends)


def idle_placement(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return why a placement by bandwidth finds all nodes equally good, or extends no limit; None: it does not, or there is none."""
    name = part_name(choice.settings, "placement")
    if not _asks_losses(choice):
        return None
    jobs, belief = columns_of(prepared.workload.jobs), prepared.belief
    if belief.contention != "bandwidth" or not belief.resources:
        missing = "the scheduler believes in no contention for bandwidth (--contention bandwidth)"
    elif not jobs.knows(jobs.told_demand):
        missing = "it knows no job's demand (--mix)"
    elif not any(any(_limits_mbs(item, belief.resources)) for item in prepared.nodes):
        missing = "no node has a limit of bandwidth (--node rua-4way, for example, or --bandwidth-gbs)"
    else:
        return None
    what = "finds all nodes equally good" if name in BY_BANDWIDTH else "extends no limit (extend_limit)"
    return f"placement {name} {what}: {missing}"


def _limits_mbs(nodes: NodeClass, resources: Collection[str]) -> list[int]:
    """Return how much a node has of each of these resources; 0: no limit."""
    limits = (nodes.memory_bandwidth_mbs, nodes.network_mbs, nodes.disk_mbs)
    return [limit for name, limit in zip(RESOURCES, limits, strict=True) if name in resources]


def idle_slices(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return why the policy's time slices may be unable to preempt jobs: too little swap space for their memory; None if they can."""
    name = part_name(choice.settings, "slices")
    if name in (None, "none"):
        return None
    jobs = columns_of(prepared.workload.jobs)
    most_mb = max(jobs.each(jobs.memory_mb), default=0)
    room_mb = min(item.swap_mb for item in prepared.nodes)
    if not most_mb or room_mb >= max(item.memory_mb for item in prepared.nodes):
        return None
    return (
        f"slices {name}: jobs with memory of up to {most_mb} MiB a process, and nodes with {room_mb} MiB of swap space for them "
        "(cluster.swap_mb): a job that finds no room there is not preempted, and runs on in the slices of other jobs"
    )


def idle_hardware(_choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return which slots and caches of nodes nobody counts, as only the composite model does; None if there are none."""
    models = _models(prepared)
    if not models <= BUILT_IN.keys() or "composite" in models:
        return None
    keys = [
        key
        for key in ("integer_slots_ppm", "floating_slots_ppm", "caches")
        if any(item.hardware is not None and getattr(item.hardware, key) for item in prepared.nodes)
    ]
    named = " and ".join([f"cluster.{key}" for key in keys])
    return f'{named}: no effect without contention = "composite"' if keys else None


def idle_annotations(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return which columns of a side file count for nobody; None if there are none."""
    if prepared.scenario.workload.annotations is None:
        return None
    from cosched_emulator.workload.side_files.annotations import SELF, USAGE  # noqa: PLC0415 - they are loaded with the side file

    jobs = columns_of(prepared.workload.jobs)
    columns = [*USAGE] * (jobs.knows(jobs.usage) and not use_counts(choice, prepared))
    columns += [*SELF] * (jobs.knows(jobs.self_slowdown) and not self_counts(choice, prepared))
    named = ", ".join(columns)
    return f"workload.annotations ({named}) has no effect {needs.USE_COUNTS.told}" if columns else None


def idle_profiles(_choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return which columns of profiles ask for what no node limits; None if there are none."""
    if "composite" not in _models(prepared) or prepared.scenario.clock.mode != "virtual":
        return None
    from cosched_hwmodel.composite.job_profile import to_mapping  # noqa: PLC0415 - few runs have profiles
    from cosched_hwmodel.composite.node_classes import shape_of  # noqa: PLC0415 - likewise
    from cosched_hwmodel.composite.on_node import LIMITED_BY, limits_of  # noqa: PLC0415 - likewise

    jobs = columns_of(prepared.workload.jobs)
    limits = {name for item in prepared.nodes for name in limits_of(shape_of(item))}
    given = {
        column for profile in set(jobs.each(jobs.profile)) if profile is not None for column in to_mapping(profile)
    }
    columns = [column for column, needed in LIMITED_BY.items() if column in given and limits.isdisjoint(needed)]
    return f"workload.profiles ({', '.join(columns)}): no effect where no node has a limit of that" if columns else None


def _models(prepared: Prepared) -> set[str]:
    """Return the contention models of the truth and of the belief."""
    return {prepared.hardware.contention, prepared.belief.contention}


def _contends(prepared: Prepared) -> bool:
    """Tell whether jobs of these demands and characteristics slow each other down on these nodes."""
    model, exclusive = prepared.hardware.contention, prepared.scenario.workload.exclusive
    if model == "bandwidth":
        return prepared.contends and any(any(_limits_mbs(item, RESOURCES)) for item in prepared.nodes)
    if not prepared.contends or model not in OF_PAIRS_ALONE:
        return prepared.contends
    return max(item.threads for item in prepared.nodes) > 1 and not (exclusive and model == "lomarc")


def sums_of_pairs(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return a warning if the truth is a model of two jobs and more than two may share a node; None otherwise."""
    truth = prepared.hardware
    most = max(item.threads for item in prepared.nodes)
    if truth.contention != "lomarc" or not prepared.contends or most <= 2 or prepared.scenario.workload.exclusive:
        return None
    if part_name(choice.settings, "shape") == "nodes" and part_name(choice.settings, "matching") != "group":
        return None  # one job on a node, or a pair
    return (
        f'truth.contention = "{truth.contention}" is a model of two jobs on a node, and up to {most} may share one here: '
        "the slowdowns that a job has from each of its neighbours are added up"
    )


# The settings that need something of a run (`cosched_emulator.needs`): whether it is there.


def _demand_counts(choice: PolicyChoice, prepared: Prepared) -> bool:
    slows = prepared.hardware.contention == "bandwidth" and _contends(prepared)
    asked = prepared.belief.contention == "bandwidth" and (_asks_losses(choice) or _asks_pairs(choice))
    return _may_count(choice, prepared) or slows or asked


def use_counts(choice: PolicyChoice, prepared: Prepared) -> bool:
    """Tell whether the characteristics of jobs count, for their contention or for the policy."""
    return _may_count(choice, prepared) or "lomarc" in _models_that_count(choice, prepared)


def self_counts(choice: PolicyChoice, prepared: Prepared) -> bool:
    """Tell whether the self slowdowns of jobs count, likewise."""
    own = prepared.scenario.workload.grow or part_name(choice.settings, "placement") == "spread"
    return _may_count(choice, prepared) or "statistical" in _models_that_count(choice, prepared) or own


def _models_that_count(choice: PolicyChoice, prepared: Prepared) -> set[str]:
    asks = _asks_pairs(choice) or _asks_losses(choice)
    return _models(prepared) if asks else {prepared.hardware.contention}


def _may_count(choice: PolicyChoice, prepared: Prepared) -> bool:
    """Tell whether facts of jobs may count for somebody who is not known: a model or a policy of others, or jobs of users."""
    of_others = not _models_that_count(choice, prepared) <= BUILT_IN.keys()
    return not choice.shipped or prepared.scenario.clock.mode != "virtual" or of_others


def _asks_self(choice: PolicyChoice, prepared: Prepared) -> bool:
    model = prepared.belief.contention
    own = model == "statistical" or model not in BUILT_IN  # which reads self slowdowns
    return (own and _asks_pairs(choice)) or part_name(choice.settings, "placement") == "spread"


def _follows(choice: PolicyChoice, _prepared: Prepared) -> bool:
    """Tell whether a part follows measured slowdowns."""
    learns = part_name(choice.settings, "belief") in LEARNING
    return not choice.shipped or part_name(choice.settings, "matching") in LISTENS or learns


def _contends_or_unknown(prepared: Prepared) -> bool:
    """Tell whether jobs slow each other down, or may: jobs of users, and programs on their nodes."""
    scenario = prepared.scenario
    return scenario.clock.mode != "virtual" or scenario.time_sharing is not None or _contends(prepared)


def _says_of_pairs(choice: PolicyChoice, prepared: Prepared) -> bool:
    """Tell whether what the truth says of pairs counts: it may also be believed, of another model."""
    model, believed = prepared.hardware.contention, prepared.belief.contention
    asks = believed != model and (_asks_pairs(choice) or not choice.shipped)
    return model == "none" or asks or (_contends_or_unknown(prepared) and model != "bandwidth")


def _limits_count(_choice: PolicyChoice, prepared: Prepared) -> bool:
    """Tell whether jobs ask for what limits of nodes share among them, by the truth or by what is believed."""
    scenario, jobs, models = prepared.scenario, columns_of(prepared.workload.jobs), _models(prepared)
    return (
        scenario.clock.mode != "virtual"
        or (prepared.contends and prepared.hardware.contention not in OF_PAIRS_ALONE)
        or ("bandwidth" in models and jobs.knows(jobs.told_demand))
        or ("composite" in models and jobs.knows(jobs.profile))
    )


def _wants_memory(_choice: PolicyChoice, prepared: Prepared) -> bool:
    jobs = columns_of(prepared.workload.jobs)
    return prepared.scenario.clock.mode != "virtual" or max(jobs.each(jobs.memory_mb), default=0) > 0


def _programs_want_memory(choice: PolicyChoice, prepared: Prepared) -> bool:
    programs = prepared.workload.programs
    own = programs is not None and any(map(programs.memory_mb, prepared.workload.jobs))
    return own or _wants_memory(choice, prepared)


def _features(choice: PolicyChoice) -> Collection[str]:
    return getattr(choice.make(), "features", ())


def _suspends_in_place(choice: PolicyChoice, prepared: Prepared) -> bool:
    """Tell whether the policy or the manager suspends jobs on their nodes."""
    if part_name(choice.settings, "backfill") is None:
        return True
    if not choice.shipped:
        return "suspend" in _features(choice)
    # Pairs stop a job that was measured as too slow; else only guests may do so on their nodes.
    manager, name = prepared.scenario.manager, part_name(choice.settings, "matching")
    measured = prepared.scenario.monitoring.after_s is not None
    stops = name in LISTENS and ("disk" in _features(choice) if name == "guests" else measured)
    return stops or (manager is not None and manager.suspend_every_s is not None)


def _shares_cpu(choice: PolicyChoice, prepared: Prepared) -> bool:
    """Tell whether a CPU may have two processes at a time."""
    sharing, pairing = prepared.scenario.time_sharing, part_name(choice.settings, "pairing")
    daemons = sharing is not None and sharing.daemon_us > 0
    return not choice.shipped or daemons or _shares_nodes(choice, prepared) or pairing not in (None, "none")


def _shares_nodes(_choice: PolicyChoice, prepared: Prepared) -> bool:
    return max(item.threads for item in prepared.nodes) > 1


def _of_others_or(asks: Callable[[PolicyChoice], bool]) -> Callable[[PolicyChoice, Prepared], bool]:
    """Return whether a policy asks for a belief; one of others may."""
    return lambda choice, _prepared: not choice.shipped or asks(choice)


USES: Final[Mapping[needs.Needs, Callable[[PolicyChoice, Prepared], bool]]] = {
    needs.ASKED_PAIRS: _of_others_or(_asks_pairs),
    needs.ASKED_LOSSES: _of_others_or(_asks_losses),
    needs.ASKED_EITHER: _of_others_or(lambda choice: _asks_pairs(choice) or _asks_losses(choice)),
    needs.ASKED_NEVER: _of_others_or(lambda _choice: False),
    needs.ASKED_SELF: lambda choice, prepared: not choice.shipped or _asks_self(choice, prepared),
    needs.FOLLOWED: _follows,
    needs.SLOWED: lambda _choice, prepared: _contends_or_unknown(prepared) or prepared.faults.slow_nodes,
    needs.CONTENDED: lambda _choice, prepared: prepared.hardware.contention == "none" or _contends_or_unknown(prepared),
    needs.PAIRED: _says_of_pairs,
    needs.LIMITED: _limits_count,
    needs.DEMAND_COUNTS: _demand_counts,
    needs.USE_COUNTS: use_counts,
    needs.SELF_COUNTS: self_counts,
    needs.MEMORY: _wants_memory,
    needs.MEMORY_OF_PROGRAMS: _programs_want_memory,
    needs.MEMORY_LIMIT: lambda _choice, prepared: (
        prepared.scenario.clock.mode != "virtual" or any(item.memory_mb for item in prepared.nodes)
    ),
    needs.SUSPENDED: _suspends_in_place,
    needs.ON_DISK: lambda choice, _: part_name(choice.settings, "backfill") is None or "disk" in _features(choice),
    needs.TURNS: lambda choice, _prepared: part_name(choice.settings, "backfill") in (None, "gang"),
    needs.SHARED_CPU: _shares_cpu,
    needs.SHARED_NODES: _shares_nodes,
    needs.SHARED_CORES: _of_others_or(
        lambda choice: _asks_pairs(choice) or part_name(choice.settings, "pairing") not in (None, "none")
    ),
}
