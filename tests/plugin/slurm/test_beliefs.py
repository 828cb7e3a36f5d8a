"""What is learned of pairs from Slurm's accounting: who had company, what came out, and what is said of a site's belief."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.commands import assert_one_line
from tests.plugin.slurm.bed import bed, on_each_slurm
from tests.processes import ended, environment, fork_program, run_python

from cosched_hwmodel.measured.co_run_table import CERTAIN, OFTEN, Evidence, read_table
from cosched_hwmodel.measured.elapsed_times import Run
from cosched_hwmodel.models.measured_pairs import MeasuredPairs
from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.sacct_dump import dump_of
from cosched_plugin.config import believed
from cosched_plugin.policies.belief.corrected import NOTE, Correction, corrected_by
from cosched_plugin.protocol.messages import PROTOCOL_VERSION, JobSpec, NodeClass, Note, Welcome
from cosched_plugin.slurm.beliefs import with_measured
from cosched_plugin.slurm.learning import runs_of
from cosched_plugin.slurm.site_file import Site, read_site

# What a job does on the bed: so much work, slower while another one has a mark on its node.
WORK = """import os, sys, time
folder, work_s, slowdown = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
node = os.environ["SLURMD_NODENAME"] + "-"
mark = os.path.join(folder, node + os.environ["SLURM_JOB_ID"])
open(mark, "x").close()
before = time.monotonic()
while work_s > 0:
    time.sleep(0.1)
    now = time.monotonic()
    work_s -= (now - before) / (slowdown if sum(name.startswith(node) for name in os.listdir(folder)) > 1 else 1.0)
    before = now
