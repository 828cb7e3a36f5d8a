"""The tables of a site that bind jobs: partitions, accounts, limits; and what a scenario's jobs need of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from cosched_emulator.bounds import AtLeastOne, Choice, DurationAboveZero, between
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.limits import Partition, Rules, nodes_of
from cosched_emulator.workload.job import WARNING, Workload
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_hwmodel.quick_classes import frozen
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.limits import UNBOUND, Limit, Limited

EACH: tuple[str, ...] = ("user", "account")


@frozen
class PartitionEntry:
    """A part of the machine with a name, which jobs name; parts may overlap."""

    name: Annotated[str, "its name, which jobs give as `partition`"]
    nodes: Annotated[str | None, "its nodes, such as `0-15;32`; default: all"] = None
    max_nodes: Annotated[AtLeastOne | None, "most nodes of a job; a job that needs more is refused"] = None
    max_time_s: Annotated[
        DurationAboveZero | None, "longest limit of a job, or longest estimate of a job without a limit"
    ] = None
    tier: Annotated[
        Annotated[int, between(0, 65_533, "a whole number")],
        "its jobs come before those of a lower tier, under a policy that uses priorities",
    ] = 1
    default: Annotated[bool, "it is the partition of jobs that name none"] = False


@frozen
class AccountEntry:
    """An account, and the one above it, whose limits bind its jobs, too."""

    name: Annotated[str, "its name, which jobs give as `account`"]
    parent: Annotated[str, "the account above it"]


@frozen
class LimitEntry:
    """At most so much at a time, of the jobs that have all the facts given here."""

    each: Annotated[
        str | None,
        Choice(EACH),
        '`"user"` or `"account"`: the limit holds for each of them; default: for all jobs together',
    ] = None
    user: Annotated[str, "limit the jobs of this user; empty: of any user"] = ""
    account: Annotated[str, "limit the jobs of this account and the accounts below it; empty: of any account"] = ""
    qos: Annotated[str, "limit the jobs of this QOS; empty: of any QOS"] = ""
    partition: Annotated[
        str, "limit the jobs of this partition (a job counts in the first that it names); empty: of any partition"
    ] = ""
    jobs: Annotated[AtLeastOne | None, "most jobs at a time; give at least one of `jobs`, `cpus`, `gpus`, `nodes`"] = (
        None
    )
    cpus: Annotated[
        AtLeastOne | None,
        "most threads at a time: processes times threads of each; all of its nodes for an exclusive job",
    ] = None
    gpus: Annotated[AtLeastOne | None, "most resources with the name `gpu` at a time"] = None
    nodes: Annotated[AtLeastOne | None, "most nodes at a time; a job counts with the fewest that it fits on"] = None


def build_rules(
    parts: Sequence[PartitionEntry], accounts: Sequence[AccountEntry], most: Sequence[LimitEntry], nodes: int
) -> Rules:
    """Return the tables of a scenario, for a machine of so many nodes. Raises ConfigurationError."""
    partitions: dict[str, Partition] = {}
    for number, entry in enumerate(parts):
        path = f"partitions[{number}]"
        if entry.name in partitions or not entry.name:
            raise ConfigurationError(f"{path}.name", "another name for each partition", repr(entry.name))
        if entry.default and any(partition.default for partition in partitions.values()):
            raise ConfigurationError(f"{path}.default", "one default partition", "a second one")
        time_us = None if entry.max_time_s is None else round(entry.max_time_s * SECOND_US)
        ranges = nodes_of(entry.nodes, nodes, f"{path}.nodes")
        partitions[entry.name] = Partition(
            entry.name, ranges, entry.max_nodes, time_us, entry.tier, default=entry.default
        )
    parents: dict[str, str] = {}
    for number, account in enumerate(accounts):
        if account.name in parents:
            raise ConfigurationError(f"accounts[{number}].name", "each account once", repr(account.name))
        parents[account.name] = account.parent
    limits = tuple([_limit(entry, f"limits[{number}]", partitions) for number, entry in enumerate(most)])
    return Rules(partitions, parents, limits)


def _limit(entry: LimitEntry, path: str, partitions: Iterable[str]) -> Limit:
    most = Limited(*[UNBOUND if (value := getattr(entry, name)) is None else value for name in Limited._fields])
    if most == Limited():
        raise ConfigurationError(path, f"at least one of {', '.join(Limited._fields)}", "none")
    if entry.partition and partitions and entry.partition not in partitions:
        raise ConfigurationError.unknown_name(f"{path}.partition", entry.partition, partitions)
    return Limit(most, entry.each or "", entry.user, entry.account, entry.qos, entry.partition)


def unknown_partitions(workload: Workload, rules: Rules) -> str | None:
    """Return a warning of jobs that name partitions that there are not; None: no job does."""
    jobs = columns_of(workload.jobs)
    if not rules.partitions or not jobs.says("partitions"):
        return None
    unknown = sorted({name for names in set(jobs.each(jobs.partitions)) for name in names} - rules.partitions.keys())
    named = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
    text = f"{WARNING}no [[partitions]] has the names that jobs give: {named}; jobs that give no other are refused"
    return text if unknown else None
