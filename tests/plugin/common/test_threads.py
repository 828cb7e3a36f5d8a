"""Sets of threads of deep nodes, as one integer, against the same sets layer by layer."""

from random import Random

import pytest
from tests.runs import layers_on, run_on

from cosched_hwmodel.units import NodeSet, ThreadMask
from cosched_plugin.common import threads
from cosched_plugin.core.first_fit import thread_counts
from cosched_plugin.protocol.messages import Run


def drawn(random: Random, nodes: int, depth: int) -> tuple[NodeSet, ...]:
    """A set of threads of which many layers are alike, as where jobs take whole cores or nodes."""
    few = [random.getrandbits(nodes) for _ in range(3)] + [0, (1 << nodes) - 1]
    return tuple([NodeSet(random.choice(few)) for _ in range(depth)])


@pytest.mark.parametrize("nodes", [1, 5, 8, 61, 64])
def test_one_integer_is_the_set_that_its_layers_are(nodes: int) -> None:
    random = Random(f"sets {nodes}")
    for _ in range(100):
        depth = random.randint(threads.DEEP, 40)
        a, b = drawn(random, nodes, depth), drawn(random, nodes, depth)
        one, other = threads.kept(a, nodes), threads.kept(b, nodes)
        assert isinstance(one, threads.Joined)
        assert (one == a, tuple(one), one[depth - 1], len(one), one == threads.apart(threads.side_by_side(a, nodes), nodes, depth)) == (
            True, a, a[-1], depth, True,
        )  # fmt: skip
        some = NodeSet(random.getrandbits(nodes))
        for beside in (other, b):  # also layers that a policy has made
            assert (threads.union(one, beside), threads.minus(one, beside), threads.common(one, beside)) == (
                threads.union(a, b), threads.minus(a, b), threads.common(a, b),
            )  # fmt: skip
            assert threads.busy_refusal(one, beside) == threads.busy_refusal(a, b)
            assert threads.share_nodes(one, beside) == threads.share_nodes(a, b)
        assert (threads.on_nodes(one, some), threads.none_of(one), threads.size(one), threads.any_layer(one)) == (
            threads.on_nodes(a, some), threads.none_of(a), threads.size(a), threads.any_layer(a),
        )  # fmt: skip
        assert threads.is_empty(threads.minus(one, one))
        assert threads.is_empty(one) == threads.is_empty(a)
        mask = ThreadMask(random.getrandbits(depth) | 1)
        assert threads.with_all(threads.union(one, other), mask) == threads.with_all(threads.union(a, b), mask)
        node = random.randrange(nodes)
        assert threads.thread_mask(one, node) == threads.thread_mask(a, node)
        assert thread_counts(one, nodes).tolist() == thread_counts(a, nodes).tolist()


def test_jobs_that_come_and_go_leave_the_counts_of_the_set() -> None:
    """What is known of a set is carried on to the set with a job more or less."""
    random = Random("changes")
    nodes, depth = 37, 24
    free: threads.Layers = threads.apart((1 << nodes * depth) - 1, nodes, depth)
    jobs: list[tuple[tuple[Run, ...], threads.Layers]] = []
    for _ in range(300):
        assert isinstance(free, threads.Joined)
        if jobs and random.random() < 0.4:
            runs, theirs = jobs.pop(random.randrange(len(jobs)))
            free = free.changed(theirs, runs, 1)
        else:
            first = random.randrange(nodes)
            runs = (run_on(first, random.randint(1, nodes - first), random.choice([0xFFFFFF, 0xF0F, 1, 0x800000]), 1),)
            theirs = threads.layers_of(runs, depth, nodes)
            assert theirs == threads.layers_of(runs, depth)
            if threads.busy_refusal(theirs, free) is not None:
                continue
            jobs.append((runs, theirs))
            free = free.changed(theirs, runs, -1)
        again = threads.kept(tuple(free), nodes)
        assert (threads.size(free), thread_counts(free, nodes).tolist()) == (
            threads.size(again),
            thread_counts(again, nodes).tolist(),
        )
    assert jobs


def test_layers_of_few_threads_stay_layers() -> None:
    assert threads.kept([1, 2], 3) == layers_on(1, 2)
    assert not isinstance(threads.kept([1] * (threads.DEEP - 1), 3), threads.Joined)


def test_sets_of_nodes_are_ranges() -> None:
    assert threads.ranges_in(0b1011_0110) == ((1, 2), (4, 2), (7, 1))
    assert threads.ranges_in(0) == ()
