"""Figures by class: a worked example, and a slow reference."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from tests.emulator.results.samples import SECOND, TWO_NODES, UNEQUAL_NODES, record, records_on_unequal_nodes, stay
from tests.properties import drawn
from tests.runs import run_on

from cosched_emulator import simulate
from cosched_emulator.manager.record import JobRecord, OnDisk, Stay
from cosched_emulator.results.figures import classes
from cosched_emulator.results.figures.comparison import value_of
from cosched_emulator.results.figures.metrics import summarise
from cosched_emulator.results.figures.occupancy import Steps
from cosched_emulator.results.files.run_reader import read_run
from cosched_emulator.results.record_columns import int_array, stay_columns
from cosched_plugin.protocol.messages import CANCELLED, REJECTED, NodeClass

WHOLE_NODE = run_on(0, 1, 0b1111, 4)
# As many hardware threads as `UNEQUAL_NODES`, two to a core.
TWO_TO_A_CORE = (NodeClass(2, 1, 2, 2, 16384, 6000, 256, 100), NodeClass(1, 1, 1, 2, 8192, 6000, 256, 100))


def class_figures_of_folder(folder: Path, rules: classes.ClassRules) -> classes.ClassFigures:
    found = read_run(folder)
    return classes.class_figures_of_columns(found.jobs, found.stays, found.machine, rules)


def preempted(found: JobRecord, start_s: int, end_s: int, back: Stay) -> JobRecord:
    """Return a record with a time on disk, and a stay afterwards."""
    on_disk = OnDisk(start_s * SECOND, end_s * SECOND)
    stays = (*found.intervals, back._replace(resumed=True))
    return found._replace(intervals=stays, end_us=back.end_us, disk=(on_disk,))


def example() -> list[JobRecord]:
    """Return jobs on `TWO_NODES` whose estimates are twice their run times: two short, three medium, two long, one refused."""
    return [
        record(1, 0, stays=(stay(0, 20, run_on(1, 1, 0b0001, 1)),), work_s=20),
        record(2, 0, stays=(stay(30, 330, run_on(1, 1, 0b0001, 1)),), work_s=300),
        preempted(
            record(3, 0, stays=(stay(0, 400, WHOLE_NODE),), work_s=1000), 400, 1000, stay(1000, 1600, WHOLE_NODE)
        ),
        record(4, 100, stays=(stay(400, 900, WHOLE_NODE),), work_s=500),
        record(5, 200, CANCELLED, 800, run_s=5400),
        record(6, 300, stays=(stay(1600, 7600, run_on(0, 1, 0b0011, 2)),), work_s=6000),
        record(7, 500, stays=(stay(1600, 7600, run_on(0, 1, 0b1100, 2)),), work_s=7500),
        record(8, 600, REJECTED, 600, run_s=5401, reason="too large"),
    ]


def test_figures_of_the_worked_example() -> None:
    found = classes.class_figures(example(), TWO_NODES, classes.ClassRules(high_load=2))
    assert found.jobs == {
        # 20 / 60 and 330 / 300
        "short": classes.JobFigures(2, 2, 0.716667, 0.716667, 1.061667, 175.0),
        # 1600 / 1000 and 800 / 500; one was cancelled
        "medium": classes.JobFigures(3, 2, 1.6, 1.6, 1.6, 1200.0),
        # 7300 / 6000 and 7100 / 7500
        "long": classes.JobFigures(3, 2, 1.081667, 1.081667, 1.203167, 7200.0),
        "all": classes.JobFigures(8, 6, 1.132778, 1.158333, 1.6, 2858.333333),
    }
    # Jobs 4 and 5 wait from 200 s to 400 s; nodes 0 and 1 then have 4 cores in use, and one until 330 s.
    # Jobs 6 and 7 wait from 500 s to 1600 s; 4 cores until 900 s, and from 1000 s on.
    assert found.high_load == {
        "medium": classes.PhaseFigures(200.0, round((4 * 200 + 130) / (8 * 200), 6)),
        "long": classes.PhaseFigures(1100.0, round(4 * 1000 / (8 * 1100), 6)),
        "medium_or_long": classes.PhaseFigures(1300.0, round((4 * 1200 + 130) / (8 * 1300), 6)),
    }
    held = 20 + 300 + 4 * 1000 + 4 * 500 + 4 * 6000
    assert found.core_utilisation == round(held / (8 * 7600), 6)
    assert found.makespan_s == 7600
    # Submissions from 0 to 600 s. Waiting: job 2 until 30 s, 4 from 100 to 400 s, 5 from 200 s, 6 from 300 s, 7 from 500 s.
    assert found.queue_first_half == round((30 + 200 + 100) / 300, 6)
    assert found.queue_second_half == round((100 + 300 + 300 + 100) / 300, 6)
    values = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert values["jobs"]["medium"]["completed"] == 2
    assert values["high_load"]["long"] == {"length_s": 1100.0, "core_utilisation": 0.454545}


def test_the_order_of_the_records_does_not_matter() -> None:
    rules = classes.ClassRules(high_load=2)
    assert classes.class_figures(example()[::-1], TWO_NODES, rules) == classes.class_figures(
        example(), TWO_NODES, rules
    )


def test_bounds_belong_to_the_smaller_class() -> None:
    records = [record(number, 0, run_s=run_s, end_s=0) for number, run_s in enumerate((300, 300.5, 5400, 5400.5), 1)]
    figures = classes.class_figures(records, TWO_NODES).jobs
    assert [figures[name].jobs for name in ("short", "medium", "long", "all")] == [1, 2, 1, 4]
    other = classes.class_figures(records, TWO_NODES, classes.ClassRules(short_s=601, medium_s=10_801)).jobs
    assert [other[name].jobs for name in ("short", "medium", "long", "all")] == [2, 2, 0, 4]


@pytest.mark.parametrize(("policy", "suspends"), [("glts", True), ("easy", False)])
def test_a_run_folder_has_the_figures_of_its_run(policy: str, suspends: bool, tmp_path: Path) -> None:
    scenario = {
        "cluster": {"nodes": 16, "preset": "g-lomarc-2x2"},
        "workload": {"lublin": 150, "self_slowdowns": "table4", "grow": True},
        "truth": {"contention": "statistical"},
    }
    finished = simulate(scenario, policy)
    assert any(item.disk for item in finished.records) == suspends
    out = finished.write(tmp_path / policy)
    for rules in (classes.PAPER_RULES, classes.ClassRules(short_s=60, medium_s=3600, bound_s=600, high_load=2)):
        figures = classes.class_figures(finished.records, finished.machine, rules)
        assert class_figures_of_folder(out, rules) == figures
        assert None not in figures
        assert all(found.completed for found in figures.jobs.values())
    assert all(found.core_utilisation for found in figures.high_load.values())  # with the last rules


def test_every_figure_is_in_one_row_of_the_tables() -> None:
    values = classes.class_figures(example(), TWO_NODES, classes.ClassRules(high_load=2)).as_dict()
    rows = [figure for table in classes.class_tables(classes.PAPER_RULES).values() for figure in table]
    leaves = [
        (key, *more)
        for key, found in values.items()
        for more in ([(name, part) for name in found for part in found[name]] if isinstance(found, dict) else [()])
    ]
    assert sorted(figure.path for figure in rows) == sorted(leaves)
    assert all(value_of(values, figure, "") is not None for figure in rows)


def test_figures_without_values_are_none() -> None:
    nothing = classes.class_figures([], TWO_NODES)
    assert nothing.jobs["all"] == classes.JobFigures(0, 0, None, None, None, None)
    assert set(nothing.high_load.values()) == {classes.PhaseFigures(0.0, None)}
    assert nothing[2:] == (None, None, None, None)
    single = classes.class_figures(example()[:1], TWO_NODES)
    assert (single.queue_first_half, single.queue_second_half, single.core_utilisation) == (None, None, 0.125)
    assert single.high_load["long"] == classes.PhaseFigures(0.0, None)


@pytest.mark.parametrize(
    "rules",
    [
        classes.ClassRules(short_s=2, medium_s=1),
        classes.ClassRules(bound_s=0),
        classes.ClassRules(high_load=0),
        classes.ClassRules(short_s=-1),
    ],
)
def test_impossible_rules_are_refused(rules: classes.ClassRules) -> None:
    with pytest.raises(ValueError, match="expected bounds of classes in order"):
        classes.class_figures([], TWO_NODES, rules)


def test_open_phases_end_with_the_run() -> None:
    steps = Steps(int_array([0, 10, 20, 30]), int_array([2, 3, 1, 5]))
    assert classes.phases_of(steps, 2, 40) == [(0, 20), (30, 40)]
    assert classes.phases_of(steps, 4, 40) == [(30, 40)]
    assert classes.phases_of(steps, 6, 40) == []
    assert classes.union([(0, 20), (30, 40)], [(5, 10), (20, 25), (50, 60)]) == [(0, 25), (30, 40), (50, 60)]


def test_a_core_with_two_jobs_is_used_once() -> None:
    def used(*masks: int) -> list[int]:
        records = [
            record(number, 0, stays=(stay(0, 10, run_on(0, 1, mask, 1)),)) for number, mask in enumerate(masks, 1)
        ]
        return list(classes.cores_used(stay_columns(records), TWO_TO_A_CORE).values)

    assert used(0b0001, 0b0100) == [1, 0]  # the two threads of the first core
    assert used(0b0001, 0b0010) == [2, 0]
    assert used(0b1111) == [2, 0]


@pytest.mark.parametrize("machine", [UNEQUAL_NODES, TWO_TO_A_CORE])
@drawn(records_on_unequal_nodes(), few=20, many=60)
def test_figures_agree_with_a_slow_reference(machine: Sequence[NodeClass], records: list[JobRecord]) -> None:
    rules = classes.ClassRules(short_s=20, medium_s=60, high_load=2)
    found = classes.class_figures(records, machine, rules)
    cores_of = [item.sockets * item.cores_per_socket for item in machine for _ in range(item.nodes)]
    times = sorted(
        {item.job.spec.submit_us for item in records}
        | {item.end_us for item in records if item.end_us is not None}
        | {edge for item in records for time in item.disk for edge in (time.start_us, time.end_us) if edge is not None}
        | {edge for item in records for held in item.intervals for edge in (held.start_us, held.end_us)}
    )
    last_us = round(
        ((found.makespan_s or 0) + min((item.job.spec.submit_us for item in records), default=0) / SECOND) * SECOND
    )
    lengths = {"medium": 0, "long": 0, "medium_or_long": 0}
    held_us = dict.fromkeys((*lengths, "all"), 0)
    for now_us, next_us in pairwise(times):
        if now_us >= last_us:
            continue
        cores = {
            (node, thread % cores_of[node])
            for item in records
            for held in item.intervals
            if held.start_us <= now_us < held.end_us
            for first, count, mask, _ in held.runs
            for node in range(first, first + count)
            for thread in range(4)
            if mask >> thread & 1
        }
        waiting = [
            item.job.spec.estimate_us
            for item in records
            if item.job.spec.submit_us <= now_us
            and (item.end_us is None or item.end_us > now_us)
            and not any(held.start_us <= now_us < held.end_us for held in item.intervals)
            and not any(time.start_us <= now_us and (time.end_us is None or now_us < time.end_us) for time in item.disk)
        ]
        medium = sum(20 * SECOND < estimate <= 60 * SECOND for estimate in waiting) >= 2
        long = sum(estimate > 60 * SECOND for estimate in waiting) >= 2
        for name, high in (("medium", medium), ("long", long), ("medium_or_long", medium or long)):
            lengths[name] += high * (next_us - now_us)
            held_us[name] += high * (next_us - now_us) * len(cores)
        held_us["all"] += (next_us - now_us) * len(cores)
    for name, length_us in lengths.items():
        assert found.high_load[name].length_s == round(length_us / SECOND, 6)
        expected = round(held_us[name] / (sum(cores_of) * length_us), 6) if length_us else None
        assert found.high_load[name].core_utilisation == expected
    if found.core_utilisation is not None:
        assert found.makespan_s
        assert found.core_utilisation == pytest.approx(
            held_us["all"] / SECOND / sum(cores_of) / found.makespan_s, abs=2e-6
        )
    assert found.makespan_s == summarise(records, machine)["machine"]["makespan_s"]
    for figures in found.jobs.values():
        assert figures.completed <= figures.jobs
