"""Tables of measured co-runs: the two forms of a file, and the table as a model of pairs and of a node's jobs."""

from __future__ import annotations

from math import inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.hwmodel.co_runs import Job, published
from tests.properties import drawn

from cosched_hwmodel.contention import Load
from cosched_hwmodel.errors import ContentionError, UnknownNameError
from cosched_hwmodel.lomarc.lomarc_matrix import UsageColumns
from cosched_hwmodel.measured.calibration import calibrate, completed
from cosched_hwmodel.measured.co_run_table import CoRunTable, TableError, read_table
from cosched_hwmodel.models.by_name import make_pairs
from cosched_hwmodel.models.measured_pairs import MeasuredPairs, MeasuredRatios, PairsParameterError
from cosched_hwmodel.pairs import PairContention
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import ThreadMask
from cosched_hwmodel.usage import UNKNOWN_USAGE

NODE = NodeShape("", 2, 4, 1024)
HALF, OTHER, ALL = 0x0F, 0xF0, 0xFF
TABLE = CoRunTable(
    ("a", "b", "c"),
    {("a", "a"): 1.0, ("a", "b"): 0.8, ("b", "a"): 1.5, ("b", "b"): 1.2, ("c", "a"): 0.7},
    spreads={"b": 0.9},
)
A, B, C, STRANGER = Job(1, "a"), Job(2, "b"), Job(3, "c"), Job(4, "x")
MODEL = MeasuredPairs(MeasuredRatios.of_table(TABLE))


def load(job: Job, mask: int) -> Load:
    return Load(job.id, mask.bit_count(), ThreadMask(mask), (0, 0, 0))


def penalties(*loads: Load) -> list[float]:
    jobs = {job.id: job for job in (A, B, C, STRANGER)}
    return PairContention(MODEL, jobs).penalties(NODE, loads)


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "table.csv"
    file.write_text(text)
    return file


# ---------------------------------------------------------------- files


def test_the_two_forms_say_the_same(tmp_path: Path) -> None:
    long = "# a comment\nrow,column,ratio,procs,compact_s,spread\na,a,1.25,4,30.5,\na,b,.5,,,.4\n\nb,a,2,8,,\n"
    matrix = "who,procs,compact_s,spread,a,b\n# a comment\na,4,30.5,0.4,1.25,0.5\nb,8,,,2,\n"
    expected = CoRunTable(
        ("a", "b"), {("a", "a"): 1.25, ("a", "b"): 0.5, ("b", "a"): 2.0}, {"a": 0.4}, {"a": 4, "b": 8}, {"a": 30.5}
    )
    assert read_table(written(tmp_path, long)) == expected
    assert read_table(written(tmp_path, matrix)) == expected


def test_speedups_are_inverted_and_partners_without_a_row_come_last(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "row,column,speedup\nz,y,1.25\nb,z,0.5\n"))
    assert table == CoRunTable(("z", "b", "y"), {("z", "y"): 0.8, ("b", "z"): 2.0})


