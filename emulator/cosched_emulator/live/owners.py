"""Whose the jobs of a live manager are, as far as they have not ended."""

from __future__ import annotations

from collections import Counter

from cosched_emulator.manager.changes import Origin


class Owners:
    """The origins of the jobs that users have submitted, and how many jobs each user has."""

    def __init__(self) -> None:
        self.origins: dict[int, Origin] = {}  # by job; none of the scenario's jobs
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
        """Return who submitted a job, empty for the scenario's own."""
        return self.origins[job_id].owner if job_id in self.origins else ""

    def label(self, job_id: int) -> str:
        """Return a job as users name it: its number, or array and task; of one that has ended, its number."""
        origin = self.origins.get(job_id)
        if origin is None or origin.array_id is None:
            return str(job_id)
        return f"{origin.array_id}_{origin.array_index}"

    def jobs_of(self, user: str) -> int:
        """Return how many jobs of a user have not ended."""
        return self._counts[user]
