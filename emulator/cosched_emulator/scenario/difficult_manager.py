"""A difficult manager: what a real one does between a scheduler and its jobs, the table ``[manager]`` of a scenario.

All times are microseconds of emulated time. Every draw is keyed by the seed, its purpose and the job, so the same scenario
gives the same lags, whatever the scheduler does, also after a restart of the manager.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from cosched_emulator.bounds import SECONDS, Choice, FaultSpan, Share, between
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.needs import Needs, absent, given
from cosched_emulator.workload.job import Workload, WorkloadJob
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_emulator.workload.side_files import side_file_rows
from cosched_hwmodel.draws import uniform
from cosched_hwmodel.quick_classes import frozen
from cosched_hwmodel.units import SECOND_US

LagName: TypeAlias = Literal["submitted_s", "start_s", "ended_s", "extra_s"]
LAGS: Final[tuple[LagName, ...]] = ("submitted_s", "start_s", "ended_s", "extra_s")  # keys, and columns of a side file
ActName: TypeAlias = Literal["start", "modify", "revise", "suspend", "restart"]
ACTS: Final[tuple[ActName, ...]] = ("start", "modify", "revise", "suspend", "restart")
Fate: TypeAlias = Literal["", "refused", "elsewhere"]  # of a start; empty: it comes true
DRAWS: Final = ("constant", "uniform", "exponential")
LONGEST_LAG_S: Final = 86_400
SUSPENDED_S: Final = 600.0
Lag: TypeAlias = Annotated[float, between(0, LONGEST_LAG_S, SECONDS)]
Draw: TypeAlias = Annotated[str, Choice(DRAWS)]
RefusedShare: TypeAlias = Annotated[float, between(0, 0.5)]  # a scheduler asks again at the same instant, 100 times
LAG_COLUMNS: Final = (*side_file_rows.KEYS, *LAGS)
_AT_ONCE: Final = absent("time_sharing", refused=True)  # quanta and turns would count a lag


def _draws(scenario: Any) -> bool:
    """Tell whether a manager draws anything."""
    manager = scenario.manager
    lags = any(getattr(manager, name) and getattr(manager, _draw_of(name)) != "constant" for name in LAGS)
    acts = any(getattr(manager, f"{name}_every_s") for name in ACTS)
    return lags or acts or any((manager.elsewhere, manager.refused, manager.lost))


def _draw_of(name: LagName) -> str:
    return f"{name.removesuffix('_s')}_draw"


@frozen
class ManagerSection:
    """What the manager does that a scheduler does not expect. Without this table it does all at once, and nothing by itself."""

    seed: Annotated[
        int | None,
        Needs("where nothing is drawn", _draws),
        "seed of all draws of this table; where not given, the scenario's",
    ] = None
    submitted_s: Annotated[Lag, "from a job's submission until the scheduler knows it; the job waits meanwhile"] = 0.0
    submitted_draw: Annotated[
        Draw,
        given("manager.submitted_s"),
        'distribution of `submitted_s` over jobs; `"uniform"`: from 0 to twice it; `"exponential"`: with it as mean',
    ] = "constant"
    start_s: Annotated[
        Lag,
        _AT_ONCE,
        "from a decision until the job starts (`job_started`); it holds its threads meanwhile, and its run time "
        "and its limit count from the start",
    ] = 0.0
    start_draw: Annotated[Draw, given("manager.start_s"), "distribution of `start_s` over starts"] = "constant"
    ended_s: Annotated[
        Lag, _AT_ONCE, "from a job's end until the manager sees it; until then no other job can have its threads"
    ] = 0.0
    ended_draw: Annotated[Draw, given("manager.ended_s"), "distribution of `ended_s` over ends"] = "constant"
    extra_s: Annotated[
        Lag,
        _AT_ONCE,
        "for how long a job stays on its nodes after its work; it slows no job down then, and ends after this time",
    ] = 0.0
    extra_draw: Annotated[Draw, given("manager.extra_s"), "distribution of `extra_s` over ends"] = "constant"
    elsewhere: Annotated[
        Share,
        _AT_ONCE,
        "share of the starts that are on other threads than was decided, on empty nodes if there are any",
    ] = 0.0
    refused: Annotated[
        RefusedShare, _AT_ONCE, "share of the starts that are refused when the job should have started; it waits again"
    ] = 0.0
    lost: Annotated[
        Share, "share of the ends that are reported to the scheduler as `UNKNOWN`; results have the truth"
    ] = 0.0
    start_every_s: Annotated[
        FaultSpan | None,
        _AT_ONCE,
        "mean time, exponentially distributed, until the manager itself starts a pending job that has a place; default: never",
    ] = None
    modify_every_s: Annotated[
        FaultSpan | None,
        "mean time until the manager changes estimate, limit and processes of a pending job; default: never",
    ] = None
    revise_every_s: Annotated[
        FaultSpan | None,
        "mean time until the manager changes expected run time and limit of a running job by -25 to 50 %; default: never",
    ] = None
    suspend_every_s: Annotated[
        FaultSpan | None, "mean time until the manager suspends a running job in place; default: never"
    ] = None
    suspended_s: Annotated[
        FaultSpan, given("manager.suspend_every_s"), "mean time, exponentially distributed, of such a suspension"
    ] = SUSPENDED_S
    restart_every_s: Annotated[
        FaultSpan | None,
        "mean time until the manager asks the scheduler to take over its state anew (`resync`); default: never",
    ] = None
    lags: Annotated[
        str | None,
        _AT_ONCE,
        "a CSV file of lags by job, with columns `job` (its number in the source), `application` or `user`, and any of "
        "`submitted_s`, `start_s`, `ended_s` and `extra_s`; missing lags are drawn",
    ] = None


def drawn_us(mean_us: float, draw: str, seed: int, name: str, job_id: int, number: int) -> int:
    """Return the lag of a job; ``number`` counts its stays on nodes."""
    if draw == "constant" or not mean_us:
        return round(mean_us)
    part = uniform(seed, f"manager {name}", job_id, number)
    return round(mean_us * (2 * part if draw == "uniform" else -math.log1p(-part)))


@frozen
class Lags:
    """The lags of a manager, for each job."""

    seed: int
    settings: ManagerSection = ManagerSection()
    listed: Mapping[LagName, Mapping[side_file_rows.JobKey, int]] = field(default_factory=dict)  # of the side file

    def us(self, name: LagName, job: WorkloadJob, number: int = 0) -> int:
        """Return a lag of a job, in its stay of this ``number`` on nodes."""
        rows = self.listed.get(name)
        if rows:
            whole = side_file_rows.JobKey(job.source_id, job.spec.name, job.spec.user)
            listed_us = side_file_rows.most_specific(rows, side_file_rows.patterns_of(rows), whole, None)
            if listed_us is not None:
                return listed_us
        mean_us, draw = getattr(self.settings, name) * SECOND_US, getattr(self.settings, _draw_of(name))
        return drawn_us(mean_us, draw, self.seed, name, job.spec.id, number)

    def fate(self, job_id: int, number: int) -> Fate:
        """Return what becomes of a start, the one of this ``number`` that was decided."""
        if uniform(self.seed, "manager refused", job_id, number) < self.settings.refused:
            return "refused"
        moves = uniform(self.seed, "manager elsewhere", job_id, number) < self.settings.elsewhere
        return "elsewhere" if moves else ""

    def loses(self, job_id: int) -> bool:
        """Return whether the manager does not know how a job has ended."""
        return uniform(self.seed, "manager lost", job_id) < self.settings.lost


NO_LAGS: Final = Lags(0)


class OwnPlan(NamedTuple):
    """What the manager does by itself, and how often."""

    seed: int
    every_us: Mapping[ActName, float]  # mean time between two
    suspended_us: float


def build_lags(section: ManagerSection | None, seed: int) -> Lags | None:
    """Return the lags of a scenario with this ``seed``; None: there are none. Raises `InputError` for a bad side file."""
    if section is None:
        return None
    listed = {} if section.lags is None else _read_lags(section.lags)
    if not listed and not any(getattr(section, name) for name in (*LAGS, "elsewhere", "refused", "lost")):
        return None
    return Lags(seed if section.seed is None else section.seed, section, listed)


def build_own_plan(section: ManagerSection | None, seed: int) -> OwnPlan | None:
    """Return what the manager does by itself; None: nothing."""
    if section is None:
        return None
    every_us = {name: (getattr(section, f"{name}_every_s") or 0.0) * SECOND_US for name in ACTS}
    if not any(every_us.values()):
        return None
    return OwnPlan(seed if section.seed is None else section.seed, every_us, section.suspended_s * SECOND_US)


def names_no_job(lags: Lags, workload: Workload) -> bool:
    """Tell whether the side file, if there is one, is about no job of the workload."""
    rows = {key: True for values in lags.listed.values() for key in values}
    jobs, patterns = columns_of(workload.jobs), side_file_rows.patterns_of(rows)
    return bool(rows) and not any(
        side_file_rows.most_specific(rows, patterns, whole, None) for whole in jobs.each(side_file_rows.keys_of(jobs))
    )


def _read_lags(file: str) -> Mapping[LagName, Mapping[side_file_rows.JobKey, int]]:
    """Return the lags in a side file, by name and by the jobs that they are of."""
    if not file:
        raise ConfigurationError("manager.lags", "a CSV file", "''")
    listed: dict[LagName, dict[side_file_rows.JobKey, int]] = {name: {} for name in LAGS}
    for key, row in side_file_rows.keyed(side_file_rows.csv_rows(file, LAG_COLUMNS), file):
        for name in LAGS:
            if row.values.get(name, ""):
                listed[name][key] = _lag_us(row, name)
    if not any(listed.values()):
        raise InputError(file, "at least one row of values", "none")
    return listed


def _lag_us(row: side_file_rows.SideFileRow, name: LagName) -> int:
    number = row.number(name)
    if not number.is_finite() or not 0 <= number <= LONGEST_LAG_S:
        raise row.error(name, f"{SECONDS} from 0 to {LONGEST_LAG_S}", repr(row.values[name]))
    return round(number * SECOND_US)
