"""The values that a shell offers: policies, shapes of nodes, folders of runs and studies, jobs and nodes of a manager."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import click

from cosched_terminal.commands import Values

_DEPTH: Final = 3  # folders below the one that is typed
_MOST: Final = 200  # that are looked into
_PATIENCE_S: Final = 1.0  # for a manager's answer

Offered = Iterator[tuple[str, str]]


def policies(typed: str, context: click.Context) -> Offered:
    """Yield policies, and those of logs."""
    from cosched_emulator.run.replay import REPLAYS
    from cosched_plugin.listing import policies_begun

    yield from policies_begun(typed, context)
    yield from ((name, "a log's own starts") for name in REPLAYS)


def shapes(_typed: str, _context: click.Context) -> Offered:
    """Yield the shapes of nodes that ship with cosched."""
    from cosched_hwmodel.topology import preset_names

    yield from ((name, "") for name in preset_names())


def runs(typed: str, _context: click.Context) -> Offered:
    """Yield folders of runs."""
    yield from _folders(typed, "summary.json")


def studies(typed: str, _context: click.Context) -> Offered:
    """Yield folders of studies."""
    yield from _folders(typed, "study.json")


def runs_and_studies(typed: str, context: click.Context) -> Offered:
    """Yield folders of both."""
    yield from runs(typed, context)
    yield from studies(typed, context)


def _folders(typed: str, mark: str) -> Offered:
    """Yield the folders with a file of this name that begin as typed, not far below."""
    begun, _, name = typed.rpartition("/")
    top = begun + "/" if "/" in typed else ""
    open_ones = [(top, 0)]
    looked = 0
    while open_ones and looked < _MOST:
        folder, depth = open_ones.pop(0)
        looked += 1
        for entry in sorted(os.scandir(folder or "."), key=lambda entry: entry.name):
            if not entry.is_dir() or entry.name.startswith(".") or (depth == 0 and not entry.name.startswith(name)):
                continue
            path = f"{folder}{entry.name}"
            if os.path.isfile(os.path.join(path, mark)):
                yield path, ""
            elif depth < _DEPTH:
                open_ones.append((f"{path}/", depth + 1))


def _asked(context: click.Context, request: Any) -> list[dict[str, Any]]:
    from cosched_emulator.cli.asking import Caller, ask
    from cosched_emulator.users.told import rows_of

    given = {name: context.params.get(name) or "" for name in ("manager", "key", "manager_key")}
    return rows_of(ask(Caller(**given, timeout_s=_PATIENCE_S, as_json=False), request))


def jobs(_typed: str, context: click.Context) -> Offered:
    """Yield the jobs of the manager that have not ended."""
    from cosched_emulator.users.requests import ListJobs
    from cosched_emulator.users.told import job_label

    yield from ((job_label(row), f"{row['state']} {row['name']}") for row in _asked(context, ListJobs()))


def nodes(_typed: str, context: click.Context) -> Offered:
    """Yield the nodes of the manager."""
    from cosched_emulator.users.requests import ListNodes

    yield from ((str(row["node"]), row["state"]) for row in _asked(context, ListNodes()))


_HERE: Final = "cosched_emulator.cli.completing"
POLICIES: Final = Values(f"{_HERE}:policies", "file")
SETTINGS: Final = Values("cosched_plugin.listing:settings_begun")
SHAPES: Final = Values(f"{_HERE}:shapes")
RUNS: Final = Values(f"{_HERE}:runs", "dir")
STUDIES: Final = Values(f"{_HERE}:studies", "dir")
RUNS_AND_STUDIES: Final = Values(f"{_HERE}:runs_and_studies", "dir")
