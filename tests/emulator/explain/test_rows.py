"""The explanation of a job in the rows of gang scheduling: from a real run, and from records made by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.emulator.explain.traces import START, Record, lines_of

from cosched_emulator import Run, simulate
from cosched_emulator.errors import InputError
from cosched_emulator.explain.facts import explain
from cosched_emulator.explain.sentences import sentences

SHARED: dict[str, Any] = {
    "seed": 1,
    "workload": {"lublin": 40, "run_factor": 0.025, "gap_factor": 0.025, "programs": "fine", "limits": "none"},
    "cluster": {"nodes": 8, "preset": "single"},
    "time_sharing": {"quantum_s": 1.0},
}
SETTINGS = ("backfill.sharp_change=any", "backfill.compaction=true")


@pytest.fixture(scope="module")
def traced() -> tuple[Run, list[Record]]:
    records: list[Record] = []
    return simulate(SHARED, "paired-gang", settings=SETTINGS, trace=records), records


def roles_of(run: Run) -> dict[tuple[int, int], dict[int, str]]:
    """Return, by number and begin of each quantum, the jobs that ran in it, and as what."""
    quanta = run.quanta
    assert quanta is not None
    found: dict[tuple[int, int], dict[int, str]] = {}
    columns = (quanta.quantum.tolist(), quanta.start_us.tolist(), quanta.job_id.tolist(), quanta.role)
    for number, start_us, job, role in zip(*columns, strict=True):
        found.setdefault((number, start_us), {})[job] = role
    return found


def test_quanta_of_the_explanation_are_those_of_the_run(traced: tuple[Run, list[Record]]) -> None:
    run, records = traced
    quanta = roles_of(run)
    jobs = sorted({job for roles in quanta.values() for job in roles})
    assert len(jobs) == 40
    for job in jobs:
        (start,) = explain(records, job, "t.jsonl")["starts"]
        turns = start["turns"]
        ran = Counter(roles[job] for roles in quanta.values() if job in roles)
        assert {role: turns[role] for role in ("row", "partner", "guest") if turns[role]} == ran
        assert turns["paired"] + sum(turns["alone"].values()) == turns["row"]
        assert turns["paired"] == sum(
            roles.get(job) == "row" and "partner" in roles.values() for roles in quanta.values()
        )


def test_every_job_in_rows_is_explained(traced: tuple[Run, list[Record]]) -> None:
    _, records = traced
    phrases = (
        ", a new one.", ", a new one: rows 0 and 1 had no place for it.", ", the first with a place for it.",
        ", the first with a place for it: rows 0 and 1 had none.", "other rows had room for all jobs of its row",
        "in the turn of its row", "with its row as the partner of another one", "as an alternate",
        "because no partner was chosen when the round began", "because there was no other row",
        "because the partner did not fit any more", "because partners had been chosen before the row existed",
    )  # fmt: skip
    text = ""
    for record in records:
        if record["kind"] == "start":
            text += " ".join(lines_of(records, record["job"])) + "\n"
    assert "None" not in text
    assert [phrase for phrase in phrases if phrase not in text] == []


def test_every_quantum_is_explained(traced: tuple[Run, list[Record]]) -> None:
    run, records = traced
    pairs = alone = waits = guests = 0
    quanta = {number: roles for (number, _), roles in roles_of(run).items()}
    for number in range(380, 480):
        job = 1 + number % 25
        facts = explain(records, job, "t.jsonl", number)
        text = " ".join(list(sentences(facts)))
        assert facts["quantum"]["role"] == quanta[number].get(job)
        pairs += "in sum less than 99 %" in text
        alone += "The row had no partner, because" in text
        waits += f"Job {job} did not run in it." in text
        guests += f"Job {job} ran as an alternate, with a predicted CPU share of " in text
    assert pairs + alone == 100
    assert min(pairs, alone, waits, guests) > 0


def start(**facts: Any) -> Record:
    return START | {"reason": "order", "waiting": 1, **facts}


def turn(quantum: int, slots: list[int], jobs: list[list[int]], shares_ppm: list[int], **facts: Any) -> Record:
    told = {"quantum": quantum, "slots": slots, "jobs": jobs, "shares_ppm": shares_ppm, "guests": []}
    return {"at_us": 90_000_000 + quantum * 1_000_000, "kind": "turn", **told, "below_ppm": 990_000, **facts}


def test_rows_moves_and_turns_in_sentences() -> None:
    records = [
        start(slot=3, new_row=True, full_rows=[0, 1], closed_rows=[2]),
        turn(5, [3], [[7]], [1_000_000], alone="none-fits", other=1, other_ppm=20_000),
        turn(6, [3], [[7]], [970_000], alone="none-fits", other=1, other_ppm=20_000),  # told again at the same instant
        turn(6, [3, 1], [[7], [9]], [970_000, 15_000]),
        turn(7, [1, 3], [[9], [7]], [15_000, 970_000]),
        {"at_us": 98_000_000, "kind": "sharp_change", "job": 7, "share_ppm": 5_000, "before_ppm": 970_000},
        {"at_us": 98_000_000, "kind": "slot", "job": 7, "slot": 4, "reason": "band", "out_of": 3, "share_ppm": 970_000,
         "least_ppm": 15_000},
        turn(8, [1], [[9]], [15_000], guests=[[7, 300_000]], alone="no-fit", other=3, other_ppm=1_000_000),
        {"at_us": 99_000_000, "kind": "slot", "job": 7, "slot": 5, "reason": "why not"},
        {"at_us": 99_500_000, "kind": "slot", "job": 7, "slot": 6},
        turn(9, [2], [[8]], [15_000], alone="of a third party"),
    ]  # fmt: skip
    assert lines_of(records, 7)[3:] == [
        "It was put into row 3, a new one: rows 0 and 1 had no place for it, and row 2 took only measured jobs.",
        "8 s after its start its CPU share had changed sharply, from 97 % to 0.5 %: it counted as a new job.",
        "8 s after its start it moved from row 3 to row 4: its predicted CPU share of 97 % was out of the band of its row, "
        "where the least is 1.5 %.",
        "9 s after its start it moved to row 5, for the reason 'why not'.",
        "9.5 s after its start it moved to row 6.",
        "It was to run in 4 quanta, from 5 to 8: 2 in the turn of its row, 1 with its row as the partner of another one, "
        "1 as an alternate.",
        "In its own turns its row had a partner once, and none once because no other row fitted.",
    ]

    def quantum(number: int) -> list[str]:
        return list(sentences(explain(records, 7, "t.jsonl", number)))[10:]

    assert quantum(5) == [
        "Quantum 5, decided at 95 s (0:01:35), was the turn of row 3 (job 7).",
        "The row had no partner, because no other row fitted.",
        "Its largest predicted CPU share was 100 %, that of row 1, the least of the others, 2 %: in sum not less than 99 %.",
        "Job 7 ran with its row.",
    ]
    assert quantum(6) == [
        "Quantum 6, decided at 96 s (0:01:36), was the turn of row 3 (job 7), with row 1 (job 9) as the partner.",
        "The largest predicted CPU shares of the two rows were 97 % and 1.5 %: in sum less than 99 %.",
        "Job 7 ran with its row.",
    ]
    assert quantum(8)[1:] == [
        "The row had no partner, because the partner did not fit any more.",
        "Its largest predicted CPU share was 1.5 %, that of row 3 100 %: in sum not less than 99 %.",
        "Job 7 ran as an alternate, with a predicted CPU share of 30 %.",
    ]
    assert quantum(9)[1:] == ["The row had no partner, because of a third party.", "Job 7 did not run in it."]


def test_jobs_without_rows_say_nothing_of_them() -> None:
    assert not any("row" in line for line in lines_of([start()], 7))
    (told,) = explain([start()], 7, "t.jsonl")["starts"]
    assert (told["row"], told["moves"], told["turns"]) == (None, [], None)
    in_slot = [start(slot=2)]  # of a policy that tells nothing else
    assert lines_of(in_slot, 7)[3:] == ["It was put into row 2."]


def test_turns_after_a_requeue_belong_to_the_second_start() -> None:
    records = [
        start(slot=1),
        turn(1, [1], [[7]], [9]),
        start(slot=2),
        turn(2, [2], [[7]], [9]),
        turn(3, [2], [[7]], [9]),
    ]
    first, second = explain(records, 7, "t.jsonl")["starts"]
    assert (first["turns"]["row"], second["turns"]["row"], second["turns"]["first_quantum"]) == (1, 2, 2)


def test_a_quantum_that_the_trace_does_not_tell() -> None:
    records = [start(slot=1), turn(4, [1], [[7]], [9]), turn(6, [1], [[7]], [9])]
    with pytest.raises(InputError, match=r"t\.jsonl: expected a quantum in the trace, such as 4 or 6, got 5"):
        explain(records, 7, "t.jsonl", 5)
    with pytest.raises(InputError, match=r"expected a quantum in the trace, got 5; the trace has none"):
        explain([start()], 7, "t.jsonl", 5)
