"""What people write: each option of sbatch as the scheduler is told of it, by what Slurm 22.05, 24.11 and 26.05 show of such jobs.

The recorded bed has c[0-3] with 64 GB, b[0-1] with 256 GB and g[0-1] with four GPUs each, all of 2 x 8 cores, with DefMemPerCPU=2000;
batch and short are b and c, bigmem is b, gpu is g, and g1 is reserved for `course`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.plugin.slurm.bed import RELEASES, each_slurm
from tests.plugin.slurm.scripts_corpus import FILE, READERS, SCRIPTS, scripts_of, summary, tried

from cosched_hwmodel.units import ThreadMask
from cosched_plugin.common.errors import UsageError
from cosched_plugin.parts.needs import EVERYTHING, FILLED_LAYOUTS, SAME_NODES
from cosched_plugin.protocol.messages import COUNTABLE, ELIGIBLE_NODES, JobSpec, Run, RunningJob, StartJob
from cosched_plugin.site.books import Books
from cosched_plugin.slurm.cluster import Cluster
from cosched_plugin.slurm.places import feature_sets
from cosched_plugin.slurm.records import Dependencies, Reservation, partition_of
from cosched_plugin.slurm.rest import Polls
from cosched_plugin.slurm.site_file import Site

ALL, SMALL, LARGE = "b0 b1 c0 c1 c2 c3", "c0 c1 c2 c3", "b0 b1"
PARTITIONS = ("batch", "short", "bigmem", "gpu")


@cache
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
    return found


def polls_of(release: str, *lines: str, **changed: object) -> SimpleNamespace:
    """Return what a driver has been told of a cluster, with the jobs of some lines alone."""
    kept = recorded()[release]
    found = {kind: [READERS[kind](row) for row in kept[kind]] for kind in ("nodes", "partitions", "reservations")}
    rows = [row for line, row in kept["jobs"] if not lines or line in lines]
    licences = [READERS["licenses"](row) for row in kept["licenses"]]
    jobs = [READERS["jobs"](row) for row in rows]
    return SimpleNamespace(**{**found, "licences": licences, "database": None, "jobs": jobs, **changed})


def seen(
    polls: SimpleNamespace,
    ignored: frozenset[str] = frozenset(),
    partitions: tuple[str, ...] = PARTITIONS,
    after_s: int = 5,
) -> tuple[Cluster, Mapping[int, JobSpec], Mapping[int, str]]:
    """Return a cluster, the jobs that the scheduler is told of, and those that are left, by Slurm's number."""
    cluster = Cluster(cast("Polls", polls), Site(partitions), 1, ignored, counts_memory=True)
    now_us = (polls.jobs[0].submit_s + after_s) * 1_000_000
    jobs = cluster.snapshot(now_us, Books(cluster.machine)).jobs
    told = {cluster.records[number].job_id: polled.spec for number, polled in jobs.items() if not polled.held}
    return cluster, told, cluster.left


def nodes_of(cluster: Cluster, spec: JobSpec) -> str:
    return " ".join(cluster.names[first + more] for first, count in spec.eligible for more in range(count))


