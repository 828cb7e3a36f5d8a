"""The facts of a decision trace about one job in the rows of gang scheduling: why it is in its row, and with which rows it ran.

`row_sentences` turns them into text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cosched_emulator.errors import InputError
from cosched_emulator.manager.record import GUEST, PARTNER, ROW
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM, seconds_text

# The funnel of searches for partners and hosts: the candidates left after each constraint, and the chosen one (LOMARC's table 5).
#
# It works on the records of a decision trace, from a file or directly from a scheduler's sink.
#
# Counted searches. ``partners``: one search for every job that started on nodes of its own after a search for a partner among the
# pending jobs, successful or not. The means exclude jobs that search for no partner (short ones, or at weak load) and jobs that did
# not start at that instant. ``hosts``: one search for every job that joined a running one; unsuccessful searches leave no record.

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Left:
    """Candidates left by a constraint, on average.

    ``mean``: over all searches. ``mean_reached``: over the ``reached`` ones in which the preceding constraint had left at least one.
    ``mean_matched``: over the searches that ended in a match. None if there is no such search.
    """

    mean: float | None
    reached: int
    mean_reached: float | None
    mean_matched: float | None


@dataclass(frozen=True, slots=True)
class Funnel:
    """The searches of one kind.

    ``left``: by constraint, in the order in which they are applied; the first, ``all``, counts all examined jobs except the searching
    one. ``position``: mean place of the chosen job among the candidates left by all constraints, in queue order (of
    hosts: by start), from 1, over the ``matched`` searches. ``profit_rank``: its mean place by profit, over the
    ``ranked`` ones that compared profits; above 1 if better ones had no room or would have delayed the reserved job.
    """

    searches: int
    matched: int
    left: Mapping[str, Left]
    position: float | None
    ranked: int
    profit_rank: float | None


def funnel(records: Iterable[Record]) -> dict[str, Funnel]:
    """Return the funnels of the searches for ``partners`` and for ``hosts``."""
    searches: dict[str, list[Record]] = {"partners": [], "hosts": []}
    for record in records:
        if record["kind"] != "start":
            continue
        if "hosts" in record:
            searches["hosts"].append(record["hosts"])
        elif "partners" in record and "host" not in record:  # else it had searched, but started on another job's nodes
            searches["partners"].append(record["partners"])
    return {kind: _funnel(found) for kind, found in searches.items()}


def chosen_job(search: Record) -> int | None:
    """Return the partner or host that a search found; None if it found none."""
    job: int | None = search.get("partner", search.get("host"))
    return job


def position(search: Record) -> int | None:
    """Return the place of the chosen job among the candidates, from 1."""
    job = chosen_job(search)
    return None if job is None else search["candidates"].index(job) + 1


def by_profit(search: Record) -> list[int] | None:
    """Return the candidates with a profit, best first, the earliest of equals first; None if profits were not compared."""
    profits = search.get("profits")
    if profits is None:
        return None
    pairs = sorted(enumerate(profits), key=lambda pair: (-pair[1], pair[0]))
    return [search["candidates"][place] for place, profit in pairs if profit > 0]


def profit_rank(search: Record) -> int | None:
    """Return the place of the chosen job by profit, from 1."""
    job, best = chosen_job(search), by_profit(search)
    return best.index(job) + 1 if best is not None and job in best else None


def _funnel(searches: list[Record]) -> Funnel:
    matched = [search for search in searches if chosen_job(search) is not None]
    left = {}
    before = ""
    for name in searches[0]["left"] if searches else ():
        reached = [search for search in searches if not before or search["left"][before]]
        left[name] = Left(
            *(_mean([search["left"][name] for search in searches]), len(reached)),
            *(_mean([search["left"][name] for search in some]) for some in (reached, matched)),
        )
        before = name
    positions = [place for search in matched if (place := position(search)) is not None]
    ranks = [rank for search in matched if (rank := profit_rank(search)) is not None]
    return Funnel(len(searches), len(matched), left, _mean(positions), len(ranks), _mean(ranks))


def _mean(counts: list[int]) -> float | None:
    return sum(counts) / len(counts) if counts else None


# What a decision trace tells of resources and hardware threads: what costs a pair most, and why a job got its threads.

_PLACES: Final = {
    "same cores": "It shares cores with its neighbour",
    "other cores": "It has other cores than its neighbour",
    "other sockets": "It has other sockets than its neighbour, as far as there are any",
    "sides": "The jobs have different cores of every CPU",
    "cpus": "The jobs have different CPUs, as far as there are any",
}


def resource_facts(record: Record) -> dict[str, Any]:
    """Return the ``resource`` and the ``seat`` of a start, of its own or of its group; None where they were not told."""
    told = {**(record["group"] if isinstance(record.get("group"), Mapping) else {}), **record}
    resource, seat = told.get("resource"), told.get("seat")
    return {"resource": resource if isinstance(resource, str) else None, "seat": seat if _is_seat(seat) else None}


def slowed_by(search: Record) -> dict[str, int]:
    """Return how many jobs the largest slowdown kept out of a search, by the resource that adds most to it."""
    told = search.get("slowed_by")
    if not isinstance(told, Mapping):
        return {}
    return {name: len(jobs) for name, jobs in told.items() if isinstance(jobs, list)}


def resource_of(search: Record, job: int) -> str | None:
    """Return the resource because of which ``job`` was too slow for a search; None if that was not told."""
    told = search.get("slowed_by")
    if not isinstance(told, Mapping):
        return None
    return next((name for name, jobs in told.items() if isinstance(jobs, list) and job in jobs), None)


def counts_text(counts: Mapping[str, int]) -> str:
    """Return counts by resource, in brackets: `` (memory bandwidth: 2)``; nothing if there are none."""
    told = [f"{name}: {count}" for name, count in counts.items() if count]
    return f" ({', '.join(told)})" if told else ""


def resource_sentences(start: Mapping[str, Any]) -> Iterator[str]:
    """Yield what costs the job and its neighbours most, and why it got its threads."""
    if start["resource"] is not None:
        yield f"The resource {start['resource']!r} slows them down most."
    seat = start["seat"]
    if seat is not None:
        chosen, compared = seat["chosen"], seat["compared"]
        others = [f"{slowdown:.3f} with {name!r}" for name, slowdown in compared.items() if name != chosen]
        least = f"the least slowdown that is expected, {compared[chosen]:.3f}"
        instead = f", instead of {' or '.join(others)}" if others else ""
        yield f"{_PLACES.get(chosen, f'Its threads are those of {chosen!r}')}: {least}{instead}."


def _is_seat(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    compared = value.get("compared")
    return (
        isinstance(compared, Mapping)
        and value.get("chosen") in compared
        and all(type(slowdown) in (int, float) for slowdown in compared.values())
    )


# Times, numbers and jobs as words in the sentences of `explain`.


def instant_text(at_us: int) -> str:
    """Return an instant: ``50738 s (14:05:38)``."""
    seconds = f"{seconds_text(at_us)} s"
    return seconds if abs(at_us) < 60 * SECOND_US else f"{seconds} ({span_text(at_us)})"


def span_text(span_us: int) -> str:
    """Return a span: ``2:06:12`` rounded to seconds, ``12.5 s`` below a minute, ``3 d 2:06:12`` from a day on."""
    if abs(span_us) < 60 * SECOND_US:
        return f"{seconds_text(round(span_us, -3))} s"
    whole = round(abs(span_us) / SECOND_US)
    sign = "-" if span_us < 0 else ""
    days = f"{whole // 86400} d " if whole >= 86400 else ""
    return f"{sign}{days}{whole // 3600 % 24}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def count_text(number: int, one: str, many: str = "") -> str:
    """Return a number of things: ``1 job``, ``2 jobs``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def jobs_text(jobs: Sequence[int], what: str = "job") -> str:
    """Return jobs, or what else has numbers: ``job 1``, ``jobs 1, 2 and 3``."""
    if len(jobs) == 1:
        return f"{what} {jobs[0]}"
    return f"{what}s {', '.join(map(str, jobs[:-1]))} and {jobs[-1]}"


