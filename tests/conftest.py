"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# Where nobody watches, the same cases every time: a change is judged by what it does, not by what was drawn.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
