"""The rules of docs/run-folder.md, checked on a run folder as a stranger would: from its files and that page alone.

Nothing of cosched is imported, so no invariant of the code is taken for granted. `problems` returns what is wrong, one line each.
Times are whole microseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.emulator.results.folder_files import SECOND, Folder, Job, Stay, if_any, us

STATES = {
    "COMPLETED": "COMPLETED_SUCCESSFULLY",
    "TIMEOUT": "COMPLETED_WALLTIME_REACHED",
    "CANCELLED": "COMPLETED_KILLED",
    "FAILED": "COMPLETED_FAILED",
    "NODE_FAIL": "COMPLETED_FAILED",
    "REJECTED": "REJECTED",
}
UNFINISHED = ("RUNNING", "SUBMITTED")


def problems(path: Path) -> list[str]:
    """Return what in a run folder contradicts its page."""
    folder = Folder(path)
    found: list[str] = []
    for rule in (
        _jobs,
        _places,
        _space,
        _disk,
        _suspensions,
        _progress,
        _quanta,
        _energy,
        _figures,
        _time_figures,
        _schedule,
    ):
        found += [f"{rule.__name__[1:]}: {text}" for text in rule(folder)]
    return found


def near(one: float | None, other: float | None, within: float = 2e-6) -> bool:
    """Tell whether two figures are the same, but for their rounding."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= within * max(1.0, abs(one), abs(other))


# ---------------------------------------------------------------- what jobs.csv says of itself


def _jobs(folder: Folder) -> Iterator[str]:
    yield from _order(folder)
    for job in folder.rows:
        yield from (f"job {job.id}: {text}" for text in _of_itself(folder, job))


def _order(folder: Folder) -> Iterator[str]:
    keys = [(job.end is None, job.end or 0, job.id) for job in folder.rows]
    if keys != sorted(keys):
        yield "the rows are not in order of (end, id)"
    by_id = [folder.jobs[number] for number in sorted(folder.jobs)]
    if sorted(folder.jobs) != list(range(1, len(folder.jobs) + 1)):
        yield "the numbers are not 1 to n"
    if [job.submit for job in by_id] != sorted(job.submit for job in by_id):
        yield "the numbers are not in order of submission"


def _of_itself(folder: Folder, job: Job) -> Iterator[str]:
    row, start, end = job.row, job.start, job.end
    execution, finish = job.time("execution_time"), job.time("finish_time")
    open_end = row["final_state"] in UNFINISHED
    if (end is None) != open_end or (not open_end and STATES[job.state] != row["final_state"]):
        yield f"final state {row['final_state']}, state {job.state}, end {end}"
    if (row["success"] == "1") != (job.state == "COMPLETED"):
        yield f"success {row['success']} in state {job.state}"
    if job.state == "REJECTED" and (finish is not None or start is not None):
        yield "a refused job has a finish, or a start"
    if start is None and any(row[key] for key in ("execution_time", "waiting_time", "stretch", "allocated_resources")):
        yield "it has no start, and figures of one"
    if finish is not None and job.time("turnaround_time") != finish - job.submit:
        yield f"turnaround {row['turnaround_time']} is not finish - submission"
    if start is None:
        return
    if job.time("waiting_time") != start - job.submit:
        yield f"waiting time {row['waiting_time']} is not start - submission"
    if finish is not None and execution != finish - start:
        yield f"execution time {row['execution_time']} does not lead from start {start} to finish {finish}"
    if (
        finish is not None
        and execution
        and abs(Decimal(row["stretch"]) - Decimal(finish - job.submit) / execution) > 1e-6
    ):
        yield f"stretch {row['stretch']}"
    yield from _work_and_limit(folder, job)


