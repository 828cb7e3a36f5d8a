"""Constraints that a log suggests: fitted on its first half, judged on its second, and used only if that comes nearer to the record.

Nothing else is fitted. Backfilling selects which jobs start, so starts do not identify priorities: of five logs a search over
priorities, limits and sizes made the second half worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from cosched_emulator.whatif.causes import LEAST, LIMITS, OUTAGES, POOLS, Pool, Seen, seen_of
from cosched_emulator.whatif.distance import FEW_WEEKS, Compared, Distance, compared_of, distance_of
from cosched_emulator.whatif.question import Prepared, Question, prepare_question
from cosched_emulator.whatif.validation import Validation, run_whole, validation_of
from cosched_emulator.workload.atomic_file import make_folder, new_text_file
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_emulator.workload.side_files.annotations import Annotations, write_annotations
from cosched_emulator.workload.side_files.side_file_rows import JobKey
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.config import toml_value

SCENARIO: Final = "scenario.toml"
_NEAR_R: Final = 0.02  # by which r may fall where the mean comes nearer


class Offer(NamedTuple):
    """A constraint that the first half of a log suggests, as sections of a scenario on top of the site's."""

    name: str  # of the cause
    what: str
    sections: Mapping[str, Any]


class Judged(NamedTuple):
    """An offer, and how far the second half is from the record without and with it."""

    offer: Offer
    before: Distance
    after: Distance | None  # None: its run has no waits to compare
    used: bool

    @property
    def words(self) -> str:
        """Return what became of it."""
        told = "cannot be judged" if self.after is None else f"{_told(self.before)} -> {_told(self.after)}"
        verdict = "used" if self.used else "rejected: the second half comes no nearer to the record"
        return f"inferred: {self.offer.what}: {verdict} (second half: {told})"


def _told(found: Distance) -> str:
    return f"E {found.error:.2f}, r {_r_of(found):.2f}"


def _r_of(found: Distance) -> float:
    return found.spearman if found.weeks < FEW_WEEKS else found.weekly_r


def infer_from(
    prepared: Prepared, folder: Path, progress: Callable[[int], None] | None = None
) -> tuple[Validation, tuple[Judged, ...]]:
    """Return the log beside a run with the constraints that bring its second half nearer, and all that was tried.

    ``prepared`` has its whole run; files go into ``folder``. Each offer is one more run, on top of those that are used.
    """
    compared = compared_of(prepared)
    if compared is None:
        return validation_of(prepared), ()
    judged = []
    before = distance_of(_half(compared, second=True))
    for offer in _offers(prepared, compared, folder) if before is not None else ():
        assert before is not None  # a run with a distance takes the place of one
        question = with_sections(prepared.question, offer.sections)
        tried = run_whole(prepare_question(question, prepared.folder), progress)
        with_it = compared_of(tried)
        after = None if with_it is None else distance_of(_half(with_it, second=True))
        used = after is not None and with_it is not None and _nearer(after, before)
        judged.append(Judged(offer, before, after, used))
        if used:
            assert with_it is not None
            prepared, compared, before = tried, with_it, after
    return validation_of(prepared), tuple(judged)


def _nearer(after: Distance, before: Distance) -> bool:
    r_after, r_before = (0.0 if math.isnan(each) else each for each in map(_r_of, (after, before)))
    return after.error < before.error and r_after >= r_before - _NEAR_R


