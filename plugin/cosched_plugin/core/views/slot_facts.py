"""What a view shows of time sharing: slots, rotation and quanta."""

from __future__ import annotations

from collections.abc import Sequence

from cosched_plugin.common.allocation import Layers, none_of
from cosched_plugin.common.slots import Rotation
from cosched_plugin.core.state import State


class SlotFacts:
    """The part of a view that shows time sharing; all else in a view, such as free threads, is about slot 0."""

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def quantum_us(self) -> int:
        """Return the length of a quantum; 0: the machine has no slots."""
        slots = self._state.slots
        return 0 if slots is None else slots.quantum_us

    @property
    def quantum(self) -> int:
        """Return the number of the last quantum that has ended; 0: none yet. A rotation begins with the next one."""
        slots = self._state.slots
        return 0 if slots is None else slots.quantum

    @property
    def quantum_ended(self) -> bool:
        """Tell whether a quantum has ended in the present batch."""
        slots = self._state.slots
        return slots is not None and slots.quantum_ended

    @property
    def rotation(self) -> Rotation:
        """Return the rotation, the next turn first; without turns, slot 0 runs all the time."""
        slots = self._state.slots
        return Rotation() if slots is None else slots.rotation

    @property
    def slots_used(self) -> Sequence[int]:
        """Return the slots with a running job, ascending; suspended jobs count."""
        return sorted({running.slot for running in self._state.running.values()})

    def free_in(self, slot: int) -> Layers:
        """Return the free threads of the nodes in service in a slot; a machine without slots has slot 0 only."""
        slots = self._state.slots
        if slots is not None:
            return slots.pools.free(slot)
        return none_of(self._state.machine) if slot else self._state.pool.free