def _work_and_limit(folder: Folder, job: Job) -> Iterator[str]:
    if job.state == "COMPLETED" and job.work != job.run:
        yield f"it completed with {job.work} of {job.run} us of work"
    if not 0 <= job.work <= job.run:
        yield f"work {job.work} of {job.run}"
    limit = if_any(job.told.get("limit_s"))
    ran = if_any(job.told.get("dispatched_s")) if folder.sharing else job.time("execution_time")
    if folder.sharing and ran is not None:  # the limit has grown by the time without progress
        times = [
            *((start, end, folder.switch) for start, end in job.suspended),
            *((start, end, 0) for start, end, _ in job.disk),
        ]
        ran += sum(
            end - start + price
            for start, end, price in times
            if job.start is not None and start >= job.start and end is not None and end != job.end
        )
    if limit is None or ran is None:
        if job.state == "TIMEOUT":
            yield "it was killed without a limit"
        return
    if job.state == "TIMEOUT" and abs(ran - limit) > (1 if folder.sharing else 0):
        yield f"it was killed after {ran} us; the limit is {limit}"
    if job.state == "COMPLETED" and ran > limit:
        yield f"it completed after {ran} us; the limit is {limit}"


# ---------------------------------------------------------------- where jobs were


def _places(folder: Folder) -> Iterator[str]:
    offsets = [sum(folder.node_threads[:node]) for node in range(len(folder.node_threads) + 1)]
    for job in folder.rows:
        if job.start is not None and not any(stay.start == job.start for stay in job.stays):
            yield f"job {job.id}: no stay begins with its start"
        if any(later.start < stay.end for stay, later in pairwise(job.stays)):
            yield f"job {job.id}: its stays overlap"
        if job.stays and job.stays[0].start < job.submit:
            yield f"job {job.id}: it ran before its submission"
        back = {end for _, end, _ in job.disk}
        starts = sum(stay.start not in back for stay in job.stays)
        again = bool(job.stays) and job.start is None
        if int(job.told.get("starts", "0" if not job.stays else "1")) != starts and (starts > 1 or again):
            yield f"job {job.id}: starts {job.told.get('starts')}, and stays tell of {starts}"
        for stay in job.stays:
            yield from (f"job {job.id}: {text}" for text in _of_stay(folder, job, stay))
        if job.start is not None and job.last:
            held = {offsets[node] + bit for node, mask, _ in job.last[0].nodes for bit in _bits(mask)}
            if held != set(_numbers(job.row["allocated_resources"])):
                yield f"job {job.id}: allocated {job.row['allocated_resources']}, not {sorted(held)}"


def _of_stay(folder: Folder, job: Job, stay: Stay) -> Iterator[str]:
    each = job.threads // job.processes
    if stay.end < stay.start:
        yield "a stay ends before it begins"
    if sum(part.many * part.processes for part in stay.parts) != job.processes or job.threads % job.processes:
        yield f"its processes are not {job.processes} in each stay"
    nodes = [node for node, _, _ in stay.nodes]
    if len(nodes) != len(set(nodes)) or max(nodes) >= len(folder.classes):
        yield f"nodes {nodes}"
    for node, mask, processes in stay.nodes:
        if mask >> folder.node_threads[node]:
            yield f"node {node} has no thread {mask:#x}"
        if mask.bit_count() < processes * each or (
            not folder.config["workload"]["exclusive"] and mask.bit_count() != processes * each
        ):
            yield f"{processes} processes of {each} threads hold {mask:#x}"


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def _numbers(text: str) -> Iterator[int]:
    for words in text.split():
        first, _, last = words.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _space(folder: Folder) -> Iterator[str]:
    """Where jobs take turns, jobs of one slot hold a thread by themselves; elsewhere every job does. Memory is that of all."""
    each_mb = folder.config["workload"]["memory_mb"]
    for begin, _, there in folder.present():
        for node, jobs in there.items():
            if each_mb * sum(processes for _, _, processes in jobs) > folder.classes[node]["memory_mb"]:
                yield f"at {begin}, node {node}: jobs {[job.id for job, _, _ in jobs]} need more memory than it has"
    if folder.sharing is None:
        for begin, _, there in folder.present():
            for node, jobs in there.items():
                yield from _held_twice(f"at {begin}, node {node}", jobs)
        return
    rows: dict[tuple[int, str], list[Job]] = defaultdict(list)
    for row in folder.quanta:
        rows[us(row["start_s"]), row["slot"]].append(folder.jobs[int(row["job_id"])])
    for (begin, slot), together in rows.items():
        nodes: dict[int, list[tuple[Job, int, int]]] = defaultdict(list)
        for job in together:
            for stay in job.stays:
                if stay.start <= begin < stay.end:
                    for node, mask, processes in stay.nodes:
                        nodes[node].append((job, mask, processes))
        for node, jobs in nodes.items():
            yield from _held_twice(f"at {begin}, slot {slot}, node {node}", jobs)


