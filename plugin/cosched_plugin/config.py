"""Makes a policy from the user's choice: a preset's name, a TOML file, an installed entry point or ``module:Class``, with settings.

--policy rua                                  a preset
--policy mine.toml                            a file with a [policy] table
--policy easy --set placement=packed          a preset with another part
--policy lct --set placement.threshold=1.25   ... or a parameter changed
--policy sites.greedy:Greedy --set depth=3    a class of yours; settings are its keyword arguments
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from cosched_hwmodel.errors import HardwareModelError, from_outside
from cosched_hwmodel.models.by_name import BUILT_IN, AllowedModels, PairFactory
from cosched_hwmodel.models.importing import FORM, NamedImportError, import_named
from cosched_hwmodel.text_formats import read_toml, toml_of
from cosched_plugin.common.deadline import Overdue, overdue_after
from cosched_plugin.common.errors import UsageError
from cosched_plugin.policies.composition.presets import ALIASES, PRESETS, plain_table
from cosched_plugin.protocol.errors import RemoteProtocolError

# The core and the parts are imported where they are made: a run in which counting decides asks for the settings alone.
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from cosched_hwmodel.pairs import PairModel
    from cosched_plugin.core.engine import Policy, SchedulerCore
    from cosched_plugin.core.trace import TraceSink
    from cosched_plugin.policies.backfilling.recorded import Recorded, Schedule
    from cosched_plugin.protocol.messages import Belief, Welcome

ENTRY_POINTS = "cosched.policies"
RECORDED: Final = "cosched_plugin.policies.backfilling.recorded:Recorded"  # a backfill that no table can describe alone
MAKING_S = 60.0  # longest time in which the modules of a policy are imported, and it is made for the first time
Assignments: TypeAlias = Iterable[str] | Mapping[str, Any]  # KEY=VALUE texts, or a table


class PolicyChoice(NamedTuple):
    """A policy that can be made as often as needed, once for each scheduler core."""

    name: str  # for people
    settings: Mapping[str, Any]  # fully resolved, for the record of a run
    make: Callable[[], Policy]
    argument: str  # the value of --policy on top of which these settings apply

    @property
    def shipped(self) -> bool:
        """Tell whether all its parts belong to cosched; what other parts ask for is not known."""
        from cosched_plugin.policies.composition.catalogue import KINDS  # noqa: PLC0415 - see above

        return "order" in self.settings and all(self.settings[kind]["name"] in KINDS[kind] for kind in self.settings)

    @property
    def preset(self) -> bool:
        """Tell whether it is a preset that ships, with settings on top or without."""
        return self.name in PRESETS

    @property
    def replays(self) -> bool:
        """Tell whether jobs start as a record says, which `with_record` gives."""
        return RECORDED in (self.settings.get("backfill") or {}).values()

    def with_record(self, schedule: Schedule) -> PolicyChoice:
        """Return the choice with what the record says of each job: start and nodes, as `Recorded` has them."""
        from cosched_plugin.policies.backfilling.recorded import Recorded  # noqa: PLC0415 - see above

        return self._replace(make=lambda: _composed(self.settings, Recorded(schedule)))

    def arguments(self) -> list[str]:
        """Return command-line arguments with which another process makes the same choice."""
        return ["--policy", *self.check_arguments()]

    def check_arguments(self) -> list[str]:
        """Return the arguments with which ``cosched-plugin check`` makes the same choice."""
        arguments = [self.argument]
        for text in assignment_texts(self.settings):
            arguments += ["--set", text]
        return arguments

    def scheduler(
        self, welcome: Welcome, trace: TraceSink | None = None, models: Mapping[str, PairFactory] = BUILT_IN
    ) -> SchedulerCore:
        """Return a new core with a new policy, from a manager's welcome.

        ``trace`` takes the records of a decision trace; ``models`` are the contention models that the manager may name.
        """
        from cosched_plugin.core.engine import SchedulerCore  # noqa: PLC0415 - see above

        return SchedulerCore(self.make(), welcome, trace, models)


def believed(welcome: Welcome, models: Mapping[str, PairFactory] = BUILT_IN) -> PairModel | None:
    """Return what a welcome says that is believed of two jobs on a node; None: nothing."""
    from cosched_plugin.core.state import believed_pairs  # noqa: PLC0415 - see above

    return believed_pairs(welcome.belief, models, welcome.nodes)


def believed_at(file: str | None, belief: Belief, models: Mapping[str, PairFactory] = BUILT_IN) -> PairModel | None:
    """Return what a site file says that is believed of two jobs on a node; UsageError names the file and the key."""
    from cosched_plugin.core.state import believed_pairs  # noqa: PLC0415 - see above

    try:
        return believed_pairs(belief, models)
    except RemoteProtocolError as error:  # that of a peer would be another exit code, after which a unit tries again
        raise UsageError(f"{file}: {error.path.removeprefix('welcome.')}: {error.text}") from error


def choose(policy: str, assignments: Assignments = ()) -> PolicyChoice:
    """Return the policy that the user named, with the assignments applied. Raises UsageError, which names the key."""
    with _in_time(policy):
        return _chosen(policy, parse_assignments(assignments))


def _chosen(policy: str, settings: Mapping[str, Any]) -> PolicyChoice:
    if policy.endswith(".toml"):
        return _composition(Path(policy).stem, _merge(read_policy_file(policy), settings))
    if ":" in policy:
        return _class_choice(policy, _load_class(policy), settings)
    policy = ALIASES.get(policy, policy)
    if policy in PRESETS or policy in _presets_of_others():
        return _composition(policy, _merge({"preset": policy}, settings))
    from cosched_plugin.policies.composition.finding import installed, installed_path  # noqa: PLC0415 - see above

    path = installed_path("policy", ENTRY_POINTS, policy)
    if path is not None:
        return _class_choice(policy, _loaded(f"policy {policy} ({path})", path), settings)
    known = [*PRESETS, *ALIASES, *_presets_of_others(), *installed(ENTRY_POINTS)]
    from difflib import get_close_matches  # noqa: PLC0415 - slow to load, for errors only

    close = get_close_matches(policy, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
    raise UsageError(f"no policy {policy!r}; {hint}" + (f"; a class of yours is {FORM}" if "." in policy else ""))


def choose_class(make: Callable[..., object], assignments: Assignments = ()) -> PolicyChoice:
    """Return the policy that a class or a function makes, with the assignments as keyword arguments; raises UsageError."""
    name = f"{make.__module__}:{getattr(make, '__qualname__', type(make).__qualname__)}"
    with _in_time(name):
        return _class_choice(name, make, parse_assignments(assignments))


def allow_models(names: Iterable[str]) -> AllowedModels:
    """Return the contention models that a manager may name: those built in or installed, and these; raises UsageError."""
    try:
        return AllowedModels(names)
    except HardwareModelError as error:
        raise UsageError(f"--contention: {error}") from error


def from_table(table: Mapping[str, Any], assignments: Assignments = ()) -> PolicyChoice:
    """Return the composition that a ``[policy]`` table describes."""
    name = str(table.get("preset", "composed"))
    with _in_time(name):
        return _composition(name, _merge(table, parse_assignments(assignments)))


@contextmanager
def _in_time(policy: str) -> Iterator[None]:
    try:
        with overdue_after(MAKING_S, lambda: policy):
            yield
    except Overdue as where:
        raise UsageError(f"policy {policy}: it is not made within {MAKING_S:g} s: {where}") from None


def read_policy_file(file: str) -> Mapping[str, Any]:
    """Return the ``[policy]`` table of a TOML file."""
    try:
        content = read_toml(file)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file}: not a TOML file: {error}") from error
    table = content.get("policy")
    if not isinstance(table, dict):
        raise UsageError(f"{file}: policy: expected a [policy] table")
    return table


def parse_assignments(assignments: Assignments) -> dict[str, Any]:
    """Return ``a.b=value`` texts as a nested table; values are TOML, and anything else a string.

    A table is copied as it is, except that a key with dots is a path in the nested table. Raises UsageError.
    """
    table: dict[str, Any] = {}
    if isinstance(assignments, Mapping):
        for key, value in assignments.items():
            _assign(table, str(key).split("."), dict(value) if isinstance(value, Mapping) else value)
        return table
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        parts = key.strip().split(".")
        if not separator or not all(parts):
            raise UsageError(f"--set {assignment}: expected KEY=VALUE, such as placement.threshold=1.25")
        try:
            content = toml_of(f"value = {text}")
        except ValueError:
            content = {"value": text.strip()}
        value = content.pop("value")
        if content or isinstance(value, date | time):
            raise UsageError(f"--set {assignment}: expected one number, text, list or table")
        _assign(table, parts, value)
    return table


def assignment_texts(settings: Mapping[str, Any]) -> list[str]:
    """Return a table of settings as texts KEY=VALUE, of which `parse_assignments` makes the same table."""
    return [f"{key}={toml_value(value)}" for key, value in settings.items()]


def _assign(table: dict[str, Any], parts: Sequence[str], value: object) -> None:
    """Set a value in a nested table, at the path given by the keys."""
    inner = table
    for part in parts[:-1]:
        deeper = inner.setdefault(part, {})
        if not isinstance(deeper, dict):
            deeper = inner[part] = {"name": deeper}
        inner = deeper
    if isinstance(inner.get(parts[-1]), dict) and isinstance(value, str):
        inner[parts[-1]]["name"] = value
    else:
        inner[parts[-1]] = value


def _presets_of_others() -> Mapping[str, EntryPoint]:
    from cosched_plugin.policies.composition.finding import PRESET_GROUP, installed  # noqa: PLC0415 - see above

    return installed(PRESET_GROUP)


def toml_value(value: object) -> str:
    """Return a value as TOML; JSON is TOML except for tables."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # nan and inf, which JSON spells differently
    return json.dumps(value, ensure_ascii=False)  # TOML has no pairs of surrogates


