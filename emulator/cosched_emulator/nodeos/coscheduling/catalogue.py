"""Coscheduling policies by name: those here, those of installed packages, and ``module:Class``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.coscheduling.cc import CoordinatedCoscheduling
from cosched_emulator.nodeos.coscheduling.dcs import DynamicCoscheduling
from cosched_emulator.nodeos.coscheduling.foreign import ForeignPolicy
from cosched_emulator.nodeos.coscheduling.hybrid import Hybrid
from cosched_emulator.nodeos.coscheduling.nls import LocalOnly
from cosched_emulator.nodeos.coscheduling.pb import PeriodicBoost
from cosched_emulator.nodeos.coscheduling.protocol import CoschedulingPolicy
from cosched_emulator.nodeos.coscheduling.sb import SpinBlock
from cosched_hwmodel.models.importing import NamedImportError, import_named, installed

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
    try:
        policy = loaded(**given)
    except (Exception, SystemExit) as error:  # a constructor from outside can raise anything
        raise ConfigurationError(
            NAME_KEY, f"{name} with these parameters", f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(policy, CoschedulingPolicy):
        base = f"{CoschedulingPolicy.__module__}.{CoschedulingPolicy.__name__}"
        raise ConfigurationError(NAME_KEY, f"a class derived from {base}", f"{name}, which makes {policy!r}")
    return ForeignPolicy(name, policy)


def _check(name: str, make: Callable[..., object], given: Mapping[str, object]) -> None:
    """Raise `ConfigurationError` for parameters that a policy of ours does not have, or of the wrong type."""
    known = _defaults(make)
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
def _defaults(make: Callable[..., object]) -> dict[str, object]:
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
