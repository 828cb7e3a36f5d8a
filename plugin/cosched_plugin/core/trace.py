"""The decision trace: the facts behind the scheduler's decisions, as plain records.

Off by default. A policy explains itself by `View.explain` and `View.tell`, which compare ``view.trace`` with None and do nothing more
in an untraced run. ``docs/trace.md`` lists the records.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Final, TypeAlias

from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.threads import lowest_nodes
from cosched_plugin.core.state import State
from cosched_plugin.protocol import messages as m

TraceRecord: TypeAlias = dict[str, Any]  # JSON-ready
TraceSink: TypeAlias = Callable[[TraceRecord], object]

# The order of the facts of cosched's own policies, the longest last; other facts follow.
FACTS: Final = (
    "reason", "waiting", "free_threads", "factor", "promised_us", "host", "chosen_by", "slowdown", "no_search", "unfair_to",
    "refused_groups", "group", "partners", "hosts",
)  # fmt: skip


class Trace:
    """Collects a policy's facts about a decision and emits them with the decision."""

    __slots__ = ("_facts", "_last", "_sink", "_state")

    def __init__(self, sink: TraceSink, state: State) -> None:
        self._sink = sink
        self._state = state
        self._facts: dict[int, TraceRecord] = {}
        self._last: dict[str, TraceRecord] = {}

    def explain(self, job_id: int, **facts: Any) -> None:
        """Add facts on why a job is about to be started; earlier facts of this instant stay."""
        self._facts.setdefault(job_id, {}).update(facts)

    def tell(self, kind: str, **facts: Any) -> None:
        """Emit a record of another kind, unless the last one of that kind was equal."""
        if self._last.get(kind) != facts:
            self._last[kind] = facts
            self._sink(_with({"at_us": self._state.now_us, "kind": kind}, facts))

    def emit(self, decision: m.Action) -> None:
        """Emit the facts about what ``decision``, just applied, changes: about the jobs that it starts, and others."""
        match decision:
            case m.StartJob():
                self._emit_start(decision)
            case m.StartTogether():
                for start in decision.starts:
                    self._emit_start(start, [other.job_id for other in decision.starts if other is not start])
            case m.SuspendJob() | m.ResumeJob():
                kind = "suspend" if isinstance(decision, m.SuspendJob) else "resume"
                facts = self._facts.pop(decision.job_id, {})
                if isinstance(decision, m.SuspendJob) and decision.to_disk:
                    facts["to_disk"] = True
                self._sink(_with({"at_us": self._state.now_us, "kind": kind, "job": decision.job_id}, facts))
            case m.SetRotation():
                turns = [
                    {"slots": list(slots), "quanta": quanta, "guests": list(guests)}
                    for slots, quanta, guests in decision.turns
                ]
                self._sink(
                    {"at_us": self._state.now_us, "kind": "rotation", "quantum": decision.quantum, "turns": turns}
                )
            case m.ChangeSlot():
                facts = self._facts.pop(decision.job_id, {})
                record = {"at_us": self._state.now_us, "kind": "slot", "job": decision.job_id, "slot": decision.slot}
                self._sink(_with(record, facts))
            case m.RejectJob():
                self._sink(
                    {"at_us": self._state.now_us, "kind": "reject", "job": decision.job_id, "reason": decision.reason}
                )

    def forget(self) -> None:
        """Drop the facts about jobs that did not start; the instant is over."""
        self._facts.clear()

    def _emit_start(self, start: m.StartJob, together: list[int] | None = None) -> None:
        state = self._state
        running = state.running[start.job_id]
        record = {
            "at_us": state.now_us,
            "kind": "start",
            "job": start.job_id,
            "submit_us": running.job.submit_us,
            "processes": running.job.processes,
            "estimate_us": running.job.estimate_us,
            "expected_us": start.estimate_us,
            "runs": [list(run) for run in start.runs],
        }
        asks = _asks(running.job)
        apart = {
            other: [[run.first, run.count] for run in lowest_nodes(there.bit_count(), NodeSet(there)) or ()]
            if there
            else []
            for name, _ in running.job.resources
            for other, there in state.pool.counts.beside(name)
        }
        if apart:
            asks["apart"] = apart
        if asks:
            record["asks"] = asks
        if start.slot:
            record["slot"] = start.slot
        if together:
            record["together"] = together
        facts = self._facts.pop(start.job_id, {})
        corrected = self._corrected(running.job)
        if corrected:
            record["corrected"] = corrected
        self._sink(_with(record, {key: facts[key] for key in FACTS if key in facts} | facts))

    def _corrected(self, job: m.JobSpec) -> list[TraceRecord]:
        """Return what is believed of a job by each neighbour of which the site says something else, or nothing."""
        state, model = self._state, self._state.believed
        if model is None or model is state.given_pairs:
            return []
        nodes_by_job = state.nodes_by_job()
        found = []
        for job_id, running in state.running.items():
            other = running.job
            if job_id == job.id or not nodes_by_job[job_id] & nodes_by_job[job.id]:
                continue
            if not (model.knows(job) and model.knows(other)):
                continue
            told, slowdown = model.told(job, other), model.slowdown(job, other)
            if slowdown != told and slowdown < inf:
                found.append({"job": job_id, "told": told, "slowdown": slowdown})
        return found


def _with(record: TraceRecord, facts: TraceRecord) -> TraceRecord:
    """Return ``record`` with further facts, which do not replace its own: a policy of others may choose the same names."""
    return record | facts | record


def _asks(job: m.JobSpec) -> TraceRecord:
    """Return what a job asks of its nodes besides threads, and which nodes it may have; empty for a plain one."""
    asks: TraceRecord = {"memory_mb": job.memory_mb} if job.memory_mb else {}
    for name, amounts in (("resources", job.resources), ("licences", job.licences)):
        if amounts:
            asks[name] = dict(amounts)
    if job.eligible:
        asks["nodes"] = [list(nodes) for nodes in job.eligible]
    return asks
