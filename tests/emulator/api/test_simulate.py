"""The Python interface: its parameters, its results, and their equality with the command line's run."""

from __future__ import annotations

import importlib
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.processes import PACKAGES

import cosched_emulator
from cosched_emulator import Run, Scenario, prepare, read_scenario, simulate
from cosched_emulator.cli.main import cli
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.errors import ConfigurationError, InputError, LinkError
from cosched_plugin.api import Action, StartJob, View, first_fit
from cosched_plugin.common.errors import PolicyError, UsageError
from cosched_plugin.config import choose
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol.messages import REJECTED
from cosched_plugin.protocol.scheduler import SchedulerFactory

SMALL: Mapping[str, Any] = {"cluster": {"nodes": 16}, "workload": {"lublin": 40}}
SHARED: Mapping[str, Any] = {
    "cluster": {"preset": "lomarc-ht", "nodes": 24},
    "workload": {"lublin": 60, "characteristics": "M1", "aarr": 8.8},
    "truth": {"contention": "lomarc"},
}
TOML = """
seed = 3
[cluster]
nodes = 24
preset = "lomarc-ht"
[workload]
lublin = 60
characteristics = "M1"
[truth]
contention = "lomarc"
[policy]
preset = "lomarc-r"
"""


class Greedy:
    """Starts every job that fits, the longest or the shortest first."""

    def __init__(self, longest: bool = False) -> None:
        self.longest = longest

    def decide(self, view: View) -> Iterator[Action]:
        for job in sorted(view.queue, key=lambda job: job.estimate_us, reverse=self.longest):
            runs = first_fit(job, view.free, view.machine, view.free_memory_mb)
            if runs is not None:
                yield StartJob(job.id, runs, job.estimate_us, job.limit_us)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*PACKAGES, str(tmp_path)]))  # for plugin processes
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def stored(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "timing.json"}


def test_a_run_equals_that_of_the_command_line(folder: Path) -> None:
    Path("site.toml").write_text(TOML)
    arguments = ["simulate", "site.toml", "--seed", "5", "--set", "order=fcfs", "--out", "typed"]
    said = CliRunner().invoke(cli, [*arguments, "--trace", "typed/trace.jsonl"], catch_exceptions=False)
    assert said.exit_code == 0
    seen: list[dict[str, Any]] = []
    kept = simulate("site.toml", settings={"order": "fcfs"}, seed=5, trace=seen)
    written = simulate(Path("site.toml"), settings=["order=fcfs"], seed=5, out="out", trace="out/trace.jsonl")
    assert kept.write("kept") == Path("kept")
    assert written.write("copied") == Path("copied")
    typed = stored(Path("typed"))
    assert stored(Path("out")) == stored(Path("copied")) == typed
    assert json.loads(typed.pop("summary.json")) == kept.summary == written.summary
    trace = [json.loads(line) for line in typed.pop("trace.jsonl").splitlines()]
    assert json.loads(json.dumps(seen)) == trace == written.trace
    assert kept.trace is seen
    assert {name: content for name, content in stored(Path("kept")).items() if name != "summary.json"} == typed
    assert (kept.folder, written.folder, kept.policy, written.link) == (None, Path("out"), "lomarc-r", "direct")
    assert written.records == []
    assert [record.job.spec.id for record in kept.records] == kept.jobs.id.tolist() == written.jobs.id.tolist()


def test_every_coupling_gives_the_same_run(folder: Path) -> None:
    prepared = prepare(SHARED)
    traces: dict[str, list[dict[str, Any]]] = {"direct": [], "loopback": [], "zmq": []}
    runs = {link: simulate(prepared, "lomarc-r", link=link, trace=traces[link].append) for link in traces}
    assert len({json.dumps(trace) for trace in traces.values()}) == 1
    assert len(traces["zmq"]) >= 60
    for link, run in runs.items():
        assert (run.link, run.summary, run.records) == (link, runs["direct"].summary, runs["direct"].records)
        assert (run.trace, run.prepared) == (None, prepared)
    made: list[DirectLink] = []

    def own(scheduler: SchedulerFactory) -> DirectLink:
        made.append(DirectLink(scheduler))
        return made[0]

    mine = simulate(prepared, "lomarc-r", link=own)
    assert (len(made), mine.link, mine.records) == (1, "custom", runs["direct"].records)