# By its options: processes, the most on a node, threads of each, MiB of each; whether it is alone; its nodes; what it counts.
FORMS: Mapping[str, tuple[Any, ...]] = {
    "c -N4 -n8 -t 10": (4, 1, 5, 10000, False, ALL, {}),  # 5 + 1 + 1 + 1 tasks
    "c -N3 -n10 -t 10": (3, 1, 8, 16000, False, ALL, {}),
    "c -N1-4 -n20 -t 10": (20, 16, 1, 2000, False, ALL, {}),
    "c -N2-3 -n40 -t 10": (40, 16, 1, 2000, False, ALL, {}),
    "c --mincpus=8 -n2 -t 10": (1, 1, 8, 16000, False, ALL, {}),
    "c --array=0-7%2 -n1 -c2 -t 5": (1, 1, 2, 4000, False, ALL, {}),
    "c -B 2:4:1 -n8 -t 10": (8, 8, 1, 2000, True, ALL, {}),
    "c --ntasks-per-socket=4 -n8 -t 10": (8, 8, 1, 2000, True, ALL, {}),
    "c --exclusive=mcs -n4 -t 10": (4, 4, 1, 2000, True, ALL, {}),
    "c -w c0,c1 -n8 -t 10": (8, 7, 1, 2000, False, "c0 c1", {}),
    "c -N4 -w c1 -n16 -t 10": (4, 1, 13, 26000, False, "b0 b1 c0 c1", {}),  # of the others, the first with room
    "c -x c[0-2] -N1 -n4 -t 10": (4, 4, 1, 2000, False, "b0 b1 c3", {}),
    'c -C "ib&cascadelake" -n4 -t 10': (4, 4, 1, 2000, False, SMALL, {}),
    'c -C "(cascadelake|icelake)&ib" -n4 -t 10': (4, 4, 1, 2000, False, ALL, {}),
    "c --prefer=icelake -n4 -t 10": (4, 4, 1, 2000, False, LARGE, {}),
    "c --contiguous -N3 -n48 -t 10": (48, 16, 1, 2000, False, "b0 b1 c0", {}),
    "c -p batch,bigmem -t 3-00:00 -n4": (4, 4, 1, 2000, False, LARGE, {}),  # longer than batch lets it be
    "c -p batch,gpu -N2 -n20 -t 10": (20, 16, 1, 2000, False, ALL, {}),  # one partition has all of its nodes
    "c --exclusive --mem-per-cpu=8G -n2 -t 10": (2, 2, 1, 8192, True, LARGE, {}),  # times all CPUs of a node
    "c --exclusive --mem-per-cpu=3G -n2 -t 10": (2, 2, 1, 3072, True, ALL, {}),
    "c --mem=0 -n1 -t 10": (1, 1, 1, 0, True, ALL, {}),
    "c --mem=63999 -n15 -t 10": (15, 15, 1, 4266, False, ALL, {}),
    "c --mem=40G -N2 -n20 -t 10": (
        2,
        1,
        16,
        40960,
        False,
        ALL,
        {},
    ),  # on each node, however many of its tasks are there
    "c -L matlab:2 -n1 -t 10": (1, 1, 1, 2000, False, ALL, {"matlab": 2}),
    "g --gpus=a100:2 -t 10": (1, 1, 1, 2000, False, "g0", {"gpu": 2, "gpu:a100": 2}),
    "g --gpus-per-task=a100:1 -n2 -t 10": (2, 2, 1, 2000, False, "g0", {"gpu": 2, "gpu:a100": 2}),
    "g --gpus-per-socket=2 --sockets-per-node=2 -n4 -t 10": (4, 4, 1, 2000, True, "g0", {"gpu": 4}),
    "g --mem-per-gpu=20G --gpus-per-node=4 -N1 -t 10": (1, 1, 1, 81920, False, "g0", {"gpu": 4}),
    "g --gpus=1 -p gpu,batch -t 10": (1, 1, 1, 2000, False, "g0", {"gpu": 1}),
    "g --reservation=course --gpus=1 -t 10": (1, 1, 1, 2000, False, "g1", {"gpu": 1}),
}
# What else is left, and in which words; of 22.05 a wish for GPUs by tasks cannot be seen.
LEFT = {
    "c --time=UNLIMITED -n1": "its limit is above the 2880 minutes of partition batch",
    "c --tmp=5G -n1 -t 10": "no node of partition batch has what --tmp requests",
    "c --overcommit -n40 -N1 -t 10": "it asks for --overcommit",
    "c --reboot -n1 -t 10": "it asks for --reboot",
    'c -C "[cascadelake*1&icelake*1]" -N2 -n4 -t 10': "--constraint=[cascadelake*1&icelake*1] is not supported",
    "g --gres=gpu:v100:1 -t 10": "no node that is open to it in partition gpu offers 1 of gpu:v100; reserved while it would run: g1",
    "g --gpus=8 -N2 -n8 -t 10": "it takes 2 nodes, and partition gpu has 1 for it; reserved while it would run: g1",
}


