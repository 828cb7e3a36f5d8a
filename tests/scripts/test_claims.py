"""The rule by which the claims of all papers are judged: what a quarter is, what a verdict needs, and what is no claim."""

from __future__ import annotations

import math
from random import Random

import pytest
from scripts.papers.claims import WITHIN, Band, Claim, Of, by_construction, in_print, not_checkable, predicted, quarter
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.guests.report import at_most
from scripts.papers.rows import (
    Found,
    Near,
    Order,
    Table,
    agreeing,
    block,
    by_seed,
    cell,
    change,
    combined,
    every,
    judged,
    near,
    near_level,
    near_ratio,
    ratio,
    row,
    values_of,
)
from scripts.papers.saturation import WORK, saturation
from scripts.verdicts import claims_in, head_lines, marked, verdict_lines

from cosched_emulator.statistics.intervals import Interval, Verdict, mean_interval, paired_ratio, prediction
from cosched_emulator.studies.axes import COLUMNS
from cosched_emulator.studies.study_result import series_of

HEAD = [
    "| id | claim |  | published | measured | sampling | seeds | p | to decide | verdict |",
    "|---|---|---|---|---|---|---|---|---|---|",
]


def cells(claim: Claim) -> list[str]:
    return claim.row.strip("| ").split(" | ")


@pytest.mark.parametrize(
    ("published", "of", "band"),
    [
        (-40.0, Of.CHANGE, (-50.0, -30.0)),
        (-3.0, Of.CHANGE, (-5.0, -1.5)),  # two points at least, and half way to no effect at most
        (2.0, Of.CHANGE, (1.0, 4.0)),
        (1.0, Of.CHANGE, (-1.0, 3.0)),  # is hardly an effect
        (0.0, Of.CHANGE, (-5.0, 5.0)),
        (1.6, Of.RATIO, (1.45, 1.75)),  # of .6, not of 1.6
        (0.6, Of.RATIO, (0.5, 0.7)),  # the same effect as -40 %
        (1.0, Of.RATIO, (0.95, 1.05)),
        (80.0, Of.LEVEL, (60.0, 100.0)),
    ],
)
def test_a_quarter_is_taken_of_the_effect(published: float, of: Of, band: tuple[float, float]) -> None:
    assert quarter(published, of) == pytest.approx(band)


def test_no_ratio_is_within_a_quarter_that_shows_half_of_the_effect() -> None:
    found = mean_interval([0.90, 0.91, 0.89])  # published .8: a quarter of the ratio would be .6 to 1
    claim = claim_near("C3: a / b", near_ratio(0.8), found)
    assert claim.verdict is Verdict.NO
    assert cells(claim)[:4] == ["C3", "a / b, within 0.75 to 0.85", "w", "0.80"]
    assert claim_near("queue", near_level(0.8), found).verdict is Verdict.YES
    assert claim_near("queue", near_level(0.8), None).word == "not run"


def claim_near(text: str, band: Near, found: Found, samples: int = 1) -> Claim:
    """Return the claim that a figure is near what is published."""
    return Table(Figures([], {}), samples=samples).claims([row(text, lambda _: found, band, at="w")])[0]


def test_what_one_sample_of_ours_might_give_is_no_failure_of_the_paper() -> None:
    found = mean_interval([10.0, 14.0, 6.0, 12.0, 8.0, 11.0, 9.0, 10.0])  # mean 10 (8 to 12), one of them 4 to 16
    near_by, far = (claim_near("a", near_level(level), found) for level in (16.1, 17.0))
    assert (near_by.verdict, near_by.word, far.verdict, far.word) == (Verdict.NO, WITHIN, Verdict.NO, "**no**")
    low, high = (float(side) for side in near_by.sampling.split(" to "))
    assert low < 5
    assert 16 < high < 17
    assert near_by.p is not None
    assert far.p is not None
    assert near_by.p > 0.05 >= far.p  # Holm's correction and its count of chances follow
    assert claim_near("a", near_level(16.1), found, samples=3).word == "**no**"  # the mean of three samples lies nearer
    assert claim_near("a", near_level(10.0), found).word == "yes"
    assert (
        judged("a", "w", "less", found, Band.below(9.0)).sampling == "-"
    )  # nothing is printed that a sample could give


