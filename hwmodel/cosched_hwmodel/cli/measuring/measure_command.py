"""The command ``measure``."""
# Under 60 lines: an entry point, loaded when the command runs.

from __future__ import annotations

import json

from cosched_hwmodel.cli.measuring.kernels import COMPILERS
from cosched_hwmodel.cli.measuring.measure import Options, measure
from cosched_hwmodel.cli.measuring.report import measurement_values, report_lines, write_files
from cosched_hwmodel.cli.output import check_new
from cosched_terminal.console import progress_bar, say


def run_measure(
    *, out: str | None, force: bool, seconds: float, disk: str | None, name: str, use_numpy: bool, as_json: bool
) -> None:
    """Measure this machine, write the files and print the report."""
    if out is not None:
        check_new(out, force)
    options = Options(seconds=seconds, disk=disk, name=name, compilers=() if use_numpy else COMPILERS)
    with progress_bar(1, "measurements") as bar:
        found = measure(options, bar)
    files = [] if out is None else write_files(found, out)
    if as_json:
        say(json.dumps({**measurement_values(found), "files": files}, indent=2))
        return
    for line in report_lines(found):
        say(line)
    for file in files:
        say(f"written: {file}", err=True)
