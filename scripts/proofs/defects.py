"""Apply deliberate defects to copies of the project, one by one, and report which test catches each, and after what time.

Usage: .venv/bin/python -m scripts.proofs.defects [--only NAME]... [--deadline S] [--json FILE] [-- PYTEST-ARGUMENT...]
       .venv/bin/python -m scripts.proofs.defects --list

The first run is without a defect and must pass. The tests beside the changed file are run before all others. The exit
code is 1 if a defect is not caught. Arguments for pytest after ``--`` choose tests, such as ``-- -k session``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from scripts.processes import PROJECT, environment
from scripts.progress import Progress
from scripts.tables import aligned_table


class Defect(NamedTuple):
    """One change; ``new`` replaces ``old`` in ``file``, a path in the project."""

    name: str
    text: str  # what is wrong with it
    file: str
    old: str
    new: str


DEFECTS: Final = tuple(
    Defect(**each) for each in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["defect"]
)
NONE: Final = Defect("none", "the project as it is", "pyproject.toml", "[build-system]", "[build-system]")
LEFT_OUT: Final = (".git", ".venv", ".*_cache", "__pycache__", ".hypothesis", "out", "dist")
PYTEST: Final = ("-x", "-q", "-n", "2", "-p", "no:cacheprovider")
DEADLINE_S: Final = 900.0
END_S: Final = 10.0
_FAILURE: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class StaleError(Exception):
    """The text that a defect changes is not found exactly once."""


class Outcome(NamedTuple):
    """The result of the tests with a defect."""

    name: str
    text: str
    result: str  # caught, passed, late, or failed: pytest could not run
    test: str  # the first failed test
    seconds: float

    @property
    def as_wanted(self) -> bool:
        """Return whether a defect was caught, or the project without one has passed."""
        return self.result == ("passed" if self.name == NONE.name else "caught")


def occurrences(defect: Defect, project: Path) -> int:
    """Return how often a defect's old text occurs in its file; a defect applies only if it occurs once."""
    file = project / defect.file
    return file.read_text(encoding="utf-8").count(defect.old) if file.exists() else 0


def apply(defect: Defect, project: Path) -> None:
    """Change a copy of the project; StaleError if that is impossible."""
    count = occurrences(defect, project)
    if count != 1:
        raise StaleError(f"{defect.name}: the old text is found {count} times in {defect.file}, not once")
    file = project / defect.file
    file.write_text(file.read_text(encoding="utf-8").replace(defect.old, defect.new), encoding="utf-8")


def in_order(defect: Defect, project: Path) -> tuple[str, ...]:
    """Return pytest's arguments for all tests, first those in the folder that mirrors the package of the changed file."""
    folder = Path("tests", *[part for part in Path(defect.file).parent.parts if not part.startswith("cosched_")])
    while not (project / folder).is_dir():
        folder = folder.parent
    # Otherwise pytest drops a folder within another one, and its place with it.
    return ("tests",) if folder == Path("tests") else ("--keep-duplicates", str(folder), "tests")


def attempt(defect: Defect, pytest_arguments: Sequence[str], deadline_s: float, project: Path) -> Outcome:
    """Run the tests on a copy of the project with a defect."""
    with tempfile.TemporaryDirectory(prefix="cosched-defect-") as folder:
        copy = Path(folder) / "project"
        shutil.copytree(project, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        apply(defect, copy)
        began_s = time.monotonic()
        log = Path(folder) / "log"
        code = _run_tests(copy, log, pytest_arguments or in_order(defect, copy), deadline_s)
        seconds = round(time.monotonic() - began_s, 1)
        printed = log.read_text(encoding="utf-8", errors="replace")
    failure = _FAILURE.search(printed)
    if code is None:
        result = "late"
    elif failure is not None:
        result = "caught"
    else:
        result = "passed" if code == 0 else "failed"
    test = failure[1] if failure is not None else printed.strip().rpartition("\n")[2] if result == "failed" else ""
    return Outcome(defect.name, defect.text, result, test, seconds)


def _run_tests(copy: Path, log: Path, pytest_arguments: Sequence[str], deadline_s: float) -> int | None:
    """Run pytest in a copy of the project; return its exit code, None after the deadline."""
    with log.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *PYTEST, *pytest_arguments],
            cwd=copy,
            env=environment(copy),  # with bytecode: some tests kill processes a moment after their start
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,  # so that its workers end with it
        )
        try:
            return process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(END_S)


def main(arguments: Sequence[str] | None = None, project: Path = PROJECT) -> int:
    """Try the requested defects; return 1 if one is not caught, 2 if one cannot be applied."""
    options = parse_options(arguments)
    wanted = [defect for defect in DEFECTS if not options.only or defect.name in options.only]
    if options.list:
        rows = [
            (each.name, each.file if occurrences(each, project) == 1 else "**stale**", each.text) for each in wanted
        ]
        print("\n".join(aligned_table(("defect", "file", "what is wrong"), rows, 3)))
        return 0
    stale = [defect.name for defect in wanted if occurrences(defect, project) != 1]
    if stale:
        print(f"defects: the old text is not found exactly once: {', '.join(stale)}", file=sys.stderr)
        return 2
    progress = Progress()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcomes: list[Outcome] = []
    try:
        for number, defect in enumerate([NONE, *wanted]):
            progress.bar(number, 1 + len(wanted), defect.name)
            outcomes.append(attempt(defect, options.pytest, options.deadline, project))
            progress.clear()
            print(
                f"{defect.name}: {outcomes[-1].result}, {outcomes[-1].seconds} s {outcomes[-1].test}".rstrip(),
                flush=True,
            )
            if not outcomes[0].as_wanted:
                print("defects: the tests fail without a defect", file=sys.stderr)
                break
    except KeyboardInterrupt:
        progress.clear()
        return 130
    finally:
        if options.json is not None:
            options.json.write_text(json.dumps([outcome._asdict() for outcome in outcomes], indent=2) + "\n")
    caught = sum([outcome.result == "caught" for outcome in outcomes])
    print(f"{caught} of {len(wanted)} defects caught")
    return 0 if all(outcome.as_wanted for outcome in outcomes) else 1


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line; SystemExit for invalid ones."""
    parser = argparse.ArgumentParser(
        prog="defects", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="NAME", action="append", choices=[defect.name for defect in DEFECTS])
    parser.add_argument("--list", action="store_true", help="list the defects, and run nothing")
    parser.add_argument(
        "--deadline", metavar="S", type=float, default=DEADLINE_S, help="for one run (default %(default)g)"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the outcomes there")
    parser.add_argument("pytest", metavar="PYTEST-ARGUMENT", nargs="*", help="for pytest, after --")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