def times_text(number: int) -> str:
    """Return how many times: ``once``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def ordinal_text(number: int) -> str:
    """Return a place: ``2nd``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


Facts = dict[str, Any]  # JSON-ready

_ROLES: Final = (ROW, PARTNER, GUEST)  # how a job runs in a quantum


def row_of_start(record: Record) -> Facts | None:
    """Return the row in which a job starts, and what a gang scheduler tells of it; None where there are no slots."""
    if "slot" not in record and "new_row" not in record:
        return None
    told = {key: record.get(key) for key in ("new_row", "full_rows", "closed_rows")}
    return {"slot": record.get("slot", 0), **told}


class Quanta:
    """Counts the quanta of one job; the records of turns name the jobs, so that it does not matter when the job ends."""

    def __init__(self, job: int) -> None:
        self._job = job
        self._last: Record | None = None  # the last turn, which another one of the same instant replaces
        self._first_quantum: int | None = None
        self._last_quantum: int | None = None
        self._roles = Counter[str]()
        self._paired = 0
        self._alone = Counter[str]()

    def take(self, record: Record) -> bool:
        """Process the record of a turn; return whether it names the job."""
        # A quantum that is over before its time gives its number to the next one.
        if self._last is not None and self._last["at_us"] != record["at_us"]:
            self._count(self._last)
        self._last = record
        return role_in(record, self._job) is not None

    def facts(self) -> Facts | None:
        """Return the counts, after the last record; None if no turn named the job."""
        if self._last is not None:
            self._count(self._last)
            self._last = None
        if self._first_quantum is None:
            return None
        return {
            "first_quantum": self._first_quantum,
            "last_quantum": self._last_quantum,
            **{role: self._roles[role] for role in _ROLES},
            "paired": self._paired,
            "alone": dict(self._alone),
        }

    def _count(self, turn: Record) -> None:
        role = role_in(turn, self._job)
        if role is None:
            return
        if self._first_quantum is None:
            self._first_quantum = turn["quantum"]
        self._last_quantum = turn["quantum"]
        self._roles[role] += 1
        if role == ROW:
            self._paired += len(turn["slots"]) > 1
            if "alone" in turn:
                self._alone[turn["alone"]] += 1


