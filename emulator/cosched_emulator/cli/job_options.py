"""The options that describe a job, with sbatch's names, for the command line and the head of a script.

Times are emulated times. Every value is checked as it is read, so that an error names the option, or the line of the script.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

import click

from cosched_emulator.offered import dependencies_of
from cosched_emulator.users.idset import read_idset
from cosched_hwmodel.units import SECOND_US, amounts_of, duration_s
from cosched_terminal.commands import Reader
from cosched_terminal.help_text import Command, Option, entitle

# The earliest start of a job, in the notation of sbatch's ``--begin``.

EXPECTED: Final = "HH:MM[:SS], YYYY-MM-DD[THH:MM[:SS]], now+COUNT[UNIT], today, tomorrow, midnight, noon or teatime"
_TIMES_OF_DAY: Final = {"midnight": time(0), "noon": time(12), "teatime": time(16)}
_UNITS_S: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_MOST_BEGIN_S: Final = 10**10  # some 300 years


def read_begin(text: str, now: datetime | None = None) -> int:
    """Return the microseconds from ``now`` (default: the present) to the begin time; 0 if it has passed.

    A time of day is the next one, in local time. ValueError says what was expected.
    """
    now = now or datetime.now()
    words = text.strip().lower()
    if words == "now":
        return 0
    if words.startswith("now+"):
        return _delay_s(words.removeprefix("now+")) * SECOND_US
    begin = _begin(words, now)
    # Time stamps, because a day may have 23 or 25 hours.
    return max(0, round((begin.timestamp() - now.timestamp()) * SECOND_US))


def _delay_s(text: str) -> int:
    matched = re.fullmatch(r"(\d{1,9}) ?([a-z]*)", text, re.ASCII)
    unit = "second" if matched and not matched[2] else matched and matched[2].removesuffix("s")
    if matched is None or unit not in _UNITS_S:
        raise ValueError("now+COUNT[UNIT] with the unit seconds, minutes, hours, days or weeks")
    delay_s = int(matched[1]) * _UNITS_S[unit]
    if delay_s > _MOST_BEGIN_S:
        raise ValueError(f"at most {_MOST_BEGIN_S} seconds from now")
    return delay_s


def _begin(words: str, now: datetime) -> datetime:
    if words in ("today", "tomorrow"):
        return datetime.combine(now.date() + timedelta(days=words == "tomorrow"), time(0))
    if words in _TIMES_OF_DAY:
        return _next(_TIMES_OF_DAY[words], now)
    day, separator, clock = words.partition("t")
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", day, re.ASCII):
            return datetime.combine(date.fromisoformat(day), _time_of_day(clock) if separator else time(0))
        return _next(_time_of_day(words), now)
    except ValueError:
        raise ValueError(EXPECTED) from None


def _time_of_day(text: str) -> time:
    if not re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text, re.ASCII):
        raise ValueError(text)
    return datetime.strptime(text, "%H:%M:%S" if text.count(":") == 2 else "%H:%M").time()


def _next(moment: time, now: datetime) -> datetime:
    begin = datetime.combine(now.date(), moment)
    return begin if begin >= now else begin + timedelta(days=1)


DEFAULT_TIME: Final = "1:00:00"
BOUNDS: Final = ("cpu", "network", "disk")  # the resources that may bound a job; of equal shares the first counts
_MOST_S: Final = 10**10  # some 300 years
_MOST_COUNT: Final = 10**9


class Array(NamedTuple):
    """The tasks of an array, and how many of them may run at once (0: all)."""

    tasks: tuple[int, ...]
    at_once: int


def read_count(text: str) -> int:
    """Return a whole number above 0."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and 1 <= int(text) <= _MOST_COUNT):
        raise ValueError("a whole number above 0")
    return int(text)


def read_number(text: str) -> int:
    """Return a whole number, also below 0."""
    if not re.fullmatch(r"[+-]?\d{1,10}", text, re.ASCII):
        raise ValueError("a whole number")
    return int(text)


