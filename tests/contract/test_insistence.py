"""A scheduler that insists on what is refused: a live manager dismisses it with the reason, and does not spin."""

from __future__ import annotations

import time

from tests.commands import Commands
from tests.contract.test_frozen_peers import Scheduler, User, live_manager, scheduler_endpoint
from tests.runs import runs_on

from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode
from cosched_plugin.protocol.limits import MAX_ROUNDS

MOST_S = 30.0


def test_a_live_manager_dismisses_a_scheduler_that_insists(commands: Commands) -> None:
    live_manager(commands)
    with User(commands) as user, Scheduler(scheduler_endpoint(commands)) as scheduler:
        job_id = user.submit(2, 100)
        impossible = m.StartJob(job_id, runs_on((99, 1, 3, 2)), 100, None)
        scheduler.ready()
        began_s = time.monotonic()
        rounds = 0
        while True:
            scheduler.dealer.rcvtimeo = round(MOST_S * 1000)
            message = decoded(scheduler)
            if isinstance(message, m.ErrorReport):
                break
            if isinstance(message, m.Events):
                rounds += 1
                assert rounds <= MAX_ROUNDS + 2
                scheduler.say(m.Actions(message.seq, message.now_us, (impossible,), message.greeting))
        assert message.code == "rounds"
        assert "node" in message.text
        assert time.monotonic() - began_s < MOST_S
        assert user.state(job_id) == "PENDING"
        scheduler.say(m.Hello((1,), m.FEATURES, "another", "easy", False, 1))
        assert scheduler.hear(m.Welcome).pending[0].spec.id == job_id


def decoded(scheduler: Scheduler) -> m.Message:
    """Return the scheduler's next message."""
    return decode(scheduler.dealer.recv_multipart())
