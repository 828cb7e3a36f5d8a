"""Logs, scenarios and study files with random damage: each ends in a clear error or in a run, and none in a traceback."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from cosched_emulator import simulate
from cosched_emulator.errors import EmulatorError, InvariantError
from cosched_emulator.studies.cells import make_plan
from cosched_emulator.studies.experiment import read_experiment
from cosched_hwmodel.errors import HardwareModelError
from cosched_plugin.common.errors import PluginError

ROW = "{} {} -1 {} {} -1 -1 {} 100 -1 1 1 1 1 -1 -1 -1 -1"
LOG = ["; MaxProcs: 32", *[ROW.format(n, n * 7, 50 + n, 1 + n % 5, 1 + n % 5) for n in range(1, 20)]]
SCENARIO = """seed = 3
[cluster]
nodes = 16
preset = "lomarc-ht"
[workload]
lublin = 12
characteristics = "M1"
aarr = 8.0
[truth]
contention = "lomarc"
paging = 2.0
[belief]
usage_noise = 0.1
[policy]
preset = "lomarc-r"
[results]
warmup = 1
[[script]]
at_s = 10.0
do = "cancel"
job = 2
[faults]
[[faults.at]]
at_s = 5.0
do = "fail"
node = 1
""".splitlines()
STUDY = """title = "load"
seeds = "1-2"
loads = [0.7, 0.9]
[scenario]
cluster = {preset = "lomarc-ht", nodes = 16}
truth = {contention = "lomarc"}
[scenario.workload]
lublin = 12
characteristics = "M1"
[[workloads]]
name = "A"
workload.aarr = 8.0
[[workloads]]
name = "B"
workload.aarr = 9.0
[[policies]]
name = "PSS"
policy = "pss"
[[policies]]
policy = "lomarc-r"
set = ["backfill=easy"]
[[runs]]
policies = ["PSS", "lomarc-r"]
loads = [0.7]
[[exclude]]
seeds = [2]
policies = ["PSS"]
[baseline]
policy = "PSS"
shakes = 3
""".splitlines()
VALUES = (
    "-1", "0", "1e400", "nan", "inf", "true", "[]", "{}", '""', "9" * 20, '"\\u0000"', "[1,[2]]", "2020-01-01", "1e9", "-0.0",
    '"1x1x1"', '"M1"', "{a=1}", '"../.."', "[[1]]",
)  # fmt: skip
NUMBERS = ("-1", "0", "1e9", "99999999999", "1e99", "nan", "x", "0.5", "-5", "1e300", "", "18446744073709551616")


def damaged_toml(draws: random.Random, lines: list[str]) -> list[str]:
    lines = list(lines)
    for _ in range(draws.choice([1, 1, 2, 3])):
        at, other = draws.randrange(len(lines)), draws.randrange(len(lines))
        line = lines[at]
        key, equals, _ = line.partition("=")
        match draws.randrange(6):
            case 0:
                lines.insert(at, lines[other])
            case 1 if len(lines) > 1:
                del lines[at]
            case 2 if equals:
                lines[at] = f"{key[:-1]}{draws.choice(['x', '.a', '_'])}{line[len(key) - 1 :]}"
            case 3:
                place = draws.randrange(len(line) + 1)
                lines[at] = line[:place] + chr(draws.randrange(1, 0x250)) + line[place:]
            case _ if equals:
                lines[at] = f"{key}= {draws.choice(VALUES)}"
    return lines


def damaged_log(draws: random.Random, lines: list[str]) -> list[str]:
    lines = list(lines)
    for _ in range(draws.choice([1, 2, 3])):
        at = draws.randrange(len(lines))
        fields = lines[at].split(" ")
        match draws.randrange(6):
            case 0:
                fields = fields[: draws.randrange(len(fields) + 1)]
            case 1:
                fields += fields
            case _:
                fields[draws.randrange(len(fields))] = draws.choice(NUMBERS)
        lines[at] = " ".join(fields)
    return lines


def run_log(file: str) -> object:
    return simulate({"workload": {"swf": file, "minimum_estimate_s": 0}, "cluster": {"nodes": 16}}, "easy")


Damage = Callable[[random.Random, list[str]], list[str]]
Use = Callable[[str], object]
KINDS: dict[str, tuple[list[str], Damage, Use]] = {
    "log.swf": (LOG, damaged_log, run_log),
    "scenario.toml": (SCENARIO, damaged_toml, simulate),
    "study.toml": (STUDY, damaged_toml, lambda file: make_plan(read_experiment(file))),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("count", [60, pytest.param(2_000, marks=pytest.mark.slow)])
def test_damaged_files_end_in_a_clear_error_or_a_run(
    name: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole, damage, use = KINDS[name]
    file = tmp_path / name
    file.write_text("\n".join(whole) + "\n")
    use(str(file))
    draws = random.Random(count)
    refused = done = 0
    for _ in range(count):
        file.write_text("\n".join(damage(draws, whole)) + "\n")
        try:
            use(str(file))
        except InvariantError:
            raise
        except (EmulatorError, PluginError, HardwareModelError) as error:
            refused += bool(str(error))
        else:
            done += 1
    assert refused + done == count
    assert min(refused, done) > 0
