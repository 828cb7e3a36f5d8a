"""The largest times that the input accepts, through every policy; beyond them an error says what is too long.

A hundred jobs of 10**11 s one after another ended in overflows of arrays and notes, each policy at another place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.emulator.live.test_views import SECOND, Site, submit
from tests.emulator.parts import at_once, job, node_class, play

from cosched_emulator import simulate
from cosched_emulator.errors import ConfigurationError, EmulatorError
from cosched_emulator.live.user_commands import LONGEST_US
from cosched_emulator.run.loop import LAST_US
from cosched_emulator.users.requests import CancelJobs, Refused, Requester, Target
from cosched_emulator.workload.jobs_in_columns import MOST_YEARS, MOST_YEARS_US
from cosched_plugin.policies.composition.presets import PRESETS
from cosched_plugin.policies.composition.resolved import resolve
from cosched_plugin.protocol import messages as m

LONGEST_S = 10**11  # of a log
SIZES = (16, 8, 9, 4, 16, 12, 3, 16, 8, 16, 5)  # one after another they take 34,900 years
ROOT = Requester("root", operator=True)  # users have a share of these years (test_submission)


def log(folder: Path, sizes: tuple[int, ...], seconds: int = LONGEST_S) -> str:
    rows = [
        f"{number} 0 -1 {seconds} {size} -1 -1 {size} {seconds} -1 1 1 1 1 -1 -1 -1 -1"
        for number, size in enumerate(sizes, 1)
    ]
    file = folder / "long.swf"
    file.write_text("\n".join(["; MaxProcs: 16", *rows, ""]), encoding="ascii")
    return str(file)


def scenario(file: str, preset: str) -> dict[str, Any]:
    """Return the kind of nodes that a policy was made for, so that its own arithmetic is used."""
    workload: dict[str, Any] = {"swf": file, "limits": "none"}
    if "lomarc" in preset or preset in ("pss", "ac", "am"):
        workload["characteristics"] = "M1"
        return {
            "workload": workload,
            "cluster": {"nodes": 16, "preset": "lomarc-ht"},
            "truth": {"contention": "lomarc"},
        }
    if resolve({"preset": preset})["slices"]["name"] != "none":
        workload["self_slowdowns"] = "table4"
        cluster = {"nodes": 8, "preset": "g-lomarc-2x2", "swap_mb": 10**6}
        return {"workload": workload, "cluster": cluster, "truth": {"contention": "statistical"}}
    nodes = 16 if preset.startswith(("batch-", "coscheduling")) else 4  # one process a node
    watts = {"idle_w": 100, "busy_w": 10}
    return {"workload": {"swf": file, "mix": "1:1:1"}, "cluster": {**watts, "nodes": nodes, "preset": "rua-4way"}}


def plans(preset: str) -> bool:
    return bool(resolve({"preset": preset})["backfill"]["name"] != "gang")  # a gang has a billion quanta to go through


@pytest.mark.by_default(13)
@pytest.mark.parametrize("preset", [*filter(plans, PRESETS)])
def test_the_longest_jobs_one_after_another_end(preset: str, tmp_path: Path) -> None:
    sliced = resolve({"preset": preset})["slices"]["name"] != "none"
    settings = {"slices.interval_s": 1e9, "slices.short_slice_s": 1e8} if sliced else {}
    run = simulate(scenario(log(tmp_path, SIZES), preset), preset, settings=settings)
    assert run.summary["ran"] == len(SIZES)
    assert run.summary["machine"]["makespan_s"] >= LONGEST_S
    assert all(figure is None or figure >= 0 for figure in run.summary["machine"].values())


@pytest.mark.parametrize("preset", ["lc", "lct", "rua"])
def test_the_largest_demands_do_not_end_a_scheduler(preset: str, tmp_path: Path) -> None:
    """Any user can submit them: a limit of more than 73,000 years, or a negative one, is an impossible decision."""
    demands = {"mix": "1:0:0", "demand_high": [10**9, 0, 0]}
    for seconds in (600_000, LONGEST_US // SECOND):
        workload = {"swf": log(tmp_path, (2,) * 7, seconds), **demands}
        try:
            run = simulate({"workload": workload, "cluster": {"nodes": 2, "preset": "rua-4way"}}, preset)
        except EmulatorError as error:  # what really happens takes so long, and that is what it says
            assert seconds > 10**6 and "not ended within 73117 years" in str(error)  # noqa: PT017, PT018
        else:
            assert run.summary["ran"] == 7


def test_jobs_of_too_many_years_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        simulate({"workload": {"swf": log(tmp_path, (4,) * 100)}}, "easy")
    assert f"at most {MOST_YEARS} years, one after another" in str(caught.value)
    assert "got 317098 years" in str(caught.value)


def test_a_run_beyond_the_last_instant_ends_with_an_error() -> None:
    def sleepy(now_us: int, events: Any) -> list[m.Action]:
        return [*at_once(now_us, events), *([m.WakeAt(LAST_US + 1)] if not now_us else [])]

    with pytest.raises(EmulatorError, match=r"not ended within 73117 years.*0 jobs run, 0 are pending"):
        play(sleepy, [job(1)])


def test_users_cannot_submit_more_years_than_plans_hold() -> None:
    """Thirty thousand jobs of ten years are beyond 64 bits: any planning scheduler ended at them, and its successors, too."""
    site = Site(node_class(2, 4))
    most = MOST_YEARS_US // LONGEST_US
    long = submit(limit_s=None, run_s=LONGEST_US // SECOND)
    site.do(long._replace(tasks=tuple(range(most))), who=ROOT)
    refused = site.live.command(SECOND, ROOT, long)
    assert isinstance(refused, Refused)
    assert refused.text == (
        f"with these jobs, those that have not ended take more than {MOST_YEARS} years one after another, the limit"
    )
    site.do(submit(), 1, ROOT)  # short ones still go in
    site.do(CancelJobs((Target(1, 0),)), 2, ROOT)
    site.do(long, 3, ROOT)
    site.live.check()
