"""Jobs as the command line names them: an application of a file or its demand, and the hardware threads that it holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from cosched_hwmodel.cli.node_choice import MOST_THREADS, threads_of_seat
from cosched_hwmodel.cli.output import CommandError, quoted
from cosched_hwmodel.composite.job_profile import Profile, ProfileError, from_mapping, to_mapping
from cosched_hwmodel.composite.on_node import Placed
from cosched_hwmodel.errors import suggestion
from cosched_hwmodel.text_formats import read_toml
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import ThreadMask

_RANGE: Final = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", re.ASCII)


class Job(NamedTuple):
    """A job on a node; ``label`` tells it from others of the same application. It has one process for each thread."""

    label: str
    profile: Profile
    threads: tuple[int, ...]

    @property
    def placed(self) -> Placed:
        """Return the job as the composite model takes it."""
        return Placed(self.profile, len(self.threads), ThreadMask(sum(1 << thread for thread in self.threads)))


def read_profiles(file: str) -> dict[str, Profile]:
    """Read a TOML file with a table of profile fields for each application. Raises CommandError with file, table and field."""
    try:
        tables = read_toml(file)
    except OSError as error:
        raise CommandError(file, f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise CommandError(file, f"expected TOML: {error}") from error
    return {name: _profile(table, f"{file}: {name}") for name, table in tables.items()}


def profiles_file(out: str) -> str:
    """Return the name of the file of profiles beside the node file ``out``."""
    return str(Path(out).with_suffix("")) + "-profiles.toml"


def profiles_text(title: str, profiles: Mapping[str, Profile]) -> str:
    """Return profiles as TOML that `read_profiles` reads, below a comment."""
    lines = [f"# {title}"]
    for name, profile in profiles.items():
        key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)
        lines += ["", f"[{key}]", *[f"{field} = {value}" for field, value in to_mapping(profile).items()]]
    return "\n".join(lines) + "\n"


def jobs_of(
    words: Sequence[str], profiles: Mapping[str, Profile], node: NodeShape, seat: str | None = None
) -> list[Job]:
    """Return the jobs of some words ``NAME[:FIELD=VALUE,...][@THREADS]``, placed on the node.

    NAME is an application of ``profiles`` unless fields follow it. A job without threads gets the lowest free one, or
    with a ``seat`` two jobs get the first two threads that sit so. Raises CommandError.
    """
    parsed = [_parse(word, profiles) for word in words]
    if seat is not None:
        if len(parsed) != 2 or any(threads for _, _, threads in parsed):
            raise CommandError("--seat", "expected two jobs without threads of their own")
        first, second = threads_of_seat(node, seat)
        parsed = [
            (name, profile, (thread,)) for (name, profile, _), thread in zip(parsed, (first, second), strict=True)
        ]
    held: dict[int, str] = {}
    for name, _, threads in parsed:
        for thread in threads:
            _hold(held, name, thread, node)
    jobs = []
    for name, profile, threads in parsed:
        if not threads:
            free = next((thread for thread in range(node.threads) if thread not in held), None)
            if free is None:
                raise CommandError(
                    name, f"expected a free hardware thread, and all {node.threads} of {node.name} are held"
                )
            held[free] = name
            threads = (free,)  # noqa: PLW2901 - the threads that were not given
        jobs.append(Job(name, profile, threads))
    return _labelled(jobs)


def _parse(word: str, profiles: Mapping[str, Profile]) -> tuple[str, Profile, tuple[int, ...]]:
    text, at, places = word.partition("@")
    name, colon, fields = text.partition(":")
    if not name:
        raise CommandError(word, "expected NAME[:FIELD=VALUE,...][@THREADS]")
    if colon:
        profile = _profile(_fields(fields, word), word)
    elif name in profiles:
        profile = profiles[name]
    elif profiles:
        raise CommandError(word, f'no application "{name}"; {suggestion(name, profiles)}')
    else:
        raise CommandError(word, f"expected its demand, such as {name}:memory_mbs=2000, or --profiles FILE")
    return name, profile, _threads(places, word) if at else ()


def _fields(text: str, word: str) -> dict[str, int]:
    values = {}
    for part in text.split(","):
        field, _, value = part.partition("=")
        if not re.fullmatch(r"[0-9]{1,18}", value, re.ASCII):
            raise CommandError(word, f"expected FIELD=WHOLE NUMBER, got {part!r}")
        values[field.strip()] = int(value)
    return values


def _profile(table: Any, where: str) -> Profile:
    if not isinstance(table, Mapping):
        raise CommandError(where, "expected a table of the fields of a profile")
    try:
        return from_mapping(table)
    except ProfileError as error:
        raise CommandError(f"{where}: {error.where}", error.text) from error


def _threads(text: str, word: str) -> tuple[int, ...]:
    """Return the threads of a list such as ``0-3,8``."""
    threads: list[int] = []
    for part in text.split(","):
        matched = _RANGE.fullmatch(part)
        if matched is None or not int(matched[1]) <= int(matched[2] or matched[1]) < MOST_THREADS:
            raise CommandError(word, f"expected hardware threads such as 0-3,8 after @, got {text!r}")
        threads += range(int(matched[1]), int(matched[2] or matched[1]) + 1)
    return tuple(threads)


def _hold(held: dict[int, str], name: str, thread: int, node: NodeShape) -> None:
    if thread >= node.threads:
        raise CommandError(
            f"{name}@{thread}", f"expected a hardware thread from 0 to {node.threads - 1} of {node.name}"
        )
    if thread in held:
        raise CommandError(f"{name}@{thread}", f"expected a free hardware thread, and {held[thread]} holds it")
    held[thread] = name


def _labelled(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs with different labels: the second one of an application is ``NAME#2``."""
    seen: dict[str, int] = {}
    labelled = []
    for job in jobs:
        seen[job.label] = number = seen.get(job.label, 0) + 1
        labelled.append(job if number == 1 else job._replace(label=f"{job.label}#{number}"))
    return labelled
