"""Digests of schedules and of all their messages: an optimisation must not change them.

``python -m tests.contract.golden PRESET...`` writes those of new presets. Without names it rewrites all; do that only after a change
of a rule, and name the rule in the commit. It counts for each preset how often its schedules have changed; `cells.CHANGED` has to
follow, so that stored runs of these presets are repeated.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.contract.cases import BUSY, cases, scenario_of
from tests.contract.links import DigestLink, ShadowLink

from cosched_emulator import prepare
from cosched_emulator.couplings.link import DirectLink, LoopbackLink
from cosched_emulator.run.run import run, store
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol.messages import Welcome

GOLDEN = Path(__file__).with_name("golden.json")
FILES = ("jobs.csv", "allocations.csv", "preemptions.csv")  # the others describe the workload, or derive from these


class Proof(NamedTuple):
    """The results of a run that has passed every check of its links."""

    digests: dict[str, str]
    kinds: Counter[str]  # of events and actions
    trace: list[dict[str, Any]]  # the decision trace of its scheduler
    batches: int


def prove(preset: str, scenario: str, *, traced: bool = False) -> Proof:
    """Run a case; return its results.

    A busy case calls its scheduler directly. The others use both sessions and the codec, and compare restarted schedulers.
    """
    told: list[dict[str, Any]] = []
    choice = choose(preset)

    def factory(welcome: Welcome) -> SchedulerCore:
        return choice.scheduler(welcome, told.append) if traced else choice.scheduler(welcome)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        busy = scenario in BUSY
        link = DigestLink(DirectLink(factory) if busy else ShadowLink(LoopbackLink(factory), choice.scheduler))
        finished = run(prepare(scenario_of(scenario, folder)), link)
        assert link.batches == finished.batches > 60
        assert finished.refused == 0
        store(
            finished, str(folder / "run"), policy={"name": preset}, link="direct" if busy else "loopback", force=False
        )
        files = hashlib.sha256()
        for file in sorted((folder / "run").iterdir()):
            if file.name in FILES:
                files.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return Proof({"files": files.hexdigest()[:24], "messages": link.digest()}, link.kinds, told, link.batches)


def main(only: Sequence[str]) -> None:
    """Write the digests of this tree; of ``only`` these presets, if any are named."""
    golden = json.loads(GOLDEN.read_text())
    known, changed = golden["digests"], golden["changed"]
    found = {
        f"{preset} {scenario}": known[f"{preset} {scenario}"]
        if only and preset not in only
        else prove(preset, scenario).digests
        for preset, scenario in cases()
    }
    for preset in sorted(
        {case.split()[0] for case in found if known.get(case, found[case])["files"] != found[case]["files"]}
    ):
        changed[preset] = changed.get(preset, 0) + 1
    GOLDEN.write_text(json.dumps({"changed": dict(sorted(changed.items())), "digests": found}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
