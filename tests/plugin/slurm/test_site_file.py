"""What a site says of itself, and what jobs say in their comments: read as documented, refused in words that name file and key."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from tests.processes import ROOT

from cosched_emulator import simulate
from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.slurm_notation import count_nodes, expand, tasks_in
from cosched_plugin.protocol.messages import Belief
from cosched_plugin.site.observing import JobLog
from cosched_plugin.slurm.cluster import Cluster
from cosched_plugin.slurm.records import SlurmJob, SlurmNode, amounts_of, job_of
from cosched_plugin.slurm.rest import Polls, Rest
from cosched_plugin.slurm.site_file import Site, read_site
from cosched_plugin.slurm.transport import HttpTransport

PLAIN = {
    "job_id": 7,
    "job_state": "PENDING",
    "partition": "batch",
    "user_name": "ann",
    "account": "physics",
    "name": "solver-3",
}


def job(**more: object) -> SlurmJob:
    return job_of({**PLAIN, **more})


def documented(tmp_path: Path) -> Site:
    page = (ROOT / "docs" / "slurm.md").read_text()
    found = re.search(r"```toml file=site.toml\n(.*?)```", page, re.DOTALL)
    assert found
    (tmp_path / "site.toml").write_text(found[1])
    return read_site(str(tmp_path / "site.toml"))


def test_the_documented_file(tmp_path: Path) -> None:
    site = documented(tmp_path)
    assert site.with_partitions((), ["co:guest"]).partitions == ("co", "guest")  # as the page's command has it
    site = site.with_partitions(["batch"], ())
    assert site.belief == Belief("lomarc", "bulk-synchronous", (), (("good_share_ppm", 400_000),))
    assert [site.is_ours(job(**more)) for more in ({}, {"partition": "other"}, {"account": "physics2"})] == [
        True,
        False,
        False,
    ]
    assert site.rates_of("n2")[0] == 240_000
    assert site.rates_of("n7")[0] == 120_000
    assert site.strangers(("n0", "n2", "n9")) == ["n1", "n3"]
    traits, problem = site.traits_of(job())
    assert (traits.demand, traits.usage, problem) == ((4000, 100, 0), ("cpu", 800_000, 150_000, 50_000, 300_000), "")
    assert not site.traits_of(job(name="other"))[0].known


def test_a_comment_comes_before_the_file(tmp_path: Path) -> None:
    site = documented(tmp_path)
    told = {"estimate_s": 12.5, "demand": {"memory_mbs": 7}, "ours": "nothing to us"}
    traits, problem = site.traits_of(job(comment=json.dumps(told)))
    assert (traits.estimate_us, traits.demand, problem) == (12_500_000, (7, 0, 0), "")
    assert traits.usage is not None  # of the rule
    assert site.traits_of(job(comment="for my thesis")) == site.traits_of(job())


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ('{"estimate_s": -1}', "estimate_s: expected a number from 0"),
        ('{"estimate_s": true}', "estimate_s"),
        ('{"usage": {"bound": "gpu"}}', "bound: expected cpu or network or disk, got 'gpu'"),
        ('{"usage": {"cpu": 0.5}}', "add up to 1"),
        ('{"demand": [1]}', "demand: expected a table"),
        ('{"demand": {"memory": 1}}', "no such key 'memory'"),
        ('{"profile": {"integer_ppm": 5, "cpu_ppm": 0}}', "integer_ppm"),
        ("{", "no JSON"),
    ],
)
def test_a_wrong_comment_makes_a_job_an_unknown_one(comment: str, words: str) -> None:
    traits, problem = Site().traits_of(job(comment=comment))
    assert not traits.known
    assert words in problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[ours]\npartition = 'co'", "ours: no such key 'partition'"),
        ("[ours]\npartitions = 'co'", "ours: partitions: expected a list of texts"),
        ("[ours]\nuser = '('", "ours: user: expected a regular expression"),
        ("[[machine.class]]\nnode = 'n1'", "machine: class 1: no such key 'node'"),
        (
            "[[machine.class]]\nnodes = 'n[1-9999][1-9999]'",
            "class 1: nodes: expected nodes such as n[0-3,7] (more than 65536 nodes)",
        ),
        (
            "[[machine.class]]\nnodes = 'n[1'",
            "class 1: nodes: expected nodes such as n[0-3,7] (a bracket without its other half)",
        ),
        ("[machine]\nshare = 9", "machine: share: expected a whole number from 0 to 4"),
        ("[[jobs]]\nusage = {cpu = 0.3}", "jobs 1: usage"),
        ("x = 1", "no such key 'x'"),
        ("x", "not a TOML file"),
    ],
)
def test_a_wrong_file_is_refused_with_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "site.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=re.escape(words)) as error:
        read_site(str(file))
    assert str(file) in str(error.value)


def test_lists_of_nodes_tasks_and_gres() -> None:
    assert expand("n[0-2,7],m1,r[08-10]-x") == ("n0", "n1", "n2", "n7", "m1", "r08-x", "r09-x", "r10-x")
    assert expand("a[1-2]b[0-1]") == ("a1b0", "a1b1", "a2b0", "a2b1")
    assert [name for part in ("a[07][1-2]", "c[1,1]") for name in expand(part)] == ["a071", "a072", "c1", "c1"]
    assert expand("") == expand(" ") == ()
    for text, numbers, most in (("1,3,5-7%2", [1, 3, 5, 6, 7], 2), ("0-9:3,...", [0, 3, 6, 9], 0)):
        tasks, at_once = tasks_in(text)
        assert ([task for part in tasks for task in part], at_once) == (numbers, most)
    assert amounts_of("gres:membw:60,gres/disk") == (("disk", 1), ("membw", 60))
    assert amounts_of("gpu:a100:2,gres/gpu:1g.5gb") == (("gpu", 3), ("gpu:1g.5gb", 1), ("gpu:a100", 2))
    assert amounts_of("cpu=4,gres/gpu=1") == (("gpu", 1),)
    assert amounts_of("matlab:2|idl") is amounts_of("gres/shard:2") is None
    assert amounts_of("gpu:2(S:0-1)") == (("gpu", 2),)


@pytest.mark.parametrize(
    "text",
    [
        "n[1-99999999]", "n[1-9999][1-9999]", "n[1-999999999999999999]", f"n{'[0-9]' * 300}", f"n{'[1-65536]' * 60}",
        ",".join(["n[1-60000]"] * 2), f"n{'x' * 300}[1-65536]", "n[5-3]", "n[1-", "n1]", "n[]", "n[1-2-3]", "n[a-b]", "n[[1]]", "n[²]",
    ],
)  # fmt: skip
def test_lists_of_nodes_have_a_bound_and_a_form(text: str) -> None:
    """Short texts for very many nodes: naming them would take all memory. A word on what is wrong takes microseconds."""
    with pytest.raises(ValueError, match=r"."):
        expand(text)
    with pytest.raises(ValueError, match=r"."):
        count_nodes(text)


@pytest.mark.parametrize("text", ["1-99999999", "1-999999999999999999", "7,0-4000001%5", "9-1", "0-9:0"])
def test_tasks_of_arrays_have_a_bound(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        tasks_in(text)


# ---------------------------------------------------------------- the log that a driver writes


@pytest.mark.parametrize(("told", "run_s"), [({}, 60), ({"suspend_time": 2_000_000_050, "pre_sus_time": 30}, 40)])
def test_time_in_which_a_job_was_suspended_is_no_run_time(told: dict[str, int], run_s: int) -> None:
    polls = Polls(Rest(HttpTransport("")))
    polls.nodes = [SlurmNode("n0", True, 1, 4, 1, 4000, (), ("batch",))]
    cluster = Cluster(polls, Site(partitions=("batch",)), 1)
    polls.jobs = [
        job(job_state="COMPLETED", start_time=2_000_000_000, end_time=2_000_000_060, **told)._replace(nodes=("n0",))
    ]
    (logged,) = cluster.history(())
    assert logged.run_s == run_s


def test_a_log_has_nodes_that_differ_and_jobs_on_as_many_nodes(tmp_path: Path) -> None:
    nodes = [
        SlurmNode(f"n{place}", True, 1, cores, 1, 4000, (), ("batch",)) for place, cores in enumerate([4] * 8 + [64])
    ]
    polls = Polls(Rest(HttpTransport("")))
    polls.nodes = nodes
    cluster = Cluster(polls, Site(partitions=("batch",)), 1)
    log = JobLog(str(tmp_path / "log"), cluster.machine.nodes, [], anonymous=False)
    ran = {"job_state": "COMPLETED", "tasks": 10, "cpus": 10, "start_time": 2_000_000_000, "end_time": 2_000_000_060}
    polls.jobs = [job(**ran)._replace(nodes=tuple(node.name for node in nodes[:8]))]
    log.add(cluster.history(log.done))
    log.close()
    run = simulate(str(tmp_path / "log" / "scenario.toml"), settings=["shape=threads"])
    assert run.jobs.processes.tolist() == [8]
    assert run.allocations.node_count.sum() == 8
    machine = tomllib.loads((tmp_path / "log" / "machine.toml").read_text())["nodes"]
    assert [(item["count"], item["preset"]) for item in machine] == [(8, "1x4x1"), (1, "1x64x1")]
