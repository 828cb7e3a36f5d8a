"""A job of a workload: its submission, and its true behaviour on the hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from cosched_emulator import offered
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM
from cosched_plugin.protocol.messages import DemandTuple, JobSpec, SelfSlowdown, UsageTuple

WARNING: Final = "warning: "  # prefix of notes that are always shown
After: TypeAlias = tuple[tuple[str, int], ...]  # (kind, job)


class Terms(NamedTuple):
    """What a job's manager is told of when, and under which limits, it may start; the scheduler is not."""

    partitions: tuple[str, ...] = ()  # any of these; none: the default one
    qos: str = ""
    account: str = ""
    after: After = ()  # what must have become of that job
    delay_us: int = 0  # it does not begin earlier than so long after its submission
    array: int = 0  # number that the tasks of an array of its log have in common
    at_once: int = 0  # of that array, so many tasks at a time; 0: all
    cancel_us: int | None = None  # it is cancelled so long after its submission, if it has not started; None: never


NO_TERMS: Final = Terms()
TERMS_TOLD: Final = ("partitions", "qos", "account")  # by `queue`, `job` and the accounts


class WorkloadJob(NamedTuple):
    """One job: ``spec`` is all that manager and scheduler ever see, the rest is the truth."""

    spec: JobSpec
    run_us: int  # run time alone on its nodes, in work time
    demand: DemandTuple | None  # true demand per process; None: no contention
    source_id: int  # number in its trace
    usage: UsageTuple | None = None  # true use of its nodes; None: unknown, no slowdown of it or by it
    self_slowdown: SelfSlowdown | None = None  # true; None: unknown, its processes do not slow each other down
    requeue: bool | None = None  # whether it runs again after a node failure; None: the scenario's setting
    exit_code: int = 0  # at the end of its work; any but 0 is a failure
    queue: int = -1  # in a log: number of its queue; -1: unknown
    partition: int = -1  # in a log: number of its partition; -1: unknown
    # True demand of a process, as the composite model has it; None: it slows no job, and no job it
    profile: Profile | None = None
    group: int = -1  # in a log: number of its user's group; -1: unknown
    status: int = -1  # in a log: how it ended there; -1: unknown
    terms: Terms = NO_TERMS

    @property
    def id(self) -> int:
        """Return the job's number; with the next three properties, this class implements `JobFacts`."""
        return self.spec.id

    @property
    def user(self) -> str:
        """Return the job's user."""
        return self.spec.user

    @property
    def name(self) -> str:
        """Return the job's name."""
        return self.spec.name

    @property
    def processes(self) -> int:
        """Return the number of processes."""
        return self.spec.processes


class CutRuns(NamedTuple):
    """The effect of cutting run times to the estimate, on the jobs of a workload (not of the whole log)."""

    jobs: int  # number of jobs with a cut run time
    work_us: int  # sum of run time x processes of all jobs, as in the log
    kept_us: int  # the same with the cut run times

    @property
    def lost(self) -> float:
        """Return the lost share of the work."""
        return 1 - self.kept_us / self.work_us


class Calendar(NamedTuple):
    """Where the time 0 of a workload lies in the day, and in the week where that is known."""

    start_s: float  # time 0 on a local clock, in seconds since a midnight
    named_days: bool  # that midnight is the first of 1970, a Thursday; else days have no names


class Epoch(NamedTuple):
    """When the time 0 of a workload was, as its log says; logs that are written of it say so, too."""

    began_s: int | None = None  # since 1970 in UTC; None: unknown
    offset_s: int | None = None  # of local time; None: unknown
    zone: str = ""  # its name

    def after(self, time_us: int) -> Epoch:
        """Return the same where a later time is 0, to the second."""
        return self if self.began_s is None else self._replace(began_s=self.began_s + time_us // SECOND_US)


NO_EPOCH: Final = Epoch()


class JobProgram(NamedTuple):
    """What the processes of a job do, without its length."""

    name: str = "fine"
    cpu_share_ppm: int = round(offered.CPU_SHARE * WHOLE_PPM)  # of fine
    null_statements: int = offered.NULL_STATEMENTS  # of compute, between two barriers
    files: int = offered.FILES  # of io, likewise
    iterations: int | None = None  # of compute and io; None: as many as fit the run time
    jitter_ppm: int | None = None  # of bursts; None: the program's own
    grain: float = 1.0  # of the NAS programs: how many times as long bursts are, and as large messages
    memory_mb: int | None = None  # of a process, also where the scheduler is not told; None: what the job asks for


class Programs(NamedTuple):
    """The programs of jobs."""

    usual: JobProgram
    by_job: Mapping[int, JobProgram]  # by id

    def of(self, job_id: int) -> JobProgram:
        """Return the program of a job."""
        return self.by_job.get(job_id, self.usual)

    def memory_mb(self, job: WorkloadJob) -> int:
        """Return what each process of a job takes of its node's memory, in MB; 0: nothing."""
        own_mb = self.of(job.spec.id).memory_mb
        return job.spec.memory_mb if own_mb is None else own_mb


class Workload(NamedTuple):
    """Jobs in submission order, ids dense from 1, first submission at time 0."""

    jobs: Sequence[WorkloadJob]  # `Jobs`, i.e. columns, if there may be many
    processors: int | None  # size of the machine, if the source names it
    origin: str  # file or model, for people
    notes: tuple[str, ...] = ()  # what was repaired or dropped, one line each
    cut: CutRuns | None = None  # None: no run time was cut
    calendar: Calendar | None = None  # None: unknown
    programs: Programs | None = None  # what the jobs' processes do; None: nodes do not run processes
    epoch: Epoch = NO_EPOCH
    # Fields of its log that no job has, and in how many rows they say something
    unread: tuple[tuple[str, int], ...] = ()
    day_s: float = 86_400.0  # length of the daily cycle of submissions: where gaps were multiplied, so is it

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the notes that are warnings, without their prefix."""
        return tuple(note.removeprefix(WARNING) for note in self.notes if note.startswith(WARNING))
