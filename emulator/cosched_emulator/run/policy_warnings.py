"""Warnings before a run: about a policy that has little effect in the scenario, and about the scenario's workload."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Final

from cosched_emulator.results.files.run_folder import part_name
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.scenario.machine import of_file
from cosched_emulator.scenario.sections import TimeSharingSection, TruthSection
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_emulator.workload.side_files.annotations import SELF, USAGE
from cosched_hwmodel.composite.job_profile import to_mapping
from cosched_hwmodel.composite.node_classes import shape_of
from cosched_hwmodel.composite.on_node import LIMITED_BY, limits_of
from cosched_hwmodel.models.by_name import BUILT_IN, OF_PAIRS, make_pairs
from cosched_hwmodel.usage import RESOURCES
from cosched_plugin.config import PolicyChoice
from cosched_plugin.protocol.messages import NodeClass

BY_BANDWIDTH: Final = ("lessconsume", "lessconsume-threshold")  # placements that look for nodes with bandwidth left
LIMITS: Final = ("memory_bandwidth_mbs", "network_mbs", "disk_mbs")  # keys of [cluster]
OF_PAIRS_ALONE: Final = ("lomarc", "statistical", "pairs")  # models that know no bandwidth
NEEDS_NOTHING: Final = (None, "none", "always")  # matchings that need no knowledge of pairs
GIVEN: Final = (None, "given")  # beliefs that are the site's
# Matchings that follow measured slowdowns.
LISTENS: Final = frozenset({"always", "adjacent", "first", "u1", "u2", "response", "guests"})


def warnings_of(choice: PolicyChoice, prepared: Prepared) -> tuple[str, ...]:
    """Return the warnings before a run: first those about the policy, then those about the workload."""
    of_policy = [
        find(choice, prepared)
        for find in (
            idle_matching,
            idle_belief,
            idle_beliefs,
            idle_monitoring,
            idle_placement,
            idle_slices,
            idle_turns,
            idle_local,
            idle_memory,
            idle_disks,
            idle_nodes,
            idle_hardware,
            idle_facts,
            idle_profiles,
            idle_exclusive,
            sums_of_pairs,
        )
    ]
    found = [of_file(text, prepared.described) for text in of_policy if text is not None]
    return (*found, *prepared.workload.warnings)


def idle_matching(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return why the policy's matching will never pair jobs: the scheduler lacks knowledge that it needs; None if it can."""
    name = part_name(choice.settings, "matching")
    if name in NEEDS_NOTHING or part_name(choice.settings, "belief") not in GIVEN:
        return None
    truth, belief = prepared.scenario.truth.contention, prepared.scenario.belief.contention
    jobs = columns_of(prepared.workload.jobs)
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
    return f"matching {name} will pair no jobs: the scheduler is told nothing {missing}"


