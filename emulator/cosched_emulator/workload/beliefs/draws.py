"""What beliefs about a property of jobs have in common: whether anything is told at all, and with how much noise."""

from __future__ import annotations

from cosched_emulator.errors import ConfigurationError
from cosched_hwmodel.draws import uniform

BELIEFS = ("exact", "unknown")


def check_belief(key: str, belief: str, noise_key: str, noise: float) -> None:
    """Raise `ConfigurationError`, with a key of a scenario's ``belief``, for values out of range."""
    if belief not in BELIEFS:
        raise ConfigurationError.unknown_name(f"belief.{key}", belief, BELIEFS)
    if not 0 <= noise < 1:  # nan is not
        raise ConfigurationError(f"belief.{noise_key}", "a number from 0 to below 1", str(noise))


def noisy(value: int, noise: float, seed: int, noise_key: str, source_id: int, index: int) -> float:
    """Return the value multiplied by 1 + noise x u, u uniform in [-1, 1) and drawn for each ``index`` of each job."""
    return value * (1 + noise * (2 * uniform(seed, noise_key, source_id, index) - 1))
