"""What a schedule on a site must keep, checked instant by instant from the scenario's own tables: it shares no code with the gate.

Threads, memory, countable resources, the nodes of partitions, limits, arrays, dependencies, begin times, cancellations while pending,
drained and reserved nodes. `check_site` raises AssertionError with the first rule that is broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.scenario.site_tables import LimitEntry
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.protocol.messages import NodeClass, Run

_SECOND = 1_000_000


class Ran:
    """One stay of a job on its nodes."""

    def __init__(self, job: WorkloadJob, start_us: int, end_us: int, runs: Sequence[Run]) -> None:
        self.job = job
        self.start_us = start_us
        self.end_us = end_us
        self.runs = runs
        self.nodes = {node for first, count, _, _ in runs for node in range(first, first + count)}


def check_site(prepared: Prepared, records: Sequence[JobRecord]) -> int:
    """Check a whole run of a scenario; return how many stays there were."""
    scenario = prepared.scenario
    nodes = [item for item in prepared.nodes for _ in range(item.nodes)]
    asked = {job.spec.id: job for job in prepared.workload.jobs}
    ended = {record.job.spec.id: record for record in records}
    stays = []
    for record in records:
        job = asked[record.job.spec.id]
        stays += [Ran(job, stay.start_us, stay.end_us, stay.runs) for stay in record.intervals]
        if record.intervals:
            _check_waits(job, record.intervals[0].start_us, ended)
            for entry in scenario.script:
                if (
                    entry.do == "cancel-pending"
                    and entry.job == job.spec.id
                    and entry.at_s >= job.spec.submit_us / _SECOND
                ):
                    assert record.intervals[0].start_us <= entry.at_s * _SECOND, (
                        f"job {entry.job} starts, and was cancelled"
                    )
    for stay in stays:
        _check_nodes(scenario, stay, len(nodes))
        _check_script(scenario, stay, len(nodes))
        there = [other for other in stays if other.start_us <= stay.start_us < other.end_us]
        _check_capacity(nodes, there)
        _check_limits(scenario, there, nodes)
    return len(stays)


def _check_waits(job: WorkloadJob, start_us: int, ended: dict[int, JobRecord]) -> None:
    spec, terms = job.spec, job.terms
    assert start_us >= spec.submit_us + terms.delay_us, f"job {spec.id} starts before its begin time"
    if terms.cancel_us is not None:
        assert start_us <= spec.submit_us + terms.cancel_us, f"job {spec.id} starts after it was cancelled"
    for kind, number in terms.after:
        other = ended[number]
        if kind == "after" and other.intervals:
            assert other.intervals[0].start_us <= start_us, f"job {spec.id} starts before job {number}"
            continue
        assert other.end_us is not None, f"job {spec.id} starts, and job {number} never ends"
        assert other.end_us <= start_us, f"job {spec.id} starts before the end of job {number}"
        good = {"afterok": other.state == "COMPLETED", "afternotok": other.state != "COMPLETED"}
        assert good.get(kind, True), f"job {spec.id} starts, and job {number} has ended {other.state}"


def _ranges(text: str | None, nodes: int) -> set[int]:
    if text is None:
        return set(range(nodes))
    found: set[int] = set()
    for part in text.replace(",", ";").split(";"):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _partitions(scenario: Scenario, job: WorkloadJob) -> list[str]:
    """Return the partitions of a job that take it."""
    names = list(job.terms.partitions) or [each.name for each in scenario.partitions if each.default]
    time_s = (job.spec.limit_us or job.spec.estimate_us) / _SECOND
    return [
        each.name
        for name in names
        for each in scenario.partitions
        if each.name == name and (each.max_time_s is None or time_s <= each.max_time_s)
    ]


def _check_nodes(scenario: Scenario, stay: Ran, nodes: int) -> None:
    spec = stay.job.spec
    may = set(range(nodes))
    if spec.eligible:
        may &= {node for first, count in spec.eligible for node in range(first, first + count)}
    if scenario.partitions:
        names = _partitions(scenario, stay.job)
        may &= set().union(*[_ranges(each.nodes, nodes) for each in scenario.partitions if each.name in names])
        for each in scenario.partitions:
            if each.name in names and each.max_nodes is not None and len(names) == 1:
                least = -(-spec.processes // (spec.ppn_max or spec.processes))
                assert least <= each.max_nodes, f"job {spec.id} has more nodes than partition {each.name} allows"
    assert stay.nodes <= may, f"job {spec.id} is on nodes that it may not have: {sorted(stay.nodes - may)}"


def _check_script(scenario: Scenario, stay: Ran, nodes: int) -> None:
    start_s, spec = stay.start_us / _SECOND, stay.job.spec
    for entry in scenario.script:
        hit = stay.nodes & _ranges(entry.nodes, nodes)
        until_s = entry.until_s if entry.until_s is not None else float("inf")
        if entry.do == "drain-nodes" and hit:
            assert not entry.at_s <= start_s < until_s, f"job {spec.id} starts on drained nodes"
        elif entry.do == "reserve" and hit and start_s < until_s:
            last_s = start_s + (spec.limit_us or spec.estimate_us) / _SECOND
            assert last_s <= entry.at_s, f"job {spec.id} starts on nodes that are reserved before it must end"


def _check_capacity(nodes: Sequence[NodeClass], there: Sequence[Ran]) -> None:
    threads: dict[int, int] = {}  # by node: those taken, as a mask
    memory_mb: Counter[int] = Counter()
    amounts: Counter[tuple[int, str]] = Counter()
    for stay in there:
        for first, count, mask, processes in stay.runs:
            for node in range(first, first + count):
                before = threads.get(node, 0)
                assert not before & mask, f"two jobs have threads of node {node}: {before & mask:#x}"
                threads[node] = before | mask
                memory_mb[node] += processes * stay.job.spec.memory_mb
                for name, amount in stay.job.spec.resources:
                    amounts[node, name] += amount
    for node, held in threads.items():
        assert held.bit_length() <= nodes[node].threads, f"node {node} has no threads {held:#x}"
    for node, taken in memory_mb.items():
        assert taken <= nodes[node].memory_mb, f"{taken} MiB of node {node} are taken"
    for node in threads:
        for one, other in nodes[node].apart:
            assert not (amounts[node, one] and amounts[node, other]), f"{one} and {other} are taken of node {node}"
    devices = {node for node, item in enumerate(nodes) if item.same_nodes and item.threads > 1}
    for mine, its in combinations([stay.nodes & devices for stay in there], 2):
        assert mine == its or not mine & its, f"two jobs share a part of their nodes: {sorted(mine)}, {sorted(its)}"
    for (node, name), taken in amounts.items():
        most = dict(nodes[node].resources).get(name, 0)
        assert taken <= most, f"{taken} {name} of node {node} are taken, it has {most}"


def _check_limits(scenario: Scenario, there: Sequence[Ran], nodes: Sequence[NodeClass]) -> None:
    above = {each.name: each.parent for each in scenario.accounts}
    for limit in scenario.limits:
        used: Counter[tuple[str, str]] = Counter()
        for stay in there:
            if not _concerns(scenario, limit, stay.job, above):
                continue
            whom = {"user": stay.job.spec.user, "account": stay.job.terms.account}.get(limit.each or "", "")
            gpus = dict(stay.job.spec.resources).get("gpu", 0)
            used[whom, "jobs"] += 1
            used[whom, "cpus"] += sum(
                count
                * (nodes[first].threads if stay.job.spec.exclusive else processes * stay.job.spec.threads_per_process)
                for first, count, _, processes in stay.runs
            )
            if stay.job.spec.ppn_max == 1:  # else a job may be on more nodes than it needs
                used[whom, "gpus"] += gpus * len(stay.nodes)
                used[whom, "nodes"] += len(stay.nodes)
        for (whom, what), amount in used.items():
            most = getattr(limit, what)
            assert most is None or amount <= most, f"{whom or 'they'} have {amount} {what}, at most {most}: {limit}"
    tasks = Counter(stay.job.terms.array for stay in there if stay.job.terms.at_once)
    for stay in there:
        if stay.job.terms.at_once:
            assert tasks[stay.job.terms.array] <= stay.job.terms.at_once, (
                f"too many tasks of array {stay.job.terms.array}"
            )


def _concerns(scenario: Scenario, limit: LimitEntry, job: WorkloadJob, above: dict[str, str]) -> bool:
    accounts = list(_upwards(job.terms.account, above))
    partition = next(iter(_partitions(scenario, job) if scenario.partitions else job.terms.partitions), "")
    return (
        limit.user in ("", job.spec.user)
        and limit.qos in ("", job.terms.qos)
        and limit.partition in ("", partition)
        and (not limit.account or limit.account in accounts)
    )


def _upwards(account: str, above: dict[str, str]) -> Iterator[str]:
    while account:
        yield account
        account = above.get(account, "")
