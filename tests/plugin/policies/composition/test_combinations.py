"""Parts can be combined if all of their needs are met, and every combination that resolves is a valid policy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from random import Random

import pytest
from tests.plugin.policies.composition.combinations import (
    COMBINED,
    NODES_ALIKE,
    Combination,
    all_combinations,
    chunks_of,
    covering,
    play,
    refusals,
    resolving,
    table_of,
)
from tests.plugin.policies.harness import random_jobs, starts_under

from cosched_plugin.common.errors import PluginError
from cosched_plugin.parts.needs import MEANING, OF_SITE
from cosched_plugin.policies.composition.catalogue import KINDS
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.composition.resolved import members, resolve
from cosched_plugin.testing.check import check_policy

CHUNKS = 4
SLOW_CHUNKS = 16

# ---------------------------------------------------------------- which resolve


def test_every_part_is_in_a_combination_that_resolves() -> None:
    assert 0 < len(resolving()) < len(all_combinations())
    used = {part for combination in resolving() for part in table_of(combination).items()}
    assert used == {(kind, name) for kind in COMBINED for name in KINDS[kind]}


def test_every_refusal_names_a_part_and_a_need() -> None:
    for combination, refusal in refusals().items():
        if not refusal:
            continue
        match = re.fullmatch(
            r"policy: (\S+) (\S+) needs ([a-z ]+) \((.+)\), which no part here provides; (.+) would", refusal
        )
        assert match is not None, refusal
        kind, name, need, meaning, providers = match.groups()
        table = table_of(combination)
        assert table[kind] == name
        assert MEANING[need] == meaning
        for provider in providers.split(" or "):  # each of them would meet this need
            kind, _, name = provider.partition(" ")
            assert need in provided_by(kind, name), refusal


@cache
def provided_by(kind: str, name: str) -> frozenset[str]:
    """Return what a part provides in a composition that resolves."""
    composition = next(resolve(table_of(one)) for one in resolving() if table_of(one)[kind] == name)
    return {member.kind: member.provides for member in members(composition)}[kind]


def test_a_combination_resolves_exactly_if_its_needs_are_met() -> None:
    """The rule, written independently: a combination resolves if its parts provide every need that the site does not provide."""
    provides: dict[tuple[str, str], frozenset[str]] = {}
    needs: dict[tuple[str, str], frozenset[str]] = {}
    for combination in resolving():
        for member in members(resolve(table_of(combination))) if _is_new(combination, provides) else ():
            provides[member.kind, member.name] = member.provides
            needs[member.kind, member.name] = member.needs
    for combination, refusal in refusals().items():
        parts = list(table_of(combination).items())
        provided = frozenset().union(*(provides[part] for part in parts))
        missing = frozenset().union(*(needs[part] for part in parts)) - provided - OF_SITE
        assert bool(missing) == bool(refusal), combination


def _is_new(combination: Combination, known: Mapping[tuple[str, str], object]) -> bool:
    return any(part not in known for part in table_of(combination).items())


def test_the_covering_set_has_all_pairs_that_resolve() -> None:
    def pairs(combinations: list[Combination]) -> set[tuple[int, str, int, str]]:
        kinds = range(len(COMBINED))
        return {(i, one[i], j, one[j]) for one in combinations for i in kinds for j in kinds if i < j}

    assert pairs(covering()) == pairs(resolving())
    assert len(covering()) < len(resolving()) / 50


# ---------------------------------------------------------------- combinations that resolve


def assert_sound(combinations: list[tuple[int, Combination]], sites: int) -> None:
    """Assert that these combinations pass the conformance check; all that fail are named."""
    failed = []
    for number, combination in combinations:
        try:
            report = play(combination, number, sites)
        except PluginError as error:
            failed.append(f"{'/'.join(combination)} (number {number}): {error}")
            continue
        if report.decisions < report.jobs / 2:
            failed.append(f"{'/'.join(combination)} (number {number}): {report}")
    assert not failed, "\n".join([f"{len(failed)} of {len(combinations)} combinations fail:", *failed])


@pytest.mark.by_default(1)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_all_pairs_of_parts_work(chunk: int) -> None:
    assert_sound(chunks_of(covering(), chunk, CHUNKS), 1)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(SLOW_CHUNKS))
def test_all_combinations_work(chunk: int) -> None:
    assert_sound(chunks_of(resolving(), chunk, SLOW_CHUNKS), 2)


def test_a_class_decides_again_where_a_guest_changes_its_order() -> None:
    """A long job starts as a guest, which changes the mean wait, so that another job of the slice's class comes first."""
    table = {"preset": "pss", "backfill": "none", "matching": "u2", "slices": "classes"}
    assert check_policy(lambda: compose(table), seed=3, first=20, runs=1).decisions > 0


