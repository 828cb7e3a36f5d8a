"""The files that a run of Batsim leaves, with its columns: jobs as they end, states of hosts as they change, and one row of figures.

evalys and other tools for Batsim read them. Hosts are counted, not hardware threads. All three files appear once the run is over.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final, TextIO

from cosched_emulator.batsim.simulator import Simulator
from cosched_emulator.batsim.workload import Ended
from cosched_emulator.workload.atomic_file import new_text_file
from cosched_hwmodel.text_formats import encoded
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.batsim.messages import SUCCESS, write_hosts
from cosched_plugin.protocol.messages import REJECTED
from cosched_terminal.console import printable

JOBS: Final = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,starting_time,"
    "execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,consumed_energy,metadata"
)
STATES: Final = "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing"
MEASURES: Final = ("waiting_time", "turnaround_time", "slowdown")
FILES: Final = ("jobs", "schedule", "machine_states")


class Outputs:
    """The figures of a simulation, and with ``prefix`` its files ``PREFIX_jobs.csv`` and so on."""

    def __init__(self, prefix: str | None, *, force: bool) -> None:
        """Raise InputError where a file is there, unless ``force``."""
        self._open = ExitStack()
        self._files: dict[str, TextIO] = {}
        self.jobs = self.rejected = self.succeeded = 0
        self.makespan_us = 0
        self._sums, self._most = [0.0] * len(MEASURES), [0.0] * len(MEASURES)
        if prefix is None:
            return
        try:
            for name in FILES:
                self._files[name] = self._open.enter_context(new_text_file(f"{prefix}_{name}.csv", force=force))
        except BaseException as error:
            self._open.__exit__(type(error), error, error.__traceback__)
            raise
        self._write("jobs", JOBS)
        self._write("machine_states", STATES)

    def __enter__(self) -> Outputs:
        """Write files; they appear at the end, unless there is an error."""
        return self

    def __exit__(self, *error: object) -> None:
        """Let the files appear, or none of them after an error."""
        self._open.__exit__(*error)  # type: ignore[arg-type]

    def _write(self, name: str, line: str) -> None:
        if self._files:
            self._files[name].write(f"{line}\n")

    def add(self, ended: Ended) -> None:
        """Add a job that has ended."""
        spec = ended.job.work.spec
        self.jobs += 1
        if ended.start_us is None or ended.end_us is None:
            self.rejected += 1
            self._write("jobs", f"{_asked(ended)},0,{REJECTED},,,,,,,,,{_quoted(ended.job.metadata)}")
            return
        runs_us = ended.end_us - ended.start_us
        turnaround_s = (ended.end_us - spec.submit_us) / SECOND_US
        values = (
            (ended.start_us - spec.submit_us) / SECOND_US,
            turnaround_s,
            turnaround_s * SECOND_US / max(1, runs_us),
        )
        self._sums = [total + value for total, value in zip(self._sums, values, strict=True)]
        self._most = list(map(max, self._most, values))
        success = int(ended.state == SUCCESS)
        self.succeeded += success
        self.makespan_us = max(self.makespan_us, ended.end_us)
        if not self._files:
            return
        times = ",".join([_seconds(each) for each in (ended.start_us, runs_us, ended.end_us)])
        measures = ",".join([f"{value:.6f}" for value in values])
        joules = -1.0 if ended.joules is None else ended.joules
        rest = f"{write_hosts(ended.job.hosts)},{joules:.6f},{_quoted(ended.job.metadata)}"
        self._write("jobs", f"{_asked(ended)},{success},{ended.state},{times},{measures},{rest}")

    def note_states(self, now_us: int, counts: dict[str, int]) -> None:
        """Add the states of hosts as they are now."""
        if self._files:
            values = [str(counts[kind]) for kind in ("sleeping", "switching_on", "switching_off", "idle", "computing")]
            self._write("machine_states", f"{_seconds(now_us).rstrip('0').rstrip('.')},{','.join(values)}")

    def finish(self, simulator: Simulator, version: str, scheduling_s: float, wall_s: float) -> dict[str, str]:
        """Return the figures of the run, by Batsim's names, and write them."""
        states = simulator.states
        energy_j = states.count(self.makespan_us) - (simulator.first_j or 0.0)
        finished = self.jobs - self.rejected
        times = {f"time_{kind}": _seconds(span_us) for kind, span_us in states.time_us.items()}
        figures = {
            "batsim_version": version,
            "consumed_joules": f"{energy_j:.6f}",
            "makespan": _seconds(self.makespan_us),
            **{f"max_{name}": f"{value:.6f}" for name, value in zip(MEASURES, self._most, strict=True)},
            **{
                f"mean_{name}": f"{value / max(1, finished):.6f}"
                for name, value in zip(MEASURES, self._sums, strict=True)
            },
            "nb_computing_machines": str(len(states)),
            "nb_grouped_switches": str(states.grouped),
            "nb_jobs": str(self.jobs),
            "nb_jobs_finished": str(finished),
            "nb_jobs_killed": str(finished - self.succeeded),
            "nb_jobs_rejected": str(self.rejected),
            "nb_jobs_success": str(self.succeeded),
            "nb_machine_switches": str(states.switches),
            "scheduling_time": f"{scheduling_s:.6f}",
            "simulation_time": f"{wall_s:.6f}",
            "success_rate": f"{self.succeeded / max(1, self.jobs):.6f}",
            **times,
        }
        ordered = dict(sorted(figures.items()))
        self._write("schedule", ",".join(ordered))
        self._write("schedule", ",".join(ordered.values()))
        return ordered


def _seconds(us: int) -> str:
    return f"{us // SECOND_US}.{us % SECOND_US:06d}"


def _quoted(metadata: str) -> str:
    """Return what a scheduler says of a job, in quotes as Batsim writes it: it holds none, but may hold all else."""
    return f'"{printable(metadata)}"'


def _asked(ended: Ended) -> str:
    """Return the columns of what a job has asked for."""
    job, spec = ended.job, ended.job.work.spec
    limit = "-1.000000" if spec.limit_us is None else _seconds(spec.limit_us)
    return f"{','.join(map(encoded, (job.own_name, job.workload, job.profile)))},{_seconds(spec.submit_us)},{job.res},{limit}"
