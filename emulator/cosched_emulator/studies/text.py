"""The table of a study for people: one block for each setting, policies as columns, means with intervals over seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from cosched_emulator.results.figures.comparison import (
    FIGURES,
    NOTHING,
    Figure,
    cells_of,
    change_text,
    number_texts,
    time_unit,
)
from cosched_emulator.results.verdict import MOST, amount_text, direction_of
from cosched_emulator.statistics.intervals import LEVEL, Interval
from cosched_emulator.studies.cell_run import Failure
from cosched_emulator.studies.study_result import Row, SeedRows, StudyResult, place_text
from cosched_emulator.users.idset import ranges_text
from cosched_terminal.tables import align

SHOWN: Final = (
    "states_COMPLETED",
    "killed_count",
    "wait_s_mean",
    "response_s_mean",
    "weighted_response_s",
    "bounded_slowdown_10s_mean",
    "bounded_slowdown_10s_p95",
    "makespan_s",
    "node_utilisation",
    "offered_load",
)
HARM: Final = (
    Figure("later than the baseline (H1)", ("harm_h1",), "share"),
    Figure("later than all baselines (Hshk)", ("harm_hshk",), "share"),
    Figure("floor of Hshk, by chance", ("harm_hshk_floor",), "share"),
    Figure("lost, of all response time", ("harm_lost_share",), "share"),
)
_RULE: Final = "H1: jobs with a response > 1.05 x that in the baseline + 60 s{}; lost: of all response time"
_SHAKEN: Final = "; Hshk: > that in all baselines; floor: Hshk by chance alone"
_NO_SHAKES: Final = "; how much is chance? [baseline] shakes = 9 says it"
MORE: Final = (Figure("response, mean weighted by area", ("weighted_response_s",), "seconds"),)
CHANGED: Final = ("wait_s_mean", "response_s_mean", "weighted_response_s", "bounded_slowdown_10s_mean", "makespan_s")


def column_of(figure: Figure) -> str:
    """Return the column of a study's table that holds a figure of a comparison."""
    path = figure.path[1:] if figure.path[0] in ("*", "machine") else figure.path
    return "_".join(path)


KNOWN: Final = {column_of(figure): figure for figure in (*FIGURES, *HARM, *MORE)}


class SettingTable(NamedTuple):
    """The figures of all policies in one setting."""

    heading: str
    rows: list[list[str]]  # the first has the policies; the first two columns are figures and units
    notes: list[str]


def setting_tables(
    result: StudyResult, figures: Sequence[str] = (), level: float = LEVEL
) -> Iterator[tuple[SettingTable, list[SeedRows]]]:
    """Yield the table of each setting, with its series.

    ``figures`` are columns of the table of the study, by default the usual ones and those of harm.
    """
    chosen = figures or (*SHOWN, *(column_of(figure) for figure in HARM))
    settings: dict[str, list[SeedRows]] = {}
    for series in result.series:
        settings.setdefault(series.text, []).append(series)
    for heading, group in settings.items():
        yield _setting_table(result, heading, group, chosen, figures or CHANGED, level), group


def study_text(result: StudyResult, figures: Sequence[str] = (), level: float = LEVEL) -> str:
    """Return the tables of all settings as text; see `setting_tables`."""
    return (
        "\n\n".join(
            "\n".join([table.heading, *align(table.rows, range(2, len(table.rows[0]))), *table.notes])
            for table, _ in setting_tables(result, figures, level)
        )
        + "\n"
    )


# A study: in how many of its settings each policy's jobs respond sooner than under the baseline.


def study_verdict(result: StudyResult) -> str:
    """Return the sentence about a study."""
    done, cells = len(result.rows), len(result.plan.cells)
    found = _changes(result)
    if not found:
        return f"{done:,} of {cells:,} runs are done; nothing is compared yet."
    parts = [_of_policy(policy, changes) for policy, changes in [*found.items()][:MOST]]
    more = f"; {len(found) - MOST} more below" if len(found) > MOST else ""
    state = "" if done == cells else f" ({done:,} of {cells:,} runs are done)"
    return f"Mean response against {result.baseline}{state}: {'; '.join(parts)}{more}."


def _changes(result: StudyResult) -> dict[str, list[Interval]]:
    """Return, by policy, the change of its mean response in each setting."""
    found: dict[str, list[Interval]] = {}
    for series in result.series:
        change = _against_base(result, series)
        if change is not None:
            found.setdefault(series.policy, []).append(change)
    return found


def _against_base(result: StudyResult, series: SeedRows) -> Interval | None:
    base = result.base(series)
    return None if base is None else series.change("response_s_mean", base)


