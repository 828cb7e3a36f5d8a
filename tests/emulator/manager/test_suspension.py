"""Running jobs that are suspended, resumed and revised: ends, kills and records."""

from __future__ import annotations

import pytest
from tests.emulator.parts import at_times, job, manager, play, start

from cosched_emulator.manager.record import JobRecord
from cosched_plugin.protocol import messages as m

# Both must work with and without a model of contention.
both = pytest.mark.parametrize("contention", [False, True])


def ended(record: JobRecord) -> tuple[str, int | None, int]:
    return record.state, record.end_us, record.work_us


@both
def test_a_job_that_ends_at_this_instant_cannot_be_suspended(contention: bool) -> None:
    player, _, records = play(
        at_times(at_0=[start(1)], at_100=[m.SuspendJob(1), m.ReviseJob(1, 5, None)]),
        [job(1)],
        on=manager(contention=contention),
    )
    assert ended(records[1]) == (m.COMPLETED, 100, 100)
    refused = [event for event in player.batches[-1][2] if isinstance(event, m.ActionRefused)]
    assert [event.reason for event in refused] == ["job 1 does not run"] * 2
    assert [event.job_ids for event in refused] == [(), ()]
