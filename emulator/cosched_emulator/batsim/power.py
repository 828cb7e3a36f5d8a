"""The states of hosts: how fast they compute, whether they take jobs, how many are in which, and the watts that they draw.

Times are those of all hosts together, so a change costs the same for one host and for thousands; energy is summed up host by host,
where watts are known. A host draws its idle watts, and more by the part of its cores' time that the jobs on it compute, up to its
busy watts: a job with a delay computes nothing, and one of a log all the time. On its way to a state of sleep and back it draws the
watts of the state that the platform names for that, for as long as one flop takes at that state's speed, as in Batsim; and it takes
no jobs. Hosts that are unavailable count as nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cosched_emulator.batsim.platform import Host
from cosched_hwmodel.units import SECOND_US

COMPUTING, IDLE, SLEEPING, SWITCHING_OFF, SWITCHING_ON = (
    "computing", "idle", "sleeping", "switching_off", "switching_on",
)  # fmt: skip
KINDS: Final = (COMPUTING, IDLE, SLEEPING, SWITCHING_OFF, SWITCHING_ON)
UNAVAILABLE: Final = "unavailable"


class HostStates:
    """The states of all hosts, by number."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._hosts = hosts
        self._state = [0] * len(hosts)
        self.jobs = [0] * len(hosts)  # on each host
        self.down: set[int] = set()  # unavailable
        self.off: dict[int, str] = {}  # asleep or on the way, and which of these
        self.counts = dict.fromkeys(KINDS, 0) | {IDLE: len(hosts)}  # of hosts that are available
        self.time_us = dict.fromkeys((*KINDS, UNAVAILABLE), 0)  # of all hosts
        self.switches = self.grouped = 0
        self._since_us = 0  # up to when times are counted
        speeds = {host.states[0].speed for host in hosts}
        self._speed = speeds.pop() if len(speeds) == 1 else None  # of all hosts, until one goes to another state
        # Where watts are known, by host: up to when joules are counted, and how many; parts of time in which jobs compute.
        self._metered = any(host.has_watts for host in hosts)
        self._counted_us = [0] * len(hosts)
        self._joules = [0.0] * len(hosts)
        self._load = [0.0] * len(hosts)
        self._goal: dict[int, int] = {}  # states of hosts on their way

    def __len__(self) -> int:
        """Return the number of hosts."""
        return len(self._hosts)

    def slowest(self, hosts: Sequence[int]) -> float:
        """Return the least speed of some hosts in flop/s."""
        if self._speed is not None:
            return self._speed
        return min([self._hosts[host].states[self._state[host]].speed for host in hosts])

    # ------------------------------------------------------------ jobs

    def take_job(self, hosts: Sequence[int], computes: float, now_us: int) -> None:
        """Hosts, all of them available and on, get a job that computes for a part of their cores' time."""
        self._advance(now_us)
        jobs, first = self.jobs, 0
        for host in hosts:
            if not jobs[host]:
                first += 1
            jobs[host] += 1
        self.counts[IDLE] -= first
        self.counts[COMPUTING] += first
        if self._metered:
            for host in hosts:
                self._meter(host, now_us)
                self._load[host] += computes

    def leave_job(self, hosts: Sequence[int], computes: float, span_us: int, now_us: int) -> float | None:
        """A job leaves its hosts after a span; return the joules that these drew for it, None: unknown."""
        self._advance(now_us)
        jobs, last, down = self.jobs, 0, self.down
        for host in hosts:
            jobs[host] -= 1
            if not jobs[host] and (not down or host not in down):
                last += 1
        self.counts[COMPUTING] -= last
        self.counts[IDLE] += last
        if not self._metered:
            return None
        joules = 0.0
        for host in hosts:
            self._meter(host, now_us)
            self._load[host] = self._load[host] - computes if jobs[host] else 0.0
            state = self._hosts[host].states[self._state[host]]
            joules += (state.idle_w + (state.busy_w - state.idle_w) * computes) * span_us / SECOND_US
        return joules

    # ------------------------------------------------------------ states

    def refusal(self, host: int, state: int) -> str | None:
        """Return why a host cannot go to a state now, or None."""
        told = self._hosts[host]
        on_the_way = {each for sleep in told.sleeps.values() for each in sleep[1:]} - set(told.sleeps)
        if not 0 <= state < len(told.states) or state in on_the_way:
            return f"expected one of its states, got {state}"
        kind = self._kind(host)
        if kind not in (IDLE, SLEEPING):
            return f"expected an idle or sleeping host, and it is {kind}"
        if kind == SLEEPING and state in told.sleeps:
            return "it sleeps already"
        return None

    def leave(self, host: int, state: int, now_us: int) -> int:
        """Let a host go to another state; return when it is there."""
        told = self._hosts[host]
        self._speed = None
        self.switches += 1
        self._goal[host] = state
        present = told.sleeps.get(self._state[host])
        way = told.sleeps[state].switch_off if state in told.sleeps else None if present is None else present.switch_on
        if way is None:
            return now_us
        self._become(host, SWITCHING_OFF if state in told.sleeps else SWITCHING_ON, now_us)
        if way in told.sleeps:
            return now_us
        self._state[host] = way
        return now_us + round(SECOND_US / told.states[way].speed)

    def arrive(self, hosts: Sequence[int], state: int, now_us: int) -> None:
        """Hosts are in the state to which they went."""
        self.grouped += 1
        for host in hosts:
            self._become(host, SLEEPING if state in self._hosts[host].sleeps else IDLE, now_us)
            self._state[host] = self._goal.pop(host)

    def change_service(self, host: int, now_us: int, *, fails: bool) -> bool:
        """Let a host be unavailable, or available again; return whether that is new."""
        if (host in self.down) == fails:
            return False
        self._advance(now_us)
        (self.down.add if fails else self.down.discard)(host)
        self.counts[self._kind(host)] += -1 if fails else 1
        return True

    def count(self, now_us: int) -> float:
        """Count times and joules up to now, or to a last change after it; return the joules of all hosts."""
        self._advance(now_us)
        if self._metered:
            for host in range(len(self._hosts)):
                self._meter(host, now_us)
        return sum(self._joules)

    def _kind(self, host: int) -> str:
        return self.off.get(host) or (COMPUTING if self.jobs[host] else IDLE)

    def _become(self, host: int, kind: str, now_us: int) -> None:
        """A host without a job sleeps, is on its way, or is on."""
        self._advance(now_us)
        self._meter(host, now_us)
        if host not in self.down:
            self.counts[self._kind(host)] -= 1
            self.counts[kind] += 1
        if kind == IDLE:
            del self.off[host]
        else:
            self.off[host] = kind

    def _advance(self, now_us: int) -> None:
        span_us = now_us - self._since_us
        if span_us > 0:
            for kind, hosts in self.counts.items():
                self.time_us[kind] += hosts * span_us
            self.time_us[UNAVAILABLE] += len(self.down) * span_us
            self._since_us = now_us

    def _meter(self, host: int, now_us: int) -> None:
        span_us = now_us - self._counted_us[host]
        if span_us > 0:
            state = self._hosts[host].states[self._state[host]]
            watts = state.idle_w + (state.busy_w - state.idle_w) * min(1.0, self._load[host])
            self._joules[host] += watts * span_us / SECOND_US
            self._counted_us[host] = now_us