def _held_twice(where: str, jobs: Sequence[tuple[Job, int, int]]) -> Iterator[str]:
    held = 0
    for job, mask, _ in jobs:
        if held & mask:
            yield f"{where}: job {job.id} holds threads {held & mask:#x} of another"
        held |= mask


def _disk(folder: Folder) -> Iterator[str]:
    for job in folder.rows:
        if int(job.told.get("preemptions", "0")) != len(job.disk):
            yield f"job {job.id}: preemptions {job.told.get('preemptions')}, rows {len(job.disk)}"
        for start, end, swap_mb in job.disk:
            if swap_mb != job.processes * folder.config["workload"]["memory_mb"]:
                yield f"job {job.id}: {swap_mb} MB of swap space"
            before = [stay for stay in job.stays if stay.end == start]
            after = [stay for stay in job.stays if stay.start == end]
            if not before:
                yield f"job {job.id}: no stay ends at {start}, where it goes to disk"
            if before and after and before[-1].parts != after[0].parts:
                yield f"job {job.id}: it came back to other threads at {end}"
            if end is not None and not after and end != job.end and job.start is not None and job.start < end:
                yield f"job {job.id}: it left the disk at {end}, and was nowhere"
        since = sum(
            (end or folder.span[1]) - start
            for start, end, _ in job.disk
            if job.start is not None and start >= job.start
        )
        if job.disk and us(job.told["suspended_s"]) < since:
            yield f"job {job.id}: suspended {job.told['suspended_s']} s, on disk for {since} us"


def _suspensions(folder: Folder) -> Iterator[str]:
    """A job is suspended on its nodes within a stay, until it goes on, leaves them, or the run ends."""
    for job in folder.rows:
        if any(before[1] is None or before[1] > after[0] for before, after in pairwise(job.suspended)):
            yield f"job {job.id}: suspended {job.suspended}, one within another"
        for start, end in job.suspended:
            stays = [stay for stay in job.stays if stay.start <= start and (end or start) <= stay.end]
            if not stays:
                yield f"job {job.id}: suspended from {start} to {end}, and not on its nodes"
            if end is None and (job.row["final_state"] != "RUNNING" or stays[-1:] != job.stays[-1:]):
                yield f"job {job.id}: still suspended in state {job.row['final_state']}"
        if job.disk and job.start is not None:
            since = sum((end or folder.span[1]) - start for start, end in job.suspended if start >= job.start)
            since += sum((end or folder.span[1]) - start for start, end, _ in job.disk if start >= job.start)
            if us(job.told["suspended_s"]) < since:
                yield f"job {job.id}: suspended {job.told['suspended_s']} s, and {since} us by the rows"


# ---------------------------------------------------------------- work = speed * time


def _progress(folder: Folder) -> Iterator[str]:
    """Under `bandwidth` with a demand that is the same for all, speeds are known; elsewhere that of a job by itself is."""
    truth, workload = folder.config["truth"], folder.config["workload"]
    faults = folder.config.get("faults") or {}
    if folder.sharing or faults.get("slow") or truth["contention"] not in ("bandwidth", "lomarc"):
        return
    known = truth["contention"] == "bandwidth"
    demand = workload["demand_high"][0] if known and workload["mix"] else 0
    if workload["mix"] not in (None, "1:0:0"):
        return
    worked: dict[int, float] = defaultdict(float)
    alone: dict[int, bool] = defaultdict(lambda: True)
    for begin, end, there in folder.present():
        slowest: dict[int, float] = {}
        for node, jobs in there.items():
            active = [each for each in jobs if not each[0].is_suspended(begin)]
            most = folder.classes[node]["memory_bandwidth_mbs"]
            asked = sum(demand * processes for _, _, processes in active)
            slowdown = max(1.0, asked / most) if most else 1.0
            for job, _, _ in active:
                slowest[job.id] = max(slowest.get(job.id, 1.0), slowdown)
                alone[job.id] &= len(active) == 1
        for number, slowdown in slowest.items():
            if folder.jobs[number].switches(begin, folder.switch):
                continue
            if folder.jobs[number].start is not None and begin >= (folder.jobs[number].start or 0):
                worked[number] += (end - begin) / slowdown
    for job in folder.rows:
        if job.start is None or job.told.get("preemptions") or not (known or alone[job.id]):
            continue
        if abs(worked[job.id] - job.work) > 2 + 4 * len(folder.times):  # ends are rounded up, at each change of speed
            yield f"job {job.id}: it did {job.work} us of work, and {worked[job.id]:.0f} follow from its neighbours"


