"""Nodes with several hardware threads a core: which cores a job gets, and what it may share, by recordings of Slurm 24.11 and 26.05.

The recorded nodes have 2 sockets x 2 cores x 2 threads, under CR_Core_Memory with DefMemPerCPU=100; CR_CPU_Memory gives the same cores.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.threads import each_node
from cosched_plugin.protocol.messages import JobSpec
from cosched_plugin.site.books import Books
from cosched_plugin.slurm.adapter import open_store
from cosched_plugin.slurm.cluster import Cluster
from cosched_plugin.slurm.records import SlurmJob, SlurmNode, job_of, node_of
from cosched_plugin.slurm.rest import Polls
from cosched_plugin.slurm.site_file import Site
from cosched_terminal.console import Log

RECORDED = Path(__file__).parent / "recorded" / "threads.json.gz"
SITE = Site(("co",), unknown_alone=False)
NOW_US = 10**15
UNEVEN = ("-N3 -n7", "-N3 -n13")  # 2 + 1 + 1 and 4 + 2 + 1 cores


@cache
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return found


def cluster_of(nodes: Sequence[SlurmNode], share: int, *jobs: SlurmJob) -> Cluster:
    polls = SimpleNamespace(nodes=nodes, jobs=jobs, partitions=(), reservations=(), licences=(), database=None)
    return Cluster(cast("Polls", polls), SITE, share)


def nodes_of(version: str) -> list[SlurmNode]:
    return [node_of(record) for record in recorded()[version]["nodes"]]


def seen(version: str, share: int) -> Iterator[tuple[str, SlurmJob, JobSpec | None, Cluster]]:
    """Yield what each recorded job asks for, its record while it ran, and its description (None: it is left to Slurm)."""
    for row in recorded()[version]["jobs"]:
        pending, running = job_of(row["pending"]), job_of(row["running"])
        cluster = cluster_of(nodes_of(version), share, pending)
        polled = cluster.snapshot(NOW_US, Books(cluster.machine)).jobs.get(pending.job_id)
        yield row["form"], running, None if polled is None else polled.spec, cluster


@pytest.mark.parametrize("version", ["24.11", "26.05"])
@pytest.mark.parametrize("share", [1, 2])
def test_a_job_is_described_as_the_cores_and_memory_that_slurm_gave_it(version: str, share: int) -> None:
    left = {}
    for form, running, spec, cluster in seen(version, share):
        if spec is None:
            left[form] = cluster.left[running.job_id]
            continue
        assert running.cores is not None
        cores = list(running.cores.values())
        per_node = spec.ppn_max
        counts = [per_node] * (-(-spec.processes // per_node) - 1)
        counts.append(spec.processes - sum(counts))
        if "--exclusive" not in form:
            memory = [node["memory"]["allocated"] for node in allocation(version, form)]
            planned = (
                [count * spec.threads_per_process for count in counts],
                [count * spec.memory_mb for count in counts],
            )
            if form in UNEVEN:  # each node has as much as the fullest one needs
                cores, memory = [max(cores)] * len(cores), [max(memory)] * len(memory)
            assert planned == (cores, memory), form
        # Slurm starts it, and the driver did not: it is where it is seen
        runs = cluster_of(nodes_of(version), share, running)
        polled = runs.snapshot(NOW_US, Books(runs.machine)).jobs[running.job_id]
        assert [count for _, count in each_node(polled.runs)] == counts, form
    assert left == {
        "--ntasks-per-core=2 -n8": "it asks for --ntasks-per-core",
        "-n4 --threads-per-core=2": "it asks for --threads-per-core",
    }


def allocation(version: str, form: str) -> list[dict[str, Any]]:
    (row,) = [row for row in recorded()[version]["jobs"] if row["form"] == form]
    found: list[dict[str, Any]] = row["running"]["job_resources"]["nodes"]["allocation"]
    return found


@pytest.mark.parametrize("version", ["24.11", "26.05"])
def test_jobs_whose_tasks_have_cores_of_their_own_may_share_them_and_others_have_their_nodes_alone(
    version: str,
) -> None:
    for form, _, spec, _ in seen(version, 2):
        if spec is not None:
            own = any(word in form for word in ("nomultithread", "per-core=1", "-c2", "-c4"))
            assert spec.exclusive == (not own or "--exclusive" in form), form


def test_nodes_have_a_seat_for_each_job_of_a_core_whatever_its_threads() -> None:
    nodes = nodes_of("24.11")
    for share in (1, 2):
        (kind,) = cluster_of(nodes, share).machine.nodes
        assert (kind.nodes, kind.sockets, kind.cores_per_socket, kind.threads_per_core) == (4, 2, 2, share)
    with pytest.raises(UsageError, match="all nodes must have the same number of threads a core: h0 2 and h3 1"):
        cluster_of([*nodes[:3], nodes[3]._replace(threads_per_core=1)], 1)


def test_the_store_of_a_policy_that_pairs_is_not_read_by_one_that_does_not(tmp_path: Path) -> None:
    """Its books have jobs on seats that the other one's nodes do not have."""
    renamed = []
    for share in (2, 2, 1):
        cluster = cluster_of(nodes_of("24.11"), share)
        open_store(str(tmp_path / "store"), cluster.names, cluster.machine, Log("test")).close()
        renamed.append((tmp_path / "store.old").exists())
    assert renamed == [False, False, True]
