"""A resource manager and its nodes, emulated: workloads, clock, hardware, faults, results.

From Python: ``from cosched_emulator import simulate, study`` (docs/python.md); each public name is imported on first use. The
command line is ``cli``. A run in virtual time goes ``api``, ``run``, ``scenario`` and ``workload`` for its input, ``manager`` and
``couplings`` for its instants, ``results`` for its end; a live manager goes ``live`` and ``users`` instead. Open first:
``api/simulate.py`` or ``live/live_server.py``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cosched_emulator.api.simulate import Run, prepare, simulate
    from cosched_emulator.notebook.comparing import classes, compare, losers, what_if
    from cosched_emulator.run.prepare import Prepared
    from cosched_emulator.scenario.reader import read_scenario
    from cosched_emulator.scenario.schema import Scenario
    from cosched_emulator.studies.runner import study

__all__ = [
    "Prepared", "Run", "Scenario", "classes", "compare", "losers", "prepare", "read_scenario", "simulate", "study", "what_if",
]  # fmt: skip

_MODULES: Final = {
    "Prepared": "run.prepare",
    "Run": "api.simulate",
    "Scenario": "scenario.schema",
    "classes": "notebook.comparing",
    "compare": "notebook.comparing",
    "losers": "notebook.comparing",
    "prepare": "api.simulate",
    "read_scenario": "scenario.reader",
    "simulate": "api.simulate",
    "study": "studies.runner",
    "what_if": "notebook.comparing",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
