"""What binds the jobs of a dump and no scenario has: one line each, in `import`, in scenario.toml, and in whatif's assumptions."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosched_emulator.workload.sacct.sacct_jobs import THROTTLED
from cosched_emulator.workload.sacct.sacct_log import ImportOptions, ImportReport, assumptions_of, import_dump
from cosched_plugin.common.sacct_rows import COMMAND

_FIELDS = "Account|QOS|Reservation|Reason|ReqMem|ReqTRES|AllocTRES|SubmitLine"
_HEADER = (
    f"JobIDRaw|JobID|User|Partition|State|Submit|Start|End|TimelimitRaw|AllocNodes|NCPUS|NodeList|JobName|{_FIELDS}"
)


def row(number: int, nodes: str = "n1", *, partition: str = "b", cpus: int = 4, **told: str) -> str:
    """Return a row of a job, of which only these fields are told."""
    label = told.get("label", str(number))
    times = f"{1_772_400_000 + 1000 * number}|" * 2 + f"{1_772_400_600 + 1000 * number}"
    more = "|".join(told.get(name.lower(), "") for name in _FIELDS.split("|"))
    return f"{number}|{label}|u|{partition}|COMPLETED|{times}|60|1|{cpus}|{nodes}|x|{more}"


def imported(folder: Path, *rows: str, anonymous: bool = False) -> ImportReport:
    (folder / "jobs.txt").write_text("\n".join([_HEADER, *rows]) + "\n", encoding="utf-8")
    return import_dump(str(folder / "jobs.txt"), folder / "out", ImportOptions(anonymous=anonymous))


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({"alloctres": "billing=8,cpu=8,gres/gpu=1,mem=0,node=1"}, "1 jobs had GPUs"),
        ({"reqtres": "cpu=8,gres/gpu:a100=2"}, "1 jobs had GPUs"),
        ({"submitline": "sbatch -N 1 --gres=gpu:4 job.sh"}, "1 jobs had GPUs"),
        ({"alloctres": "cpu=8,gres/membw=100"}, "1 jobs had other generic resources, or burst buffers"),
        ({"reqmem": "4Gc"}, "1 jobs asked for memory"),
        ({"reqtres": "cpu=1,mem=4000M"}, "1 jobs asked for memory"),
        ({"qos": "high"}, "1 jobs of 1 QOS: their priorities, limits and preemption"),
        ({"reqtres": "cpu=1,license/matlab=1"}, "1 jobs had licences"),
        ({"reqtres": "cpu=1", "submitline": "sbatch -L matlab:1 job.sh"}, "1 jobs had licences"),
        ({"reason": "Licenses"}, "1 jobs had licences"),
        ({"reservation": "course"}, "1 jobs ran in reservations"),
        ({"reason": "QOSMaxCpuPerUserLimit"}, "1 jobs waited at a limit of their QOS, account, user or partition"),
        ({"submitline": "sbatch -C ib job.sh"}, "1 jobs asked for certain nodes, features or a network"),
        ({"label": "9_1", "submitline": "sbatch --array=1-9%2 job.sh"}, f"1 {THROTTLED}"),
    ],
)  # fmt: skip
def test_what_is_not_modelled_is_counted(tmp_path: Path, told: dict[str, str], line: str) -> None:
    """In one line each, everywhere."""
    report = imported(tmp_path, row(1, "n1", partition="b", cpus=4, **told), row(2))
    assert report.unmodelled == (line,)
    assert f"not modelled: {line}" in report.lines()
    assert sum(line in text for text in report.lines()) == 1
    assert f"# not modelled: {line}" in (tmp_path / "out" / "scenario.toml").read_text().splitlines()
    assert f"import of the log: not modelled: {line}" in assumptions_of(str(tmp_path / "out" / "trace.swf"), 1, 1)


def test_the_printed_command_asks_for_it() -> None:
    asked = COMMAND.split(" -o ")[1].split(" ")[0].split(",")
    wanted = {"QOS", "Priority", "Eligible", "ReqMem", "ReqTRES", "AllocTRES", "Reservation", "Account", "Reason"}
    assert wanted <= set(asked)