def test_the_published_tables_are_read_as_they_are() -> None:
    aris, marconi = published("aris-nas-pairs.csv"), published("marconi-nas-speedups.csv")
    assert (len(aris.applications), len(aris.ratios), len(marconi.applications), len(marconi.ratios)) == (
        33,
        809,
        8,
        64,
    )
    assert (aris.ratios["cg.E.512", "sp.D.121"], aris.processes["sp.E.2025"], aris.compact_s["sp.E.2025"]) == (
        1.4304,
        2025,
        222.67,
    )
    assert marconi.ratios["ft.E", "cg.D"] == 1 / 1.47
    assert round(float(np.mean([1 / ratio for ratio in marconi.ratios.values()])), 2) == 1.12  # as printed


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", ": expected a header and a line for each measurement, got nothing"),
        ("row,column,ratio\n", ": expected at least one measured pair, got none"),
        ("row;column;ratio\na;b;1\n", ":1: expected cells with commas between them, got 'row;column;ratio'"),
        ("row,column,ratio,low,high\na,b,1,2,1.5\n", ":2: field 'high': expected the upper end of an interval from 2 on, got '1.5'"),
        ("row,column\na,b\n", ":1: expected one of the columns 'ratio' and 'speedup', got row, column"),
        ("row,column,ratio,speedup\n", ":1: expected one of the columns 'ratio' and 'speedup', got "),
        ("row,ratio\na,1\n", ":1: expected a column 'column' beside 'row', got row, ratio"),
        ("row,column,ratio,proc\n", ":1: expected a known column (did you mean \"procs\"?), got 'proc'"),
        ("row,column,ratio,row\n", ":1: expected each column once, got 'row' again"),
        ("a,,b\n", ":1: expected a name for every column, got none for column 2"),
        ("row,column,ratio\na,b,1\nb,a\n", ":3: expected 3 cells, as in the header, got 2"),
        ("row,column,ratio\na,b,fast\n", ":2: field 'ratio': expected a number from 0.01 to 1000, or never, got 'fast'"),
        ("row,column,ratio\na,b,nan\n", ":2: field 'ratio': expected a number from 0.01 to 1000, or never, got 'nan'"),
        ("row,column,speedup\na,b,500\n", ":2: field 'speedup': expected a speedup of at most 100, got '500'"),
        ("row,column,ratio\na,,1\n", ":2: field 'column': expected the name of an application, got nothing"),
        (
            "row,column,ratio\na,b,1\n#\na,b,2\n",
            ":4: field 'ratio': expected each pair once: a beside b stands in line 2, got '2'",
        ),
        ("row,column,ratio,procs\na,b,1,4\na,c,2,5\n", ":3: field 'procs': expected 4 for a, as before, got '5'"),
        ("who,procs,a\na,1.5,1\n", ":2: field 'procs': expected a whole number of processes from 1 on, got '1.5'"),
        ("who,compact_s,a\na,0,1\n", ":2: field 'compact_s': expected a number of seconds from 0.000001 to 1e9, got '0'"),
        ("who,spread,a\na,0,1\n", ":2: field 'spread': expected a number from 0.01 to 1000, got '0'"),
        ("who,a\na,1\na,2\n", ":3: field 'who': expected each application once, got 'a'"),
        ("who,a\na,-1\n", ":2: field 'a': expected a number from 0.01 to 1000, or never, got '-1'"),
    ],
)  # fmt: skip
def test_invalid_tables_are_refused(text: str, error: str, tmp_path: Path) -> None:
    file = written(tmp_path, text)
    with pytest.raises(TableError) as raised:
        read_table(file)
    assert str(raised.value).startswith(f"{file}{error}")


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"none\.csv: expected a readable table of co-runs, got No such file"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"row,\xff\n")
    with pytest.raises(TableError, match="expected text in UTF-8"):
        read_table(tmp_path / "bytes.csv")


# ---------------------------------------------------------------- pairs


def test_slowdowns_are_relative_to_the_spread() -> None:
    assert [MODEL.spread(job) for job in (A, B, C, STRANGER)] == [0.8, 0.9, 0.7, None]
    assert (MODEL.slowdown(A, A), MODEL.slowdown(A, B), MODEL.slowdown(B, A)) == (1 / 0.8, 1.0, 1.5 / 0.9)
    assert MODEL.both(A, B) == 1.5 / 0.9
    assert (MODEL.slowdown(B, C), MODEL.slowdown(C, C), MODEL.slowdown(A, STRANGER)) == (inf, inf, inf)
    assert [MODEL.knows(job) for job in (A, C, STRANGER)] == [True, True, False]


def test_a_partner_speeds_nothing_up() -> None:
    """A ratio below the measured spread counts as the spread."""
    model = MeasuredPairs(MeasuredRatios(("a",), (0.8,), (0.9,)))
    assert (model.spread(A), model.slowdown(A, A)) == (0.9, 1.0)


def test_many_pairs_at_once() -> None:
    jobs = [A, B, C, STRANGER]

    class Columns:
        usage = UsageColumns([job.id for job in jobs], [UNKNOWN_USAGE] * len(jobs))

        def __init__(self) -> None:
            self.jobs = jobs

    for job in jobs:
        beside = MODEL.beside(job, Columns())
        assert beside.slowdowns.tolist() == [MODEL.both(job, other) for other in jobs]
        assert not beside.compete.any()


def test_parameters_return_the_same_model() -> None:
    parameters = MODEL.table.parameters()
    again = make_pairs("pairs", [(name, list(value)) for name, value in parameters])
    assert isinstance(again, MeasuredPairs)
    assert again.table == MODEL.table
    assert not MeasuredPairs.from_parameters(()).knows(A)  # a table of nothing


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"applications": ("a", "a")}, "applications: expected at most 300 different names, not 2"),
        ({"applications": ("a", 3)}, "applications: expected a tuple of names, not ('a', 3)"),
        ({"applications": ("a",)}, "ratios: expected 1 numbers from 0.01 to 1000, or 0 where unknown, not 0"),
        ({"applications": ("a",), "ratios": (-1.0,)}, "or 0 where unknown, not -1.0"),
        ({"applications": ("a",), "ratios": (1.0,), "spreads": (True,)}, "spreads: expected 1 numbers"),
    ],
)
def test_invalid_parameters_are_refused(parameters: dict[str, object], text: str) -> None:
    with pytest.raises(PairsParameterError) as raised:
        MeasuredPairs.from_parameters(parameters.items())
    assert text in str(raised.value)
    with pytest.raises(UnknownNameError):
        MeasuredPairs.from_parameters([("ratio", ())])


