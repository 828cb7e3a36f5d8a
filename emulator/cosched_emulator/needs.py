"""What a setting needs to have an effect, and which runs have it in their record: marks in its annotation, beside its bounds.

    shake_seed: Annotated[int, given("workload.shake"), "seed of these draws, ..."] = 0

`unmet` finds the settings that were changed and lack something. Most needs ask the scenario alone; what policy, jobs and
nodes of a run decide has its test in `run.policy_warnings`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from cosched_emulator.bounds import annotation_of, changed, marks_in, marks_of
from cosched_emulator.offered import CONTENTION, NAS_PREFIX
from cosched_hwmodel.quick_classes import frozen

_WORDS: Final = re.compile(r"\w+")


@frozen
class Needs:
    """A setting has an effect only in a scenario where ``met`` holds; elsewhere it has none ``told``, as in "without KEY".

    Elsewhere it is an error if it is ``refused``, else a warning.
    """

    told: str
    met: Callable[[Any], bool] = lambda _scenario: True
    refused: bool = False

    __eq__, __hash__ = object.__eq__, object.__hash__  # each is itself alone


@frozen
class Later:
    """A setting that came when there were studies. A run's record, and so its key, has it where it is not the default.

    With ``beside``: where one of those settings is given.
    """

    beside: tuple[str, ...] = ()


class Setting(NamedTuple):
    """A setting of a scenario, and its value there."""

    section: str  # empty: none
    key: str
    value: Any

    @property
    def path(self) -> str:
        """Return the setting's name in errors."""
        return f"{self.section}.{self.key}" if self.section else self.key


def unmet(scenario: Any, met: Callable[[Needs], bool]) -> Iterator[tuple[Setting, Needs]]:
    """Yield each changed setting that has no effect, with the first of its needs that is not ``met``."""
    for item, value in changed(scenario):
        kind, inside = type(value), is_dataclass(value)
        shared = marks_of(type(scenario), item.name, Needs)
        for own, held in changed(value) if inside else [(item, value)]:
            marks = shared + marks_of(kind, own.name, Needs) if inside else shared
            lacks = next((need for need in marks if not met(need)), None)
            if lacks is not None:
                yield Setting(item.name if inside else "", own.name, held), lacks


def unrecorded(scenario: Any) -> Iterator[Setting]:
    """Yield each setting that the record of a run does not have."""
    for item in fields(scenario):
        value = getattr(scenario, item.name)
        inside = is_dataclass(value)
        holder = value if inside else scenario
        for own in fields(holder) if inside else [item]:
            marks = later_of(type(holder), own.name)
            held = getattr(holder, own.name)
            if not all(
                any(value_at(scenario, path) for path in mark.beside) if mark.beside else held != own.default
                for mark in marks
            ):
                yield Setting(item.name if inside else "", own.name, held)


@cache
def _later(kind: Any, name: str) -> tuple[Later, ...]:
    """Return the marks of a field that came later: those of the types that its annotation names, or its own, which are evaluated."""
    text, module = annotation_of(kind, name)
    words = set(_WORDS.findall(text))
    if Later.__name__ in words:
        return tuple(marks_of(kind, name, Later))
    return tuple([mark for word in words for mark in marks_in(vars(module).get(word)) if isinstance(mark, Later)])


later_of: Final[Callable[[Any, str], tuple[Later, ...]]] = _later  # mypy: a class is not Hashable


def value_at(scenario: Any, path: str) -> Any:
    """Return the value of a setting or a section; None where its section is not given."""
    value = scenario
    for key in path.split("."):
        value = getattr(value, key, None)
    return value


# What a setting needs of others.


def given(*paths: str, users: bool = False, refused: bool = False) -> Needs:
    """Return the need of one of these settings; with ``users``, users of a running clock may stand for them."""

    def met(scenario: Any) -> bool:
        return (users and scenario.clock.mode != "virtual") or any(value_at(scenario, path) for path in paths)

    return Needs(f"without {' or '.join(map(_told, paths))}", met, refused)


def absent(path: str, *, refused: bool = False) -> Needs:
    """Return the need that a setting or a section is not given."""
    return Needs(f"with {_told(path)}", lambda scenario: value_at(scenario, path) is None, refused)


def one_of(path: str, *values: str, refused: bool = False) -> Needs:
    """Return the need that a setting has one of these values."""
    told = f"without {path.rpartition('.')[2]} = {_named(values)}"
    return Needs(told, lambda scenario: value_at(scenario, path) in values, refused)


def known(path: str) -> Needs:
    """Return the need that the scheduler knows what a setting of [belief] is about."""
    return Needs(f"without {path} that is known", lambda scenario: value_at(scenario, path) != "unknown")


def _told(path: str) -> str:
    return path if "." in path else f"[{path}]"


def _named(values: tuple[str, ...]) -> str:
    return " or ".join([f'"{value}"' for value in values])


# What it needs of the jobs: their source, and what their processes do.


SOURCES: Final = ("swf", "lublin", "nas", "applications")  # of jobs, keys of [workload]


def source_of(scenario: Any) -> str | None:
    """Return where the jobs come from; None: from users. Applications may also name the jobs of a log or of the model."""
    return next((key for key in SOURCES if value_at(scenario.workload, key)), None)


def jobs_of(*sources: str) -> Needs:
    """Return the need of jobs from one of these sources; others refuse the setting."""
    told = f"without jobs of {' or '.join([f'workload.{name}' for name in sources])}"
    return Needs(told, lambda scenario: source_of(scenario) in (None, *sources), refused=True)