class QuantumTurns:
    """Keeps the turn of one quantum: the last one that was told for it."""

    def __init__(self, quantum: int | None) -> None:
        self._quantum = quantum
        self._found: Record | None = None
        self._told: tuple[int, int] | None = None  # the first and the last quantum of the trace

    def take(self, record: Record) -> None:
        """Process the record of a turn."""
        quantum = record["quantum"]
        self._told = (quantum if self._told is None else self._told[0], quantum)
        if quantum == self._quantum:
            self._found = record

    def wanted(self, file: str) -> Record:
        """Return the turn of the quantum; InputError if the trace does not tell it."""
        if self._found is None:
            span = "" if self._told is None else f", such as {self._told[0]} or {self._told[1]}"
            got = str(self._quantum) if self._told is not None else f"{self._quantum}; the trace has none"
            raise InputError(file, f"a quantum in the trace{span}", got)
        return self._found


def role_in(turn: Record, job: int) -> str | None:
    """Return how a job runs in a turn; None: it does not."""
    for place, jobs in enumerate(turn["jobs"]):
        if job in jobs:
            return PARTNER if place else ROW
    return GUEST if any(guest == job for guest, _ in turn["guests"]) else None


def quantum_facts(turn: Record, job: int) -> Facts:
    """Return why a job ran, or did not run, in the quantum of a turn."""
    own = next((share_ppm for guest, share_ppm in turn["guests"] if guest == job), None)
    return {
        **{key: turn[key] for key in ("quantum", "at_us", "slots", "jobs", "shares_ppm", "guests")},
        **{key: turn.get(key) for key in ("below_ppm", "alone", "other", "other_ppm")},
        "role": role_in(turn, job),
        "guest_share_ppm": own,
    }


# The facts about a job in the rows of gang scheduling (`rows`) as sentences.

ToldFacts = Mapping[str, Any]

# Why a row had no partner, in how many of its turns.
_ALONE: Final[Mapping[str, str]] = {
    "unpaired": "a job of the row is never paired",
    "partner-unpaired": "a job of the partner is never paired",
    "only-row": "there was no other row that may be paired",
    "none-fits": "no other row fitted",
    "left-out": "the matching gave it none, although one fitted",
    "new-row": "partners had been chosen before the row existed",
    "no-partner": "no partner was chosen when the round began, or that row had vanished",
    "no-fit": "the partner did not fit any more",
}


def row_placement(start: ToldFacts) -> Iterator[str]:
    """Yield why a job was put into its row."""
    row = start["row"]
    if row is None:
        return
    slot, full, closed = row["slot"], row["full_rows"], row["closed_rows"]
    which = {None: "", True: ", a new one", False: ", the first with a place for it"}[row["new_row"]]
    why = []
    if full:
        why.append(f"{jobs_text(full, 'row')} had none")
    if closed:
        why.append(f"{jobs_text(closed, 'row')} took only measured jobs")
    if row["new_row"] and full:
        why[0] = f"{jobs_text(full, 'row')} had no place for it"
    yield f"It was put into row {slot}{which}{': ' if why else ''}{', and '.join(why)}."


