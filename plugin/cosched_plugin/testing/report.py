"""The result of the conformance suite for a policy: a report if it passed, an error for the first problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cosched_plugin.common.errors import PluginError
from cosched_plugin.protocol.messages import Event

_LISTED_EVENTS: Final = 12


class Report(NamedTuple):
    """The extent of the tests that a policy has passed."""

    seed: int
    runs: int
    jobs: int
    batches: int  # each followed by a restart that changed nothing
    decisions: int
    declined: int = 0  # number of these runs on machines that the policy cannot work on
    replayed: int = 0  # batches that another process answered as well

    def __str__(self) -> str:
        declined = f"; declined the machines of {self.declined} runs" if self.declined else ""
        replayed = f"; another process answered {self.replayed} of them as well" if self.replayed else ""
        return (
            f"passed {self.runs} runs of seed {self.seed}: {self.jobs} jobs, {self.decisions} decisions, "
            f"{self.batches} batches with a restart after each{replayed}{declined}"
        )


class PolicyCheckError(PluginError):
    """A policy violates the rules for policies.

    ``seed`` and ``run`` (from 1) replay it, ``now_us`` and ``events`` are the batch in question, ``problem`` says what is wrong.
    """

    exit_code = 1

    def __init__(self, seed: int, run: int, now_us: int, events: Sequence[Event], problem: str) -> None:
        super().__init__(seed, run, now_us, tuple(events), problem)
        self.seed = seed
        self.run = run
        self.now_us = now_us
        self.events = tuple(events)
        self.problem = problem

    def __str__(self) -> str:
        lines = [f"{self.problem}", f"  in run {self.run} of seed {self.seed}, at {self.now_us} us, after"]
        lines += [f"    {event!r}" for event in self.events[:_LISTED_EVENTS]] or ["    nothing"]
        if len(self.events) > _LISTED_EVENTS:
            lines.append(f"    and {len(self.events) - _LISTED_EVENTS} more events")
        return "\n".join(lines)
