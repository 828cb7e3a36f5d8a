"""What was believed of pairs of applications, and what came out by Slurm's accounting: `cosched-plugin slurm beliefs`."""

from __future__ import annotations

import io
import math
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cosched_hwmodel.measured.calibration import write_table
from cosched_hwmodel.measured.co_run_table import CoRunTable, Evidence, possible
from cosched_hwmodel.measured.elapsed_times import Alone, Slowdown, alone_of, slowdowns_of
from cosched_hwmodel.pairs import PairModel
from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.sacct_dump import dump_of
from cosched_plugin.common.sacct_rows import TIME_FORMAT, Dump, SacctRow, sacct_words
from cosched_plugin.protocol.messages import JobSpec, Note, Welcome
from cosched_plugin.slurm.learning import runs_of
from cosched_plugin.slurm.site_file import Site
from cosched_terminal.tables import align
from cosched_terminal.whole_file import whole_file

WORSE: Final = "worse than believed"
BETTER: Final = "better than believed"
AS_BELIEVED: Final = "as believed"
NEW: Final = "new"  # nothing was believed
FEW: Final = "not enough runs"
SACCT_S: Final = 600.0  # that sacct may take: 90 days of a large site
_TWO_SIDED: Final = 1.96  # standard errors from a ratio to the ends of its interval
_ERROR: Final = 0.15  # of a logarithm, where the interval is open
_COLUMNS: Final = ("application", "beside", "believed", "came out", "95 %", "runs", "verdict")


class Verdict(NamedTuple):
    """A pair: what was believed of it, and what came out."""

    application: str
    beside: str
    believed: float | None  # None: nothing
    slowdown: Slowdown

    @property
    def word(self) -> str:
        """Return what is to be said of the belief; 5 of 100 right ones are called wrong."""
        found = self.slowdown
        if self.believed is not None and found.low > self.believed:
            return WORSE
        if self.believed is not None and found.high < self.believed:
            return BETTER
        if evidence_of(found).trusted(found.ratio) is None:
            return FEW
        return NEW if self.believed is None else AS_BELIEVED