def idle_belief(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return why the policy will not learn what jobs cost each other; None if it will, or does not want to."""
    if part_name(choice.settings, "belief") != "learned":
        return None
    if not _asks_pairs(choice):
        return "belief learned has no effect: no part of the policy asks what co-located jobs cost each other"
    if prepared.scenario.monitoring.after_s is not None:
        return None
    return "belief learned will learn nothing: no slowdowns are measured (monitoring.after_s)"


def idle_beliefs(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return which keys of [belief] no part of the policy asks for; None if there are none."""
    if not choice.shipped:
        return None
    truth, belief = prepared.scenario.truth, prepared.scenario.belief
    model = prepared.belief.contention
    own = model == "statistical" or model not in BUILT_IN  # which reads self slowdowns
    asked = {
        **dict.fromkeys(("contention", "resources"), _asks_pairs(choice) or _asks_losses(choice)),
        "composition": False,  # all parts that ship expect losses node by node
        "demand": _asks_losses(choice),
        **dict.fromkeys(
            ("self_slowdowns", "self_noise"),
            (own and _asks_pairs(choice)) or part_name(choice.settings, "placement") == "spread",
        ),
    }
    keys = [
        f"belief.{item.name}"
        for item in fields(belief)
        if getattr(belief, item.name) not in (item.default, getattr(truth, item.name, item.default))
        and not asked.get(item.name, _asks_pairs(choice))
    ]
    return f"{' and '.join(keys)}: no effect under a policy that asks for no such belief" if keys else None


def idle_monitoring(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return a warning if slowdowns are measured, and no part of the policy follows them; None otherwise."""
    after_s, name = prepared.scenario.monitoring.after_s, part_name(choice.settings, "matching")
    if after_s is None or not choice.shipped or name in LISTENS or part_name(choice.settings, "belief") == "learned":
        return None
    return "monitoring.after_s: no effect under a policy that follows no measured slowdowns"


def _may_ask_pairs(choice: PolicyChoice) -> bool:
    """Tell whether a part asks, or may ask, what co-located jobs cost each other."""
    return _asks_pairs(choice) or not choice.shipped


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


def idle_memory(_choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return which settings of memory bind nobody; None if there are none."""
    scenario, jobs = prepared.scenario, columns_of(prepared.workload.jobs)
    wanted = max(jobs.each(jobs.memory_mb), default=0) > 0
    if scenario.clock.mode != "virtual":  # users' jobs may ask for memory
        return None
    if wanted and scenario.workload.memory_mb and not any(item.memory_mb for item in prepared.nodes):
        return "workload.memory_mb: no effect where no node has a limit of memory (cluster.memory_mb)"
    keys = [f"cluster.{key}" for key in ("memory_mb", "swap_mb") if getattr(prepared.described, key) is not None]
    keys += ["preemption.disk_mbs"] * bool(scenario.preemption.disk_mbs)
    programs, sharing = prepared.workload.programs, scenario.time_sharing
    if sharing is not None and sharing.memory_mb and programs is not None:
        keys += ["time_sharing.memory_mb"] * (not any(map(programs.memory_mb, prepared.workload.jobs)))
    return None if wanted or not keys else f"{' and '.join(keys)}: no effect where no job requests memory"


def idle_disks(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return which settings of suspension nobody needs: neither policy nor manager suspends jobs so; None if there are none."""
    if part_name(choice.settings, "backfill") is None:
        return None
    scenario, features = prepared.scenario, getattr(choice.make(), "features", ())
    prices, manager, name = scenario.preemption, scenario.manager, part_name(choice.settings, "matching")
    in_place = "suspend" in features
    if choice.shipped:  # pairs stop a job that was measured as too slow; else only guests may do so on their nodes
        stops = name in LISTENS and (
            scenario.monitoring.after_s is not None if name != "guests" else "disk" in features
        )
        in_place = stops or (manager is not None and manager.suspend_every_s is not None)
    keys = ["preemption.switch_s"] * (bool(prices.switch_s) and not in_place)
    if "disk" not in features:
        keys += [f"preemption.{key}" for key in ("resume_s", "disk_mbs") if getattr(prices, key)]
        keys += ["cluster.swap_mb"] * bool(prepared.described.swap_mb)
    return f"{' and '.join(keys)}: no effect where no job is suspended so" if keys else None


def idle_nodes(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return which settings say nothing of these jobs and nodes: no job slows another one down, or has anything to share."""
    scenario, jobs = prepared.scenario, columns_of(prepared.workload.jobs)
    if scenario.clock.mode != "virtual" or scenario.time_sharing is not None:
        return None
    contends, model, believed = _contends(prepared), prepared.hardware.contention, prepared.belief.contention
    slows = contends or prepared.faults.slow_nodes
    asks = (
        (prepared.contends and model not in OF_PAIRS_ALONE)
        or ("bandwidth" in (model, believed) and jobs.knows(jobs.told_demand))
        or ("composite" in (model, believed) and jobs.knows(jobs.profile))
    )
    truth, plain = scenario.truth, TruthSection()
    # What the keys of pairs say may also be believed, of another model.
    pairs = model == "none" or (contends and model != "bandwidth") or (believed != model and _may_ask_pairs(choice))
    counts = {"contention": contends or model == "none", "resources": contends, "composition": slows}
    idle = [
        item.name
        for item in fields(truth)
        if getattr(truth, item.name) != getattr(plain, item.name) and not counts.get(item.name, pairs)
    ]
    keys = [
        *["monitoring.after_s"] * (scenario.monitoring.after_s is not None and not slows),
        *[f"cluster.{key}" for key in LIMITS if getattr(prepared.described, key) is not None and not asks],
        *[f"truth.{key}" for key in idle],
    ]
    return f"{' and '.join(keys)}: no effect where no job slows another one down" if keys else None


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


def idle_facts(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return which facts of jobs count for nobody: no contention, and no part of the policy; None if there are none."""
    workload, models = prepared.scenario.workload, _models(prepared)
    if not (_asks_pairs(choice) or _asks_losses(choice)):
        models = {prepared.hardware.contention}
    if not choice.shipped or prepared.scenario.clock.mode != "virtual" or not models <= BUILT_IN.keys():
        return None
    slows = prepared.hardware.contention == "bandwidth" and _contends(prepared)
    asked = prepared.belief.contention == "bandwidth" and (_asks_losses(choice) or _asks_pairs(choice))
    own = workload.grow or part_name(choice.settings, "placement") == "spread"
    counts = {
        "mix": slows or asked,
        "characteristics": "lomarc" in models,
        "self_slowdowns": "statistical" in models or own,
    }
    keys = [f"workload.{key}" for key, used in counts.items() if getattr(workload, key) is not None and not used]
    jobs = columns_of(prepared.workload.jobs)
    if workload.annotations is not None:
        columns = [*USAGE] * (jobs.knows(jobs.usage) and not counts["characteristics"])
        columns += [*SELF] * (jobs.knows(jobs.self_slowdown) and not counts["self_slowdowns"])
        keys += [f"workload.annotations ({', '.join(columns)})"] * bool(columns)
    return f"{' and '.join(keys)}: no effect under this contention and this policy" if keys else None


def idle_profiles(_choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return which columns of profiles ask for what no node limits; None if there are none."""
    if "composite" not in _models(prepared) or prepared.scenario.clock.mode != "virtual":
        return None
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


def idle_exclusive(_choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return a warning if jobs want whole nodes that nobody could share; None otherwise."""
    if not prepared.scenario.workload.exclusive or max(item.threads for item in prepared.nodes) > 1:
        return None
    return "workload.exclusive: no effect on nodes of one hardware thread"


def idle_turns(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return which settings of turns have no effect: slots take none, and nobody reads the log of CPU time; None if there are none."""
    if part_name(choice.settings, "backfill") in (None, "gang"):
        return None
    named = _changed(prepared, "quantum_s", "turn_overhead", "tick_ms", "io_logged")
    return f"{named}: no effect under a policy without turns of slots" if named else None


def idle_local(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return which settings say how processes share a CPU that never has two; None if there are none."""
    sharing = prepared.scenario.time_sharing
    if not choice.shipped or sharing is None or sharing.daemon_us or max(item.threads for item in prepared.nodes) > 1:
        return None
    if part_name(choice.settings, "pairing") not in (None, "none"):
        return None
    named = _changed(prepared, "local", "slice_ms", "epoch_ticks")
    return f"{named}: no effect where a CPU has one process at a time" if named else None


def _changed(prepared: Prepared, *keys: str) -> str:
    """Return which of these keys of [time_sharing] have other values than their defaults, in words."""
    sharing, plain = prepared.scenario.time_sharing, TimeSharingSection()
    changed = [key for key in keys if sharing is not None and getattr(sharing, key) != getattr(plain, key)]
    return " and ".join([f"time_sharing.{key}" for key in changed])


def sums_of_pairs(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return a warning if the truth is a model of two jobs and more than two may share a node; None otherwise."""
    truth = prepared.hardware
    most = max(item.threads for item in prepared.nodes)
    if (
        truth.contention != truth.lomarc.name
        or not prepared.contends
        or most <= 2
        or prepared.scenario.workload.exclusive
    ):
        return None
    if part_name(choice.settings, "shape") == "nodes" and part_name(choice.settings, "matching") != "group":
        return None  # one job on a node, or a pair
    return (
        f'truth.contention = "{truth.contention}" is a model of two jobs on a node, and up to {most} may share one here: '
        "the slowdowns that a job has from each of its neighbours are added up"
    )
