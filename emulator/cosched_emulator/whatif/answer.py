"""What a study says of a question: for each candidate the gain over windows, who pays, and what the answer hangs on.

A gain passes a gate (`gated`): the baseline must be credible, and nearer to the log's own waits than the candidate is to it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cosched_emulator.results.shown import Picture, html_of, picture_of
from cosched_emulator.statistics.intervals import (
    Interval,
    change_of,
    difference_of,
    interval_of,
    judged_together,
    mean_interval,
    seeds_needed,
)
from cosched_emulator.statistics.weighted import CLASS_NAMES
from cosched_emulator.studies.study_result import Row, StudyResult
from cosched_emulator.whatif.candidates import FORMULA, Candidate, Change, Place
from cosched_emulator.whatif.causes import Cause
from cosched_emulator.whatif.distance import MOST_ERROR, Distance
from cosched_emulator.whatif.measures import HOURS, NEIGHBOURS, USERS
from cosched_emulator.whatif.question import PRESENT, Prepared, changes_of
from cosched_emulator.whatif.waits import FloatArray, Waits, drift_of, recorded_of, waits_of

RESPONSE: Final = "response_s_mean"
FIGURES: Final[Mapping[str, str]] = {  # column of a study -> what it is
    RESPONSE: "mean response",
    "wait_s_mean": "mean wait",
    "bounded_slowdown_10s_mean": "mean slowdown",
    "weighted_response_s": "response by area",
    "energy_total_j": "energy",
}
GAIN, HARM, OPEN = "gain", "harm", "not shown"
FAR, UNCHECKED = "not credible", "cannot be checked"  # instead of a gain
VERDICTS: Final = (GAIN, FAR, UNCHECKED, OPEN, HARM)  # the best first
_MOST_WINDOWS: Final = 1_000

Windows = Mapping[int, Row]  # by number of the window


class Payer(NamedTuple):
    """A class of jobs, or a user, whose responses are longer, in percent."""

    name: str
    change: Interval


class Compared(NamedTuple):
    """A candidate against the present policy; changes are in percent of the present policy's, over windows in which both ran.

    Intervals of a figure are judged together over all candidates (`judged_together`): so are those of what is later.
    """

    candidate: Candidate
    contention: str
    changes: Mapping[str, Interval | None]  # by column
    verdict: str
    wait_ratio: float  # mean wait, to the present policy's; NaN: unknown
    needed: float  # windows of this size at which the interval of the response would not include 0
    classes: tuple[Payer, ...]
    users: tuple[Payer, ...]
    users_told: int  # of how many users the log says enough
    later: Interval | None  # percent of jobs later than in every run of the present policy, beyond chance
    shared: float  # percent of the busy node time with two jobs or more

    @property
    def response(self) -> Interval | None:
        """Return the change of the mean response."""
        return self.changes[RESPONSE]

    @property
    def windows(self) -> int:
        """Return in how many windows both policies ran to their end."""
        return 0 if self.response is None else self.response.n


class Swing(NamedTuple):
    """By how much a changed assumption moves the change of the mean response, in percent points.

    Intervals of the same quantity are judged together over all assumptions.
    """

    change: Change
    contention: str
    candidate: Candidate
    before: Interval | None  # change against the present policy, in the windows in which the assumption was changed
    response: Interval | None  # likewise under the changed assumption
    moved: Interval | None  # the difference
    shown: bool = False  # whether it is shown to be one


class Unmeasured(NamedTuple):
    """Two programs of the log that share nodes under a candidate."""

    one: str
    other: str
    share: float  # percent of the shared time of known programs


class Answer(NamedTuple):
    """All of it."""

    prepared: Prepared
    present: str
    windows: int
    compared: tuple[Compared, ...]
    swings: tuple[Swing, ...]  # the largest first
    measure: tuple[Unmeasured, ...]  # the most shared first
    failed: int  # runs
    not_compared: tuple[tuple[Candidate, str], ...]  # with the reason
    recorded_s: FloatArray  # waits, by row of the log
    waits: Mapping[tuple[str, str], Waits]  # by candidate and way of contention
    distance: Distance | None  # of the present policy, as it is modelled, from the record; None: it cannot be checked
    causes: tuple[Cause, ...] = ()  # what most likely explains that, the strongest first
    of_record: tuple[str, ...] = ()  # what guests would have done to the recorded schedule

    @property
    def best(self) -> Compared | None:
        """Return what the page is about: the shortest mean response of those with the best verdict."""
        known = [one for one in self.compared if one.response is not None]
        known.sort(key=lambda one: (VERDICTS.index(one.verdict), one.response.mean if one.response else 0))
        return known[0] if known else None

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return html_of(self)

    def plot(self, file: str | os.PathLike[str] | None = None, **how: Any) -> Picture | None:
        """Draw the change of the mean response under each candidate, as `Shown.plot`."""
        return picture_of(self, file, **how)

    def waits_under(self, one: Compared) -> Waits | None:
        """Return what jobs waited under a candidate."""
        return self.waits.get((one.candidate.policy, one.contention))


def best_of(compared: Iterable[Compared]) -> dict[str, Candidate]:
    """Return for each contention the candidate whose assumptions are worth changing: the shortest mean response of those that share.

    One with an interval comes before one that a single window tells of.
    """
    known = [(one, one.response) for one in compared if one.candidate.shares and one.response is not None]
    known.sort(key=lambda item: (not item[1].exists, item[1].mean))
    return {one.contention: one.candidate for one, _ in reversed(known)}


def compare(prepared: Prepared, result: StudyResult, distance: Distance | None = None) -> tuple[Compared, ...]:
    """Compare all candidates with the present policy; verdicts hold together, whatever their number, and pass the gate."""
    runs = _Runs(prepared, result)
    found = [
        _compared(prepared, candidate, contention, runs)
        for contention in prepared.hardware
        for candidate in prepared.candidates
        if candidate.contention == contention and runs.windows(prepared.place(contention), candidate.policy)
    ]
    columns = {column: judged_together([one.changes[column] for one in found]) for column in FIGURES}
    later = judged_together([one.later for one in found])
    least = prepared.question.scale.least
    drifts = {one: _drift(prepared, one, runs) for one in prepared.hardware}
    return tuple(
        one._replace(
            changes={column: changes[place] for column, changes in columns.items()},
            verdict=gated(_verdict(columns[RESPONSE][place], least), one.wait_ratio, distance, drifts[one.contention]),
            needed=_needed(columns[RESPONSE][place]),
            later=later[place],
        )
        for place, one in enumerate(found)
    )


def _drift(prepared: Prepared, contention: str, runs: _Runs) -> float:
    """Return by how much the baseline of the windows is another than that of the whole log, as |ln| of the ratio of mean waits.

    Where several processors of the log are a node by assumption alone, jobs slow each other down today by assumption, too.
    """
    if contention in prepared.by_cores:
        return 0.0
    present = runs.windows(prepared.place(contention), PRESENT)
    return abs(math.log(drift_of(prepared, waits_of(prepared, recorded_of(prepared), present, present))))


def answer(prepared: Prepared, result: StudyResult, distance: Distance | None) -> Answer:
    """Return the answer from a study of `study_of` that is done, wholly or in part."""
    compared = compare(prepared, result, distance)
    runs = _Runs(prepared, result)
    best = best_of(compared)
    swings = [swing for found in changes_of(prepared, best) if (swing := _swing(prepared, runs, *found)).moved]
    befores = [*dict.fromkeys(swing.before for swing in swings)]  # one for each way of contention, but for lost runs
    before = dict(zip(befores, judged_together(befores), strict=True))
    columns = zip(
        swings,
        judged_together([swing.response for swing in swings]),
        judged_together([swing.moved for swing in swings]),
        strict=True,
    )
    least = prepared.question.scale.least
    swings = [
        swing._replace(
            before=before[swing.before], response=response, moved=moved, shown=_verdict(moved, least) != OPEN
        )
        for swing, response, moved in columns
    ]
    swings.sort(key=lambda swing: -abs(swing.moved.mean if swing.moved else 0))
    recorded_s = recorded_of(prepared)
    return Answer(
        prepared,
        prepared.question.present.name,
        len(prepared.firsts),
        compared,
        tuple(swings),
        tuple(_unmeasured(prepared, runs, best.get(FORMULA))),
        len(result.failures),
        (*prepared.left_out, *_without_runs(prepared, compared, result)),
        recorded_s,
        dict(_waits(prepared, compared, runs, recorded_s)),
        distance,
    )


def _waits(
    prepared: Prepared, compared: Sequence[Compared], runs: _Runs, recorded_s: FloatArray
) -> Iterator[tuple[tuple[str, str], Waits]]:
    """Yield what jobs waited under each candidate, as far as the runs tell of single jobs."""
    for one in compared:
        place = prepared.place(one.contention)
        windows = runs.windows(place, one.candidate.policy), runs.windows(place, PRESENT)
        found = waits_of(prepared, recorded_s, *windows)
        if found is not None:
            yield (one.candidate.policy, one.contention), found


def _without_runs(
    prepared: Prepared, compared: Sequence[Compared], result: StudyResult
) -> Iterator[tuple[Candidate, str]]:
    """Yield the candidates of which no run ended, with what the first of them says."""
    known = {one.candidate for one in compared}
    for one in prepared.candidates:
        if one not in known:
            said = (failure.text for cell, failure in result.failures if cell.names["policies"] == one.policy)
            yield one, next((f"no run of it ended: {text}" for text in said), "no run of it ended")


class _Runs:
    """The rows of a study by place and policy; those of a lever are at the place of the present policy, under its name."""

    def __init__(self, prepared: Prepared, result: StudyResult) -> None:
        self._rows: dict[tuple[Place, str], dict[int, Row]] = {}
        for row in result.rows:
            place, policy = Place(row["hardware"], row["belief"], row["variant"]), row["policy"]
            if place.variant in prepared.levers:
                place, policy = prepared.place(FORMULA), place.variant
            self._rows.setdefault((place, policy), {})[int(row["workload"][1:])] = row
        asked = {(cell.names["variants"], cell.names["workloads"]) for cell in result.plan.cells}
        place = prepared.place(FORMULA)
        for name in prepared.levers:  # where a lever changes nothing, it has no run: the present policy's is its, too
            own = self._rows.setdefault((place, name), {})
            own |= {at: row for at, row in self.windows(place, PRESENT).items() if (name, f"w{at}") not in asked}

    def windows(self, place: Place, policy: str) -> Windows:
        """Return the rows of a policy there, by window."""
        return self._rows.get((place, policy), {})

    def figure(self, place: Place, policy: str, column: str) -> dict[int, float]:
        """Return a figure by window, where it exists."""
        rows = self.windows(place, policy)
        return {number: float(row[column]) for number, row in rows.items() if isinstance(row.get(column), int | float)}

    def change(self, place: Place, policy: str, column: str, base: Place | None = None) -> Interval | None:
        """Return by how many percent a figure is above the present policy's."""
        return change_of(self.figure(place, policy, column), self.figure(base or place, PRESENT, column))


