"""A dump of Slurm's accounting: the text of `sacct -P` with any delimiter, or `sacct --json`, also several of one kind joined together.

Facts of JSON were met with Slurm 22.05.8; of later versions' JSON, numbers may be tables with ``set`` and ``number``, and states lists.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cosched_emulator.errors import InputError
from cosched_emulator.workload.sacct.sacct_rows import (
    BAD_ROWS,
    FIELDS,
    SKIP,
    TOLD_AGAIN,
    UNKNOWN_STATE,
    Dump,
    SacctRow,
    instant_of,
    known_state,
    label_of,
    minutes_of,
    newer,
    node_list_of,
    nodes_of,
    number_of,
)
from cosched_emulator.workload.sacct.sacct_text import TextDump
from cosched_emulator.workload.side_files.side_file_rows import text_of
from cosched_plugin.common.slurm_notation import number, words_of

_JOB: Final = "the answer of sacct --json: a list of jobs with time, state and tres"
_BETWEEN: Final = re.compile(r"[\s\ufeff]*")
_ODD: Final = (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError)


def read_dump(file: str, time_zone: str | None = None, *, skip_bad_rows: bool = False) -> Dump:
    """Read a dump. ``time_zone``: of times that name none, such as Europe/Athens; None: they are taken as UTC.

    Raises InputError for a file that is no dump, or has not the fields that a log needs, and for a row that cannot be read unless such
    rows are skipped; ConfigurationError for a time zone that is not known.
    """
    text = text_of(file, errors="replace")  # a name is what its user typed
    if text.lstrip().startswith("{"):
        return _of_json(file, text, skip_bad_rows=skip_bad_rows)
    return TextDump(file, text, time_zone, skip_bad_rows=skip_bad_rows).read()


# ---------------------------------------------------------------- JSON


def _of_json(file: str, text: str, *, skip_bad_rows: bool) -> Dump:
    found: dict[tuple[str, str, int], SacctRow] = {}
    counts: Counter[str] = Counter()
    clusters: set[str] = set()
    bad_row = ""
    for place, job in enumerate((job for jobs in _documents(file, text) for job in jobs), 1):
        try:
            rows = list(_rows_of_job(place, job))
        except _ODD as error:
            got = f"{type(error).__name__}: {error}"[:80]
            if not skip_bad_rows:
                raise InputError(file, _JOB, got, field=f"jobs[{place - 1}]", hint=SKIP) from error
            counts[BAD_ROWS] += 1
            bad_row = bad_row or f"job {place}: expected {_JOB}, got {got}"
            continue
        clusters.add(str(job.get("cluster")))
        for row in rows:
            if known_state(row.state) is None:
                counts[UNKNOWN_STATE] += 1
                continue
            key = row.number, row.label.partition(".")[2], row.submit_s
            counts[TOLD_AGAIN] += key in found
            if key not in found or newer(row, found[key]):
                found[key] = row
    if len(clusters) > 1:
        raise InputError(file, "the jobs of one cluster", ", ".join(sorted(clusters)))
    return Dump(tuple(found.values()), (), +counts, has_zone=True, bad_row=bad_row)


def _documents(file: str, text: str) -> Iterator[Sequence[Any]]:
    """Yield the jobs of each answer that the text holds, one after the other."""
    decoder = json.JSONDecoder()
    place = _end_of_blanks(text, 0)
    while place < len(text):
        try:
            content, place = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            raise InputError(file, "JSON", error.msg, error.lineno) from error
        except (
            ValueError,
            RecursionError,
        ) as error:  # a number of thousands of digits; brackets of thousands of levels
            raise InputError(file, "JSON", f"{type(error).__name__}: {error}"[:80]) from error
        jobs = content.get("jobs") if isinstance(content, dict) else None
        if not isinstance(jobs, list):
            raise InputError(file, _JOB, "none")
        yield jobs
        place = _end_of_blanks(text, place)


def _end_of_blanks(text: str, place: int) -> int:
    found = _BETWEEN.match(text, place)
    return found.end() if found else place


# Over 50 lines: one line for each field.
def _rows_of_job(place: int, job: Mapping[str, Any]) -> Iterator[SacctRow]:
    """Yield the row of a job, and those of its steps. Raises one of `_ODD`."""
    times, array, het = job["time"], job["array"], job["het"]
    allocated, requested = (_amounts_of(job["tres"][key]) for key in ("allocated", "requested"))
    own, task, offset = str(job["job_id"]), number(array.get("task_id")), number(het.get("job_offset"))
    label = own
    if array.get("job_id") and task is not None:
        label = f"{array['job_id']}_{task}"
    elif het.get("job_id"):
        label = f"{het['job_id']}+{offset or 0}"
    submit_s = _instant(times, "submission")
    if submit_s is None:
        raise ValueError("no time of submission")
    total = times["total"]
    row = SacctRow(
        line=place,
        number=number_of(own),
        label=label_of(label),
        user=_text(job, "user"),
        partition=_text(job, "partition"),
        state=words_of(job["state"]["current"])[0].upper(),
        submit_s=submit_s,
        eligible_s=_instant(times, "eligible"),
        start_s=_instant(times, "start"),
        end_s=_instant(times, "end"),
        elapsed_s=instant_of(number(times["elapsed"]) or 0) or 0,
        suspended_s=instant_of(number(times["suspended"]) or 0) or 0,
        limit_min=minutes_of(number(times["limit"])),
        nodes=nodes_of(allocated.get("node", 0)),
        cpus=FIELDS["cpus"].read(str(allocated.get("cpu") or requested.get("cpu", 0))),
        asked=FIELDS["asked"].read(str(number(job["required"]["CPUs"]) or 0)),
        cpu_s=(number(total["seconds"]) or 0) + (number(total["microseconds"]) or 0) / 1e6,
        node_list=node_list_of(_text(job, "nodes")),
        account=_text(job, "account"),
        qos=_text(job, "qos"),
        priority=number(job.get("priority")),
        reservation=_text(job.get("reservation") or {}, "name"),
        reason=_text(job["state"], "reason"),
        memory=_memory_of(job["required"]),
        requested=requested,
        allocated=allocated,
        name=_text(job, "name"),
        command=_text(job, "submit_line"),
        at_once=number(array["limits"]["max"]["running"]["tasks"]) or 0 if "limits" in array else 0,
    )
    yield row
    for place_of_step, step in enumerate(job.get("steps") or ()):
        named = step["step"].get("id") if isinstance(step.get("step"), Mapping) else None
        yield row._replace(label=f"{label}.{named or place_of_step}")


def _instant(times: Mapping[str, Any], key: str) -> int | None:
    return instant_of(number(times.get(key)) or 0)


def _text(table: Mapping[str, Any], key: str) -> str:
    """Return a text without what no file can hold: halves of letters."""
    return str(table.get(key) or "").encode("utf-8", "replace").decode("utf-8")


def _amounts_of(items: Sequence[Mapping[str, Any]] | None) -> Mapping[str, int]:
    """Return the amounts of a job by the names that `sacct -P` gives them; what has no count is left out."""
    found = {}
    for item in items or ():
        count = number(item["count"])
        if count is not None:
            found[f"{item['type']}/{item['name']}" if item.get("name") else str(item["type"])] = count
    return found


def _memory_of(required: Mapping[str, Any]) -> str:
    """Return what a job asks for, as `sacct -P` of Slurms before 21.08 writes it: of each CPU, or of each node."""
    for key, of in (("memory_per_cpu", "c"), ("memory_per_node", "n")):
        if amount := number(required.get(key)):
            return f"{amount}M{of}"
    return ""
