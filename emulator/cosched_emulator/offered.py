"""Names to choose from, and defaults that a help shows: declared once, read by command lines and by what they belong to.

Help and typing errors must not import the modules that do the work (a tenth of a second instead of a second), so this
module imports nothing. Each owner takes its names from here, refuses others, and says what they mean. A default stands
here only where a command's help shows it, or where packages share it that do not import each other; all other defaults
stand with their setting.
"""

from __future__ import annotations

from typing import Final

# A node's CPU: `nodeos.local` has a class for each.
LOCAL_SCHEDULERS: Final = ("wake-first", "rr", "linux-epochs")
# Its message layer: `nodeos.coscheduling.policies` has a class for each; others by MODULE:CLASS.
COSCHEDULING: Final = ("nls", "sb", "cc", "dcs", "pb", "hybrid", "none")
# How jobs slow each other down: `cosched_hwmodel.models.by_name` has each; others by MODULE:CLASS.
CONTENTION: Final = ("bandwidth", "lomarc", "statistical", "pairs", "composite", "none")

# Why a job is pending, by Slurm's names, and what that means: of one that the scheduler may start, and of one that the gate keeps
# back; the reasons of limits are `cosched_plugin.common.limits.LIMIT_REASONS`.
QUEUED, UNSERVED = "Resources", "NoScheduler"
HELD, DEPENDENCY, BEGIN_TIME, ARRAY_LIMIT = "JobHeldUser", "Dependency", "BeginTime", "JobArrayTaskLimit"
RESERVED: Final = "ReqNodeNotAvail"
REASONS: Final = {
    QUEUED: "the scheduler has not started it; only the scheduler knows more",
    UNSERVED: "no scheduler is connected",
    HELD: "it is held",
    DEPENDENCY: "it waits for other jobs",
    BEGIN_TIME: "its begin time has not come",
    ARRAY_LIMIT: "its turn in its array has not come",
    RESERVED: "its nodes are reserved before it could end",
}

# Settings of a scenario: `scenario.sections` says what each does.
CLOCK_MODES: Final = ("virtual", "scaled", "real")
PREDICTED: Final = "predicted"
ESTIMATES: Final = ("exact", "f-model", "day", "halfway", PREDICTED)
KNOWLEDGE: Final = ("exact", "unknown")
USAGE_KNOWLEDGE: Final = (*KNOWLEDGE, "shuffled", "inverted")
LIMITS: Final = ("estimate", "none")
MEMORY_TOLD: Final = ("aware", "unaware")
NODE_FAULTS: Final = ("fail", "return", "slow", "normal")  # in the order of one instant
NODE_STATES: Final = ("IDLE", "MIXED", "ALLOCATED", "DRAINING", "DRAINED", "DOWN")  # as users are told
NODE_KINDS: Final = ("fluid", "exact", "windows")
SELF_SLOWDOWNS: Final = ("table4",)

AARR: Final = 10.2303
CLOCK_MODE: Final = CLOCK_MODES[0]
CPU_SHARE: Final = 0.45
DEADLINE_S: Final = 300.0
FILES: Final = 20
GAP_S: Final = 100.0
MEMORY: Final = MEMORY_TOLD[0]
NODES: Final = 128  # without a log
NAS_PREFIX: Final = "nas:"  # of a program of jobs, such as nas:CG.C
MOST_JOBS: Final = 10_000_000  # of a generated workload: more than the memory of most machines holds
NULL_STATEMENTS: Final = 2_500_000
QUANTUM_S: Final = 1.0
SEED: Final = 1
SHAPE: Final = "single"
STDIN: Final = "-"  # as the name of a log
WAIT_S: Final = 60.0

# What processes of jobs do, and the columns of a side file that it reads: `workload.side_files.job_programs`.
PROGRAMS: Final = {
    "fine": ("cpu_share", "jitter"),
    "uniform": ("jitter",),
    "qcrd": ("jitter",),
    "qcrd-even": ("jitter",),
    "compute": ("null_statements", "iterations", "jitter"),
    "io": ("files", "iterations"),
}
OF_NAS_PROGRAMS: Final = ("iterations", "jitter", "grain")  # the same of a program ``nas:...``
LEAST_GRAIN: Final = 0.1  # the range in which jobs were measured to take their time alone
MOST_GRAIN: Final = 10.0

# How the scheduler is reached: `run.coupling` makes each.
LINKS: Final = ("direct", "loopback", "zmq")

# Jobs that count in figures of jobs: `results.figures.metrics.population`.
POPULATIONS: Final = ("finished", "all")

# Owners of keys: `cosched_plugin.common.curve` has a folder for each.
ROLES: Final = ("plugin", "user", "operator")

# Kinds of dependencies: once that job has ended well, in any way, or not well; once it has started, or been cancelled.
AFTER_OK, AFTER_ANY, AFTER_NOT_OK, AFTER = "afterok", "afterany", "afternotok", "after"
DEPENDENCIES: Final = (AFTER_OK, AFTER_ANY, AFTER_NOT_OK, AFTER)


def dependencies_of(text: str) -> tuple[tuple[str, int], ...]:
    """Return the (kind, job) of ``afterok:1:2,afterany:3``, also with semicolons; ValueError says the expected form."""
    found = []
    for part in text.replace(";", ",").split(","):
        kind, *jobs = part.strip().split(":")
        if kind not in DEPENDENCIES or not jobs:
            kinds = ", ".join(DEPENDENCIES[:-1]) + " or " + DEPENDENCIES[-1]
            raise ValueError(f"KIND:JOB with the kind {kinds}, several after colons and commas")
        if not all(job.isascii() and job.isdigit() and len(job) <= 18 and int(job) for job in jobs):
            raise ValueError("numbers of jobs, or of whole arrays")
        found += [(kind, int(job)) for job in jobs]
    return tuple(found)


def dependencies_text(after: tuple[tuple[str, int], ...]) -> str:
    """Return the text of which `dependencies_of` makes these."""
    return ";".join([f"{kind}:{job}" for kind, job in after])