def _compared(prepared: Prepared, candidate: Candidate, contention: str, runs: _Runs) -> Compared:
    place, policy = prepared.place(contention), candidate.policy
    classes = [(name, runs.change(place, policy, f"{name.replace(' ', '_')}_response_s")) for name in CLASS_NAMES]
    by_user = _users(runs.windows(place, policy), runs.windows(place, PRESENT), prepared.question.scale.least)
    users = [(prepared.name_of(f"user {user}"), change) for user, change in by_user]
    shared = interval_of(runs.figure(place, policy, "node_sharing"))
    later = difference_of(runs.figure(place, policy, "harm_hshk"), runs.figure(place, policy, "harm_hshk_floor"))
    return Compared(
        candidate,
        contention,
        {column: runs.change(place, policy, column) for column in FIGURES},
        OPEN,
        _ratio(*(runs.figure(place, each, "wait_s_mean") for each in (policy, PRESENT))),
        math.nan,
        tuple(_payers(classes, prepared.question.scale.least)),
        tuple(_payers(users, prepared.question.scale.least)),
        len(users),
        None if later is None else later._replace(mean=100 * later.mean, low=100 * later.low, high=100 * later.high),
        0.0 if shared is None else 100 * shared.mean,
    )


def _users(rows: Windows, base: Windows, least: int) -> Iterator[tuple[str, Interval | None]]:
    """Yield each user with the change of its mean response over the windows in which it has jobs, if these are ``least``."""
    means: list[dict[str, dict[int, float]]] = [{}, {}]
    for found, table in zip((rows, base), means, strict=True):
        for number, row in found.items():
            for user, (count, total_s) in (row.get(USERS) or {}).items():
                table.setdefault(user, {})[number] = total_s / count
    for user, own in means[0].items():
        change = change_of(own, means[1].get(user, {}))
        if change is not None and change.n >= least:
            yield user, change


