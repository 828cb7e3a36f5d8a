"""The bilinear form of co-runs: ratio(a, b) = f_a + k_a · i_b.

f_a is what application a takes beside a partner of mean intensity, k_a its sensitivity, i_b the intensity of b. Intensities
have mean 0 and mean square 1, which makes the form unique but for the sign; the mean sensitivity is positive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from cosched_hwmodel.measured.co_run_table import Prediction, Ratios

if TYPE_CHECKING:
    from cosched_hwmodel.measured.co_run_table import Floats

_ROUNDS: Final = 60
_LEAST_VARIANCE: Final = 1e-6  # of noise, levels and sensitivities: (0.001)²
_FIRST_SENSITIVITY: Final = 0.05


@dataclass(frozen=True, slots=True)
class Bilinear:
    """The fitted form."""

    level: Floats  # f
    sensitivity: Floats  # k
    intensity: Floats  # i
    noise: float  # variance of a measurement around the form
    intensity_variance: Floats  # of each intensity, for known levels and sensitivities
    row_covariance: Floats  # of (f_a, k_a) for known intensities: 2 x 2 for each application

    @property
    def mean(self) -> Floats:
        """Return f_a + k_a · i_b of every pair."""
        return self.level[:, None] + self.sensitivity[:, None] * self.intensity

    def predict(self) -> Prediction:
        """Return mean and standard deviation of a further measurement of every pair."""
        i, rows = self.intensity, self.row_covariance
        of_row = rows[:, :1, 0] + 2 * rows[:, :1, 1] * i + rows[:, 1:, 1] * i**2
        of_column = (self.sensitivity**2)[:, None] * self.intensity_variance
        return Prediction(self.mean, np.sqrt(of_row + of_column + self.noise))


def fit_bilinear(ratios: Ratios) -> Bilinear:
    """Fit the form to the measured pairs by alternating least squares with ridges.

    The ridges are those of normal distributions of f, k and i over the applications, with variances from the fit itself:
    what is known of an application by few pairs stays near the mean of all. At least one pair is measured.
    """
    weight = ratios.measured.astype(np.float64)
    seen = np.where(ratios.measured, ratios.values, 0.0)
    of_row, of_column = weight.sum(axis=1), weight.sum(axis=0)
    total = weight.sum()
    average = seen.sum() / total
    level = np.where(of_row > 0, seen.sum(axis=1) / np.maximum(of_row, 1), average)
    intensity = (seen - weight * level[:, None]).sum(axis=0) / np.maximum(of_column, 1)
    sensitivity = np.full(len(level), _FIRST_SENSITIVITY)
    level, sensitivity, intensity = _normalised(level, sensitivity, intensity, of_column > 0)
    noise = level_variance = sensitivity_variance = max(float((weight * (seen - average) ** 2).sum() / total), 1e-4)
    for _ in range(_ROUNDS):
        ridge_f, ridge_k = noise / level_variance, noise / sensitivity_variance
        level, sensitivity = _rows(weight, seen, intensity, (level.mean(), sensitivity.mean()), (ridge_f, ridge_k))
        pull = sensitivity @ seen - (sensitivity * level) @ weight
        intensity = pull / (sensitivity**2 @ weight + noise)
        level, sensitivity, intensity = _normalised(level, sensitivity, intensity, of_column > 0)
        rest = weight * (seen - level[:, None] - sensitivity[:, None] * intensity)
        noise = max(float((rest**2).sum() / max(total - 3 * len(level), total / 4)), _LEAST_VARIANCE)
        level_variance = max(float(level.var()), _LEAST_VARIANCE)
        sensitivity_variance = max(float(sensitivity.var()), _LEAST_VARIANCE)
    precision: Floats = np.empty((len(level), 2, 2))
    precision[:, 0, 0] = of_row / noise + 1 / level_variance
    precision[:, 0, 1] = precision[:, 1, 0] = weight @ intensity / noise
    precision[:, 1, 1] = weight @ intensity**2 / noise + 1 / sensitivity_variance
    of_intensity = noise / (sensitivity**2 @ weight + noise)
    return Bilinear(level, sensitivity, intensity, noise, of_intensity, np.linalg.inv(precision).astype(np.float64))


def _rows(
    weight: Floats, seen: Floats, intensity: Floats, means: tuple[float, float], ridges: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Return levels and sensitivities for these intensities: ridge regressions towards the means."""
    a = weight.sum(axis=1) + ridges[0]
    b = weight @ intensity
    c = weight @ intensity**2 + ridges[1]
    y = seen.sum(axis=1) + ridges[0] * means[0]
    z = seen @ intensity + ridges[1] * means[1]
    determinant = a * c - b * b
    return (c * y - b * z) / determinant, (a * z - b * y) / determinant


def _normalised(
    level: Floats, sensitivity: Floats, intensity: Floats, known: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
) -> tuple[Floats, Floats, Floats]:
    """Return the same form with intensities of mean 0 and mean square 1 over the applications that are partners."""
    shift = intensity[known].mean()
    level = level + sensitivity * shift
    intensity = np.where(known, intensity - shift, 0.0)
    scale = float(np.sqrt((intensity[known] ** 2).mean()))
    if scale == 0.0:
        return level, sensitivity, intensity
    if sensitivity.mean() < 0:
        scale = -scale
    return level, sensitivity * scale, intensity / scale
