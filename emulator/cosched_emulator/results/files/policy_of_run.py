"""What a run folder, or a choice of a policy, tells of the policy's parts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cosched_emulator.results.files.folder import RUN, read_json


def part_name(settings: Mapping[str, Any], kind: str) -> str | None:
    """Return the name of the policy's part of a kind, such as ``shape``; None: the settings name none."""
    part = settings.get(kind)
    name = part.get("name") if isinstance(part, Mapping) else None
    return name if isinstance(name, str) else None


def configuration_of(folder: Path) -> Mapping[str, Any]:
    """Return the resolved scenario of a run, with the settings of its policy; raise InputError if the folder is no run folder."""
    config = read_json(folder, RUN, ("config",))["config"]
    return config if isinstance(config, dict) else {}


def policy_settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the name of the policy and its parts, as far as a run's configuration has them: `serve` knows the name only."""
    policy = config.get("policy")
    return policy if isinstance(policy, dict) else {}