class Answer(NamedTuple):
    """What a dump says of a site's beliefs."""

    runs: int
    alone: Mapping[str, Alone]  # by application
    pairs: Sequence[Verdict]
    left_out: Mapping[str, int]  # and what does not count whole, by what is said of it

    def lines(self) -> Iterator[str]:
        """Yield the answer as text."""
        yield f"{self.runs} runs of {len(self.alone)} applications, {len(self.pairs)} pairs"
        yield from (f"{count} {text}" for text, count in self.left_out.items())
        if self.pairs:
            yield ""
            yield from align([_COLUMNS, *map(_cells, self.pairs)], {2, 3, 5})

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as plain values; what is open or unknown is None."""
        return {
            "runs": self.runs,
            "left_out": dict(self.left_out),
            "applications": [
                {"application": name, **alone._asdict(), "deviation": _finite(alone.deviation)}
                for name, alone in self.alone.items()
            ],
            "pairs": [
                {
                    "application": pair.application, "beside": pair.beside, "believed": pair.believed, "verdict": pair.word,
                    "ratio": pair.slowdown.ratio, "low": pair.slowdown.low or None, "high": _finite(pair.slowdown.high),
                    "number": pair.slowdown.number,
                }
                for pair in self.pairs
            ],
        }  # fmt: skip

    def table(self) -> CoRunTable:
        """Return the pairs as a table of co-runs: alone, a job takes as long on a part of each node as on the whole of it."""
        found = {(pair.application, pair.beside): pair.slowdown for pair in self.pairs}
        names = dict.fromkeys(name for pair in found for name in pair)
        return CoRunTable(
            tuple(names),
            {pair: possible(slowdown.ratio) for pair, slowdown in found.items()},
            dict.fromkeys(names, 1.0),
            evidence={pair: evidence_of(slowdown) for pair, slowdown in found.items()},
        )


def evidence_of(found: Slowdown) -> Evidence:
    """Return what a slowdown rests on, as a table has it."""
    return Evidence(found.number, found.low, found.high)


def answer_of(dump: Dump, site: Site, model: PairModel | None) -> Answer:
    """Return what a dump says of what a site believes: ``model``, if anything."""
    learned = runs_of(dump.rows, site.application_of)
    latest = {site.application_of(row): row for row in dump.rows}  # each application as its last job described it
    pairs = [
        Verdict(own, other, _believed(model, site, latest[own], latest[other]), slowdown)
        for (own, other), slowdown in slowdowns_of(learned.runs).items()
    ]
    return Answer(len(learned.runs), alone_of(learned.runs), pairs, {**dump.counts, **learned.counts})


def write_learned(file: str, table: CoRunTable) -> None:
    """Write a table of co-runs, in place of one that is there; UsageError where that cannot be done."""
    text = io.StringIO()
    write_table(text, table)
    try:
        with whole_file(file) as stream:
            stream.write(text.getvalue().encode())
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror or error}") from error


def dump_since(since: str, *, skip_bad_rows: bool) -> Dump:
    """Return what `sacct` says has happened since then; UsageError where it fails."""
    words, (name, form) = sacct_words(since), TIME_FORMAT
    try:
        done = subprocess.run(
            words, env={**os.environ, name: form}, capture_output=True, timeout=SACCT_S, check=False,
            text=True, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        raise UsageError(f"sacct: {error.strerror}; --sacct FILE reads its output from another machine") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"sacct: no answer in {SACCT_S:g} s; expected a later time in --since {since}") from error
    if done.returncode:
        raise UsageError(f"sacct: {' '.join(done.stderr.split())[:200]}")
    return dump_of("sacct", done.stdout, skip_bad_rows=skip_bad_rows)


def with_measured(machine: Welcome, site: Site, model: PairModel | None) -> Welcome:
    """Return what a manager says of its machine, with the note of a scheduler that has measured what a site's table says of pairs.

    ``model``: what the site believes. A belief that is `corrected` reads the note.
    """
    if site.measured is None:
        return machine
    from cosched_plugin.policies.belief.corrected import NOTE, Pair, correction_of  # noqa: PLC0415 - few sites have a table

    pairs = []
    for (own, other), ratio in site.measured.ratios.items():
        alone = site.measured.spreads.get(own, 1.0)
        number, low, high = site.measured.evidence.get((own, other), Evidence(1))
        error = math.log(high / low) / (2 * _TWO_SIDED) if 0 < low < high < math.inf else _ERROR
        one, two = (_typical(place, name, site) for place, name in ((1, own), (2, other)))
        pairs.append(Pair(one, two, ratio / alone, number, error))
    notes = [note for note in machine.notes if note.key != NOTE]
    return machine._replace(notes=(*notes, Note(None, NOTE, correction_of(pairs, model))))


def _typical(number: int, application: str, site: Site) -> JobSpec:
    """Return a job of an application, as the first rule describes it that makes jobs instances of it, or fits its name."""
    rules = [rule.traits for rule in site.rules if rule.traits.application == application]
    traits = rules[0] if rules else site.of_rules(_Named("", "", application))
    return JobSpec(
        number, 0, 1, max(1, traits.estimate_us), name=application,
        demand=traits.demand, usage=traits.usage, profile=traits.profile,
    )  # fmt: skip


class _Named(NamedTuple):
    user: str
    account: str
    name: str


def _believed(model: PairModel | None, site: Site, own: SacctRow, other: SacctRow) -> float | None:
    """Return what a model says of two jobs like these; None where it says nothing."""
    if model is None:
        return None
    one, two = (_spec(number, row, site) for number, row in ((1, own), (2, other)))
    if not (model.knows(one) and model.knows(two)):
        return None
    slowdown = model.slowdown(one, two)
    return slowdown if slowdown < math.inf else None


def _spec(number: int, row: SacctRow, site: Site) -> JobSpec:
    traits = site.of_rules(row)
    return JobSpec(
        number, 0, max(1, row.cpus), max(1, traits.estimate_us), user=row.user, name=site.application_of(row),
        demand=traits.demand, usage=traits.usage, profile=traits.profile,
    )  # fmt: skip


def _cells(pair: Verdict) -> Sequence[str]:
    found = pair.slowdown
    low = f"{found.low:.2f}" if found.low else "open"
    high = f"{found.high:.2f}" if found.high < math.inf else "open"
    believed = "-" if pair.believed is None else f"{pair.believed:.2f}"
    interval = f"{low} to {high}"
    return pair.application, pair.beside, believed, f"{found.ratio:.2f}", interval, str(found.number), pair.word


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
