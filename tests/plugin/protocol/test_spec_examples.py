"""PROTOCOL.md agrees with the code: its examples, its limits, its tables."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest

from cosched_hwmodel.lomarc.lomarc_model import LomarcModel
from cosched_plugin.common.errors import RemoteProtocolError
from cosched_plugin.protocol import limits
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.session import CROSSING, SPEAKER, TRANSITIONS, Role, State, report_of
from cosched_plugin.protocol.vocabulary import (
    ACTIONS_BY_TAG,
    EVENTS_BY_TAG,
    JOB,
    MESSAGES_BY_KIND,
    MESSAGES_BY_TAG,
    REQUIRED,
    Record,
)

PAGES = (Path(__file__).parents[3] / "plugin" / name for name in ("PROTOCOL.md", "PROTOCOL-EXAMPLES.md"))
SPECIFICATION = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def blocks(kind: str) -> list[Any]:
    return [
        json.loads(text) for text in re.findall(rf"^```json {kind}\n(.*?)^```", SPECIFICATION, re.DOTALL | re.MULTILINE)
    ]


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table whose first line starts with ``heading``."""
    _, _, rest = SPECIFICATION.partition(f"\n{heading}")
    lines = rest.splitlines()[2:]
    table = lines[: next(i for i, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


MESSAGES = blocks("message")


@pytest.mark.parametrize("raw", MESSAGES, ids=lambda raw: raw["type"])
def test_every_example_can_be_read_and_is_written_the_same_way(raw: dict[str, Any]) -> None:
    message = decode([limits.MAGIC, msgpack.packb(raw)])
    frames = encode(message)
    assert msgpack.unpackb(frames[1]) == raw
    assert decode(frames) == message


@pytest.mark.parametrize("pair", blocks("refused"), ids=lambda pair: pair["error"]["code"])
def test_every_refused_example_gives_its_stated_error(pair: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode([limits.MAGIC, msgpack.packb(pair["message"])])
    assert msgpack.unpackb(encode(report_of(caught.value))[1]) == pair["error"]


def test_every_message_event_and_action_has_an_example() -> None:
    assert {raw["type"] for raw in MESSAGES} == set(MESSAGES_BY_TAG)
    seen = {item["type"] for raw in MESSAGES for item in raw.get("events", []) + raw.get("actions", [])}
    assert seen == set(EVENTS_BY_TAG) | set(ACTIONS_BY_TAG)


def test_limits_are_those_of_the_code() -> None:
    stated = {row[0].strip("`"): int(row[1]) for row in rows("| limit |")}
    assert stated == {name: value for name, value in vars(limits).items() if name.startswith("MAX_")}


TABLE = "| type | fields | meaning |\n|---|---|---|\n"


@pytest.mark.parametrize(("first", "records"), [("| `job_sub", EVENTS_BY_TAG), ("| `start", ACTIONS_BY_TAG)])
def test_every_field_of_events_and_actions_is_in_their_tables(first: str, records: dict[str, Record]) -> None:
    start = SPECIFICATION.index(TABLE + first)
    table = SPECIFICATION[start : SPECIFICATION.index("\n\n", start)].splitlines()[2:]
    stated = {}
    for line in table:
        tag, fields, _ = (cell.strip() for cell in line.strip("|").split("|"))
        stated[tag.strip("`")] = fields
    assert set(stated) == set(records)
    for tag, of in records.items():
        names = [field.name for field in of.fields]
        assert [name for name in re.findall(r"`(\w+)`", stated[tag]) if name in names] == names


def test_every_field_of_messages_and_jobs_is_stated_with_its_default() -> None:
    for kind, heading in ((m.Hello, "**`hello`**"), (m.Welcome, "**`welcome`**"), (m.JobSpec, "**A job**")):
        of = JOB if kind is m.JobSpec else MESSAGES_BY_KIND[kind]
        start = SPECIFICATION.index("| field |", SPECIFICATION.index(heading))
        table = SPECIFICATION[start : SPECIFICATION.index("\n\n", start)].splitlines()[2:]
        stated = {}
        for line in table:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            for name in re.findall(r"`(\w+)`", cells[0]):
                stated[name] = cells[2].strip("`")
        expected = {
            field.name: "required" if field.default is REQUIRED else "nil" if field.default is None
            else "{}" if field.default == m.Capabilities()
            else json.dumps(list(field.default) if isinstance(field.default, tuple) else field.default)
            for field in of.fields
        }  # fmt: skip
        assert stated == expected


def test_every_field_of_the_maps_in_a_welcome_is_stated_in_order() -> None:
    stated = dict(rows("| map |"))
    kinds: dict[str, Any] = {
        "node class": m.NodeClass, "belief": m.Belief, "running job": m.RunningJob, "pending job": m.PendingJob, "note": m.Note,
        "capabilities": m.Capabilities, "slots": m.SlotState, "turn": m.Turn, "hardware": m.NodeHardware, "cache": m.CacheLevel,
    }  # fmt: skip
    assert set(stated) == set(kinds)
    for name, kind in kinds.items():
        found = [word for word in re.findall(r"`(\w+)`", stated[name]) if word in kind._fields]
        assert list(dict.fromkeys(found)) == list(kind._fields)


def test_the_stated_features_have_the_existing_actions() -> None:
    start = SPECIFICATION.index("**Features.**")
    stated = re.findall(r"`(\w+)`", SPECIFICATION[start : SPECIFICATION.index("Without", start)])
    assert {name for name in stated if name in ACTIONS_BY_TAG} == set(ACTIONS_BY_TAG) - {"start_job", "reject_job"}
    features = [name for name in stated if name not in ACTIONS_BY_TAG and name not in EVENTS_BY_TAG]
    assert tuple(dict.fromkeys(features)) == m.FEATURES


def test_parameters_of_the_lomarc_belief_are_those_of_the_model() -> None:
    stated = [(row[0].strip("`"), row[2].strip("`")) for row in rows("| parameter |")]
    defaults = LomarcModel().parameters()
    assert stated == [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in defaults]
    told = [message["belief"]["parameters"] for message in MESSAGES if message.get("belief", {}).get("parameters")]
    assert told
    for parameters in told:
        assert LomarcModel.from_parameters((name, value) for name, value in parameters).parameters() == tuple(
            (name, value) for name, value in parameters
        )


def test_state_tables_are_those_of_the_code() -> None:
    kinds = (m.Hello, m.Welcome, m.Ready, m.Events, m.Actions, m.Resync)
    stated = {row[0]: row[1:] for row in rows("| state |")}
    assert stated == {
        state.name: [TRANSITIONS[state][kind].name if kind in TRANSITIONS[state] else "" for kind in kinds]
        for state in State
    }
    roles = {"S": Role.SCHEDULER, "M": Role.MANAGER}
    tags = {f"`{MESSAGES_BY_KIND[kind].tag}`": kind for kind in SPEAKER}
    crossing = {
        (roles[who], State[state], tags[tag])
        for who, states, messages, _ in rows("| receiver |")
        for state in states.split(", ")
        for tag in messages.split(", ")
    }
    assert crossing == {(role, state, kind) for role in Role for state in State for kind in CROSSING[role][state]}


def test_every_error_code_of_the_code_is_stated() -> None:
    stated = {row[0].strip("`") for row in rows("| code |")}
    root = Path(__file__).parents[3]
    sources = [
        *(root / "plugin" / "cosched_plugin").rglob("*.py"),
        *(root / "emulator" / "cosched_emulator" / "couplings").rglob("*.py"),
    ]
    used = set()
    for source in sources:
        used |= set(re.findall(r"(?:RemoteProtocolError|Fault|ErrorReport)\(\s*\"(\w+)\"", source.read_text()))
    assert used == stated
