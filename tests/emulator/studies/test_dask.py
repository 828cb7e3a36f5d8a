"""A study on a dask.distributed cluster: a scheduler and two workers, real processes, one of which is killed on the way."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.emulator.studies.experiments import TWO_POLICIES
from tests.processes import environment, killed_at_the_end, start_python, wait_until

from cosched_emulator import study
from cosched_emulator.cli.main import cli
from cosched_emulator.errors import LinkError
from cosched_emulator.studies import dask_cluster
from cosched_plugin.common.errors import UsageError

TABLES = ("results.csv", "results.sqlite", "intervals.csv", "losers.csv", "study.json")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[int]]]:
    """Yield the address of a scheduler, and the process numbers of its two workers."""
    pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    common = ("--scheduler-file", str(file), "--no-dashboard")
    env = environment(DASK_DISTRIBUTED__WORKER__DAEMON="False")
    with killed_at_the_end() as processes:
        scheduler = ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0")
        processes.append(start_python("-m", *scheduler, *common, folder=tmp_path, env=env))
        wait_until(file.exists)
        worker = ("distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny")
        for _ in range(2):
            processes.append(start_python("-m", *worker, *common, folder=tmp_path, env=env))
        yield json.loads(file.read_text())["address"], [process.pid for process in processes[1:]]


@pytest.mark.parametrize("holds_results", [False, True])
def test_a_cluster_gives_the_same_table_though_a_worker_is_killed(
    cluster: tuple[str, list[int]], holds_results: bool, tmp_path: Path
) -> None:
    """Also where the worker has ended runs whose results have not been fetched."""
    distributed = pytest.importorskip("distributed")

    address, workers = cluster
    study(TWO_POLICIES, tmp_path / "here", jobs=1)
    killed: list[int] = []

    def kill_one(done: int, total: int) -> None:
        assert total == 24
        if done == 5 and not killed:
            killed.append(workers[0])
            with distributed.Client(address, timeout=10, set_as_default=False) as client:
                if holds_results:
                    wait_until(lambda: not any(client.processing().values()))
                os.kill(workers[0], signal.SIGKILL)
                wait_until(lambda: len(client.scheduler_info()["workers"]) == 1)

    result = study(TWO_POLICIES, tmp_path / "there", dask=address, progress=kill_one)
    assert killed
    assert not result.failures
    for name in TABLES:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes(), name


def test_no_scheduler_is_an_error_within_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(dask_cluster, "_CONNECT_S", 1)
    with pytest.raises(LinkError, match="no dask scheduler answers within"):
        study(TWO_POLICIES, tmp_path / "s", dask="tcp://127.0.0.1:1")
    assert study(TWO_POLICIES, tmp_path / "s", jobs=1).done  # the folder is as good as new


@pytest.mark.parametrize("address", ["", "head", "head:x", "ftp://head:1", "tcp://"])
def test_what_is_no_address_is_an_error_at_once(address: str, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(UsageError, match=f"^--dask {address}: expected an address such as tcp://head:8786: "):
        study(TWO_POLICIES, tmp_path / "s", dask=address)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'cosched\[cluster\]'"):
        study(TWO_POLICIES, tmp_path / "s", dask="tcp://127.0.0.1:1")


def test_a_cluster_has_its_own_workers(tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_text("[scenario.workload]\nlublin = 5\n")
    arguments = ["study", "run", str(file), "--out", str(tmp_path / "s"), "--dask", "tcp://h:1", "--jobs", "2"]
    assert "--dask and --jobs exclude each other" in CliRunner().invoke(cli, arguments).output
