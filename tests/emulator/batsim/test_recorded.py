"""The emulator in Batsim's place, given the replies that were recorded with Batsim: it says the same at the same times.

What differs is listed here: the order and the number format of JSON, paths of files, settings of Batsim's that say nothing to a
scheduler, and events of one instant, which may come in another order. The files of both runs are compared as well.
"""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.plugin.batsim.recordings import Exchange, exchanges, is_wrong, own_sessions, shared_sessions

from cosched_emulator.batsim.platform import read_platform
from cosched_emulator.batsim.run import Outputs
from cosched_emulator.batsim.simulator import Options, Simulator
from cosched_emulator.batsim.workload import JobNumbers, read_events, read_workloads
from cosched_emulator.manager.manager import Manager
from cosched_plugin.protocol.messages import Belief, NodeClass

NEAR_S = 1.0000001e-6
SHARED = {"own-sharing"}
CLOSE = {"pybatsim-filler", "pybatsim-filler-kinds"}  # instants that are less than a microsecond apart, and one here
SESSIONS = [*shared_sessions(), *own_sessions()]


def simulator_of(session: Path, outputs: Outputs) -> Simulator:
    """Return the simulator as the recorded command started Batsim."""
    words = shlex.split(json.loads((session / "command.json").read_text())["batsim"])
    files = [str(session / words[place + 1]) for place, word in enumerate(words) if word == "-w"]
    hosts = read_platform(str(session / words[words.index("-p") + 1]), words[words.index("-m") + 1])
    sharing = "--enable-compute-sharing" in words
    options = Options(
        sharing=sharing,
        dynamic="--enable-dynamic-jobs" in words,
        acknowledged="--acknowledge-dynamic-jobs" in words,
        forward_profiles="--forward-profiles-on-submission" in words,
        forward_unknown="--forward-unknown-events" in words,
        energy="-E" in words,
        tell_run_times=True,
        workloads={f"w{number}": file for number, file in enumerate(files)},
    )
    numbers = JobNumbers()
    jobs, profiles, _ = read_workloads(files, numbers)
    events = []
    if "--events" in words:
        name = words[words.index("--events") + 1]
        events = read_events(
            str(next(path for path in (session / name, session / "../../tools" / name) if path.exists())), len(hosts)
        )
    nodes = [NodeClass(len(hosts), 1, 1, 60 if sharing else 1, 0, 0, 0, 0)]
    manager = Manager(nodes, Belief("none", "bulk-synchronous", ()), None)
    return Simulator(
        manager, hosts, jobs, profiles, options, events, numbers=numbers, ended=outputs.add, moved=outputs.note_states
    )


def said(simulator: Simulator, recorded: tuple[Exchange, ...]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each message of the simulator's and the recorded one; it gets the recorded replies."""
    for exchange in recorded:
        frame = simulator.next_message()
        assert frame is not None
        yield json.loads(frame), json.loads(exchange.said)
        simulator.take(json.dumps(exchange.reply).encode())
    assert simulator.next_message() is None


def alike(one: Any, other: Any) -> bool:
    """Return whether two values are equal, numbers to a microsecond."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= max(NEAR_S, 1e-10 * abs(one))
    return bool(one == other)


def by_instant(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events in an order that does not depend on that of one instant."""
    return sorted(
        events, key=lambda event: (round(event["timestamp"], 5), event["type"], json.dumps(event["data"].get("job_id")))
    )


def without_settings(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without what Batsim alone says as a simulation begins."""
    if event["type"] != "SIMULATION_BEGINS":
        return event
    data = {key: value for key, value in event["data"].items() if key not in ("workloads", "profiles")}
    data["config"] = {key: value for key, value in data["config"].items() if key != "profile-reuse-enabled"}
    return {**event, "data": data}


def played(session: Path, prefix: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each message of the simulator's and the recorded one; then write the files of the run."""
    with Outputs(prefix, force=False) as outputs:
        simulator = simulator_of(session, outputs)
        yield from said(simulator, exchanges(session))
        outputs.finish(simulator, "v4.2.1", 0.0, 0.0)


def without_start(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(map(without_settings, by_instant(events)))


@pytest.mark.parametrize("session", [path for path in SESSIONS if not is_wrong(path)], ids=lambda path: path.name)
def test_a_recorded_session_is_reproduced(session: Path, tmp_path: Path) -> None:
    if session.name in SHARED:
        pytest.skip(
            "jobs that compute on one host share its core in SimGrid; here the hardware model says how they slow each other"
        )
    for ours, theirs in played(session, f"{tmp_path}/out"):
        mine, yours = without_start(ours["events"]), without_start(theirs["events"])
        assert alike(mine, yours), (mine, yours)
        assert abs(ours["now"] - theirs["now"]) <= NEAR_S
    compare_files(session, tmp_path)


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def compare_files(session: Path, folder: Path) -> None:
    """Compare the files that Batsim has written with ours: jobs in any order at one instant, states where they have changed."""
    for name in ("jobs", "schedule"):
        ours, theirs = rows_of(folder / f"out_{name}.csv"), rows_of(session / f"out_{name}.csv")
        assert len(ours) == len(theirs)
        for mine, yours in zip(sorted(ours, key=by_job), sorted(theirs, key=by_job), strict=True):
            assert list(mine) == list(yours)
            for key, value in yours.items():
                if key not in ("batsim_version", "scheduling_time", "simulation_time"):
                    assert alike(number(mine[key]), number(value)), (key, mine, yours)
    if session.name in CLOSE:
        return
    for one, other in zip(last_states(folder), last_states(session), strict=True):
        assert one[1:] == other[1:]
        assert abs(one[0] - other[0]) <= 1e-5 * other[0], (one, other)


def by_job(row: dict[str, str]) -> tuple[str, str]:
    return (row.get("workload_name", ""), row.get("job_id", ""))


def number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def last_states(folder: Path) -> list[list[float]]:
    """Return how many hosts are in each state after each instant; Batsim writes times with six digits."""
    rows = [list(row.values()) for row in rows_of(folder / "out_machine_states.csv")]
    last = {round(float(time), 6): list(map(float, counts)) for time, *counts in rows}
    return [[time, *counts] for time, counts in last.items()]