# ---------------------------------------------------------------- quanta


def _quanta(folder: Folder) -> Iterator[str]:
    if folder.sharing is None:
        if folder.quanta:
            yield "there are quanta, and no time sharing"
        return
    groups: dict[int, list[dict[str, str]]] = defaultdict(list)
    for row in folder.quanta:
        groups[us(row["start_s"])].append(row)
    whole = round(folder.sharing["quantum_s"] * SECOND)
    before = (0, 0, False)  # number, end, whether no job could run any more
    for start, rows in groups.items():
        length, number = us(rows[0]["length_s"]), int(rows[0]["quantum"])
        if start < before[1] or not 0 <= length <= whole:
            yield f"quantum {number} begins at {start}, and is {length} us long; the one before ends at {before[1]}"
        if number != before[0] + 1 and not (number == before[0] and before[2]):
            yield f"quantum {number} follows {before[0]}, after which {'none' if before[2] else 'some'} of its jobs could run"
        alive = [
            row
            for row in rows
            if any(s.start <= start and s.end > start + length for s in folder.jobs[int(row["job_id"])].stays)
        ]
        before = (number, start + length, not alive)
        yield from _of_quantum(folder, start, length, whole, rows)
    yield from _sums(folder)


def _of_quantum(folder: Folder, start: int, length: int, whole: int, rows: Sequence[dict[str, str]]) -> Iterator[str]:
    where = f"quantum {rows[0]['quantum']}"
    there = sum(job.has(start) for job in folder.rows)
    if not {int(row["jobs"]) for row in rows} <= {there}:
        yield f"{where}: {rows[0]['jobs']} running jobs, {there} by their stays"
    nodes = {row["job_id"]: folder.jobs[int(row["job_id"])].nodes_at(start) for row in rows}
    for row in rows:
        job, allowed, used = folder.jobs[int(row["job_id"])], us(row["allowed_s"]), us(row["cpu_s"])
        here = f"{where}, job {job.id}"
        if not 0 < allowed <= length:
            yield f"{here}: allowed {allowed} of {length} us"
        if used > allowed * job.processes + job.processes:
            yield f"{here}: {job.processes} processes used {used} of {allowed} us each"
        if (row["role"] == "row") != (row["slot"] == row["turn"]):
            yield f"{here}: role {row['role']}, slot {row['slot']}, turn {row['turn']}"
        beside = any(nodes[row["job_id"]] & nodes[other["job_id"]] for other in rows if other is not row)
        if nodes[row["job_id"]] and all(nodes.values()) and (row["paired"] == "1") != beside:
            yield f"{here}: paired {row['paired']}"
        gone = not any(stay.start <= start and stay.end > start + length for stay in job.stays)
        if row["share_ppm"]:
            share, true = int(row["share_ppm"]), used * 1_000_000 / (allowed * job.processes)
            if 2 * allowed < whole or share > 1_000_000:
                yield f"{here}: it has a share {share}, and was allowed {allowed} us"
            if share > true + 2 * 10_000 * 1_000_000 / allowed + 20_000:  # the clock of a node has ticks of 10 ms
                yield f"{here}: its share is {share}, and it used {true:.0f}"
        elif 2 * allowed >= whole and not gone:
            yield f"{here}: it has no share, and was allowed {allowed} us"


