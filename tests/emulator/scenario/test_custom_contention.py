"""Third-party contention models in a scenario: as the truth, as the belief, their parameters, and refusals."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Commands, commands_in
from tests.processes import ended, wait_until

from cosched_emulator import prepare, simulate
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.run.policy_warnings import idle_matching
from cosched_emulator.run.prepare import Prepared
from cosched_hwmodel.contention import Load
from cosched_hwmodel.pairs import JobFacts
from cosched_hwmodel.topology import NodeShape
from cosched_plugin.config import choose

SECOND = 1_000_000
ROW = "{} {} -1 {} {} -1 -1 {} {} -1 1 7 1 {} 1 -1 -1 -1\n"


class Table:
    """Slowdowns by the names of two jobs."""

    def __init__(self, *, pairs: Sequence[tuple[str, str, float]] = (), otherwise: float = 1.5) -> None:
        self.pairs = {(name, beside): slowdown for name, beside, slowdown in pairs}
        self.otherwise = otherwise

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:
        return self.pairs.get((job.name, other.name), self.otherwise)


class Strangers(Table):
    def knows(self, job: JobFacts) -> bool:
        return job.name == ""


class Crowd:
    """A model of nodes: every other process costs a tenth; jobs of user 7 are not slowed."""

    def __init__(self, *, jobs: Mapping[int, JobFacts], each: float = 0.1) -> None:
        self.jobs = jobs
        self.each = each

    def penalties(self, node: NodeShape, loads: Sequence[Load]) -> list[float]:
        processes = sum(load.processes for load in loads)
        assert all(self.jobs[load.job_id].user == "7" and node.sockets for load in loads)
        return [self.each * (processes - load.processes) for load in loads]


TABLE, STRANGERS, CROWD = (f"{__name__}:{name}" for name in ("Table", "Strangers", "Crowd"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a log of two programs, 1 and 2, whose jobs of 1000 and 2000 s arrive together and fill four nodes."""
    file = tmp_path / "log.swf"
    rows = [(1, 0, 2000, 4, 1), (2, 0, 1000, 4, 2), (3, 0, 2000, 4, 1), (4, 10, 1000, 4, 2)]
    file.write_text(
        "; MaxProcs: 4\n" + "".join(ROW.format(n, at, span, size, size, span, name) for n, at, span, size, name in rows)
    )
    return file


def prepared_of(log: Path, **sections: object) -> Prepared:
    table: dict[str, Any] = {
        "workload": {"swf": str(log), "limits": "none"},
        "cluster": {"nodes": 4, "preset": "lomarc-ht"},
        **sections,
    }
    return prepare(table)


# ---------------------------------------------------------------- truth and belief


@pytest.mark.parametrize("policy", ["ac", "am", "lomarc-fm", "lomarc-r", "glts"])
def test_schedules_are_the_same_with_every_coupling(policy: str, log: Path) -> None:
    """The parameters of the belief arrive as they were sent, and all matchings use the model."""
    pairs = [["1", "2", 1.1], ["2", "1", 1.2]]  # small enough for a group
    prepared = prepared_of(log, truth={"contention": TABLE, "parameters": {"pairs": pairs, "otherwise": 4}})
    assert idle_matching(choose(policy), prepared) is None
    ended = []
    for kind in ("direct", "loopback"):
        records = simulate(prepared, policy, link=kind).records
        ended.append([(record.intervals[0].start_us, record.end_us) for record in records])
    assert ended[0] == ended[1]
    assert len({start_us for start_us, _ in ended[0]}) < 4  # some started together


