"""The policy of a run, in any form that the caller may give it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, TypeAlias

from cosched_emulator.scenario.schema import Scenario
from cosched_plugin.common.errors import UsageError
from cosched_plugin.config import PolicyChoice, choose, choose_class, from_table

PolicyLike: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Callable[..., object] | PolicyChoice
Settings: TypeAlias = Mapping[str, Any] | Iterable[str]


def policy_of(policy: PolicyLike | None, settings: Settings, scenario: Scenario) -> PolicyChoice:
    """Return the policy that the caller names, with ``settings`` applied; None: the scenario's policy, else EASY.

    Raises UsageError with the key for an unknown policy or setting.
    """
    settings = _checked(settings)
    if policy is None:
        return from_table(scenario.policy, settings) if scenario.policy else choose("easy", settings)
    if isinstance(policy, PolicyChoice):
        if settings:
            raise UsageError("settings: expected none beside a policy that is chosen already; choose it with them")
        return policy
    if isinstance(policy, str):
        return choose(policy, settings)
    if isinstance(policy, os.PathLike):
        file = os.fspath(policy)
        if not file.endswith(".toml"):
            raise UsageError(f"policy: expected a name, or a file that ends in .toml, got {file}")
        return choose(file, settings)
    if isinstance(policy, Mapping):
        return from_table(policy, settings)
    if callable(policy):
        return choose_class(policy, settings)
    raise UsageError(
        "policy: expected a name, a file, a table, MODULE:CLASS, a class or a function that makes a policy, "
        f"got an object of class {type(policy).__name__}"
    )


def _checked(settings: object) -> Settings:
    """Return a table of settings unchanged, and texts as a list; raises UsageError for anything else."""
    if isinstance(settings, Mapping):
        return settings
    if isinstance(settings, Iterable) and not isinstance(settings, str):
        texts = list(settings)
        if all(isinstance(text, str) for text in texts):
            return texts
    raise UsageError(f"settings: expected a table, or a list of texts KEY=VALUE, got {settings!r}")


def check_plain(name: str, settings: Mapping[str, Any], *, allow_nan: bool = False) -> None:
    """Raise UsageError for settings that JSON cannot represent."""
    for key, value in settings.items():
        try:
            json.dumps(value, allow_nan=allow_nan)
        except (TypeError, ValueError) as error:
            raise UsageError(f"policy {name}: {key}: expected a value that JSON has a word for: {error}") from error


def check_remote(policy: object, choice: PolicyChoice) -> None:
    """Raise UsageError if another process cannot make the policy: its class cannot be imported by its name."""
    if isinstance(policy, str | os.PathLike | Mapping | PolicyChoice | None):
        return
    module, _, name = choice.argument.partition(":")
    if module == "__main__" or getattr(import_module(module), name, None) is not policy:
        raise UsageError(
            f"policy {choice.name}: expected a class or a function at the top of a module with link zmq, "
            "whose scheduler is another process"
        )
    check_plain(choice.name, choice.settings, allow_nan=True)