def _sums(folder: Folder) -> Iterator[str]:
    """Where quanta cover all the time of a job since its last start, their sums are what its row says."""
    rows: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    spans = sorted({(us(row["start_s"]), us(row["start_s"]) + us(row["length_s"])) for row in folder.quanta})
    for row in folder.quanta:
        rows[int(row["job_id"])].append((us(row["start_s"]), us(row["allowed_s"]), us(row["cpu_s"])))
    for job in folder.rows:
        if job.start is None or job.end is None or "dispatched_s" not in job.told or len(job.stays) > 1:
            continue
        inside = [span for span in spans if span[1] > job.start and span[0] < job.end]
        if (
            not inside
            or inside[0][0] > job.start
            or any(b[0] > a[1] for a, b in pairwise(inside))
            or inside[-1][1] < job.end
        ):
            continue
        allowed = sum(part for start, part, _ in rows[job.id])
        used = sum(part for start, _, part in rows[job.id])
        if abs(allowed - us(job.told["dispatched_s"])) > len(rows[job.id]):
            yield f"job {job.id}: quanta allow {allowed} us, dispatched_s is {job.told['dispatched_s']}"
        if abs(used - us(job.told["cpu_s"]) * job.processes) > job.processes * (len(rows[job.id]) + 1):
            yield f"job {job.id}: quanta have {used} us of CPU time, cpu_s is {job.told['cpu_s']} of {job.processes} processes"


# ---------------------------------------------------------------- energy


def _energy(folder: Folder) -> Iterator[str]:
    energy = folder.summary.get("energy")
    if folder.watts is None:
        if energy or folder.power or any(job.row["consumed_energy"] != "-1" for job in folder.rows):
            yield "there is energy without watts"
        return
    first, last = folder.span
    span_s = (last - first) / SECOND
    idle_j = sum(watts["idle_w"] for watts in folder.watts) * span_s
    if not near(energy["idle_j"], idle_j) or not near(energy["total_j"], energy["idle_j"] + energy["busy_j"]):
        yield f"idle {energy['idle_j']}, not {idle_j}; total {energy['total_j']}, busy {energy['busy_j']}"
    if span_s and not near(energy["mean_w"], energy["total_j"] / span_s):
        yield f"mean power {energy['mean_w']}"
    of_jobs = sum(float(job.row["consumed_energy"]) for job in folder.rows)
    if abs(of_jobs + energy["unheld_j"] - energy["total_j"]) > 1e-3 * len(folder.rows) + 1e-8 * energy["total_j"]:
        yield f"jobs have {of_jobs}, nobody {energy['unheld_j']}, all {energy['total_j']}"
    yield from _trace(folder, energy)
    if folder.sharing is None:
        yield from _held_energy(folder, energy)


def _trace(folder: Folder, energy: dict[str, Any]) -> Iterator[str]:
    edges = [(us(row["start_s"]), us(row["end_s"])) for row in folder.power]
    if edges and ((edges[0][0], edges[-1][1]) != folder.span or any(a[1] != b[0] for a, b in pairwise(edges))):
        yield f"power from {edges[0][0]} to {edges[-1][1]}, not {folder.span}, or with gaps"
    if len(edges) > 4096 + 1:
        yield f"{len(edges)} intervals"
    joules = sum(
        float(row["watts"]) * (end - begin) / SECOND for row, (begin, end) in zip(folder.power, edges, strict=True)
    )
    if abs(joules - energy["total_j"]) > 6e-4 * (folder.span[1] - folder.span[0]) / SECOND + 1e-6:
        yield f"the integral of watts is {joules}, the total {energy['total_j']}"
    most = sum(
        w["idle_w"] + cores * max(w["busy_w"], w["spin_w"])
        for w, cores in zip(folder.watts or [], folder.cores, strict=True)
    )
    if any(float(row["watts"]) > most + 1e-3 for row in folder.power):
        yield f"more than {most} W"


