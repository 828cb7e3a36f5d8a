"""The owners of the jobs of a live manager that have not ended."""

from __future__ import annotations

from collections import Counter

from cosched_emulator.manager.changes import Origin


class Owners:
    """The origins of the users' jobs, and the number of jobs of each user."""

    def __init__(self) -> None:
        self.origins: dict[int, Origin] = {}  # by job, without the scenario's jobs
        self._counts: Counter[str] = Counter()

    def add(self, job_id: int, origin: Origin) -> None:
        """Enter a job."""
        self.origins[job_id] = origin
        self._counts[origin.owner] += 1

    def drop(self, job_id: int) -> None:
        """Forget a job that has ended."""
        origin = self.origins.pop(job_id, None)
        if origin is not None:
            self._counts[origin.owner] -= 1
            if not self._counts[origin.owner]:
                del self._counts[origin.owner]

    def owner(self, job_id: int) -> str:
        """Return the user who submitted a job; empty for the scenario's jobs."""
        return self.origins[job_id].owner if job_id in self.origins else ""

    def label(self, job_id: int) -> str:
        """Return the users' name of a job: its number, or array and task; its number if it has ended."""
        origin = self.origins.get(job_id)
        if origin is None or origin.array_id is None:
            return str(job_id)
        return f"{origin.array_id}_{origin.array_index}"

    def jobs_of(self, user: str) -> int:
        """Return the number of a user's jobs that have not ended."""
        return self._counts[user]
