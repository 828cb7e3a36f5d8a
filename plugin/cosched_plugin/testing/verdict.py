"""What the conformance check says of a policy: a report if it passed, an error for the first problem; both fit on a screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from cosched_hwmodel.units import seconds_text
from cosched_plugin.common.errors import PluginError
from cosched_plugin.protocol.messages import Event, JobSpec

_LISTED: Final = 3  # of a list
_LISTED_EVENTS: Final = 5
_LONGEST: Final = 200  # characters of one value
_LONGEST_PROBLEM: Final = 800


def brief(value: object) -> str:
    """Return a value as a short text: a job as its size and estimate, the first items of a list."""
    if isinstance(value, JobSpec):
        return f"job {value.id} ({value.processes} processes, {seconds_text(value.estimate_us)} s)"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        usual = type(value)._field_defaults  # type: ignore[attr-defined]  # of a NamedTuple
        told = [pair for pair in zip(value._fields, value, strict=True) if pair not in usual.items()]
        return _cut(f"{type(value).__name__}({', '.join(f'{name}={brief(item)}' for name, item in told)})")
    if isinstance(value, list | tuple):
        more = [f"{len(value) - _LISTED} more"] if len(value) > _LISTED else []
        texts = ", ".join([*map(brief, value[:_LISTED]), *more])
        return _cut(f"[{texts}]" if isinstance(value, list) else f"({texts})")
    return _cut(repr(value))


def apart(one: Any, other: Any, there: str = "not") -> str:
    """Return the first difference of two values: its place, and both values there."""
    place = ""
    while True:
        alike = brief(one) == brief(other)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            key = next(
                key for key in [*one, *other] if one.get(key) != other.get(key) or (key in one) != (key in other)
            )
            place, one, other = f"{place}[{key!r}]", one.get(key), other.get(key)
        elif isinstance(one, list | tuple) and type(one) is type(other) and (alike or not hasattr(one, "_fields")):
            same = zip(one, other, strict=False)
            at = next((at for at, (a, b) in enumerate(same) if a != b), min(len(one), len(other)))
            place += f".{one._fields[at]}" if hasattr(one, "_fields") else f"[{at}]"
            one, other = (side[at] if at < len(side) else None for side in (one, other))
        else:
            return f"{place} {brief(one)}, {there} {brief(other)}".strip()


def _cut(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"


class Report(NamedTuple):
    """The extent of the tests that a policy has passed."""

    seed: int
    runs: int
    jobs: int
    batches: int  # each followed by a restart that changed nothing
    decisions: int
    declined: int = 0  # number of these runs on machines that the policy cannot work on
    replayed: int = 0  # batches that another process answered as well
    events: int = 0
    asking: int = 0  # runs with node sets and amounts
    eased: int = 0  # of these, on which the policy declined them, and jobs asked for less

    def __str__(self) -> str:
        declined = f"; declined the machines of {self.declined} runs" if self.declined else ""
        asking = f"; jobs had to ask for less in {self.eased} of {self.asking} runs with node sets and amounts"
        asking = asking if self.asking else ""
        replayed = f"; another process answered {self.replayed} of them as well" if self.replayed else ""
        return (
            f"passed {self.runs} runs of seed {self.seed}: {self.jobs} jobs, {self.decisions} decisions, "
            f"{self.batches} batches with a restart after each{replayed}{declined}{asking}"
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
        lines = [
            _cut(self.problem, _LONGEST_PROBLEM),
            f"  in run {self.run} of seed {self.seed}, at {seconds_text(self.now_us)} s, after",
            *([f"    {brief(event)}" for event in self.events[:_LISTED_EVENTS]] or ["    nothing"]),
        ]
        if len(self.events) > _LISTED_EVENTS:
            lines.append(f"    and {len(self.events) - _LISTED_EVENTS} more events")
        return "\n".join(lines)
