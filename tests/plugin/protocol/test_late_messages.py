"""Lost, doubled, late and reordered messages, and killed schedulers: no session breaks, every batch is answered once."""

from __future__ import annotations

from random import Random

import pytest

from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.session import NOTHING, ManagerSession, SchedulerSession, State

NODE = m.NodeClass(1, 1, 4, 1, 1024, 0, 0, 0)
BATCHES = 12
MOST_STEPS = 20_000


class World:
    """Both sessions with their drivers, and between them a network that reorders messages."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.committed = 0
        self.manager = ManagerSession(self.inventory)
        self.peer = -1  # number of the scheduler that is served
        self.number = 0  # number of the current scheduler
        self.scheduler = SchedulerSession("0", "")
        self.serves = False  # the scheduler has been welcomed
        self.to_manager: list[tuple[int, m.Message]] = []  # (which scheduler, message)
        self.to_scheduler: list[tuple[int, m.Message]] = []

    def inventory(self) -> m.Welcome:
        belief = m.Belief("none", "bulk-synchronous", ())
        return m.Welcome(0, (), self.committed, self.committed, (NODE,), (), belief, (), (), (), ())

    def put(self, line: list[tuple[int, m.Message]], who: int, message: m.Message) -> None:
        if self.random.random() < 0.1:
            return
        line += [(who, message)] * (2 if self.random.random() < 0.3 else 1)

    def step(self) -> None:
        draw = self.random.random()
        if draw < 0.01:  # killed and started again; the lost connection is noticed
            self.number += 1
            self.scheduler = SchedulerSession(str(self.number), "")
            self.serves = False
            self.to_scheduler.clear()
            if self.manager.state is not State.START:
                self.manager.peer_lost()
        elif draw < 0.15 and not self.serves:
            self.put(self.to_manager, self.number, self.scheduler.hello())
        elif draw < 0.17 and self.serves:  # it says hello again for some reason
            self.serves = False
        elif draw < 0.25:
            for message in self.manager.resend():
                self.put(self.to_scheduler, self.peer, message)
        elif draw < 0.6:
            self.deliver_to_manager()
        else:
            self.deliver_to_scheduler()
        if self.manager.batch is None and self.committed < BATCHES:
            for message in self.manager.submit(self.committed + 1, self.committed + 1, ()):
                self.put(self.to_scheduler, self.peer, message)

    def taken(self, line: list[tuple[int, m.Message]]) -> tuple[int, m.Message] | None:
        return line.pop(self.random.randrange(len(line))) if line else None

    def deliver_to_manager(self) -> None:
        taken = self.taken(self.to_manager)
        if taken is None:
            return
        who, message = taken
        if who != self.peer and type(message) is not m.Hello:
            return
        received = self.manager.receive(message)
        if type(received.deliver) is m.Hello:
            self.peer = who
        for reply in received.send:
            self.put(self.to_scheduler, who, reply)
        if type(received.deliver) is m.Actions:
            assert received.deliver.actions == (m.WakeAt(received.deliver.seq),)
            assert received.deliver.seq == self.committed + 1
            self.committed += 1

    def deliver_to_scheduler(self) -> None:
        taken = self.taken(self.to_scheduler)
        if taken is None or taken[0] != self.number:
            return
        received = self.scheduler.receive(taken[1])
        replies = [*received.send]
        if type(received.deliver) is m.Welcome:
            self.serves = True
            replies.append(self.scheduler.ready())
        elif type(received.deliver) is m.Events:
            replies.append(self.scheduler.answer([m.WakeAt(received.deliver.seq)]))
        for reply in replies:
            self.put(self.to_manager, self.number, reply)


@pytest.mark.parametrize("seed", range(200))
def test_every_batch_is_answered_on_a_bad_network(seed: int) -> None:
    world = World(seed)
    for _ in range(MOST_STEPS):
        world.step()
        if world.committed == BATCHES:
            return
    raise AssertionError(f"{world.committed} batches of {BATCHES} after {MOST_STEPS} messages")


def test_a_repeated_hello_is_answered_once() -> None:
    conversation = World(0)
    hello = conversation.scheduler.hello()
    assert len(conversation.manager.receive(hello).send) == 1
    assert conversation.manager.receive(hello) == NOTHING
    assert len(conversation.manager.receive(conversation.scheduler.hello()).send) == 1
