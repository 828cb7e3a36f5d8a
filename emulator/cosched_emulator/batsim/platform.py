"""Hosts: of a SimGrid platform, or as many as a scenario has nodes. Of a platform only its hosts are read, not its network.

Hosts are numbered as Batsim numbers them: by the plain order of their names, so that host10 comes before host2. Names that are made
here have leading zeros, and both orders are the same.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

from cosched_emulator.errors import InputError
from cosched_hwmodel.energy import NodePower
from cosched_plugin.protocol.limits import MAX_NODES
from cosched_plugin.protocol.messages import NodeClass

MASTER: Final = "master_host"
# Units of speed, as SimGrid has them: f and flops, with short and with long prefixes; without a unit it is f, too.
_PREFIXES: Final = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_LONG_PREFIXES: Final = ("", "kilo", "mega", "giga", "tera", "peta", "exa", "zetta", "yotta")
_UNITS: Final = {"": 1.0} | {
    f"{prefix}{unit}": 1000.0**power
    for unit, prefixes in (("f", _PREFIXES), ("flops", _LONG_PREFIXES))
    for power, prefix in enumerate(prefixes)
}
_SPEED: Final = re.compile(r"\+?((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)")
_WITHOUT_HOSTS: Final = frozenset(
    {
        "link", "route", "link_ctn", "zoneRoute", "ASroute", "router", "bypassRoute", "bypassASroute", "bypassZoneRoute", "host_link",
        "backbone", "config", "random", "storage", "storage_type", "mount", "disk", "process", "actor",
    }
)  # fmt: skip


class PowerState(NamedTuple):
    """A state of a host, by number: how fast it computes, and the watts that it draws."""

    speed: float  # flop/s
    idle_w: float
    busy_w: float  # all its cores compute


class SleepState(NamedTuple):
    """A state in which a host takes no jobs, with the states in which it is while it goes there and comes back."""

    sleep: int
    switch_off: int
    switch_on: int


class Host(NamedTuple):
    """A compute host."""

    name: str
    properties: Mapping[str, str]
    states: tuple[PowerState, ...]
    sleeps: Mapping[int, SleepState] = {}
    off_w: float = 0.0
    trouble: InputError | None = None  # why its watts and states are not known, although the platform has some

    @property
    def has_watts(self) -> bool:
        """Return whether it is known what the host draws."""
        return any(state.busy_w for state in self.states)


def hosts_of_nodes(nodes: Sequence[NodeClass], power: Sequence[NodePower] | None) -> tuple[Host, ...]:
    """Return a host for each node; where the watts of the nodes are known, it can be switched off, which is state 1, at once."""
    count = sum(item.nodes for item in nodes)
    digits = len(str(count - 1))
    found: list[Host] = []
    for number, item in enumerate(nodes):
        cores = item.cores
        told = ("memory_mb", "memory_bandwidth_mbs", "network_mbs", "disk_mbs")
        properties = {"cores": str(cores)} | {key: str(getattr(item, key)) for key in told if getattr(item, key)}
        states: tuple[PowerState, ...] = (PowerState(1e9, 0.0, 0.0),)
        sleeps: Mapping[int, SleepState] = {}
        if power is not None:
            watts = power[number]
            states = (PowerState(1e9, watts.idle_w, watts.idle_w + watts.busy_w * cores), PowerState(1e9, 0.0, 0.0))
            sleeps = {1: SleepState(1, 1, 1)}
        for _ in range(item.nodes):
            found.append(Host(f"node{len(found):0{digits}}", properties, states, sleeps))
    return tuple(found)


def read_platform(file: str, master: str = MASTER, most: int | None = None) -> tuple[Host, ...]:
    """Return the compute hosts of a SimGrid platform, in Batsim's order; raises InputError with file, place and what was expected.

    ``master`` is the host of the simulator itself, which takes no jobs; ``most`` is how many of the others there are (``--mmax``).
    As in SimGrid, what cannot be read of watts and states matters only where energy is asked for (`Host.trouble`).
    """
    try:
        content = Path(file).read_bytes().removeprefix(codecs.BOM_UTF8)
        root = ElementTree.fromstring(content.lstrip())  # SimGrid's parser takes empty lines before <?xml
    except OSError as error:
        raise InputError(file, "a file that can be read", error.strerror) from error
    except ElementTree.ParseError as error:
        before = content[: len(content) - len(content.lstrip())].count(b"\n")
        told, line = str(error).rpartition(":")[0], error.position[0] + before
        raise InputError(file, "an XML file of a platform", told, line) from error
    except (LookupError, ValueError) as error:  # of an encoding that is unknown, or none of texts
        raise InputError(file, "an XML file of a platform, in UTF-8", str(error)) from error
    if root.tag != "platform":
        raise InputError(file, "the element platform", root.tag)
    try:
        hosts = sorted(islice(_hosts(root, file), 2 * MAX_NODES), key=lambda host: host.name)
    except RecursionError as error:
        raise InputError(file, "fewer zones within each other") from error
    names = {host.name for host in hosts}
    if len(names) < len(hosts):
        twice = next(one.name for one, other in pairwise(hosts) if one.name == other.name)
        raise InputError(file, "hosts with different names", f"two of the name {twice}")
    if master not in names:
        raise InputError(file, f"the host {master} for the simulator (--master NAME)", "a platform without it")
    role = next(host for host in hosts if host.name == master).properties.get("role", "")
    if role not in ("", "master"):
        raise InputError(file, f"the host {master} as master", f"its role {role}")
    found = [host for host in hosts if host.name != master and host.properties.get("role", "") in ("", "compute_node")]
    if not found or len(found) > MAX_NODES:
        raise InputError(file, f"1 to {MAX_NODES} compute hosts besides the master", str(len(found)))
    return tuple(found[:most])


def _hosts(parent: ElementTree.Element, file: str) -> Iterator[Host]:
    """Yield the hosts below an element."""
    for element in parent:
        if element.tag in ("host", "peer"):
            yield _host(element, element.get("id", ""), file)
        elif element.tag in ("cluster", "cabinet"):
            prefix, suffix = element.get("prefix", ""), element.get("suffix", "")
            for number in _radical(element.get("radical", ""), element.tag, file):
                yield _host(element, f"{prefix}{number}{suffix}", file)
        elif element.tag in ("zone", "AS"):
            yield from _hosts(element, file)
        elif element.tag == "prop" or element.tag in _WITHOUT_HOSTS:
            continue
        else:
            raise InputError(file, "zones, hosts, clusters and links", f"the element {element.tag}")


def _radical(text: str, tag: str, file: str) -> Iterator[int]:
    """Yield the numbers of the hosts of a cluster or a cabinet: ``0-3,7``."""
    ranges = []
    for part in text.split(","):
        found = re.fullmatch(r"([0-9]{1,7})(?:-([0-9]{1,7}))?", part.strip(), re.ASCII)
        if found is None:
            raise InputError(file, "numbers such as 0-3,7", repr(text), field=f"{tag}.radical")
        ranges.append(range(int(found[1]), int(found[2] or found[1]) + 1))
    if sum(map(len, ranges)) > MAX_NODES:
        raise InputError(file, f"at most {MAX_NODES} hosts", repr(text), field=f"{tag}.radical")
    yield from chain.from_iterable(ranges)


def _host(element: ElementTree.Element, name: str, file: str) -> Host:
    if not name:
        raise InputError(file, "a name", "none", field="host.id")
    properties = {each.get("id", ""): each.get("value", "") for each in element if each.tag == "prop"}
    speeds = [_speed(text.strip(), name, file) for text in element.get("speed", "").split(",")]
    plain = Host(name, properties, tuple(PowerState(speed, 0.0, 0.0) for speed in speeds))
    try:
        return _with_energy(plain, file)
    except InputError as error:
        return plain._replace(trouble=error)


def _with_energy(host: Host, file: str) -> Host:
    """Return a host with its watts and its states of sleep; raises InputError."""
    name, properties, states = host.name, host.properties, host.states
    key = next((key for key in ("wattage_per_state", "watt_per_state") if key in properties), None)
    if key is not None:
        watts = [_watts(text, name, file) for text in properties[key].split(",")]
        if len(watts) != len(states):
            few, many = sorted((len(watts), len(states)))
            which = f"state {few}" if many == few + 1 else f"states {few} to {many - 1}"
            lack = f"the {'watts' if len(watts) < len(states) else 'speeds'} of {which}, counted from 0, are missing"
            expected = f"watts of {len(states)} states, as there are speeds"
            raise InputError(file, expected, f"{len(watts)}: {lack}", field=f"{name}.{key}")
        states = tuple(
            state._replace(idle_w=each[0], busy_w=each[1]) for state, each in zip(states, watts, strict=True)
        )
    sleeps = {}
    told = properties.get("sleep_pstates", "")
    for text in told.split(",") if told.strip() else ():
        numbers = [int(each) if re.fullmatch(r"\s*[0-9]{1,6}\s*", each) else -1 for each in text.split(":")]
        if len(numbers) != 3 or not all(0 <= each < len(states) for each in numbers):
            raise InputError(file, "three numbers of states, such as 2:4:3", repr(text), field=f"{name}.sleep_pstates")
        sleeps[numbers[0]] = SleepState(*numbers)
    off_w = _number(properties.get("wattage_off", "0"), name, file)
    return host._replace(states=states, sleeps=sleeps, off_w=off_w)


def _speed(text: str, name: str, file: str) -> float:
    found = _SPEED.fullmatch(text)
    speed = 0.0 if found is None else float(found[1]) * _UNITS.get(found[2], 0.0)
    if not 0 < speed < float("inf"):
        raise InputError(file, "a speed such as 1Gf or 1e9flops", repr(text), field=f"{name}.speed")
    return speed


def _watts(text: str, name: str, file: str) -> tuple[float, float]:
    """Return the watts of an idle host and of one whose cores are all busy; between them may stand those of a little work."""
    values = [_number(each, name, file) for each in text.split(":")]
    if len(values) not in (2, 3):
        raise InputError(file, "watts such as 95:120:150", repr(text), field=f"{name}.wattage_per_state")
    return values[0], values[-1]


def _number(text: str, name: str, file: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise InputError(file, "a number of watts", repr(text), field=f"{name}.wattage_per_state")
    return value