def test_a_sample_lies_in_its_interval_as_often_as_that_says() -> None:
    random = Random(5)
    inside = 0
    for _ in range(1000):
        values = [math.exp(random.gauss(0, 0.4)) for _ in range(6)]
        seeds = dict(enumerate(values[:5]))
        drawn = prediction(paired_ratio(seeds, dict.fromkeys(seeds, 1.0)))
        inside += drawn.low <= values[5] <= drawn.high
    assert 930 <= inside <= 970


VALUES = ([0.8, 0.9, 0.95, 0.7], [1.3, 0.9, 1.1], [2.0, 2.1, 2.2, 2.05, 2.1], [1.0, 1.2], [1.0, 1.0, 1.0])
BANDS = (Band.above(1.0), Band.below(1.0), Band(0.8, 1.2), Band(1.9, 2.3), Band.below(2.2))


@pytest.mark.parametrize("band", BANDS)
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("ratio", [False, True])
def test_p_is_at_most_a_twentieth_where_there_is_a_verdict(values: list[float], band: Band, *, ratio: bool) -> None:
    seeds = dict(enumerate(values))
    found = paired_ratio(seeds, dict.fromkeys(seeds, 1.0)) if ratio else mean_interval(values)
    claim = judged("c", "w", "", found, band)
    assert claim.p is not None
    assert (claim.p <= 0.05) == (claim.verdict is not Verdict.NOT_SHOWN)
    assert (claim.to_decide is not None) == (claim.verdict is Verdict.NOT_SHOWN)
    assert claim.to_decide is None or claim.to_decide > found.n


