"""What a site watches: how jobs share nodes and what that costs them, why jobs wait, how far start estimates are off, what is in use.

The figures are made in the manager's thread, seldom, and read from others: that of the metrics must not look at jobs that change.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from cosched_emulator.expected_starts.reasons import KINDS
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.live.start_estimates import StartEstimates
from cosched_emulator.live.views import amount, node_use
from cosched_emulator.manager.managed_job import RUNNING, ManagedJob
from cosched_emulator.offered import ARRAY_LIMIT, BEGIN_TIME, DEPENDENCY, HELD, QUEUED, RESERVED, UNSERVED
from cosched_emulator.statistics.weighted import LENGTHS, MEDIUM_S, SHORT_S
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.limits import LIMIT_REASONS
from cosched_plugin.common.status import Gauge
from cosched_plugin.common.threads import each_node

EVERY_S: Final = 2.0  # between two looks
# Reasons of pending jobs: the manager's own, and those of a copy of the policy for jobs that wait for the scheduler.
_OWN: Final = {
    HELD: "held",
    DEPENDENCY: "dependency",
    BEGIN_TIME: "begin_time",
    ARRAY_LIMIT: "array_limit",
    RESERVED: "reserved",
    **dict.fromkeys(LIMIT_REASONS, "limit"),
    UNSERVED: "no_scheduler",
    QUEUED: "scheduler",
}
WAITS: Final = {
    "held": "Pending jobs that are held.",
    "dependency": "Pending jobs that wait for other jobs.",
    "begin_time": "Pending jobs whose begin time has not come.",
    "array_limit": "Pending tasks whose turn in their array has not come.",
    "reserved": "Pending jobs whose nodes are reserved before they could end.",
    "limit": "Pending jobs that a limit of their user, account, QOS or partition keeps back.",
    "no_scheduler": "Pending jobs while no scheduler is connected.",
    "nodes": "Pending jobs for which too little is free.",
    "reservation": "Pending jobs that would fit, and would delay a reservation or have one.",
    "order": "Pending jobs that would fit, while others come first.",
    "scheduler": "Pending jobs that the scheduler has not started, for a reason that is not known.",
}
MOST_USERS: Final = 50  # with metrics of their own: those with most jobs, and those of the others together
OTHERS: Final = "(others)"  # is no user's name
_BY: Final = {  # labels, and which jobs have them
    "partition": "each in the first of the partitions that it names",
    "user": f"of the {MOST_USERS} users with most jobs; {OTHERS}: of all others",
    "class": f"short up to an estimate of {SHORT_S} s, medium up to {MEDIUM_S} s, else long",
}


def _gauges_by(label: str, which: str) -> dict[str, Gauge]:
    """Return the metrics of jobs with one label."""
    first = f"Longest time for which one of the pending jobs of the {label} has been pending; 0: none is pending."
    return {
        f"by.{label}.*.running": Gauge(f"{label}_running_jobs", f"Running jobs, {which}.", (label,)),
        f"by.{label}.*.pending": Gauge(f"{label}_pending_jobs", f"Pending jobs, {which}.", (label,)),
        f"by.{label}.*.longest_wait_us": Gauge(f"{label}_longest_wait_seconds", first, (label,)),
    }


GAUGES: Final = {
    "shared_nodes": Gauge("shared_nodes", "Nodes with more than one job."),
    "shared_jobs": Gauge("shared_jobs", "Running jobs on nodes with more than one job."),
    "shared_slowdown": Gauge(
        "shared_slowdown",
        "Mean slowdown so far of running jobs on nodes with more than one job; NaN: no such job, or not known.",
    ),
    "estimates_scored": Gauge("start_estimates_scored", "Latest start estimates whose jobs have started."),
    "estimate_error_us": Gauge(
        "start_estimate_error_seconds", "Median error of the latest start estimates; NaN: none."
    ),
    "estimates_held": Gauge(
        "start_estimates_held_ratio", "Share of the latest start estimates whose range contained the start; NaN: none."
    ),
    **{f"waits_{kind}": Gauge(f"waits_{kind}", text) for kind, text in WAITS.items()},
    "resources.*.all": Gauge("resources", "Countable resources of all nodes.", ("resource",)),
    "resources.*.used": Gauge("resources_used", "Countable resources that jobs have.", ("resource",)),
    "licences.*.all": Gauge("licences", "Licences of the machine.", ("licence",)),
    "licences.*.used": Gauge("licences_used", "Licences that jobs have.", ("licence",)),
    **{key: gauge for label, which in _BY.items() for key, gauge in _gauges_by(label, which).items()},
    "partitions.*.threads.all": Gauge(
        "partition_threads", "Hardware threads of the partition's nodes; a node may be in several.", ("partition",)
    ),
    "partitions.*.threads.used": Gauge(
        "partition_threads_used",
        "Hardware threads of the partition's nodes that jobs of any partition hold.",
        ("partition",),
    ),
    "partitions.*.resources.*.all": Gauge(
        "partition_resources", "Countable resources of the partition's nodes.", ("partition", "resource")
    ),
    "partitions.*.resources.*.used": Gauge(
        "partition_resources_used",
        "Countable resources of the partition's nodes that jobs of any partition have.",
        ("partition", "resource"),
    ),
}


class Watched:
    """The figures of one manager, by the names of `GAUGES`; ``served`` says whether there is a scheduler."""

    def __init__(self, live: LiveManager, estimates: StartEstimates | None, served: Callable[[], bool]) -> None:
        self.figures: dict[str, Any] = {}
        self._live = live
        self._estimates = estimates
        self._served = served
        self._next_s = 0.0

    def look(self) -> None:
        """Make the figures anew if the last ones are old."""
        if time.monotonic() < self._next_s:
            return
        self.figures = {**self._sharing(), **self._errors(), **self._waits(), **self._parts()}
        self._next_s = time.monotonic() + EVERY_S

    def _sharing(self) -> dict[str, Any]:
        manager = self._live.manager
        on_nodes = [job for job in manager.running.values() if not job.on_disk]
        jobs_on = Counter(node for job in on_nodes for node, _ in each_node(job.runs))
        shared = [job for job in on_nodes if any(jobs_on[node] > 1 for node, _ in each_node(job.runs))]
        slowdowns = []
        if manager.processes is None:
            now_us = self._live.now_us
            for job in shared:
                work_us = 0 if job.state != RUNNING else manager.work_us(job, now_us)
                if work_us > 0:
                    slowdowns.append((job.idle_until(now_us) - job.start_us - job.idle_us) / work_us)
        return {
            "shared_nodes": sum(count > 1 for count in jobs_on.values()),
            "shared_jobs": len(shared),
            "shared_slowdown": round(sum(slowdowns) / len(slowdowns), 6) if slowdowns else None,
        }

    def _errors(self) -> dict[str, Any]:
        starts, error_us, held = (0, None, None) if self._estimates is None else self._estimates.record
        return {"estimates_scored": starts, "estimate_error_us": error_us, "estimates_held": held}

    def _waits(self) -> dict[str, int]:
        """Return the pending jobs by reason: of those that wait for the scheduler alone, as far as a copy of its policy knows."""
        live = self._live
        counts = Counter(_OWN[entry.reason] for entry in live.waiting.values())
        held = sum(job.held for job in live.manager.pending.values())
        queued = len(live.manager.pending) - held
        counts["held"] += held
        if not self._served():
            counts["no_scheduler"] += queued
        else:
            known = {} if self._estimates is None else self._estimates.kinds()
            counts.update(known)
            counts["scheduler"] += max(0, queued - sum(known.values()))  # not looked at yet
        return {f"waits_{kind}": counts[kind] for kind in WAITS}

    def _parts(self) -> dict[str, Any]:
        """Return how much there is and is in use: of each countable resource and licence, and in each partition."""
        live, manager = self._live, self._live.manager
        machine, use = manager.machine, node_use(manager.machine, manager.running)
        every = range(machine.nodes)
        licences = Counter[str]()
        for job in manager.running.values():
            if job.job.spec.licences and not job.on_disk:
                licences.update(dict(job.job.spec.licences))
        none = dict.fromkeys(("running", "pending", "longest_wait_us"), 0)
        found = self._jobs(_partition)
        by_partition = {each.name: found.get(each.name, none) for each, _ in live.gate.binding.members()}
        partitions = {}
        for partition, members in live.gate.binding.members():
            nodes = [node for node in every if members >> node & 1]
            partitions[partition.name] = {
                **{key: value for key, value in by_partition[partition.name].items() if key != "longest_wait_us"},
                "threads": amount(machine.threads_of, use.threads, nodes),
                "resources": use.resources_of(machine, nodes),
            }
        return {
            "resources": use.resources_of(machine, every),
            "licences": {name: {"all": count, "used": licences[name]} for name, count in machine.licences.items()},
            "partitions": partitions,
            "by": {
                "partition": by_partition,
                "user": self._users(),
                "class": dict.fromkeys(LENGTHS, none) | self._jobs(_length),
            },
        }

    def _jobs(self, group_of: Callable[[ManagedJob], str]) -> dict[str, dict[str, int]]:
        """Return by group the running and the pending jobs, and how long the first of these has been pending."""
        live, manager = self._live, self._live.manager
        waiting = [*manager.pending.values(), *[entry.job for entry in live.waiting.values()]]
        running = Counter(map(group_of, manager.running.values()))
        pending, first_us = Counter[str](), dict[str, int]()
        for job in waiting:
            group = group_of(job)
            pending[group] += 1
            first_us[group] = min(first_us.get(group, live.now_us), job.job.spec.submit_us)
        return {
            group: {
                "running": running[group],
                "pending": pending[group],
                "longest_wait_us": live.now_us - first_us.get(group, live.now_us),
            }
            for group in running | pending
        }

    def _users(self) -> dict[str, dict[str, int]]:
        """Return the same by user: of those with most jobs, and of all others together."""
        origins = self._live.origins

        def user_of(job: ManagedJob) -> str:
            origin = origins.get(job.id)
            return (origin.owner if origin is not None else "") or job.job.spec.user

        found = self._jobs(user_of)
        order = sorted(found, key=lambda user: (-found[user]["running"] - found[user]["pending"], user))
        if len(order) <= MOST_USERS:
            return found
        kept = {*order[:MOST_USERS]}
        return self._jobs(lambda job: user if (user := user_of(job)) in kept else OTHERS)


def _length(job: ManagedJob) -> str:
    """Return the class of a job by its estimate."""
    estimate_us = job.job.spec.estimate_us
    return LENGTHS[(estimate_us > SHORT_S * SECOND_US) + (estimate_us > MEDIUM_S * SECOND_US)]


def _partition(job: ManagedJob) -> str:
    """Return the partition in which a job counts, as it does for limits."""
    return next(iter(job.job.terms.partitions), "")


assert set(KINDS) | {*_OWN.values()} == {*WAITS}