def programs(*names: str) -> Needs:
    """Return the need of one of these programs, or of a side file, which may have any."""
    told = _named(tuple([f"{name}..." if name == NAS_PREFIX else name for name in names]))

    def met(scenario: Any) -> bool:
        jobs = scenario.workload
        usual: str = NAS_PREFIX if jobs.nas is not None else jobs.programs or "fine"
        return usual.startswith(names) or usual.endswith(".csv")

    return Needs(f"without programs = {told}", met)


MESSAGES: Final = programs(NAS_PREFIX)
# A policy of others may prefer processes for something else than a message.
MESSAGES_OR_OTHERS: Final = Needs(
    MESSAGES.told, lambda scenario: ":" in (scenario.time_sharing.coscheduling or "") or MESSAGES.met(scenario)
)
FILES: Final = programs("io", "qcrd")
BARRIERS: Final = Needs("with nas", lambda scenario: scenario.workload.nas is None)
NO_PROCESSES: Final = absent("time_sharing")  # nodes that run processes need no model of contention


GROWN: Final = Needs(NO_PROCESSES.told, lambda scenario: scenario.workload.grow or NO_PROCESSES.met(scenario))


def _polls(scenario: Any) -> bool:
    """Return whether a process may poll: its program may have messages, and the policy does not block at once."""
    sharing = scenario.time_sharing
    usual = "nls" if sharing.nodes == "windows" else "none"
    return sharing.nodes != "fluid" and (sharing.coscheduling or usual) != "none"


def _fails(scenario: Any) -> bool:
    """Return whether a node may fail: by plan, by script, or because users and operators act on a running clock."""
    faults = scenario.faults
    planned = faults is not None and (faults.nodes is not None or any(fault.do == "fail" for fault in faults.at))
    return planned or scenario.clock.mode != "virtual" or any(entry.do == "fail-node" for entry in scenario.script)


FAILING: Final = Needs("where no node fails ([faults], [[script]])", _fails)
POLLS: Final = Needs("with processes that never poll for a message", _polls)

# What it needs of contention.


def contention_of(scenario: Any) -> tuple[str, str]:
    """Return the model of the truth, and the believed one."""
    truth = scenario.truth.contention
    return truth, scenario.belief.contention or truth


def models(*names: str) -> Needs:
    """Return the need that one of these models is the truth, or believed."""
    told = f"without contention = {_named(names)}"
    return Needs(told, lambda scenario: not set(names).isdisjoint(contention_of(scenario)))


def believed(*names: str) -> Needs:
    """Return the need that one of these models is believed."""
    return Needs(f"without contention = {_named(names)}", lambda scenario: contention_of(scenario)[1] in names)


def bandwidth(resource: str) -> Needs:
    """Return the need of a model that knows a limit of this resource."""

    def met(scenario: Any) -> bool:
        present, belief = contention_of(scenario), scenario.belief
        shared = resource in (*scenario.truth.resources, *(belief.resources or ()))
        return "composite" in present or ("bandwidth" in present and shared)

    return Needs(f'without contention = "bandwidth" with {resource} among its resources, or "composite"', met)


def _read_by(model: str, *present: str) -> bool:
    return any(name == model or name not in CONTENTION for name in present)  # a model of others may


def _believer(model: str) -> Needs:
    """Return the need of a belief that reads what this model, alone of ours, reads of jobs."""
    return Needs(models(model).told, lambda scenario: _read_by(model, contention_of(scenario)[1]))


PROFILES: Final = Needs(models("composite").told, lambda scenario: _read_by("composite", *contention_of(scenario)))
BELIEVED_DEMAND, BELIEVED_USE, BELIEVED_PROFILES = map(_believer, ("bandwidth", "lomarc", "composite"))
# On CPUs that two cpu-bound jobs cannot share, `lomarc` finds no pair compatible.
SHARED_CPUS: Final = one_of("truth.cpu", "hyperthreaded")
SHARED_CPUS_OR_DRAWN: Final = Needs(
    SHARED_CPUS.told, lambda scenario: SHARED_CPUS.met(scenario) or "statistical" in contention_of(scenario)
)
SHARED_CPUS_IF_LOMARC: Final = Needs(
    SHARED_CPUS.told, lambda scenario: SHARED_CPUS.met(scenario) or contention_of(scenario)[1] != "lomarc"
)

# What only a run tells: its policy, its jobs, its nodes.

_SLOWED: Final = "where no job slows another one down"
_ASKED: Final = "under a policy that asks for no such belief"
_COUNTS: Final = "under this contention and this policy"
_SUSPENDED: Final = "where no job is suspended so"
_MEMORY: Final = "where no job requests memory"
SLOWED, CONTENDED, PAIRED, LIMITED = Needs(_SLOWED), Needs(_SLOWED), Needs(_SLOWED), Needs(_SLOWED)
ASKED_PAIRS, ASKED_LOSSES, ASKED_EITHER, ASKED_SELF = Needs(_ASKED), Needs(_ASKED), Needs(_ASKED), Needs(_ASKED)
ASKED_NEVER: Final = Needs(_ASKED)  # all parts that ship expect losses node by node
DEMAND_COUNTS, USE_COUNTS, SELF_COUNTS = Needs(_COUNTS), Needs(_COUNTS), Needs(_COUNTS)
SUSPENDED, ON_DISK = Needs(_SUSPENDED), Needs(_SUSPENDED)
MEMORY, MEMORY_OF_PROGRAMS = Needs(_MEMORY), Needs(_MEMORY)
MEMORY_LIMIT: Final = Needs("where no node has a limit of memory (cluster.memory_mb)")
FOLLOWED: Final = Needs("under a policy that follows no measured slowdowns")
TURNS: Final = Needs("under a policy without turns of slots")
SHARED_CPU: Final = Needs("where a CPU has one process at a time")
SHARED_NODES: Final = Needs("on nodes of one hardware thread")
SHARED_CORES: Final = Needs("under a policy that puts no two jobs on a core, or beside each other in a quantum")
