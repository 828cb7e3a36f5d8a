"""The changes of running jobs in the last reply, for taking back those that the manager refuses."""

from __future__ import annotations

from typing import Any

from cosched_plugin.core.running import Running
from cosched_plugin.core.state import State


class Changes:
    """What the actions of a reply have changed in running jobs, by number of the action."""

    __slots__ = ("_changes", "_old")

    def __init__(self) -> None:
        self._changes: dict[int, tuple[Running, Running]] = {}  # before and after
        # The same after a refusal: the job, and the values that hold if this action is refused, too.
        self._old: dict[int, tuple[int, dict[str, Any]]] = {}

    def add(self, number: int, before: Running, after: Running) -> None:
        """Add the change by action ``number``, which is higher than those before."""
        self._changes[number] = (before, after)

    def take_back(self, number: int, state: State) -> None:
        """Undo what action ``number`` has changed, if anything; what later actions have set stays."""
        if not self._old:
            self._old = {which: _changed(*change) for which, change in self._changes.items()}
        job_id, values = self._old.pop(number, (0, {}))
        for later, (other, its) in self._old.items():
            if later > number and other == job_id:
                for name in its.keys() & values.keys():
                    its[name] = values.pop(name)
        if values:
            state.restore(job_id, values)


def _changed(before: Running, after: Running) -> tuple[int, dict[str, Any]]:
    """Return a job's number, and the fields that have changed, with the values from before."""
    pairs = zip(Running._fields, before, after, strict=True)
    return before.job.id, {name: old for name, old, new in pairs if old != new}