def test_jobs_are_columns() -> None:
    # A cancelled job, and nodes that do not return: larger jobs never start or end.
    failing = [{"at_s": 20_000, "do": "fail-node", "node": node} for node in range(12)]
    script = [{"at_s": 1, "do": "cancel", "job": 1}, *failing]
    run = simulate({**SMALL, "script": script}, "fcfs", overrides={"workload": {"limits": "estimate"}})
    jobs, records = run.jobs, run.records
    assert jobs is run.jobs
    assert len(jobs) == len(records) == 40
    assert len({column.size for column in (getattr(jobs, name) for name in jobs.columns())}) == 1
    for row, record in enumerate(records):
        spec, stays = record.job.spec, record.last_stays
        assert (jobs.id[row], jobs.processes[row], jobs.threads[row]) == (spec.id, spec.processes, spec.processes)
        assert (jobs.user[row], jobs.name[row], jobs.state[row]) == (spec.user, spec.name, record.state)
        assert (jobs.submit_s[row], jobs.run_s[row]) == (spec.submit_us / 1e6, record.job.run_us / 1e6)
        assert jobs.end_s[row] == pytest.approx(math.nan if record.end_us is None else record.end_us / 1e6, nan_ok=True)
        if stays:
            assert jobs.start_s[row] == stays[0].start_us / 1e6
            assert jobs.wait_s[row] == (stays[0].start_us - spec.submit_us) / 1e6
            assert jobs.nodes[row] == sum(run[1] for run in stays[0].runs)
        else:
            assert (np.isnan(jobs.start_s[row]), np.isnan(jobs.wait_s[row]), jobs.nodes[row]) == (True, True, 0)
    assert set(jobs.state.tolist()) == {"COMPLETED", "CANCELLED", "PENDING"}
    assert jobs.id[np.isnan(jobs.end_s)].tolist() == run.unfinished != []
    held = run.allocations
    assert len(held) == sum(len(stay.runs) for record in records for stay in record.intervals)
    first = next(record for record in records if record.intervals)
    rows = held.job == first.job.spec.id
    assert held.start_s[rows].tolist()[0] == first.intervals[0].start_us / 1e6
    assert (held.first_node[rows][0], held.node_count[rows][0], held.thread_mask[rows][0]) == first.intervals[0].runs[
        0
    ][:3]
    assert held.threads.tolist() == [mask.bit_count() for mask in held.thread_mask]


def test_metrics_equal_the_summary() -> None:
    run = simulate(SMALL, "easy")
    found = run.metrics()
    assert (
        found["wait_s"] == run.summary["finished"]["wait_s"]["mean"] == pytest.approx(run.jobs.wait_s.mean(), abs=1e-6)
    )
    assert found["utilisation"] == run.summary["machine"]["utilisation"]
    assert run.metrics("all", "p95")["response_s"] == run.summary["all"]["response_s"]["p95"]
    with pytest.raises(ConfigurationError, match=r"population: .*did you mean 'finished'"):
        run.metrics("finish")
    with pytest.raises(ConfigurationError, match=r"statistic: .*did you mean 'median'"):
        run.metrics(statistic="medain")


