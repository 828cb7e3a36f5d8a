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
    """What decides for one class of jobs, on a view of that class."""

    def check(self, view: View) -> None:
        """Raise MachineError if it cannot work on this machine."""
        ...

    def may_start(self, view: View) -> bool:
        """Tell whether any pending job has a place on the nodes in service once all running jobs have left."""
        ...

    def prepare(self, view: View) -> Iterator[Action]:
        """Yield what has to be put in order and remembered where no job can be started anyway."""
        ...

    def decide(self, view: View) -> Iterator[Action]:
        """Yield the decisions of one pass."""
        ...


class Slices(Part, Protocol):
    """Gives classes of jobs the machine in turn."""

    @abstractmethod
    def divide(self, make: Callable[[], ClassPolicy]) -> Policy:
        """Return a policy in which the classes take turns; ``make`` returns a new policy for a class, which keeps caches."""
        ...
