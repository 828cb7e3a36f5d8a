"""What the parts of a policy have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from cosched_plugin.core.running import Ended
from cosched_plugin.core.views.view import View
from cosched_plugin.parts.needs import NONE, Needs
from cosched_plugin.protocol.messages import JobSpec, NoteValue


class Changes(NamedTuple):
    """What has happened since a part last updated its note."""

    started: Sequence[JobSpec]  # after this pass
    ended: Sequence[Ended]  # or requeued, before the first pass of this batch


class Part(Protocol):
    """A part of a composition. A class that extends a part's protocol inherits what it does not define.

    Attributes of a part must be caches that the view can rebuild; the part's lasting memory is its note.
    """

    @property
    def needs(self) -> Needs:
        """Return what another part, or the site, must provide (`cosched_plugin.parts.needs`, or a word of its author's)."""
        return NONE

    @property
    def provides(self) -> Needs:
        """Return what other parts may rely on."""
        return NONE

    @property
    def note(self) -> str:
        """Return the key of the part's note about the cluster; empty: it has no note.

        Parts with the same key share one note, and must agree on what is in it.
        """
        return ""

    def remember(self, changes: Changes, view: View) -> NoteValue:
        """Return the new value of its note after ``changes``; ``view.note(None, self.note)`` is the present value.

        A note is a bool, 64-bit integer, finite number, text, or a tuple of those, within the limits of the wire: it must be bounded.
        """
        return view.note(None, self.note)

    def check(self, view: View) -> None:
        """Raise MachineError if the part cannot work on this machine."""
        return
