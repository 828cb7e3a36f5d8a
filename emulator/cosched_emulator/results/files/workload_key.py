"""A key that tells whether two runs have the same jobs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from cosched_emulator.errors import InputError
from cosched_emulator.results.files.folder import PROFILES, USAGE, WORKLOAD
from cosched_emulator.results.files.policy_of_run import configuration_of

_DEMAND = ("mix", "demand_high", "demand_medium", "demand_low")  # occurs in no file of a run


def workload_key(folder: Path) -> str:
    """Return a key that is equal for two runs with the same jobs and the same demand.

    The name of the source does not count. A missing file counts as empty. Raises InputError for a file that cannot be read.
    """
    config = configuration_of(folder)
    section = config.get("workload", {})
    demand = {key: section.get(key) for key in _DEMAND} if isinstance(section, dict) and section.get("mix") else {}
    if demand:
        demand["seed"] = config.get("seed")
    digest = hashlib.sha256(json.dumps(demand, sort_keys=True).encode())
    for name in (WORKLOAD, USAGE, PROFILES):
        file = folder / name
        if name == PROFILES and not file.exists():
            continue  # keys of runs without profiles are those of earlier versions
        digest.update(name.encode() + b"\0")
        try:
            if file.exists():
                with open(file, "rb") as lines:
                    for line in lines:
                        if not line.startswith(b";"):  # the source of the jobs
                            digest.update(line)
        except OSError as error:
            raise InputError(str(file), "a file that can be read", error.strerror or str(error)) from error
    return digest.hexdigest()