def test_a_scenario_may_be_given_in_several_ways(folder: Path) -> None:
    Path("site.toml").write_text(TOML)
    scenario = read_scenario("site.toml", {})
    table = {**asdict(scenario), "workload": {"lublin": 60, "characteristics": "M1", "swf": None}}
    runs = [simulate(given) for given in ("site.toml", Path("site.toml"), scenario, table, prepare(scenario))]
    assert len({json.dumps(run.summary) for run in runs}) == 1
    assert {run.policy for run in runs} == {"lomarc-r"}
    changes = {"cluster": {"nodes": 32, "preset": "single"}, "truth": {"contention": "none"}}
    changed = [simulate(given, "easy", overrides=changes, seed=9) for given in ("site.toml", scenario, table)]
    assert len({json.dumps(run.summary) for run in changed}) == 1
    assert (changed[1].machine[0].nodes, changed[1].prepared.scenario.seed) == (32, 9)
    assert scenario == read_scenario("site.toml", {})
    log = simulate({"workload": {"swf": _log(folder)}}, "easy")
    assert (len(log.jobs), log.jobs.user.tolist()[0], log.machine[0].nodes) == (40, "", 16)


def _log(folder: Path) -> Path:
    simulate(SMALL, "easy", out=folder / "log")
    return folder / "log" / "workload.swf"


def test_a_policy_may_be_given_in_several_ways(folder: Path) -> None:
    Path("mine.toml").write_text('[policy]\npreset = "lct"\nplacement = { threshold = 1.5 }\n')
    machine = {"cluster": {"nodes": 16, "preset": "rua-4way"}, "workload": {"lublin": 40, "mix": "high"}}
    ways: list[tuple[Any, Any]] = [
        ("mine.toml", ()),
        (Path("mine.toml"), ()),
        ("lct", {"placement.threshold": 1.5}),
        ("lct", {"placement": {"threshold": 1.5}}),
        ("lct", ["placement.threshold=1.5"]),
        ({"preset": "lct", "placement": {"threshold": 1.5}}, {}),
        (choose("lct", ["placement.threshold=1.5"]), ()),
    ]
    runs = [simulate(machine, policy, settings=settings) for policy, settings in ways]
    assert {json.dumps(run.settings) for run in runs} == {json.dumps(runs[0].settings)}
    assert len({json.dumps(run.summary) for run in runs}) == 1
    assert simulate(machine).policy == "easy"


def test_classes_and_functions_are_policies(folder: Path) -> None:
    longest = simulate(SMALL, Greedy, settings={"longest": True})
    assert longest.policy == f"{__name__}:Greedy"
    assert longest.settings == {"longest": True}
    assert simulate(SMALL, lambda: Greedy(longest=True)).records == longest.records
    assert simulate(SMALL, Greedy).records != longest.records
    source = Path(__file__).read_text().partition("class Greedy")[2].partition("\n\n\n@pytest")[0]
    heading = "from cosched_plugin.api import Action, StartJob, View, first_fit\nfrom collections.abc import Iterator\n"
    (folder / "own_policy.py").write_text(f"{heading}class Greedy{source}\n")
    own = importlib.import_module("own_policy")
    apart = simulate(SMALL, own.Greedy, settings={"longest": True}, link="zmq", out="apart")
    named = simulate(SMALL, "own_policy:Greedy", settings=["longest=true"], out="named")
    assert stored(Path("apart")) == stored(Path("named"))
    assert apart.summary == named.summary == longest.summary
    with pytest.raises(UsageError, match="expected a class or a function at the top of a module with link zmq"):
        simulate(SMALL, lambda: Greedy(longest=True), link="zmq")


class Broken:
    def decide(self, view: View) -> Iterator[Action]:
        raise ValueError("no idea")


