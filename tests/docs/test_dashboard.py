"""The dashboard of Grafana asks for metrics that the programs have, in expressions that Prometheus takes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from tests.processes import free_port, killed_at_the_end, wait_until

from cosched_emulator.live import live_server, watched
from cosched_plugin import server
from cosched_plugin.common.metrics_server import MetricsServer
from cosched_plugin.common.status import QUEUE_GAUGES, Gauge, Status
from cosched_plugin.slurm import gains

DASHBOARD: Final = Path(__file__).parents[2] / "docs/examples/cosched-dashboard.json"
# What each program serves: its job for Prometheus -> prefix and gauges.
SERVED: Final[dict[str, tuple[str, dict[str, Gauge]]]] = {
    "scheduler": ("cosched_plugin", {**server.GAUGES}),
    "slurm": ("cosched_plugin", {**QUEUE_GAUGES, **gains.GAUGES}),
    "manager": ("cosched_manager", {**live_server.GAUGES, **watched.GAUGES}),
}
METRIC: Final = re.compile(r"(?<![a-z_])(up|cosched_[a-z_]+)(?:\{([^}]*)\})?")


def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return read


def queries() -> list[tuple[str, str]]:
    return [(panel["title"], target["expr"]) for panel in dashboard()["panels"] for target in panel["targets"]]


def page(job: str) -> str:
    """Return the metrics of a program in which every number is 1, and of what has a name there is one, x."""
    prefix, gauges = SERVED[job]
    fields: dict[str, Any] = {}
    for key in gauges:
        *path, last = ["x" if part == "*" else part for part in key.split(".")]
        inner = fields
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = 1
    return Status(lambda: fields, gauges).prometheus(prefix)


def kinds(job: str) -> dict[str, str]:
    """Return the samples of a program's page, and what each is."""
    return dict(line.split()[2:4] for line in page(job).splitlines() if line.startswith("# TYPE"))


@pytest.mark.parametrize(("title", "expr"), queries())
def test_each_query_asks_the_program_that_has_the_metric(title: str, expr: str) -> None:
    asked = METRIC.findall(expr)
    assert asked, title
    for name, labels in asked:
        jobs = re.findall(r"\$(slurm|scheduler|manager)", labels)
        assert jobs, f"{title}: {name} of which program?"
        for job in jobs if name != "up" else ():
            kind = kinds(job).get(name)
            assert kind is not None, f"{title}: no {name} of {job}"
            assert (kind == "counter") == bool(re.search(rf"(rate|increase)\({name}\{{", expr)), (
                f"{title}: {name} is a {kind}"
            )
            assert ("quantile" in labels) == (kind == "summary")


def test_the_first_panel_is_that_of_the_guests_and_shows_all_their_sums() -> None:
    first = min(dashboard()["panels"], key=lambda panel: (panel["gridPos"]["y"], panel["gridPos"]["x"]))
    shown = {name for target in first["targets"] for name, _ in METRIC.findall(target["expr"])}
    sums = {f"cosched_plugin_{gauge.name}" for gauge in gains.GAUGES.values() if "seconds_total" in gauge.name}
    assert sums < shown
    assert "cosched_plugin_guests_blind_pairs_total" in shown


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len({*cells}) == len(cells)
    assert all(0 <= x < 24 for x, _ in cells)


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not on this machine")
def test_a_real_prometheus_answers_each_query(tmp_path: Path) -> None:
    servers = {job: MetricsServer("127.0.0.1:0", partial(page, job)) for job in SERVED}
    scrapes = [
        {"job_name": f"cosched-{job}", "static_configs": [{"targets": [at.address]}]} for job, at in servers.items()
    ]
    config = tmp_path / "prometheus.yml"  # JSON is YAML
    config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes}), encoding="utf-8")
    port = free_port()
    options = [
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path}/db",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    try:
        with killed_at_the_end() as processes, (tmp_path / "log").open("w") as log:
            processes.append(subprocess.Popen(["prometheus", *options], stdout=log, stderr=log, text=True))
            wait_until(lambda: bool(answer(port, "count(count_over_time(up[10s]) > 3) == 3")))
            for title, expr in queries():
                assert answer(port, as_asked(expr)), f"{title}: {expr}: no series"
    finally:
        for each in servers.values():
            each.close()


def as_asked(expr: str) -> str:
    """Return a query as Grafana sends it, with the dashboard's own defaults of its variables."""
    names = {each["name"]: each["query"] for each in dashboard()["templating"]["list"]}
    expr = expr.replace("$__rate_interval", "10s").replace("$__range", "10s")
    return re.sub(r"\$(\w+)", lambda found: str(names[found[1]]), expr)


def answer(port: int, expr: str) -> list[Any]:
    """Return the series of an instant query; none while Prometheus starts."""
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expr})
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            found: list[Any] = json.load(reply)["data"]["result"]
    except urllib.error.HTTPError as error:
        if error.code == 503:
            return []
        raise AssertionError(f"{expr}: {error.read().decode()}") from error
    except OSError:
        return []
    return found
