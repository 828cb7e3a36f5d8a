"""Jobs as Batsim has them: a JSON object each, with a profile that says what the job does. Of JSON files, or of a scenario's jobs.

Profiles ``delay``, ``parallel``, ``parallel_homogeneous``, ``parallel_homogeneous_total`` and ``composed`` are carried out, also under
Batsim 5's names; what a profile computes takes its flop over the speed of the slowest host. Messages between hosts cost nothing: there
is no network here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any, Final, NamedTuple

from cosched_emulator.errors import InputError, os_errors
from cosched_emulator.workload.job import WorkloadJob
from cosched_emulator.workload.swf.swf_table import LARGEST
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.batsim import messages as b
from cosched_plugin.batsim.site import FIELDS, OF_JOB, spec_of
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.limits import MAX_NODES
from cosched_plugin.protocol.messages import JobSpec
from cosched_plugin.protocol.vocabulary import JOB

DAY_US: Final = 86_400 * SECOND_US
OTHERS: Final = 1 << 31  # numbers of jobs whose names are none
MOST_TASKS: Final = 100_000  # of a composed profile
MOST_WITHIN: Final = 100  # composed profiles within each other
# As object cosched: all that is read there but the estimate
_TOLD: Final = tuple(name for name in OF_JOB if name != "estimate_us")
OUTCOME: Final = "status"  # how a job of a log ended there, which no scheduler is to know
OF_LOGS: Final = ("queue", "partition", "group", OUTCOME)  # numbers, which a job of a log takes along
# Of a job, all that are read
KEYS: Final = frozenset({"id", "subtime", "walltime", "res", "profile", "user", FIELDS, *OF_LOGS})
_KINDS: Final = ("delay", "parallel", "parallel_homogeneous", "parallel_homogeneous_total", "composed")
# Batsim 5 names them anew, and its first drafts did so, too; a homogeneous one says how its amounts are meant.
_OF_5: Final = {
    "DelayProfile": "delay",
    "ParallelTaskProfile": "parallel",
    "ParallelTaskHomogeneousProfile": "parallel_homogeneous",
    "SequentialCompositionProfile": "composed",
}
_NEW_NAMES: Final = {
    **_OF_5,
    "ptask": "parallel",
    "ptask_homogeneous": "parallel_homogeneous",
    "sequential_composition": "composed",
}
_STRATEGIES: Final = {
    "DefinedAmountsUsedForEachValue": "parallel_homogeneous",
    "DefinedAmountsSpreadUniformly": "parallel_homogeneous_total",
    "defined_amount_used_for_each_value": "parallel_homogeneous",
    "defined_amount_spread_uniformly": "parallel_homogeneous_total",
}
Profiles = dict[str, dict[str, Any]]


class Task(NamedTuple):
    """What a job does for a while."""

    us: int
    parallel: bool  # it computes; else it only lasts


class Size(NamedTuple):
    """How much a profile is."""

    tasks: int
    depth: int  # profiles within each other


class Progress(NamedTuple):
    """How far a job has come when it is killed."""

    told: dict[str, Any]  # as JOB_KILLED has it
    parallel: bool  # its present task computes


class BatsimJob:
    """A job. What it does is known to the simulator alone, unless a scheduler is to see it."""

    __slots__ = (
        "computes",
        "hosts",
        "metadata",
        "name",
        "object",
        "of_log",
        "profile",
        "res",
        "static",
        "work",
        "workload",
    )

    def __init__(
        self, name: str, workload: str, told: dict[str, Any], res: int, work: WorkloadJob, *, static: bool
    ) -> None:
        self.name = name  # with its workload: w0!1
        self.workload = workload
        self.object = told  # as JOB_SUBMITTED has it
        self.profile = str(told.get("profile", ""))
        self.res = res
        self.work = work  # for the manager
        self.static = static  # of a file, not registered by the scheduler
        self.hosts: list[int] = []
        self.metadata = ""
        self.of_log = False  # it computes all the time; a job of Batsim's with a delay computes nothing
        self.computes = 0.0  # part of the time of its hosts' cores that it computes

    @property
    def own_name(self) -> str:
        """Return its name within its workload."""
        return self.name.partition("!")[2]


@dataclass(slots=True)
class Ended:
    """A job at its end; times in microseconds."""

    job: BatsimJob
    state: str
    start_us: int | None = None
    end_us: int | None = None
    joules: float | None = None


class JobNumbers:
    """Numbers of jobs for the manager: of the first workload's jobs their own, where they are numbers."""

    def __init__(self) -> None:
        self._next = OTHERS

    def of(self, name: str) -> int:
        """Return the number of a job."""
        workload, _, own = name.partition("!")
        if workload == "w0" and own.isascii() and own.isdigit() and str(int(own[:9])) == own:
            return int(own)
        self._next += 1
        return self._next


