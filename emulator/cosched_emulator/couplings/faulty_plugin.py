"""A link that kills or stalls the scheduler's process around batches that a fault plan draws."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from cosched_emulator.couplings.link import Link
from cosched_emulator.couplings.spawned_plugin import SpawnedPlugin
from cosched_emulator.errors import LinkError
from cosched_emulator.scenario.faults import USUAL_BATCHES, PluginFaults
from cosched_hwmodel.draws import key, uniform
from cosched_plugin.protocol.messages import Action, Event, Welcome

Moment: TypeAlias = Literal["before", "during", "after"]
MOMENTS: Final[tuple[Moment, ...]] = ("before", "during", "after")
USUAL_EXCHANGE_S: Final = 0.001  # assumed duration of the first exchange
JOIN_S: Final = 5.0


class PluginFault(NamedTuple):
    """The process is killed or stalled around one exchange; during it, this happens after ``share`` of a usual exchange's time."""

    kind: Literal["kill", "stall"]
    moment: Moment
    share: float


def plugin_faults(faults: PluginFaults, batches: int = USUAL_BATCHES) -> dict[int, list[PluginFault]]:
    """Return the faults of the process by batch number, counted from 1: kills first.

    They fall among the first ``batches``, unless the plan gives another number. A batch has at most one kill and one stall, so few
    batches limit the number of faults.
    """
    batches = batches if faults.batches is None else faults.batches
    drawn: dict[int, list[PluginFault]] = {}
    kinds: tuple[tuple[Literal["kill", "stall"], int], ...] = (("kill", faults.kills), ("stall", faults.stalls))
    for kind, count in kinds:
        order = sorted(range(1, batches + 1), key=lambda batch: (key(faults.seed, f"plugin {kind}", batch), batch))
        for batch in sorted(order[:count]):
            moment = MOMENTS[key(faults.seed, f"plugin {kind} moment", batch) % len(MOMENTS)]
            share = uniform(faults.seed, f"plugin {kind} time", batch)
            drawn.setdefault(batch, []).append(PluginFault(kind, moment, share))
    return drawn


class FaultyPluginLink:
    """A link to ``plugin`` by way of ``link``, which must follow `SpawnedPlugin.process`.

    ``counts`` holds the numbers of "killed" and "stalled"; ``note`` is called with (short word, text) for each.
    """

    def __init__(
        self,
        link: Link,
        plugin: SpawnedPlugin,
        faults: PluginFaults,
        *,
        batches: int = USUAL_BATCHES,
        note: Callable[[str, str], None] = lambda _word, _text: None,
    ) -> None:
        """``batches`` is that of `plugin_faults`."""
        self.counts: Counter[str] = Counter()
        self._link = link
        self._plugin = plugin
        self._stall_s = faults.stall_s
        self._faults = plugin_faults(faults, batches)
        self._note = note
        self._batches = 0
        self._exchange_s = USUAL_EXCHANGE_S  # of the shortest exchange so far: longer ones were probably disturbed
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Open the link."""
        self._link.open(inventory)

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Exchange, with the faults planned for this batch."""
        self._batches += 1
        faults = self._faults.get(self._batches, ())
        for fault in faults:
            self.counts["killed" if fault.kind == "kill" else "stalled"] += 1
            self._note(f"plugin-{fault.kind}", f"{fault.moment} batch {seq}")
            if fault.moment == "before":
                self._strike(fault)
            elif fault.moment == "during":
                self._begin(self._strike_later, fault)
        started_s = time.perf_counter()
        actions = self._link.exchange(seq, now_us, events)
        if not faults:
            self._exchange_s = min(self._exchange_s, time.perf_counter() - started_s)
        for fault in faults:
            if fault.moment == "after":
                self._strike(fault)
        return actions

    def close(self) -> None:
        """Cancel pending faults, let a stopped process continue, and close the link."""
        self._closing.set()
        for thread in self._threads:
            thread.join(JOIN_S)
        self._threads.clear()
        self._link.close()

    def _strike(self, fault: PluginFault) -> None:
        if fault.kind == "kill":
            self._plugin.respawn()
        else:
            self._plugin.stall(stop=True)
            self._begin(self._go_on_later)

    def _strike_later(self, fault: PluginFault) -> None:
        self._closing.wait(fault.share * self._exchange_s)
        if self._closing.is_set():
            return
        if fault.kind == "stall":
            self._plugin.stall(stop=True)
            self._go_on_later()
        else:
            with contextlib.suppress(LinkError):  # the link notices that the process is missing
                self._plugin.respawn()

    def _go_on_later(self) -> None:
        self._closing.wait(self._stall_s)
        self._plugin.stall(stop=False)

    def _begin(self, target: Callable[..., None], *arguments: PluginFault) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()