def read_node_range(text: str) -> tuple[int, int]:
    """Return the least and the most nodes of ``4`` or ``2-4``."""
    least, dash, most = text.partition("-")
    try:
        pair = (read_count(least), read_count(most if dash else least))
    except ValueError:
        raise ValueError("a number of nodes, or a range such as 2-4") from None
    if pair[0] > pair[1]:
        raise ValueError("a range that ascends")
    return pair


def read_time(text: str) -> int:
    """Return the microseconds of min, min:s, h:m:s, d-h, d-h:m or d-h:m:s; 0, or UNLIMITED, stands for no limit."""
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return 0
    seconds = duration_s(text)
    if seconds > _MOST_S:
        raise ValueError(f"at most {_MOST_S} seconds")
    return seconds * SECOND_US


def read_span(text: str) -> int:
    """Return the microseconds of a time in the notation of `read_time`, without the forms for no limit."""
    span_us = read_time(text)
    if span_us == 0:
        raise ValueError("a time above 0")
    return span_us


def read_seconds(text: str) -> int:
    """Return the microseconds of a number of seconds above 0."""
    return math.ceil(_number(text, Decimal("0.000001"), Decimal(_MOST_S), "a number of seconds above 0") * SECOND_US)


def read_memory(text: str) -> int:
    """Return MiB, rounded up, of a number with one of the suffixes K, M, G and T, or none."""
    factors = {"K": Decimal(1) / 1024, "M": Decimal(1), "G": Decimal(1024), "T": Decimal(1024**2)}
    unit = text[-1:].upper()
    expected = "an amount of memory above 0, such as 500, 500M or 2G"
    number = _number(text[:-1] if unit in factors else text, Decimal(0), Decimal(10**12), expected)
    amount_mb = math.ceil(number * factors.get(unit, Decimal(1)))
    if amount_mb < 1:
        raise ValueError(expected)
    return amount_mb


def read_node_memory(text: str) -> int:
    """Return MiB as `read_memory` does, or 0 for all memory of a node."""
    return 0 if re.fullmatch(r"0+[KMGTkmgt]?", text, re.ASCII) else read_memory(text)


def read_exclusive(text: str) -> str:
    """Return the kind of exclusive use: ``node`` (no other job on the job's nodes), or the named kind."""
    if text not in ("node", "user", "mcs"):
        raise ValueError("nothing, user or mcs")
    return text


def read_partitions(text: str) -> tuple[str, ...]:
    """Return the names of ``short,long``."""
    names = tuple([name.strip() for name in text.split(",")])
    if not all(names):
        raise ValueError("names of partitions, several after commas")
    return names


def read_array(text: str) -> Array:
    """Return the tasks of ``0-9``, ``1,3,7``, ``0-15:4``, and after a ``%`` how many may run at once."""
    tasks, percent, at_once = text.partition("%")
    return Array(read_idset(tasks), read_count(at_once) if percent else 0)


def read_demand(text: str) -> tuple[int, int, int]:
    """Return memory bandwidth, network and disk in MB/s per process; values left out at the end are 0."""
    parts = text.split(":")
    if len(parts) > 3 or not all(part.isascii() and part.isdigit() and len(part) <= 12 for part in parts):
        raise ValueError("MB/s a process, MEMORY:NETWORK:DISK, such as 2000:0:50")
    memory, network, disk = (*map(int, parts), *[0] * (3 - len(parts)))
    return memory, network, disk


def read_usage(text: str) -> tuple[str, int, int, int, int]:
    """Return the resource that bounds a job; in millionths: shares of CPU, network and disk, and its memory as a share of a node's."""
    expected = "fractions CPU:NETWORK:DISK:MEMORY, the first three with a sum of 1, such as 0.7:0.3:0:0.25"
    parts = [_number(part, Decimal(0), Decimal(1), expected) for part in text.split(":")]
    if len(parts) != 4 or sum(parts[:3]) != 1 or any(part * SECOND_US % 1 for part in parts):
        raise ValueError(expected)
    cpu, network, disk, memory = (int(part * SECOND_US) for part in parts)
    largest = max(cpu, network, disk)
    return BOUNDS[(cpu, network, disk).index(largest)], cpu, network, disk, memory


