"""What a site says of itself: its nodes' bandwidths, its belief about contention, which jobs are cosched's, and what these ask for.

A TOML file (docs/slurm.md has an example). What a job asks of its nodes comes from its comment, if that is a JSON map with the keys of
`_OF_JOBS`, or else from the first rule of the file that fits the job. A job of which neither says anything is unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from reprlib import repr as short_repr  # a comment may be long, or deeply nested
from typing import Any, Final, NamedTuple

from cosched_hwmodel.composite.job_profile import MOST, Profile, ProfileError, checked
from cosched_hwmodel.text_formats import read_toml
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM
from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.slurm_notation import expand
from cosched_plugin.protocol.messages import Belief, DemandTuple, NoteValue, UsageTuple
from cosched_plugin.protocol.values import frozen
from cosched_plugin.slurm.records import SlurmJob

_OF_JOBS: Final = ("estimate_s", "demand", "usage", "profile")
_BOUNDS: Final = ("cpu", "network", "disk")
_RATES: Final = ("memory_bandwidth_mbs", "network_mbs", "disk_mbs")
MOST_ESTIMATE_S: Final = 10.0 * 365 * 86400


class Traits(NamedTuple):
    """What is known of a job's run time, and of what its processes ask of their nodes."""

    estimate_us: int = 0  # 0: unknown
    demand: DemandTuple | None = None
    usage: UsageTuple | None = None
    profile: Profile | None = None

    @property
    def known(self) -> bool:
        """Tell whether anything is known of what it asks of its nodes."""
        return self.demand is not None or self.usage is not None or self.profile is not None


class Rule(NamedTuple):
    """Traits of the jobs that fit all of its patterns."""

    patterns: Mapping[str, re.Pattern[str]]  # by `user`, `account` or `name`
    traits: Traits

    def fits(self, job: SlurmJob) -> bool:
        """Return whether the whole of each text fits its pattern."""
        return all(pattern.fullmatch(getattr(job, key)) for key, pattern in self.patterns.items())


class Site(NamedTuple):
    """A site file; without one, everything in the partition is cosched's, and nothing is known of any job."""

    partitions: tuple[str, ...] = ()  # whose jobs are ours; none: the default of the command
    ours: Mapping[str, re.Pattern[str]] = {}  # patterns that a job of ours fits, by `user`, `account` or `name`
    unknown_alone: bool | None = None  # whether unknown jobs get whole nodes; None: where the belief asks about them
    share: int = 0  # jobs that may be on a core; 0: as partition and policy say
    nodes: tuple[tuple[frozenset[str], Mapping[str, int]], ...] = ()  # rates in MB/s of named nodes
    rates: Mapping[str, int] = {}  # of all others
    belief: Belief = Belief("none", "bulk-synchronous", ())
    default_us: int = 24 * 3600 * SECOND_US  # the estimate of a job without limit
    rules: tuple[Rule, ...] = ()

    def is_ours(self, job: SlurmJob) -> bool:
        """Return whether a job is one that cosched decides about."""
        return job.partition in self.partitions and Rule(self.ours, Traits()).fits(job)

    def rates_of(self, node: str) -> Mapping[str, int]:
        """Return the bandwidths of a node, in MB/s; those that are missing are unknown."""
        return {**self.rates, **next((rates for names, rates in self.nodes if node in names), {})}

    # A comment is its user's: what is wrong in it makes the job an unknown one, and is told, but is no error of the site's.
    def traits_of(self, job: SlurmJob) -> tuple[Traits, str]:
        """Return what is known of a job, and what is wrong with its comment."""
        of_rule = next((rule.traits for rule in self.rules if rule.fits(job)), Traits())
        if not job.comment.lstrip().startswith("{"):
            return of_rule, ""
        try:
            table = json.loads(job.comment)
            told = _traits(_Table("comment", {key: table[key] for key in _OF_JOBS if key in table}))
        except UsageError as error:
            return of_rule, str(error)
        except ValueError as error:
            return of_rule, f"its comment is no JSON: {error}"
        except RecursionError:
            return of_rule, "its comment is nested too deeply"
        return Traits(
            told.estimate_us or of_rule.estimate_us,
            told.demand or of_rule.demand,
            told.usage or of_rule.usage,
            told.profile or of_rule.profile,
        ), ""