os.remove(mark)
"""
TRUTH = {("cg", "cg"): 1.6, ("cg", "ep"): 1.05, ("ep", "cg"): 1.15, ("ep", "ep"): 1.3}


# ---------------------------------------------------------------- an accounting that is made
#
# Of a small machine whose pairs slow each other down by known factors. Jobs come in order; one starts on a free node, or beside a job
# that is alone on its node. Each is one of several inputs of its application, which differ in work and limit; its work varies by
# chance.

HEADER = "JobIDRaw|JobID|User|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocNodes|NCPUS|NodeList|JobName"
BEGIN_S = 1_790_000_000


class Made(NamedTuple):
    """A machine and its jobs."""

    slowdowns: Mapping[tuple[str, str], float]  # of the first application beside the second
    jobs: int = 200
    noise: float = 0.1  # standard deviation of the logarithm of the work
    nodes: int = 4
    inputs: int = 2
    joins: float = 0.3  # how often a job that finds no free node joins another


class _Job:
    def __init__(self, number: int, application: str, given: int, work_s: float) -> None:
        self.number, self.application, self.given, self.left_s = number, application, given, work_s
        self.start_s = self.node = 0


def account(made: Made, seed: int) -> str:
    """Return what sacct writes."""
    draw = random.Random(seed)
    names = sorted({name for pair in made.slowdowns for name in pair})
    work_s = {(name, each): 300 * math.exp(draw.gauss(0, 0.5)) for name in names for each in range(made.inputs)}
    nodes: list[list[_Job]] = [[] for _ in range(made.nodes)]
    waiting: list[_Job] = []
    rows, now_s, comes_s = [HEADER], 0.0, 0.0
    started = 0

    def pace(job: _Job) -> float:
        partner = next((other for other in nodes[job.node] if other is not job), None)
        return 1.0 if partner is None else 1.0 / made.slowdowns[job.application, partner.application]

    while len(rows) <= made.jobs:
        ends = [(now_s + job.left_s / pace(job), job.number, job) for there in nodes for job in there]
        end_s, _, ending = min(ends, default=(math.inf, 0, None))
        at_s = min(end_s, comes_s)
        for there in nodes:
            for job, speed in [(job, pace(job)) for job in there]:
                job.left_s -= (at_s - now_s) * speed
        now_s = at_s
        if end_s <= comes_s and ending is not None:
            nodes[ending.node].remove(ending)
            rows.append(_row(ending, round(now_s)))
        else:
            started += 1
            name, given = draw.choice(names), draw.randrange(made.inputs)
            waiting.append(_Job(started, name, given, work_s[name, given] * math.exp(draw.gauss(0, made.noise))))
            comes_s = now_s + draw.expovariate(made.nodes / 250.0)
        while waiting:
            free = [place for place, there in enumerate(nodes) if not there]
            lone = [place for place, there in enumerate(nodes) if len(there) == 1]
            if not free and not (lone and draw.random() < made.joins):
                break
            job = waiting.pop(0)
            job.node, job.start_s = free[0] if free else draw.choice(lone), round(now_s)
            nodes[job.node].append(job)
    rows += [_row(job, None, round(now_s)) for there in nodes for job in there]
    return "\n".join(rows) + "\n"


def _row(job: _Job, end_s: int | None, now_s: int = 0) -> str:
    start_s, until_s = BEGIN_S + job.start_s, "Unknown" if end_s is None else str(BEGIN_S + end_s)
    elapsed_s = (now_s if end_s is None else end_s) - job.start_s
    state = "RUNNING" if end_s is None else "COMPLETED"
    return (
        f"{job.number}|{job.number}|ann|{state}|{start_s}|{start_s}|{until_s}|{elapsed_s}|{60 + job.given}|1|4|n{job.node}"
        f"|{job.application}"
    )


# ---------------------------------------------------------------- what is learned of one


def row(number: int, start_s: int, end_s: int, nodes: str, name: str, state: str = "COMPLETED", limit: int = 60) -> str:
    begin_s, last_s = BEGIN_S + start_s, BEGIN_S + end_s
    return f"{number}|{number}|ann|{state}|{begin_s}|{begin_s}|{last_s}|{end_s - start_s}|{limit}|1|4|{nodes}|{name}"


def beliefs(folder: Path, *options: str) -> Any:
    """Return what the command says of the file ``jobs`` in a folder."""
    command = ("slurm", "beliefs", "--sacct", "jobs", "--json", *options)
    ran = ended(fork_program("cosched_plugin", *command, folder=folder))
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


def runs(*rows: str) -> list[Run]:
    return list(runs_of(dump_of("jobs", "\n".join([HEADER, *rows])).rows, Site().application_of).runs)


def parts(run: Run) -> tuple[float, str, float, float, bool]:
    return run.alone_s, run.beside, run.beside_s, run.after_s, run.completed


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], (100, "", 0, 0, True)),
        ([(20, 60, "n1", "b")], (20, "b", 40, 40, True)),
        ([(-9, 60, "n1", "b")], (0, "b", 60, 40, True)),
        ([(20, 300, "n2", "b")], (20, "b", 80, 0, True)),
        ([(99, 300, "n1", "b"), (-9, 1, "n1", "c")], (100, "", 0, 0, True)),  # they follow each other
        ([(20, 60, "n3", "b")], (100, "", 0, 0, True)),  # elsewhere
        (
            [(20, 60, "n1", "b"), (70, 90, "n1", "b")],
            (20, "b", 40, 10, False),
        ),  # a second one: what follows says nothing
        ([(20, 60, "n1", "b"), (50, 90, "n2", "b")], (20, "b", 70, 10, True)),  # on another node, of the same kind
        ([(20, 60, "n1", "b"), (50, 90, "n2", "c")], (20, "b", 30, 0, False)),
        ([(20, 60, "n1", "b"), (50, 90, "n1", "b")], (20, "b", 30, 0, False)),  # three on a node
        ([(20, 60, "n1", "wrap")], (20, "", 0, 0, False)),  # of which nobody knows what it is
    ],
)
def test_a_run_counts_until_it_meets_a_second_job(
    others: Sequence[tuple[int, int, str, str]], expected: tuple[float, str, float, float, bool]
) -> None:
    found = runs(row(1, 0, 100, "n[1-2]", "a"), *(row(2 + place, *other) for place, other in enumerate(others)))
    assert [parts(run) for run in found if run.application == "a"] == [expected]


def test_only_completed_runs_have_an_end() -> None:
    states = ("FAILED", "CANCELLED by 7", "TIMEOUT", "NODE_FAIL", "COMPLETED")
    found = runs(*(row(1 + place, 0, 50, f"n{place}", "a", state) for place, state in enumerate(states)))
    assert [run.completed for run in found] == [False] * 4 + [True]


def test_the_sweep_finds_what_a_look_at_each_second_finds() -> None:
    draw = random.Random(7)
    jobs = []
    for number in range(1, 60):
        start_s, first = draw.randrange(0, 300, 5), draw.randrange(6)
        nodes = f"n[{first}-{min(5, first + draw.randrange(3))}]"
        jobs.append((number, start_s, start_s + draw.randrange(5, 80, 5), nodes, draw.choice("ab")))
    jobs.sort(key=lambda job: job[1])
    found = runs(*(row(*job) for job in jobs))
    assert len({run.beside for run in found}) == 3
    for run, (number, start_s, end_s, nodes, _) in zip(found, jobs, strict=True):
        company = [
            sorted(
                (node, name)
                for other, begin_s, last_s, names, name in jobs
                for node in {*range(int(nodes[2]), int(nodes[4]) + 1)} & {*range(int(names[2]), int(names[4]) + 1)}
                if other != number and begin_s <= at_s < last_s
            )
            for at_s in range(start_s, end_s)
        ]
        alone_s = next((place for place, there in enumerate(company) if there), end_s - start_s)
        met = company[alone_s] if alone_s < len(company) else []
        names = {name for _, name in met}
        one_each = len(dict(met)) == len(met)  # on each node
        assert (run.alone_s, run.beside) == (alone_s, "".join(names) if len(names) == 1 and one_each else "")


def test_what_was_made_is_found(tmp_path: Path) -> None:
    """Intervals of 95 % hold the truth, over seeds; of jobs with two inputs each, of which the accounting tells the limit alone."""
    held = []
    for seed in range(8):
        (tmp_path / "jobs").write_text(account(Made(TRUTH), seed))
        for pair in beliefs(tmp_path)["pairs"]:
            truth = TRUTH[pair["application"], pair["beside"]]
            held.append((pair["low"] or 0) <= truth <= (pair["high"] or 99))
    assert len(held) >= 28
    assert sum(held) >= 0.88 * len(held)


def test_a_wrong_belief_is_found_out_and_what_came_out_is_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text(account(Made(TRUTH, jobs=700), 1))
    shuffled = {("cg", "cg"): 1.05, ("cg", "ep"): 1.6, ("ep", "cg"): 1.3, ("ep", "ep"): 1.15}
    for name, table in (("wrong", shuffled), ("right", TRUTH)):
        lines = [f"{own},{other},{ratio},1" for (own, other), ratio in table.items()]
        (tmp_path / f"{name}.csv").write_text("\n".join(["row,column,ratio,spread", *lines]) + "\n")
        (tmp_path / f"{name}.toml").write_text(f'[belief]\ntable = "{name}.csv"\n')
    wrong, right = (
        {(pair["application"], pair["beside"]): pair["verdict"] for pair in beliefs(tmp_path, "--site", name)["pairs"]}
        for name in ("wrong.toml", "right.toml")
    )
    assert wrong["cg", "cg"] == "worse than believed"
    assert wrong["cg", "ep"] == "better than believed"
    assert {*right.values()} == {"as believed"}
    beliefs(tmp_path, "--out", "learned.csv")
    learned = read_table(tmp_path / "learned.csv")
    assert learned.evidence["cg", "cg"].number > 10
    (tmp_path / "site.toml").write_text(
        '[belief]\ntable = "learned.csv"\n[[jobs]]\nname = "cg_.*"\napplication = "cg"\n'
    )
    site = read_site(str(tmp_path / "site.toml"))
    model = MeasuredPairs.from_parameters(site.belief.parameters)
    (mine,) = dump_of("jobs", "\n".join([HEADER, row(1, 0, 9, "n1", "cg_7")])).rows
    assert site.application_of(mine) == "cg"
    facts: Any = mine._replace(name=site.application_of(mine))
    assert model.slowdown(facts, facts) == pytest.approx(TRUTH["cg", "cg"], rel=0.15)


def test_a_wrong_belief_is_corrected_by_what_came_out(tmp_path: Path) -> None:
    """The site file keeps what was believed, and names what came out: a policy with a corrected belief begins with its note."""
    (tmp_path / "jobs").write_text(account(Made(TRUTH, jobs=700), 1))
    shuffled = {("cg", "cg"): 1.05, ("cg", "ep"): 1.6, ("ep", "cg"): 1.3, ("ep", "ep"): 1.15}
    lines = [f"{own},{other},{ratio},1" for (own, other), ratio in shuffled.items()]
    (tmp_path / "wrong.csv").write_text("\n".join(["row,column,ratio,spread", *lines]) + "\n")
    beliefs(tmp_path, "--out", "came-out.csv")
    (tmp_path / "site.toml").write_text('[belief]\ntable = "wrong.csv"\nmeasured = "came-out.csv"\n')
    site = read_site(str(tmp_path / "site.toml"))
    nodes = (NodeClass(1, 2, 1, 2, 0, 0, 0, 0),)
    plain = Welcome(PROTOCOL_VERSION, (), 0, 0, nodes, (), site.belief, (), (), notes=(Note(None, NOTE, 7),))
    (note,) = with_measured(plain, site, believed(plain)).notes
    model = corrected_by(Correction(note.value), believed(plain), 0)
    for (own, other), ratio in TRUTH.items():
        one, two = (JobSpec(number, 0, 1, 1, user="ann", name=name) for number, name in ((1, own), (2, other)))
        assert model.slowdown(one, two) == pytest.approx(ratio, rel=0.12)
        assert model.told(one, two) == shuffled[own, other]


@pytest.mark.parametrize(
    ("evidence", "believed"),
    [
        (Evidence(5, 1.0, 1.2 * CERTAIN), 1.2),
        (Evidence(5, 1.0, 1.3 * CERTAIN), None),  # too little is known
        (Evidence(5, CERTAIN, 9.0), 1.2),  # certainly dear
        (Evidence(OFTEN, 0.0, 2.0), 2.0),  # it varies: what is likely at most
        (Evidence(0, 0.0), None),
    ],
)
def test_what_was_learned_counts_where_enough_is_known(evidence: Evidence, believed: float | None) -> None:
    assert evidence.trusted(1.2) == believed


def test_a_table_without_spread_counts_from_alone(tmp_path: Path) -> None:
    """The least ratio of a row would be a job's own only pair, and look free."""
    (tmp_path / "pairs.csv").write_text("row,column,ratio\nl,d,3.0\nd,l,1.5\n")
    (tmp_path / "site.toml").write_text('[belief]\ntable = "pairs.csv"\n')
    parameters = dict(read_site(str(tmp_path / "site.toml")).belief.parameters)
    assert (parameters["applications"], parameters["spreads"]) == (("d", "l"), (1.0, 1.0))
    for text, name in (
        ("row,column,ratio\nl,d,3.0\nd,l,.9\n", "l"),
        ("row,column,ratio,spread\nl,d,3,1\nd,l,2,\n", "d"),
    ):
        (tmp_path / "pairs.csv").write_text(text)
        with pytest.raises(UsageError, match=f"pairs.csv: field 'spread': expected the time of {name} alone"):
            read_site(str(tmp_path / "site.toml"))


