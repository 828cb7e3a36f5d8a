"""What slurm.conf must say for pairs: refused with the line that mends it; and the partition in which each job of a pair starts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.plugin.slurm.test_actuator import Slurm, lines

from cosched_hwmodel.units import SECOND_US, ThreadMask
from cosched_plugin.common.errors import UsageError
from cosched_plugin.protocol.messages import JobSpec, Run, StartJob, StartTogether
from cosched_plugin.site.books import Books
from cosched_plugin.site.poll_loop import Clock
from cosched_plugin.slurm.actuator import SlurmActuator
from cosched_plugin.slurm.cluster import Cluster
from cosched_plugin.slurm.pairing import share_of
from cosched_plugin.slurm.records import SlurmNode
from cosched_plugin.slurm.rest import Polls, Rest
from cosched_plugin.slurm.site_file import Site
from cosched_plugin.slurm.transport import Reply
from cosched_terminal.console import Log

ONE = Site(("co",))
TWO = ONE.with_partitions((), ["co:guest"])
# As scontrol of 24.11 shows them, the words that count
CONFIG = {
    "PreemptType": "(null)", "SelectTypeParameters": "CR_CORE_MEMORY", "SLURM_VERSION": "24.11.5", "TaskProlog": "/seats.sh",
}  # fmt: skip
PARTITION = {
    "Nodes": "h[0-3]", "PriorityTier": "1", "RootOnly": "NO", "OverSubscribe": "FORCE:1", "PreemptMode": "OFF", "MaxTime": "UNLIMITED",
    "DefMemPerCPU": "100",
}  # fmt: skip
OLD = {"SLURM_VERSION": "22.05.8"}
MEND = "PartitionName=co OverSubscribe=FORCE:1, PartitionName=guest Nodes=h[0-3] OverSubscribe=FORCE:1, and --guests co:guest"


def found(
    site: Site,
    config: Mapping[str, str] = {},
    co: Mapping[str, str] = {},
    guest: Mapping[str, str] = {},
    *,
    wanted: int = 0,
    threads: int = 2,
    pairs: bool = True,
) -> tuple[int, list[tuple[str, bool]]]:
    """Return how many jobs a core has where something is said in another way, and what is found."""

    def show(*words: str) -> str:
        if words == ("config",):
            return "\n".join(f"{key:24}= {value}" for key, value in {**CONFIG, **config}.items())
        said = {**PARTITION, **(guest if words[1] == "guest" else co)}
        return "" if "gone" in said else " ".join(f"{key}={value}" for key, value in said.items())

    nodes = [SlurmNode("h0", True, 2, 2, threads, 4000, (), site.partitions)]
    share, findings = share_of(site, wanted, nodes, show, pairs=pairs)
    return share, [(finding.words, finding.fatal) for finding in findings]


def test_two_partitions_are_fine_and_one_job_a_core_asks_for_nothing() -> None:
    assert found(TWO) == (2, [])
    assert found(TWO, wanted=2, pairs=False) == (2, [])
    assert found(TWO, wanted=1) == found(TWO, pairs=False) == (1, [])


FORCED = {"OverSubscribe": "FORCE:2"}


@pytest.mark.parametrize(
    ("config", "co", "threads", "wanted", "share", "words", "fatal"),
    [
        ({}, FORCED, 1, 0, 2, f"OverSubscribe of partition co voids --exclusive; pairs need {MEND}", True),
        (OLD, FORCED, 2, 0, 2, f"OverSubscribe of partition co voids --exclusive; pairs need {MEND}", True),
        (OLD, FORCED, 1, 0, 2, f"OverSubscribe of partition co voids --exclusive; better: {MEND}", False),
        ({}, {}, 1, 0, 1, f"the policy would pair jobs, which partition co does not allow: {MEND}", False),
        ({}, {"OverSubscribe": "NO"}, 1, 2, 2, f"no two jobs of partition co may share a core: {MEND}", True),
    ],
)
def test_one_partition_is_not_enough(
    config: Mapping[str, str], co: Mapping[str, str], threads: int, wanted: int, share: int, words: str, fatal: bool
) -> None:
    assert found(ONE, config, co, threads=threads, wanted=wanted) == (share, [(words, fatal)])


@pytest.mark.parametrize(
    ("config", "co", "guest", "words", "fatal"),
    [
        ({}, {}, {"gone": ""}, "there is no partition guest: PartitionName=guest Nodes=h[0-3] OverSubscribe=FORCE:1", True),
        ({}, FORCED, {}, "partition co is OverSubscribe=FORCE:2: PartitionName=co OverSubscribe=FORCE:1", True),
        ({}, {}, {"Nodes": "h0"}, "partitions co and guest differ: PartitionName=guest Nodes=h[0-3], not h0", True),
        ({}, {}, {"MaxTime": "1:00"}, "partitions co and guest differ: PartitionName=guest MaxTime=UNLIMITED, not 1:00", False),
        ({}, {}, {"PriorityTier": "9"}, "partitions co and guest differ: PartitionName=guest PriorityTier=1, not 9", True),
        ({}, {}, {"RootOnly": "YES"}, "no job of a user would start there: PartitionName=guest RootOnly=NO", True),
        (
            {"PreemptType": "preempt/partition_prio"}, {}, {},
            "no guest would start: PreemptMode=REQUEUE for partitions co and guest", True,
        ),
        (
            {}, {}, {"DefMemPerCPU": "UNLIMITED"},
            "a job without --mem takes all of a node's memory, and no other starts beside it: PartitionName=guest DefMemPerCPU=250",
            True,
        ),
        (
            {}, {"DefMemPerCPU": "600"}, {},
            "two jobs without --mem do not fit into the memory of h0: PartitionName=co DefMemPerCPU=250", False,
        ),
        (
            {"TaskProlog": "(null)"}, {}, {},
            "both jobs of a pair would run on the first thread of each core: TaskProlog=/.../cosched-seats.sh", True,
        ),
    ],
)  # fmt: skip
def test_each_thing_that_is_wrong_is_said_with_the_line_that_mends_it(
    config: Mapping[str, str], co: Mapping[str, str], guest: Mapping[str, str], words: str, fatal: bool
) -> None:
    assert found(TWO, config, co, guest) == (2, [(words, fatal)])


def test_a_default_of_memory_for_all_partitions_counts_and_where_memory_does_not_count_none_is_needed() -> None:
    none = {"DefMemPerCPU": "UNLIMITED"}
    assert found(TWO, {"DefMemPerNode": "1000"}, {**none}, {**none, "DefMemPerNode": "900"}) == (2, [])
    assert found(TWO, {"SelectTypeParameters": "CR_CORE"}, none, none) == (2, [])


def test_guests_are_named_as_two_partitions() -> None:
    assert TWO.partitions == ("co", "guest")
    assert [TWO.home_of(name) for name in ("co", "guest", "other")] == ["co", "co", "other"]
    for text in ("co", "co:", ":guest", "co:co", "a:b:c"):
        with pytest.raises(UsageError, match=f"guests {text}: expected HOST:GUEST"):
            ONE.with_partitions((), [text])
    for more in ("batch:guest", "guest:more"):
        with pytest.raises(UsageError, match=f"guests {more}: each partition needs one of its own"):
            TWO.with_partitions((), [more])


# ---------------------------------------------------------------- the partition of each start

FIRST, SECOND = ThreadMask(0x0F), ThreadMask(0xF0)
STALE = Reply(500, '{"errors": [{"error": "Resource temporarily unavailable", "error_number": 11}]}')


class Pairs:
    """An actuator at a Slurm of some jobs of 4 processes a node: by number their partition, threads and nodes, and whether they run."""

    def __init__(self, jobs: Mapping[int, tuple[str, ThreadMask, tuple[int, ...], bool]]) -> None:
        rows = []
        for job, (partition, _, nodes, runs) in jobs.items():
            names = ",".join(f"n{node}" for node in nodes)
            state = {"job_state": "RUNNING", "state_reason": "None", "nodes": names} if runs else {}
            count = len(nodes)
            size = {"node_count": count, "max_nodes": count, "tasks": 4 * count, "cpus": 4 * count, "tasks_per_node": 4}
            rows.append({"job_id": job, "partition": partition, **size, **state})
        self.slurm = Slurm(*rows)
        self.slurm.stubborn = True
        polls = Polls(Rest(self.slurm, "v0.0.44"))
        assert polls.poll(self.slurm.now_s)
        polls.nodes = [node._replace(partitions=TWO.partitions) for node in polls.nodes]
        self.cluster = Cluster(polls, TWO, 2)
        books = Books(self.cluster.machine)
        self.starts = {}
        for job, (_, mask, nodes, runs) in jobs.items():
            books.ledger.queue.enter(JobSpec(job, 0, 4 * len(nodes), SECOND_US))
            self.starts[job] = StartJob(job, tuple(Run(node, 1, mask, 4) for node in nodes), SECOND_US)
            if runs:
                assert books.act(self.starts[job]) is None
        self.cluster.snapshot(0, books)
        for job, start in self.starts.items():  # which the driver has decided, and hands on
            if not jobs[job][3]:
                assert books.act(start) is None
        self.actuator = SlurmActuator(
            self.cluster, self.slurm, Clock(lambda: self.slurm.now_s), Log("test", write=lines.append)
        )

    def asked(self) -> list[tuple[str, str | None]]:
        """Return the changes of jobs since it was last asked, and to which partition."""
        said = [(what, body.get("partition")) for what, body in self.slurm.asked if isinstance(body, dict)]
        self.slurm.asked.clear()
        return said


def test_of_two_jobs_that_start_together_the_second_goes_to_the_guests() -> None:
    pairs = Pairs({1: ("co", FIRST, (0, 1), False), 2: ("co", SECOND, (1,), False), 3: ("co", FIRST, (2,), False)})
    assert pairs.actuator.carry_out(StartTogether((pairs.starts[1], pairs.starts[2]))) is None
    assert pairs.actuator.carry_out(pairs.starts[3]) is None
    assert pairs.asked() == [("job/1", None), ("job/2", "guest"), ("job/3", None)]
    assert pairs.actuator.clear(2) is pairs.actuator.clear(1) is None
    assert pairs.asked() == [("job/2", "co"), ("job/1", None)]


def test_beside_a_guest_whose_host_has_ended_a_job_starts_in_its_own_partition() -> None:
    pairs = Pairs({1: ("guest", SECOND, (0,), True), 2: ("co", FIRST, (0,), False), 3: ("guest", FIRST, (1,), False)})
    for job in (2, 3):  # job 3 was once a guest, and was requeued
        assert pairs.actuator.carry_out(pairs.starts[job]) is None
    assert pairs.asked() == [("job/2", None), ("job/3", "co")]


def test_where_jobs_of_both_partitions_are_on_the_nodes_a_start_is_refused() -> None:
    pairs = Pairs({1: ("co", FIRST, (0,), True), 2: ("guest", FIRST, (1,), True), 3: ("co", SECOND, (0, 1), False)})
    assert pairs.actuator.carry_out(pairs.starts[3]) == "there is a job of either partition on its nodes"
    assert pairs.asked() == []


def test_a_change_of_partition_that_failed_for_nothing_is_tried_again() -> None:
    pairs = Pairs({1: ("co", FIRST, (0,), True), 2: ("co", SECOND, (0,), False)})
    pairs.slurm.answers["job/2"] = STALE
    said = pairs.actuator.carry_out(pairs.starts[2])
    assert isinstance(said, str)
    assert "Resource temporarily unavailable" in said
    assert pairs.asked() == [("job/2", "guest")] * 20
