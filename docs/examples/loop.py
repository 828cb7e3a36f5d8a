"""Three jobs on two nodes under EASY; all times are microseconds."""

import heapq

from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol import messages as m

S = 1_000_000  # microseconds
JOBS = {  # what the scheduler may know, and how long the job really runs
    1: (m.JobSpec(id=1, submit_us=0, processes=6, estimate_us=100 * S), 90 * S),
    2: (m.JobSpec(id=2, submit_us=10 * S, processes=8, estimate_us=50 * S), 50 * S),
    3: (m.JobSpec(id=3, submit_us=20 * S, processes=2, estimate_us=60 * S), 40 * S),
}
NODES = m.NodeClass(2, 1, 4, 1, 0, 0, 0, 0)  # two nodes, one socket of four cores each; 0: no memory, no known rates


def welcome() -> m.Welcome:
    """Return the state of an empty machine; one with jobs lists them as running and pending."""
    belief = m.Belief("none", "bulk-synchronous", ())
    return m.Welcome(m.PROTOCOL_VERSION, (), 0, 0, (NODES,), (), belief, (), (), (), ())


def main() -> None:
    """Play the jobs and print their starts."""
    core = SchedulerCore(choose("easy").make(), welcome())
    # Entries are (time, rank, job id); at one instant ends (rank 0) come before submissions (rank 1).
    due = [(spec.submit_us, 1, spec.id) for spec, _ in JOBS.values()]
    heapq.heapify(due)
    while due:
        now_us = due[0][0]
        events: list[m.Event] = []
        while due and due[0][0] == now_us:  # one batch holds everything that happens at this instant
            _, rank, job_id = heapq.heappop(due)
            events.append(m.JobSubmitted(JOBS[job_id][0]) if rank else m.JobEnded(job_id, "COMPLETED"))
        for action in core.handle(now_us, events):
            starts = action.starts if isinstance(action, m.StartTogether) else (action,)
            for start in starts:
                if not isinstance(start, m.StartJob):
                    raise TypeError(f"this loop does not carry out {type(start).__name__}")
                places = [f"nodes {run.first}-{run.first + run.count - 1}" for run in start.runs]
                print(f"{now_us // S:4d} s: job {start.job_id} starts on {', '.join(places)}")
                heapq.heappush(due, (now_us + JOBS[start.job_id][1], 0, start.job_id))


if __name__ == "__main__":
    main()