@pytest.mark.parametrize(
    ("error", "match", "arguments"),
    [
        (InputError, "none.toml: expected a readable scenario file", {"scenario": "none.toml"}),
        (ConfigurationError, r"cluster.nods: .* did you mean 'nodes'", {"scenario": {"cluster": {"nods": 1}}}),
        (
            ConfigurationError,
            "workload: expected one source of jobs: swf, lublin, nas or applications, got none",
            {"scenario": {}},
        ),
        (ConfigurationError, "scenario: expected a file's name, a table or a Scenario, got int", {"scenario": 3}),
        (ConfigurationError, "seed: expected a whole number, got 'x'", {"seed": "x"}),
        (ConfigurationError, "seed: remove it: the scenario is prepared", {"scenario": "prepared", "seed": 2}),
        (ConfigurationError, "link: expected one of .* did you mean 'direct'", {"link": "dirct"}),
        (ConfigurationError, "link: expected one of direct, loopback, zmq, got '3'", {"link": 3}),
        (ConfigurationError, "overrides: expected a table, got list", {"overrides": [1]}),
        (UsageError, "settings: expected a table, or a list of texts KEY=VALUE, got 3", {"settings": 3}),
        (UsageError, "settings: expected a table, or a list of texts KEY=VALUE, got", {"settings": [3]}),
        (ConfigurationError, "trace: expected a file's name, a list or a function, got int", {"trace": 7}),
        (UsageError, "no policy 'eazy'; did you mean 'easy'", {"policy": "eazy"}),
        (UsageError, "policy.ordr: no such key; did you mean 'order'", {"settings": {"ordr": "fcfs"}}),
        (UsageError, "settings: expected a table, or a list of texts KEY=VALUE, got 'a=b'", {"settings": "a=b"}),
        (
            UsageError,
            "settings: expected none beside a policy",
            {"policy": choose("easy"), "settings": {"order": "fcfs"}},
        ),
        (UsageError, "expected a name, or a file that ends in .toml, got a.json", {"policy": Path("a.json")}),
        (UsageError, "got an object of class Greedy", {"policy": Greedy()}),
        (UsageError, "no such setting 'depth'", {"policy": Greedy, "settings": {"depth": 1}}),
        (
            UsageError,
            "longest: expected a value that JSON",
            {"policy": Greedy, "settings": {"longest": {1}}, "out": "x"},
        ),
        (PolicyError, "no idea", {"policy": Broken}),
        (InputError, "expected a new folder", {"out": "."}),
    ],
    ids=lambda _: "",
)
def test_errors_are_those_of_the_command_line(
    error: type[Exception], match: str, arguments: dict[str, Any], folder: Path
) -> None:
    if arguments.get("scenario") == "prepared":
        arguments = {**arguments, "scenario": prepare(SMALL)}
    with pytest.raises(error, match=match):
        simulate(**{"scenario": SMALL, **arguments})
    assert list(folder.iterdir()) == []


def test_a_scheduler_that_does_not_answer_in_time_is_an_error(folder: Path) -> None:
    (folder / "slow.py").write_text("import time\nclass Slow:\n    def decide(self, view):\n        time.sleep(1)\n")
    with pytest.raises(LinkError, match=r"no answer to batch 1 within 0\.3 s(.|\n)*it is at slow.py:\d+, in decide"):
        simulate(SMALL, "slow:Slow", link="zmq", overrides={"clock": {"deadline_s": 0.3}})


def test_a_place_is_told_only_of_a_scheduler_that_is_late(folder: Path) -> None:
    """One that had reported an error was asked, too, and said that it was in the socket that sent the report."""
    (folder / "fails.py").write_text("class Fails:\n    def decide(self, view):\n        raise RuntimeError('boom')\n")
    with pytest.raises(
        LinkError, match=r"reports policy: the policy failed: RuntimeError: boom \(fails.py:3\)"
    ) as caught:
        simulate(SMALL, "fails:Fails", link="zmq")
    assert "it is at" not in str(caught.value)
    assert "cosched-plugin: error: " in str(caught.value)  # what it wrote until its end


def test_progress_and_warnings_are_reported() -> None:
    told: list[tuple[int, int]] = []
    warned: list[str] = []
    simulate(SMALL, "lomarc-r", progress=lambda ended, jobs: told.append((ended, jobs)), warn=warned.append,
             overrides={"cluster": {"preset": "lomarc-ht"}})  # fmt: skip
    assert told[-1] == (40, 40)
    assert told == sorted(told)
    assert warned[0].startswith("matching response will pair no jobs")