def _held_energy(folder: Folder, energy: dict[str, Any]) -> Iterator[str]:
    """Cores are busy while a job holds a thread of them; idle watts of a node go to its jobs in equal parts."""
    assert folder.watts is not None
    joules: dict[int, float] = defaultdict(float)
    busy_j = 0.0
    for begin, end, there in folder.present():
        span_s = (end - begin) / SECOND
        for node, jobs in there.items():
            watts, cores = folder.watts[node], folder.cores[node]
            held: dict[int, list[int]] = defaultdict(list)  # by core: a job for each thread
            for job, mask, _ in jobs:
                joules[job.id] += watts["idle_w"] * span_s / len(jobs)
                for bit in _bits(mask):
                    held[bit % cores].append(job.id)
            for holders in held.values():
                busy_j += watts["busy_w"] * span_s
                for number in holders:
                    joules[number] += watts["busy_w"] * span_s / len(holders)
    if not near(busy_j, energy["busy_j"]):
        yield f"busy {energy['busy_j']}, {busy_j} by the stays"
    for job in folder.rows:
        if abs(float(job.row["consumed_energy"]) - joules[job.id]) > 1e-3 + 1e-6 * joules[job.id]:
            yield f"job {job.id}: energy {job.row['consumed_energy']}, {joules[job.id]} by its stays"


# ---------------------------------------------------------------- summary.json


def _figures(folder: Folder) -> Iterator[str]:
    by_id = [folder.jobs[number] for number in sorted(folder.jobs)]
    chosen = folder.summary["selection"]
    counted = by_id[chosen["warmup"] : len(by_id) - chosen["cooldown"]]
    states = {name: sum(job.state == name and job.end is not None for job in counted) for name in STATES}
    states["UNFINISHED"] = sum(job.end is None for job in counted)
    if states != folder.summary["states"]:
        yield f"states {folder.summary['states']}, not {states}"
    ran = [job for job in counted if job.start is not None and job.end is not None]
    killed = sum(job.state == "TIMEOUT" for job in ran)
    if (folder.summary["ran"], folder.summary["killed"]["count"]) != (len(ran), killed):
        yield f"ran {folder.summary['ran']}, not {len(ran)}; killed {folder.summary['killed']}, not {killed}"
    for name, jobs in (("all", ran), ("finished", [job for job in ran if job.state == "COMPLETED"])):
        for key, values in _quantities(jobs).items():
            yield from _statistics(f"{name}.{key}", folder.summary[name][key], values)
    for key, value in _machine(folder).items():
        if not near(folder.summary["machine"].get(key), value):
            yield f"{key} is {folder.summary['machine'].get(key)}, not {value}"


