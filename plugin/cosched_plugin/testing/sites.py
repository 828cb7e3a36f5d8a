"""The site of a run of `cosched_plugin.testing.check`, as drawn."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from cosched_hwmodel.composite.composite_model import SCOPES, CompositeModel
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.composite.on_node import OVERLAPS
from cosched_hwmodel.lomarc import C_SCOPES, CPUS
from cosched_hwmodel.lomarc.lomarc_model import LomarcModel
from cosched_hwmodel.models.measured_pairs import MeasuredRatios
from cosched_hwmodel.statistical import StatisticalModel, draw_self_slowdown
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM
from cosched_hwmodel.usage import BOUNDS
from cosched_plugin.common.allocation import Machine
from cosched_plugin.protocol import messages as m
from cosched_plugin.testing.site import ALL_IT_SAYS, Site

# The draws of `cosched_plugin.testing.check`: machines, beliefs about them, and jobs.

# Few users and names, so that each has many jobs; the users' shares follow Zipf's law.
_USERS: Final = {"ann": 12, "ben": 6, "cleo": 4, "": 3}
_NAMES: Final = ("mesh", "fold", "")
_UNPAIRED: Final = 0.15
COMPOSITE: Final = "composite"


def draw_nodes(random: Random, *, threads_per_core: int) -> tuple[m.NodeClass, ...]:
    """Draw 1 to 12 nodes of one or two classes, of 1 to 8 cores."""
    nodes = random.randint(1, 12)
    counts = [nodes] if nodes == 1 or random.random() < 0.6 else [nodes - (few := random.randint(1, nodes // 2)), few]
    return tuple(
        m.NodeClass(
            nodes=count,
            sockets=random.choice((1, 1, 2)),
            cores_per_socket=random.choice((1, 2, 4)),
            threads_per_core=threads_per_core,
            memory_mb=random.choice((0, 16, 64)),
            memory_bandwidth_mbs=random.choice((0, 3000, 6000)),
            network_mbs=random.choice((0, 256)),
            disk_mbs=0,
        )
        for count in counts
    )


def draw_alike(random: Random) -> tuple[m.NodeClass, ...]:
    """Draw nodes with several cores, usually all alike, as policies that place by formulas may require."""
    nodes = random.randint(1, 8)
    counts = [nodes - 1, 1] if nodes > 1 and random.random() < 0.15 else [nodes]
    sockets, cores = random.choice(((2, 2), (2, 2), (2, 4), (1, 2), (1, 1)))
    return tuple(
        m.NodeClass(
            nodes=count,
            sockets=sockets,
            cores_per_socket=cores,
            threads_per_core=random.choice((1, 2)),
            memory_mb=random.choice((16, 64)),
            memory_bandwidth_mbs=0,
            network_mbs=0,
            disk_mbs=0,
        )
        for count in counts
    )


def with_swap(random: Random, nodes: tuple[m.NodeClass, ...]) -> tuple[m.NodeClass, ...]:
    """Draw the swap space on the nodes' disks: plenty, some, or none."""
    return tuple(item._replace(swap_mb=random.choice((1000, 1000, 20, 0))) for item in nodes)