@pytest.mark.parametrize("release", RELEASES)
def test_each_option_is_told_of_or_left_in_its_own_words(release: str) -> None:
    polls = polls_of(release)
    cluster, told, left = seen(polls, after_s=60)
    lines = {line: row["job_id"] for line, row in recorded()[release]["jobs"]}
    for line, (processes, most, threads, memory_mb, alone, nodes, counted) in FORMS.items():
        spec = told[lines[line]]
        found = (spec.processes, spec.ppn_max, spec.threads_per_process, spec.memory_mb, spec.exclusive)
        assert found == (processes, most, threads, memory_mb, alone), line
        assert (nodes_of(cluster, spec), {**dict(spec.resources), **dict(spec.licences)}) == (nodes, counted), line
    assert {line: left[lines[line]] for line in LEFT} == LEFT
    assert told[lines["c --nice=500 -n1 -t 10"]].priority == told[lines["c --gres=none -n1 -t 10"]].priority - 500
    waiting = {number for number, job in cluster.records.items() if job.dependency}
    assert len({*told, *left, *waiting}) == len(polls.jobs)  # none is held in silence


def test_gpus_on_several_nodes_once_nothing_is_reserved() -> None:
    expected = {
        "g --gpus=3 -N2 -n2 -t 10": (2, 1, 1, {"gpu": 2}),  # 2 + 1, or 1 + 2
        "g --gpus=8 -N2 -n8 -t 10": (8, 7, 1, {"gpu": 4}),
        "g --cpus-per-gpu=4 --gpus-per-node=2 -N2 -t 10": (2, 1, 8, {"gpu": 2}),
        "g --gpus-per-task=1 -n8 -t 10": (8, 4, 1, {"gpu": 4}),
    }
    for release in RELEASES:
        for line, form in expected.items():
            _, told, left = seen(polls_of(release, line, reservations=[]))
            (spec,) = told.values()
            assert (spec.processes, spec.ppn_max, spec.threads_per_process, dict(spec.resources)) == form, (line, left)


def test_a_policy_is_told_of_what_it_honours_alone() -> None:
    lines = "c -L matlab:2 -n1 -t 10", "c -N3 -n10 -t 10", "g --gpus=a100:2 -t 10"
    polls = polls_of("24.11", *lines)
    licensed, uneven, gpus = [job.job_id for job in polls.jobs]
    for word, whose, why in (
        (COUNTABLE, {licensed, gpus}, "which the policy does not count"),
        (ELIGIBLE_NODES, {licensed, uneven, gpus}, "it is limited to some nodes, which the policy does not honour"),
    ):
        _, told, left = seen(polls, frozenset({word}))
        assert left.keys() == whose, word
        assert all(why in words for words in left.values())
        assert told.keys().isdisjoint(whose)
    _, told, _ = seen(polls, frozenset({FILLED_LAYOUTS}))
    assert (told[uneven].processes, told[uneven].ppn_max) == (3, 1)  # as many processes on each node
    assert {COUNTABLE, ELIGIBLE_NODES, FILLED_LAYOUTS, SAME_NODES} == EVERYTHING  # no job of Slurm asks for the last


def test_a_held_job_of_another_partition_is_named() -> None:
    polls = polls_of("24.11", "g --gpus=a100:2 -t 10", "c -p batch,gpu -N2 -n20 -t 10")
    cluster, told, left = seen(polls, partitions=("batch",))
    other, both = [job.job_id for job in sorted(polls.jobs, key=lambda job: job.partition == "batch,gpu")]
    assert left == {other: "its partition is gpu, and cosched has batch"}
    assert nodes_of(cluster, told[both]) == ""  # all of them
    running = [job._replace(state="RUNNING", held="", nodes=("g0",)) for job in polls.jobs if job.job_id == other]
    assert seen(polls_of("24.11", jobs=running), partitions=("batch",))[2] == {}


