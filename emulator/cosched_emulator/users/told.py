"""What a manager answers about its jobs, in words: texts of times, of a job's fields, of why it waits and when it starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from cosched_emulator.offered import QUEUED, REASONS
from cosched_hwmodel.units import MIB, WHOLE_PPM, amounts_text
from cosched_terminal.console import printable

Row = Mapping[str, Any]
UNKNOWN: Final = "-"
_UNITS: Final = ("_s", "_mb", "_bytes", "_j")  # endings of names, for people behind the value


def rows_of(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of an answer's table as maps."""
    columns = table["columns"]
    return [dict(zip(columns, row, strict=True)) for row in table["rows"]]


def clock_text(seconds: float | None, unknown: str = UNKNOWN) -> str:
    """Return a span as Slurm writes it, ``m:s``, ``h:m:s`` or ``d-h:m:s``, cut to whole seconds."""
    if seconds is None:
        return unknown
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def job_label(row: Row) -> str:
    """Return the label of a job: its number, or array and task."""
    if row.get("array_id") is None:
        return str(row["job_id"])
    return f"{row['array_id']}_{row['array_index']}"


def why_text(told: Row, rows: Iterable[Row]) -> str:
    """Return why jobs do not run, a line each, and when they will."""
    lines = [f"job {row['job']}{why_line(row)}" for row in rows]
    return "\n".join([printable(line) for line in [*lines, *([basis_text(told)] if told else [])]]) + "\n"


def why_line(row: Row) -> str:
    """Return why one job does not run, behind its number: ``: JobHeldUser: it is held``, or its state."""
    if row["state"] != "PENDING":
        return f": {row['state']}" + (f": {row['reason']}" if row.get("reason") else "")
    where = f" (partition {join_values(row['partitions'])})" if row.get("partitions") else ""
    starts = f"; it starts {when_text(row)}" if row.get("start_s") is not None else ""
    return f"{where}: {reason_text(row['reason'] or QUEUED)}{starts}"


def meanings() -> dict[str, str]:
    """Return the names that reasons of pending jobs have, and what each means."""
    from cosched_plugin.common.limits import LIMIT_REASONS  # noqa: PLC0415 - a help must not pay for it

    return {**REASONS, **LIMIT_REASONS}


def reason_text(reason: str) -> str:
    """Return a reason with what its name means; a sentence of a scheduler stays alone."""
    meaning = meanings().get(reason)
    return f"{reason}: {meaning}" if meaning else reason


def expected_start(told: Row, row: Row) -> dict[str, Any]:
    """Return an estimate of a job, with the manager's own reason where the job waits for something besides the scheduler."""
    asked = row["reason"] == QUEUED and told["reason"]
    return {**told, "reason": told["reason"] if asked else row["reason"]}


def when_text(row: Row) -> str:
    """Return when a job is expected to start, and how sure that is."""
    at = clock_text(row["start_s"])
    if row["bound"]:
        return f"not before {at}"
    if row["low_s"] is None:
        return f"at about {at} (too few starts for a range)"
    return f"at about {at}, between {clock_text(row['low_s'])} and {clock_text(row['high_s'])} in 4 of 5 cases"


def basis_text(told: Row) -> str:
    """Return what estimates rest on."""
    if told.get("trouble") and told["age_s"] is None:
        return f"no estimates: {told['trouble']}"
    draws = f"{told['draws']} draw{'s' * (told['draws'] > 1)}" if told["draws"] else "one run with predicted run times"
    text = f"estimated {clock_text(told['age_s'])} ago, from {draws}"
    record = told.get("record")
    if record and record["starts"]:
        text += f"; median error of the last {record['starts']}: {clock_text(record['median_error_s'])}"
    return text + (f"; {told['trouble']}" if told.get("trouble") else "")


def job_text(row: Row) -> str:
    """Return the details of one job, one line per field."""
    return "".join([f"{printable(f'{name:<22} {value}')}\n" for name, value in job_fields(row)])


def job_fields(row: Row) -> Iterator[tuple[str, str]]:
    """Yield the names of a job's fields without their units, and their values with them."""
    for key, value in {"job": job_label(row), **row}.items():
        yield words_of(key), value_text(key, value)


def words_of(key: str) -> str:
    """Return the name of a field for people, without its unit."""
    for ending in _UNITS:
        key = key.removesuffix(ending)
    return key.replace("_", " ")


def value_text(key: str, value: Any) -> str:
    """Return the value of a field for people, with the unit that the name says."""
    if value is None or value == "":
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and key.endswith("_s"):
        return f"{1000 * value:.3g} ms" if 0 < value < 1 else f"{value:g} s" if value < 60 else clock_text(value)
    if isinstance(value, float) and key.endswith("_j"):
        return f"{value:.6g} J"
    if isinstance(value, int) and key.endswith("_mb"):
        return f"{value} MiB"
    if isinstance(value, int) and key.endswith("_bytes"):
        return f"{value / MIB:.0f} MiB"
    if key in ("resources", "licences"):
        return amounts_text(value) or UNKNOWN
    if key == "usage" and isinstance(value, list | tuple):  # as `submit --usage` takes it
        return ":".join([f"{part_ppm / WHOLE_PPM:g}" for part_ppm in value[1:]])
    if isinstance(value, list | tuple):
        return join_values(value) or UNKNOWN
    return f"{value:g}" if isinstance(value, float) else str(value)


def join_values(values: Sequence[Any]) -> str:
    """Return values separated by commas, with inner lists in brackets."""
    return ",".join([f"[{join_values(each)}]" if isinstance(each, list | tuple) else str(each) for each in values])