def test_warnings_of_the_workload_are_reported_too(folder: Path) -> None:
    row = "{} 0 -1 {} 2 -1 -1 2 60 -1 1 1 1 1 -1 -1 -1 -1\n"
    Path("cut.swf").write_text("; MaxProcs: 4\n" + row.format(1, 90) + row.format(2, 60))
    warned: list[str] = []
    scenario: dict[str, Any] = {"cluster": {"nodes": 2, "preset": "1x4x1"}, "workload": {"swf": Path("cut.swf")}}
    sharing = {"truth": {"contention": "lomarc"}, "workload": {"characteristics": "M1"}, "monitoring": {"above": 1.5}}
    run = simulate(scenario, "easy", overrides=sharing, warn=warned.append)
    assert len(warned) == 3
    assert warned[0].startswith(
        'truth.contention = "lomarc" is a model of two jobs on a node, and up to 4 may share one'
    )
    assert warned[1] == "run times cut to the estimate: 1 jobs, 20.0 % of the work lost (--no-cap-runs keeps it)"
    assert warned[2] == "monitoring.above has no effect without monitoring.after_s"
    assert (run.summary["cut_runs"]["jobs"], run.summary["cut_runs"]["work_lost"]) == (1, 0.2)


def test_the_time_with_reading_and_writing_is_reported(folder: Path) -> None:
    def total_s(place: str) -> float:
        timing = json.loads((folder / place / "timing.json").read_text())
        assert timing["total_jobs_per_second"] == pytest.approx(40 / timing["total_s"], rel=0.01)
        return float(timing["total_s"])

    run = simulate(SMALL, "easy", out="out")
    assert run.wall_s < total_s("out") <= run.total_s
    kept = simulate(SMALL, "easy", began=time.perf_counter() - 50)
    assert kept.total_s > 50 > kept.wall_s
    time.sleep(0.1)  # the time between the run and its writing does not count
    began = time.perf_counter()
    kept.write("kept")
    assert kept.total_s < total_s("kept") < kept.total_s + time.perf_counter() - began + 0.001


@pytest.mark.slow
def test_the_clock_of_a_scenario_is_ignored_in_virtual_time() -> None:
    """Nodes that fail repeatedly do not prevent the end of a run in virtual time."""
    failing = {**SMALL, "requeue": True, "faults": {"nodes": {"mean_up_s": 30_000, "mean_down_s": 1_000}}}
    run = simulate(failing, "easy")
    assert any(record.starts > 1 for record in run.records)
    assert simulate(failing, "easy", overrides={"clock": {"mode": "real"}}).records == run.records


def test_a_run_resumes_from_its_database(folder: Path) -> None:
    first = simulate(SMALL, "easy", db="run.db")
    again = simulate(SMALL, "easy", db=Path("run.db"))
    assert first.records == again.records
    with pytest.raises(ConfigurationError, match="expected a database of the same scenario"):
        simulate(SMALL, "easy", db="run.db", seed=2)


def test_a_pickled_run_can_be_written(folder: Path) -> None:
    run = simulate(SMALL, "easy")
    copy: Run = pickle.loads(pickle.dumps(run))
    run.write("a")
    copy.write(folder / "b")
    assert stored(Path("a")) == stored(Path("b"))
    with pytest.raises(InputError, match="expected a new folder"):
        copy.write("a")
    copy.write("a", force=True)
    assert "records" not in repr(copy)


def test_tables_convert_to_pandas_if_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = simulate(SMALL, "easy")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="needs pandas, which is not installed: pip install 'cosched\\[pandas\\]'"):
        run.to_pandas()
    monkeypatch.setitem(sys.modules, "pandas", type("pandas", (), {"DataFrame": dict}))
    frame: Any = run.to_pandas()
    assert list(frame) == list(run.jobs.columns())
    assert frame["wait_s"] is run.jobs.wait_s