def test_what_a_placement_changes_is_given_back_unless_its_user_has_changed_it_since() -> None:
    polls = polls_of("24.11", "c -p bigmem,short -n4 -t 60")
    cluster, told, _ = seen(polls)
    (job,), node = polls.jobs, cluster.names.index("c0")
    start = StartJob(job.job_id, (Run(node, 1, ThreadMask(15), 4),), told[job.job_id].estimate_us)
    assert cluster.partition_for(start) == "short"  # the one with that node
    cluster.pins(start)
    books, placed = Books(cluster.machine), {"partition": "short", "required": ("c0",)}
    for changed, asked in (
        ({**placed, "held": ""}, "bigmem,short"),
        ({**placed, "held": "user"}, "bigmem,short"),  # held again, and not given back yet
        ({"partition": "batch", "held": "user"}, "batch"),
    ):
        polls.jobs = [job._replace(**changed)]
        cluster.snapshot((job.submit_s + 9) * 1_000_000, books)
        assert cluster.asked(job.job_id)[:2] == (asked, ())


def test_a_users_own_list_of_nodes_outlives_failed_starts_a_requeue_and_a_restart_of_cosched() -> None:
    polls = polls_of("24.11", "c -w c0,c1 -n8 -t 10")
    cluster, told, _ = seen(polls)
    (job,), both = polls.jobs, ("c0", "c1")
    spec = told[job.job_id]
    runs = tuple(Run(cluster.names.index(name), 1, ThreadMask(15), 4) for name in both)
    running = RunningJob(spec, spec.submit_us, runs, spec.estimate_us, spec.limit_us)
    books = Books(cluster.machine._replace(running=(running,), now_us=spec.submit_us))
    now_us = spec.submit_us + 9_000_000
    for other in (False, True):
        if other:  # a process that finds it placed
            cluster = seen(polls)[0]
        else:
            cluster.pins(StartJob(spec.id, runs, spec.estimate_us))
        for more in ({"held": "user"}, {"held": "user"}, {"restarts": 1, "held": ""}, {"restarts": 1}):
            polls.jobs = [job._replace(**more)]
            jobs = cluster.snapshot(now_us, books).jobs
            assert cluster.asked(job.job_id).required == both, more
            assert nodes_of(cluster, jobs[job.job_id].spec) == "c0 c1", more
    changed = job._replace(restarts=1, required=("c2", "c3"))
    polls.jobs = [changed]
    assert nodes_of(cluster, cluster.snapshot(now_us, Books(cluster.machine)).jobs[job.job_id].spec) == "c2 c3"


@pytest.mark.parametrize(
    ("dependency", "task", "opens_s"),
    [
        ("afterok:1_*(unfulfilled)", None, inf),
        ("afternotok:1_1(unfulfilled)", None, 0),
        ("afterok:1_0(unfulfilled),afterok:1_1(unfulfilled)", None, inf),
        ("afterok:1_0(unfulfilled)?afterok:1_1(unfulfilled)", None, 0),
        ("aftercorr:1_*(unfulfilled)", 0, 0),
        ("aftercorr:1_*(unfulfilled)", 1, inf),  # it has failed
        ("aftercorr:1_*(unfulfilled)", 2, inf),  # it runs
        ("aftercorr:1_*(unfulfilled)", 5, inf),  # it waits
        ("aftercorr:1_*(unfulfilled)", 9, 0),  # Slurm has forgotten it, or there is none: it decides
        ("aftercorr:8(unfulfilled)", 3, inf),
        ("after:1_*(unfulfilled)", None, inf),
        ("after:1_2(unfulfilled)", None, 0),
        ("after:1_2+2(unfulfilled)", None, 620),
        ("after:8+2(unfulfilled),afterany:1_0(unfulfilled)", None, 720),
        ("after:7(failed)", None, inf),
        ("singleton(unfulfilled),afterok:1_2(unfulfilled)", None, inf),
        ("singleton(unfulfilled),afterany:1_1(unfulfilled)", None, 0),
    ],
)
def test_a_job_waits_for_what_it_depends_on_and_no_longer(dependency: str, task: int | None, opens_s: float) -> None:
    plain = polls_of("24.11", "c -p bigmem,short -n4 -t 60").jobs[0]._replace(name="", held="")
    states = {0: "COMPLETED", 1: "FAILED", 2: "RUNNING"}
    jobs = [plain._replace(job_id=2 + n, array_id=1, task=n, state=state, start_s=500) for n, state in states.items()]
    jobs.append(plain._replace(job_id=1, array_id=1, waiting_tasks="3-5", state="PENDING"))
    jobs.append(plain._replace(job_id=8, state="RUNNING", start_s=600))
    mine = plain._replace(job_id=99, name="other", dependency=dependency, state="PENDING")
    assert Dependencies([*jobs, mine]).opens_s(mine, task) == opens_s


