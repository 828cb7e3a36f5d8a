"""The rules of guests, without a clock or a call: who may be one, where, which are to be put back, and who is beside whom.

A guest is a job of a partition such as `co` that Slurm has not started yet and that runs beside running jobs of `co`, in a second
partition over the same nodes. *Asked* is one that has been moved there with a list of nodes, and waits for Slurm to start it. All of
this is in Slurm: a job that waits in the second partition and that this process does not remember is put back, whatever the reason
(a driver that was killed, a requeue, a node that died, a user who submits there).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.slurm_notation import ON_NODES, WAITING
from cosched_plugin.protocol.messages import JobSpec
from cosched_plugin.site.observing import MARK
from cosched_plugin.slurm.pairing import Shown
from cosched_plugin.slurm.records import SlurmJob
from cosched_plugin.slurm.site_file import Site

# Reasons with which Slurm would start a job if there were room. Others (Dependency, BeginTime, QOS..., Assoc..., ReqNodeNotAvail)
# would keep a guest waiting, too, and its place taken.
FREE: Final = frozenset({"Resources", "Priority"})
UNTRIED: Final = frozenset({"", "None"})  # Slurm has not looked at it yet
_INTERVAL: Final = 30.0  # Slurm's default of bf_interval
_BUILTIN: Final = 60.0  # and of sched_interval, where nothing is backfilled
LOST_US: Final = 10 * SECOND_US  # a change that is not seen after that is lost, as by a slurmctld that was killed
_AFTER_S: Final = 5.0  # what a cycle of the backfill takes itself


class Ask(NamedTuple):
    """A start as a guest that Slurm was asked for."""

    at_us: int
    nodes: Mapping[str, frozenset[int]]  # by name the running jobs there, by Slurm's numbers
    planned_s: int = 0  # when Slurm meant to start it, if it had a plan

    @property
    def hosts(self) -> frozenset[int]:
        """Return the running jobs on all of its nodes."""
        return frozenset().union(*self.nodes.values())


def patience_s(config: Shown) -> float:
    """Return how long Slurm may take to start a guest: a cycle of its backfill, which alone passes a blocked head, and 5 s."""
    builtin = config.get("SchedulerType", "").endswith("builtin")
    name, default = ("sched_interval", _BUILTIN) if builtin else ("bf_interval", _INTERVAL)
    found = re.search(rf"\b{name}=(\d{{1,9}})", config.get("SchedulerParameters", ""))
    return (float(found[1]) if found else default) + _AFTER_S


def by_node(jobs: Iterable[SlurmJob]) -> dict[str, list[SlurmJob]]:
    """Return the jobs on each node."""
    found: dict[str, list[SlurmJob]] = {}
    for job in jobs:
        if job.state in ON_NODES:
            for name in job.nodes:
                found.setdefault(name, []).append(job)
    return found


def open_nodes(there: Mapping[str, Sequence[SlurmJob]], site: Site) -> set[str]:
    """Return the nodes with one job, which is a host: it runs in a partition that has another one for guests."""
    return {
        name
        for name, jobs in there.items()
        if len(jobs) == 1
        and jobs[0].state == "RUNNING"
        and jobs[0].partition in site.guests
        and not (jobs[0].exclusive or jobs[0].choosy)
    }


def why_barred(job: SlurmJob, site: Site, is_range: Callable[[SlurmJob], bool]) -> str:
    """Return why a pending job is no candidate, whatever the policy says; empty if it is one."""
    if job.partition not in site.guests:
        return "it may start in several partitions, and putting it back would lose that"
    if job.held:
        return "it is held"
    if job.required:
        return "it names nodes (-w), which putting it back would lose"
    if job.reason not in FREE:
        return f"Slurm's reason is {job.reason or 'None'}"
    return "it takes a range of nodes" if is_range(job) else ""


def why_hopeless(
    ask: Ask, job: SlurmJob, there: Mapping[str, Sequence[SlurmJob]], in_service: Container[str], site: Site, now_us: int
) -> str:  # fmt: skip
    """Return why an asked job that still waits is to be put back at once; empty if it may wait."""
    if job.partition in site.guests and now_us > ask.at_us + LOST_US:
        return "Slurm shows it there"
    if job.held:
        return "it was held"
    if job.reason not in FREE | UNTRIED:
        return f"Slurm's reason is {job.reason}"
    for name, hosts in ask.nodes.items():
        if name not in in_service:
            return f"node {name} is out of service"
        present = {one.job_id for one in there.get(name, ()) if one.state == "RUNNING"}
        if hosts - present:
            return f"its host on node {name} no longer runs"
        if len(there.get(name, ())) > len(hosts):
            return f"another job is on node {name}"
    return ""


class Company(NamedTuple):
    """A running guest and a job beside it."""

    guest: SlurmJob
    other: SlurmJob
    nodes: int  # that both have

    @property
    def blind(self) -> bool:
        """Tell whether Slurm has made the pair by itself, by their starts alone: a guest's hosts began before it."""
        return self.other.start_s > self.guest.start_s or self.other.partition == self.guest.partition


def companies(there: Mapping[str, Sequence[SlurmJob]], site: Site) -> list[Company]:
    """Return who runs beside whom, for each guest that runs, in the partitions that share cores."""
    guests = set(site.guests.values())
    sharing = {*site.guests, *guests}
    found: dict[tuple[int, int], Company] = {}
    for jobs in there.values():
        for guest in jobs:
            for other in jobs if guest.partition in guests and guest.state == "RUNNING" else ():
                if other.job_id != guest.job_id and other.state == "RUNNING" and other.partition in sharing:
                    key = guest.job_id, other.job_id
                    known = found.get(key)
                    found[key] = Company(guest, other, 1 if known is None else known.nodes + 1)
    return list(found.values())


def is_placed(job: SlurmJob, site: Site) -> bool:
    """Return whether a pending job is among the guests, or was taken out of there with the list that cosched gave it."""
    if job.partition in site.guests and job.required:
        given = re.match(rf"{MARK}a guest on ([^\s]+?),? ", job.admin_comment)
        return given is not None and set(given[1].split(",")) == set(job.required)
    return job.partition in site.guests.values()


def orphans(records: Mapping[int, SlurmJob], asked: Iterable[int], site: Site) -> Iterator[int]:
    """Yield the jobs that wait where guests do although nobody asks them to."""
    known = set(asked)
    for number, job in records.items():
        if job.state in WAITING and number not in known and is_placed(job, site):
            yield number


class Host(NamedTuple):
    """A running job that guests may join, as far as it says why one does not."""

    job: JobSpec
    last_us: int  # when its limit ends
    threads: int  # that are open beside it


def why_not(job: JobSpec, hosts: Sequence[Host], slowdown: Callable[[JobSpec, JobSpec], float], now_us: int) -> str:
    """Return why the policy has found no host for a candidate: its own, else the first that no host meets."""
    if job.exclusive:
        return "it has its nodes alone: it requests that, or its usage is unknown"
    if not hosts:
        return "no running job has a node to itself that a guest might join"
    slow = [(host, slowdown(job, host.job)) for host in hosts if slowdown(host.job, job) < inf]
    known = [(host, own) for host, own in slow if own < inf]
    if not known:
        return "its slowdown beside the running jobs is unknown"
    lasting = [host for host, own in known if now_us + round(job.longest_us * own) <= host.last_us]
    if not lasting:
        return "slowed down, it would outlast the limits of all jobs that it might join"
    if sum(host.threads for host in lasting) < job.processes * job.threads_per_process:
        return "the jobs that it might join have too few cores"
    return "the belief expects no gain, or memory is short"
