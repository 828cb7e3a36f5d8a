"""A run that takes each start and place from the log: the schedule that the site had, and what guests would have done to it.

``replay`` is the record alone. ``replay-guests`` lets pending jobs join running ones by the rules of ``guests``; all other jobs keep
their recorded starts as far as there is room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.figures.replay_figures import Schedule
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.scenario.limits import NO_RULES, binds
from cosched_emulator.workload.jobs_in_columns import Same, columns_of
from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.threads import nodes_in
from cosched_plugin.config import RECORDED

REPLAY: Final = "replay"
REPLAYS: Final[Mapping[str, Mapping[str, Any]]] = {
    REPLAY: {"backfill": RECORDED},
    "replay-guests": {"preset": "guests", "backfill": RECORDED},
}


def schedule_of(prepared: Prepared) -> Schedule:
    """Return when each job started by its log, by its number in the run, and where if annotations say it (``ran_on``).

    None of a job that was cancelled while it waited. Raises ConfigurationError where no start is recorded.
    """
    from cosched_emulator.workload.side_files.annotations import RAN_ON, read_annotations  # noqa: PLC0415 - few runs replay
    from cosched_emulator.workload.side_files.side_file_rows import JobKey  # noqa: PLC0415 - likewise

    section, jobs = prepared.scenario.workload, columns_of(prepared.workload.jobs)
    said = {} if section.annotations is None else read_annotations(section.annotations).values[RAN_ON]
    columns = (jobs.id, jobs.source_id, jobs.submit_us, jobs.waited_us, jobs.cancel_us)
    found: dict[int, tuple[int, NodeSet | None] | None] = {}
    for job_id, source, submit_us, waited_us, cancel_us in zip(*map(jobs.each, columns), strict=True):
        if waited_us >= 0:
            nodes = said.get(JobKey(source, None, None))
            found[job_id] = submit_us + waited_us, None if nodes is None else nodes_in(nodes)
        elif cancel_us is not None:
            found[job_id] = None
    if not any(found.values()):
        expected = "a log that says how long jobs waited (field 3): replay starts them as recorded"
        raise ConfigurationError("workload.swf", expected, str(section.swf or "none"))
    return found


def unbound(prepared: Prepared) -> Prepared:
    """Return a scenario whose jobs wait for no limit, throttle, dependency or time: the record shows what these have led to.

    Partitions, outages and reservations stay, for jobs that cannot be where they were, and so do cancellations.
    """
    jobs = columns_of(prepared.workload.jobs).having(after=Same(()), delay_us=Same(0), at_once=Same(0))
    workload = prepared.workload._replace(jobs=jobs)
    rules = prepared.rules._replace(limits=())
    return replace(prepared, workload=workload, rules=rules, gated=rules != NO_RULES or binds(workload))
