"""The random noise on values about jobs that the scheduler is told."""

from __future__ import annotations

from cosched_hwmodel.draws import uniform


def noisy(value: int, noise: float, seed: int, noise_key: str, source_id: int, index: int) -> float:
    """Return the value multiplied by 1 + noise x u, u uniform in [-1, 1) and drawn for each ``index`` of each job."""
    return value * (1 + noise * (2 * uniform(seed, noise_key, source_id, index) - 1))