def test_singletons_begin_one_after_the_other_in_the_order_of_their_numbers() -> None:
    polls = polls_of("24.11", "c -p bigmem,short -n4 -t 60")
    job = polls.jobs[0]._replace(dependency="singleton(unfulfilled)", name="one")
    three = [job._replace(job_id=job.job_id + more) for more in range(3)]
    for states, first in (("PPP", 0), ("EPP", 1), ("RPP", None), ("PPR", None), ("EEP", 2)):
        long = {"P": ("PENDING", "user", ()), "R": ("RUNNING", "", ("c0",)), "E": ("COMPLETED", "", ("c0",))}
        told = [dict(zip(("state", "held", "nodes"), long[letter], strict=True)) for letter in states]
        polls.jobs = [each._replace(**what) for each, what in zip(three, told, strict=True)]
        waits = {number for number in seen(polls)[1] if polls.jobs[number - job.job_id].state == "PENDING"}
        assert waits == (set() if first is None else {job.job_id + first}), states


def test_a_partition_that_slurm_does_not_know_is_refused() -> None:
    polls = polls_of("24.11", "c -p bigmem,short -n4 -t 60")
    with pytest.raises(UsageError, match=r"no nodes in partition nosuch; there are .*batch"):
        seen(polls, partitions=("batch", "nosuch"))


def test_a_list_of_nodes_that_a_process_before_has_set_is_not_taken_for_the_users() -> None:
    polls = polls_of("24.11", "c -p bigmem,short -n4 -t 60")
    cluster, told, _ = seen(polls)
    (job,), node = polls.jobs, cluster.names.index("c0")
    spec, runs = told[job.job_id], (Run(node, 1, ThreadMask(15), 4),)
    running = RunningJob(spec, spec.submit_us, runs, spec.estimate_us, spec.limit_us)
    polls.jobs = [job._replace(required=("c0",))]
    for books, asked in (
        (Books(cluster.machine._replace(running=(running,), now_us=spec.submit_us)), ()),
        (Books(cluster.machine), ("c0",)),
    ):
        after = seen(polls)[0]
        after.snapshot(spec.submit_us + 9_000_000, books)
        assert after.asked(job.job_id).required == asked


def test_a_reservation_keeps_its_nodes_from_jobs_that_would_meet_it() -> None:
    line = "g --gpu-bind=closest --gpus=1 -t 10"
    job = polls_of("24.11", line).jobs[0]
    for begins_s, ends_s, nodes in ((900, 9000, ""), (300, 9000, "g0"), (-9000, 9000, "g0"), (-9000, -1, "")):
        reservation = Reservation("other", job.submit_s + 5 + begins_s, job.submit_s + 5 + ends_s, ("g1",))
        cluster, told, _ = seen(polls_of("24.11", line, reservations=[reservation]), partitions=("gpu",))
        assert nodes_of(cluster, told[job.job_id]) == nodes
        down = {cluster.names[node] for node in cluster.down}
        assert down == set() if begins_s < 0 < ends_s else down == {"g1"}  # kept, and it is not known for whom
    mine = [job._replace(reservation="other")]
    later = [Reservation("other", job.submit_s + 600, job.submit_s + 9000, ("g1",))]
    cluster, told, left = seen(polls_of("24.11", jobs=mine, reservations=later), partitions=("gpu",))
    assert (told, left) == ({}, {})  # it is held until then
    assert cluster.not_before_us == {job.job_id: (job.submit_s + 600) * 1_000_000}


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        ("", [-1]), ("a", [3]), ("a&b", [2]), ("a,b", [2]), ("a|b", [7]), ("[a|c]", [3, 8]), ("b&[a|c]", [2, 0]), ("a|b&c", [0]),
        ("a|(b&c)", [3]), ("[a]", [3]), ("[a*1&b*2]", None), ("a*2", None), ("(a", None), ("a&", None), ("&a", None),
        ("[a|b", None), ("a]", None), ("()", None),
    ],
)  # fmt: skip
def test_features_are_read_as_slurm_reads_them(text: str, sets: list[int] | None) -> None:
    having = {"a": 0b0011, "b": 0b0110, "c": 0b1000}
    assert feature_sets(text, lambda name: having.get(name, 0)) == sets