def _payers(found: Sequence[tuple[str, Interval | None]], least: int) -> Iterator[Payer]:
    """Yield those that respond later, the most first; together they are wrong as rarely as one would be."""
    judged = judged_together([change for _, change in found])
    paying = [
        Payer(name, change)
        for (name, _), change in zip(found, judged, strict=True)
        if change is not None and _verdict(change, least) == HARM
    ]
    yield from sorted(paying, key=lambda payer: -payer.change.mean)


def _verdict(change: Interval | None, least: int) -> str:
    """Return what an interval that is judged with all others says; nothing where it is over fewer than ``least`` windows."""
    if change is None or not change.exists or change.n < least:
        return OPEN
    return GAIN if change.high < 0 else HARM if change.low > 0 else OPEN


def gated(verdict: str, wait_ratio: float, distance: Distance | None, drift: float = 0.0) -> str:
    """Return a verdict: a gain only where a credible baseline is nearer to the record than the candidate's mean wait is to its own.

    Compared are |ln| of ratios of mean waits, the baseline's at the end of its interval, with that between the baseline of the windows
    and of the whole log. Harm stays harm.
    """
    if verdict != GAIN:
        return verdict
    if distance is None:
        return UNCHECKED
    change = abs(math.log(wait_ratio)) if wait_ratio else math.inf
    error = distance.error_most + drift
    return GAIN if distance.credible and error <= MOST_ERROR and change >= error else FAR