def read_self_slowdown(text: str) -> tuple[int, int]:
    """Return a job's self slowdown in millionths: with a process on each CPU, and the further factor with all cores of a CPU in use."""
    expected = "two factors NODE:CPU above 0, such as 1.2:1.05"
    parts = [_number(part, Decimal("0.000001"), Decimal(1000), expected) for part in text.split(":")]
    if len(parts) != 2:
        raise ValueError(expected)
    return round(parts[0] * SECOND_US), round(parts[1] * SECOND_US)


def _number(text: str, least: Decimal, most: Decimal, expected: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(expected) from None
    if not (number.is_finite() and least <= number <= most):
        raise ValueError(expected)
    return number


def _read(read: Callable[[str], Any], metavar: str, names: str, text: str) -> Option:
    return Option(names.split(), type=Reader(read), metavar=metavar, help=text)


def _flag(names: str, text: str) -> Option:
    return Option(names.split(), is_flag=True, default=None, help=text)


def job_options() -> list[click.Option]:
    """Return new option objects; the value of an option that was not given is None."""
    groups = {
        "What the job is": [
            Option(["-J", "--job-name", "name"], metavar="NAME", help="Name.  [default: name of the script]"),
            _read(read_time, "TIME", "-t --time", f"Time limit; 0: none.  [default: {DEFAULT_TIME}]"),
            _read(read_span, "TIME", "--estimate", "Expected run time.  [default: the time limit]"),
            _read(read_array, "TASKS", "-a --array", "An array: 0-9, 1,3,7 or 0-15:4; %N: N at a time."),
            Option(["--requeue/--no-requeue"], default=None, help="Run the job again if a node fails.  [default: yes]"),
        ],
        "What it asks for": _asked_options(),
        "When, and for whom": [
            _read(dependencies_of, "LIST", "-d --dependency", "Start after: afterok:1:2,afterany:3."),
            _read(read_begin, "WHEN", "-b --begin", "Not before: 16:00, 2030-01-31T12:00, now+1hour, tomorrow."),
            _flag("-H --hold held", "Hold the job until it is released."),
            _read(
                read_partitions, "LIST", "-p --partition partitions", "Any of these partitions.  [default: the site's]"
            ),
            Option(["-q", "--qos"], metavar="NAME", help="Its QOS, for limits."),
            Option(["-A", "--account"], metavar="NAME", help="Its account, for limits."),
            _read(read_number, "N", "--priority", "Priority; only operators raise it above 0.  [default: 0]"),
            _read(read_number, "[N]", "--nice", "Lower the priority; without N, by 100."),
        ],
        "What it would do": _emulated_options(),
    }
    for title, options in groups.items():
        entitle(title, options)
    return [each for options in groups.values() for each in options]


def _asked_options() -> list[Option]:
    return [
        _read(read_count, "N", "-n --ntasks", "Processes.  [default: 1, or one a node]"),
        _read(read_node_range, "N[-M]", "-N --nodes", "Nodes for the processes."),
        _read(
            read_count, "N", "-c --cpus-per-task threads_per_process", "Hardware threads of a process.  [default: 1]"
        ),
        _read(read_count, "N", "--ntasks-per-node", "Processes on a node; with --ntasks at most so many."),
        _read(read_memory, "MIB", "--mem-per-task", "Memory of a process in MiB; suffixes K, M, G, T."),
        _read(read_memory, "MIB", "--mem-per-cpu", "Memory of each hardware thread of a process."),
        _read(read_node_memory, "MIB", "--mem", "Memory of all processes on a node; 0: all memory of the node."),
        _read(read_exclusive, "[user]", "--exclusive", "Whole nodes, not shared with other jobs."),
        _flag("--unpaired", "Time sharing: no job of another slot on its nodes at the same time."),
        _read(
            amounts_of, "LIST", "--gres resources", "Resources of each node, by the machine's names: gpu:2,gpu-big:1."
        ),
        _read(amounts_of, "LIST", "-L --licenses licences", "Licences of the whole cluster: matlab:4,ansys."),
    ]


def _emulated_options() -> list[Option]:
    return [
        _read(read_demand, "M:N:D", "--demand", "MB/s a process of memory bandwidth, network, disk."),
        _read(read_usage, "C:N:D:M", "--usage", "Shares of CPU, network, disk; memory as part of a node's."),
        _read(read_self_slowdown, "N:C", "--self-slowdown", "Factors of its processes on all CPUs, and all cores."),
        _read(
            read_seconds, "S", "--run run_us", "Emulation: true run time alone, in seconds.  [default: the estimate]"
        ),
        Option(["--exit-code"], type=click.IntRange(0, 255), metavar="N", help="Emulation: exit code.  [default: 0]"),
    ]


# The options of sbatch that have no effect here, and the command that reads options as sbatch does.

# With a value, and without one.
_IGNORED_VALUES: Final = (
    "--acctg-freq|--batch|--bb|--bbf|-D --chdir|--cluster-constraint|-M --clusters|--comment|"
    "-C --constraint|--container|--container-id|-S --core-spec|--cores-per-socket|--cpu-freq|--cpus-per-gpu|--deadline|"
    "--delay-boot|-m --distribution|-e --error|-x --exclude|--export|--export-file|--extra|-B --extra-node-info|--gid|"
    "--gpu-bind|--gpu-freq|-G --gpus|--gpus-per-node|--gpus-per-socket|--gpus-per-task|--gres-flags|--hint|-i --input|"
    "--kill-on-invalid-dep|--mail-type|--mail-user|--mcs-label|--mem-bind|--mem-per-gpu|--mincpus|--network|"
    "-F --nodefile|-w --nodelist|--ntasks-per-core|--ntasks-per-gpu|--ntasks-per-socket|--open-mode|-o --output|"
    "--power|--prefer|--profile|--reservation|--signal|--sockets-per-node|--switches|"
    "--thread-spec|--threads-per-core|--time-min|--tmp|--tres-bind|--tres-per-task|--uid|--wait-all-nodes|--wckey|--wrap|"
    "--get-user-env|-k --no-kill|--propagate"
)
_IGNORED_FLAGS: Final = (
    "--contiguous|--ignore-pbs|-O --overcommit|-s --oversubscribe|-Q --quiet|"
    "--reboot|--spread-job|--stepmgr|--use-min-nodes|-v --verbose"
)


# Options with an optional value, and the value used if it is left out. As with getopt, a value must follow an "=".
_OPTIONAL: Final = {
    "--exclusive": "node",
    "--get-user-env": "",
    "--nice": "100",
    "--no-kill": "",
    "-k": "",
    "--propagate": "ALL",
}


class JobCommand(Command):
    """A command with the options of a job, some of which have an optional value: ``--exclusive`` or ``--exclusive=user``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments, after giving each option with an optional value its value."""
        own = args[: args.index("--")] if "--" in args else args
        given = [_with_value(word) for word in own]
        return super().parse_args(ctx, [*given, *args[len(own) :]])


def _with_value(word: str) -> str:
    if word not in _OPTIONAL:
        return word
    name = "--no-kill" if word == "-k" else word
    return f"{name}={_OPTIONAL[word]}"


def ignored_options(*more_flags: str) -> list[click.Option]:
    """Return sbatch's other options and ``more_flags``, hidden; each stores its name in the context (see `ignored_names`)."""
    with_values = [click.Option(names.split(), callback=_note, **_QUIET) for names in _IGNORED_VALUES.split("|")]
    flags = [*_IGNORED_FLAGS.split("|"), *more_flags]
    return with_values + [click.Option(names.split(), is_flag=True, callback=_note, **_QUIET) for names in flags]


_QUIET: Final[dict[str, Any]] = {"hidden": True, "expose_value": False, "multiple": False, "default": None}
_IGNORED: Final = "cosched_emulator.cli.job_options.ignored"  # key in a context


def ignored_names(context: click.Context) -> list[str]:
    """Return the given options that have no effect here."""
    names: list[str] = context.meta.get(_IGNORED, [])
    return names


def _note(context: click.Context, option: click.Parameter, value: object) -> None:
    if value is not None:
        context.meta.setdefault(_IGNORED, []).append(option.opts[-1])