@pytest.mark.parametrize("release", ["22.05", "26.05"])
def test_limits_of_a_partition_are_read_of_both_shapes(release: str) -> None:
    batch, *_, tick = [partition_of(row) for row in recorded()[release]["partitions"]]
    assert (batch.name, batch.up, batch.most_min, batch.most_nodes, batch.least_nodes, batch.tier) == (
        "batch",
        True,
        2880,
        None,
        0,
        1,
    )
    assert (tick.name, tick.most_min, tick.tier, tick.most_mb) == ("tick", None, 10, None)
    record = dict(recorded()[release]["partitions"][0])
    if release == "22.05":
        record["maximum_memory_per_node"] = 2000
    else:
        most = {"set": True, "infinite": False, "number": 2000}
        record["maximums"] = {**record["maximums"], "partition_memory_per_node": most}
    assert partition_of(record).most_mb == 2000


@pytest.mark.parametrize("state", ["UP", "DRAIN", "DOWN", "INACTIVE"])
def test_a_partition_that_is_drained_still_starts_the_jobs_that_wait_in_it(state: str) -> None:
    polls = polls_of("24.11", "c -t 0 -n1")
    polls.jobs = [polls.jobs[0]._replace(limit_min=5)]
    told = partition_of({"name": "batch", "partition": {"state": [state]}})
    polls.partitions = [each._replace(up=told.up, starts=told.starts) for each in polls.partitions]
    assert told.up == (state == "UP")
    left = seen(polls)[2]
    assert set(left.values()) == ({"partition batch starts no jobs"} if state in ("DOWN", "INACTIVE") else set())


def test_a_job_whose_partition_has_lost_its_nodes_is_left_as_that() -> None:
    polls = polls_of("24.11", "c -t 0 -n1")
    cluster = seen(polls)[0]
    polls.nodes = [node._replace(partitions=()) for node in polls.nodes]
    polls.jobs = [polls.jobs[0]._replace(limit_min=5)]
    cluster.snapshot(10**15, Books(cluster.machine))
    assert list(cluster.left.values()) == ["there is no node of partition batch"]


def test_a_job_above_the_memory_of_its_partition_is_not_placed() -> None:
    polls = polls_of("24.11", "c -t 0 -n1")
    polls.partitions = [each._replace(most_mb=2000) for each in polls.partitions]
    for most_mb, words in ((2000, None), (2001, "it takes 2001 MiB of a node, and partition batch at most 2000")):
        job = polls.jobs[0]._replace(memory_per_node=most_mb, limit_min=5)
        polls.jobs = [job]
        assert seen(polls)[2].get(job.job_id) == words


# ---------------------------------------------------------------- limits of users


@pytest.mark.slow
@each_slurm
def test_real_scripts_are_placed_or_named(slurm: str) -> None:
    """On 24.11 and 26.05 19 of 20 scripts without GPUs, and 17 of 20 with; none is held in silence."""
    if not SCRIPTS.exists():
        pytest.skip("no scripts beside the tree")
    found, log = tried(slurm, scripts_of(SCRIPTS), 240.0)
    counts = summary(found)
    assert counts["cpu"]["completed"] >= 0.95 * counts["cpu"]["scripts"], found
    assert counts["gpu"]["completed"] >= 0.85 * counts["gpu"]["scripts"], found
    assert {script.outcome for script in found} <= {"completed", "left"}, log