def _of_policy(policy: str, changes: Sequence[Interval]) -> str:
    if len(changes) == 1:
        unclear = "" if direction_of(changes[0]) else " (not shown to differ from no change)"
        return f"{policy} {amount_text(changes[0])}{unclear}"
    counts = Counter(direction_of(each) for each in changes)
    words = {"sooner": "shorter", "later": "longer", "": "not to be told"}
    told = [f"{word} in {counts[way]}" for way, word in words.items() if counts[way]]
    return f"{policy} {', '.join(told)} of {len(changes)} settings"


class GainTable(NamedTuple):
    """What is gained against the baseline; the first row has the headings, the first two columns are texts."""

    heading: str
    rows: list[list[str]]


def gain_table(result: StudyResult) -> GainTable | None:
    """Return the mean response of each series beside the baseline's, and how many jobs respond later; None where there is neither."""
    pairs = [(series, base) for series in result.series if (base := result.base(series)) is not None]
    times = [[each.interval("response_s_mean", LEVEL) for each in pair] for pair in pairs]
    size, unit = time_unit(max((found.mean for pair in times for found in pair if found is not None), default=0.0))
    rows = [["setting", "policy", "response %", unit, f"instead of {unit}", "later %"]]
    for (series, base), both in zip(pairs, times, strict=True):
        if None not in both:
            means = number_texts([None if found is None else found.mean / size for found in both])
            later = series.interval("harm_h1", LEVEL)
            share = NOTHING if later is None else cells_of(HARM[0], [later])[1][0]
            rows.append(
                [
                    series.text,
                    series.policy,
                    change_text(series.change("response_s_mean", base, LEVEL), 0) or NOTHING,
                    *means,
                    share,
                ]
            )
    if len(rows) == 1:
        return None
    seeds = max(len(series.rows) for series, _ in pairs)
    over = f", means over {seeds} seeds with their intervals" * (seeds > 1)
    return GainTable(
        f"mean response against {result.baseline}{over}, and how many jobs respond later", with_content(rows)
    )


def gain_text(result: StudyResult, most: int = 12) -> str:
    """Return what is gained as text, at most ``most`` lines of it; see `gain_table`."""
    table = gain_table(result)
    if table is None:
        return ""
    right = [place for place, name in enumerate(table.rows[0]) if name not in ("setting", "policy")]
    left = len(table.rows) - 1 - most
    lines = [
        table.heading,
        *align(table.rows[: most + 1], right),
        *([f"and {left} more: study table"] if left > 0 else []),
    ]
    return "".join(f"{line}\n" for line in lines)