def read_site(file: str | None) -> Site:
    """Return what a file says; UsageError names the file and the key."""
    if file is None:
        return Site()
    try:
        content = read_toml(file)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file}: not a TOML file: {error}") from error
    top = _Table(file, content)
    ours, machine, belief = top.table("ours"), top.table("machine"), top.table("belief")
    classes = [(table.nodes("nodes"), _rates(table)) for table in machine.tables("class")]
    site = Site(
        tuple(ours.texts("partitions")),
        _patterns(ours),
        ours.flag("unknown_alone"),
        machine.whole("share", 0, 0, 4),
        tuple(classes),
        _rates(machine),
        Belief(
            belief.text("contention", "none"),
            belief.text("composition", "bulk-synchronous"),
            tuple(belief.texts("resources")),
            _parameters(belief),
        ),
        int(top.number("default_estimate_s", 86_400.0, 1e-3, MOST_ESTIMATE_S) * SECOND_US),
        tuple(Rule(_patterns(table), _traits(table)) for table in top.tables("jobs")),
    )
    top.end()
    return site


class _Table:
    """A table of a file, each of whose keys is taken once; `end` refuses those that were not."""

    def __init__(self, path: str, content: Any) -> None:
        if not isinstance(content, Mapping):
            raise UsageError(f"{path}: expected a table, got {short_repr(content)}")
        self.path = path
        self._left = dict(content)
        self._inner: list[_Table] = []

    def wrong(self, key: str, expected: str, value: object) -> UsageError:
        return UsageError(f"{self.path}: {key}: expected {expected}, got {short_repr(value)}")

    def take(self, key: str, default: Any = None) -> Any:
        return self._left.pop(key, default)

    def text(self, key: str, default: str) -> str:
        value = self.take(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, "a text", value)
        return value

    def nodes(self, key: str) -> frozenset[str]:
        value = self.text(key, "")
        try:
            return frozenset(expand(value))
        except ValueError as error:
            raise self.wrong(key, f"nodes such as n[0-3,7] ({error})", value) from error

    def texts(self, key: str) -> Sequence[str]:
        value = self.take(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(key, "a list of texts", value)
        return value

    def flag(self, key: str) -> bool | None:
        value = self.take(key)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(key, "true or false", value)
        return value

    def number(self, key: str, default: float, least: float, most: float) -> float:
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise self.wrong(key, f"a number from {least:g} to {most:g}", value)
        return float(value)

    def whole(self, key: str, default: int, least: int, most: int) -> int:
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(key, f"a whole number from {least} to {most}", value)
        return value

    def table(self, key: str) -> _Table:
        inner = _Table(f"{self.path}: {key}", self.take(key, {}))
        self._inner.append(inner)
        return inner

    def tables(self, key: str) -> Sequence[_Table]:
        value = self.take(key, [])
        if not isinstance(value, list):
            raise self.wrong(key, f"tables [[{key}]]", value)
        found = [_Table(f"{self.path}: {key} {number}", item) for number, item in enumerate(value, 1)]
        self._inner.extend(found)
        return found

    def has(self, key: str) -> bool:
        return key in self._left

    def end(self) -> None:
        for key in self._left:
            raise UsageError(f"{self.path}: no such key {key!r}")
        for inner in self._inner:
            inner.end()


def _rates(table: _Table) -> dict[str, int]:
    return {name: table.whole(name, 0, 0, 1 << 40) for name in _RATES if table.has(name)}


def _patterns(table: _Table) -> dict[str, re.Pattern[str]]:
    found = {}
    for key in ("user", "account", "name"):
        if table.has(key):
            text = table.text(key, "")
            try:
                found[key] = re.compile(text)
            except re.error as error:
                raise table.wrong(key, f"a regular expression ({error})", text) from error
    return found


def _parameters(table: _Table) -> tuple[tuple[str, NoteValue], ...]:
    value = table.take("parameters", {})
    if not isinstance(value, Mapping):
        raise table.wrong("parameters", "a table", value)
    return tuple((str(key), frozen(item)) for key, item in value.items())


def _traits(table: _Table) -> Traits:
    """Return the traits in a table of the file, or in a job's comment."""
    estimate_s = table.number("estimate_s", 0.0, 0.0, MOST_ESTIMATE_S)
    demand = profile = None
    if table.has("demand"):
        inner = table.table("demand")
        demand = (
            inner.whole("memory_mbs", 0, 0, 1 << 40),
            inner.whole("network_mbs", 0, 0, 1 << 40),
            inner.whole("disk_mbs", 0, 0, 1 << 40),
        )
        inner.end()
    usage = _usage(table.table("usage")) if table.has("usage") else None
    if table.has("profile"):
        inner = table.table("profile")
        given = {name: inner.whole(name, 0, 0, most) for name, most in MOST.items() if inner.has(name)}
        inner.end()
        try:
            profile = checked(Profile(**given))
        except ProfileError as error:
            raise UsageError(f"{table.path}: profile: {error}") from error
    return Traits(round(estimate_s * SECOND_US), demand, usage, profile)


def _usage(table: _Table) -> UsageTuple:
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
