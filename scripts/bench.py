#!/usr/bin/env python3
"""Measure how fast cosched is on this machine; see `scripts/bench/main.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.bench.main import main

if __name__ == "__main__":
    sys.exit(main())
