"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# The same cases every time: a change is judged by what it does, not by what was drawn. COSCHED_EXPLORE=1 draws others.
settings.register_profile("repeatable", derandomize=True)
if not os.environ.get("COSCHED_EXPLORE"):
    settings.load_profile("repeatable")
