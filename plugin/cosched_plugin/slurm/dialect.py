"""How each version of slurmrestd's interface wants a change of a job to be said: the one table of what works where.

Every form here has been met: v0.0.37 and v0.0.38 at Slurm 22.05, v0.0.40 to v0.0.42 at 24.11, v0.0.42 to v0.0.45 at 26.05. A wrong form
is not refused. From v0.0.40 on slurmrestd answers 200 with a warning, leaves that field out, and carries the others out: a job would be
released without its list of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple


class Change(NamedTuple):
    """What is changed of a pending job, or the limit of a running one; what has its default stays as it is."""

    nodes: Sequence[str] | None = None  # those that it must run on; none: any
    node_count: int = 0  # on so many nodes exactly
    minutes: int | None = None  # its limit
    begin_now: bool = False
    release: bool = False
    partition: str = ""  # in which it is to run; several, as a list


class Dialect(NamedTuple):
    """The forms of one family of versions."""

    nodes: str  # the field with the list of nodes
    listed: Callable[[Sequence[str]], Any]  # the list, which may be empty
    limited: Callable[[int], Any]
    since: str  # how a question asks for what has changed since a second of Slurm's clock
    states: bool  # whether all states can be asked for without the records
    qos: str  # the name of the list of QOS
    tasks: bool  # whether a task of an array can be changed by its name, J_K; else scontrol does that

    def body(self, change: Change) -> dict[str, object]:
        """Return a change as slurmrestd is told of it."""
        said: dict[str, object] = {}
        if change.nodes is not None:
            said[self.nodes] = self.listed(change.nodes)
        if change.release:
            said["hold"] = False
        if change.node_count:
            said["nodes"] = f"{change.node_count}-{change.node_count}"  # a list of two numbers changes nothing
        if change.partition:
            said["partition"] = change.partition
        if change.minutes is not None:
            said["time_limit"] = self.limited(change.minutes)
        if change.begin_now:
            said["begin_time"] = "now"
        return said


# An empty list, accepted without a warning, changes nothing in v0.0.40 and later: the list with one empty name clears.
_TEXTS: Final = Dialect("nodelist", ",".join, int, "update_time={}", states=False, qos="QOS", tasks=True)
_MAPS: Final = Dialect(
    "required_nodes",
    lambda nodes: list(nodes) or [""],
    lambda minutes: {"set": True, "infinite": False, "number": minutes},
    "update_time=uts{}",  # a bare number is refused by v0.0.40 and v0.0.41
    states=True,
    qos="qos",
    tasks=False,  # error 9000: "Submit job update against Array Job's JobID instead of array task id"
)

MET: Final[Mapping[str, Dialect]] = {  # the best first
    **dict.fromkeys(("v0.0.44", "v0.0.43", "v0.0.42", "v0.0.41", "v0.0.40"), _MAPS),
    **dict.fromkeys(("v0.0.38", "v0.0.37"), _TEXTS),
}
# Those that are tried (`slurm/probe.py`) before jobs are placed. v0.0.45 of Slurm 26.05.5 does not say which jobs are exclusive.
UNMET: Final = ("v0.0.46", "v0.0.47", "v0.0.48", "v0.0.45", "v0.0.39")


def dialect_of(version: str) -> Dialect:
    """Return the forms of a version; of one that has not been met, those of the latest."""
    return MET.get(version, _MAPS)


def scontrol_words(label: str, change: Change) -> list[list[str]]:
    """Return a change as commands of scontrol; the release comes last, so that a job that is not held has its list."""
    words = [f"JobId={label}"]
    if change.nodes is not None:
        words.append(f"NodeList={','.join(change.nodes)}")
    if change.node_count:
        words.append(f"NumNodes={change.node_count}-{change.node_count}")
    if change.partition:
        words.append(f"Partition={change.partition}")
    if change.minutes is not None:
        words.append(f"TimeLimit={change.minutes}")
    if change.begin_now:
        words.append("StartTime=now")
    return [*([["update", *words]] if words[1:] else []), *([["release", label]] if change.release else [])]
