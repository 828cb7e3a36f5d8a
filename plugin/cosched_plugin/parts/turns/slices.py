"""Time slices: classes of jobs that take turns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Protocol

from cosched_plugin.core.engine import Policy
from cosched_plugin.core.views.view import View
from cosched_plugin.parts.part import Part
from cosched_plugin.protocol.messages import Action


class ClassPolicy(Protocol):
    """The policy of one class of jobs, on a view of that class."""

    def check(self, view: View) -> None:
        """Raise MachineError if the policy cannot work on this machine."""
        ...

    def may_start(self, view: View) -> bool:
        """Tell whether any pending job has a place on the nodes in service once all running jobs have ended."""
        ...

    def prepare(self, view: View) -> Iterator[Action]:
        """Yield the decisions that keep notes and expected ends up to date while no job can be started."""
        ...

    def decide(self, view: View) -> Iterator[Action]:
        """Yield the decisions of one pass."""
        ...


class Slices(Part, Protocol):
    """Gives the machine to each class of jobs in turn."""

    @abstractmethod
    def divide(self, make: Callable[[], ClassPolicy]) -> Policy:
        """Return a policy in which the classes take turns; ``make`` returns a new policy for each class, as policies keep caches."""
        ...
