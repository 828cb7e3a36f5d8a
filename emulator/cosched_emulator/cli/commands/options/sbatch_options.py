"""The options of sbatch that have no effect here, and the command that reads options as sbatch does."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from cosched_emulator.cli.commands.options.job_options import Reader

# With a value, and without one.
_IGNORED_VALUES: Final = (
    "-A --account|--acctg-freq|--batch|--bb|--bbf|-D --chdir|--cluster-constraint|-M --clusters|--comment|"
    "-C --constraint|--container|--container-id|-S --core-spec|--cores-per-socket|--cpu-freq|--cpus-per-gpu|--deadline|"
    "--delay-boot|-m --distribution|-e --error|-x --exclude|--export|--export-file|--extra|-B --extra-node-info|--gid|"
    "--gpu-bind|--gpu-freq|-G --gpus|--gpus-per-node|--gpus-per-socket|--gpus-per-task|--gres|--gres-flags|--hint|-i --input|"
    "--kill-on-invalid-dep|-L --licenses|--mail-type|--mail-user|--mcs-label|--mem-bind|--mem-per-gpu|--mincpus|--network|"
    "-F --nodefile|-w --nodelist|--ntasks-per-core|--ntasks-per-gpu|--ntasks-per-socket|--open-mode|-o --output|"
    "-p --partition|--power|--prefer|--priority|--profile|-q --qos|--reservation|--signal|--sockets-per-node|--switches|"
    "--thread-spec|--threads-per-core|--time-min|--tmp|--tres-bind|--tres-per-task|--uid|--wait-all-nodes|--wckey|--wrap"
)
_IGNORED_OPTIONAL: Final = "--get-user-env|-k --no-kill|--propagate"
_IGNORED_FLAGS: Final = (
    "--contiguous|--ignore-pbs|-O --overcommit|-s --oversubscribe|-Q --quiet|"
    "--reboot|--spread-job|--stepmgr|--test-only|--use-min-nodes|-v --verbose"
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


class JobCommand(click.Command):
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


def read_nice(text: str) -> int:
    """Return an adjustment of a priority."""
    if not re.fullmatch(r"[+-]?\d{1,10}", text, re.ASCII):
        raise ValueError("a whole number")
    return int(text)


def ignored_options(*more_flags: str) -> list[click.Option]:
    """Return sbatch's other options and ``more_flags``, hidden; each stores its name in the context (see `ignored_names`)."""
    with_values = [click.Option(names.split(), callback=_note, **_QUIET) for names in _IGNORED_VALUES.split("|")]
    with_values += [
        click.Option(["--nice"], type=Reader(read_nice, "N"), callback=_note, **_QUIET),
        *[click.Option(names.split(), callback=_note, **_QUIET) for names in _IGNORED_OPTIONAL.split("|")],
    ]
    flags = [*_IGNORED_FLAGS.split("|"), *more_flags]
    return with_values + [click.Option(names.split(), is_flag=True, callback=_note, **_QUIET) for names in flags]


_QUIET: Final[dict[str, Any]] = {"hidden": True, "expose_value": False, "multiple": False, "default": None}
_IGNORED: Final = "cosched_emulator.cli.commands.options.sbatch_options.ignored"  # key in a context


def ignored_names(context: click.Context) -> list[str]:
    """Return the given options that have no effect here."""
    names: list[str] = context.meta.get(_IGNORED, [])
    return names


def _note(context: click.Context, option: click.Parameter, value: object) -> None:
    if value is not None:
        context.meta.setdefault(_IGNORED, []).append(option.opts[-1])
