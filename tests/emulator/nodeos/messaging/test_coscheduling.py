"""Coscheduling policies: what they have in common at the ends of their parameters, advice, classes of others, refusals."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from cosched_emulator.errors import ConfigurationError, CoschedulingError
from cosched_emulator.nodeos import programs
from cosched_emulator.nodeos.coscheduling.policies import ForeignPolicy, make_policy
from cosched_emulator.nodeos.coscheduling.protocol import CoschedulingPolicy
from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.simulated_process import Process

NODES = 4
Parameters = tuple[tuple[str, object], ...]


def exchange(rank: int) -> tuple[programs.Operation, ...]:
    after, before = (rank + 1) % NODES, (rank - 1) % NODES
    near = (programs.Compute(2_000, 300_000), programs.Send(after, 3_000), programs.Receive(before))
    return (
        *near,
        programs.CollectiveBegins(),
        programs.Send(before, 40_000),
        programs.Receive(after),
        programs.CollectiveEnds(),
    )


def cluster_under(policy: str, parameters: Parameters = (), seed: int = 1, **others: int) -> ExactCluster:
    settings = NodeSettings(
        local="linux-epochs",
        coscheduling=policy,
        coscheduling_parameters=parameters,
        receive_cpu_us=2,
        rendezvous_bytes=16_000,
        interrupt_us=5,
        daemon_us=2_000,
        **others,
    )
    cluster = ExactCluster(settings, NODES, seed)
    for job in range(3):
        cluster.start(job, programs.Program((programs.Loop(10_000, programs.ByRank(exchange)),)), range(NODES))
    cluster.allow(0, {node: [0, 1, 2] for node in range(NODES)})
    return cluster


def one_waits(policy: str, parameters: Parameters = (), counter: int = 5) -> tuple[ExactCluster, Process, Process]:
    """Return a node on which a process computes while another one polls, whose message has come at 1 ms."""
    settings = NodeSettings(local="linux-epochs", coscheduling=policy, coscheduling_parameters=parameters)
    cluster = ExactCluster(settings, 2, seed=1)
    waits = programs.ByRank(
        lambda rank: (
            (programs.Receive(1), programs.Compute(10_000))
            if rank == 0
            else (programs.Compute(900), programs.Send(0, 0))
        )
    )
    cluster.start(0, programs.Program((programs.Loop(1, waits),)), (0, 1))
    cluster.start(1, programs.Program((programs.Loop(1, (programs.Compute(10**6),)),)), (0,))
    waiting, computing = cluster.jobs[0].processes[0], cluster.jobs[1].processes[0]
    waiting.counter, computing.counter = counter, 6
    cluster.allow(0, {0: [1, 0], 1: [0]})
    assert cluster.cpus[0].current is computing
    cluster.advance(1_000)
    return cluster, waiting, computing


@pytest.mark.parametrize("policy", ["dcs", "pb"])
def test_advice_does_not_count_without_ticks(policy: str) -> None:
    cluster, _, computing = one_waits(policy, counter=0)
    cluster.advance(30_000)
    assert cluster.cpus[0].current is computing


def test_pb_can_ignore_ticks() -> None:
    cluster, waiting, _ = one_waits("pb", (("interval_us", 20_000), ("ignore_counters", True)), counter=0)
    cluster.advance(45_000)
    assert waiting.consumed_us >= 10_000


class Newest(CoschedulingPolicy):
    """A policy from outside: blocks, and the job that started last goes first."""

    advises = True

    def __init__(self, spin_us: int = 0) -> None:
        self._spin_us = spin_us

    def waits(self, process: Process, waiting: int) -> int:
        """Return the parameter."""
        return self._spin_us

    def advise(self, runnable: Sequence[Process], current: Process | None) -> Process | None:
        """Return the process of the job with the largest number."""
        return max(runnable, key=lambda process: process.job.number, default=None)


def test_a_policy_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{__name__}:Newest"
    cluster = cluster_under(path, (("spin_us", 10),))
    cluster.advance(1_000_000)
    assert cluster.useful_us(2) > 1.2 * cluster.useful_us(0)

    def installed(group: str) -> EntryPoints:
        return (
            EntryPoints([EntryPoint("newest", path, "cosched.coscheduling")])
            if group == "cosched.coscheduling"
            else EntryPoints()
        )

    monkeypatch.setattr("importlib.metadata.entry_points", installed)
    made = make_policy("newest")
    assert isinstance(made, ForeignPolicy)
    assert isinstance(made.policy, Newest)
    with pytest.raises(ConfigurationError, match="did you mean 'newest'"):
        make_policy("newst")


class Faulty(CoschedulingPolicy):
    """A policy from outside, one of whose hooks raises an error or answers nonsense."""

    advises = wants_arrivals = True
    interval_us = 10_000

    def __init__(self, hook: str, answer: str = "") -> None:
        def wrong(*given: Any) -> object:
            if answer == "changes":
                given[0].clear()
            return {"text": "soon", "below": -1, "true": True, "number": 3}[answer]

        setattr(self, hook, 1.5 if answer == "fraction" else wrong)


@pytest.mark.parametrize("hook", ["waits", "arrived", "tick", "collective", "advise", "chosen"])
def test_an_error_in_a_hook_of_others_names_policy_and_hook(hook: str) -> None:
    with pytest.raises(CoschedulingError) as raised:
        cluster_under(f"{__name__}:Faulty", (("hook", hook),)).advance(1_000_000)
    assert str(raised.value) == f"coscheduling {__name__}:Faulty, {hook}: KeyError: ''"
    assert raised.value.exit_code == 4
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@pytest.mark.parametrize(
    ("hook", "answer", "text"),
    [
        ("waits", "text", "waits: expected 0, a whole number of microseconds, or FOREVER, got 'soon'"),
        ("waits", "below", "waits: expected 0, a whole number of microseconds, or FOREVER, got -1"),
        ("waits", "true", "waits: expected 0, a whole number of microseconds, or FOREVER, got True"),
        ("advise", "number", "advise: expected a process or None, got 3"),
        ("advise", "changes", "advise: AttributeError: 'tuple' object has no attribute 'clear'"),
        ("interval_us", "fraction", "interval_us: expected a whole number of microseconds, or 0, got 1.5"),
        ("advises", "fraction", "advises: expected True or False, got 1.5"),
    ],
)
def test_an_answer_of_others_that_none_can_give_is_an_error(hook: str, answer: str, text: str) -> None:
    with pytest.raises(CoschedulingError) as raised:
        cluster_under(f"{__name__}:Faulty", (("answer", answer), ("hook", hook))).advance(1_000_000)
    assert str(raised.value) == f"coscheduling {__name__}:Faulty, {text}"


@pytest.mark.parametrize(
    ("name", "parameters", "text"),
    [
        ("hybird", (), "coscheduling: expected one of .*did you mean 'hybrid'"),
        ("sb", (("spin", 3),), r"coscheduling_parameters\.spin: .*did you mean 'spin_us'"),
        ("sb", (("spin_us", -1),), r"coscheduling_parameters\.spin_us: expected a whole number of at least 0, got -1"),
        ("pb", (("interval_us", 0),), r"coscheduling_parameters\.interval_us: expected a whole number of at least 1"),
        ("pb", (("ignore_counters", 1),), r"coscheduling_parameters\.ignore_counters: expected true or false, got 1"),
        ("hybrid", (("boost", "some"),), r"coscheduling_parameters\.boost: expected one of all, collectives, none"),
        ("nls", (("spin_us", 1),), r"coscheduling_parameters\.spin_us: expected no parameters, as nls has none"),
        ("no_such_module:Class", (), "coscheduling: expected a class that can be imported"),
        ("cosched_emulator.errors:InputError", (), "coscheduling: expected .*InputError with these parameters"),
        ("builtins:int", (), "coscheduling: expected a class derived from .*CoschedulingPolicy"),
    ],
)
def test_wrong_policies_are_refused(name: str, parameters: Parameters, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        NodeSettings(coscheduling=name, coscheduling_parameters=parameters)


def test_daemons_must_leave_time() -> None:
    with pytest.raises(ConfigurationError, match="daemon_us: expected less than daemon_period_us, 100"):
        NodeSettings(daemon_us=100, daemon_period_us=100)
