"""Deliberate defects, each a small change of one file, that the test suite must catch; `defects` applies them one by one.

The old text of a defect must be found exactly once in its file. When code moves or changes, adapt ``file`` and ``old`` here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

CORE: Final = "plugin/cosched_plugin/core"
LEDGER: Final = "plugin/cosched_plugin/ledger"
COMMON: Final = "plugin/cosched_plugin/common"
POLICIES: Final = "plugin/cosched_plugin/policies"
PROTOCOL: Final = "plugin/cosched_plugin/protocol"
MANAGER: Final = "emulator/cosched_emulator/manager"
LIVE: Final = "emulator/cosched_emulator/live"
ACCOUNTING: Final = "emulator/cosched_emulator/accounting"


class Defect(NamedTuple):
    """One change; ``new`` replaces ``old`` in ``file``, a path in the project."""

    name: str
    text: str  # what is wrong with it
    file: str
    old: str
    new: str


DEFECTS: Final = (
    # ---------------------------------------------------------------- core
    Defect(
        "core-limit-of-suspended",
        "the scheduler does not lengthen a limit by the time of a suspension",
        f"{LEDGER}/running.py",
        "limit_us=None if running.limit_us is None else running.limit_us + by_us,",
        "limit_us=running.limit_us,",
    ),
    Defect(
        "core-node-returned-whole",
        "a node returns to service with the threads that jobs still hold there as free",
        f"{COMMON}/allocation.py",
        "union(self.free, minus(on_nodes(self.machine.exists, bit), held))",
        "union(self.free, on_nodes(self.machine.exists, bit))",
    ),
    Defect(
        "core-queue-columns",
        "the arrays of a long queue keep their order when a requeued job is put into its middle",
        f"{LEDGER}/ledger.py",
        "        # It was held, or comes back.\n        self.changes += 1\n        self._columns = None\n",
        "        # It was held, or comes back.\n        self.changes += 1\n",
    ),
    Defect(
        "core-notes-of-ended",
        "the notes of a job stay when it has ended",
        f"{LEDGER}/ledger.py",
        "for key in self.notes.pop(job_id, ()):",
        "for key in self.notes.get(job_id, ()):",
    ),
    # ---------------------------------------------------------------- policies
    Defect(
        "policies-easy-rule",
        "EASY refuses a job that ends exactly at the shadow time",
        f"{LEDGER}/ledger.py",
        "(job.estimate_us <= longest_us or job.processes <= extra)]",
        "(job.estimate_us < longest_us or job.processes <= extra)]",
    ),
    Defect(
        "policies-shadow-time",
        "the shadow time counts the first of the jobs that end at it, not all",
        f"{CORE}/views/view.py",
        """            if expected_us > shadow_us:
                if missing <= 0:
                    break
                shadow_us = expected_us""",
        """            if missing <= 0:
                break
            shadow_us = max(shadow_us, expected_us)""",
    ),
    Defect(
        "policies-limit-of-host",
        "a running job that gets a co-located job does not get the longer limit",
        "plugin/cosched_plugin/parts/colocated.py",
        "host.limit_us + longer_us",
        "host.limit_us",
    ),
    Defect(
        "policies-slice-switch",
        "the clock of a class includes the switch at the start of its slices",
        f"{POLICIES}/slices.py",
        "return max(0, ends_us[kind + 1] - ends_us[kind] - self.switch_us)",
        "return max(0, ends_us[kind + 1] - ends_us[kind])",
    ),
    # ---------------------------------------------------------------- manager
    Defect(
        "manager-submissions-first",
        "submissions come before ends at the same instant",
        f"{MANAGER}/agenda.py",
        "events.append(submitted)",
        "events.insert(0, submitted)",
    ),
    Defect(
        "manager-wake-dropped",
        "a wake is scheduled only if no other wake is scheduled",
        f"{MANAGER}/actions.py",
        "            self.timeline.schedule(at_us, WAKE, 0)",
        """            if len(self.wakes) == 1:
                self.timeline.schedule(at_us, WAKE, 0)""",
    ),
    Defect(
        "manager-void-end",
        "the scheduled end of a job counts although a later one has replaced it",
        f"{MANAGER}/manager.py",
        "if job is None or job.state != RUNNING or job.version != version:",
        "if job is None or job.state != RUNNING:",
    ),
    Defect(
        "manager-kill-first",
        "a job that completes exactly at its limit is killed",
        f"{MANAGER}/job_ends.py",
        "end_us > job.start_us + job.limit_us:",
        "end_us >= job.start_us + job.limit_us:",
    ),
    # ---------------------------------------------------------------- gang scheduling and slots
    Defect(
        "gang-partner-unchecked",
        "a partner that was chosen when the round began runs although it does not fit any more",
        f"{POLICIES}/gang/gang.py",
        " or not pairing.fits(row.most_ppm, partner.most_ppm)):",
        "):",
    ),
    Defect(
        "gang-band-of-new",
        "a job that has not been measured is moved out of a band",
        f"{POLICIES}/gang/matrix.py",
        "far = cell.measured and cell.share_ppm >=",
        "far = cell.share_ppm >=",
    ),
    Defect(
        "slots-late-rotation",
        "a rotation that comes late begins with its first turn, whatever quanta have ended meanwhile",
        f"{MANAGER}/time_sharing/rotating.py",
        "            self.rotation = self._caught_up(self.rotation, action.quantum)",
        "            pass",
    ),
    Defect(
        "slots-unpaired-guest",
        "an unpaired job may be a guest beside jobs of other slots",
        f"{COMMON}/slots.py",
        "if own.slot in turn.slots or job_id in turn.guests:",
        "if own.slot in turn.slots:",
    ),
    # ---------------------------------------------------------------- session
    Defect(
        "session-batch-skipped",
        "the scheduler accepts a batch although an earlier one is missing",
        f"{PROTOCOL}/session.py",
        "if message.seq != self.seq + 1 or self.state is State.OPEN:",
        "if message.seq < self.seq + 1 or self.state is State.OPEN:",
    ),
    Defect(
        "session-stale-answer",
        "the manager accepts an answer of an older greeting",
        f"{PROTOCOL}/session.py",
        "if message.seq <= self.seq or self.state is State.CLOSED or message.greeting != self._greeting:",
        "if message.seq <= self.seq or self.state is State.CLOSED:",
    ),
    Defect(
        "session-answer-once",
        "the scheduler does not repeat its answer when a batch comes twice",
        f"{PROTOCOL}/session.py",
        "            return Received((self._reply,))",
        "            return NOTHING",
    ),
    Defect(
        "session-hello-twice",
        "a hello that comes twice counts as a new one",
        f"{PROTOCOL}/session.py",
        "0 < hello.greeting <= before.greeting",
        "0 < hello.greeting < before.greeting",
    ),
    # ---------------------------------------------------------------- live
    Defect(
        "live-release-untold",
        "the scheduler is not told of a job that was released",
        f"{LIVE}/user_commands.py",
        "        self._outbox.tell(now_us, JobHeld(job_id) if hold else JobReleased(job_id))",
        """        if hold:
            self._outbox.tell(now_us, JobHeld(job_id))
        else:
            manager.apply(now_us, (JobReleased(job_id),))""",
    ),
    Defect(
        "live-journal-gap",
        "steps of the journal that are buffered are lost when a command is written",
        f"{ACCOUNTING}/accounts.py",
        "items = self._buffer if durable is None else [*self._buffer, durable]",
        "items = self._buffer if durable is None else [durable]",
    ),
    Defect(
        "live-scheduler-not-asked",
        "a new scheduler is not asked to decide before something happens",
        f"{LIVE}/outbox.py",
        "        self._kick = True\n        return self._manager",
        "        return self._manager",
    ),
    Defect(
        "live-array-slot",
        "a task that ends does not make room for the next one of its array",
        f"{MANAGER}/gate.py",
        "            group.count(amounts, -1)\n",
        "            pass\n",
    ),
)