def _quantities(jobs: Iterable[Job]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for job in jobs:
        response, run = (job.end or 0) - job.submit, job.work
        found["wait_s"].append(((job.start or 0) - job.submit) / SECOND)
        found["response_s"].append(response / SECOND)
        for bound in (10, 60):
            found[f"bounded_slowdown_{bound}s"].append(max(1.0, response / max(run, bound * SECOND)))
        found["relative_response_60s"].append(response / max(run, 60 * SECOND))
        if run:
            found["slowdown"].append(response / run)
            found["penalised_percent"].append(100 * (sum(stay.end - stay.start for stay in job.last) - run) / run)
    return found


def _statistics(key: str, told: dict[str, Any], values: list[float]) -> Iterator[str]:
    values = sorted(values)
    mean = sum(values) / len(values)

    def percentile(share: float) -> float:
        place = share * (len(values) - 1)
        low = int(place)
        return values[low] + (place - low) * (values[min(low + 1, len(values) - 1)] - values[low])

    deviation = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    expected = {"count": len(values), "mean": mean, "median": percentile(0.5), "p95": percentile(0.95)}
    expected |= {"standard_deviation": deviation, "max": values[-1]}
    if told.keys() != expected.keys():
        yield f"{key} has {', '.join(told)}, and this page knows {', '.join(expected)}"
    for name, value in expected.items():
        if not near(told[name], value):
            yield f"{key}.{name} is {told[name]}, not {value}"


def _machine(folder: Folder) -> dict[str, float | None]:
    first, last = folder.span
    makespan, nodes, threads = last - first, len(folder.classes), sum(folder.node_threads)
    thread_time = used = shared = queued = 0
    for begin, end, there in folder.present():
        for jobs in there.values():
            held = 0
            for _, mask, _ in jobs:
                held |= mask
            thread_time += held.bit_count() * (end - begin)
            used += end - begin
            shared += (end - begin) * (len(jobs) > 1)
        for job in folder.rows:
            waits = job.submit <= begin and (job.end is None or begin < job.end)
            queued += (end - begin) * (waits and not job.has(begin) and not job.on_disk(begin))
    submissions = [job.submit for job in folder.rows]
    span = max(submissions, default=0) - first
    work = sum(job.work * len(job.last[-1].nodes) for job in folder.rows if job.last)
    asked = sum(job.run * job.threads for job in folder.rows)
    completed = sum(job.state == "COMPLETED" for job in folder.rows)
    found: dict[str, float | None] = {"nodes": nodes, "threads": threads, "makespan_s": makespan / SECOND}
    if makespan:
        found["utilisation"] = thread_time / (threads * makespan)
        found["node_utilisation"] = used / (nodes * makespan)
        found["node_efficiency"] = work / (nodes * makespan)
        found["mean_queue_length"] = queued / makespan
        found["jobs_per_hour"] = completed * 3600 * SECOND / makespan
    found["node_sharing"] = shared / used if used else None
    found["offered_load"] = asked / (sum(folder.cores) * span) if span else None
    times = [len(job.disk) for job in folder.rows if job.disk]
    if times:
        found |= {"preemptions": sum(times), "preemptions_per_job": sum(times) / len(times)}
    return found


def _time_figures(folder: Folder) -> Iterator[str]:
    told = folder.summary.get("time_sharing")
    if (told is None) != (folder.sharing is None):
        yield "there are figures of time sharing, or none, where they do not belong"
    if told is None:
        return
    first, last = folder.span
    groups: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in folder.quanta:
        groups[row["start_s"], row["quantum"]].append(row)
    held = {begin: sum(job.has(begin) for job in folder.rows) for begin in folder.times}
    makespan = last - first
    in_time = sum(held[begin] * (end - begin) for begin, end in pairwise(folder.times))
    newest = max([job.submit for job in folder.rows], default=0)
    left = sum(job.submit <= newest and (job.end is None or job.end > newest) for job in folder.rows)
    expected: dict[str, float | None] = {
        "quanta": len(groups),
        "quanta_paired": sum(any(row["paired"] == "1" for row in rows) for rows in groups.values()),
        "mean_jobs": in_time / makespan if makespan else None,
        "max_jobs": max(held.values(), default=0),
        "jobs_at_last_submission": left,
        "drain_s": (last - newest) / SECOND,
    }
    for key, value in expected.items():
        if not near(told[key], value):
            yield f"{key} is {told[key]}, not {value}"


# ---------------------------------------------------------------- schedule.swf


def _schedule(folder: Folder) -> Iterator[str]:
    """Submissions, starts and ends are rounded up to whole seconds."""
    if [int(row[0]) for row in folder.swf] != sorted(folder.jobs):
        yield "its rows are not those of the jobs, in order"
        return
    status = {"COMPLETED": 1, "CANCELLED": 5, "REJECTED": 5}
    for row in folder.swf:
        job = folder.jobs[int(row[0])]
        submit, wait, run = (int(text) for text in row[1:4])
        if submit != -(-job.submit // SECOND):
            yield f"job {job.id}: submitted at {submit}"
        if int(row[10]) != (-1 if job.end is None else status.get(job.state, 0)):
            yield f"job {job.id}: status {row[10]} of {job.state}"
        if job.start is not None and submit + wait != -(-job.start // SECOND):
            yield f"job {job.id}: it starts at {submit + wait}"
        if job.start is not None and job.end is not None and submit + wait + run != -(-job.end // SECOND):
            yield f"job {job.id}: it ends at {submit + wait + run}, not {job.end} us"
        if job.last and int(row[4]) != sum(mask.bit_count() for _, mask, _ in job.last[0].nodes):
            yield f"job {job.id}: {row[4]} processors"
