"""What a site says of itself: its nodes' bandwidths, its belief about contention, which jobs are cosched's, and what these ask for.

A TOML file (docs/slurm.md has an example). What a job asks of its nodes comes from its comment, if that is a JSON map with the keys of
`_OF_JOBS`, or else from the first rule of the file that fits the job. A job of which neither says anything is unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from cosched_hwmodel.composite.job_profile import MOST, Profile, ProfileError, checked
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM
from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.slurm_notation import natural
from cosched_plugin.protocol.messages import Belief, DemandTuple, UsageTuple
from cosched_plugin.site.site_table import MOST_AMOUNT, Table, amounts_in, belief_in, co_runs_in, table_of
from cosched_plugin.slurm.records import SlurmJob

if TYPE_CHECKING:
    from cosched_hwmodel.measured.co_run_table import CoRunTable

_OF_JOBS: Final = ("estimate_s", "demand", "usage", "profile")
_BOUNDS: Final = ("cpu", "network", "disk")
_RATES: Final = ("memory_bandwidth_mbs", "network_mbs", "disk_mbs")
_DEMAND: Final = ("memory_mbs", "network_mbs", "disk_mbs")
MOST_ESTIMATE_S: Final = 10.0 * 365 * 86400


class Traits(NamedTuple):
    """What is known of a job's run time, and of what its processes ask of their nodes."""

    estimate_us: int = 0  # 0: unknown
    demand: DemandTuple | None = None
    usage: UsageTuple | None = None
    profile: Profile | None = None
    application: str = ""  # what such jobs are instances of; empty: their names say

    @property
    def known(self) -> bool:
        """Tell whether anything is known of what it asks of its nodes."""
        return self.demand is not None or self.usage is not None or self.profile is not None


class Named(Protocol):
    """A job as Slurm's REST interface or its accounting shows it."""

    @property
    def user(self) -> str:
        """Return who submitted it."""

    @property
    def account(self) -> str:
        """Return the account that pays."""

    @property
    def name(self) -> str:
        """Return its name."""


class Rule(NamedTuple):
    """Traits of the jobs that fit all of its patterns."""

    patterns: Mapping[str, re.Pattern[str]]  # by `user`, `account` or `name`
    traits: Traits

    def fits(self, job: Named) -> bool:
        """Return whether the whole of each text fits its pattern."""
        return all(pattern.fullmatch(getattr(job, key)) for key, pattern in self.patterns.items())


class Site(NamedTuple):
    """A site file; without one, everything in the partition is cosched's, and nothing is known of any job."""

    partitions: tuple[str, ...] = ()  # whose jobs are ours; none: the default of the command
    ours: Mapping[str, re.Pattern[str]] = {}  # patterns that a job of ours fits, by `user`, `account` or `name`
    unknown_alone: bool | None = None  # whether unknown jobs get whole nodes; None: where the belief asks about them
    guests: Mapping[str, str] = {}  # the partition in which the guests of a partition's jobs start, by its name
    share: int = 0  # jobs that may be on a core; 0: as partition and policy say
    nodes: tuple[tuple[frozenset[str], Mapping[str, int]], ...] = ()  # rates in MB/s of named nodes
    rates: Mapping[str, int] = {}  # of all others
    belief: Belief = Belief("none", "bulk-synchronous", ())
    measured: CoRunTable | None = None  # what came out of pairs, to correct the belief by
    default_us: int = 24 * 3600 * SECOND_US  # the estimate of a job without limit
    rules: tuple[Rule, ...] = ()

    def partitions_of(self, job: SlurmJob) -> list[str]:
        """Return those of a job's partitions that are ours, in its order."""
        return [name for name in job.partitions if name in self.partitions]

    def is_ours(self, job: SlurmJob) -> bool:
        """Return whether a job is one that cosched decides about."""
        return self.foreign(job) == ""

    def foreign(self, job: SlurmJob) -> str:
        """Return why cosched does not decide about a job; empty where it does."""
        if not self.partitions_of(job):
            return f"its partition is {job.partition}, and cosched has {', '.join(self.partitions)}"
        return "" if Rule(self.ours, Traits()).fits(job) else "it fits no pattern of [ours] in the site file"

    def home_of(self, partition: str) -> str:
        """Return the partition in which users submit jobs that are in this one."""
        return next((host for host, guest in self.guests.items() if guest == partition), partition)

    def with_partitions(self, partitions: Sequence[str], guests: Iterable[str]) -> Site:
        """Return the site with these partitions, and as ``co:guest`` those of their guests; UsageError."""
        found = dict(self.guests)
        for text in guests:
            host, _, guest = text.partition(":")
            if not host or not guest or host == guest or ":" in guest:
                raise UsageError(f"guests {text}: expected HOST:GUEST, two partitions over the same nodes")
            found[host] = guest
            if len({*found, *found.values()}) < 2 * len(found):
                raise UsageError(f"guests {text}: each partition needs one of its own for its guests")
        every = dict.fromkeys([*(partitions or self.partitions), *found, *found.values()])
        return self._replace(partitions=tuple(every), guests=found)

    def rates_of(self, node: str) -> tuple[int, int, int]:
        """Return the bandwidths of a node in MB/s: memory, network, disk; 0: unknown."""
        rates = {**self.rates, **next((rates for names, rates in self.nodes if node in names), {})}
        memory_mbs, network_mbs, disk_mbs = (rates.get(name, 0) for name in _RATES)
        return memory_mbs, network_mbs, disk_mbs

    def strangers(self, there: Iterable[str]) -> list[str]:
        """Return the named nodes that are not ``there``."""
        return sorted(frozenset().union(*(names for names, _ in self.nodes)).difference(there), key=natural)

    def of_rules(self, job: Named) -> Traits:
        """Return what the first rule that fits a job says of it."""
        return next((rule.traits for rule in self.rules if rule.fits(job)), Traits())

    def application_of(self, job: Named) -> str:
        """Return what a job is an instance of: the name by which beliefs know it."""
        return self.of_rules(job).application or job.name

    # A comment is its user's: what is wrong in it makes the job an unknown one, and is told, but is no error of the site's.
    def traits_of(self, job: SlurmJob) -> tuple[Traits, str]:
        """Return what is known of a job, and what is wrong with its comment."""
        of_rule = self.of_rules(job)
        if not job.comment.lstrip().startswith("{"):
            return of_rule, ""
        try:
            table = json.loads(job.comment)
            own = _traits(Table("comment", {key: table[key] for key in _OF_JOBS if key in table}))
        except UsageError as error:
            return of_rule, str(error)
        except ValueError as error:
            return of_rule, f"its comment is no JSON: {error}"
        except RecursionError:
            return of_rule, "its comment is nested too deeply"
        return Traits(
            own.estimate_us or of_rule.estimate_us,
            own.demand or of_rule.demand,
            own.usage or of_rule.usage,
            own.profile or of_rule.profile,
            of_rule.application,
        ), ""


