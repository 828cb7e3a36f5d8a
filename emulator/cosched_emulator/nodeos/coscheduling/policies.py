"""The coscheduling policies of Choi et al. 2004, one class each, and those of others by ``module:Class`` or entry point."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final, TypeVar

from cosched_emulator.errors import ConfigurationError, CoschedulingError
from cosched_emulator.nodeos.coscheduling.protocol import ACKNOWLEDGEMENT, FOREVER, AdvisesOne, CoschedulingPolicy, Node
from cosched_emulator.nodeos.simulated_process import Process
from cosched_hwmodel.errors import RAISED_OUTSIDE, from_outside, raised_by_a_signal
from cosched_hwmodel.models.importing import NamedImportError, import_named, installed

# NLS: the local scheduler alone.


class LocalOnly(CoschedulingPolicy):
    """Each wait polls until it is over. A process that polls is runnable, and uses CPU as any other."""

    def waits(self, process: Process, waiting: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Poll for ever."""
        return FOREVER


# SB: spin block.


class SpinBlock(CoschedulingPolicy):
    """Poll for a fixed time, then block and ask for an interrupt (paper section 2.3)."""

    def __init__(self, spin_us: int = 1_000) -> None:
        self._spin_us = spin_us

    def waits(self, process: Process, waiting: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Poll for `spin_us`."""
        return self._spin_us


# CC: co-ordinated coscheduling.


class CoordinatedCoscheduling(AdvisesOne):
    """Senders and receivers poll for a fixed time and then block (section 2.3).

    A sender polls ``send_spin_us`` for the acknowledgement of the network interface, a receiver ``spin_us`` for its
    message. Every ``interval_us`` the process with most unread messages is advised; of equal ones the first started.
    """

    acknowledged = True

    def __init__(self, spin_us: int = 1_000, send_spin_us: int = 20, interval_us: int = 10_000) -> None:
        if interval_us < 1:
            raise ConfigurationError("interval_us", "a whole number of at least 1", str(interval_us))
        self.interval_us = interval_us
        self._spin_us = spin_us
        self._send_spin_us = send_spin_us

    def waits(self, process: Process, waiting: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Poll for the time that belongs to what is awaited."""
        return self._send_spin_us if waiting == ACKNOWLEDGEMENT else self._spin_us

    def tick(self, node: Node) -> None:
        """Advise the process with most unread messages."""
        self._advised, most = None, 0
        for process in node.ports:
            unread = node.unread(process)
            if unread > most:
                self._advised, most = process, unread


# DCS: demand-based (dynamic) coscheduling.


class DynamicCoscheduling(AdvisesOne):
    """A message for a process that does not have the CPU interrupts, and its process is advised at once (section 2.3).

    Waits poll.
    """

    wants_arrivals = True

    def waits(self, process: Process, waiting: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Poll for ever."""
        return FOREVER

    def arrived(self, process: Process) -> None:
        """Advise the process."""
        self._advised = process


# PB: periodic boost.


class PeriodicBoost(AdvisesOne):
    """Every ``interval_us`` a process with unread messages is advised, in turn (section 2.3). Waits poll.

    The turn begins behind the process that was advised last; one that has the CPU is passed over. With
    ``ignore_counters`` advice counts whatever is left of a process's ticks, as on systems whose priorities decay.
    """

    def __init__(self, interval_us: int = 50_000, ignore_counters: bool = False) -> None:
        if interval_us < 1:
            raise ConfigurationError("interval_us", "a whole number of at least 1", str(interval_us))
        self.interval_us = interval_us
        self.ignores_counters = ignore_counters
        self._last: Process | None = None

    def waits(self, process: Process, waiting: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Poll for ever."""
        return FOREVER

    def tick(self, node: Node) -> None:
        """Advise the next process with unread messages."""
        ports = list(node.ports)
        first = ports.index(self._last) + 1 if self._last in ports else 0
        for process in ports[first:] + ports[:first]:
            if process is not node.current and node.unread(process):
                self._advised = self._last = process
                return


# HYBRID: block at once, and run first in collective operations.

BOOSTS: Final = ("collectives", "none", "all")


class Hybrid(CoschedulingPolicy):
    """Each wait blocks at once; a process goes first from the begin of a collective operation to its end (section 4).

    ``boost`` "none" boosts no process, "all" also each process that has waited, until it gets the CPU. Of several
    boosted processes the one that has the CPU goes first, then the first in the run queue.
    """

    def __init__(self, boost: str = "collectives") -> None:
        if boost not in BOOSTS:
            raise ConfigurationError.unknown_name("boost", boost, BOOSTS)
        self.advises = boost != "none"
        self._waits_too = boost == "all"
        self._in_collectives: set[Process] = set()
        self._waiting: set[Process] = set()

    def waits(self, process: Process, waiting: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Block at once."""
        if self._waits_too:
            self._waiting.add(process)
        return 0

    def collective(self, process: Process, begins: bool) -> None:
        """Boost the process until the operation ends."""
        if begins:
            self._in_collectives.add(process)
        else:
            self._in_collectives.discard(process)

    def advise(self, runnable: Sequence[Process], current: Process | None) -> Process | None:
        """Return the boosted process."""
        boosted = self._in_collectives | self._waiting if self._waiting else self._in_collectives
        if not boosted:
            return None
        if current in boosted and current in runnable:
            return current
        return next((process for process in runnable if process in boosted), None)

    def chosen(self, process: Process) -> None:
        """The wait of this process is over."""
        self._waiting.discard(process)


# A coscheduling policy of others: what it raises, or answers that no policy can, ends the run with an error that names it.

Answer = TypeVar("Answer")
_FLAGS: Final = ("wants_arrivals", "advises", "acknowledged")


class ForeignPolicy(CoschedulingPolicy):
    """Asks a policy of others, and checks its answers; the policies here need no check."""

    def __init__(self, name: str, policy: CoschedulingPolicy) -> None:
        """``name`` is the policy's, for errors. Raises `CoschedulingError` for wrong attributes."""
        self._name = name
        self.policy = policy
        for flag in _FLAGS:
            setattr(self, flag, self._flag(flag))
        self._update()

    def waits(self, process: Process, waiting: int) -> int:
        """Return the policy's answer; CoschedulingError if it is no time."""
        answer = self._ask("waits", self.policy.waits, process, waiting)
        if type(answer) is not int or not 0 <= answer <= FOREVER:
            raise self._wrong("waits", "0, a whole number of microseconds, or FOREVER", answer)
        return answer

    def arrived(self, process: Process) -> None:
        """Pass it on."""
        self._ask("arrived", self.policy.arrived, process)

    def tick(self, node: Node) -> None:
        """Pass it on; the policy may change its interval, and whether its advice needs counters."""
        self._ask("tick", self.policy.tick, node)
        self._update()

    def collective(self, process: Process, begins: bool) -> None:
        """Pass it on."""
        self._ask("collective", self.policy.collective, process, begins)

    def advise(self, runnable: Sequence[Process], current: Process | None) -> Process | None:
        """Return the policy's advice; CoschedulingError if it is no process."""
        answer = self._ask("advise", self.policy.advise, tuple(runnable), current)  # the queue is for reading
        if answer is not None and not isinstance(answer, Process):
            raise self._wrong("advise", "a process or None", answer)
        return answer

    def chosen(self, process: Process) -> None:
        """Pass it on."""
        self._ask("chosen", self.policy.chosen, process)

    def _ask(self, hook: str, method: Callable[..., Answer], *arguments: object) -> Answer:
        try:
            return method(*arguments)
        except RAISED_OUTSIDE as error:
            if raised_by_a_signal(error):
                raise
            raise CoschedulingError(self._name, hook, f"{type(error).__name__}: {error}") from error

    def _update(self) -> None:
        interval_us = self.policy.interval_us
        if type(interval_us) is not int or interval_us < 0:
            raise self._wrong("interval_us", "a whole number of microseconds, or 0", interval_us)
        self.interval_us = interval_us
        self.ignores_counters = self._flag("ignores_counters")

    def _flag(self, name: str) -> bool:
        value = getattr(self.policy, name)
        if type(value) is not bool:
            raise self._wrong(name, "True or False", value)
        return value

    def _wrong(self, hook: str, expected: str, got: object) -> CoschedulingError:
        try:
            text = repr(got)
        except Exception as error:  # an answer from outside can raise anything
            text = f"{type(got).__name__}, of which repr raises {type(error).__name__}"
        return CoschedulingError(self._name, hook, f"expected {expected}, got {text[:200]}")


# Coscheduling policies by name: those here, those of installed packages, and ``module:Class``.

NAME_KEY: Final = "coscheduling"
PARAMETERS_KEY: Final = "coscheduling_parameters"
ENTRY_POINTS: Final = "cosched.coscheduling"  # group of names that other packages install
POLICIES: Final[Mapping[str, type[CoschedulingPolicy]]] = MappingProxyType(
    {
        "none": CoschedulingPolicy,
        "nls": LocalOnly,
        "sb": SpinBlock,
        "cc": CoordinatedCoscheduling,
        "dcs": DynamicCoscheduling,
        "pb": PeriodicBoost,
        "hybrid": Hybrid,
    }
)


def make_policy(name: str, parameters: Iterable[tuple[str, object]] = ()) -> CoschedulingPolicy:
    """Return a policy for one node.

    Raises `ConfigurationError` for an unknown name and for wrong parameters, `CoschedulingError` for wrong attributes of a policy of
    others.
    """
    make = POLICIES.get(name)
    given = dict(parameters)
    if make is not None:
        _check(name, make, given)
        try:
            return make(**given)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{PARAMETERS_KEY}.{error.path}", error.expected, error.got, error.suggestion
            ) from None
    loaded = _load(name)
    with from_outside(partial(ConfigurationError, NAME_KEY, f"{name} with these parameters")):
        policy = loaded(**given)
    if not isinstance(policy, CoschedulingPolicy):
        base = f"{CoschedulingPolicy.__module__}.{CoschedulingPolicy.__name__}"
        raise ConfigurationError(NAME_KEY, f"a class derived from {base}", f"{name}, which makes {policy!r}")
    return ForeignPolicy(name, policy)


def _check(name: str, make: Callable[..., object], given: Mapping[str, object]) -> None:
    """Raise `ConfigurationError` for parameters that a policy of ours does not have, or of the wrong type."""
    known = parameters_of(make)
    for key, value in given.items():
        path = f"{PARAMETERS_KEY}.{key}"
        if key not in known:
            if not known:
                raise ConfigurationError(path, f"no parameters, as {name} has none", repr(value))
            raise ConfigurationError.unknown_name(path, key, known)
        kind = type(known[key])
        if type(value) is not kind or (isinstance(value, int) and value < 0):
            expected = {int: "a whole number of at least 0", bool: "true or false", str: "a text"}[kind]
            raise ConfigurationError(path, expected, repr(value))


@lru_cache
def parameters_of(make: Callable[..., object]) -> dict[str, object]:
    """Return the parameters of a policy, each with its default."""
    return {argument.name: argument.default for argument in inspect.signature(make).parameters.values()}


def _load(name: str) -> Callable[..., object]:
    """Return the class of a policy of others. Raises `ConfigurationError`."""
    path = name
    if ":" not in name:
        policies = installed(ENTRY_POINTS)
        paths = [path for path, known in policies.items() if known == name]
        if not paths:
            raise ConfigurationError.unknown_name(NAME_KEY, name, {*POLICIES, *policies.values()})
        if len(paths) > 1:
            raise ConfigurationError(NAME_KEY, f"one package that has {name} installed", " and ".join(paths))
        path = paths[0]
    try:
        loaded = import_named(path)
    except NamedImportError as error:
        raise ConfigurationError(NAME_KEY, "a class that can be imported", f"{path}: {error}") from error
    if not callable(loaded):
        raise ConfigurationError(NAME_KEY, "a class", f"{path}, which is {loaded!r}")
    return loaded