# ---------------------------------------------------------------- nodes


def test_two_jobs_take_what_was_measured() -> None:
    assert penalties(load(A, HALF), load(B, OTHER)) == pytest.approx([0.8 - 1, 1.5 - 1], rel=1e-14)


def test_a_lone_job_is_spread_or_compact() -> None:
    assert penalties(load(A, HALF)) == pytest.approx([0.8 - 1])
    assert penalties(load(A, 0x1F)) == [0.0]  # on more than half of the node
    assert penalties(load(STRANGER, HALF), load(A, OTHER)) == pytest.approx([0.0, 0.8 - 1])


def test_further_neighbours_add_what_each_costs() -> None:
    """A quarter of the node costs half of what a half costs."""
    alone, half, quarter = (
        penalties(load(B, HALF))[0],
        penalties(load(B, HALF), load(A, OTHER))[0],
        penalties(load(B, HALF), load(A, 0x30))[0],
    )
    assert quarter == pytest.approx((alone + half) / 2)
    four = penalties(load(B, 0x03), load(A, 0x0C), load(STRANGER, 0x30), load(A._replace(id=1), 0xC0))
    assert four[0] == pytest.approx(half)  # two quarters are a half


def test_a_pair_without_a_ratio_is_no_truth() -> None:
    with pytest.raises(ContentionError, match="slowdown of job 2 beside job 3: expected a finite number"):
        penalties(load(B, HALF), load(C, OTHER))


@drawn(
    st.lists(st.floats(0.01, 1000), min_size=16, max_size=16),
    st.lists(st.tuples(st.sampled_from("abcd?"), st.integers(1, 255)), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
    few=30,
    many=500,
)
def test_penalties_of_random_tables(ratios: list[float], placed: list[tuple[str, int]], order: object) -> None:
    """No job reaches infinite speed, and the order of the jobs on a node has no effect."""
    model = MeasuredPairs(MeasuredRatios(tuple("abcd"), tuple(ratios)))
    jobs = {number: Job(number, name) for number, (name, _) in enumerate(placed, 1)}
    loads = [load(jobs[number], mask) for number, (_, mask) in enumerate(placed, 1)]
    truth = PairContention(model, jobs)
    found = dict(zip(loads, truth.penalties(NODE, loads), strict=True))
    order.shuffle(loads)  # type: ignore[attr-defined] # a Random
    assert dict(zip(loads, truth.penalties(NODE, loads), strict=True)) == found
    assert all(penalty > -1 for penalty in found.values())
    for first in loads[1:]:  # another neighbour never speeds a job up
        fewer = [each for each in loads if each is not first]
        for each, penalty in zip(fewer, truth.penalties(NODE, fewer), strict=True):
            assert penalty <= found[each]


# ---------------------------------------------------------------- pairs that cannot be together


@pytest.mark.parametrize(
    "text",
    [
        "row,column,ratio\na,a,1.5\na,b,never\nb,b,2\n",
        "row,column,speedup\na,a,.666666666666666666\na,b,Never\nb,b,.5\n",
        "who,a,b\na,1.5,never\nb,,2\n",
    ],
    ids=["ratios", "speedups", "matrix"],
)
def test_never_is_a_fact_and_an_empty_cell_a_gap(text: str, tmp_path: Path) -> None:
    table = read_table(written(tmp_path, text))
    assert table.never == {("a", "b")}
    assert table.ratios == pytest.approx({("a", "a"): 1.5, ("b", "b"): 2.0})
    full = completed(table)
    assert set(full.ratios) == {("a", "a"), ("b", "b")}  # neither direction is predicted
    model = MeasuredPairs(MeasuredRatios.of_table(full))
    assert model.slowdown(A, B) == model.slowdown(B, A) == inf
    assert [(each.row, each.column) for each in calibrate(table).predictions()] == [("a", "a"), ("b", "b")]


def test_a_pair_that_has_a_ratio_in_the_other_order_is_never_together_either(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "row,column,ratio\na,b,never\nb,a,1.5\na,a,1\nb,b,1\n"))
    assert MeasuredPairs(MeasuredRatios.of_table(table)).slowdown(B, A) == inf
