"""The comparison of two commits, on a tiny repository whose program takes a given time and writes a given schedule."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from scripts.bench.against import (
    SUBJECTS,
    Subject,
    against_lines,
    compare,
    counted_lines,
    median_interval,
    slower,
    start_up,
)
from scripts.bench.checkout import CommitError, checkout
from scripts.bench.instructions import COUNTERS, Counter

from cosched_emulator.cli.main import cli

PROGRAM = """
import sys, time
from pathlib import Path
until = time.process_time() + {seconds}
while time.process_time() < until:
    pass
if "--out" in sys.argv:
    out = Path(sys.argv[sys.argv.index("--out") + 1])
    out.mkdir()
    (out / "jobs.csv").write_text({schedule!r})
{last}
"""
SIMULATION = Subject("easy", "a few jobs", "cosched_emulator", ("simulate",))


def write_program(tree: Path, seconds: float, schedule: str = "1", last: str = "") -> None:
    package = tree / "emulator" / "cosched_emulator"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__main__.py").write_text(PROGRAM.format(seconds=seconds, schedule=schedule, last=last))
    (package / "__init__.py").touch()


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, timeout=60)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a repository whose last commit takes 0.05 s, and whose tree takes 0.15 s."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "--quiet")
    write_program(folder, 0.05)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    write_program(folder, 0.15)
    return folder


def silent(_done: int, _count: int, _text: str) -> None:
    pass


def test_a_commit_is_checked_out_and_removed_afterwards(project: Path) -> None:
    with checkout(project, "HEAD") as (name, tree):
        assert re.fullmatch("[0-9a-f]{7,}", name)
        assert "0.05" in (tree / "emulator" / "cosched_emulator" / "__main__.py").read_text()
    assert not tree.exists()
    with pytest.raises(KeyboardInterrupt), checkout(project, "HEAD") as (_, tree):
        raise KeyboardInterrupt
    assert not tree.exists()
    for commit in ("nosuch", "--help", ""):
        with pytest.raises(CommitError, match="there is no commit"), checkout(project, commit):
            pass


def test_changed_schedules_and_failing_runs_are_reported(tmp_path: Path) -> None:
    write_program(tmp_path / "old", 0.0)
    write_program(tmp_path / "other", 0.0, schedule="2")
    rows = compare(
        tmp_path / "old", tmp_path / "other", [SIMULATION, start_up("cosched_emulator")._replace(starts=2)], 1, silent
    )
    assert rows[0]["old_schedule"] != rows[0]["new_schedule"]
    assert rows[1]["subject"] == "emulator-help"
    assert rows[1]["old_schedule"] is None
    lines = against_lines(rows, "abc", 1)
    assert "**differs**" in lines[2]
    assert lines[3].endswith("- |")
    assert list(slower(rows, 0.0)) == []  # a single pair proves nothing
    write_program(tmp_path / "new", 0.0, last="sys.exit('no more\\nof this')")
    rows = compare(tmp_path / "old", tmp_path / "new", [SIMULATION], 1, silent)
    assert rows[0]["reason"] == "new: exit code 1: of this"
    assert "new: exit code 1: of this" in against_lines(rows, "abc", 1)[2]
    assert list(slower(rows, 1e9)) == ["easy could not be compared"]


def test_instructions_are_compared(tmp_path: Path) -> None:
    sizes = {"old": 10_000_000, "new": 11_000_000}
    for side, count in sizes.items():
        write_program(tmp_path / side, 0.0, last=f"Path(sys.argv[-1]).parent.joinpath('size').write_text('{count}')")

    def read(folder: Path) -> int:
        # Beside the folder with the counts: where a run writes.
        return int((folder.parent / "size").read_text()) + len(list(folder.iterdir()))

    counter = Counter("wc", lambda folder: ("env", f"COUNT={folder}"), read)
    rows = compare(tmp_path / "old", tmp_path / "new", [SIMULATION], 1, silent, counter)
    assert (rows[0]["old_instructions"], rows[0]["new_instructions"], rows[0]["ratio"]) == (10_000_000, 11_000_000, 1.1)
    assert list(slower(rows, 1.11)) == []
    assert list(slower(rows, 1.09)) == ["easy executes more than 1.09 times as many instructions"]
    assert re.search(r"\| +10 \| +11 \| +1\.100 \| the same \|$", counted_lines(rows, "abc", counter)[2])
    rows = compare(
        tmp_path / "old", tmp_path / "new", [SIMULATION], 1, silent, counter._replace(read=lambda _: int("-"))
    )
    assert rows[0]["reason"].startswith("old: wc has counted nothing: ")


def test_counts_of_perf_and_valgrind_are_read(tmp_path: Path) -> None:
    perf, valgrind = COUNTERS
    (tmp_path / "count").write_text("# started on Sunday\n\n123456,,instructions:u,998,100.00,,\n")
    assert perf.read(tmp_path) == 123_456
    (tmp_path / "count").write_text("# started on Sunday\n\n<not supported>,,instructions:u,0,100.00,,\n")
    with pytest.raises(ValueError, match="<not supported>"):
        perf.read(tmp_path)
    with pytest.raises(ValueError, match="valgrind has written no count"):
        valgrind.read(tmp_path)
    for process, count in ((7, 1_000), (8, 20)):
        (tmp_path / f"count.{process}").write_text(f"desc: ...\nevents: Ir\nfn=main\n3 {count}\nsummary: {count}\n")
    assert valgrind.read(tmp_path) == 1_020


@pytest.mark.parametrize("name", [name for name, subject in SUBJECTS.items() if subject.starts == 1])
def test_the_program_accepts_the_options_of_the_subjects(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cli.main([*SUBJECTS[name].arguments, "--lublin", "10", "--out", str(out)], standalone_mode=False)
    assert (out / "jobs.csv").exists()


def test_median_lies_between_order_statistics() -> None:
    assert median_interval([1.0] * 5) is None
    assert median_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]) == (1.0, 6.0)
    # The tabulated ranks: 4 and 12 of 15, 10 and 21 of 30.
    assert median_interval([float(value) for value in range(1, 16)]) == (4.0, 12.0)
    assert median_interval([float(value) for value in range(1, 31)]) == (10.0, 21.0)
    assert median_interval([float(value) for value in range(1, 16)], 0.5) == (6.0, 10.0)
