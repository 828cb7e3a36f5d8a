"""Count what `SchedulerCore.handle` enters in a run: `python -P entered.py TREE ARGUMENT...` prints a line of JSON for each batch.

This file imports nothing of `scripts`, so that it runs in the packages of any commit; ``stations.py`` reads what it prints.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from types import FrameType
from typing import Any, Final

PACKAGES: Final = ("hwmodel", "plugin", "emulator")
STARTS: Final = ("StartJob", "StartTogether")


class Visits:
    """The files of the project that calls enter, and how often two calls that follow each other are in different folders."""

    def __init__(self, tree: str) -> None:
        self._roots = tuple([os.path.join(os.path.realpath(tree), package, "") for package in PACKAGES])
        self._names: dict[str, str] = {}  # of files by what their code objects say; empty: not one of the project's
        self.clear()

    def clear(self) -> None:
        """Begin a batch."""
        self.files: set[str] = set()
        self.switches = 0
        self._folder = ""

    def take(self, frame: FrameType, event: str, _: Any) -> None:
        """Take a call, as a profile function; a generator that goes on is a call, too."""
        if event != "call":
            return
        path = frame.f_code.co_filename
        name = self._names.get(path)
        if name is None:
            name = self._names[path] = self._name(path)
        if not name:
            return
        self.files.add(name)
        folder = name.rpartition("/")[0]
        if folder != self._folder:
            self.switches += bool(self._folder)
            self._folder = folder

    def _name(self, path: str) -> str:
        real = os.path.realpath(path)
        return next((real[len(root) :] for root in self._roots if real.startswith(root)), "")


def main() -> None:
    """Run the emulator's command line, and print the files and switches of each batch that is answered with a decision."""
    tree, *arguments = sys.argv[1:]
    from cosched_plugin.core.engine import SchedulerCore  # noqa: PLC0415  of the tree in question

    visits = Visits(tree)
    handle = SchedulerCore.handle
    batches: list[dict[str, Any]] = []

    def counted(core: SchedulerCore, *batch: Any) -> Any:
        visits.clear()
        sys.setprofile(visits.take)
        try:
            actions = handle(core, *batch)
        finally:
            sys.setprofile(None)
        if actions:
            starts = any(type(action).__name__ in STARTS for action in actions)
            batches.append({"files": sorted(visits.files), "switches": visits.switches, "starts": starts})
        return actions

    SchedulerCore.handle = counted  # type: ignore[assignment,method-assign]
    sys.argv[1:] = arguments
    with redirect_stdout(StringIO()), suppress(SystemExit):
        runpy.run_module("cosched_emulator", run_name="__main__", alter_sys=True)
    for batch in batches:
        print(json.dumps(batch))


if __name__ == "__main__":
    main()
