"""The script of a run: actions of users and operators at given instants."""

from __future__ import annotations

from typing import NamedTuple, cast

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.schema import Change, Scenario, ScriptEntry
from cosched_hwmodel.units import SECOND_US


class Scripted(NamedTuple):
    """An action of a user or an operator at a given instant; ``target`` is a job or a node."""

    at_us: int
    change: Change
    target: int


def build_script(scenario: Scenario, nodes: int, jobs: int) -> tuple[Scripted, ...]:
    """Return the scripted changes, for a machine of ``nodes`` nodes and a workload of ``jobs`` jobs.

    Raises ConfigurationError for a node or a job that does not exist.
    """
    return tuple(_change(entry, f"script[{index}]", nodes, jobs) for index, entry in enumerate(scenario.script))


def _change(entry: ScriptEntry, path: str, nodes: int, jobs: int) -> Scripted:
    at_us, change = round(entry.at_s * SECOND_US), cast(Change, entry.do)
    if entry.node is not None:
        if not 0 <= entry.node < nodes:
            raise ConfigurationError(f"{path}.node", f"a node from 0 to {nodes - 1}", str(entry.node))
        return Scripted(at_us, change, entry.node)
    if entry.job is None or not 1 <= entry.job <= jobs:
        raise ConfigurationError(f"{path}.job", f"a job from 1 to {jobs}", str(entry.job))
    return Scripted(at_us, change, entry.job)