def row_events(start: ToldFacts) -> Iterator[tuple[int, str]]:
    """Yield when a job changed its row, and when its CPU share changed sharply, with a sentence for each."""
    for change in start["sharp_changes"]:
        after = f"{span_text(change['at_us'] - start['at_us'])} after its start"
        shares = f"from {percent_text(change['before_ppm'])} to {percent_text(change['share_ppm'])}"
        yield change["at_us"], f"{after} its CPU share had changed sharply, {shares}: it counted as a new job."
    for move in start["moves"]:
        after = f"{span_text(move['at_us'] - start['at_us'])} after its start"
        source = "" if move["out_of"] is None else f" from row {move['out_of']}"
        yield move["at_us"], f"{after} it moved{source} to row {move['slot']}{_why_moved(move)}."


def turns_of_row(start: ToldFacts) -> Iterator[str]:
    """Yield in how many quanta a job ran, and how often its row had a partner."""
    turns = start["turns"]
    if turns is None:
        return
    quanta = sum(turns[role] for role in (ROW, PARTNER, GUEST))
    parts = [
        f"{turns[role]} {text}"
        for role, text in (
            (ROW, "in the turn of its row"),
            (PARTNER, "with its row as the partner of another one"),
            (GUEST, "as an alternate"),
        )
        if turns[role]
    ]
    span = f"from {turns['first_quantum']} to {turns['last_quantum']}"
    yield f"It was to run in {count_text(quanta, 'quantum', 'quanta')}, {span}: {', '.join(parts)}."
    why = [f"{times_text(times)} because {_ALONE.get(reason, reason)}" for reason, times in turns["alone"].items()]
    if turns["paired"]:
        none = f", and none {', '.join(why)}" if why else ""
        yield f"In its own turns its row had a partner {times_text(turns['paired'])}{none}."
    elif why:
        yield f"In its own turns its row had no partner: {', '.join(why)}."


def quantum_sentences(facts: ToldFacts, job: int) -> Iterator[str]:
    """Yield why a job ran, or did not run, in one quantum, and why a row had a partner there or none."""
    told = f"Quantum {facts['quantum']}, decided at {instant_text(facts['at_us'])}"
    rows = [f"row {slot} ({jobs_text(jobs)})" for slot, jobs in zip(facts["slots"], facts["jobs"], strict=True)]
    yield f"{told}, was the turn of {rows[0]}{f', with {rows[1]} as the partner' if len(rows) > 1 else ''}."
    yield from _why_paired(facts)
    match facts["role"]:
        case None:
            yield f"Job {job} did not run in it."
        case role if role == GUEST:
            yield f"Job {job} ran as an alternate, with a predicted CPU share of {percent_text(facts['guest_share_ppm'])}."
        case _:
            yield f"Job {job} ran with its row."


def percent_text(share_ppm: int) -> str:
    """Return a share in percent: ``45 %``, ``2.5 %``."""
    return f"{100 * share_ppm / WHOLE_PPM:.4g} %"


def _why_paired(facts: ToldFacts) -> Iterator[str]:
    shares = list(facts["shares_ppm"])
    if len(shares) > 1:
        sums = f"{percent_text(shares[0])} and {percent_text(shares[1])}"
        yield f"The largest predicted CPU shares of the two rows were {sums}{_sum_text(shares, facts['below_ppm'])}."
    elif facts["alone"] is not None:
        yield f"The row had no partner, because {_ALONE.get(facts['alone'], facts['alone'])}."
        if facts["other_ppm"] is not None:
            least = ", the least of the others," if facts["alone"] == "none-fits" else ""
            shares.append(facts["other_ppm"])
            sums = f"{percent_text(shares[0])}, that of row {facts['other']}{least} {percent_text(shares[1])}"
            yield f"Its largest predicted CPU share was {sums}{_sum_text(shares, facts['below_ppm'])}."


def _sum_text(shares_ppm: Sequence[int], below_ppm: int | None) -> str:
    """Return how the sum of two shares compares with its bound, if there is one."""
    if below_ppm is None:
        return ""
    return f": in sum {'' if sum(shares_ppm) < below_ppm else 'not '}less than {percent_text(below_ppm)}"


def _why_moved(move: ToldFacts) -> str:
    match move["reason"]:
        case "band":
            least = "" if move["least_ppm"] is None else f", where the least is {percent_text(move['least_ppm'])}"
            return (
                f": its predicted CPU share of {percent_text(move['share_ppm'])} was out of the band of its row{least}"
            )
        case "compaction":
            return ": other rows had room for all jobs of its row"
        case None:
            return ""
        case other:
            return f", for the reason {other!r}"
