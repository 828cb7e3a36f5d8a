"""A driver in a process of its own that a test kills; the cluster is in the test's process, at the other end of a pipe.

Usage: python killed.py STORE POLICY, frames on standard input and output.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

from tests.plugin.site.cluster import MACHINE, core_of, settle

from cosched_plugin.protocol.messages import Action, StartJob
from cosched_plugin.protocol.scheduler import Scheduler
from cosched_plugin.site.driver import Driver, Outcome
from cosched_plugin.site.store import Store


def ask(*question: Any) -> Any:
    pickle.dump(question, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    return pickle.load(sys.stdin.buffer)


class Far:
    """The hands of a cluster at the other end of the pipe."""

    def carry_out(self, action: Action) -> Outcome:
        outcome: Outcome = ask("carry_out", action)
        return outcome

    def withdraw(self, start: StartJob) -> bool:
        held: bool = ask("withdraw", start)
        return held


def main() -> None:
    policy = sys.argv[2]
    driver = Driver(MACHINE, Store(sys.argv[1]), Far())
    driver.begin(*ask("look", None, ""))
    scheduler: Scheduler | None = None
    while True:
        scheduler = settle(driver, lambda welcome: core_of(policy, welcome), scheduler)
        now_us, look = ask("look", driver.due_us(), " ".join(driver.lost))
        if look is None:
            return
        driver.update(now_us, look)


if __name__ == "__main__":
    main()