def test_a_start_does_not_change_how_promises_are_planned() -> None:
    """When the last job with special requests starts, the next pass must not count nodes where this pass named them."""
    table = {"backfill": "conservative", "shape": "nodes", "fairness": "slack"}
    assert check_policy(lambda: compose(table), seed=NODES_ALIKE, first=18, runs=1).decisions > 0


def test_a_job_passed_over_may_join_one_that_starts_behind_it() -> None:
    """Nodes are out of service, and one job needs them; another scan of the queue puts it beside a job behind it."""
    parts = ("widest", "easy", "nodes", "spread", "guests", "slack", "none")
    assert check_policy(lambda: compose(table_of(parts)), seed=NODES_ALIKE, first=15, runs=1).decisions > 0


# ---------------------------------------------------------------- compared with known schedules


@pytest.mark.parametrize("estimates", ["exact", "over", "over and under"])
@pytest.mark.parametrize("backfill", ["none", "easy", "sjbf", "conservative", "rua"])
def test_whole_nodes_of_one_core_schedule_like_threads(backfill: str, estimates: str) -> None:
    placement = "lessconsume" if backfill == "rua" else "first-fit"
    for seed in range(2):
        jobs = random_jobs(Random(f"{seed} {backfill} {estimates}"), 8, estimates)
        table = {"backfill": backfill, "placement": placement}
        assert starts_under({**table, "shape": "nodes"}, jobs, 8) == starts_under(table, jobs, 8)


@pytest.mark.parametrize("placement", ["packed", "lessconsume", "lessconsume-threshold"])
@pytest.mark.parametrize("backfill", ["none", "easy", "sjbf", "conservative"])
def test_without_demand_equal_nodes_make_placements_equal(backfill: str, placement: str) -> None:
    if backfill == "conservative" and placement != "packed":
        return  # refused: it needs fixed run times
    for seed in range(2):
        jobs = random_jobs(Random(f"{seed} {backfill} {placement}"), 16, "over and under")
        table = {"backfill": backfill, "shape": "nodes"}
        expected = starts_under({**table, "placement": "first-fit"}, jobs, 16, 4)
        assert starts_under({**table, "placement": placement}, jobs, 16, 4) == expected


def test_rua_without_demand_is_sjbf_on_whole_nodes() -> None:
    for seed in range(4):
        jobs = random_jobs(Random(f"{seed} rua"), 16, "over")
        rua = starts_under({"backfill": "rua", "shape": "nodes", "placement": "lessconsume"}, jobs, 16, 4)
        assert rua == starts_under({"backfill": "sjbf", "shape": "nodes"}, jobs, 16, 4)


@pytest.mark.parametrize("estimates", ["exact", "over"])
def test_promises_by_name_and_by_count_give_the_same_starts(estimates: str) -> None:
    """For jobs that fill their nodes, promises of named nodes and promises of node counts give the same starts."""
    for seed in range(4):
        jobs = [
            job._replace(processors=4 * job.processors) for job in random_jobs(Random(f"{seed} by name"), 6, estimates)
        ]
        table = {"backfill": "conservative", "shape": "nodes"}
        by_name = starts_under({**table, "placement": "first-fit"}, jobs, 24, 4)
        assert by_name == starts_under({**table, "placement": "spread"}, jobs, 24, 4)


def test_the_next_job_rises_where_the_one_that_rose_is_rejected() -> None:
    """One job rises at a time: once it is rejected, the lift is another one's, which may then start at the same instant."""
    table = {
        "preset": "easy", "order": "class-one-rises", "backfill": "none", "placement": "lessconsume-threshold",
        "matching": "first", "shape": "nodes",
    }  # fmt: skip
    assert check_policy(lambda: compose(table), seed=3, first=13, runs=1).decisions > 0


def test_promises_follow_a_clock_that_goes_back() -> None:
    """The clock of a class does where all jobs have ended before its slice: the rest of the slice is not counted."""
    table = {
        "preset": "conservative", "order": "class-priority", "shape": "nodes", "placement": "least-loaded", "fairness": "slack",
        "slices": "classes",
    }  # fmt: skip
    assert check_policy(lambda: compose(table), seed=NODES_ALIKE, first=16, runs=1).decisions > 0


def test_hosts_are_looked_for_again_where_nodes_open_to_a_class() -> None:
    table = {
        "preset": "easy", "order": "class-one-rises", "shape": "nodes", "placement": "buddy", "matching": "guests",
        "slices": "classes",
    }  # fmt: skip
    assert check_policy(lambda: compose(table), seed=3, first=13, runs=1).decisions > 0
