"""A job as described in the head of a script and on the command line, and the request that submits it.

The lines of a script that begin with ``#SBATCH`` or ``#COSCHED`` are read in order, up to the first command. A later line
overrides an earlier one, and the command line overrides both. The script is not executed: the job's run time is an option.
"""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from cosched_emulator.cli.job_options import (
    DEFAULT_TIME,
    Array,
    JobCommand,
    ignored_names,
    ignored_options,
    job_options,
    read_time,
)
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.users.requests import MOST_TASKS, Dependency, SubmitJob
from cosched_hwmodel.units import MIB
from cosched_plugin.protocol.messages import JobSpec
from cosched_terminal.commands import Misread

_MARKS: Final = ("#SBATCH", "#COSCHED")
_MOST_BYTES: Final = 16 * MIB


class Script(NamedTuple):
    """The head of a script: the options by their names in Python, and sbatch's options that have no effect here."""

    values: Mapping[str, Any]
    ignored: tuple[str, ...]


def read_script(file: str) -> Script:
    """Read the head of a script, ``-`` for standard input; InputError with file and line for what cannot be read."""
    name = "standard input" if file == "-" else file
    lines = _text_of(file, name).splitlines()
    if not lines or not lines[0].startswith("#!"):
        raise InputError(name, "a script that begins with #!", repr(lines[0][:40]) if lines else "nothing", 1)
    command = JobCommand("script", params=[*job_options(), *ignored_options("--parsable", "-W --wait")])
    values: dict[str, Any] = {}
    ignored: list[str] = []
    for number, line in enumerate(lines, 1):
        words = line.split(maxsplit=1)
        if words and not words[0].startswith("#"):
            break
        if len(words) == 2 and words[0] in _MARKS:
            given, without_effect = _read_line(command, words[1], name, number)
            values.update(given)
            ignored += without_effect
    return Script(values, tuple(dict.fromkeys(ignored)))


