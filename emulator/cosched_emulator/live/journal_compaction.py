"""Let a journal begin anew with what is alive, when a manager comes back: its file is small then, and its machine may be another.

The first step of the new journal says what the manager knows of jobs and nodes, in plain values that later programs can read. It
takes the place of all steps at once. The manager that serves is made from that step, as every later restart makes it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.accounting.archive import Archive
from cosched_emulator.accounting.chain import MACHINE
from cosched_emulator.accounting.run_meta import check_meta, meta_of
from cosched_emulator.errors import ConfigurationError, InvariantError
from cosched_emulator.live.journal import begin_step, pass_time, play
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.manager.difficult import DifficultManager
from cosched_emulator.run.prepare import Prepared, prepare
from cosched_emulator.scenario.sections import ClusterSection
from cosched_plugin.common.threads import each_node
from cosched_plugin.protocol.messages import NodeClass

MACHINES: Final = "machines"  # meta data: how many there have been, if there was more than one
ARCHIVED: Final = "archived"  # meta data: jobs were moved to an archive
_NAMED: Final = 10  # jobs in an error


def as_recorded(prepared: Prepared, accounting: Accounting) -> Prepared:
    """Return a scenario with the machine that the journal is of; ConfigurationError if that cannot become the scenario's.

    It is the same object if the machine is the same.
    """
    meta, path = accounting.meta, accounting.path
    if path is None or check_meta(meta, prepared.scenario, prepared.workload, meta["kind"], path, any_machine=True):
        return prepared
    cluster = ClusterSection(**json.loads(meta["scenario"])["cluster"])
    with TemporaryDirectory() as folder:
        if MACHINE in meta:  # the file may be another by now
            file = Path(folder) / "machine.toml"
            file.write_text(meta[MACHINE], encoding="utf-8")
            cluster = replace(cluster, file=str(file))
        before = prepare(replace(prepared.scenario, cluster=cluster))
    here, there = _each(before.nodes), _each(prepared.nodes)
    for node, (old, new) in enumerate(zip(here, there, strict=False)):
        if old != new:
            text = f"another kind of node {node}"
            expected = f"the nodes of {path}, with more or fewer of them at the end"
            raise ConfigurationError("cluster", expected, text)
    return before


def check_whole_run(prepared: Prepared, accounting: Accounting) -> None:
    """Raise ConfigurationError if the accounts are, or will be, of several machines, or of some jobs only: no run folder is."""
    if ARCHIVED in accounting.meta:
        text = "one whose jobs were moved to an archive"
        raise ConfigurationError("out", "a database of all jobs, as a run folder is", text, file=accounting.path or "")
    if MACHINES in accounting.meta or as_recorded(prepared, accounting) is not prepared:
        text = "one whose nodes have changed"
        raise ConfigurationError(
            "out", "a database of one machine, as a run folder is", text, file=accounting.path or ""
        )


def _each(classes: tuple[NodeClass, ...]) -> list[NodeClass]:
    """Return the kind of each node."""
    return [item._replace(nodes=1) for item in classes for _ in range(item.nodes)]


def compact_journal(
    live: LiveManager, before: LiveManager, prepared: Prepared, accounting: Accounting, archive: Archive | None = None
) -> int:
    """Let ``live``, a new manager of this scenario, go on from the state of another one, and the journal begin with that.

    Return how many jobs went to the ``archive``.

    ConfigurationError, with nothing changed, if a job of ``before`` cannot be carried over.
    """
    pass_time(before, accounting, before.now_us)
    _check_jobs(before, live)
    state = before.state()
    nodes = (before.manager.machine.nodes, live.manager.machine.nodes)
    told = {**state, "nodes": nodes, "manager": {**state["manager"], "nodes": _of(state["manager"]["nodes"], nodes[1])}}
    step = begin_step(before.now_us + 1, told, accounting.rows_alive())
    play(live, step)
    live.check()
    _compare(before, live, told)
    meta = meta_of(prepared.scenario, prepared.workload, accounting.meta["kind"])
    machines = int(accounting.meta.get(MACHINES, "1")) + (nodes[0] != nodes[1])
    if machines > 1:
        meta[MACHINES] = str(machines)
    if archive is not None or ARCHIVED in accounting.meta:
        meta[ARCHIVED] = "yes"
    return accounting.compact_journal(meta, step, live.drain(), archive)


def _check_jobs(before: LiveManager, live: LiveManager) -> None:
    """Raise ConfigurationError for jobs that cannot be carried over to a new manager."""
    old, new = before.manager, live.manager
    if isinstance(old, DifficultManager):
        raise ConfigurationError("manager", "a manager without lags and acts of its own", "one with them")
    if old.processes is not None and old.running:
        expected = "no running job where jobs share time: drain all nodes, and wait"
        raise ConfigurationError("db", expected, _named(before, list(old.running)))
    count = new.machine.nodes
    there = [job_id for job_id, job in old.running.items() if any(node >= count for node, _ in each_node(job.runs))]
    if there:
        expected = f"no job on the nodes from {count} on, which are to be removed: drain them, and wait"
        raise ConfigurationError("cluster", expected, _named(before, there))
    large = [job_id for job_id, job in old.jobs.items() if new.refusal_of(job.job.spec) is not None]
    if large:
        expected = f"jobs that fit {count} nodes: cancel the others, or keep more nodes"
        raise ConfigurationError("cluster", expected, _named(before, large))


def _named(live: LiveManager, jobs: list[int]) -> str:
    more = f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else ""
    return (
        f"job{'s' if len(jobs) > 1 else ''} {', '.join([live.owners.label(job_id) for job_id in jobs[:_NAMED]])}{more}"
    )


def _of(states: dict[str, Any], count: int) -> dict[str, Any]:
    """Return the states of the first nodes."""
    return {
        "broken": [node for node in states["broken"] if node < count],
        "drained": [item for item in states["drained"] if item[0] < count],
        "reserved": [item for item in states.get("reserved", ()) if item[0] < count],
        "slow": [item for item in states["slow"] if item[0] < count],
    }


def _compare(before: LiveManager, live: LiveManager, told: dict[str, Any]) -> None:
    """Raise InvariantError if a new manager does not say the same of itself."""
    here = {**live.state(), "nodes": told["nodes"], "now_us": told["now_us"]}
    if here != told or live.origins != before.origins:
        differing = [key for key, value in told.items() if here[key] != value] or ["origins"]
        raise InvariantError(f"what was carried over differs from what was there: {', '.join(differing)}")
    for job_id, job in before.manager.jobs.items():
        if live.manager.jobs[job_id].job != job.job:
            raise InvariantError(f"job {job_id} differs from what it was")
