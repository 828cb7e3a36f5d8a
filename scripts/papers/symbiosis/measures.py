"""A figure of a run beside its summary: the response that one job in a hundred exceeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosched_emulator import Run
from cosched_hwmodel.units import SECOND_US


def figures(run: Run) -> dict[str, Any]:
    """Return the 99th percentile of response times, and the longest, in seconds."""
    jobs = run.finished.jobs
    responses = (jobs.end_us - jobs.submit_us) / SECOND_US
    return {"response_s_p99": float(np.percentile(responses, 99)), "response_s_longest": float(responses.max())}