def _text_of(file: str, name: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read(_MOST_BYTES)
        with Path(file).open(encoding="utf-8") as stream:
            return stream.read(_MOST_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no UTF-8"
        raise InputError(name, f"a script that can be read ({why})") from None


def _read_line(command: click.Command, text: str, file: str, line: int) -> tuple[dict[str, Any], list[str]]:
    """Return the options of one line, and the options without effect here."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise InputError(file, f"options as in a shell ({error})", repr(text), line) from None
    try:
        with command.make_context("script", words) as context:
            return {key: value for key, value in context.params.items() if value is not None}, ignored_names(context)
    except Misread as error:
        raise InputError(file, error.expected, repr(error.got), line, _long_name(error.param)) from None
    except click.NoSuchOption as error:
        known = [name for option in command.params for name in option.opts if not getattr(option, "hidden", False)]
        near = difflib.get_close_matches(error.option_name, known, n=1)
        expected = f"an option of a job, perhaps {near[0]}" if near else "an option of a job"
        raise InputError(file, expected, repr(error.option_name), line) from None
    except click.UsageError as error:
        raise InputError(file, f"options of a job ({error.format_message()})", repr(text), line) from None


def _long_name(option: click.Parameter | None) -> str | None:
    return option.opts[-1] if option is not None else None


def request_of(values: Mapping[str, Any], default_name: str = "") -> tuple[SubmitJob, list[str]]:
    """Return the request for a job with these options, and notes for its user; ConfigurationError if they contradict each other."""
    given = {"name": default_name, **{key: value for key, value in values.items() if value is not None}}
    processes, ppn_min, ppn_max, notes = _layout(given)
    threads = given.get("threads_per_process", 1)
    limit_us = given.get("time", read_time(DEFAULT_TIME))
    estimate_us = given.get("estimate", limit_us)
    if not estimate_us:
        raise ConfigurationError("--time", "an --estimate, because there is no limit", "none")
    array: Array = given.get("array", Array((), 0))
    if len(array.tasks) > MOST_TASKS:
        raise ConfigurationError("--array", f"at most {MOST_TASKS} tasks", str(len(array.tasks)))
    exclusive = given.get("exclusive")
    if exclusive not in (None, "node"):
        notes.append(
            f"--exclusive={exclusive}: the job gets whole nodes; other jobs do not share them, those of the same user included"
        )
    given["exclusive"] = exclusive is not None
    given["priority"] = given.get("priority", 0) - given.get("nice", 0)
    delay_us: int | None = given.get("begin")
    if delay_us == 0:
        notes.append("--begin: that time has come; the job may start at once")
    memory_mb = _memory_mb(given, 1 if processes == 1 else ppn_max if ppn_min == ppn_max else 0, threads)
    job = JobSpec(
        id=0,
        submit_us=0,
        processes=processes,
        estimate_us=estimate_us,
        limit_us=limit_us or None,
        ppn_min=ppn_min,
        ppn_max=ppn_max,
        memory_mb=memory_mb,
        **{key: given[key] for key in JobSpec._fields if key in given},
    )
    request = SubmitJob(
        job,
        tasks=array.tasks,
        at_once=array.at_once,
        after=tuple([Dependency(kind, job) for kind, job in given.get("dependency", ())]),
        delay_us=delay_us or 0,
        all_memory=given.get("mem") == 0,
        **{key: given[key] for key in SubmitJob._fields if key in given},
    )
    return request, notes


def _layout(given: Mapping[str, Any]) -> tuple[int, int, int, list[str]]:
    """Return the number of processes, their least and largest number per node, and notes.

    All nodes but the last hold the same number of processes, so not every number of processes fits every number of nodes.
    """
    processes: int | None = given.get("ntasks")
    per_node: int | None = given.get("ntasks_per_node")
    if "nodes" not in given:
        if processes is None:
            return per_node or 1, per_node or 1, per_node or 0, []
        return processes, 1, per_node or 0, []
    fewest, most = given["nodes"]
    if processes is None:
        if fewest != most:
            raise ConfigurationError(
                "--nodes", "one number where --ntasks does not say how many processes", f"{fewest}-{most}"
            )
        return fewest * (per_node or 1), per_node or 1, per_node or 1, []
    notes = []
    if processes < most:
        notes.append(f"{processes} processes take no more than {processes} nodes")
        fewest, most = min(fewest, processes), processes
    ppn_min = _divide_up(processes, most)
    ppn_max = _divide_up(processes, fewest)
    while _divide_up(processes, ppn_max) < fewest:
        ppn_max -= 1
    if per_node is not None:
        ppn_max = min(ppn_max, per_node)
    if ppn_min > ppn_max:
        wanted = f"{processes} processes on {fewest} nodes" if fewest == most else f"{processes} on {fewest} to {most}"
        limit = "" if per_node is None else f", at most {per_node} on a node"
        raise ConfigurationError(
            "--nodes", "the same number of processes on each node except the last", f"{wanted}{limit}"
        )
    return processes, ppn_min, ppn_max, notes


def _memory_mb(given: Mapping[str, Any], per_node: int, threads: int) -> int:
    """Return the memory of a process, of which ``per_node`` are on a node (0: not known)."""
    named = [key for key in ("mem", "mem_per_cpu", "mem_per_task") if key in given]
    if len(named) > 1:
        raise ConfigurationError(_flag(named[0]), f"no {_flag(named[1])} beside it", "both")
    match named:
        case ["mem"]:
            if not per_node:
                expected = "a fixed number of processes on a node (--nodes, --ntasks-per-node), or --mem-per-task"
                raise ConfigurationError("--mem", expected, "neither")
            return _divide_up(given["mem"], per_node)
        case ["mem_per_cpu"]:
            return int(given["mem_per_cpu"]) * threads
        case _:
            return int(given.get("mem_per_task", 0))


def _divide_up(number: int, by: int) -> int:
    return -(-number // by)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
