"""Local schedulers by name."""

from __future__ import annotations

from typing import Final

from cosched_emulator.nodeos.local.linux_epochs import TICK_US, LinuxEpochs
from cosched_emulator.nodeos.local.protocol import LocalScheduler
from cosched_emulator.nodeos.local.round_robin import RoundRobin
from cosched_emulator.nodeos.local.wake_first import WakeFirst
from cosched_hwmodel import draws

_PHASES: Final = 100  # different ones of the ticks of nodes
LOCAL_SCHEDULERS: Final = ("linux-epochs", "rr", "wake-first")


def period_us(name: str, epoch_ticks: int) -> int:
    """Return after which time a scheduler's own state repeats, besides slices that end: an epoch of two processes; 0: it has none."""
    return 2 * epoch_ticks * TICK_US if name == "linux-epochs" else 0


def depends_on_fractions(name: str) -> bool:
    """Return whether a small change of a burst can change much.

    So it is where a process that wakes waits for the end of another one's burst: then it counts how many iterations of one
    job just fit between the bursts of the other.
    """
    return name == "rr"


def make_local(name: str, slice_us: int, epoch_ticks: int, seed: int, node: int) -> LocalScheduler:
    """Return the scheduler of one node; the ticks of nodes do not come together (draw ``tick-phase``)."""
    match name:
        case "linux-epochs":
            phase = int(draws.uniform(seed, "tick-phase", node) * _PHASES)
            return LinuxEpochs(phase * (TICK_US // _PHASES), seed, epoch_ticks)
        case "rr":
            return RoundRobin(slice_us)
        case "wake-first":
            return WakeFirst(slice_us)
    raise ValueError(f"no local scheduler {name!r}")