def test_a_model_of_nodes_may_be_the_truth(log: Path) -> None:
    prepared = prepared_of(log, truth={"contention": CROWD, "parameters": {"each": 0.25}})
    assert prepared.belief.contention == "none"
    for link in ("direct", "loopback"):
        finished = simulate(prepared, "ac", link=link)
        assert min(record.end_us or 0 for record in finished.records) == 1250 * SECOND  # beside one process


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("section", "values", "text"),
    [
        ("truth", {"contention": "tables"},
         "truth.contention: expected one of bandwidth, composite, lomarc, none, pairs, statistical, got 'tables'"),
        ("truth", {"contention": "statistic"}, "did you mean 'statistical'?"),
        ("belief", {"contention": "no.module:X"}, "belief.contention: expected a model that can be imported, got "
         "contention no.module:X: no module 'no' on Python's path"),
        ("belief", {"contention": CROWD, "parameters": {"jobs": 3}}, "jobs is no parameter: it stands for the jobs by id"),
        ("truth", {"contention": TABLE, "parameters": {"size": 3}}, "truth.parameters: expected valid parameters of "),
        ("truth", {"contention": CROWD, "parameters": {"jobs": 3}}, "jobs is no parameter: it stands for the jobs by id"),
        ("belief", {"contention": TABLE, "parameters": {"size": 3}}, "belief.parameters: expected valid parameters of "),
        ("truth", {"parameters": {"size": 3}}, "truth.parameters: remove it: bandwidth is built in"),
        ("belief", {"parameters": {"size": 3}}, "belief.parameters: remove it: bandwidth is built in"),
        ("truth", {"contention": "builtins:object"}, "it has no method slowdown(job, other)"),
        ("truth", {"contention": TABLE, "parameters": {"pairs": {"1": 2}}}, "truth.parameters.pairs: expected true, false, a whole"),
        ("truth", {"contention": TABLE, "parameters": {"pairs": [["1", float("inf")]]}}, "truth.parameters.pairs[0][1]: "),
        ("truth", {"contention": TABLE, "parameters": {"otherwise": 1 << 63}}, "truth.parameters.otherwise: "),
        ("truth", {"contention": TABLE, "parameters": 3}, "truth.parameters: expected a table"),
    ],
)  # fmt: skip
def test_invalid_models_and_parameters_are_refused(
    section: str, values: dict[str, object], text: str, log: Path
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        prepared_of(log, **{section: values})
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


# ---------------------------------------------------------------- through the command line


MODULE = """
class Table:
    def __init__(self, otherwise=1.5):
        self.otherwise = otherwise
    def slowdown(self, job, other):
        return 1.25 if job.name == "1" else self.otherwise
"""


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    with commands_in(tmp_path) as running:
        (tmp_path / "tables.py").write_text(MODULE)
        yield running


@pytest.mark.slow
def test_a_killed_plugin_is_restarted_with_the_same_model(log: Path, commands: Commands) -> None:
    (commands.folder / "plan.toml").write_text("[plugin]\nkills = 2\nbatches = 4\n")
    common = (
        "--swf",
        str(log),
        "--nodes",
        "4",
        "--node",
        "lomarc-ht",
        "--policy",
        "lomarc-r",
        "--contention",
        "tables:Table",
    )
    for out, more in (("direct", ()), ("killed", ("--link", "zmq", "--faults", "plan.toml"))):
        ran = commands.emulator("simulate", *common, "--out", out, *more)
        assert ran.code == 0, ran.err
    told, killed = ((commands.folder / out / "jobs.csv").read_text() for out in ("direct", "killed"))
    assert told == killed
    config = json.loads((commands.folder / "direct" / "run.json").read_text())["config"]
    assert config["truth"]["contention"] == "tables:Table"
    assert "parameters" not in config["truth"] | config["belief"]


@pytest.mark.slow
def test_a_restarted_live_manager_and_a_standby_use_the_same_model(log: Path) -> None:
    """The manager is killed and restarted from its database; the scheduler is killed and a standby takes over."""
    with tempfile.TemporaryDirectory(prefix="model-", dir="/tmp") as folder, commands_in(Path(folder)) as running:
        (Path(folder) / "tables.py").write_text(MODULE)
        site = ("serve", "--swf", str(log), "--limits", "none", "--nodes", "4", "--node", "lomarc-ht", "--contention", "tables:Table",
                "--clock", "scaled", "--speed", "600", "--bind", "ipc://s", "--db", "live.db", "--out", "run", "--check")  # fmt: skip
        plugin = ("serve", "--connect", "ipc://s", "--policy", "lomarc-u1", "--contention", "tables:Table", "--quiet")
        manager = running.start("cosched_emulator", *site)
        first = running.start("cosched_plugin", *plugin)
        wait_until(lambda: allocations_in(Path(folder) / "live.db") > 0)
        standby = running.start("cosched_plugin", *plugin, "--standby")
        manager.kill()
        manager.wait(10)
        manager = running.start("cosched_emulator", *site)
        time.sleep(1.0)  # both schedulers greet it
        first.kill()
        ran = ended(manager, 60)
        assert ran.code == 0, ran.err
        assert ended(standby, 10).code == 0
        rows = (Path(folder) / "run" / "jobs.csv").read_text().splitlines()[1:]
        assert len(rows) == 4
        assert all("COMPLETED_SUCCESSFULLY" in row for row in rows)
        # Co-located jobs take at least a quarter longer.
        assert sum(float(row.split(",")[9]) for row in rows) > 6000 * 1.1


def allocations_in(db: Path) -> int:
    """Return how many allocations the accounts have; 0 while there are no accounts."""
    if not db.exists():
        return 0
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as accounts:
        tables = {row[0] for row in accounts.execute("SELECT name FROM sqlite_master")}
        return int(accounts.execute("SELECT count(*) FROM allocations").fetchone()[0]) if "allocations" in tables else 0