def test_importing_the_package_imports_nothing_else() -> None:
    code = (
        "import sys, cosched_emulator; print([name for name in sys.modules if name.startswith(('numpy', 'cosched_'))])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PACKAGES)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "['cosched_emulator']\n"
    assert set(cosched_emulator.__all__) <= set(dir(cosched_emulator))
    assert cosched_emulator.Scenario is Scenario
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = getattr(cosched_emulator, "simulat")  # noqa: B009 - mypy knows that there is none


Typed = Callable[[Mapping[str, Any]], Run]
TYPED: Typed = simulate  # what a caller's type check sees


class Slow:
    """A policy that is asked while a signal arrives."""

    def decide(self, view: View) -> Iterator[Action]:
        os.kill(os.getpid(), signal.SIGUSR1)
        yield from compose({}).decide(view)


def test_an_exception_of_a_signal_handler_is_not_the_policy_s() -> None:
    """A handler runs inside what it interrupts: its exception came out as "the policy failed"."""

    class Alarm(Exception):
        pass

    class Handler:
        def __call__(self, *_: object) -> None:
            raise Alarm

    before = signal.signal(signal.SIGUSR1, Handler())
    try:
        with pytest.raises(Alarm):
            simulate(SMALL, Slow)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_time_that_the_link_does_not_keep_is_noted() -> None:
    warned: list[str] = []
    simulate(SMALL, overrides={"clock": {"wait_s": 5}}, warn=warned.append)
    assert [text for text in warned if text.startswith("clock.wait_s has no effect: the link direct")]
    simulate(SMALL, overrides={"clock": {"wait_s": 60}}, warn=warned.append)
    assert len(warned) == 1


class Endless:
    """A policy that never returns."""

    def decide(self, view: View) -> Iterator[Action]:
        while True:
            pass


@pytest.mark.parametrize("link", ["direct", "loopback"])
def test_a_policy_in_this_process_has_a_deadline_for_each_answer(link: str) -> None:
    with pytest.raises(LinkError, match=r"no answer to batch 1 within 0.2 s: it is at test_simulate.py:\d+, in decide"):
        simulate(SMALL, Endless, overrides={"clock": {"deadline_s": 0.2}}, link=link)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_a_caller_s_own_alarm_goes_before_that_deadline() -> None:
    class Alarm(Exception):
        pass

    def alarm(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(Alarm):
            simulate(SMALL, Endless, overrides={"clock": {"deadline_s": 0.2}})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_what_a_policy_prints_is_no_part_of_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--json`` is read by programs; a line of a policy between made it unreadable."""
    (tmp_path / "talking.py").write_text(
        "from cosched_plugin.policies.composition.composed import compose\nprint('imported')\n"
        "class Talking:\n    def decide(self, view):\n        print('asked')\n        return compose({}).decide(view)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    ran = CliRunner().invoke(cli, ["simulate", "--lublin", "5", "--policy", "talking:Talking", "--json"])
    assert json.loads(ran.stdout)["policy"] == "talking:Talking"
    assert ran.stderr.startswith("imported\nasked\n")


@pytest.mark.parametrize("policy", ["batch", "lomarc-r", "pss", "symbiosis", "co-execution-easy", "batch-contiguous"])
def test_a_job_that_no_empty_machine_holds_is_rejected_when_it_comes(policy: str, folder: Path) -> None:
    """Whole nodes, or one context of each core, hold fewer processes than there are threads: the job waited to be the head first."""
    row = "{} {} -1 {} {} -1 -1 {} 5000 -1 1 1 1 1 -1 -1 -1 -1\n"
    rows = [row.format(number, number, 5000, size, size) for number, size in enumerate((2, 2, 2, 7), 1)]
    Path("wide.swf").write_text("".join(["; MaxProcs: 8\n", *rows]))
    run = simulate({"cluster": {"nodes": 2, "preset": "1x2x2"}, "workload": {"swf": "wide.swf"}}, policy)
    states = [(record.state, record.end_us) for record in run.records]
    assert states[-1] == (REJECTED, 3_000_000)