def _half(compared: Compared, *, second: bool) -> Compared:
    jobs = len(compared.size)
    rows = slice(jobs // 2, jobs) if second else slice(0, jobs // 2)
    columns = {name: value[rows] for name, value in compared._asdict().items() if isinstance(value, np.ndarray)}
    classes = {kind: names[rows] for kind, names in compared.classes.items()}
    return Compared(**{**compared._asdict(), **columns, "classes": classes})


def with_sections(question: Question, sections: Mapping[str, Any]) -> Question:
    """Return the question of a site with these sections: lists are longer then, tables have other keys."""
    site = dict(question.site)
    for name, value in sections.items():
        site[name] = [*site.get(name, ()), *value] if isinstance(value, list) else {**site.get(name, {}), **value}
    return replace(question, site=site)


# ---------------------------------------------------------------- offers


def _offers(prepared: Prepared, compared: Compared, folder: Path) -> Iterator[Offer]:
    first = _half(compared, second=False)
    distance = distance_of(first)
    if distance is None:
        return
    seen = seen_of(first, distance)
    if seen.limit_share >= LEAST:
        yield from _limit(seen)
    if (
        seen.pool_share >= LEAST
        and not prepared.question.names_machine
        and not prepared.question.site.get("partitions")
    ):
        yield from _partitions(prepared, compared, seen.pools, folder)
    whole = distance_of(compared)
    assert whole is not None
    yield from _dead_times(seen_of(compared, whole))


def _limit(seen: Seen) -> Iterator[Offer]:
    """Yield the number of jobs of a user at a time that most users' jobs stop at.

    Some may have more: a limit changes, or some users are free of it. Whether it explains more than it breaks, the second half tells.
    """
    if seen.limits:
        jobs = max(seen.limits, key=lambda one: len(one.users)).jobs
        yield Offer(
            LIMITS, f"a limit of {jobs} running jobs for each user", {"limits": [{"each": "user", "jobs": jobs}]}
        )


def _partitions(prepared: Prepared, compared: Compared, pools: tuple[Pool, ...], folder: Path) -> Iterator[Offer]:
    """Yield a partition for each pool: nodes of its own, as far as there are as many; jobs of other classes have all nodes."""
    if not pools or (prepared.said is not None and prepared.said.values["partitions"]):
        return
    file, numbers = folder / "jobs.csv", columns_of(prepared.log.jobs).source_id.array.tolist()
    own = {pool.name: f"pool-{place}" for place, pool in enumerate(pools, 1)}
    names = compared.classes[pools[0].kind]
    values = {} if prepared.said is None else dict(prepared.said.values)
    values["partitions"] = {
        JobKey(number, None, None): (own[name],) for number, name in zip(numbers, names, strict=True) if name in own
    }
    write_annotations(file, Annotations(str(file), values).rows())
    tables: list[dict[str, Any]] = [{"name": "rest", "default": True}]
    begin, apart = 0, sum(pool.processors for pool in pools) <= compared.processors
    for place, pool in enumerate(pools):
        at = begin if apart else (compared.processors - pool.processors) * (place % 2)
        tables.append({"name": own[pool.name], "nodes": f"{at}-{at + pool.processors - 1}"})
        begin += pool.processors
    told = ", ".join(f"{pool.processors:,} for {pool.name}" for pool in pools)
    yield Offer(POOLS, f"processors apart: {told}", {"partitions": tables, "workload": {"annotations": str(file)}})


def _dead_times(seen: Seen) -> Iterator[Offer]:
    """Yield the times of the whole log in which nothing ran, though jobs waited: no half tells those of the other."""
    dead = [one for one in seen.outages if one.nothing_ran]
    if dead:
        script = [
            {"at_s": one.begin_us / SECOND_US, "do": "drain-nodes", "until_s": one.end_us / SECOND_US} for one in dead
        ]
        yield Offer(OUTAGES, f"{len(dead)} times in which nothing ran", {"script": script})


# ---------------------------------------------------------------- files


def write_site(prepared: Prepared, folder: Path) -> Path:
    """Write the site of a question as a scenario, which ``whatif`` takes; paths are whole."""
    question = prepared.question
    site = {name: dict(value) if isinstance(value, Mapping) else value for name, value in question.site.items()}
    for section, keys in (
        ("workload", ("swf", "annotations", "profiles")),
        ("cluster", ("file",)),
        ("truth", ("pairs",)),
    ):
        for key in keys:
            if site.get(section, {}).get(key):
                site[section][key] = str(Path(site[section][key]).absolute())
    if question.policy is not None:
        site["policy"] = dict(question.policy) if isinstance(question.policy, Mapping) else {"preset": question.policy}
    make_folder(folder)
    with new_text_file(folder / SCENARIO, force=True) as stream:
        stream.write("\n".join(_toml(site)) + "\n")
    return folder / SCENARIO


def _toml(table: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the lines of a table: its own values, then those of tables below it."""
    below: dict[str, Any] = {}
    for key, value in table.items():
        tables = isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value)
        if isinstance(value, Mapping) or tables:
            below[key] = value
        elif value is not None:
            yield f"{key} = {toml_value(value)}"
    for key, value in below.items():
        for each in [value] if isinstance(value, Mapping) else value:
            yield ""
            yield f"[{path}{key}]" if isinstance(value, Mapping) else f"[[{path}{key}]]"
            yield from _toml(each, f"{path}{key}.")