def widened(nodes: tuple[m.NodeClass, ...], threads: int, *, one_core: bool) -> tuple[m.NodeClass, ...]:
    """Return few nodes with so many hardware threads each, all of one core or of many; a second class has half of them."""
    found = []
    for item, each in zip(nodes, (threads, threads // 2), strict=False):
        of_core = each if one_core else item.threads_per_core if each % item.threads_per_core == 0 else 1
        sockets = item.sockets if each // of_core % item.sockets == 0 else 1
        cores = each // of_core // sockets
        few = item._replace(nodes=min(item.nodes, 2), sockets=sockets)
        found.append(few._replace(cores_per_socket=cores, threads_per_core=of_core))
    return tuple(found)


def with_ppn(random: Random, machine: Machine, spec: m.JobSpec) -> m.JobSpec:
    """Draw how many processes of a job a wide node may hold, often all that it can."""
    threads = max(machine.threads_of)
    most = random.choice((0, threads, threads - 1, threads // 2, 3)) // spec.threads_per_process
    return spec._replace(ppn_max=max(most, spec.ppn_min) if most else 0)


def with_one_core(nodes: tuple[m.NodeClass, ...]) -> tuple[m.NodeClass, ...]:
    """Return such nodes with one core each: on these, slots share time."""
    return tuple(item._replace(sockets=1, cores_per_socket=1) for item in nodes)


# A manager that cannot do all that the protocol says, and jobs that ask for more than threads and memory.

_AMOUNTS: Final = ("bandwidth", "gpu")
_LICENCES: Final = ("solver", "mesher")
_LESS: Final = ("notes", "wakes", "revise", "groups")


def with_amounts(random: Random, nodes: tuple[m.NodeClass, ...]) -> tuple[m.NodeClass, ...]:
    """Draw what can be counted on each node."""
    return tuple(item._replace(resources=tuple((name, random.randint(1, 4)) for name in _AMOUNTS)) for item in nodes)


# What no two jobs may take of a node, each of one of these, as of two applications that are never together.
_SIDES: Final = ("left", "right")


def with_sides(random: Random, nodes: tuple[m.NodeClass, ...]) -> tuple[m.NodeClass, ...]:
    """Draw on which nodes jobs of two sides are never together, and of which side there is at most one job."""
    if random.random() < 0.4:
        return nodes
    sides = tuple((name, random.choice((1, 99, 99))) for name in _SIDES)
    return tuple(
        item._replace(resources=(*item.resources, *sides), apart=random.choice(((_SIDES,), (_SIDES,), ())))
        for item in nodes
    )


def with_devices(random: Random, nodes: tuple[m.NodeClass, ...]) -> tuple[m.NodeClass, ...]:
    """Draw whether nodes are devices of two hardware threads each, which jobs share all or none of."""
    if random.random() < 0.7:
        return nodes
    of_one = with_one_core(nodes)
    return tuple(item._replace(threads_per_core=2, same_nodes=random.random() < 0.8) for item in of_one)


def maybe_on_a_side(random: Random, machine: Machine, spec: m.JobSpec) -> m.JobSpec:
    """Draw whether a job is of one of the two sides, if the machine has them."""
    if _SIDES[0] not in machine.resources or random.random() < 0.4:
        return spec
    return spec._replace(resources=(*spec.resources, (random.choice(_SIDES), 1)))


def draw_licences(random: Random) -> m.Amounts:
    """Draw what can be counted in the cluster."""
    return tuple((name, random.randint(1, 5)) for name in _LICENCES)


def draw_capabilities(random: Random, tick_us: int) -> tuple[m.Capabilities, tuple[str, ...]]:
    """Draw what the manager can do, and which features it has."""
    lacking = random.choice((None, None, *_LESS))
    return m.Capabilities(
        limits_grow=random.random() < 0.5,
        limit_grain_us=random.choice((1, tick_us, 7 * tick_us)),
        limit_late_us=random.choice((0, 3 * tick_us)),
        layout=random.choice((m.ANY_LAYOUT, m.ANY_LAYOUT, m.FILLED)),
    ), tuple(feature for feature in m.FEATURES if feature != lacking)


def with_wishes(random: Random, machine: Machine, spec: m.JobSpec, tick_us: int) -> m.JobSpec:
    """Draw the nodes that a job may have, what it takes of what is counted, its priority, and whether a limit has held it back.

    A manager tells of a job only when no limit of its user forbids its start: then it was submitted before.
    """
    spec = spec._replace(priority=random.randint(-2, 2))
    if random.random() < 0.3:
        spec = spec._replace(submit_us=max(0, spec.submit_us - random.randint(1, 5) * tick_us))
    if random.random() < 0.3:
        firsts = sorted({random.randrange(machine.nodes) for _ in range(2)})
        spec = spec._replace(eligible=tuple((first, random.randint(1, machine.nodes - first)) for first in firsts))
    if random.random() < 0.3:
        spec = spec._replace(resources=((random.choice(_AMOUNTS), random.randint(1, 3)),))
    if random.random() < 0.3:
        spec = spec._replace(licences=((random.choice(_LICENCES), random.randint(1, 3)),))
    return spec


def draw_quantum(random: Random, tick_us: int) -> int:
    """Draw the length of a quantum, on a machine whose jobs run for 1 to 15 ticks."""
    return random.choice((tick_us // 2, tick_us, 3 * tick_us, tick_us + 1))


def maybe_unpaired(random: Random, spec: m.JobSpec) -> m.JobSpec:
    """Draw whether jobs of other slots may run on the job's nodes in the same quantum."""
    return spec._replace(unpaired=random.random() < _UNPAIRED)


def draw_belief(random: Random) -> m.Belief:
    """Draw the site's belief about contention on its nodes."""
    contention, resources = random.choice(
        (("none", ()), ("bandwidth", ("memory_bandwidth",)), ("bandwidth", ("memory_bandwidth", "network")))
    )
    return m.Belief(contention, "bulk-synchronous", resources)


def draw_believed(random: Random, names: Sequence[str]) -> m.Belief:
    """Draw the site's belief from these models, without parameters."""
    return m.Belief(random.choice(names), "bulk-synchronous", ())


def draw_pairs(random: Random) -> m.Belief:
    """Draw the site's belief about pairs of jobs."""
    model = LomarcModel(
        remainder=random.random() < 0.5,
        c_scope=random.choice(C_SCOPES),
        cpu=random.choice(CPUS),
        pair_seed=random.randint(0, 99),
        good_share_ppm=random.choice((330_000, 1_000_000)),
    )
    return m.Belief(model.name, "bulk-synchronous", (), model.parameters())


def draw_measured(random: Random) -> m.Belief:
    """Draw the site's belief about pairs of jobs whose slowdowns are measured."""
    shares = random.choice((StatisticalModel().shares, (40, 20, 20, 10, 10), (100,)))
    model = StatisticalModel(pair_seed=random.randint(0, 99), shares=shares)
    return m.Belief(model.name, "bulk-synchronous", (), model.parameters())


def draw_hardware(
    random: Random, nodes: tuple[m.NodeClass, ...], belief: m.Belief
) -> tuple[tuple[m.NodeClass, ...], m.Belief]:
    """Draw whether the site believes in measured hardware instead: a table of co-runs, or the composite model with its nodes."""
    kind = random.choice((None, None, "pairs", COMPOSITE))
    if kind is None:
        return nodes, belief
    return (nodes, draw_table(random)) if kind == "pairs" else (with_hardware(random, nodes), draw_composite(random))


def draw_table(random: Random) -> m.Belief:
    """Draw the site's belief in a table of measured co-runs, in which some pairs, and some jobs alone, were not measured."""
    names = tuple(name for name in _NAMES if name)
    ratios = tuple(random.choice((0.0, 0.95, 1.05, 1.2, 1.4, 1.9)) for _ in range(len(names) ** 2))
    spreads = tuple(random.choice((0.0, 0.8, 0.9, 1.0)) for _ in names)
    return m.Belief("pairs", "bulk-synchronous", (), MeasuredRatios(names, ratios, spreads).parameters())


def draw_composite(random: Random) -> m.Belief:
    """Draw the site's belief in the composite model."""
    model = CompositeModel(
        overlap=random.choice(OVERLAPS), memory_scope=random.choice(SCOPES), queueing_ppm=random.choice((0, 200_000))
    )
    return m.Belief(model.name, "bulk-synchronous", (), model.parameters())


def with_hardware(random: Random, nodes: tuple[m.NodeClass, ...]) -> tuple[m.NodeClass, ...]:
    """Draw issue slots and a cache shared by the cores of a socket, or nothing of both."""
    return tuple(
        item._replace(
            hardware=random.choice(
                (None, m.NodeHardware(WHOLE_PPM, WHOLE_PPM, (m.CacheLevel(3, 4096, item.cores_per_socket, 60, 0),)))
            )
        )
        for item in nodes
    )


def with_profile(random: Random, spec: m.JobSpec) -> m.JobSpec:
    """Draw what a process of a job asks of its node, possibly unknown."""
    if random.random() < 0.2:
        return spec
    slots, mbs = random.choice((200_000, 500_000, 900_000)), random.choice((0, 500, 2000))
    profile = Profile(
        integer_ppm=slots, floating_ppm=WHOLE_PPM - slots, working_set_kb=random.choice((0, 1024, 8192)), memory_mbs=mbs
    )
    return spec._replace(profile=profile._replace(accesses_ms=2000 if profile.working_set_kb else 0))


def with_owner(random: Random, spec: m.JobSpec) -> m.JobSpec:
    """Draw the job's user and name, to find policies that count without bound per user or per name."""
    (user,) = random.choices(list(_USERS), list(_USERS.values()))
    return spec._replace(user=user, name=random.choice(_NAMES))


def with_self_slowdown(random: Random, spec: m.JobSpec) -> m.JobSpec:
    """Draw a job's self slowdown, possibly unknown."""
    return (
        spec._replace(self_slowdown=draw_self_slowdown(random.randint(0, 99), spec.id))
        if random.random() < 0.8
        else spec
    )


def draw_usage(random: Random) -> m.UsageTuple:
    """Draw a job's use of its nodes: one resource for most of the time, the others for the rest."""
    bound = random.choice(BOUNDS)
    most = random.choice((500_000, 650_000, 900_000))
    other = random.randint(0, WHOLE_PPM - most)
    rest = iter((other, WHOLE_PPM - most - other))
    cpu, network, disk = (most if name == bound else next(rest) for name in BOUNDS)
    return bound, cpu, network, disk, random.choice((100_000, 300_000, 500_000, 900_000))


def draw_job(
    random: Random, machine: Machine, number: int, now_us: int, *, shaped: bool, tick_us: int = SECOND_US
) -> tuple[m.JobSpec, int]:
    """Draw a job and its true run time, of 1 to 15 ticks; a ``shaped`` one has constraints on its nodes."""
    # Whole ticks make many events simultaneous; an extra microsecond makes others almost simultaneous.
    run_us = random.randint(1, 15) * tick_us + random.choice((0, 0, 0, 1))
    estimate_us = random.choice((run_us, run_us, 2 * run_us, run_us + 3 * tick_us, max(1, run_us // 2)))
    limit_us = random.choice((None, None, estimate_us, estimate_us + tick_us))
    demand: m.DemandTuple | None = None
    if random.random() < 0.7:
        demand = (random.choice((0, 500, 1000, 2000)), random.choice((0, 0, 100)), 0)
    spec = m.JobSpec(
        id=number,
        submit_us=now_us,
        processes=random.choice((1, 2, random.randint(1, 8), random.randint(1, machine.threads))),
        estimate_us=estimate_us,
        limit_us=limit_us,
        demand=demand,
        usage=draw_usage(random) if random.random() < 0.8 else None,
    )
    if shaped:
        ppn_min = random.choice((1, 1, 2))
        spec = spec._replace(
            ppn_min=ppn_min,
            ppn_max=random.choice((0, 0, ppn_min, ppn_min + 1)),
            threads_per_process=random.choice((1, 1, 2)),
            memory_mb=random.choice((0, 0, 4, 10)),
            exclusive=random.random() < 0.3,
        )
    return spec, run_us


_TICKS_S: Final = (1, 10)  # the time scale of a run
_LONG_TICKS_S: Final = (30, 600)  # with these, jobs are worth matching: few end within a minute
_RESUME_S: Final = (0, 60)


def draw_site(
    random: Random,
    more: Random,
    models: Sequence[str],
    *,
    hardware: Random,
    measured: bool,
    sharing: Random | None,
    less: Random | None = None,
    sides: Random | None = None,
    devices: Random | None = None,
    lacks: bool = False,
    threads: int | None = None,
) -> tuple[Site, int]:
    """Return a site, and the time scale of its run in microseconds.

    ``more`` has draws that were added later, and ``hardware`` those about measured hardware. If ``measured``, slowdowns of pairs are;
    with ``sharing``, a source of further draws, the machine has slots; with ``models``, the site believes in one of these
    contention models; with ``less``, jobs ask for more than threads, and if it ``lacks`` something, the manager cannot do all; with
    ``sides``, some jobs may never be together; with ``devices``, nodes may be such; ``threads``: of the nodes, where not drawn.
    """
    pairs = False
    if measured:
        nodes, belief, ticks_s = draw_alike(random), draw_measured(random), _LONG_TICKS_S
    else:
        # Jobs may be co-located: two threads a core, and a model of pairs.
        pairs = random.random() < 0.5 or bool(models)
        nodes = draw_nodes(random, threads_per_core=2 if pairs else random.choice((1, 1, 2)))
        belief = draw_pairs(random) if pairs else draw_belief(random)
        ticks_s = _LONG_TICKS_S if pairs else _TICKS_S
    if models:
        belief = draw_believed(more, models)
    nodes, resume_us = with_swap(more, nodes), more.choice(_RESUME_S) * SECOND_US
    tick_us = random.choice(ticks_s) * SECOND_US
    if sharing is not None:
        nodes = with_one_core(nodes)
    if threads is not None:
        nodes = widened(nodes, threads, one_core=sharing is not None)
    if devices is not None:
        nodes = with_devices(devices, nodes)
    if (measured or pairs) and not models:
        nodes, belief = draw_hardware(hardware, nodes, belief)
    quantum_us = None if sharing is None else draw_quantum(sharing, tick_us)
    if less is None:
        return Site(nodes, belief, resume_us, quantum_us), tick_us
    can, features = draw_capabilities(less, tick_us) if lacks else (ALL_IT_SAYS, m.FEATURES)
    nodes = with_amounts(less, nodes)
    if sides is not None:
        nodes = with_sides(sides, nodes)
    return Site(nodes, belief, resume_us, quantum_us, draw_licences(less), can, features), tick_us