def _merge(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``table`` with ``changes`` on top: a new name drops the old part's parameters; parameters alone keep the name."""
    merged = dict(table)
    for key, change in changes.items():
        old = merged.get(key)
        if isinstance(change, dict) and "name" not in change and isinstance(old, str | dict):
            merged[key] = {**({"name": old} if isinstance(old, str) else old), **change}
        else:
            merged[key] = change
    return merged


def _composition(name: str, table: Mapping[str, Any]) -> PolicyChoice:
    settings = plain_table(table)
    if settings is None:
        from cosched_plugin.policies.composition.resolved import resolve  # noqa: PLC0415 - see above

        settings = resolve(table)
        _composed(settings)  # fail now, not when a manager calls
    return PolicyChoice(name, settings, lambda: _composed(settings), "easy")  # every part is among the settings


def _composed(settings: Mapping[str, Any], backfill: Recorded | None = None) -> Policy:
    from cosched_plugin.policies.composition.composed import compose  # noqa: PLC0415 - see above

    return compose(settings, backfill)


def _class_choice(name: str, policy_class: Callable[..., object], settings: Mapping[str, Any]) -> PolicyChoice:
    from cosched_plugin.policies.composition.finding import settings_of, suggest  # noqa: PLC0415 - see above

    known = settings_of(policy_class)
    for key in settings:
        if known is not None and key not in known:
            raise UsageError(f"policy {name}: no such setting {key!r}{suggest(key, known)}")

    def make() -> Policy:
        with from_outside(lambda told: UsageError(f"policy {name}: {told}")):
            policy = policy_class(**settings)
        if not callable(getattr(policy, "decide", None)):
            raise UsageError(f"policy {name}: it has no method decide(view)")
        return cast("Policy", policy)

    make()  # a class whose construction fails should fail now, not when a manager calls
    return PolicyChoice(name, dict(settings), make, name)


def _load_class(path: str) -> Callable[..., object]:
    return _loaded(f"policy {path}", path)


def _loaded(key: str, path: str) -> Callable[..., object]:
    try:
        loaded = import_named(path)
    except NamedImportError as error:
        raise UsageError(f"{key}: {error}") from error
    if not callable(loaded):
        raise UsageError(f"{key}: expected a class, got {loaded!r}")
    return loaded
