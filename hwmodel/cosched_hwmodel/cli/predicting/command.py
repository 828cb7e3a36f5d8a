"""The command ``predict``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from cosched_hwmodel.cli.errors import CommandError
from cosched_hwmodel.cli.measuring.files import profiles_file
from cosched_hwmodel.cli.nodes import one_node
from cosched_hwmodel.cli.predicting.blame import Told, tell
from cosched_hwmodel.cli.predicting.jobs import jobs_of, read_profiles
from cosched_hwmodel.cli.terminal.text_table import align
from cosched_hwmodel.composite.model import CompositeModel
from cosched_hwmodel.composite.profile import Profile
from cosched_hwmodel.topology import NodeShape


def predict_on_node(
    node_text: str,
    words: Sequence[str],
    *,
    profiles: str | None,
    seat: str | None,
    assignments: Sequence[str],
    as_json: bool,
) -> None:
    """Print who slows whom on a node."""
    node = one_node(node_text)
    jobs = jobs_of(words, _profiles(profiles, node_text), node, seat)
    told = tell(CompositeModel.from_parameters(_parameters(assignments)), node, jobs)
    if as_json:
        click.echo(json.dumps({"node": node.name, "jobs": [_values(each) for each in told]}, indent=2))
        return
    for line in _lines(node, told):
        click.echo(line)


def _profiles(file: str | None, node_text: str) -> dict[str, Profile]:
    """Return the profiles of a file; without one, of the file that ``measure`` has written beside the node's, if any."""
    if file is None:
        beside = profiles_file(node_text)
        return read_profiles(beside) if node_text.endswith(".toml") and Path(beside).is_file() else {}
    return read_profiles(file)


def _parameters(assignments: Iterable[str]) -> list[tuple[str, object]]:
    """Return the parameters of ``KEY=VALUE`` words: whole numbers, else texts."""
    found: list[tuple[str, object]] = []
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise CommandError("--set", f"expected KEY=VALUE, got {assignment!r}")
        found.append((key, int(value) if value.isascii() and value.isdecimal() else value))
    return found


def _lines(node: NodeShape, told: Sequence[Told]) -> list[str]:
    """Return a row for each job, and further rows where several others slow it down."""
    rows = [["job", "threads", "takes", "slowed by", "through"]]
    for each in told:
        blames = [
            [
                f"{blame.by} +{blame.penalty:.2f}" if blame.by != each.job.label else f"itself +{blame.penalty:.2f}",
                _parts(blame.parts),
            ]
            for blame in each.blames
        ] or [["-", "-"]]
        first = [each.job.label, ",".join(map(str, each.job.threads)), f"{each.slowdown:.2f}"]
        rows += [[*(first if index == 0 else ["", "", ""]), *blame] for index, blame in enumerate(blames)]
    return [f"On {node.name}; alone each process takes 1:", *[f"  {line}" for line in align(rows, right=(2,))]]


def _parts(parts: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {part:.2f}" for name, part in parts) or "-"


def _values(told: Told) -> dict[str, Any]:
    return {
        "job": told.job.label,
        "threads": list(told.job.threads),
        "slowdown": told.slowdown,
        "resources": dict(told.parts),
        "slowed_by": [
            {"job": blame.by, "penalty": blame.penalty, "resources": dict(blame.parts)} for blame in told.blames
        ],
    }