def with_content(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return a table without the columns that have nothing below their heading."""
    columns = [column for column in zip(*rows, strict=True) if {*column[1:]} - {"", NOTHING}] if rows[1:] else []
    return [list(row) for row in zip(*columns, strict=True)] or [list(row) for row in rows]


class LoserTables(NamedTuple):
    """Who is worse off than under the baseline; the first row of a table has the headings."""

    heading: str
    policies: list[list[str]]  # the first column is text
    rule: str
    worst: list[list[str]]  # only headings: no job is later


_WORST_TEXTS: Final = ("setting", "policy", "seed", "cause")


def loser_tables(result: StudyResult, most: int) -> LoserTables | None:
    """Return the figures of harm by policy, and the ``most`` largest losses; None without a baseline."""
    if result.baseline is None or not result.harm.figures:
        return None
    shakes = result.plan.baseline["shakes"] if result.plan.baseline else 0
    lines = [["policy", "runs", "H1 %", "Hshk %", "floor %", "lost %", "killed"]]
    rows = [row for row in result.rows if row["key"] in result.harm.figures]
    for policy in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        shares = [_mean_percent(own, f"harm_{name}") for name in ("h1", "hshk", "hshk_floor", "lost_share")]
        lines.append([policy, str(len(own)), *shares, str(sum(row["harm_killed"] for row in own))])
    losers = sorted(result.harm.losers, key=lambda loser: -loser["lost_s"])[:most]
    size, unit = time_unit(max([loser["response_s"] for loser in losers], default=0.0))
    times_of = {f"{name} {unit}": f"{name}_s" for name in ("baseline", "response", "lost")}
    worst = [["setting", "policy", "seed", "job", "threads", *times_of, "cause"]]
    for loser in losers:
        times = [f"{loser[name] / size:,.2f}" for name in times_of.values()]
        whose = [place_text(loser), loser["policy"], loser["seed"], str(loser["job"]), str(loser["size"])]
        worst.append([*whose, *times, loser["cause"]])
    heading = f"worse off than under {result.baseline}, mean over all runs of a policy"
    rule = _RULE.format(_SHAKEN if shakes else "") + _NO_SHAKES * (not shakes)
    return LoserTables(heading, with_content(lines), rule, with_content(worst))


def missing_note(result: StudyResult) -> str:
    """Return that it is not known of some cells who is worse off; empty where it is known of all."""
    missing = len(result.harm.missing)
    if not missing:
        return ""
    return f"note: who is worse off in {missing} cells is not known: runs of the baseline are not done"


def losers_text(result: StudyResult, most: int = 5) -> str:
    """Return who is worse off than under the baseline as text; see `loser_tables`."""
    lines: list[str] = []
    tables = loser_tables(result, most)
    if tables is not None:
        lines += [tables.heading, *align(tables.policies, range(1, len(tables.policies[0]))), tables.rule]
        if len(tables.worst) > 1:
            right = [place for place, name in enumerate(tables.worst[0]) if name not in _WORST_TEXTS]
            lines += ["", "largest losses", *align(tables.worst, right)]
    note = missing_note(result)
    return "".join(f"{line}\n" for line in [*lines, *([note] if note else [])])


def _mean_percent(rows: Sequence[Row], name: str) -> str:
    values = [row[name] for row in rows if row[name] is not None]
    return f"{100 * sum(values) / len(values):.1f}" if values else NOTHING


def _setting_table(
    result: StudyResult,
    heading: str,
    group: Sequence[SeedRows],
    figures: Sequence[str],
    changed: Collection[str],
    level: float,
) -> SettingTable:
    counts = sorted({len(series.rows) for series in group})
    seeds = " to ".join(str(count) for count in {counts[0]: 0, counts[-1]: 0})
    lines = [["", "", *(series.policy for series in group)]]
    for name in figures:
        figure = KNOWN.get(name, Figure(name, (name,)))
        intervals = [series.interval(name, level) for series in group]
        if any(found is not None for found in intervals):
            unit, texts = cells_of(figure, intervals, [result.within(series, name, level) for series in group])
            lines.append([figure.label, unit, *texts])
            changes = [_change(result, series, name, level) for series in group]
            if name in changed and any(changes):
                lines.append(["  change", "%", *map(change_text, changes)])
    lines.append(["saturated runs", "", *map(_saturated, group)])
    notes = []
    if any(series.repeats for series in group):
        notes.append(
            "note: some policies gave the same run for every seed: this workload draws nothing, so intervals over seeds say nothing"
        )
    if any("[" in cell for line in lines for cell in line):
        notes.append("[low to high]: interval within the run, by blocks of successive jobs")
    if any(_count(series, "not shown") for series in group):
        notes.append("note: saturated, not shown: the run does not tell whether its queue grows")
    if any(_count(series, "yes") for series in group):
        notes.append(
            "note: the queue of a saturated run grows as long as jobs are submitted: its means say how long the run was"
        )
    title = f"{heading or 'all runs'} ({seeds} seed{'s' if counts[-1] > 1 else ''})"
    return SettingTable(title, lines, notes)


def _saturated(series: SeedRows) -> str:
    unknown = _count(series, "not shown")
    return f"{_count(series, 'yes')} of {len(series.rows)}" + (f", {unknown} not shown" if unknown else "")


def _count(series: SeedRows, verdict: str) -> int:
    return sum(row.get("saturated") == verdict for row in series.rows)


def _change(result: StudyResult, series: SeedRows, name: str, level: float) -> Interval | None:
    base = result.base(series)
    return None if base is None else series.change(name, base, level)


# Runs that failed: what ended several of them alike is told once.


class FailedAlike(NamedTuple):
    """The runs that failed in the same way: the name of the first one, and the numbers of those that are cells."""

    name: str
    runs: int
    numbers: list[int]

    def __str__(self) -> str:
        if self.runs == 1:
            return self.name
        cells = f", cells {ranges_text(self.numbers)}" if len(self.numbers) > 1 else ""
        return f"{self.name}, and {self.runs - 1} more alike{cells}"


def failed_alike(failures: Iterable[tuple[int, str, str, Failure]]) -> Iterator[tuple[FailedAlike, Failure]]:
    """Yield each error once, with the runs that it ended, of failures as (number, key, names, failure)."""
    by_text: dict[str, list[tuple[int, str, str, Failure]]] = {}
    for item in failures:
        by_text.setdefault(item[3].text, []).append(item)
    for same in by_text.values():
        number, key, names, failure = same[0]
        name = (f"cell {number}" if number else f"baseline run {key}") + (f" ({names})" if names else "")
        yield FailedAlike(name, len(same), sorted(item[0] for item in same if item[0])), failure
