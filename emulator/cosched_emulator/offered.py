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

# Settings of a scenario: `scenario.sections` says what each does.
CLOCK_MODES: Final = ("virtual", "scaled", "real")
ESTIMATES: Final = ("exact", "f-model", "day", "predicted")
KNOWLEDGE: Final = ("exact", "unknown")
USAGE_KNOWLEDGE: Final = (*KNOWLEDGE, "shuffled", "inverted")
LIMITS: Final = ("estimate", "none")
LOAD_METHODS: Final = ("gaps", "users")
MEMORY_TOLD: Final = ("aware", "unaware")
NODE_KINDS: Final = ("fluid", "exact", "windows")
SELF_SLOWDOWNS: Final = ("table4",)

AARR: Final = 10.2303
CLOCK_MODE: Final = CLOCK_MODES[0]
CPU_SHARE: Final = 0.45
DEADLINE_S: Final = 300.0
FILES: Final = 20
GAP_S: Final = 100.0
LOAD_METHOD: Final = LOAD_METHODS[0]
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

# How the scheduler is reached: `run.coupling` makes each.
LINKS: Final = ("direct", "loopback", "zmq")

# Jobs that count in figures of jobs: `results.figures.metrics.population`.
POPULATIONS: Final = ("finished", "all")

# Owners of keys: `cosched_plugin.common.curve` has a folder for each.
ROLES: Final = ("plugin", "user", "operator")