@pytest.mark.parametrize(
    ("site", "options", "words"),
    [
        ("[belief]\ntable = 'none.csv'", [], "none.csv: expected a readable table of co-runs, got No such file"),
        ("[belief]\ntable = 'odd.csv'", [], "odd.csv:2: field 'high': expected 0 or a number above it, got 'x'"),
        (
            "[belief]\ntable = 'odd.csv'\ncontention = 'lomarc'",
            [],
            "contention: expected pairs, or nothing, beside a table",
        ),
        ("[belief]\ncontention = 'nobody'", [], "site.toml: belief.contention: expected one of "),
        (
            "[belief]\ncontention = 'lomarc'\nparameters = {good = 3}",
            [],
            "site.toml: belief.parameters: unknown lomarc parameter",
        ),
        ("", ["--since", "now"], "expected --sacct or --since, got both"),
        ("", ["--time-zone", "Nowhere"], "--time-zone: expected a time zone"),
        ("", ["--out", "no/folder.csv"], "no/folder.csv: cannot be written: No such file"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, site: str, options: Sequence[str], words: str
) -> None:
    (tmp_path / "odd.csv").write_text("row,column,ratio,high\na,b,1.2,x\n")
    (tmp_path / "jobs").write_text(f"{HEADER}\n{row(1, 0, 9, 'n1', 'a')}\n")
    (tmp_path / "site.toml").write_text(site)
    command = ("slurm", "beliefs", "--sacct", "jobs", "--site", "site.toml", *options)
    ran = ended(fork_program("cosched_plugin", *command, folder=tmp_path))
    assert words in assert_one_line(ran, 2, "cosched-plugin")


@pytest.mark.slow
@on_each_slurm("slurmdbd", "sacctmgr")
def test_what_jobs_of_a_real_slurm_cost_each_other_is_learned(tmp_path: Path, slurm: str) -> None:
    """Jobs of two applications, alone and as guests: one takes 1.6 times as long beside the other, that one 1.15 times."""
    slowdowns, draw = {"cg": 1.6, "ep": 1.15}, random.Random(2)
    (tmp_path / "work.py").write_text(WORK)
    marks = tmp_path / "marks"
    marks.mkdir()
    with bed("--accounting", slurm=slurm) as one:

        def submit(name: str, node: int, partition: str, *more: str) -> int:
            work_s = draw.uniform(18, 22)
            script = f"exec python3 {tmp_path}/work.py {marks} {work_s} {slowdowns[name]}"
            options = ("-J", name, "-w", f"n{node}", "-N1", "-n4", "-t5", *more)
            return one.submit(*options, script=script, partition=partition, held=False)

        for node in range(8):
            for name in ("cg", "ep"):
                submit(name, node, "co")
            for host, guest in (("cg", "ep"), ("ep", "cg")):
                submit(guest, node, "guest", f"--dependency=after:{submit(host, node, 'co')}")
        one.until(lambda jobs: all(job["job_state"] == "COMPLETED" for job in jobs.values()), 400)
        time.sleep(3)  # slurmctld hands ends on to slurmdbd
        command = ("-m", "cosched_plugin", "slurm", "beliefs", "--since", "now-1hours")
        ran = run_python(*command, "--json", "--out", "pairs.csv", folder=tmp_path, env=environment(**one.told))
    assert ran.code == 0, ran.err
    pairs = {pair["application"]: pair for pair in json.loads(ran.out)["pairs"]}
    for name, truth in slowdowns.items():
        pair = pairs[name]
        assert pair["low"] <= truth <= pair["high"], pairs
        assert pair["number"] >= 8
        assert pair["ratio"] == pytest.approx(truth, rel=0.1)