def test_seeds_that_decide_would_have_decided() -> None:
    few = [0.8, 1.1, 0.9, 1.0, 0.85]
    claim = judged("c", "w", "", mean_interval(few), Band.below(1.0))
    assert claim.verdict is Verdict.NOT_SHOWN
    assert claim.to_decide is not None
    for count, verdict in ((claim.to_decide, Verdict.YES), (claim.to_decide - 1, Verdict.NOT_SHOWN)):
        found, n = mean_interval(few), int(count)
        spread = math.sqrt(sum((value - found.mean) ** 2 for value in few) / (len(few) - 1))
        spaced = [-1.0, 1.0] * (n // 2) + [0.0] * (n % 2)  # n values of that mean and spread
        scale = spread / math.sqrt(2 * (n // 2) / (n - 1))
        assert (
            judged("c", "w", "", mean_interval([found.mean + scale * each for each in spaced]), Band.below(1.0)).verdict
            is verdict
        )
    at_the_bound = judged("c", "w", "", mean_interval([0.9, 1.1]), Band.below(1.0))
    assert cells(at_the_bound)[-2] == "none: the mean lies at the bound"
    assert cells(judged("c", "w", "", mean_interval([0.9]), Band.below(1.0)))[-3:] == ["-", "2 or more", "not shown"]


def test_a_claim_on_several_figures_holds_if_all_do_and_fails_if_one_does() -> None:
    low, high, wide = mean_interval([0.8, 0.81, 0.79]), mean_interval([1.2, 1.21, 1.19]), mean_interval([0.5, 1.4, 0.9])
    below = Band.below(1.0)
    assert combined("c", "w", "", "m", [(low, below), (low, below)]).verdict is Verdict.YES
    assert combined("c", "w", "", "m", [(low, below), (wide, below)]).verdict is Verdict.NOT_SHOWN
    failed = combined("c", "w", "", "m", [(low, below), (high, below)])
    assert failed.verdict is Verdict.NO
    assert failed.p == pytest.approx(
        2 * (judged("c", "w", "", high, below).p or 0.0)
    )  # either could have failed by chance
    assert combined("c", "w", "", "m", [(low, below), (None, below)]).verdict is None
    unlucky = mean_interval([1.04, 1.06, 1.08])  # p is 0.035: of ten figures one may be so by chance
    assert judged("c", "w", "", unlucky, below).verdict is Verdict.NO
    among = combined("c", "w", "", "m", [(low, below)] * 9 + [(unlucky, below)])
    assert among.verdict is Verdict.NOT_SHOWN
    assert among.p is not None
    assert among.p > 0.05
    assert among.to_decide is not None
    assert among.to_decide > unlucky.n


def test_at_most_a_bound_includes_it() -> None:
    row = at_most("c", lambda *_, **__: mean_interval([1.0, 1.0]), 1.0, work="w")
    assert [claim.verdict for claim in Table(Figures([], {})).claims([row])] == [Verdict.YES]


def test_runs_that_agree_by_chance_show_nothing() -> None:
    assert agreeing("c", "w", "", [True] * 5).verdict is Verdict.NOT_SHOWN
    assert agreeing("c", "w", "", [True] * 5).to_decide == 6
    assert agreeing("c", "w", "", [True] * 6).verdict is Verdict.YES
    assert agreeing("c", "w", "", [False] * 9 + [True]).verdict is Verdict.NO
    assert agreeing("c", "w", "", [True, False]).to_decide == math.inf
    assert agreeing("c", "w", "", [True] * 3 + [False]).to_decide == 17
    assert agreeing("c", "w", "", []).verdict is None


def test_what_no_run_decides_has_a_row_and_is_not_counted() -> None:
    rows = [
        by_construction(judged("C1: a", "w", "b", mean_interval([1.0, 1.0]), Band.above())),
        in_print("C2: c", "table 3", "x", "4 of 5 rows", holds=False),
        in_print("C3: d", "table 3", "x", "5 of 5 rows", holds=True),
        not_checkable("C4, C5: e", "f", "no measure is given"),
        judged("C6: g", "w", "h", mean_interval([1.0, 1.1, 1.2]), Band.above()),
    ]
    assert cells(predicted("S4: worst", "table 1", "2.1", "2.00", holds=True))[-1] == "predicted"
    assert cells(predicted("S9: more", "table 2", "1.4", "1.28", holds=False))[-1] == "**not predicted**"
    assert [cells(row)[-1] for row in rows] == [
        "by construction",
        "contradicted by print",
        "holds in print",
        "not checkable",
        "yes",
    ]
    assert cells(rows[3])[0] == "C4, C5"
    body = [*HEAD, *(row.row for row in rows)]
    assert [claim.ids for claim in claims_in(body)] == ["C1", "C2", "C3", "C4, C5", "C6"]
    head = head_lines(body)[0]
    assert head.startswith(
        "1 rows judge a claim: 1 yes. Rows that no run decides are not counted: 1 *by construction*, "
    )
    assert "Of the 1 rows with an interval at most 0.0" in head
    page = [line for line in verdict_lines(body, "x.md") if "[1](x.md" in line]
    assert [line[2:4] for line in page] == ["C2", "C3", "C6"]  # the others are in the appendix alone


def test_verdicts_that_stand_after_holms_correction_are_marked() -> None:
    sure, unsure = Interval(2.0, 1.9, 2.1, 9, 0.95), Interval(2.0, 1.02, 2.98, 9, 0.95)
    claims = [judged("C1: a", "w", "", found, Band.above(1.0), interval_text) for found in (sure, unsure, unsure)]
    assert [claim.verdict for claim in claims] == [Verdict.YES] * 3
    body = marked([*HEAD, *(claim.row for claim in claims)])
    assert [line.split(" | ")[-1] for line in body[2:]] == ["yes (Holm) |", "yes |", "yes |"]
    assert marked(body) == body
    assert "1 verdicts stand after Holm's correction." in head_lines(body)[0]


@pytest.mark.parametrize(
    ("halves", "words"),
    [
        ([(10, 30), (12, 31), (9, 28)], "grows"),
        ([(10, 11), (12, 14), (9, 12)], "does not grow"),
        ([(10, 30), (12, 13), (9, 20)], "not shown"),
        ([(0, 3), (0, 3), (1, 5)], "grows"),  # no ratio
        ([(0, 0), (0, 0), (0, 0)], "does not grow"),
        ([(10, 30)], "not shown"),
    ],
)
def test_a_queue_grows_if_its_second_half_is_more_than_twice_the_first(
    halves: list[tuple[float, float]], words: str
) -> None:
    places = dict.fromkeys(COLUMNS.values(), "")
    rows = [
        {
            **places,
            "workload": "w",
            "policy": "p",
            "seed": str(seed),
            WORK.first: first,
            WORK.second: second,
            WORK.test: "yes",
        }
        for seed, (first, second) in enumerate(halves)
    ]
    table = saturation([Where("w", "p"), Where("w", "other")])(Figures(series_of(rows), {}))
    assert [line.split(" | ")[-2:] for line in table[4:-1]] == [[words, f"{len(halves)} yes |"]]


# ---------------------------------------------------------------- rows as data

LEVELS = {("w1", "A"): 1.0, ("w1", "B"): 2.0, ("w2", "A"): 3.0, ("w2", "B"): 3.3}


def table() -> Table:
    """Return figures of two policies on two workloads, three seeds each: a column that is the level times the seed."""
    places = dict.fromkeys(COLUMNS.values(), "")
    rows = [
        {**places, "workload": work, "policy": policy, "seed": str(seed), "x": level * seed}
        for (work, policy), level in LEVELS.items()
        for seed in (1, 2, 3)
    ]
    return Table(Figures(series_of(rows), {}), {"x": "the time"})


def test_a_row_is_swept_with_the_last_value_fastest_and_named_as_labels_say() -> None:
    swept = row(
        "C1: {key}, {policy} / B",
        ratio("{key}", "{policy}", "B"),
        Band.below(1.0),
        "less",
        key="x",
        work=("w1", "w2"),
        policy=("A", "B"),
    )
    claims = table().claims([swept])
    assert [(claim.text, claim.where) for claim in claims[:3]] == [
        ("C1: the time, A / B", "w1"),
        ("C1: the time, B / B", "w1"),
        ("C1: the time, A / B", "w2"),
    ]
    assert [claim.verdict for claim in claims] == [Verdict.YES, Verdict.NO, Verdict.YES, Verdict.NO]
    assert claims[0].measured == "0.50 (0.50 to 0.50)"


def test_what_is_published_may_hang_on_the_row_and_is_in_its_text() -> None:
    found = table().claims(
        [
            row(
                "C2: A against B",
                change("x", "A", "B"),
                near(lambda work: {"w1": -50.0, "w2": 0.0}[work]),
                work=("w1", "w2"),
            )
        ]
    )
    assert [(claim.text, claim.published, claim.verdict) for claim in found] == [
        ("C2: A against B, within 12 points", "-50.0", Verdict.YES),
        ("C2: A against B, within 5 points", "0.0", Verdict.NO),
    ]


def test_rows_of_a_block_stand_together_for_each_value() -> None:
    one = row("one", ratio("x", "A", "B"), Band.below(1.0))
    two = row("two", ratio("x", "B", "A"), Band.below(1.0))
    claims = table().claims([block(one, two, work=("w1", "w2"))])
    assert [(claim.text, claim.where) for claim in claims] == [
        ("one", "w1"),
        ("two", "w1"),
        ("one", "w2"),
        ("two", "w2"),
    ]


def test_an_order_names_its_cells_and_has_not_run_where_one_has_not() -> None:
    groups = [["A"], ["B", cell("A", work="w2")]]
    claim = table().claims([row("C3: time", Order("x", groups), work="w1")])[0]
    assert (claim.text, claim.measured, claim.verdict) == ("C3: time: A / B, A", "2 / 4, 6", Verdict.YES)
    gone = table().claims([row("C3: time", Order("x", [*groups, ["C"]]), work="w1")])[0]
    assert (gone.measured, gone.verdict) == ("-", None)


def test_every_figure_of_a_row_has_to_be_in_its_band() -> None:
    both = every(ratio("x", "A", "B"), "{work} ", join=", ", work=("w1", "w2"))
    claims = table().claims([row("all", both, Band.below(bound), at="both") for bound in (0.95, 0.7)])
    assert [claim.verdict for claim in claims] == [Verdict.YES, Verdict.NO]
    assert claims[0].measured == "w1 0.50, w2 0.91"


def test_arithmetic_of_its_own_is_done_seed_by_seed() -> None:
    most = by_seed(lambda one, other: one - other, values_of("x", "B"), values_of("x", "A"))
    claim = table().claims([row("more", most, Band.above(), work="w1")])[0]
    assert claim.measured == "2 (-0.48 to 4.48)"  # 1, 2 and 3
    none = table().claims([row("more", most, Band.above(), work="w3")])[0]
    assert none.verdict is None
