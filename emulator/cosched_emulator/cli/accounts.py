"""The commands of the group ``accounts``."""
# Under 60 lines: an entry point, loaded on its own.

from __future__ import annotations

import json
import sys

from cosched_emulator.accounting.rebuild import examine
from cosched_terminal.console import say


def check(file: str, as_json: bool) -> None:
    """Say whether a database is whole."""
    found = examine(file)
    if as_json:
        told = {
            "whole": found.whole,
            "steps": found.steps,
            "confirmed_step": found.confirmed,
            "troubles": list(found.troubles),
        }
        say(json.dumps(told))
    else:
        for trouble in found.troubles:
            say(trouble)
        say(f"{file}: {found.steps} steps are whole" + ("" if found.whole else ", and not all that there was"))
    if not found.whole:
        sys.exit(1)
