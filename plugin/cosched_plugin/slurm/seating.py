"""Guests beside Slurm's own scheduler: an observer that carries out those starts of its policy that join a running job.

A start is one change, of the partition and of the list of nodes, of a job that is not held. Slurm refuses it whole if it has started
the job; and its own backfill decides when the guest begins, so that the head's start is kept. What does not begin in time, or has lost
its host, is put back by one change. `guests.py` has the rules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nsmallest
from math import inf
from typing import Any, Final

from cosched_hwmodel.units import SECOND_US
from cosched_plugin.api import PairModel, slowdown_by
from cosched_plugin.common.slurm_notation import WAITING, natural
from cosched_plugin.common.status import Value
from cosched_plugin.common.threads import each_node, nodes_of
from cosched_plugin.ledger.running import Running
from cosched_plugin.protocol.messages import Action, JobSpec, ReviseJob, SetNote, StartJob, StartTogether
from cosched_plugin.site.driver import Outcome
from cosched_plugin.site.observing import Make, Observer
from cosched_plugin.site.poll_loop import Clock
from cosched_plugin.site.snapshots import PENDING, Snapshot
from cosched_plugin.slurm import guests as rules
from cosched_plugin.slurm.asking import GuestActuator, key_of
from cosched_plugin.slurm.cluster import Cluster
from cosched_plugin.slurm.free_nodes import FreeNodes
from cosched_plugin.slurm.gains import GAUGES, Gains
from cosched_plugin.slurm.records import SlurmJob
from cosched_terminal.console import INFO, WARNING, Field, Log

UNTRIED_S: Final = 3.0  # for so long a job that has come, and that Slurm has not looked at, is not passed by others
EXPLAIN_S: Final = 60.0  # between two looks at why a job is no guest
REPORT_S: Final = 3600.0  # between two accounts of what was gained
LEAVE_S: Final = 10.0  # for putting back what is asked, at the end
MOST_ASKS: Final = 20  # in a turn: what follows from them is looked at then
MOST_EXPLAINED: Final = 50  # pending jobs in a turn, in queue order, of which it is said why they are no guests
MOST_REMARKS: Final = 5  # of these in a turn: each is a command
_UNKNOWN: Final = 2.0  # slowdown of two jobs of which nothing is known: as if they took turns
_NEVER: Final = 1 << 62


class Seating(Observer):
    """A Slurm in which guests are seated beside running jobs."""

    leaves = "jobs run on"

    def __init__(
        self, cluster: Cluster, actuator: GuestActuator, make: Make, pairs: PairModel | None, clock: Clock, log: Log,
        annotate: Callable[[int, str], Outcome] | None = None, *, patience_s: float, empty_nodes: bool = False,
        requeues: bool = False,
    ) -> None:  # fmt: skip
        """``patience_s``: how long Slurm may take to start a guest; ``empty_nodes``: guests may have some besides their hosts';
        ``requeues``: whether a guest in a pair that Slurm has made, and that is believed to be bad, is requeued.
        """
        super().__init__(cluster, make, clock, log, lambda _: None, None, annotate, actuator)
        self._cluster = cluster
        self._actuator = actuator
        self._pairs = pairs
        self._empty_nodes = empty_nodes
        self._requeues = requeues
        self.driver.confirm_us = _NEVER if actuator.dry else round(patience_s * SECOND_US)
        self._gains = Gains(dry=actuator.dry)
        self._free = FreeNodes(round(patience_s * SECOND_US))
        # Slurm's numbers of the hosts of guests that this process has asked
        self._hosts_of: dict[int, frozenset[int]] = {}
        self._guests: set[int] = set()  # those that run, by Slurm's numbers
        self._kept: dict[int, tuple[str, ...]] = {}  # of a trial run: the nodes of those who would be guests
        self._pairs_seen: set[tuple[int, int]] = set()  # by Slurm's numbers of the guest and of the other one
        self._counted: dict[str, tuple[int, int]] = {}  # nodes, by the pair of these that they count for
        self._barred: dict[int, str] = {}  # pending jobs that are no candidates, and why
        self._said: dict[int, set[str]] = {}  # why a job is no guest, as far as that was said
        self._lost: set[str] = set()  # nodes of hosts that the partition of guests has lost
        self._open: frozenset[str] = frozenset()  # nodes that a guest may have
        self._explained_us: dict[int, int] = {}  # when it was last looked why a job is no guest
        self._untried_us = 0  # until when a job that has just come keeps those behind it from being asked
        self._looked_us = 0  # when the last snapshot was made
        self._report_s = time.monotonic() + REPORT_S
        self.gauges |= GAUGES
        self._now: dict[str, Value] = {}

    def _due_us(self) -> int | None:
        moments = self._untried_us, self._actuator.paused_us, self._free.due_us or 0
        later = [at_us for at_us in moments if at_us > self._looked_us]
        return min([*later, *([] if (due_us := super()._due_us()) is None else [due_us])], default=None)

    def _poll(self) -> bool | None:
        changed = super()._poll()
        if changed is not None:
            self._actuator.silence = ""
        return changed

    def fields(self) -> Mapping[str, Value]:
        """Return what the status says of guests."""
        return {**super().fields(), **self._now, **self._actuator.counts}

    # ------------------------------------------------------------ what a poll shows

    def _snapshot(self) -> Snapshot:
        """Return what the last poll has shown as the policy is to see it: candidates, and the nodes of hosts."""
        snapshot = super()._snapshot()
        cluster, actuator, site = self._cluster, self._actuator, self._cluster.site
        self._looked_us = self.clock.now_us()
        there = actuator.there = rules.by_node(cluster.polls.jobs)
        self._see_starts(there)
        before, guests = self._guests, set(site.guests.values())
        self._guests = {job.job_id for jobs in there.values() for job in jobs if job.partition in guests}
        if before - self._guests:
            actuator.paused_us = 0  # there is room for another one below their cap
        may_start, self._lost = self._may_start(snapshot, there), self._without_guests()
        actuator.hopeless = self.driver.hopeless = {} if actuator.dry else dict(self._hopeless(there, may_start))
        actuator.put_back_orphans(rules.orphans(cluster.records, actuator.asked, site))
        waiting = [(number, job) for number, job in cluster.records.items() if job.state in WAITING]
        actuator.seen_waiting = {number for number, job in waiting if job.partition in site.guests}
        self._gains.look(cluster.records, self.clock.now_s())
        polled, self._barred = dict(snapshot.jobs), {}
        first = self._first_untried()
        for job_id, each in snapshot.jobs.items():
            if each.state == PENDING and job_id not in actuator.asked:
                job = cluster.records[job_id]
                why = rules.why_barred(job, site, cluster.is_range) or (
                    "there are free nodes for it" if job_id in may_start else ""
                )
                if why or job.priority < first:
                    polled[job_id] = each._replace(held=True)
                if why and job.reason not in rules.UNTRIED and job.partition not in guests:
                    self._barred[job_id] = why
        self._kept = {
            job_id: names for job_id, names in self._kept.items() if self._gains.holds(job_id, self.clock.now_s())
        }
        kept = {name for names in self._kept.values() for name in names}
        free = {name for name in cluster.names if name not in there} if self._empty_nodes else set()
        self._open = frozenset((rules.open_nodes(there, site) | free) - kept - self._lost)
        shut = {number for number, name in enumerate(cluster.names) if name not in self._open}
        return snapshot._replace(jobs=polled, down=snapshot.down | shut)

    def _without_guests(self) -> set[str]:
        """Return the nodes that a partition of guests has lost."""
        lost: dict[str, list[str]] = {}
        for node in self._cluster.polls.nodes:
            for host, guest in self._cluster.site.guests.items():
                if host in node.partitions and guest not in node.partitions:
                    lost.setdefault(guest, []).append(node.name)
        said = {guest: f"no node {', '.join(names)[:300]}, so no guest runs there" for guest, names in lost.items()}
        self._notices.tell("lost-nodes", "partition {} of guests has {}", said)
        return {name for names in lost.values() for name in names}

    def _first_untried(self) -> int:
        """Return the highest priority of jobs that have just come, which Slurm will look at: no other is asked before them."""
        now_s, site = self.clock.now_s(), self._cluster.site
        new = {
            job.priority: max(job.submit_s, job.eligible_s) + UNTRIED_S
            for job in self._cluster.polls.jobs
            if job.state in WAITING and job.reason in rules.UNTRIED and job.partition in site.guests
        }
        new = {priority: until_s for priority, until_s in new.items() if until_s > now_s}
        self._untried_us = round(max(new.values(), default=0) * SECOND_US)
        return max(new, default=0)

    def _may_start(self, snapshot: Snapshot, there: Mapping[str, Sequence[SlurmJob]]) -> Mapping[int, Sequence[int]]:
        """Return the jobs that Slurm may start on free nodes, and these nodes."""
        cluster, now_us = self._cluster, self._looked_us
        self._free.look(cluster.names, cluster.polls.nodes, there, cluster.down, now_us)
        waiting = [
            (job, each.spec)
            for job_id, each in snapshot.jobs.items()
            if each.state == PENDING
            and (job := cluster.records[job_id]).reason in rules.FREE | rules.UNTRIED
            and not job.held
        ]
        return self._free.for_whom(waiting, cluster.polls.jobs, now_us)

    def _hopeless(
        self, there: Mapping[str, Sequence[SlurmJob]], may_start: Mapping[int, Sequence[int]]
    ) -> Iterator[tuple[int, str]]:
        cluster = self._cluster
        in_service = {name for number, name in enumerate(cluster.names) if number not in cluster.down} - self._lost
        closed, now_us = self._closed(), self.clock.now_us()
        for job_id, ask in self._actuator.asked.items():
            why = closed or rules.why_hopeless(ask, cluster.records[job_id], there, in_service, cluster.site, now_us)
            nodes = may_start.get(job_id, ())
            if not why and nodes and all(self._free.has_settled(node, now_us) for node in nodes):
                why = f"{','.join(cluster.names[node] for node in nodes)} {'is' if len(nodes) == 1 else 'are'} free for it"
            if why:
                yield job_id, why

    def _closed(self) -> str:
        """Return why the partitions of guests take none."""
        guests = set(self._cluster.site.guests.values())
        down = [each.name for each in self._cluster.polls.partitions if each.name in guests and not each.up]
        return f"partition {down[0]} is not up" if down else ""

    def _see_starts(self, there: Mapping[str, Sequence[SlurmJob]]) -> None:
        """Look which of the asked jobs have begun, and beside whom."""
        cluster, actuator = self._cluster, self._actuator
        asked = actuator.asked
        for job_id, ask in list(asked.items()):
            job = cluster.records.get(job_id)
            if job is not None and job.state in WAITING:
                continue
            del asked[job_id]
            if job is None or not job.nodes:
                name = cluster.label(job_id)
                self.log(
                    "cancelled", f"job {name} was cancelled before it became a guest", level=INFO, job=key_of(name)
                )
                continue
            after_s = max(0, self.clock.now_us() - ask.at_us) / SECOND_US
            label, key = cluster.label(job_id), self._actuator.key(job_id)
            if self._actuator.dry:
                words = f"job {label}: Slurm started it {after_s:.0f} s after cosched would have"
                self.log("began", words, job=key, after_s=round(after_s, 1))
            elif job.partition in cluster.site.guests:
                self._actuator.counts["first"] += 1
                self.log("first", f"job {label}: Slurm itself has started it first, in {job.partition}", job=key)
            else:
                self._actuator.counts["begun"] += 1
                self._hosts_of[job_id] = ask.hosts
                self._gains.begin(job_id, job.start_s, ask.planned_s if ask.planned_s > job.start_s else 0.0)
                self._tell_guest(job_id, ask, there, after_s)

    def _tell_guest(self, job_id: int, ask: rules.Ask, there: Mapping[str, Sequence[SlurmJob]], after_s: float) -> None:
        job = self._cluster.records[job_id]
        others = {one.job_id: one.label for name in job.nodes for one in there.get(name, ())}
        others.pop(job.job_id, None)
        beside, nodes = ", ".join(others.values()), ",".join(job.nodes)
        where = "" if set(job.nodes) == set(ask.nodes) else f", and not on {','.join(ask.nodes)}"
        with_whom = f"beside job {beside}" if others else "alone: its host has ended"
        if where or others.keys() != ask.hosts:  # what was written of it when it was asked is not true
            self._actuator.remarks[job_id] = f"a guest on {nodes}, {with_whom}"
        words = f"job {job.label} is a guest on {nodes}{where}, {with_whom}, {after_s:.0f} s after it was asked"
        self.log("guest", words, job=key_of(job.label), nodes=nodes, beside=beside, after_s=round(after_s, 1))

    def _see_pairs(self, found: Sequence[rules.Company]) -> None:
        """Look at pairs that are new: those that nobody asked for are told."""
        numbers = {job.job_id: number for number, job in self._cluster.records.items()}
        present = {(guest.job_id, other.job_id) for guest, other, _ in found}
        self._counted = {name: pair for name, pair in self._counted.items() if pair in present}
        for guest, other, nodes in found:
            job_id, other_id = numbers.get(guest.job_id), numbers.get(other.job_id)
            if (guest.job_id, other.job_id) in self._pairs_seen or job_id is None or other_id is None:
                continue
            known, now_s = self._slowdowns(job_id, other_id), self.clock.now_s()
            slows = known if max(known) < inf else (_UNKNOWN, _UNKNOWN)
            self._gains.begin(job_id, now_s)  # of a driver before this one
            new = set(guest.nodes) & set(other.nodes) - self._counted.keys()  # a node counts once, whatever is there
            self._counted |= dict.fromkeys(new, (guest.job_id, other.job_id))
            mutual = (other.job_id, guest.job_id) in present
            since_s = max(guest.start_s, other.start_s)
            self._gains.meet(job_id, other_id, len(new), since_s, slows, is_guest=mutual)
            if mutual and other.job_id < guest.job_id:  # of two guests together, one line is enough
                continue
            hosts = self._hosts_of.get(job_id)
            if rules.Company(guest, other, nodes).blind if hosts is None else other.job_id not in hosts:
                self._tell_blind(guest, other, slows if known == slows else None)
        self._pairs_seen = present
        self._hosts_of = {job_id: hosts for job_id, hosts in self._hosts_of.items() if job_id in self._cluster.records}

    def _slowdowns(self, job_id: int, other_id: int) -> tuple[float, float]:
        """Return how slow each of two jobs is believed to be beside the other; inf: nothing is known."""
        one, other = [self.driver.books.ledger.description(each) for each in (job_id, other_id)]
        return (inf, inf) if one is None or other is None else (self._slow(one, other), self._slow(other, one))

    def _slow(self, job: JobSpec, other: JobSpec) -> float:
        return slowdown_by(job, other, self._pairs)

    def _tell_blind(self, guest: SlurmJob, other: SlurmJob, slows: tuple[float, float] | None) -> None:
        self._actuator.counts["blind"] += 1
        names = sorted(set(guest.nodes) & set(other.nodes), key=natural)
        words = f"guest {guest.label} and job {other.label} on {','.join(names)}"
        belief = "their slowdown is unknown" if slows is None else f"{slows[0]:.2f} and {slows[1]:.2f} times as slow"
        both: dict[str, Field] = {"job": key_of(guest.label), "beside": other.label, "nodes": ",".join(names)}
        self.log("blind-pair", f"Slurm itself has co-located {words}: {belief}", level=WARNING, **both)
        if self._requeues and guest.requeue and slows is not None and 1 / slows[0] + 1 / slows[1] < 1:
            problem = self._actuator.requeue(guest)
            done = problem or "they would end sooner one after the other"
            words = f"guest {guest.label} is requeued: {done}"
            self.log("requeued", words, level=WARNING, job=key_of(guest.label))

    # ------------------------------------------------------------ decisions

    def _decide(self) -> None:
        """Ask a fresh scheduler, and carry out those of its starts that join a running job."""
        welcome = self.driver.inventory()
        self._see_pairs(rules.companies(self._actuator.there, self._cluster.site))
        self._write_remarks()
        closed = self._closed()
        self._notices.tell("closed", "no guests: {}", {closed: ""} if closed else {})
        if not closed and self.clock.now_us() >= self._actuator.paused_us:
            if self._open:
                facts: list[Mapping[str, Any]] = []
                scheduler = self._make(welcome, facts.append)
                batch = self.driver.next_batch()
                assert batch is not None  # after an inventory the scheduler is asked in any case
                self._answer(scheduler.handle(batch.now_us, batch.events), facts)
            self._explain()

    def _write_remarks(self) -> None:
        remarks, self._actuator.remarks = self._actuator.remarks, {}
        for job_id, text in remarks.items():
            self._remark(job_id, text)

    def turn(self) -> bool:
        """Poll, and do what follows; the figures go on without a change, too."""
        answered = super().turn()
        if answered:
            self._count()
            if time.monotonic() > self._report_s:
                self._report()
        return answered

    def _answer(self, actions: Sequence[Action], facts: Sequence[Mapping[str, Any]]) -> None:
        running, asked = dict(self.driver.books.ledger.running), self._actuator.asked
        reasons = {fact["job"]: fact for fact in facts if fact.get("kind") == "start"}
        most = 1 - len(asked) if self.clock.now_us() < self._actuator.capped_us else MOST_ASKS
        kept = list(_joining(actions, running, most))
        starts = [action for action in kept if isinstance(action, StartJob)]
        told = {start.job_id: self._joined(start, reasons.get(start.job_id, {})) for start in starts}
        self._actuator.told = told
        self.driver.answer(self.clock.now_us(), kept)
        for start in starts:
            if start.job_id not in asked:
                continue
            self._remark(start.job_id, f"a guest {told[start.job_id][0]}")
            if self._actuator.dry:
                self._pretend(start, asked[start.job_id], reasons.get(start.job_id, {}))

    def _joined(self, start: StartJob, fact: Mapping[str, Any]) -> tuple[str, Mapping[str, Field]]:
        """Return what is said of a start beside running jobs, in words and for programs."""
        words = [f"on {','.join(self.manager.names_of(start))}"]
        if fact.get("slowdown"):
            words.append(f"{fact['slowdown']:.2f} times as slow as alone")
        for each in fact.get("beside", ()):
            known = max(self._slowdowns(start.job_id, each["job"])) < inf
            what = (
                f"which becomes {each['slowdown']:.2f} times as slow"
                if known
                else "on trial: the slowdown of the two is unknown"
            )
            words.append(f"beside job {self.manager.label(each['job'])}, {what}")
        hosts = ",".join(self.manager.label(each["job"]) for each in fact.get("beside", ()))
        return ", ".join(words), {"beside": hosts, "slowdown": fact.get("slowdown")}

    def _pretend(self, start: StartJob, ask: rules.Ask, fact: Mapping[str, Any]) -> None:
        """Count a guest of a trial run as one that has begun."""
        job_id, now_s = start.job_id, self.clock.now_s()
        self._kept[job_id] = tuple(ask.nodes)
        self._gains.begin(job_id, now_s)
        hosts = {each["job"]: self._slowdowns(job_id, each["job"]) for each in fact.get("beside", ())}
        names = set(ask.nodes)
        for host, slows in hosts.items():
            nodes = len(names.intersection(self._cluster.records[host].nodes))
            self._gains.meet(job_id, host, nodes, now_s, slows if max(slows) < inf else (_UNKNOWN, _UNKNOWN))

    def _explain(self) -> None:
        """Say of the first pending jobs why they are no guests, each reason once."""
        ledger, now_us = self.driver.books.ledger, self.clock.now_us()
        hosts = [
            rules.Host(each.job, max(each.limit_end_us, each.end_us), room)
            for each in ledger.running.values()
            if (room := self._room(each))
        ]
        again_us = now_us - round(EXPLAIN_S * SECOND_US)
        refused = self._cluster.not_before_us  # of these another reason was just told
        late = [
            job for job in ledger.queue.values()
            if self._explained_us.get(job.id, 0) <= again_us and refused.get(job.id, 0) <= now_us
        ]  # fmt: skip
        waiting = nsmallest(MOST_EXPLAINED, late, key=lambda job: (-job.priority, job.submit_us, job.id))
        firsts = {_whole(job.id): job for job in reversed(waiting)}  # of an array one task is enough
        whys = {job.id: rules.why_not(job, hosts, self._slow, now_us) for job in firsts.values()}
        self._explained_us = {job_id: at_us for job_id, at_us in self._explained_us.items() if at_us > again_us}
        self._explained_us |= dict.fromkeys((job.id for job in waiting), now_us)
        new: dict[int | str, str] = {}
        for job_id, why in {**self._barred, **whys}.items():
            said = self._said.setdefault(_whole(job_id), set())
            if why not in said:
                said.add(why)
                new[self._actuator.key(job_id)] = why
                # A remark on one of an array's tasks would make a job of its own of it.
                if job_id in whys and len(new) <= MOST_REMARKS and not self._cluster.records[job_id].waiting_tasks:
                    self._remark(job_id, f"no guest: {why}")
        self._notices.tell("no-guest", "job {} is no guest: {}", new, INFO)
        there = {_whole(job_id) for job_id in self._cluster.records}
        self._said = {job_id: said for job_id, said in self._said.items() if job_id in there}
        self._now = {**self._now, "hosts": len(hosts), "candidates": len(ledger.queue)}

    def _room(self, running: Running) -> int:
        """Return how many threads are open beside a job of a host partition: on the nodes that it has alone."""
        job = self._cluster.records.get(running.job.id)
        if job is None or running.job.exclusive or job.partition not in self._cluster.site.guests:
            return 0
        taken = {name for ask in self._actuator.asked.values() for name in ask.nodes}
        names = self._cluster.names
        return sum(
            count * running.job.threads_per_process
            for node, count in each_node(running.runs)
            if names[node] in self._open and names[node] not in taken
        )

    def _count(self) -> None:
        """Bring the figures of the status up to date."""
        sums = self._gains.totals(self.clock.now_s())._asdict()
        self._now = {**self._now, **sums, "asked_now": len(self._actuator.asked), "guests": len(self._guests)}

    def _report(self) -> None:
        """Say what was gained so far."""
        sums = self._gains.totals(self.clock.now_s())
        counts = self._actuator.counts
        dry = self._actuator.dry
        more = f"; {counts['put_back']} put back, {counts['orphans']} orphans, {counts['blind']} blind pairs"
        words = sums.words(dry=dry) + ("" if dry else more)
        figures: dict[str, Field] = {name: round(value, 1) for name, value in sums._asdict().items()}
        self.log("gains", words, level=INFO, **figures, **counts)
        self._report_s = time.monotonic() + REPORT_S

    def end(self) -> None:
        """Put back what is asked, as far as that is done in time; guests run on."""
        end = time.monotonic() + LEAVE_S
        self._actuator.silence = ""
        for job_id in list(self._actuator.asked):
            if time.monotonic() > end or self._actuator.silence:
                break
            del self._actuator.asked[job_id]
            if not self._actuator.dry:
                self._actuator.put_back(job_id, "cosched leaves", "put_back")
        self._report()


def _whole(job_id: int) -> int:
    """Return the number of a job, or of the array of which it is a task."""
    return job_id >> 32 or job_id


def _joining(actions: Sequence[Action], running: Mapping[int, Running], most: int) -> Iterator[Action]:
    """Yield at most so many starts that join running jobs, and what is noted and expected of jobs that run then.

    A start on free nodes is Slurm's to make, and so is one of several jobs together. The limits of running jobs are their users'.
    """
    taken = 0
    for each in running.values():
        taken |= nodes_of(each.runs)
    left: set[int] = set()
    asks = 0
    for action in actions:
        match action:
            case StartJob(job_id, runs):
                if asks < most and nodes_of(runs) & taken:
                    asks += 1
                    yield action
                else:
                    left.add(job_id)
            case StartTogether():
                left.update(start.job_id for start in action.starts)
            case SetNote() if action.job_id not in left:
                yield action
            case ReviseJob(job_id) if job_id in running:
                yield action._replace(limit_us=running[job_id].limit_us)