class Read(NamedTuple):
    """The content of workload files."""

    jobs: list[BatsimJob]
    profiles: dict[str, Profiles]  # by workload
    hosts: int  # for which they are; 0: they do not say


def read_workloads(files: Sequence[str], numbers: JobNumbers) -> Read:
    """Return the jobs of workload files, in Batsim's order of submission; raises InputError."""
    jobs: list[BatsimJob] = []
    profiles: dict[str, Profiles] = {}
    hosts = 0
    for number, file in enumerate(files):
        workload = f"w{number}"
        try:
            content = b.read_json(Path(file).read_bytes())
            profiles[workload] = read_profiles(content, "")
            hosts = max(hosts, b.whole(content, "nb_res", "", 0, MAX_NODES) if "nb_res" in content else 0)
            for index, raw in enumerate(b.listed(content, "jobs", "")):
                jobs.append(read_job(raw, workload, f"jobs[{index}]", profiles[workload], numbers, static=True))
        except OSError as error:
            raise InputError(file, "a file that can be read", error.strerror) from error
        except RemoteProtocolError as error:
            expected = error.text.removeprefix("expected ")
            raise InputError(file, expected, field=error.path or None) from error
    seen: set[str] = set()
    for job in jobs:
        if job.name in seen:
            raise InputError(
                files[int(job.workload[1:])], "a name of its own for each job", repr(job.own_name), field="jobs"
            )
        seen.add(job.name)
    jobs.sort(key=submission)
    return Read(jobs, profiles, hosts)


def submission(job: BatsimJob) -> tuple[int, str]:
    """Return the order of submission: by time, then by name as a text, as Batsim has it."""
    return (job.work.spec.submit_us, job.name)


def read_profiles(content: Any, path: str) -> Profiles:
    """Return the profiles of a workload, each of a kind that can be carried out."""
    if type(content) is not dict:
        b.refuse(path, "an object with jobs and profiles", content)
    profiles = b.obj(content, "profiles", path)
    sizes: dict[str, Size] = {}
    for name in profiles:
        check_profile(profiles, name, f"profiles.{name}", sizes)
    return profiles


