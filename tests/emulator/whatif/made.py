"""Questions about made-up logs, studies with made-up figures, and baselines that are as near to a record as a test says."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from cosched_emulator.statistics.intervals import Interval
from cosched_emulator.studies.study_result import StudyResult
from cosched_emulator.whatif.answer import RESPONSE, Answer, answer
from cosched_emulator.whatif.candidates import FORMULA, Scale
from cosched_emulator.whatif.distance import Distance
from cosched_emulator.whatif.question import Prepared, Question, prepare_question
from cosched_emulator.whatif.waits import Summary


def write_log(file: Path, jobs: int, *, gap_s: float = 200, seed: int = 1, processors: int = 8) -> Path:
    """Write a log of random jobs of five users, whose estimates are double."""
    draw = random.Random(seed)
    lines, now = [f"; MaxProcs: {processors}"], 0.0
    for number in range(1, jobs + 1):
        now += draw.expovariate(1 / gap_s)
        run, size, user = int(draw.uniform(60, 1800)), draw.choice([1, 1, 2, 4]), draw.randrange(1, 6)
        lines.append(f"{number} {now:.0f} -1 {run} {size} -1 -1 {size} {2 * run} -1 1 {user} -1 {user % 3} 1 -1 -1 -1")
    file.write_text("\n".join(lines) + "\n")
    return file


def asked(tmp_path: Path, jobs: int = 400, **site: Any) -> Prepared:
    log = write_log(tmp_path / "log.swf", jobs)
    question = Question({"workload": {"swf": str(log)}, **site}, scale=Scale(windows=4, fewest=50))
    return prepare_question(question, tmp_path / "out")


def made_up(prepared: Prepared, responses: Mapping[str, Sequence[float]], **more: Any) -> StudyResult:
    """Return the result of a study in which a policy, ``POLICY`` or ``POLICY under HARDWARE``, has these mean responses by window."""

    def rows() -> Iterator[dict[str, Any]]:
        for words, values in responses.items():
            policy, _, hardware = words.partition(" under ")
            for number, value in enumerate(values, 1):
                place = {
                    "workload": f"w{number}",
                    "hardware": hardware or FORMULA,
                    "belief": "told",
                    "variant": "logged",
                }
                own = {
                    RESPONSE: value,
                    "wait_s_mean": value,
                    "user_responses": {"7": [10, 10 * value]},
                    "long_wide_response_s": value,
                }
                yield {**place, "policy": policy, **own, **more}

    return result_of(prepared, rows())


def result_of(prepared: Prepared, rows: Iterable[Mapping[str, Any]], windows: int | None = None) -> StudyResult:
    """Return the result with these rows of a study in which each lever changes something in so many windows (None: all)."""
    changed = itertools.product(prepared.levers, prepared.windows[:windows])
    cells = [SimpleNamespace(names={"variants": name, "workloads": window}) for name, window in changed]
    return cast(StudyResult, SimpleNamespace(rows=[*rows], failures=(), plan=SimpleNamespace(cells=cells)))


def distance(recorded: float = 60.0, simulated: float = 60.0, *, most: float = 0.0, weekly_r: float = 0.9) -> Distance:
    """Return how far a baseline is from the record: mean waits in minutes, and the largest |ln| of their ratio in its interval."""
    ratio = math.log(simulated / recorded)
    interval = Interval(ratio, min(-most, ratio), max(most, ratio), 10, 0.95)
    waits = Summary(400, recorded, 1.0, 3 * recorded), Summary(400, simulated, 0.0, 3 * simulated)
    return Distance(400, *waits, interval, 0.9, weekly_r, 10, 0.9, 0.8, 0.85, 0.1, 0.05, {})


def answered(prepared: Prepared, responses: Mapping[str, Sequence[float]], **more: Any) -> Answer:
    """Return the answer of a made-up study, where the baseline explains the log."""
    return answer(prepared, made_up(prepared, responses, **more), distance())