def _ratio(own: Mapping[int, float], base: Mapping[int, float]) -> float:
    """Return the ratio of two means over the windows that both have; NaN where there is none."""
    both = own.keys() & base.keys()
    total = sum(base[number] for number in both)
    return sum(own[number] for number in both) / total if total > 0 else math.nan


def _needed(change: Interval | None) -> float:
    return math.nan if change is None else seeds_needed(change, 0, _MOST_WINDOWS)


def _swing(prepared: Prepared, runs: _Runs, place: Place, change: Change, candidate: Candidate) -> Swing:
    contention = place.hardware.partition(",")[0]
    base = prepared.present_place(place, change)
    after, without = runs.figure(place, candidate.policy, RESPONSE), runs.figure(base, PRESENT, RESPONSE)
    plain, present = (
        {
            number: value
            for number, value in runs.figure(prepared.place(contention), policy, RESPONSE).items()
            if number in after
        }
        for policy in (candidate.policy, PRESENT)
    )
    both = [
        100 * (after[number] / without[number] - plain[number] / present[number])
        for number in after
        if number in plain and without.get(number) and present.get(number)
    ]
    moved = mean_interval(both) if both else None
    return Swing(change, contention, candidate, change_of(plain, present), change_of(after, without), moved)


def _unmeasured(prepared: Prepared, runs: _Runs, best: Candidate | None) -> Iterator[Unmeasured]:
    """Yield the pairs of the log's own programs that share most under the best candidate, by the formula."""
    if best is None:
        return
    hours: dict[str, float] = {}
    rows = runs.windows(prepared.place(FORMULA), best.policy)
    total = sum(float(row.get(HOURS) or 0) for row in rows.values())
    for row in rows.values():
        for pair, value in (row.get(NEIGHBOURS) or {}).items():
            hours[pair] = hours.get(pair, 0.0) + value
    for pair, value in sorted(hours.items(), key=lambda item: -item[1]):
        one, _, other = pair.partition("|")
        yield Unmeasured(prepared.name_of(one), prepared.name_of(other), 100 * value / total)


def plain(found: Interval | None) -> dict[str, Any] | None:
    """Return an interval as plain values for JSON; bounds that do not exist are None.

    ``level`` is that at which it is judged, the higher the more there are beside it.
    """
    if found is None:
        return None
    low, high = (None if math.isnan(bound) else bound for bound in (found.low, found.high))
    return {"mean": found.mean, "low": low, "high": high, "windows": found.n, "level": found.level}
