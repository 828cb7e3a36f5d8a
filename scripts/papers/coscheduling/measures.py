"""Figures of a run of the coscheduling reproduction beside its summary.

Stored runs are found by the source of this file, so it imports nothing of the reproduction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from cosched_emulator import Run
from cosched_emulator.manager.record import JobRecord
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.threads import each_node


def figures(run: Run) -> dict[str, Any]:
    """Return the figures of a run; what does not exist is left out."""
    started = [record for record in run.records if record.end_us is not None and record.last_stays]
    nodes = sum(item.nodes for item in run.machine)
    found = {**_of_jobs(started), **_of_nodes(started), **_of_work(started, nodes, run.summary)}
    found |= {**_by_kind(started), **_energy(run), **_of_cpus(run)}
    return {name: value for name, value in found.items() if value is not None}


def _execution_s(record: JobRecord) -> float:
    """Return the time from a job's last start to its end."""
    return (record.left_us - record.last_stays[0].start_us) / SECOND_US


def _of_jobs(started: Sequence[JobRecord]) -> dict[str, float | None]:
    """Return mean execution, and what share of the response is waiting."""
    execution = sum(_execution_s(record) for record in started)
    response = sum((record.end_us or 0) - record.job.spec.submit_us for record in started) / SECOND_US
    alone = sum(record.job.run_us for record in started) / SECOND_US
    jobs = len(started)
    return {
        "execution_s_mean": execution / jobs if jobs else None,
        "execution_over_alone": execution / (alone * jobs) if alone else None,
        "slowdown_of_execution": execution / alone if alone else None,
        "wait_share": 1 - execution / response if response else None,
        "wait_per_execution": response / execution - 1 if execution else None,
    }


def _of_nodes(started: Sequence[JobRecord]) -> dict[str, float | None]:
    """Return how many processes are on a node, on those that have any, and the memory that they need."""
    changes: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for record in started:
        memory_mb = record.job.spec.memory_mb
        for stay in record.last_stays:
            for node, processes in each_node(stay.runs):
                changes[node].append((stay.start_us, processes, processes * memory_mb))
                changes[node].append((stay.end_us, -processes, -processes * memory_mb))
    occupied_us = resident_us = most = most_mb = 0
    for steps in changes.values():
        count = memory = since_us = 0
        for time_us, more, more_mb in sorted(steps):
            if count:
                occupied_us += time_us - since_us
                resident_us += count * (time_us - since_us)
            since_us, count, memory = time_us, count + more, memory + more_mb
            most, most_mb = max(most, count), max(most_mb, memory)
    return {
        "residents_mean": resident_us / occupied_us if occupied_us else None,
        "residents_most": most,
        "memory_most_mb": most_mb,
        "occupied_node_s": occupied_us / SECOND_US,
    }


def _of_work(started: Sequence[JobRecord], nodes: int, summary: Mapping[str, Any]) -> dict[str, float | None]:
    """Return how busy the CPUs are, polling included, and how much of their time is work as alone."""
    run_s = summary["machine"]["makespan_s"]
    busy_s = sum((record.cpu_us or 0) * record.job.spec.processes for record in started) / SECOND_US
    work_s = sum(record.work_us * record.job.spec.processes for record in started) / SECOND_US
    return {
        "busy_node_s": busy_s,
        "busy_share": busy_s / (nodes * run_s) if run_s else None,
        "throughput": work_s / (nodes * run_s) if run_s else None,
    }


def _by_kind(started: Sequence[JobRecord]) -> dict[str, Any]:
    """Return execution over run time alone by kind of job, such as ``CG.C.16``, as a table."""
    times: dict[str, list[float]] = defaultdict(list)
    for record in started:
        if record.job.spec.name:
            times[record.job.spec.name].append(_execution_s(record) * SECOND_US / record.job.run_us)
    return {"stretch_by_kind": {name: [round(value, 4) for value in times[name]] for name in sorted(times)}}


def _energy(run: Run) -> dict[str, float | None]:
    """Return the energy with every node off while no job is on it, and the share of CPU time in which processes poll."""
    energy, power = run.summary.get("energy"), run.prepared.power
    if energy is None or power is None:
        return {}
    busy_w, spin_w = power[0].busy_w, power[0].spin_w
    spun = energy["spin_j"] / spin_w
    worked = (energy["busy_j"] - energy["spin_j"]) / busy_w
    return {
        "energy_off_j": energy["total_j"] - energy["unheld_j"],
        "spun_share": spun / (spun + worked) if spun + worked else None,
    }


def _of_cpus(run: Run) -> dict[str, float | None]:
    """Return how often CPUs switch and are interrupted, what is swapped, and how late messages are received.

    They are those of the time that was simulated burst by burst.
    """
    found, section = run.finished.counters, run.prepared.scenario.time_sharing
    if found is None or section is None or not found.node_us or not found.busy_us:
        return {}
    switching_us = found.switches * (section.switch_us + section.refill_us) + found.interrupts * section.interrupt_us
    paging_us = max(0, found.overhead_us - switching_us) if section.memory_mb else 0
    quanta = run.summary["time_sharing"]["quanta"]
    return {
        "switches_per_cpu_s": found.switches * SECOND_US / found.busy_us,
        "interrupts_per_s": found.interrupts * SECOND_US / found.node_us,
        "swapped_mb_per_cpu_s": paging_us * section.swap_mb_s / found.busy_us,
        "wake_delay_us": found.messages.delays_us / found.messages.delayed if found.messages.delayed else None,
        "turn_overhead_share": section.turn_overhead if quanta else None,
        "simulated_share": run.finished.simulated,
    }