def _as_batsim_4(profile: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a profile as Batsim 4 has it; raises RemoteProtocolError."""
    named = b.text(profile, "type", path)
    kind = _NEW_NAMES.get(named, named)
    strategy = profile.get("generation_strategy")
    if kind == "parallel_homogeneous" and strategy is not None:
        if type(strategy) is not str or strategy not in _STRATEGIES:
            b.refuse(f"{path}.generation_strategy", f"one of {', '.join(_STRATEGIES)}", strategy)
        kind = _STRATEGIES[strategy]
    if kind == "parallel" and "cpu" not in profile and "com" in profile:  # messages alone
        messages = b.listed(profile, "com", path)
        hosts = isqrt(len(messages))
        if not messages or hosts * hosts != len(messages):
            b.refuse(f"{path}.com", "a number for each pair of hosts", f"{len(messages)} numbers")
        return {**profile, "type": kind, "cpu": [0.0] * hosts}
    return profile if kind == named else {**profile, "type": kind}


def check_profile(
    profiles: dict[str, Any], name: str, path: str, sizes: dict[str, Size], above: tuple[str, ...] = ()
) -> Size:
    """Return how much a profile is, which becomes one of Batsim 4; raises RemoteProtocolError for one that cannot be carried out.

    ``sizes`` are those of the profiles that have been checked, so that each is looked at once.
    """
    if name in sizes:
        return sizes[name]
    if name in above:
        raise RemoteProtocolError(
            "field", path, f"expected no profile within itself, got {' in '.join((name, *above))}"
        )
    profile = profiles.get(name)
    if type(profile) is not dict:
        b.refuse(path, "an object", profile)
    profile = profiles[name] = _as_batsim_4(profile, path)
    kind = profile["type"]
    size = Size(1, 1)
    if "ret" in profile:
        b.whole(profile, "ret", path, 0, 1 << 31)
    if kind == "delay":
        b.microseconds(profile, "delay", path)
    elif kind in ("parallel_homogeneous", "parallel_homogeneous_total"):
        b.number(profile, "cpu", path)
    elif kind == "parallel":
        for each in b.listed(profile, "cpu", path):
            b.number({"cpu": each}, "cpu", path)
    elif kind == "composed":
        repeat = b.whole(profile, "repeat", path, 1, MOST_TASKS) if "repeat" in profile else 1
        tasks = 0
        for index, each in enumerate(b.listed(profile, "seq", path)):
            inner = Size(0, MOST_WITHIN)  # too deep, unless there may be more
            if len(above) < MOST_WITHIN:
                inner = check_profile(profiles, str(each), f"{path}.seq[{index}]", sizes, (name, *above))
            tasks += inner.tasks * repeat
            size = Size(tasks, max(size.depth, inner.depth + 1))
            if tasks > MOST_TASKS or size.depth > MOST_WITHIN:
                break
        if size.depth > MOST_WITHIN:
            b.refuse(path.partition(".seq")[0], f"at most {MOST_WITHIN} profiles within each other", "more")
        if not 0 < tasks <= MOST_TASKS:
            b.refuse(f"{path}.seq", f"1 to {MOST_TASKS} tasks in all", tasks)
    else:
        kinds = f"{', '.join(_KINDS)} (in Batsim 5 {', '.join(_OF_5)})"
        b.refuse(f"{path}.type", f"a kind of profile that the emulator carries out: {kinds}", kind)
    sizes[name] = size
    return size


def _hosts_of(profiles: Mapping[str, Any], name: str, seen: set[str]) -> set[int]:
    """Return for how many hosts a profile and those in it are, where they name each; ``seen``: which not to look at again."""
    profile = profiles[name]
    if profile["type"] == "composed":
        inner = set(map(str, profile["seq"])) - seen
        seen |= inner
        return set().union(*[_hosts_of(profiles, each, seen) for each in inner])
    return {len(profile["cpu"])} if profile["type"] == "parallel" else set()


def read_job(
    raw: Any, workload: str, path: str, profiles: Mapping[str, Any], numbers: JobNumbers, *, static: bool
) -> BatsimJob:
    """Return a job of JSON; raises RemoteProtocolError."""
    if type(raw) is not dict:
        b.refuse(path, "an object", raw)
    own = raw.get("id")
    if type(own) is int:
        own = str(own)
    if type(own) is not str or not own:
        b.refuse(f"{path}.id", "a string, or a whole number", raw.get("id"))
    own = own.removeprefix(f"{workload}!")
    if "!" in own:
        b.refuse(f"{path}.id", "a name without !", own)
    name = f"{workload}!{own}"
    res = b.whole(raw, "res", path, 1, 1 << 20)
    submit_us = b.microseconds(raw, "subtime", path)
    limit_us = b.walltime_us(raw, path)
    profile = b.text(raw, "profile", path)
    if profile not in profiles:
        b.refuse(f"{path}.profile", "the name of a profile of its workload", profile)
    known = profiles[profile]
    for hosts in _hosts_of(profiles, profile, set()) - {res}:
        b.refuse(f"{path}.profile", f"a profile of {res} hosts, as res", f"{profile}, of {hosts}")
    estimate_us = DAY_US if limit_us is None else limit_us
    number = numbers.of(name)
    spec = JobSpec(number, submit_us, res, estimate_us, limit_us, str(raw.get("user", "")), ppn_max=0)
    fields: dict[str, Any] = {}
    for owner in (known, raw):
        fields |= b.obj(owner, FIELDS, path) if FIELDS in owner else {}
    if fields:
        kept = {
            "id": number,
            "submit_us": submit_us,
            "processes": res,
            "estimate_us": estimate_us,
            "limit_us": limit_us,
        }
        spec = spec_of({"user": spec.user} | fields | kept, f"{path}.{FIELDS}")
    of_log = {key: raw[key] for key in OF_LOGS if type(raw.get(key)) is int and 0 <= raw[key] <= LARGEST}
    truth = (spec.demand, number, spec.usage, spec.self_slowdown, None, known.get("ret", 0))
    work = WorkloadJob(spec, 1, *truth, **of_log, profile=spec.profile)
    return BatsimJob(name, workload, {**raw, "id": name}, res, work, static=static)


def of_scenario(jobs: Sequence[WorkloadJob], cores: int) -> tuple[list[BatsimJob], dict[str, Profiles]]:
    """Return a scenario's jobs, each on as many hosts of ``cores`` cores as its processes fill, with a ``delay`` for a profile."""
    found = []
    profiles: Profiles = {}
    for job in jobs:
        spec = job.spec
        name = f"w0!{spec.id}"
        res = -(-spec.processes * spec.threads_per_process // cores)
        told: dict[str, Any] = {"id": name, "subtime": spec.submit_us / SECOND_US}
        if spec.limit_us is not None:
            told["walltime"] = spec.limit_us / SECOND_US
        told |= {"res": res, "profile": str(spec.id)}
        told |= {key: number for key in OF_LOGS if (number := getattr(job, key)) >= 0}
        if spec.user:
            told["user"] = spec.user
        written = JOB.write(spec)
        fields: dict[str, Any] = {key: written[key] for key in _TOLD if key in written}
        on_host = -(-spec.processes // res)  # a scheduler of Batsim's sees hosts, not processes
        if "memory_mb" in fields:
            fields["memory_mb"] *= on_host
        if "demand" in fields:
            fields["demand"] = [rate * on_host for rate in fields["demand"]]
        if spec.estimate_us != spec.limit_us:
            fields["estimate_us"] = spec.estimate_us
        if fields:
            told[FIELDS] = fields
        profiles[str(spec.id)] = {"type": "delay", "delay": job.run_us / SECOND_US}
        if job.exit_code:
            profiles[str(spec.id)]["ret"] = job.exit_code
        found.append(BatsimJob(name, "w0", told, res, job, static=True))
        found[-1].of_log = True
    found.sort(key=submission)
    return found, {"w0": profiles}


# ---------------------------------------------------------------- what a profile takes


def run_us(profiles: Mapping[str, Any], name: str, res: int, speed: float) -> int:
    """Return how long a job with this profile takes alone on ``res`` hosts, the slowest of which makes ``speed`` flop/s."""
    return sum(task.us for _, task in _tasks(profiles, name, res, speed))


def _tasks(profiles: Mapping[str, Any], name: str, res: int, speed: float) -> Iterator[tuple[str, Task]]:
    profile = profiles[name]
    kind = profile["type"]
    if kind == "delay":
        yield name, Task(round(profile["delay"] * SECOND_US), False)
    elif kind == "composed":
        for _ in range(profile.get("repeat", 1)):
            for each in profile["seq"]:
                yield from _tasks(profiles, str(each), res, speed)
    else:
        cpu = profile["cpu"]
        flop = (
            max(cpu, default=0.0) if kind == "parallel" else cpu / res if kind == "parallel_homogeneous_total" else cpu
        )
        yield name, Task(round(flop / speed * SECOND_US), True)


def computing_us(profiles: Mapping[str, Any], name: str, res: int, speed: float) -> int:
    """Return the part of that in which hosts compute."""
    return sum(task.us for _, task in _tasks(profiles, name, res, speed) if task.parallel)


def is_total(profiles: Mapping[str, Any], name: str) -> bool:
    """Return whether a profile runs on any number of hosts: it says what all of them compute together."""
    profile = profiles[name]
    if profile["type"] == "composed":
        return all(is_total(profiles, str(each)) for each in profile["seq"])
    return str(profile["type"]) == "parallel_homogeneous_total"


def exchanges(profiles: Mapping[str, Any], name: str, known: dict[str, bool]) -> bool:
    """Return whether jobs with this profile exchange messages; ``known``: which profiles do, to look at each once."""
    if name not in known:
        profile = profiles[name]
        if profile["type"] == "composed":
            known[name] = any(exchanges(profiles, each, known) for each in set(map(str, profile["seq"])))
        else:
            sent = profile.get("com")
            known[name] = any(sent) if type(sent) is list else bool(sent)
    return known[name]


def progress_of(profiles: Mapping[str, Any], name: str, done_us: int, res: int, speed: float) -> Progress:
    """Return how far a job has come that has done ``done_us`` of its work."""
    profile = profiles[name]
    if profile["type"] != "composed":
        ((_, task),) = _tasks(profiles, name, res, speed)
        share = 1.0 if task.us == 0 else min(1.0, done_us / task.us)
        return Progress({"profile_name": name, "progress": round(share, 6)}, task.parallel)
    steps = [str(each) for _ in range(profile.get("repeat", 1)) for each in profile["seq"]]
    left_us = done_us
    for index, each in enumerate(steps):
        takes_us = run_us(profiles, each, res, speed)
        if left_us < takes_us or index == len(steps) - 1:
            inner = progress_of(profiles, each, left_us, res, speed)
            told = {"profile_name": name, "current_task_index": index, "current_task": inner.told}
            return Progress(told, inner.parallel)
        left_us -= takes_us
    raise AssertionError("a composed profile has a task")


def hidden(profiles: Mapping[str, Any]) -> dict[str, Any]:
    """Return the profiles as a scheduler sees them that is not to know run times: their kinds, and what jobs ask of hosts."""
    return {name: {key: each[key] for key in ("type", FIELDS) if key in each} for name, each in profiles.items()}


class ExternalEvent(NamedTuple):
    """An event of a file."""

    at_us: int
    event: dict[str, Any]
    line: int  # of the file, from 1


def read_events(file: str, hosts: int) -> list[ExternalEvent]:
    """Return the external events of a file, a JSON object a line, in order of their times; raises InputError."""
    found: list[ExternalEvent] = []
    with os_errors(file):
        lines = Path(file).read_bytes().splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = b.read_json(line)
            if type(event) is not dict:
                b.refuse("", "an object", event)
            at_us = b.microseconds(event, "timestamp", "")
            if b.text(event, "type", "") in ("machine_unavailable", "machine_available"):
                b.read_hosts(event, "resources", "", hosts)
        except RemoteProtocolError as error:
            raise InputError(file, error.text.removeprefix("expected "), None, number, error.path or None) from error
        found.append(ExternalEvent(at_us, event, number))
    found.sort(key=lambda each: each.at_us)
    return found
