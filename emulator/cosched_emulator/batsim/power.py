"""The states of hosts: how fast they compute, whether they take jobs, and the watts that they draw, summed up over time.

A host draws its idle watts, and more by the part of the run time in which the job on it computes, up to its busy watts: a job with a
delay computes nothing, and one of a log all the time. On its way to a state of sleep and back it draws the watts of the state that
the platform names for that, for as long as one flop takes at that state's speed, as in Batsim; and it takes no jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cosched_emulator.batsim.platform import Host
from cosched_hwmodel.units import SECOND_US

KINDS: Final = ("computing", "idle", "sleeping", "switching_off", "switching_on")


class HostStates:
    """The states of all hosts, by number."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._hosts = hosts
        self._state = [0] * len(hosts)
        self._kind = ["idle"] * len(hosts)
        self._since_us = [0] * len(hosts)
        self._joules = [0.0] * len(hosts)
        self._jobs = [0] * len(hosts)
        self._load = [0.0] * len(hosts)  # parts of the time in which jobs compute, summed up
        self._goal: dict[int, int] = {}  # hosts on their way
        self.counts = dict.fromkeys(KINDS, 0) | {"idle": len(hosts)}  # of those that are available
        self.time_us = dict.fromkeys((*KINDS, "unavailable"), 0)  # of all hosts
        self.down: set[int] = set()  # unavailable, whatever else they are
        self.switches = self.grouped = 0

    def speed(self, host: int) -> float:
        """Return the speed of a host in flop/s."""
        return self._hosts[host].states[self._state[host]].speed

    def takes_jobs(self, host: int) -> bool:
        """Return whether a host is on."""
        return self._kind[host] in ("idle", "computing")

    def __len__(self) -> int:
        """Return the number of hosts."""
        return len(self._hosts)

    def take_jobs(self, hosts: Sequence[int], computes: float, now_us: int) -> None:
        """Hosts get a job that computes for a part of its time."""
        for host in hosts:
            self._become(host, "computing", now_us)
            self._jobs[host] += 1
            self._load[host] += computes

    def leave_jobs(self, hosts: Sequence[int], computes: float, span_us: int, now_us: int) -> float:
        """A job leaves its hosts; return the joules that these drew for it."""
        joules = 0.0
        for host in hosts:
            self._count(host, now_us)
            self._jobs[host] -= 1
            self._load[host] = self._load[host] - computes if self._jobs[host] else 0.0
            if not self._jobs[host]:
                self._become(host, "idle", now_us)
            state = self._hosts[host].states[self._state[host]]
            joules += (state.idle_w + (state.busy_w - state.idle_w) * computes) * span_us / SECOND_US
        return joules

    def refusal(self, host: int, state: int) -> str | None:
        """Return why a host cannot go to a state now, or None."""
        told = self._hosts[host]
        on_the_way = {each for sleep in told.sleeps.values() for each in sleep[1:]} - set(told.sleeps)
        if not 0 <= state < len(told.states) or state in on_the_way:
            return f"expected one of its states, got {state}"
        if self._kind[host] not in ("idle", "sleeping"):
            return f"expected an idle or sleeping host, and it is {self._kind[host]}"
        if self._kind[host] == "sleeping" and state in told.sleeps:
            return "it sleeps already"
        return None

    def leave(self, host: int, state: int, now_us: int) -> int:
        """Let a host go to another state; return when it is there."""
        told = self._hosts[host]
        self.switches += 1
        self._goal[host] = state
        present = told.sleeps.get(self._state[host])
        way = told.sleeps[state].switch_off if state in told.sleeps else None if present is None else present.switch_on
        if way is None:
            return now_us
        self._become(host, "switching_off" if state in told.sleeps else "switching_on", now_us)
        if way in told.sleeps:
            return now_us
        self._state[host] = way
        return now_us + round(SECOND_US / told.states[way].speed)

    def arrive(self, hosts: Sequence[int], state: int, now_us: int) -> None:
        """Hosts are in the state to which they went."""
        self.grouped += 1
        for host in hosts:
            self._become(host, "sleeping" if state in self._hosts[host].sleeps else "idle", now_us)
            self._state[host] = self._goal.pop(host)

    def change_service(self, host: int, now_us: int, *, fails: bool) -> bool:
        """Let a host be unavailable, or available again; return whether that is new."""
        if (host in self.down) == fails:
            return False
        self._count(host, now_us)
        (self.down.add if fails else self.down.discard)(host)
        self.counts[self._kind[host]] += -1 if fails else 1
        return True

    def consumed_j(self, now_us: int) -> float:
        """Return the energy of all hosts since the beginning; their times are counted up to now, or to a last change after it."""
        for host, since_us in enumerate(self._since_us):
            if since_us < now_us:
                self._count(host, now_us)
        return sum(self._joules)

    def _become(self, host: int, kind: str, now_us: int) -> None:
        self._count(host, now_us)
        if host not in self.down:
            self.counts[self._kind[host]] -= 1
            self.counts[kind] += 1
        self._kind[host] = kind

    def _count(self, host: int, now_us: int) -> None:
        span_us = now_us - self._since_us[host]
        if span_us:
            state = self._hosts[host].states[self._state[host]]
            watts = state.idle_w + (state.busy_w - state.idle_w) * min(1.0, self._load[host])
            self._joules[host] += watts * span_us / SECOND_US
            self.time_us["unavailable" if host in self.down else self._kind[host]] += span_us
            self._since_us[host] = now_us
