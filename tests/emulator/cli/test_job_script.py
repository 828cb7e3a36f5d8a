"""Options of a job, on the command line and in a script: all forms, precedence, contradictions, and places of errors."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.emulator.submissions import submit_job

from cosched_emulator.cli.job_options import (
    Array,
    read_array,
    read_begin,
    read_memory,
    read_seconds,
    read_time,
    read_usage,
)
from cosched_emulator.cli.job_script import read_script, request_of
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.offered import dependencies_of
from cosched_emulator.users.idset import idset, read_idset, read_job
from cosched_emulator.users.requests import Dependency, SubmitJob
from cosched_hwmodel.units import amounts_of, amounts_text

HOUR_US = 3_600_000_000


def script(folder: Path, *lines: str) -> str:
    file = folder / "job.sh"
    file.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
    return str(file)


def asked(folder: Path, *lines: str, **more: Any) -> SubmitJob:
    request, _ = request_of({**read_script(script(folder, *lines)).values, **more})
    return request


def laid_out(**options: Any) -> tuple[int, int, int]:
    request, _ = request_of(options)
    return request.job.processes, request.job.ppn_min, request.job.ppn_max


@pytest.mark.parametrize(
    "text", ["", "a", "1:2:3:4", "1-", "-1", "1.5", "1:", ":1", "2-3:4:5:6", "²", "9" * 13, "1-1-1"]
)
def test_malformed_times_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"d-h:m:s|at most"):
        read_time(text)


def test_amounts_of_memory_time_and_usage() -> None:
    assert [read_memory(text) for text in ("1", "1500", "500M", "2G", "1.5g", "1T", "1K", "1025k")] == [
        1, 1500, 500, 2048, 1536, 1024**2, 1, 2,
    ]  # fmt: skip
    for bad in ("0", "", "G", "-1", "nan", "1e99", "2X"):
        with pytest.raises(ValueError, match="an amount of memory above 0"):
            read_memory(bad)
    assert [read_seconds(text) for text in ("1", "0.5", "0.0000015")] == [1_000_000, 500_000, 2]
    assert read_usage("0.3:0.7:0:0.25") == ("network", 300_000, 700_000, 0, 250_000)
    for bad in ("0.3:0.3:0.3:0", "1:0:0", "1:0:0:2", "1:0:0:0:0", "x:0:0:0", "0.3333333:0.6666667:0:0"):
        with pytest.raises(ValueError, match="sum of 1"):
            read_usage(bad)


def test_arrays_and_dependencies() -> None:
    assert read_array("0-15:4") == Array((0, 4, 8, 12), 0)
    assert read_array("1,3,7%2") == Array((1, 3, 7), 2)
    assert read_array("7,1-3,2") == Array((1, 2, 3, 7), 0)
    for bad in ("", "3-1", "1,", "a", "0-9%", "0-9%0", "0-9:0", "1:2", "0-99999999999", "-1", "[1"):
        with pytest.raises(ValueError, match=r"numbers|range|whole number"):
            read_array(bad)
    assert dependencies_of("afterok:1:2,afterany:3") == (("afterok", 1), ("afterok", 2), ("afterany", 3))
    unknown = ("afterall:1", "singleton", "aftercorr:1", "expand:1", "after:1+10")  # the last four are Slurm's
    for bad in ("", "afterok", *unknown, "afterok:x", "afterok:1,", "afterok:12_3", "afterok:1?afterany:2"):
        with pytest.raises(ValueError, match=r"afterok|numbers of jobs"):
            dependencies_of(bad)


def test_sets_of_numbers() -> None:
    assert [idset(numbers) for numbers in ((), (5,), (3, 1, 2, 7), (0, 2, 4))] == ["", "5", "[1-3,7]", "[0,2,4]"]
    for numbers in ((5,), (1, 2, 3, 7), (0, 2, 4), tuple(range(100))):
        assert read_idset(idset(numbers)) == numbers
    assert list(read_job("12")) == [(12, None)]
    assert list(read_job("12_3")) == [(12, 3)]
    assert list(read_job("12_[1-3,7]")) == [(12, 1), (12, 2), (12, 3), (12, 7)]
    for bad in ("", "x", "12_", "12_x", "_3", "12_1-3", "12_[", "12_[]", "-1", "12.0", "1" * 30):
        with pytest.raises(ValueError, match=r"a job such as|numbers"):
            list(read_job(bad))
    for bomb in ("0-99999999", "0-999999999999999999", ",".join(["0-1048575"] * 100)):  # counted, not made
        with pytest.raises(ValueError, match="at most 1048576 numbers"):
            read_idset(bomb)


def test_layout_of_processes_on_nodes() -> None:
    assert laid_out(ntasks=8) == (8, 1, 0)
    assert laid_out(ntasks=8, ntasks_per_node=2) == (8, 1, 2)
    assert laid_out(ntasks_per_node=4) == (4, 4, 4)
    assert laid_out(nodes=(4, 4)) == (4, 1, 1)
    assert laid_out(nodes=(4, 4), ntasks_per_node=3) == (12, 3, 3)
    assert laid_out(nodes=(4, 4), ntasks=8) == (8, 2, 2)
    assert laid_out(nodes=(4, 4), ntasks=10) == (10, 3, 3)
    assert laid_out(nodes=(2, 4), ntasks=8) == (8, 2, 4)
    assert laid_out(nodes=(2, 4), ntasks=8, ntasks_per_node=3) == (8, 2, 3)
    request, notes = request_of({"nodes": (4, 4), "ntasks": 2})
    assert (request.job.processes, request.job.ppn_min, request.job.ppn_max) == (2, 1, 1)
    assert notes == ["2 processes take no more than 2 nodes"]


def test_every_layout_takes_the_requested_number_of_nodes() -> None:
    refused = set()
    for processes in range(1, 30):
        for nodes in range(1, processes + 1):
            try:
                _, ppn_min, ppn_max = laid_out(ntasks=processes, nodes=(nodes, nodes))
            except ConfigurationError:
                refused.add((processes, nodes))
                possible = [ppn for ppn in range(1, processes + 1) if -(-processes // ppn) == nodes]
                assert possible == []
            else:
                assert -(-processes // ppn_max) == -(-processes // ppn_min) == nodes
    assert (9, 4) in refused


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"ntasks": 9, "nodes": (4, 4)},
            "--nodes: expected the same number of processes on each node except the last, got 9",
        ),
        ({"ntasks": 9, "nodes": (3, 3), "ntasks_per_node": 2}, "at most 2 on a node"),
        ({"nodes": (2, 4)}, "--nodes: expected one number"),
        ({"time": 0}, "--time: expected an --estimate"),
        ({"ntasks": 4, "mem": 100}, "--mem: expected a fixed number of processes on a node"),
        ({"ntasks": 4, "mem": 0}, "--mem: expected a fixed number of processes on a node"),
        ({"mem_per_cpu": 4, "mem": 100}, "--mem: expected no --mem-per-cpu beside it, got both"),
        ({"array": Array(tuple(range(10_001)), 0)}, "--array: expected at most 10000 tasks"),
    ],
)
def test_contradictory_options_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        request_of(options)
    assert text in str(caught.value)


def test_memory_is_that_of_a_process() -> None:
    assert request_of({"mem_per_task": 7})[0].job.memory_mb == 7
    assert request_of({"mem_per_cpu": 7, "threads_per_process": 3})[0].job.memory_mb == 21
    assert request_of({"nodes": (2, 2), "ntasks_per_node": 3, "mem": 100})[0].job.memory_mb == 34
    assert request_of({"mem": 100})[0].job.memory_mb == 100
    assert request_of({"ntasks": 1, "mem": 100})[0].job.memory_mb == 100


def test_a_script_carries_all_of_it(tmp_path: Path) -> None:
    request = asked(
        tmp_path,
        "# a comment",
        "#SBATCH -n4 --cpus-per-task=2   # four of them",
        "#SBATCH --job-name 'two words'",
        "",
        "#COSCHED --time=2:00:00 --run 3600 --exit-code 3 --demand 2000:1",
        "#SBATCH -a 0-9%3 -d afterok:7 -H --no-requeue --exclusive --mem-per-cpu 1G --estimate 90",
        "  # indented",
        "srun ./program",
        "#SBATCH --ntasks=99",
    )
    assert request == submit_job(
        processes=4,
        estimate_us=5400 * 1_000_000,
        limit_us=2 * HOUR_US,
        run_us=HOUR_US,
        name="two words",
        threads_per_process=2,
        memory_mb=2048,
        exclusive=True,
        demand=(2000, 1, 0),
        tasks=tuple(range(10)),
        at_once=3,
        after=(Dependency("afterok", 7),),
        held=True,
        requeue=False,
        exit_code=3,
    )


def test_options_with_optional_values(tmp_path: Path) -> None:
    lines = ("#SBATCH --nice --get-user-env --no-kill -N 2", "#SBATCH --get-user-env=10L -k --propagate=NONE")
    found = read_script(script(tmp_path, *lines))
    assert found.ignored == ("--get-user-env", "--no-kill", "--propagate")
    assert found.values == {"nodes": (2, 2), "nice": 100}
    assert asked(tmp_path, "#SBATCH --exclusive -n 3").job.exclusive
    assert asked(tmp_path, "#SBATCH --unpaired -n 3").job.unpaired
    request, notes = request_of(read_script(script(tmp_path, "#SBATCH --exclusive=user")).values)
    assert request.job.exclusive
    assert notes == [
        "--exclusive=user: the job gets whole nodes; other jobs do not share them, those of the same user included"
    ]


def test_mem_0_requests_all_memory_of_a_node(tmp_path: Path) -> None:
    request = asked(tmp_path, "#SBATCH --mem=0 -N 2 --ntasks-per-node=4")
    assert (request.all_memory, request.job.memory_mb, request.job.ppn_min, request.job.ppn_max) == (True, 0, 4, 4)
    assert not asked(tmp_path, "#SBATCH --mem=1").all_memory


NOW = datetime(2030, 1, 31, 13, 30, 15)  # a Thursday, in local time


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("now", NOW),
        ("now+90", NOW + timedelta(seconds=90)),
        ("now+1hour", NOW + timedelta(hours=1)),
        ("now+2weeks", NOW + timedelta(weeks=2)),
        ("14:00", datetime(2030, 1, 31, 14)),
        ("13:30:15", NOW),
        ("9:05:30", datetime(2030, 2, 1, 9, 5, 30)),
        ("2030-02-03T04:05", datetime(2030, 2, 3, 4, 5)),
        ("2030-02-03T04:05:06", datetime(2030, 2, 3, 4, 5, 6)),
        ("2030-02-03", datetime(2030, 2, 3)),
        ("2029-02-03", NOW),
        ("today", NOW),
        ("tomorrow", datetime(2030, 2, 1)),
        ("midnight", datetime(2030, 2, 1)),
        ("noon", datetime(2030, 2, 1, 12)),
        ("Teatime", datetime(2030, 1, 31, 16)),
    ],
)
def test_begin_times_have_slurms_forms(text: str, begin: datetime) -> None:
    assert read_begin(text, NOW) == round((begin - NOW).total_seconds() * 1_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "14",
        "24:00",
        "14:60",
        "14:00:00:00",
        "2030-13-01",
        "2030-01-31T",
        "now+",
        "now-1hour",
        "now+1fortnight",
        "now+999999999weeks",
    ],
)
def test_malformed_begin_times_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"HH:MM|COUNT|at most"):
        read_begin(text, NOW)


def test_a_begin_time_is_a_delay(tmp_path: Path) -> None:
    assert asked(tmp_path, "#SBATCH --begin=now+1hour").delay_us == HOUR_US
    request, notes = request_of({"begin": 0})
    assert (request.delay_us, notes) == (0, ["--begin: that time has come; the job may start at once"])


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("#SBATCH --ntask=4", "job.sh:3: expected an option of a job, perhaps --ntasks, got '--ntask'"),
        ("#SBATCH -n four", "job.sh:3: field '--ntasks': expected a whole number above 0, got 'four'"),
        ("#SBATCH --time=tomorrow", "job.sh:3: field '--time': expected minutes, min:s, h:m:s, d-h, d-h:m or d-h:m:s"),
        ("#SBATCH hetjob", "job.sh:3: expected options of a job (Got unexpected extra argument"),
        ("#SBATCH -J 'open", "job.sh:3: expected options as in a shell (No closing quotation)"),
        ("#SBATCH -n", "job.sh:3: expected options of a job (Option '-n' requires an argument"),
        ("#SBATCH --exclusive=topo", "job.sh:3: field '--exclusive': expected nothing, user or mcs, got 'topo'"),
        ("#SBATCH --nice=low", "job.sh:3: field '--nice': expected a whole number, got 'low'"),
        ("#SBATCH --begin=soon", "job.sh:3: field '--begin': expected HH:MM[:SS], YYYY-MM-DD[THH:MM[:SS]], now+COUNT"),
        ("#SBATCH --exit-code 256", "job.sh:3: expected options of a job (Invalid value for '--exit-code'"),
        ("#SBATCH --zzz 1", "job.sh:3: expected an option of a job, got '--zzz'"),
    ],
)
def test_an_error_names_file_and_line(line: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_script(script(tmp_path, "#SBATCH -n 1", line))
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_files_are_no_script(tmp_path: Path) -> None:
    file = tmp_path / "x"
    with pytest.raises(InputError, match=r"x: expected a script that can be read \(No such file"):
        read_script(str(file))
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"x: expected a script that can be read \(no UTF-8\)"):
        read_script(str(file))
    file.write_text("seed = 1\n")
    with pytest.raises(InputError, match="x:1: expected a script that begins with #!, got 'seed = 1'"):
        read_script(str(file))
    file.write_text("")
    with pytest.raises(InputError, match="x:1: expected a script that begins with #!, got nothing"):
        read_script(str(file))


@pytest.mark.parametrize("text", ["gpu:2", "gpu:a100:4", "gpu:a100:1;gpu:h100:2", "gpu:a100:1;gpu:3", "fpga:1;gpu:2"])
def test_amounts_are_written_without_what_follows_from_their_types(text: str) -> None:
    assert amounts_text(amounts_of(text)) == text
    assert amounts_of(amounts_text(amounts_of(text))) == amounts_of(text)


def test_priority_resources_and_licences(tmp_path: Path) -> None:
    lines = ("#SBATCH --priority=5 --nice=-7", "#SBATCH --gres=gpu:a100:2,gpu:1,fast -L matlab:3")
    job = asked(tmp_path, *lines).job
    assert job.priority == 12
    assert (job.resources, job.licences) == ((("gpu:a100", 2), ("gpu", 2), ("fast", 1)), (("matlab", 3),))
    assert asked(tmp_path, "#SBATCH --nice").job.priority == -100


@pytest.mark.parametrize("text", ["", "gpu:0", "gpu:1,gpu:2", "gpu,", ":2", "x" * 65])
def test_amounts_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME:COUNT, each name once"):
        amounts_of(text)