def read_site(file: str | None) -> Site:
    """Return what a file says; UsageError names the file and the key."""
    if file is None:
        return Site()
    top = table_of(file)
    ours, machine, belief = (top.table(name) for name in ("ours", "machine", "belief"))
    measured = belief.text("measured", "")
    classes = [(table.nodes("nodes"), amounts_in(table, _RATES)) for table in machine.tables("class")]
    site = Site(
        tuple(ours.texts("partitions")),
        _patterns(ours),
        ours.flag("unknown_alone"),
        {},
        machine.whole("share", 0, 0, 4),
        tuple(classes),
        amounts_in(machine, _RATES),
        belief_in(belief, file),
        co_runs_in(Path(file).parent / measured) if measured else None,
        int(top.number("default_estimate_s", 86_400.0, 1e-3, MOST_ESTIMATE_S) * SECOND_US),
        tuple(Rule(_patterns(table), _traits(table)) for table in top.tables("jobs")),
    )
    site = site.with_partitions((), ours.texts("guests"))
    top.end()
    return site


def _patterns(table: Table) -> dict[str, re.Pattern[str]]:
    found = {}
    for key in ("user", "account", "name"):
        if table.has(key):
            text = table.text(key, "")
            try:
                found[key] = re.compile(text)
            except re.error as error:
                raise table.wrong(key, f"a regular expression ({error})", text) from error
    return found


def _traits(table: Table) -> Traits:
    """Return the traits in a table of the file, or in a job's comment."""
    estimate_s = table.number("estimate_s", 0.0, 0.0, MOST_ESTIMATE_S)
    demand = profile = None
    if table.has("demand"):
        inner = table.table("demand")
        memory_mbs, network_mbs, disk_mbs = (inner.whole(name, 0, 0, MOST_AMOUNT) for name in _DEMAND)
        inner.end()
        demand = memory_mbs, network_mbs, disk_mbs
    usage = _usage(table.table("usage")) if table.has("usage") else None
    if table.has("profile"):
        inner = table.table("profile")
        given = {name: inner.whole(name, 0, 0, most) for name, most in MOST.items() if inner.has(name)}
        inner.end()
        try:
            profile = checked(Profile(**given))
        except ProfileError as error:
            raise UsageError(f"{table.path}: profile: {error}") from error
    return Traits(round(estimate_s * SECOND_US), demand, usage, profile, table.text("application", ""))


def _usage(table: Table) -> UsageTuple:
    bound = table.text("bound", "cpu")
    if bound not in _BOUNDS:
        raise table.wrong("bound", " or ".join(_BOUNDS), bound)
    shares = [round(table.number(name, 0.0, 0.0, 1.0) * WHOLE_PPM) for name in (*_BOUNDS, "memory")]
    table.end()
    if sum(shares[:3]) != WHOLE_PPM:
        raise table.wrong(
            "cpu, network and disk", "parts that add up to 1", [share / WHOLE_PPM for share in shares[:3]]
        )
    return bound, shares[0], shares[1], shares[2], shares[3]
