"""The metrics of the programs, as each serves them: made from a status in which every number is there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from scripts.reference_pages.policies import code, table

from cosched_emulator.live import live_server, watched
from cosched_plugin import server
from cosched_plugin.common.status import QUEUE_GAUGES, Gauge, Status
from cosched_plugin.slurm import gains

# What each program serves: its job for Prometheus -> prefix and gauges.
SERVED: Final[Mapping[str, tuple[str, Mapping[str, Gauge]]]] = {
    "manager": ("cosched_manager", {**live_server.GAUGES, **watched.GAUGES}),
    "scheduler": ("cosched_plugin", server.GAUGES),
    "slurm": ("cosched_plugin", {**QUEUE_GAUGES, **gains.GAUGES}),
}
_PROGRAMS: Final = {
    "manager": "`cosched-emulator serve`",
    "scheduler": "`cosched-plugin serve`",
    "slurm": "`cosched-plugin slurm`",
}
_LABEL: Final = re.compile(r'([a-z]+)="')


def served(program: str) -> str:
    """Return the metrics of a program in which every number is 1, and of what has a name there is one, x."""
    prefix, gauges = SERVED[program]
    fields: dict[str, Any] = {}
    for key in gauges:
        *path, last = ["x" if part == "*" else part for part in key.split(".")]
        inner = fields
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = 1
    return Status(lambda: fields, gauges).prometheus(prefix)


def metrics_page() -> Iterator[str]:
    """Yield the metrics by program."""
    yield "# Metrics"
    yield ""
    yield "What `--metrics HOST:PORT` serves to Prometheus ([the test bed](../tutorial-test-bed.md)). Labels have the names of"
    yield "partitions, resources and licences of the scenario. `info` has the texts of `status` as labels."
    yield ""
    for program, name in _PROGRAMS.items():
        yield from (f"## {name}", "")
        yield from table(("metric", "kind", "labels", "is"), _rows(served(program)))


def _rows(page: str) -> Iterator[Iterable[str]]:
    for head, kind, sample in re.findall(r"# HELP (.*)\n# TYPE \S+ (\S+)\n(.*)", page):
        name, _, text = head.partition(" ")
        yield code(name), kind, ", ".join(map(code, _LABEL.findall(sample))), text


PAGES: Final[Mapping[str, Callable[[], Iterable[str]]]] = {"metrics.md": metrics_page}
