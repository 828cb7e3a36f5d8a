"""The dashboard of Grafana and the alerts ask for metrics that the programs have, in expressions that Prometheus takes."""

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
from scripts.reference_pages.metrics import SERVED, served
from tests.processes import free_port, killed_at_the_end, wait_until

from cosched_plugin.common.page_server import PageServer
from cosched_plugin.slurm import gains

EXAMPLES: Final = Path(__file__).parents[2] / "docs/examples"
DASHBOARD: Final = EXAMPLES / "cosched-dashboard.json"
ALERTS: Final = EXAMPLES / "cosched-alerts.yml"
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on this machine")
METRIC: Final = re.compile(r"(?<![a-z_])(up|cosched_[a-z_]+)(?:\{([^}]*)\})?")


def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return read


def queries() -> list[tuple[str, str]]:
    return [(panel["title"], target["expr"]) for panel in dashboard()["panels"] for target in panel["targets"]]


def kinds(job: str) -> dict[str, str]:
    """Return the samples of a program's page, and what each is."""
    return dict(line.split()[2:4] for line in served(job).splitlines() if line.startswith("# TYPE"))


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


def promtool(*arguments: object, given: str = "") -> str:
    """Return what promtool finds wrong; empty: nothing."""
    command = ["promtool", *map(str, arguments)]
    ran = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


@needs_promtool
@pytest.mark.parametrize("program", SERVED)
def test_metrics_are_named_as_prometheus_advises(program: str) -> None:
    assert promtool("check", "metrics", given=served(program)) == ""


@needs_promtool
def test_prometheus_takes_the_alerts() -> None:
    assert promtool("check", "rules", "--lint-fatal", ALERTS) == ""


def test_alerts_watch_metrics_that_a_program_has() -> None:
    """A rule on a metric that no program has never fires."""
    known = {name: kind for program in SERVED for name, kind in kinds(program).items()}
    rules = re.findall(r"alert: (\w+)\n +expr: (.*)", ALERTS.read_text(encoding="utf-8"))
    assert len(rules) > 5
    for alert, expr in rules:
        for name in re.findall(r"cosched_[a-z_]+", expr):
            assert name in known, f"{alert}: {name}"
            assert (known[name] == "counter") == bool(re.search(rf"increase\({name}\[", expr)), f"{alert}: {name}"


FIRES: Final[dict[str, dict[str, str]]] = {
    "CoschedProgramDown": {'up{job="cosched-manager"}': "0x60"},
    "CoschedNoScheduler": {"cosched_manager_waits_no_scheduler": "3x60"},
    "CoschedAccountingWaits": {"cosched_manager_accounting_backlog": "10+10x60"},
    "CoschedPartitionIdle": {
        'cosched_manager_partition_pending_jobs{partition="gpu"}': "2x60",
        'cosched_manager_partition_threads_used{partition="gpu"}': "0x60",
    },
    "CoschedErrors": {"cosched_plugin_errors_total": "0+1x60"},
}


@needs_promtool
@pytest.mark.parametrize("alert", [*FIRES, ""])
def test_an_alert_fires_on_its_trouble_and_none_without(alert: str, tmp_path: Path) -> None:
    calm = {
        'up{job="cosched-manager"}': "1x60",
        "cosched_manager_waits_no_scheduler": "0x60",
        "cosched_manager_accounting_backlog": "0x20 5x20 0x20",
        'cosched_manager_partition_pending_jobs{partition="gpu"}': "2x60",
        'cosched_manager_partition_threads_used{partition="gpu"}': "1x60",
        "cosched_plugin_errors_total": "4x60",
    }
    series = [{"series": name, "values": values} for name, values in {**calm, **FIRES.get(alert, {})}.items()]
    summed = [
        {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": "55m",
         "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []}
    ]  # fmt: skip
    tests = [{"interval": "1m", "input_series": series, "promql_expr_test": summed}]
    file = tmp_path / "test.yml"  # JSON is YAML
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "tests": tests}), encoding="utf-8")
    assert promtool("test", "rules", file) == ""


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not on this machine")
def test_a_real_prometheus_answers_each_query(tmp_path: Path) -> None:
    servers = {job: PageServer("127.0.0.1:0", partial(served, job)) for job in SERVED}
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
